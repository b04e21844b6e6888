package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/examples/sampleproduct"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/runner"
)

// asAgent makes the test's own program the agent.
const asAgent = "be-the-agent"

// TestMain is the agent of a test, and what keeps it.
func TestMain(m *testing.M) {
	if code, called := runner.Called(os.Args); called {
		os.Exit(code)
	}
	if len(os.Args) == 2 && os.Args[1] == asAgent {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// agentFor is the agent as a node runs it: kept, behind the run's own proxy. A machine without
// Chromium fails, and says what to install.
func agentFor(t *testing.T, site, address string) (*runner.Exec, runner.Task) {
	t.Helper()
	host := strings.TrimPrefix(site, "http://")
	web, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowHosts: []string{host},
	})
	require.NoError(t, err)
	t.Cleanup(web.Close)
	self, err := os.Executable()
	require.NoError(t, err)
	return &runner.Exec{Command: []string{self, asAgent}, Folder: t.TempDir(), Web: web}, runner.Task{
		RunID: "run_1", URL: address, Task: "Sign up and get a key.", SuccessCriteria: "It works.",
		Credential: "bearer", Hosts: []string{host},
	}
}

// trip runs the agent.
func trip(t *testing.T, site, address string, set ...func(*runner.Task)) (
	runner.Report, []string, error,
) {
	t.Helper()
	agent, task := agentFor(t, site, address)
	for _, s := range set {
		s(&task)
	}
	var events []string
	report, err := agent.Run(t.Context(), task, func(e runner.Event) {
		events = append(events, e.Text)
	})
	return report, events, err
}

// TestTheFormOfTheSampleProduct: in a real browser the agent signs up by the form, stops at a
// CAPTCHA, asks for the code of an e-mail and goes on with it.
func TestTheFormOfTheSampleProduct(t *testing.T) {
	_, err := findBrowser()
	require.NoError(t, err)
	site := httptest.NewServer(sampleproduct.Site())
	defer site.Close()
	of := func(v sampleproduct.Variant) string { return site.URL + "/" + string(v) + "/signup" }
	report, events, err := trip(t, site.URL, of(sampleproduct.Good))
	require.NoError(t, err, events)
	require.True(t, strings.HasPrefix(report.Credential, sampleproduct.KeyPrefix), "%v %v", report, events)
	require.NotContains(t, strings.Join(events[:len(events)-1], " "), report.Credential)

	report, events, err = trip(t, site.URL, of(sampleproduct.Captcha))
	require.NoError(t, err, events)
	require.Equal(t, runner.Report{
		Blocked: true, Reached: true, Step: "acquire_credential", Code: "captcha",
		Reason: `The product wants a CAPTCHA solved. The page says "Sign up" (200).`,
	}, report)

	asked, events, err := trip(t, site.URL, of(sampleproduct.EmailCode))
	require.NoError(t, err, events)
	require.Equal(t, `The product has sent a code by e-mail to tollgate-37ddff8ee1@agents.example. `+
		`Which one? ("Code")`, asked.Question, "%v", events)
	resume := func(answer string) func(*runner.Task) {
		return func(t *runner.Task) { t.Checkpoint, t.Answer = asked.Checkpoint, answer }
	}
	report, _, err = trip(t, site.URL, of(sampleproduct.EmailCode), resume(" "))
	require.NoError(t, err)
	require.Equal(t, "email_code", report.Code, report.Reason)
	report, events, err = trip(t, site.URL, of(sampleproduct.EmailCode), resume(code(t, site.URL)))
	require.NoError(t, err)
	require.NotEmpty(t, report.Credential, "%v %v", report, events)
}

// code is the one that stands in the mailbox.
func code(t *testing.T, site string) string {
	answer, err := http.Get(site + "/email_code/mailbox")
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, errors.Join(err, answer.Body.Close()))
	var shown struct{ Mails []struct{ Code string } }
	require.NoError(t, json.Unmarshal(body, &shown))
	return shown.Mails[0].Code
}

// TestTheBrowserKeepsToTheHosts: a page that leads elsewhere, and loads from elsewhere, does not
// get there: the run's proxy refuses it.
func TestTheBrowserKeepsToTheHosts(t *testing.T) {
	reached := make(chan string, 10)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		reached <- r.URL.Path
	}))
	defer other.Close()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, err := io.WriteString(w, `<h1>Welcome</h1><img src="`+other.URL+`/picture">
<a href="`+other.URL+`/signup">Sign up</a><script>fetch("`+other.URL+`/script")</script>`)
		require.NoError(t, err)
	}))
	defer site.Close()
	report, events, err := trip(t, site.URL, site.URL+"/")
	require.Empty(t, reached)
	require.NoError(t, err, events)
	require.Equal(t, "no_way_published", report.Code, "%v", events)
}

// TestTasksWithoutAKey need no browser.
func TestTasksWithoutAKey(t *testing.T) {
	report, _, err := trip(t, "http://127.0.0.1:1", "http://127.0.0.1:1/", func(t *runner.Task) {
		t.Credential = ""
	})
	require.NoError(t, err)
	require.Equal(t, "no_rule_for_task", report.Code)
}

// TestATestAccountIsNotPassedOver: who only signs up does not sign up in place of signing in.
func TestATestAccountIsNotPassedOver(t *testing.T) {
	report, _, err := trip(t, "http://127.0.0.1:1", "http://127.0.0.1:1/", func(t *runner.Task) {
		t.Account = &runner.Account{Host: "127.0.0.1:1", Username: "qa", Password: "p"}
	})
	require.NoError(t, err)
	require.Equal(t, "signs_up_only", report.Code)
	require.False(t, report.Blocked)
}
