package console_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/console/spend"
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
	require.Contains(t, p.body, `href="`+at+`/budgets.csv"`)
	rows := b.sheet(at + "/budgets.csv") // each before those below it
	require.Len(t, rows, 6)
	require.Equal(t, []string{"org", "anna", "anna", "anna", "other"},
		[]string{rows[1][0], rows[2][0], rows[3][0], rows[4][0], rows[5][0]})
	require.Equal(t, []string{"units", "calls", "", "day"}, rows[2][7:11])
	require.Equal(t, []string{"5", "3", "1", "1"}, rows[2][13:17])
	anna := at + "/budgets/anna"
	p = b.get(anna).is(200, "units of calls, each day", "alerts at 80 %", "3 used, 1 held, of 5",
		`href="`+at+`/budgets/org"`, `href="`+at+`/customers/anna"`, "units of calls, lifetime",
		`"Window">lifetime`)
	safe(t, p)
	b.get(at+"/budgets/nobody").is(404, "Budget not found")

	// A customer's page has their budget, and what is held.
	p = b.get(at+"/customers/anna").is(200, "Open reservations", "call-7", `id="own-budgets"`)
	safe(t, p)
	release := at + "/reservations/" + held + "/release"
	extend := at + "/reservations/" + held + "/extend"
	safe(t, b.get(extend+"/confirm").is(200, "for an hour from now?", "call-7", "Then expires"))
	b.submit(at+"/customers/anna", extend, url.Values{}).is(200, "The reservation was extended")
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
	b.get(at+"/customers/anna").is(200, "by org above",
		`<a href="`+at+`/budgets/org">Budget org</a></li>`)
	r.ask(r.programs, "unfreezeBudget", "", "org")
	require.NotContains(t, b.get(anna).body, "It takes nothing")
	b.send(anna+"/move", b.fill(anna, fields("parent", "nobody"))).
		is(400, `id="parent-wrong"`, `value="nobody"`)
	twice("move", fields("parent", "other"), "From below", "org", "other").
		is(200, `href="`+at+`/budgets/other"`)
	twice("move", fields("parent", "org"), "Left there, price, each month", "38.50 USD")
	twice("move", fields("parent", ""), "To below", "none").is(200, "this is the top level")
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
	p := b.get(at).is(200, "Not all of them are shown here")
	require.Less(t, len(p.body), 85_000)
	require.Equal(t, 40, strings.Count(p.body, `<li><p><a href="`+at))
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

// TestABudgetIsMadeAndChanged: the form makes a budget and changes one, once it is confirmed, and
// once however often it is sent. What it has wrong is told at its field, and nothing is lost.
func TestABudgetIsMadeAndChanged(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	const list, make, team = at + "/budgets", at + "/new-budget", at + "/budgets/team"
	safe(t, b.get(list).is(200, "No budget yet", `id="make-budget"`,
		`<datalist id="features"><option value="calls">`, `list="features"`,
		`<datalist id="customers"><option value="anna">`, `<datalist id="parents"></datalist>`))
	form := func(more ...string) url.Values {
		return fields(append([]string{
			"key", "team", "name", "Team", "customer", "anna",
			"limits0_of", "price", "limits0_limit", "40", "limits0_window", "month", "limits0_mode", "hard",
			"limits0_thresholds", "80, 100", "limits1_of", "price", "limits1_limit", "",
			"limits2_of", "units", "limits2_featureKey", "calls", "limits2_limit", "5", "limits2_window",
			"day", "limits2_mode", "soft", "limits2_timeZone", "Europe/Berlin",
		}, more...)...)
	}
	for _, wrong := range [][3]string{
		{"key", "", "Enter a key"},
		{"name", "", "Enter a name"},
		{"customer", "nobody", "Customer"},
		{"parent", "nobody", "Budget not found"},
		{"limits0_limit", "much", "Enter a number"},
		{"limits0_limit", "-1", "Enter a number"},
		{"limits0_thresholds", "most", "Enter percents"},
	} {
		p := b.send(make, b.fill(list, form(wrong[0], wrong[1]))).
			is(400, wrong[2], `id="`+wrong[0]+`-wrong"`, `value="Europe/Berlin"`)
		safe(t, p)
	}
	// The row without a feature is the third, and moves up.
	b.send(make, b.fill(list, form("limits2_featureKey", ""))).is(400, `id="limits1_featureKey-wrong"`)
	b.send(make, b.fill(list, form("limits2_featureKey", "cals"))).
		is(400, `id="limits1_featureKey-wrong"`, "The catalog has no feature &#34;cals&#34;")

	twice := func(on, path string, form url.Values, says ...string) shown {
		t.Helper()
		asked := b.asked(path, b.fill(on, form))
		safe(t, asked.is(200, says...))
		sure := b.confirmed(asked, url.Values{})
		first := b.send(path, sure).is(303)
		changes, _ := (&recorder{browser: b}).rows()
		b.send(path, sure).is(303)
		again, _ := (&recorder{browser: b}).rows()
		require.Equal(t, changes, again, "the second click did something")
		return b.get(first.to).is(200)
	}
	safe(t, twice(list, make, form(), "Create the budget team?", "anna", "price, each month",
		"40.00 USD; counts from 0", "units of calls, each day", "5, soft").
		is(200, "The budget was created", "alerts at 80 %", "Europe/Berlin"))
	b.get(list).is(200, `<datalist id="parents"><option value="team">`)
	b.send(make, b.fill(list, form("name", "Other"))).is(400, "Another budget has this key")

	// What the API alone finds is told at its field, too.
	bad := form("limits2_timeZone", "Mars/Olympus")
	asked := b.asked(team+"/change", b.fill(team, bad))
	b.send(team+"/change", b.confirmed(asked, url.Values{})).is(400, `id="limits1_timeZone-wrong"`,
		"Must be a name of the time zone database")

	b.submit(at+"/customers/anna", at+"/customers/anna/usage", fields("feature", "calls", "units", "3"))
	less := form("name", "The team", "customer", "", "limits0_limit", "1.5", "limits2_limit", "")
	safe(t, twice(team, team+"/change", less, "Team → The team", "anna → none",
		"1.50 USD, was 40.00 USD; 1.50 USD used", "removed; 3 used of 5",
		"nothing more is taken").is(200, "The budget was changed", "The team", "1.50 USD"))
	require.NotContains(t, b.get(team).body, "units of calls")

	// A question that is out of date changes nothing.
	stale := b.confirmed(b.asked(team+"/change", b.fill(team, form())), url.Values{})
	taken := b.confirmed(b.asked(make, b.fill(list, form("key", "new"))), url.Values{})
	(&recorder{browser: b}).ask(b.programs, "putBudget", `{"name":"Of a program"}`, "team")
	(&recorder{browser: b}).ask(b.programs, "putBudget", `{"name":"Of a program"}`, "new")
	for path, form := range map[string]url.Values{team + "/change": stale, make: taken} {
		b.send(path, form).is(409, "not as expected", `value="Team"`, `value="Europe/Berlin"`)
	}
	for _, key := range []string{"team", "new"} {
		b.get(at+"/budgets/"+key).is(200, "Of a program")
	}

	// A form of before is carried out no more: another one has changed the budget since.
	old := b.confirmed(b.asked(team+"/change", b.fill(team, form())), url.Values{})
	b.send(team+"/change", old).is(303)
	twice(team, team+"/change", form("name", "Newest"))
	b.send(team+"/change", old).is(303)
	b.get(team).is(200, "Newest")
}

// TestKeysAreBound: the page of keys binds one to a budget once that is confirmed, and the tree of
// budgets shows it.
func TestKeysAreBound(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	r := &recorder{browser: b}
	r.ask(r.programs, "putBudget", `{"name":"Org"}`, "org")
	r.ask(r.programs, "putBudget", `{"name":"Runner","parent":"org"}`, "ci")
	b.submit(at+"/keys", at+"/keys", fields("scope", "full", "label", "ci-runner"))
	bind := at + "/keys/" + string(server.AppendUUID(nil, n.Machine.Keys(n.environment())[0].ID)) +
		"/budget"
	b.send(bind, b.fill(at+"/keys", fields("budget", "nobody"))).is(400, "Budget not found")
	asked := b.asked(bind, b.fill(at+"/keys", fields("budget", "ci")))
	safe(t, asked.is(200, "to ci?", "ci-runner", "Bound to", "any budget", "New budget", "403"))
	sure := b.confirmed(asked, url.Values{})
	b.get(b.send(bind, sure).is(303).to).is(200, "budget was set", `href="`+at+`/budgets/ci"`)
	safe(t, b.get(at+"/budgets").is(200, "+ key ci-runner"))
	safe(t, b.get(at+"/budgets/ci").is(200, "API keys bound to it", "ci-runner"))
	safe(t, b.get(at+"/keys"))
	b.submit(at+"/keys", bind, fields("budget", ""))
	require.Empty(t, n.Machine.Keys(n.environment())[0].Budget)
	b.send(bind, sure).is(303)
	require.Empty(t, n.Machine.Keys(n.environment())[0].Budget, "an old form binds no more")
	require.NotContains(t, b.get(at+"/budgets").body, "+ key ci-runner")
	b.send(at+"/keys/018f6b2c-7d1e-7000-8000-000000000001/budget",
		b.fill(at+"/keys", fields("budget", "ci"))).is(404, "key")
}

// TestReplacingAKeyIsAskedFirst: with when the old one ends, and as a danger where that is at once:
// then it is a revocation. A question replaces nothing.
func TestReplacingAKeyIsAskedFirst(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const keys = "/console/accounts/demo/sandbox/keys"
	b.submit(keys, keys, fields("scope", "full", "label", "shop"))
	at := func(i int) string {
		return keys + "/" + string(server.AppendUUID(nil, n.Machine.Keys(n.environment())[i].ID))
	}
	danger := `class="danger" id="confirm-button"`
	links := "Portal links that were created with it end with it"
	later := b.asked(at(0)+"/roll", b.fill(keys, fields("overlapHours", "48")))
	safe(t, later.is(200, "Replace the key", "shop", links, "are both accepted",
		n.now().Add(48*time.Hour).UTC().Format("2 Jan 2006, 15:")))
	require.NotContains(t, later.body, danger)
	n.Do(t, billing.KindNoteKeyUse, &billing.NoteKeyUse{
		Env: n.environment(), ID: n.Machine.Keys(n.environment())[0].ID, Requests: 1234, Events: 56,
	})
	b.get(keys).is(200, "1,234", "by admin-key")
	now := b.asked(at(0)+"/roll", b.fill(keys, fields("overlapHours", "0")))
	safe(t, now.is(200, danger, "at once", links, "within the last day"))
	b.asked(at(0)+"/revoke", b.fill(keys, url.Values{})).is(200, danger, links, "within the last day",
		"Last 24 hours", "Last 30 days", "1,234 requests, 56 usage events recorded")
	require.Len(t, n.Machine.Keys(n.environment()), 1, "a question replaces nothing")
	b.send(at(0)+"/roll", b.confirmed(now, url.Values{})).is(200, "The old key is revoked")
	require.NotZero(t, n.Machine.Keys(n.environment())[0].RevokedAt)
	b.send(at(0)+"/roll", b.fill(keys, fields("overlapHours", "1"))).is(303)
	b.send(keys+"/018f6b2c-7d1e-7000-8000-000000000001/roll",
		b.fill(keys, fields("overlapHours", "1"))).is(404, "key")
}

// TestARefusedKeysFormIsOpen: alone, with what was typed and what is wrong with it.
func TestARefusedKeysFormIsOpen(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const keys = "/console/accounts/demo/sandbox/keys"
	(&recorder{browser: b}).ask(b.programs, "putBudget", `{"name":"Org"}`, "org")
	for _, label := range []string{"first", "second", "third"} {
		b.submit(keys, keys, fields("scope", "full", "label", label))
	}
	id := string(server.AppendUUID(nil, n.Machine.Keys(n.environment())[1].ID))
	b.submit(keys, keys+"/"+id+"/budget", fields("budget", "org"))
	require.NotContains(t, b.get(keys).body, "<details open")
	for _, form := range [][4]string{
		{"roll", "overlapHours", "two days", "Enter hours from 0 to 720"},
		{"roll", "overlapHours", "721", "Enter hours from 0 to 720"},
		{"budget", "budget", "reserach", "Budget not found"},
	} {
		p := b.send(keys+"/"+id+"/"+form[0], b.fill(keys, fields(form[1], form[2]))).
			is(400, `value="`+form[2]+`"`, form[3])
		safe(t, p)
		require.Equal(t, 1, strings.Count(p.body, `value="`+form[2]+`"`))
		require.Equal(t, 1, strings.Count(p.body, "aria-invalid"))
		require.Equal(t, 1, strings.Count(p.body, "autofocus"))
		open := regexp.MustCompile(`(?s)<details[^>]* open>.*?</details>`).FindAllString(p.body, -1)
		require.Len(t, open, 1)
		require.Contains(t, open[0], "aria-invalid")
		require.Contains(t, open[0], keys+"/"+id+"/"+form[0])
		require.NotContains(t, p.body, "overlapHours must")
	}
}

// TestABudgetHasAllItsLimits: a form of as many as a budget may have is refused with all that was
// typed, confirmed, and sent again to change them.
func TestABudgetHasAllItsLimits(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	const list, make, team = at + "/budgets", at + "/new-budget", at + "/budgets/team"
	form := func(maximum string) url.Values {
		f := fields("key", "team", "name", "Team", "parent", "", "customer", "anna")
		for i := range billing.MaxLimits {
			for name, value := range map[string]string{
				"of": spend.Measures[i/len(spend.Windows)][0], "limit": maximum, "mode": "hard",
				"window": spend.Windows[i%len(spend.Windows)][0], "featureKey": "", "currency": "",
				"timeZone": "", "thresholds": "80",
			} {
				f.Set("limits"+strconv.Itoa(i)+"_"+name, value)
			}
			if i >= len(spend.Windows) {
				f.Set("limits"+strconv.Itoa(i)+"_featureKey", "calls")
			}
		}
		return f
	}
	last := "limits" + strconv.Itoa(billing.MaxLimits-1) + "_limit"
	bad := form("40")
	bad.Set(last, "much")
	b.send(make, b.fill(list, bad)).is(400, `id="`+last+`-wrong"`, `value="much"`)
	made := b.confirmed(b.asked(make, b.fill(list, form("40"))), url.Values{})
	b.get(b.send(make, made).is(303).to).is(200, "The budget was created")
	bad = form("50")
	bad.Set(last, "much")
	b.send(team+"/change", b.fill(team, bad)).is(400, `id="`+last+`-wrong"`)
	changed := b.confirmed(b.asked(team+"/change", b.fill(team, form("50"))), url.Values{})
	b.get(b.send(team+"/change", changed).is(303).to).is(200, "The budget was changed")
	require.Equal(t, billing.MaxLimits, strings.Count(b.get(team).body, "alerts at 80 %"))
}
