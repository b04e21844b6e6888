package workspaceapi

import (
	"cmp"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/examples/sampleproduct"
	"tollgate/server/inspect"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/runner"
	"tollgate/server/provider/runner/follower"
	"tollgate/server/provider/verify"
)

// TestSampleProducts runs the same flow on every variant of the sample product, with the built-in
// agent.
func TestSampleProducts(t *testing.T) {
	t.Parallel()
	wanted := map[sampleproduct.Variant]string{
		sampleproduct.Good:        "completed passed",
		sampleproduct.BadRequest:  "completed passed",
		sampleproduct.ErrorInBody: "completed passed",
		sampleproduct.Login:       "completed passed",
		sampleproduct.Private:     "completed passed",
		sampleproduct.Echo:        "completed passed",
		sampleproduct.Cached:      "completed inconclusive answers_without_key",
		sampleproduct.Bomb:        "completed inconclusive verification_unavailable",
		sampleproduct.Captcha:     "completed blocked captcha",
		sampleproduct.EmailCode:   "waiting_for_human",
		sampleproduct.Open:        "execution_unavailable verification_open",
		sampleproduct.Everything:  "execution_unavailable verification_open",
		sampleproduct.Unavailable: "execution_unavailable verification_open",
		sampleproduct.Limited:     "execution_unavailable verification_open",
		sampleproduct.Slow:        "execution_unavailable verification_open",
		sampleproduct.Endless:     "completed inconclusive verification_unavailable",
		sampleproduct.Exchange:    "completed passed",
		sampleproduct.Hostile:     "completed passed",
		sampleproduct.SignedToken: "completed passed",
		sampleproduct.AgentAuth:   "completed passed",
		sampleproduct.PricingFile: "completed passed",
		sampleproduct.Arazzo:      "completed passed",
		sampleproduct.CodeBlock:   "completed passed",

		// They look only at a key's form, or never check a signature.
		sampleproduct.FormOnly:      "completed inconclusive answers_wrong_key",
		sampleproduct.UnsignedToken: "completed inconclusive answers_wrong_key",
	}
	site := httptest.NewServer(sampleproduct.Site())
	defer site.Close()
	for _, variant := range sampleproduct.Variants() {
		t.Run(string(variant), func(t *testing.T) {
			require.Equal(t, wanted[variant], runOn(t, site.URL, variant))
		})
	}
}

// runOn says what a run of a flow with a key comes to.
func runOn(t *testing.T, site string, variant sampleproduct.Variant) string {
	base := site + "/" + string(variant)
	config := fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		AllowHosts:   []string{strings.TrimPrefix(site, "http://")},
	}
	if variant == sampleproduct.Slow {
		config.Timeout = 100 * time.Millisecond
	}
	client, err := fetch.New(config)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	verifier := &verify.Verifier{Fetch: client, Pause: time.Millisecond}
	n := start(t, func(c *Config) {
		c.Verifier, c.Check = verifier, client.CheckAt
		c.Agents = []Agent{{Name: "http", Kind: "http", Version: "1"}}
	})
	n.work(t, n.group, verifier, map[string]runner.Agent{"http": &follower.Agent{Web: client}})
	c := n.signUp("")
	c.claim()
	flow := c.flow(`{` + strings.Replace(flowText, "https://product.example/", base+"/", 1) +
		`,"credential":"bearer","verification":{"url":"` + base + `/me","contains":"account"}}`)
	c.operate("/flows/"+flow+"/confirm-signup", "")
	begun := c.start(flow, "key-00001")
	if begun.status != 202 {
		return begun.at("error").(string) + " " + begun.at("reason").(string)
	}
	a := c.until(begun.at("run", "id").(string), func(status string) bool {
		return status != "queued" && status != "running"
	})
	require.NotContains(t, string(a.raw), sampleproduct.KeyPrefix)
	said := a.at("run", "status").(string)
	for _, name := range []string{"outcome", "reasonCode"} {
		if text, ok := a.at("run", name).(string); ok {
			said += " " + text
		}
	}
	return said
}

// TestEvaluationsOfSampleProducts: what an evaluation says of each sample product's way to a key;
// no agent runs.
func TestEvaluationsOfSampleProducts(t *testing.T) {
	t.Parallel()
	const unreachable = "target_unreachable" // neither an evaluation nor a run begins
	wanted := map[sampleproduct.Variant]string{
		sampleproduct.EmailCode:   "needs_input credential_needs_person",
		sampleproduct.Everything:  "unknown credential_setup_unclear",
		sampleproduct.Unavailable: unreachable,
		sampleproduct.Limited:     unreachable,
		sampleproduct.Slow:        unreachable,
		// Nothing that the product publishes speaks of the CAPTCHA, which stops the agent.
		sampleproduct.Captcha: "success credential_self_service",
	}
	client, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		AllowHosts:   []string{"127.0.0.1:*"},
		Timeout:      time.Second,
	})
	require.NoError(t, err)
	n := start(t, func(c *Config) { c.Inspector, c.Check = inspect.New(client, nil), client.CheckAt })
	t.Cleanup(client.Close)
	c := n.signUp("")
	for _, variant := range sampleproduct.Variants() {
		product := httptest.NewServer(sampleproduct.New(variant))
		t.Cleanup(product.Close)
		a := c.call("POST", "/v1/evaluate", `{"url":"`+product.URL+`/","task":"Get a key."}`)
		if a.status != 200 {
			require.Equal(t, wanted[variant], a.at("error"), variant)
			continue
		}
		stage := a.at("journey", "stages").([]any)[3].(map[string]any)
		require.Equal(t, "acquire_credential", stage["stage"])
		require.Equal(t, cmp.Or(wanted[variant], "success credential_self_service"),
			fmt.Sprint(stage["status"], " ", stage["rule"]), "%s: %s", variant, stage["reason"])
	}
}
