package client_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/billing"
)

// Keys that have left memory are known all the same, in single events, in batches and when an event
// is corrected, whether they left it before the request or while it was on its way.
func TestKeysThatLeftMemoryAreKnown(t *testing.T) {
	n := start(t)
	n.customer("acme")
	sent := map[string]string{} // an event says when it occurred
	send := func(key string, units int) string {
		id := fmt.Sprint(key, " ", units)
		if sent[id] == "" {
			sent[id] = event(key, fmt.Sprintf(`,"usageUnits":%d`, units))
		}
		return sent[id]
	}
	for i := range 3 {
		n.call("POST", "events", send(fmt.Sprint("k", i), 1)).is(201, "")
	}
	n.Demotes.Store(1)
	n.call("POST", "events", send("k0", 1)).is(409, "duplicate_key")
	require.EqualValues(t, 3, n.Machine.KeySpan().OnDisk())
	n.call("POST", "events", send("k1", 2)).is(409, "key_reused")
	n.call("POST", "events", send("k3", 1)).is(201, "")
	n.Demotes.Store(2) // k3 is looked for before it leaves memory
	n.call("POST", "events", send("k3", 1)).is(409, "duplicate_key")
	require.Zero(t, n.Machine.KeySpan().InMemory())
	n.Demotes.Store(3)
	n.call("POST", "events", send("k4", 1)).is(201, "")
	require.EqualValues(t, 5, n.Machine.KeySpan().Next)

	batch := strings.Join([]string{send("k0", 1), send("k5", 1), send("k5", 1), send("k2", 7)}, ",")
	n.Demotes.Store(1)
	a := n.call("POST", "events/batch", "["+batch+"]").is(200, "")
	require.Equal(t, []any{1.0, 3.0, 0.0}, []any{
		a.data("accepted"), a.data("duplicates"), a.data("rejected"),
	})
	a = n.call("GET", "entitlements/acme/tokens", "").is(200, "")
	require.Equal(t, 6.0, a.data("usage", "used"))

	n.call("POST", "events/k1/amend", `{"usageUnits":3}`).is(200, "")
	n.call("POST", "events/k2/void", "").is(200, "")
	n.call("POST", "events/none/void", "").is(404, "usage_not_found")
	a = n.call("GET", "entitlements/acme/tokens", "").is(200, "")
	require.Equal(t, 7.0, a.data("usage", "used"))
}

// recorded are who made which of the newest changes.
func (n *node) recorded() (all []string) {
	changes, _, err := n.Machine.Changes(&enginetest.Source{Journal: n.Machine.Journal()},
		billing.ChangeQuery{Limit: 1000, Scan: 1000})
	require.NoError(n.t, err)
	for _, c := range changes {
		all = append(all, c.Actor+" "+c.Action)
	}
	return all
}

// Who acts with a key is recorded for what they change, where they are named; a program's requests
// leave no record, nor do calls of its customers.
func TestWhoActsIsRecorded(t *testing.T) {
	n := start(t)
	before := len(n.recorded())
	ada := map[string]string{"X-Actor": "tollgate, ada"}
	customer := func(id string) string {
		return fmt.Sprintf(`{"externalClientCustomerId":%q,"firstName":"A","lastName":"B",`+
			`"email":"a@b.example"}`, id)
	}
	n.call("POST", "customers", customer("quiet")).is(201, "")
	n.send("GET", "customers/quiet", "", n.sandbox, ada).is(200, "")
	n.send("POST", "entitlements", `{"customerReferenceId":"quiet","featureKey":"tokens"}`, n.sandbox,
		ada).is(200, "")
	require.Len(t, n.recorded(), before)
	n.send("POST", "customers", customer("loud"), n.sandbox, ada).is(201, "")
	n.send("POST", "events", strings.Replace(event("k", ""), "acme", "loud", 1), n.sandbox,
		ada).is(201, "")
	n.call("POST", "subscriptions", `{"planId":"team","customerReferenceId":"loud"}`).is(201, "")
	batch := "[" + event("b1", "") + "," + event("b2", "") + "]"
	a := n.send("POST", "events/batch", strings.ReplaceAll(batch, "acme", "loud"), n.sandbox, ada)
	require.Equal(t, 2.0, a.is(200, "").data("accepted"))
	a = n.send("POST", "reservations", strings.Replace(hold("r", calls+"2"), "acme", "loud", 1),
		n.sandbox, ada).is(201, "")
	at := "reservations/" + a.data("id").(string)
	n.send("POST", at+"/extend", `{"ttlSeconds":900}`, n.sandbox, ada).is(200, "")
	n.send("POST", at+"/settle", `{"usageUnits":1}`, n.sandbox, ada).is(200, "")
	all := n.recorded()
	require.Len(t, all, before+2)
	for _, what := range []string{"customer.created", "usage.recorded"} {
		require.Regexp(t, `API key \S.*: tollgate, ada `+what, strings.Join(all, "\n"))
	}
	for _, wrong := range []string{"a\tda", "ad\u00e4", strings.Repeat("a", 129)} {
		n.send("POST", "customers", customer("x"), n.sandbox, map[string]string{"X-Actor": wrong}).
			is(400, "validation_failed")
	}
}

// TestEveryRequestMaySayWhoActs: each route answers it as it answers the request of a program,
// whatever it brings into the log; see billinglog.Propose.
func TestEveryRequestMaySayWhoActs(t *testing.T) {
	plain, named := start(t, connected(t)), start(t, connected(t))
	plainKey, plainMine := plain.rival()
	namedKey, namedMine := named.rival()
	done := 0
	for _, route := range plain.api.Table().Routes() {
		for _, a := range matrix[route.Operation] {
			if a.mixed { // its customer is another account's
				continue
			}
			want := plain.try(a, plainMine, plainKey)
			require.NotContains(t, []int{401, 403, 404, 500}, want.status, "%s: %s", a.path, want.raw)
			a.headers = map[string]string{"X-Actor": "tollgate, ada"}
			answer := named.try(a, namedMine, namedKey)
			require.Equal(t, want.status, answer.status, "%s: %s", a.path, answer.raw)
			if answer.status < 300 {
				done++
			}
		}
	}
	require.Greater(t, done, 45, "most are carried out")
}

// TestAProgramThatSignsEventsHidesNoChanges: of a key's single events that name who acts only the
// first are recorded as somebody's, and all are recorded.
func TestAProgramThatSignsEventsHidesNoChanges(t *testing.T) {
	n := start(t)
	n.customer("acme")
	rows := len(n.recorded())
	for i := range 100 {
		n.send("POST", "events", event(fmt.Sprint("k", i), `,"usageUnits":0`), n.sandbox,
			map[string]string{"X-Actor": "tollgate, ada"}).is(201, "")
	}
	require.Len(t, n.recorded(), rows+60)
}

// An event whose key's neighbours leave memory while it is on its way waits for this node's files.
func TestAnEventWaitsForKeyFiles(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.call("POST", "events", event("k0", "")).is(201, "")
	n.Demotes.Store(1)
	n.call("POST", "events", event("k1", "")).is(201, "")
	require.EqualValues(t, 1, n.Machine.KeySpan().Memory)
	n.Demotes.Store(1)
	n.Lags.Store(10) // what it is proposed with, and more looks than there are proposals
	n.call("POST", "events", event("k2", "")).is(201, "")
	require.EqualValues(t, 2, n.Machine.KeySpan().Memory)
	require.Zero(t, n.Lags.Load())
}

// A node whose files are behind records nothing of which it cannot tell whether it was recorded.
func TestANodeWhoseKeyFilesAreBehindRecordsNothing(t *testing.T) {
	n := start(t)
	n.customer("acme")
	body := event("k0", "")
	n.call("POST", "events", body).is(201, "")
	n.Demotes.Store(1)
	n.Blind.Store(true)
	n.call("POST", "events", body).is(503, "key_unproven")
	n.call("POST", "events", event("k1", "")).is(503, "key_unproven")
	a := n.call("POST", "events/batch", "["+event("k0", "")+"]").is(200, "")
	require.Equal(t, 1.0, a.data("rejected"))
	n.call("POST", "events/k0/void", "").is(503, "journal_unavailable")
	n.Blind.Store(false)
	n.call("POST", "events", body).is(409, "duplicate_key")
	n.call("POST", "events", event("k1", "")).is(201, "")
	require.EqualValues(t, 2, n.Machine.KeySpan().Next)
}
