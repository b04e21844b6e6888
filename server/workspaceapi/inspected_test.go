package workspaceapi

import (
	"context"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"tollgate/server"
	"tollgate/server/inspect"
	"tollgate/server/inspect/document"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/runner"
	"tollgate/server/provider/runner/follower"
	"tollgate/server/provider/verify"
)

// publicDoor reaches the node of a test by its public name, as the world does: what it publishes
// names itself by that.
type publicDoor struct {
	*fetch.Client
	addr string
}

// Do asks the node for what is asked of its public name.
func (p *publicDoor) Do(ctx context.Context, r *fetch.Request) (*fetch.Response, error) {
	there := *r
	there.URL = strings.Replace(r.URL, publicURL, "http://"+p.addr, 1)
	if u, err := url.Parse("http://" + p.addr); err == nil && there.URL != r.URL {
		there.Port = fetch.PortIn(u)
	}
	a, err := p.Client.Do(ctx, &there)
	if a != nil {
		a.URL = strings.Replace(a.URL, "http://"+p.addr, publicURL, 1)
	}
	return a, err
}

// TestWeInspectOurselves: what we ask of products we publish ourselves. A node inspects itself,
// over loopback.
func TestWeInspectOurselves(t *testing.T) {
	client, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	require.NoError(t, err)
	door := &publicDoor{Client: client}
	n := start(t, func(c *Config) { c.Inspector = inspect.New(door, nil) })
	door.addr = n.addr
	t.Cleanup(client.Close) // before the node, which waits for open connections
	c := n.signUp("")
	a := c.call("POST", "/v1/interface", `{"url":"`+publicURL+`/"}`).is(200, "")
	text, err := json.Marshal(a.at("inspection"))
	require.NoError(t, err)
	var d document.Document
	require.NoError(t, json.Unmarshal(text, &d))
	suggested := c.call("GET", "/v1/runs/"+a.at("run", "id").(string)+"/suggested-test", "").is(200, "")
	require.Equal(t, publicURL+"/v1/account", suggested.at("suggestedTest", "url"))
	for what, e := range map[string]document.Evaluation{
		"website": d.Interfaces.Website, "api": d.Interfaces.API,
		"set-up": d.Auth.Understandable, "index": d.MachineAccess.Index,
		"crawlers": d.MachineAccess.CrawlersAllowed,
	} {
		require.Equal(t, document.Yes, e.Verdict, "%s: %s (%s)", what, e.Reason, e.Rule)
	}
	require.Equal(t, document.RequirementMixed, d.Required.Value, d.Required.Reason)
	byName := map[string]document.Requirement{}
	for _, o := range d.Required.Operations {
		require.NotEqual(t, document.RequirementUnknown, o.Value, o.Operation)
		byName[o.Operation] = o.Value
	}
	require.Equal(t, document.RequirementNone, byName["POST /v1/signup"])
	require.Equal(t, document.RequirementRequired, byName["POST /v1/flows"])
	require.Equal(t, "Tollgate", d.Product.Name.Value)
	require.NotEmpty(t, d.Capabilities)

	home := n.send("GET", "/", "", "", nil)
	require.Equal(t, 200, home.status)
	require.True(t, strings.HasPrefix(string(home.raw), "<!doctype html>"))
}

// TestTheBuiltInAgentSignsUpHere: the agent that follows what a product publishes gets a key of our
// own, by our own documents, and five calls of the verification say that it works.
func TestTheBuiltInAgentSignsUpHere(t *testing.T) {
	client, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		AllowHosts:   []string{"127.0.0.1:*"},
	})
	require.NoError(t, err)
	verifier := &verify.Verifier{Fetch: client, Pause: time.Millisecond}
	n := start(t, func(c *Config) {
		c.Verifier, c.Check = verifier, client.CheckAt
		c.Agents = []Agent{{Name: "http", Kind: "http", Version: "1"}}
	})
	t.Cleanup(client.Close)
	n.work(t, n.group, verifier, map[string]runner.Agent{"http": &follower.Agent{Web: client}})
	c := n.signUp("")
	c.claim()
	base := "http://" + n.addr
	flow := c.flow(`{` + strings.Replace(flowText, "https://product.example/", base+"/", 1) +
		`,"credential":"bearer","verification":{"url":"` + base + `/v1/account","contains":"workspace"}}`)
	c.operate("/flows/"+flow+"/confirm-signup", "")
	a := c.ended(flow, "key-00001")
	require.Equal(t, "passed", a.at("run", "outcome"), string(a.raw))
	require.Equal(t, "run", a.at("run", "verification", "proof"))
	var told []string
	for _, e := range a.at("run", "events").([]any) {
		told = append(told, e.(map[string]any)["text"].(string))
	}
	require.Contains(t, told, "follows openapi: /openapi.json, POST /v1/signup")
	require.Contains(t, told, "GET /v1/account → 200")
	require.NotContains(t, string(a.raw), server.KeyPrefixWorkspace+"_")
}
