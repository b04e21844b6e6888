package follower

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/examples/sampleproduct"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/runner"
)

// trip is what came of a run.
type trip struct {
	runner.Report
	events []string
}

// clientFor is a client that may reach a server, and a task there.
func clientFor(t *testing.T, site, address string, set ...func(*runner.Task, *fetch.Config)) (
	*fetch.Client, runner.Task,
) {
	t.Helper()
	host := strings.TrimPrefix(site, "http://")
	config := fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowHosts: []string{host},
	}
	task := runner.Task{
		RunID: "run_1", URL: address, Task: "Sign up and get a key.", SuccessCriteria: "It works.",
		Credential: "bearer", Hosts: []string{host},
	}
	for _, s := range set {
		s(&task, &config)
	}
	client, err := fetch.New(config)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client, task
}

// follow runs the agent on an address of a server.
func follow(t *testing.T, site, address string, set ...func(*runner.Task, *fetch.Config)) trip {
	t.Helper()
	client, task := clientFor(t, site, address, set...)
	var got trip
	var err error
	got.Report, err = (&Agent{Web: client}).Run(t.Context(), task, func(e runner.Event) {
		got.events = append(got.events, e.Text)
	})
	require.NoError(t, err)
	require.LessOrEqual(t, len(got.Reason), 600)
	if got.Code != "" && !slices.Contains(unquoted, got.Code) {
		require.Regexp(t, `(It says|Published is): \S`, got.Reason, "each stop has a quote")
	}
	return got
}

// unquoted are the rules of stops where nothing was read that could be quoted.
var unquoted = []string{
	ruleNoAnswer, "no_page", ruleNotReachable, ruleUnusable, ruleForeignPause, ruleTime, noSignIn,
}

// said is a trip in a line.
func (r *trip) said() string {
	switch {
	case r.Question != "":
		return "asks: " + r.Question
	case r.Credential != "" && r.Blocked:
		return "key, then " + r.Step + " " + r.Code
	case r.Credential != "":
		return "key"
	default:
		return r.Step + " " + r.Code + ": " + r.Reason
	}
}

// TestEveryVariant: on each variant of the sample product the agent comes to what is written here,
// with the rule that stopped it and what it read.
func TestEveryVariant(t *testing.T) {
	const unread = "key, then execute answer_unusable"
	wanted := map[sampleproduct.Variant]string{
		sampleproduct.Good:        "key",
		sampleproduct.Open:        "key",
		sampleproduct.BadRequest:  "key",
		sampleproduct.ErrorInBody: "key",
		sampleproduct.Login:       "key",
		sampleproduct.Private:     "key",
		sampleproduct.Cached:      "key",
		sampleproduct.Echo:        "key",
		sampleproduct.Hostile:     "key",
		sampleproduct.Exchange:    "key",
		sampleproduct.AgentAuth:   "key",
		sampleproduct.PricingFile: "key",
		sampleproduct.Arazzo:      "key",
		sampleproduct.CodeBlock:   "key",
		sampleproduct.FormOnly:    "key",

		sampleproduct.UnsignedToken: "key",
		sampleproduct.SignedToken:   "key",

		sampleproduct.Bomb:    unread,
		sampleproduct.Endless: unread,
		sampleproduct.EmailCode: "asks: The product has sent a code by e-mail to " +
			"tollgate-37ddff8ee1@agents.example. Which one? (POST /keys/confirm wants \"code\")",
		sampleproduct.Captcha: "acquire_credential captcha: The product wants a CAPTCHA solved " +
			"(POST /captcha/keys → 403). It says: {\"error\":\"captcha\"}",
		sampleproduct.Everything: "discover no_way_published: Nothing published says how a program " +
			"gets a key. It says: <html>Welcome! Your account is waiting.</html>",
		sampleproduct.Unavailable: "discover product_unavailable: The product fails (503). It says: HTTP 503",
		sampleproduct.Limited: "discover rate_limited: The product takes no more requests now (429). " +
			"It says: HTTP 429",
		sampleproduct.Slow: "discover no_answer: the product's page has no answer (time).",
	}
	site := httptest.NewServer(sampleproduct.Site())
	defer site.Close()
	for _, v := range sampleproduct.Variants() {
		t.Run(string(v), func(t *testing.T) {
			got := follow(t, site.URL, site.URL+"/"+string(v)+"/",
				func(_ *runner.Task, c *fetch.Config) {
					if v == sampleproduct.Slow {
						c.Timeout = 200 * time.Millisecond
					}
				})
			require.Equal(t, wanted[v], got.said(), got.events)
			if got.Credential != "" {
				if v != sampleproduct.SignedToken && v != sampleproduct.UnsignedToken {
					require.True(t, strings.HasPrefix(got.Credential, sampleproduct.KeyPrefix))
				}
				require.NotContains(t, strings.Join(got.events, " ")+got.Reason, got.Credential)
			}
		})
	}
	whole := httptest.NewServer(sampleproduct.New(sampleproduct.Everything))
	defer whole.Close()
	got := follow(t, whole.URL, whole.URL+"/")
	require.Equal(t, "discover answers_everything", got.Step+" "+got.Code)
}

// TestWaysAreFollowed: each published way is the one that is gone, and the call for which the key
// is made follows where one is described.
func TestWaysAreFollowed(t *testing.T) {
	site := httptest.NewServer(sampleproduct.Site())
	defer site.Close()
	for v, wanted := range map[sampleproduct.Variant]string{
		sampleproduct.Good: "follows openapi: /good/openapi.json, POST /good/keys",
		sampleproduct.AgentAuth: "follows agent_auth: /.well-known/oauth-protected-resource/agent_auth, " +
			"POST /agent_auth/keys",
		sampleproduct.PricingFile: "follows pricing: /pricing_json/pricing.json, POST /pricing_json/keys",
		sampleproduct.Arazzo:      "follows arazzo: /arazzo/arazzo.json",
		sampleproduct.CodeBlock:   "follows code_block: /code_block/, POST /code_block/keys",
	} {
		got := follow(t, site.URL, site.URL+"/"+string(v)+"/")
		require.Contains(t, got.events, wanted, v)
		require.NotEmpty(t, got.Credential, v)
	}
	got := follow(t, site.URL, site.URL+"/good/")
	require.Equal(t, "GET /good/me → 200", got.events[len(got.events)-1])
}

// TestThePersonsCode: what a person answers goes into the request that it was missing in; nobody's
// answer, and a wrong one, end the run.
func TestThePersonsCode(t *testing.T) {
	product := httptest.NewServer(sampleproduct.New(sampleproduct.EmailCode))
	defer product.Close()
	asked := follow(t, product.URL, product.URL+"/")
	require.NotEmpty(t, asked.Question, asked.events)
	mail, err := http.Get(product.URL + "/mailbox")
	require.NoError(t, err)
	defer func() { require.NoError(t, mail.Body.Close()) }()
	var shown struct{ Mails []struct{ Code string } }
	require.NoError(t, decode(mail, &shown))
	resume := func(answer string) trip {
		return follow(t, product.URL, product.URL+"/", func(task *runner.Task, _ *fetch.Config) {
			task.Checkpoint, task.Answer = asked.Checkpoint, answer
		})
	}
	silent := resume(" ")
	require.Equal(t, "email_code", silent.Code)
	wrong := resume("000000")
	require.Equal(t, "signup_refused", wrong.Code)
	require.Contains(t, wrong.Reason, "wrong_code")
	right := resume(shown.Mails[0].Code)
	require.Equal(t, "key", right.said())
	require.Equal(t, "GET /me → 200", right.events[len(right.events)-1])
}

// TestTasksWithoutAKey: prose is not followed.
func TestTasksWithoutAKey(t *testing.T) {
	got := follow(t, "http://127.0.0.1:1", "http://127.0.0.1:1/", func(task *runner.Task, _ *fetch.Config) {
		task.Credential = ""
	})
	require.Equal(t, "no_rule_for_task", got.Code)
	require.Empty(t, got.events)
}

// TestACancelledRun ends as one that the service could not carry through.
func TestACancelledRun(t *testing.T) {
	client, err := fetch.New(fetch.Config{})
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = (&Agent{Web: client}).Run(ctx, runner.Task{
		URL: "https://product.example/", Credential: "bearer", Hosts: []string{"product.example"},
	}, func(runner.Event) {})
	require.ErrorIs(t, err, runner.ErrUnavailable)
}
