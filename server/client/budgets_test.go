package client_test

import (
	"context"
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/billing"
	tollgate "tollgate/sdk/go"
	"tollgate/server"
)

// usage is the body of an event of tokens of acme.
func usage(key, more string) string {
	return `{"eventIdempotencyKey":"` + key + `","eventName":"tokens","customerReferenceId":"acme",` +
		`"occurredAt":"` + now() + `"` + more + `}`
}

// TestUsageCountsInBudgets: events and checks count at each level of a tree, and what refuses is
// named.
func TestUsageCountsInBudgets(t *testing.T) {
	n := start(t)
	n.customer("acme")
	team := n.call("PUT", "budgets/team", `{"name":"Team","limits":[{"of":"cost","limit":0.004,`+
		`"window":"lifetime","thresholds":[50,100]},{"of":"units","featureKey":"tokens","limit":100,`+
		`"window":"day","timeZone":"Europe/Berlin","mode":"soft"}]}`).is(200, "")
	require.Equal(t, "ACTIVE", team.data("status"))
	n.call("PUT", "budgets/acme", `{"name":"Acme","parent":"team","customerReferenceId":"acme"}`).
		is(200, "")
	n.call("PUT", "budgets/search", `{"name":"Search","parent":"acme","limits":[{"of":"units",`+
		`"featureKey":"tokens","limit":1,"window":"month"}]}`).is(200, "")
	n.call("POST", "events", usage("a", `,"usageUnits":3`)).is(201, "")
	n.call("POST", "events", usage("b", `,"budget":"search"`)).is(201, "")
	refused := n.call("POST", "events", usage("c", `,"budget":"search"`)).is(402, "budget_exceeded")
	limit := refused.body["error"].(map[string]any)["budget"].(map[string]any)
	require.Equal(t, []any{"search", "units", "tokens", 1.0, 1.0, "month"}, []any{
		limit["budget"], limit["of"], limit["featureKey"], limit["used"], limit["limit"], limit["window"],
	})
	require.NotZero(t, limit["logIndex"])
	n.call("POST", "events", usage("d", "")).is(402, "budget_exceeded")
	n.call("POST", "events", usage("e", `,"budget":"team"`)).is(404, "budget_not_found")

	check := n.call("GET", "entitlements/acme/tokens", "").is(200, "")
	require.Equal(t, false, check.data("isAllowed"))
	require.Equal(t, "budget_exceeded", check.data("meta", "reason", "code"))
	require.Equal(t, "team", check.data("meta", "reason", "budget", "budget"))
	check = n.call("GET", "entitlements/acme/tokens?budget=other", "").is(200, "")
	require.Equal(t, "budget_unknown", check.data("meta", "reason", "code"))

	got := n.call("GET", "budgets/search", "").is(200, "")
	require.Equal(t, "search", got.data("binding", "budget"), "the nearest of those with nothing left")
	n.call("POST", "events/a/void", "{}").is(200, "")
	got = n.call("GET", "budgets/team", "").is(200, "")
	limits := got.data("limits").([]any)
	require.Equal(t, []any{0.001, 0.003}, []any{
		limits[0].(map[string]any)["used"], limits[0].(map[string]any)["remaining"],
	})
	list := n.call("GET", "budgets?parent=team", "").is(200, "").data("budgets").([]any)
	require.Len(t, list, 1)
	n.call("GET", "budgets?parent=none", "").is(404, "budget_not_found")
	require.Len(t, n.call("GET", "budgets/team/windows", "").is(200, "").data("windows"), 2)

	n.call("POST", "budgets/team/freeze", "").is(200, "")
	n.call("POST", "events", usage("f", "")).is(402, "budget_frozen")
	n.call("POST", "budgets/team/unfreeze", "").is(200, "")
	n.call("POST", "events", usage("f", "")).is(201, "")
	n.call("POST", "budgets/acme/move", `{"parent":"search"}`).is(409, "budget_conflict")
	n.call("POST", "budgets/search/move", `{"parent":null}`).is(200, "")
	n.call("DELETE", "budgets/team", "").is(200, "")
	n.call("POST", "events", usage("g", "")).is(400, "budget_archived")
}

// TestABoundKeyGetsPastNoBudget: requests with a key that is bound to a budget count there or below
// it, whatever they name, and change no budget.
func TestABoundKeyGetsPastNoBudget(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.call("PUT", "budgets/acme", `{"name":"Acme","customerReferenceId":"acme"}`).is(200, "")
	n.call("PUT", "budgets/agent", `{"name":"Agent","parent":"acme","limits":[{"of":"units",`+
		`"featureKey":"tokens","limit":2,"window":"lifetime"}]}`).is(200, "")
	key := n.addKey(n.env, server.KeyPrefixSandbox, billing.ScopeFull)
	hash := sha256.Sum256([]byte(key))
	p, known := n.Machine.Authenticate(hash)
	require.True(t, known)
	n.Do(t, billing.KindBindKey, &billing.BindKey{Env: n.env, ID: p.KeyID, Budget: "agent"})
	send := func(id, more string) answer {
		return n.send("POST", "events", usage(id, more), key, nil)
	}
	send("a", `,"usageUnits":2`).is(201, "")
	send("b", "").is(402, "budget_exceeded")
	send("c", `,"budget":"acme"`).is(404, "budget_not_found")
	batch := n.send("POST", "events/batch", "["+usage("d", "")+"]", key, nil).is(200, "")
	require.Equal(t, 1.0, batch.data("rejected"))
	check := n.send("GET", "entitlements/acme/tokens", "", key, nil).is(200, "")
	require.Equal(t, "budget_exceeded", check.data("meta", "reason", "code"))
	n.send("PUT", "budgets/agent", `{"name":"Agent"}`, key, nil).is(403, "access_denied")
	n.send("POST", "budgets/agent/unfreeze", "", key, nil).is(403, "access_denied")
	bind := func(budget string) {
		n.Do(t, billing.KindBindKey, &billing.BindKey{Env: n.env, ID: p.KeyID, Budget: budget})
	}
	bind("acme")
	n.call("POST", "events", usage("e", "")).is(201, "") // as new as its own lookup
	bind("agent")

	// Nor does it correct or settle what others count and hold.
	n.customer("other")
	n.call("PUT", "budgets/other", `{"name":"Other","customerReferenceId":"other"}`).is(200, "")
	of := strings.Replace(usage("o", ""), `"acme"`, `"other"`, 1)
	n.call("POST", "events", of).is(201, "")
	held := func(key, customer, by string) string {
		return "reservations/" + n.send("POST", "reservations", `{"reservationKey":"`+key+
			`","customerReferenceId":"`+customer+`","featureKey":"tokens","usageUnits":1}`, by, nil).
			is(201, "").data("id").(string)
	}
	theirs := held("theirs", "other", n.sandbox)
	above := held("above", "acme", n.sandbox)
	for _, path := range []string{"events/o/void", theirs + "/release", above + "/release"} {
		n.send("POST", path, "", key, nil).is(404, "budget_not_found")
	}
	for _, path := range []string{
		"events/o/amend", theirs + "/settle", theirs + "/extend", above + "/settle",
	} {
		n.send("POST", path, `{"usageUnits":2}`, key, nil).is(404, "budget_not_found")
	}
	n.call("POST", "events", usage("p", "")).is(201, "")
	n.send("POST", "events/p/amend", `{"usageUnits":2}`, key, nil).is(404, "budget_not_found")
	full := n.send("POST", "events/a/amend", `{"usageUnits":3}`, key, nil).is(402, "budget_exceeded")
	require.Equal(t, "agent", full.fault()["budget"].(map[string]any)["budget"])
	n.send("POST", "events/a/void", "", key, nil).is(200, "")
	own := held("own", "acme", key)
	settled := n.send("POST", own+"/settle", `{"usageUnits":1}`, key,
		map[string]string{"X-Read-Consistency": "stale"}).is(200, "")
	require.Empty(t, settled.header.Get("X-Staleness-Ms"), "the log has decided whose it is")
	n.call("POST", above+"/release", "").is(200, "")
}

// TestABudgetIsCheckedBeforeItIsMade: each mistake is named, and nothing is made.
func TestABudgetIsCheckedBeforeItIsMade(t *testing.T) {
	n := start(t)
	limit := func(more string) string { return `{"name":"N","limits":[{` + more + `}]}` }
	const whole = `"of":"cost","limit":1,"window":"day"`
	for _, body := range []string{
		`{}`, `{"name":""}`, `{"name":"N","limits":{}}`, limit(`"of":"cost","limit":1`),
		limit(`"of":"money","limit":1,"window":"day"`), limit(`"of":"cost","limit":-1,"window":"day"`),
		limit(`"of":"units","limit":1,"window":"day"`), limit(whole + `,"currency":"EUR"`),
		limit(whole + `,"timeZone":"Mars/Olympus"`), limit(whole + `,"thresholds":[50,50]`),
		limit(whole + `,"thresholds":[0]`), limit(whole + `,"thresholds":["1"]`),
		limit(whole + `,"thresholds":[1,2,3,4,5,6,7,8,9]`), limit(whole + `,"mode":"firm"`),
		limit(whole + `,"more":1`),
	} {
		n.call("PUT", "budgets/n", body).is(400, "validation_failed")
	}
	n.call("PUT", "budgets/n", limit(whole+"},{"+whole)).is(400, "budget_invalid")
	n.call("PUT", "budgets/n", limit(`"of":"units","featureKey":"none","limit":1,"window":"day"`)).
		is(404, "feature_not_found")
	n.call("PUT", "budgets/n", `{"name":"N","parent":"none"}`).is(404, "budget_not_found")
	n.call("PUT", "budgets/n", `{"name":"N","customerReferenceId":"none"}`).is(404, "customer_not_found")
	n.call("GET", "budgets/n", "").is(404, "budget_not_found")
}

// TestABudgetIsReplacedAsExpected: none, or the one that its sender has read.
func TestABudgetIsReplacedAsExpected(t *testing.T) {
	n := start(t)
	put := func(expects string) answer {
		return n.call("PUT", "budgets/n", `{"name":"N","expects":"`+expects+`"}`)
	}
	put("2026-01-01T00:00:00.000Z").is(404, "budget_not_found")
	at := put("none").is(200, "").data().(map[string]any)["modifiedAt"].(string)
	put("none").is(409, "budget_changed")
	put("2026-01-01T00:00:00.000Z").is(409, "budget_changed")
	put(at).is(200, "")
	for _, bad := range []string{"", "some", "1970-01-01T00:00:00.000Z"} {
		put(bad).is(400, "validation_failed")
	}
}

// TestBudgetsOfThePackage: the client library's methods.
func TestBudgetsOfThePackage(t *testing.T) {
	n := start(t)
	n.customer("acme")
	c := sdk(t, n.addr, n.sandbox)
	ctx := context.Background()
	made, err := c.PutBudget(ctx, "a/b", tollgate.BudgetRequest{
		Name: "A", CustomerReferenceID: "acme", Limits: []tollgate.BudgetLimitRequest{{
			Of: "price", Currency: "USD", Limit: "2.5", Window: "week", Thresholds: []int{80},
		}},
	})
	require.NoError(t, err)
	require.Equal(t, "a/b", made.Binding.Budget)
	require.Equal(t, []int{80}, made.Limits[0].Thresholds)
	_, err = c.PutBudget(ctx, "above", tollgate.BudgetRequest{Name: "Above"})
	require.NoError(t, err)
	_, err = c.MoveBudget(ctx, "a/b", "above")
	require.NoError(t, err)
	var below []string
	for b, err := range c.Budgets(ctx, "above") {
		require.NoError(t, err)
		below = append(below, b.Budget)
	}
	require.Equal(t, []string{"a/b"}, below)
	frozen, err := c.FreezeBudget(ctx, "above")
	require.NoError(t, err)
	require.Equal(t, "FROZEN", frozen.Status)
	_, err = c.UnfreezeBudget(ctx, "above")
	require.NoError(t, err)
	windows, err := c.BudgetWindows(ctx, "a/b")
	require.NoError(t, err)
	require.Len(t, windows, 1)
	ended, err := c.ArchiveBudget(ctx, "a/b")
	require.NoError(t, err)
	require.Equal(t, "ARCHIVED", ended.Status)
	again, err := c.Budget(ctx, "a/b")
	require.NoError(t, err)
	require.Equal(t, ended, again)
}

// TestChangesNameTheirKey: what a program changes with an API key is recorded under its label, or
// how it begins.
func TestChangesNameTheirKey(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.call("PUT", "budgets/team", `{"name":"Team"}`).is(200, "")
	n.call("POST", "budgets/team/freeze", "").is(200, "")
	invoice := n.call("GET", "billing/invoices/acme", "").is(200, "").data().([]any)[0].(map[string]any)
	n.call("POST", "billing/invoices/"+invoice["id"].(string)+"/mark-paid", "").is(200, "")
	changes, _, err := n.Machine.Changes(&enginetest.Source{Journal: n.Machine.Journal()},
		billing.ChangeQuery{Limit: 100, Scan: 100})
	require.NoError(t, err)
	actors := map[string]string{}
	for _, c := range changes {
		actors[c.Action] = c.Actor
	}
	for _, action := range []string{"budget.created", "budget.changed", "invoice.paid"} {
		require.Regexp(t, `^API key .`, actors[action], action)
	}
}
