package follower

import (
	"net/http"

	"tollgate/server/inspect/extract"
	"tollgate/server/inspect/fill"
	"tollgate/server/inspect/signup"
	"tollgate/server/inspect/tree"
)

// agentAuth are the agent_auth blocks of OAuth's metadata: an agent registers anonymously and is
// given a credential, or an assertion that the token endpoint takes for one.
func (p *published) agentAuth() (ways []way) {
	for i := range p.metadata {
		m := &p.metadata[i]
		a, is := signup.AgentAuthOf(m.root)
		address := extract.Resolved(m.url, a.URL)
		if !is || address == "" {
			continue
		}
		w := way{kind: "agent_auth", at: m.url, quote: a.Block.Quote(m.text, maxQuote)}
		if a.Identities != nil {
			w.why = &stop{
				step: stepAcquire, rule: ruleIdentity,
				reason: "The product registers no agent without an identity that somebody vouches for.",
				quote:  a.Identities.Quote(m.text, maxQuote),
			}
			ways = append(ways, w)
			continue
		}
		body := map[string]any{"type": "anonymous"}
		for _, kind := range a.Block.Of("anonymous").Of("credential_types_supported").List() {
			if kind.AsText() == "api_key" {
				body["requested_credential_type"] = "api_key"
			}
		}
		for j := range p.metadata {
			if w.tokens == "" {
				w.tokens = extract.Resolved(p.metadata[j].url, p.metadata[j].root.TextOf("token_endpoint"))
			}
		}
		w.first = &fill.Request{
			Method: http.MethodPost, URL: address, Media: "application/json", Body: body,
		}
		ways = append(ways, w)
	}
	return ways
}

// provisioning are the provisioning blocks of pricing.json: where a plan is begun by a request.
func (p *published) provisioning() (ways []way) {
	for i := range p.prices {
		m := &p.prices[i]
		for _, block := range signup.Provisions(m.root) {
			if w := p.provision(m, &block); w != nil {
				ways = append(ways, *w)
			}
		}
	}
	return ways
}

func (p *published) provision(m *paper, said *signup.Provision) *way {
	address, block := extract.Resolved(m.url, said.URL), said.Block
	if address == "" {
		return nil
	}
	w := &way{kind: "pricing", at: m.url, quote: block.Quote(m.text, maxQuote)}
	if name := block.TextOf("credentialField"); name != "" {
		w.hints = []string{name}
	}
	request, why := p.fill.Provision(m.root, said, address)
	w.first, w.why = request, unmade(why)
	return w
}

// referenceIn follows references within a document.
func referenceIn(root *tree.Node) func(*tree.Node) *tree.Node {
	return func(n *tree.Node) *tree.Node { return signup.Referred(root, n) }
}
