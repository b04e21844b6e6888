package workspaceapi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/workspace"
)

// TestAFingerprintIsOfAllThatWasQuoted: each thing that a quote says, once changed, makes another
// fingerprint and the old one void; changed back, it is good again. What a quote does not say does
// not matter.
func TestAFingerprintIsOfAllThatWasQuoted(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	c.claim()
	c.operate("/credits", `{"amount":100}`)
	flow := c.flow(plainFlow)
	old := c.quote(flow)["fingerprint"].(string)
	begin := func(key string) answer {
		return c.keyed("/v1/flows/"+flow+"/run", key, `{"fingerprint":"`+old+`"}`)
	}
	agents := n.api.agents
	for name, change := range map[string]func(p *workspace.SetPolicy){
		"price":   func(p *workspace.SetPolicy) { p.RunCents++ },
		"credits": func(p *workspace.SetPolicy) { p.CreditsRun++ },
		"wall":    func(p *workspace.SetPolicy) { p.WallMS += 1000 },
		"human":   func(p *workspace.SetPolicy) { p.HumanMS += 1000 },
		"agent":   func(*workspace.SetPolicy) { n.api.agents = agents[1:] },
		"its version": func(*workspace.SetPolicy) {
			n.api.agents = []Agent{
				{Name: "clever", Kind: "exec", Version: "2"},
			}
		},
		"its kind": func(*workspace.SetPolicy) {
			n.api.agents = []Agent{
				{Name: "clever", Kind: "other", Version: "1"},
			}
		},
	} {
		before := n.Machine.Policy()
		n.policy(change)
		require.NotEqual(t, old, c.quote(flow)["fingerprint"], name)
		begin("start-one").is(409, "quote_changed")
		n.policy(func(p *workspace.SetPolicy) { *p = before })
		n.api.agents = agents
		require.Equal(t, old, c.quote(flow)["fingerprint"], name)
	}
	n.policy(func(p *workspace.SetPolicy) { p.RunsPerDay++; p.QueueLimit++ })
	begin("start-one").is(202, "")
}
