package workspaceapi

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/workspace"
	"tollgate/server/provider/runner"
)

const (
	testName = "qa@acme.example"
	testPass = "Pass-4711-word"
	testNote = "Choose the tenant Zorro-99 first."
)

var testAccess = `{"username":"` + testName + `","password":"` + testPass + `","note":"` +
	testNote + `"}`

// refuseAccess provokes the refusals of test credentials.
func refuseAccess(t *testing.T, is provoked) {
	n := start(t)
	ada, c := owned(n)
	const path = "/v1/test-access/product.example"
	for _, method := range []string{"PUT", "DELETE"} {
		is(c.call(method, path, testAccess), 403, "person_required")
	}
	is(c.call("GET", "/v1/test-access", ""), 403, "person_required")
	is(ada.call("DELETE", path, ""), 404, "not_found")
	for _, host := range []string{"a%2Fb", "u:p@a.example", "a.example:0", "a.example%3Fx", "%20"} {
		is(ada.call("PUT", "/v1/test-access/"+host, testAccess), 400, "invalid_field")
	}
	long := strings.Repeat("x", 500)
	account := func(name, password, note string) string {
		return `{"username":"` + name + `","password":"` + password + `","note":"` + note + `"}`
	}
	for body, code := range map[string]string{
		`{}`: "invalid_field", `{"username":"a"}`: "invalid_field",
		account("", "b", ""):                       "invalid_field",
		`{"username":"a","password":"b","more":1}`: "unexpected_field",
		account("a", long+"x", ""):                 "invalid_field",
		account("a", "b", long+"x"):                "invalid_field",
		account(long[:250], long, long):            "invalid_field",
	} {
		is(ada.call("PUT", path, body), 400, code)
	}
	require.Empty(t, ada.call("GET", "/v1/test-access", "").is(200, "").at("testAccess"))
	for i := range workspace.MaxTestAccess {
		ada.call("PUT", fmt.Sprintf("/v1/test-access/h%d.example", i), testAccess).is(200, "")
	}
	is(ada.call("PUT", path, testAccess), 409, "test_access_limit")
	ada.call("PUT", "/v1/test-access/h7.example", testAccess).is(200, "") // in place of those
	ada.call("DELETE", "/v1/test-access/h7.example", "").is(200, "")
	ada.call("PUT", path, testAccess).is(200, "")
}

// TestTestCredentialsReachTheirRun: and nobody else: neither keys nor the owner are ever shown
// them, and no log, snapshot, event, reason, question or answer has them, however an agent says
// them.
func TestTestCredentialsReachTheirRun(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var given []runner.Account
	said := []string{
		"signs in as " + testName + " with " + testPass, strings.ToUpper(testPass), "Zorro-99",
		"UGFzcy00NzExLXdvcmQ=", "drow-1174-ssaP",
	}
	n, base := working(t, func(_ context.Context, task runner.Task, emit sink) (
		runner.Report, error,
	) {
		if task.Account == nil {
			return runner.Report{}, runner.ErrUnavailable
		}
		mu.Lock()
		given = append(given, *task.Account)
		mu.Unlock()
		for _, text := range said {
			emit(runner.Event{At: time.Now(), Text: text})
		}
		if task.Checkpoint == nil {
			return runner.Report{Question: "Is it " + testPass + "?", Checkpoint: []byte(testPass)}, nil
		}
		return runner.Report{
			Blocked: true, Step: testPass, Code: "x", Reason: testName + " " + testPass, Reached: true,
		}, nil
	})
	ada, c := owned(n)
	host := strings.TrimPrefix(base, "http://")
	id := c.flow(`{` + strings.Replace(strings.Replace(flowText, "https://product.example", base, 1),
		`"public"`, `"test_account"`, 1) + `,"verification":{"url":"` + base +
		`/me","status":200,"contains":"done"}}`)
	require.Equal(t, "test_access_missing", c.quote(id)["reason"])
	require.Equal(t, "test_access_missing", c.keyed("/v1/flows/"+id+"/run", "too-early",
		`{"fingerprint":"`+c.quote(id)["fingerprint"].(string)+`"}`).is(409, "execution_unavailable").
		at("reason"))
	stored := ada.call("PUT", "/v1/test-access/"+host, testAccess).is(200, "").at("testAccess").([]any)
	require.Equal(t, host, stored[0].(map[string]any)["host"])
	require.Len(t, stored[0], 2, "a host, and since when")
	require.Equal(t, []any{host}, c.call("GET", "/v1/execution", "").at("execution", "testAccess"))
	require.Equal(t, true, c.quote(id)["executionAvailable"])

	waits := c.ended(id, "first-run")
	require.Equal(t, "waiting_for_human", waits.at("run", "status"))
	run := waits.at("run", "id").(string)
	// Replaced while it waits: what the run had before must not be repeated either.
	ada.call("PUT", "/v1/test-access/"+host, `{"username":"second","password":"other-0815-pass"}`).
		is(200, "")
	c.call("POST", "/v1/runs/"+run+"/resume", `{}`).is(202, "")
	ended := c.until(run, func(status string) bool {
		return status == "completed" || status == "failed"
	})
	require.Equal(t, "blocked", ended.at("run", "outcome"))
	mu.Lock()
	require.Equal(t, []runner.Account{
		{Host: host, Username: testName, Password: testPass, Note: testNote},
		{Host: host, Username: "second", Password: "other-0815-pass"},
	}, given)
	mu.Unlock()
	acts, _ := n.Machine.Acts(1, workspace.Page{Limit: 10})
	require.Equal(t, "set_test_access", acts[0].Action)
	require.Equal(t, host, acts[0].Note)
	kept := n.Log() + string(enginetest.Snapshot(t, n.Machine)) + string(ended.raw) +
		string(waits.raw) + string(c.call("GET", "/v1/issues", "").raw) + fmt.Sprint(acts)
	for _, secret := range append(said[1:], testName, testPass, "other-0815-pass") {
		require.NotContains(t, kept, secret)
	}

	// Taken away while a run waits: it cannot go on.
	waits = c.ended(id, "second-run")
	ada.call("DELETE", "/v1/test-access/"+host, "").is(200, "")
	c.call("POST", "/v1/runs/"+waits.at("run", "id").(string)+"/resume", `{}`).
		is(409, "resume_unavailable")
	require.Equal(t, "test_access_missing", c.quote(id)["reason"])
	require.Empty(t, c.call("GET", "/v1/execution", "").at("execution", "testAccess"))
}

// TestAQueuedRunWithoutCredentials: those that are taken away before a worker has the run end it,
// and cost nothing.
func TestAQueuedRunWithoutCredentials(t *testing.T) {
	n, verifier, base := idleNode(t)
	ada, c := owned(n)
	host := strings.TrimPrefix(base, "http://")
	id := c.flow(`{` + strings.Replace(strings.Replace(flowText, "https://product.example", base, 1),
		`"public"`, `"test_account"`, 1) + `,"verification":{"url":"` + base +
		`/done","status":200,"contains":"done"}}`)
	ada.call("PUT", "/v1/test-access/"+host, testAccess).is(200, "")
	run := c.start(id, "only-run").is(202, "").at("run", "id").(string)
	ada.call("DELETE", "/v1/test-access/"+host, "").is(200, "")
	n.work(t, n.group, verifier, map[string]runner.Agent{
		"clever": agentFunc(func(context.Context, runner.Task, sink) (runner.Report, error) {
			return runner.Report{}, nil
		}),
	})
	a := c.until(run, func(status string) bool { return status == "failed" })
	require.Equal(t, "test_access_missing", a.at("run", "reasonCode"))
	require.Equal(t, "returned", a.at("run", "charge", "state"))
}

// TestHostsAreNamedAsFlowsNameThem: whichever way an owner writes one.
func TestHostsAreNamedAsFlowsNameThem(t *testing.T) {
	for text, want := range map[string]string{
		"App.Example.com": "app.example.com", "app.example.com:443": "app.example.com",
		"app.example.com:80": "app.example.com", "127.0.0.1:8090": "127.0.0.1:8090",
		"app.example.com:8080": "app.example.com:8080",
	} {
		host, ok := hostNamed(text)
		require.True(t, ok, text)
		require.Equal(t, want, host)
	}
	for _, text := range []string{"", "a/b", "a?b", "a#b", "u@a", "a b", "a:99999"} {
		_, ok := hostNamed(text)
		require.False(t, ok, text)
	}
}
