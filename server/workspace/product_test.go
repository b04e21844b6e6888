package workspace

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/provider/fetch"
	"tollgate/server/provider/runner"
	"tollgate/server/provider/runner/sampleproduct"
	"tollgate/server/provider/verify"
)

// follower is an agent that asks the sample product for a key and says what came of it.
func follower(_ context.Context, t runner.Task, tell teller) (r runner.Report, err error) {
	answer, err := http.Post(strings.TrimSuffix(t.URL, "/")+"/keys", "application/json", nil)
	if err != nil {
		return r, err
	}
	text, err := io.ReadAll(answer.Body)
	if closed := answer.Body.Close(); err == nil {
		err = closed
	}
	tell(runner.Event{At: time.Now(), Text: answer.Status})
	switch body := string(text); {
	case strings.Contains(body, "captcha"):
		return runner.Report{Blocked: true, Step: "acquire_credential", Code: "captcha"}, err
	case strings.Contains(body, "email_code"):
		return runner.Report{Question: "Which code was sent?", Checkpoint: []byte("code")}, err
	}
	return runner.Report{Credential: sampleproduct.Key}, err
}

// TestSampleProducts runs the same flow on every variant of the sample product.
func TestSampleProducts(t *testing.T) {
	for variant, want := range map[sampleproduct.Variant]string{
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
	} {
		t.Run(string(variant), func(t *testing.T) {
			product := httptest.NewServer(sampleproduct.New(variant))
			defer product.Close()
			require.Equal(t, want, runOn(t, product.URL))
		})
	}
}

// runOn says what a run of a flow with a key comes to.
func runOn(t *testing.T, base string) string {
	client, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		AllowHosts:   []string{strings.TrimPrefix(base, "http://")},
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	verifier := &verify.Verifier{Fetch: client, Pause: time.Millisecond}
	n := start(t, func(c *Config) {
		c.Verifier, c.Check = verifier, client.Check
		c.Agents = []Agent{{"follower", "exec", "1"}}
	})
	n.work(t, verifier, map[string]runner.Agent{"follower": agentFunc(follower)})
	c := n.signUp("")
	c.claim()
	flow := c.flow(`{` + strings.Replace(flowText, "https://product.example", base, 1) +
		`,"credential":"bearer","verification":{"url":"` + base + `/me","contains":"account"}}`)
	c.operate("/flows/"+flow+"/confirm-signup", "")
	begun := c.start(flow, "key-00001")
	if begun.status != 202 {
		return begun.at("error").(string) + " " + begun.at("reason").(string)
	}
	a := c.until(begun.at("run", "id").(string), func(status string) bool {
		return status != "queued" && status != "running"
	})
	require.NotContains(t, string(a.raw), sampleproduct.Key)
	said := a.at("run", "status").(string)
	for _, name := range []string{"outcome", "reasonCode"} {
		if text, ok := a.at("run", name).(string); ok {
			said += " " + text
		}
	}
	return said
}
