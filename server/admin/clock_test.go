package admin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/client"
)

// clock is the sandbox's time.
func (n *node) clock() time.Time {
	n.t.Helper()
	text := n.call("GET", sandbox+"clock", "").is(200, "").data()["now"].(string)
	now, err := time.Parse(time.RFC3339, text)
	require.NoError(n.t, err)
	return now
}

// advance moves the sandbox's clock by a number of days.
func (n *node) advance(days int) answer {
	n.t.Helper()
	return n.advanceTo(n.clock().AddDate(0, 0, days))
}

// advanceTo moves the sandbox's clock to an instant.
func (n *node) advanceTo(to time.Time) answer {
	n.t.Helper()
	text := to.Format(time.RFC3339Nano)
	return n.call("POST", sandbox+"clock", `{"advanceTo":"`+text+`"}`)
}

// invoices lists the invoices of the customer ada as a client sees them.
func (n *node) invoices(key string) []any {
	n.t.Helper()
	return n.send("GET", client.Prefix+"/billing/invoices/ada", "", key, "").is(200, "").list()
}

func TestTheClockAnswersWhenAllThatIsDueHasHappened(t *testing.T) {
	n := start(t)
	key := n.furnish()
	n.subscribe(key)
	before := n.clock()
	a := n.advance(40).is(200, "")
	require.Equal(t, true, a.data()["settled"])
	require.EqualValues(t, 1, a.data()["invoicesIssued"])
	require.EqualValues(t, 2, a.data()["invoicesPastDue"])
	require.EqualValues(t, 1, a.data()["subscriptionsSuspended"])
	require.NotContains(t, a.data(), "subscriptionsEnded")
	require.NotContains(t, n.call("GET", sandbox+"clock", "").data(), "invoicesIssued")
	require.WithinDuration(t, before.AddDate(0, 0, 40), n.clock(), 10*time.Second)
	invoices := n.invoices(key)
	require.Len(t, invoices, 2, "the period ended, and its invoice is there")
	require.Equal(t, "PAST_DUE", invoices[0].(map[string]any)["status"])
	require.Contains(t, n.call("GET", "audit?limit=1", "").raw, "clock.advanced")

	n.NoTicks.Store(true)
	answered := make(chan answer, 1)
	to := n.clock().AddDate(0, 1, 0).Format(time.RFC3339Nano)
	go func() { answered <- n.call("POST", sandbox+"clock", `{"advanceTo":"`+to+`"}`) }()
	require.Eventually(t, func() bool {
		return n.call("GET", sandbox+"clock", "").data()["settled"] == false
	}, 5*time.Second, 5*time.Millisecond)
	require.Empty(t, answered, "nothing that is due has happened yet")
	n.NoTicks.Store(false)
	n.Tick()
	a = <-answered
	a.is(200, "")
	require.Len(t, n.invoices(key), 3)
}

func TestAClockThatSettlesTooSlowlySaysSo(t *testing.T) {
	n := start(t)
	key := n.furnish()
	n.subscribe(key)
	n.NoTicks.Store(true)
	n.advance(40).is(503, "clock_settling")
	to := time.Now().AddDate(0, 0, 41).UTC().Format(time.RFC3339)
	n.call("POST", sandbox+"clock?waitSeconds=0", `{"advanceTo":"`+to+`"}`).is(503, "clock_settling")
	require.Equal(t, false, n.call("GET", sandbox+"clock", "").is(200, "").data()["settled"])
	n.Tick()
	require.Equal(t, true, n.call("GET", sandbox+"clock", "").is(200, "").data()["settled"])
	require.Len(t, n.invoices(key), 2)
}

func TestWhatAClockRefuses(t *testing.T) {
	n := start(t)
	n.furnish()
	to := func(env, text string) answer {
		return n.call("POST", "accounts/demo/environments/"+env+"/clock", `{"advanceTo":`+text+`}`)
	}
	past := `"` + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339) + `"`
	far := `"` + time.Now().AddDate(6, 0, 0).UTC().Format(time.RFC3339) + `"`
	soon := `"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"`
	to("sandbox", past).is(400, "clock_backwards")
	to("sandbox", far).is(400, "clock_too_far")
	to("live", soon).is(400, "clock_live")
	to("test", soon).is(404, "not_found")
	for _, bad := range []string{`"tomorrow"`, `7`, `null`, `{}`} {
		require.Contains(t, to("sandbox", bad).is(400, "validation_failed").detail(), "advanceTo")
	}
	n.call("POST", sandbox+"clock", `{}`).is(400, "validation_failed")
	for _, wait := range []string{"61", "-1", "x"} {
		require.Contains(t, n.call("POST", sandbox+"clock?waitSeconds="+wait,
			`{"advanceTo":`+soon+`}`).is(400, "validation_failed").detail(), "waitSeconds")
	}
	n.call("POST", "accounts/nobody/environments/sandbox/clock", `{"advanceTo":`+soon+`}`).
		is(404, "account_not_found")
	require.WithinDuration(t, time.Now(), n.clock(), 10*time.Second, "nothing was changed")
	to("sandbox", soon).is(200, "")
	to("sandbox", soon).is(400, "clock_backwards")
}
