package console_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBudgets: the tree shows what is used, held and about to run out; a budget is frozen,
// unfrozen, moved and archived once each change is confirmed; sent twice, it is carried out once.
func TestBudgets(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	b.get(at+"/budgets").is(200, "No budget yet", `href="`+at+`/usage"`)
	put := func(key, body string) {
		t.Helper()
		(&recorder{browser: b}).ask(b.programs, "putBudget", body, key)
	}
	limit := func(units int, window string) string {
		return fmt.Sprintf(`{"of":"units","featureKey":"calls","limit":%d,"window":%q,"thresholds":[80]}`,
			units, window)
	}
	put("org", `{"name":"The company","limits":[{"of":"price","limit":40,"window":"month"}]}`)
	put("anna", `{"name":"Anna","parent":"org","customerReferenceId":"anna","limits":[`+
		limit(5, "day")+","+limit(50, "year")+","+limit(500, "lifetime")+`]}`)
	put("other", `{"name":"Another"}`)
	b.submit(at+"/customers/anna", at+"/customers/anna/usage",
		fields("feature", "calls", "units", "3"))
	held := n.reserve("anna", "call-7")

	p := b.get(at+"/budgets").is(200, "The company", "Anna", "of anna", "Another", "1 child budget<",
		"3 + 1 held of 5", "nearly full", "80 %", "and 1 more limit", "1.50 USD + 0.50 USD held of 40.00 USD")
	safe(t, p)
	anna := at + "/budgets/anna"
	p = b.get(anna).is(200, "units of calls, each day", "alerts at 80 %", "3 used, 1 held, of 5",
		`href="`+at+`/budgets/org"`, `href="`+at+`/customers/anna"`, "in all", "without an end")
	safe(t, p)
	b.get(at+"/budgets/nobody").is(404, "Budget not found")

	// A customer's page has their budget, and what is held.
	p = b.get(at+"/customers/anna").is(200, "Open reservations", "call-7", `id="own-budgets"`)
	safe(t, p)
	release := at + "/reservations/" + held + "/release"
	b.get(release+"/confirm").is(200, "Release this reservation?", "call-7", "1 unit<", "not billed")
	b.submit(at+"/customers/anna", release, url.Values{}).is(200, "The reservation was released")
	require.NotContains(t, b.get(at+"/customers/anna").body, "Open reservations")

	twice := func(act string, form url.Values, says ...string) shown {
		t.Helper()
		asked := b.asked(anna+"/"+act, b.fill(anna, form))
		safe(t, asked.is(200, says...))
		sure := b.confirmed(asked, form)
		first := b.send(anna+"/"+act, sure).is(303)
		changes, _ := (&recorder{browser: b}).rows()
		b.send(anna+"/"+act, sure).is(303)
		again, _ := (&recorder{browser: b}).rows()
		require.Equal(t, changes, again, "the second click did something")
		return b.get(first.to).is(200)
	}
	frozen := twice("freeze", url.Values{}, "Freeze Anna?", "3 used, of 5", "402").
		is(200, "frozen", "Unfreeze…")
	require.NotContains(t, frozen.body, `class="status allowed"`, "its limits take nothing")
	b.send(at+"/customers/anna/usage", b.fill(at+"/customers/anna", fields("feature", "calls",
		"units", "1"))).is(402, "frozen")

	// A form that is sent again after it was undone does nothing.
	old := b.confirmed(b.asked(anna+"/unfreeze", b.fill(anna, url.Values{})), url.Values{})
	b.send(anna+"/unfreeze", old).is(303)
	twice("freeze", url.Values{}, "Freeze Anna?")
	b.send(anna+"/unfreeze", old).is(303)
	b.get(anna).is(200, "Unfreeze…")
	twice("unfreeze", url.Values{}, "Unfreeze Anna?").is(200, "Freeze…")

	// Below a frozen budget nothing is taken either, and the pages say why.
	r := &recorder{browser: b}
	r.ask(r.programs, "freezeBudget", "", "org")
	safe(t, b.get(anna).is(200, "It takes nothing", `href="`+at+`/budgets/org"`))
	safe(t, b.get(at+"/budgets").is(200, "by org above"))
	b.get(at+"/customers/anna").is(200, "by org above")
	r.ask(r.programs, "unfreezeBudget", "", "org")
	require.NotContains(t, b.get(anna).body, "It takes nothing")
	b.send(anna+"/move", b.fill(anna, fields("parent", "nobody"))).
		is(400, `id="parent-wrong"`, `value="nobody"`)
	twice("move", fields("parent", "other"), "From below", "org", "other").
		is(200, `href="`+at+`/budgets/other"`)
	twice("move", fields("parent", "org"), "Left there, price, each month", "38.50 USD")
	twice("move", fields("parent", ""), "To below", "none").is(200, "it is on top")
	p = twice("archive", url.Values{}, "cannot be undone")
	require.NotContains(t, p.body, `id="acts"`)
	require.NotContains(t, b.get(at+"/budgets").body, "Anna")
	b.get(at+"/budgets?archived=show").is(200, "Anna", "archived")
}

// TestAForestOfManyBudgets is bounded in what a page shows of it, and in what is asked for it.
func TestAForestOfManyBudgets(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	r := &recorder{browser: b}
	limit := `{"of":"units","featureKey":"calls","limit":5,"window":"WINDOW"}`
	var limits []string
	for _, window := range []string{"hour", "day", "week", "month", "year", "lifetime"} {
		limits = append(limits, strings.ReplaceAll(limit, "WINDOW", window))
	}
	for i := range 150 {
		parent := ""
		if i > 60 {
			parent = fmt.Sprintf(`"parent":"b%d",`, i-60)
		}
		r.ask(r.programs, "putBudget", fmt.Sprintf(`{%s"name":"%s %d","limits":[%s]}`, parent,
			strings.Repeat("n", 100), i, strings.Join(limits, ",")), fmt.Sprintf("b%d", i))
	}
	const at = "/console/accounts/demo/sandbox/budgets"
	p := b.get(at).is(200, "There are more than are shown here")
	require.Less(t, len(p.body), 85_000)
	require.Equal(t, 50, strings.Count(p.body, `<li><p><a href="`+at))
	safe(t, p)

	// What runs out is found wherever it is, and how much is not listed.
	for i := range 12 {
		r.ask(r.programs, "putBudget", fmt.Sprintf(`{"parent":"b%d","name":"Empty %d","limits":[`+
			`{"of":"price","limit":0,"window":"day"}]}`, 80+i, i), fmt.Sprintf("empty%d", i))
	}
	p = b.get(at).is(200, "Used up, or nearly", "and 2 more limits that are 80 % full", "Empty 0")
	safe(t, p)
	require.NotContains(t, p.body, "Empty 11")
}
