package console_test

import (
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"html"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server/console"
)

// sheet reads a file of a list.
func (b *browser) sheet(path string) [][]string {
	b.t.Helper()
	p := b.get(path).is(200)
	require.Equal(b.t, "text/csv; charset=utf-8", p.header.Get("Content-Type"))
	require.Contains(b.t, p.header.Get("Content-Disposition"), ".csv\"")
	r := csv.NewReader(strings.NewReader(p.body))
	r.FieldsPerRecord = -1 // what is missing is said in a row of its own
	rows, err := r.ReadAll()
	require.NoError(b.t, err)
	return rows
}

// TestListsAreFiles: each list leads to a file of its own query, in which no text is a formula.
func TestListsAreFiles(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	const anna, evil = at + "/customers/anna", at + "/customers/%3Dcmd"
	b.submit(at+"/customers", at+"/customers", fields("id", "=cmd", "first", "=1+1", "last", "B",
		"email", "b@b.example"))
	b.submit(evil, evil+"/subscriptions", fields("plan", "team"))
	b.submit(anna, anna+"/usage", fields("feature", "calls", "units", "3"))
	b.submit(anna, anna+"/pools", fields("name", "prepaid"))
	pool := b.firstLink(anna, at+`/pools/[0-9a-f-]+`)
	b.submit(pool, pool+"/grantCredits", fields("amount", "5", "note", "@welcome"))
	b.submit(pool, pool+"/deductCredits", fields("amount", "2"))
	b.submit(at+"/keys", at+"/keys", fields("scope", "full", "label", "=shop"))
	b.submit(at+"/webhooks", at+"/webhooks", fields("url", "https://shop.example/hook"))
	hook := b.firstLink(at+"/webhooks", at+`/webhooks/[0-9a-f-]+`)
	b.submit(hook, hook+"/test", fields())
	for page, file := range map[string]string{
		at + "/keys":                             at + "/keys.csv",
		at + "/catalog/team?version=1":           at + "/catalog/team/subscribers.csv?version=1",
		hook + "?status=pending":                 hook + "/deliveries.csv?status=pending",
		anna:                                     at + "/invoices.csv?customer=anna",
		at + "/invoices":                         at + "/invoices.csv",
		at + "/invoices?status=DUE":              at + "/invoices.csv?status=DUE",
		at + "/invoices?customer=anna":           at + "/invoices.csv?customer=anna",
		"/console":                               "/console/accounts.csv",
		at + "/customers":                        at + "/customers.csv",
		at + "/customers?sort=owed&currency=USD": at + "/customers.csv?currency=USD&sort=owed",
		at + "/customers?find=B":                 at + "/customers.csv?find=B",
		at + "/events?kind=usage":                at + "/events.csv?kind=usage",
		anna + "/events?order=asc":               anna + "/events.csv?order=asc",
		at + "/margin?by=plan":                   at + "/margin.csv?by=plan",
		at + "/usage?feature=calls":              at + "/ranking.csv?feature=calls",
		pool:                                     pool + "/transactions.csv",
		at + "/log?actor=admin-key":              at + "/log.csv?actor=admin-key",
		"/console/changes?subject=something":     "",
		"/console/changes?account=demo":          "/console/changes.csv?account=demo",
	} {
		p := b.get(page).is(200)
		safe(t, p)
		if file != "" {
			require.Contains(t, html.UnescapeString(p.body), `href="`+file, page)
			require.Greater(t, len(b.sheet(file)), 1, file)
		}
	}

	invoices := b.sheet(at + "/invoices.csv")
	require.Len(t, invoices, 3)
	require.Equal(t, "2", invoices[1][0], "the newest is first")
	require.Equal(t, []string{"'=cmd", "IN_ADVANCE_INITIAL", "DUE", "USD", "20"}, invoices[1][2:7])
	require.Len(t, b.sheet(at+"/invoices.csv?status=PAID"), 1)
	require.Len(t, b.sheet(at+"/invoices.csv?customer=anna&status=DUE"), 2)
	require.Len(t, b.sheet(at+"/invoices.csv?customer=nobody"), 1)
	customers := b.sheet(at + "/customers.csv")
	require.Len(t, customers, 3)
	require.Equal(t, []string{"'=cmd", "'=1+1"}, customers[1][:2])
	require.Equal(t, []string{"team", "active", "USD", "20", "20", "0", ""}, customers[1][7:])
	require.Equal(t, "demo", b.sheet("/console/accounts.csv")[1][0])
	require.Equal(t, []string{"anna", "usage", "calls"}, b.sheet(at + "/events.csv")[1][2:5])
	require.Len(t, b.sheet(at+"/events.csv?denied=true&kind=audit"), 1)
	require.Equal(t, "3", b.sheet(anna + "/events.csv")[1][6])
	require.Equal(t, [][]string{
		{"customer", "events", "units", "currency", "price"}, {"anna", "1", "", "", ""},
	}, b.sheet(at+"/ranking.csv"))
	require.Equal(t, []string{"anna", "1", "3"}, b.sheet(at + "/ranking.csv?feature=calls")[1][:3])
	require.Len(t, b.sheet(at+"/denied.csv"), 1)
	require.Equal(t, []string{"team", "USD", "40"}, b.sheet(at + "/margin.csv?by=plan")[1][:3])
	require.Equal(t, "'=shop", b.sheet(at + "/keys.csv")[1][1])
	require.Len(t, b.sheet(at+"/catalog/team/subscribers.csv"), 3)
	require.Len(t, b.sheet(at+"/catalog/team/subscribers.csv?version=2"), 1)
	require.Len(t, b.sheet(hook+"/deliveries.csv?status=failed"), 1)
	moves := b.sheet(pool + "/transactions.csv")
	require.Len(t, moves, 3)
	require.Contains(t, []string{moves[1][7], moves[2][7]}, "'@welcome")
	for _, row := range b.sheet(at + "/log.csv")[1:] {
		require.Equal(t, []string{"demo", "sandbox"}, row[4:6])
	}
	require.Greater(t, len(b.sheet("/console/changes.csv")), len(b.sheet(at+"/log.csv")))
	for _, wrong := range []string{"/invoices.csv?status=none", "/events.csv?from=yesterday", "/margin.csv?by=moon"} {
		b.get(at + wrong).is(400)
	}
}

// TestAFileSaysWhatIsMissing: it has 10,000 rows at most.
func TestAFileSaysWhatIsMissing(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	n.customers(n.environment(), 9_999)
	require.Len(t, b.sheet(at+"/customers.csv"), 10_001)
	b.get(at+"/customers").is(200, `id="count">10,000 customers`)
	b.submit(at+"/customers", at+"/customers", fields("id", "one-more", "first", "C", "last", "C",
		"email", "c@c.example"))
	rows := b.sheet(at + "/customers.csv")
	require.Len(t, rows, 10_002)
	require.Contains(t, rows[10_001][0], "Rows are missing")
}

// TestASortedFileSaysWhatIsMissing: as one in the order of the list does. The list says how many it
// has no room for.
func TestASortedFileSaysWhatIsMissing(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish() // anna is on a plan
	const at, sorted = "/console/accounts/demo/sandbox", "?sort=owed&currency=USD"
	n.customers(n.environment(), 10_000)
	records := make([]engine.Record, 10_000)
	results := make([]engine.Result, len(records))
	for i := range records {
		c := billing.CreateSubscription{
			Env: n.environment(), Customer: fmt.Sprintf("c%d", i), Plan: "team", ID: [16]byte{1: 1},
			InvoiceID: [16]byte{1: 2},
		}
		binary.BigEndian.PutUint32(c.ID[2:], uint32(i))
		binary.BigEndian.PutUint32(c.InvoiceID[2:], uint32(i))
		records[i] = engine.Record{
			Kind: billing.KindCreateSubscription, Payload: wire.Encode(nil, &c),
		}
	}
	for from := 0; from < 9_999; { // an entry begins only so many, and defers the others
		n.Propose(n.now(), records[from:9_999], results[from:9_999])
		begun := from
		for from < 9_999 && results[from].Outcome == engine.OutcomeDone {
			from++
		}
		require.Greater(t, from, begun)
	}
	require.Len(t, b.sheet(at+"/customers.csv"+sorted), 10_001)
	p := b.get(at+"/customers"+sorted).is(200, "Shows up to 10,000 customers",
		"50 customers on this page; more on the next.")
	require.NotContains(t, p.body, "1 more has one")

	n.Propose(n.now(), records[9_999:], results[9_999:])
	require.Equal(t, engine.OutcomeDone, results[9_999].Outcome)
	rows := b.sheet(at + "/customers.csv" + sorted)
	require.Len(t, rows, 10_002)
	require.Contains(t, rows[10_001][0], "Rows are missing")
	b.get(at+"/customers"+sorted).is(200, "1 more has one")
}

// TestListsAreSorted: where the rows have an order.
func TestListsAreSorted(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	const anna = at + "/customers/anna"
	for _, units := range []string{"1", "2"} {
		b.submit(anna, anna+"/usage", fields("feature", "calls", "units", units))
	}
	b.submit(at+"/customers", at+"/customers", fields("id", "bob", "first", "B", "last", "C",
		"email", "b@b.example"))
	bob := at + "/customers/bob"
	for range 2 { // pays twice what anna pays, and owes as much more
		b.submit(bob, bob+"/subscriptions", fields("plan", "team"))
	}
	b.submit(at+"/customers", at+"/customers", fields("id", "free", "first", "B", "last", "C",
		"email", "b@b.example"))
	for _, sort := range []string{"owed", "monthlyRecurring"} {
		query := "?currency=USD&sort=" + sort
		rows := b.sheet(at + "/customers.csv" + query)
		require.Len(t, rows, 3)
		require.Equal(t, []string{"bob", "anna"}, []string{rows[1][0], rows[2][0]})
		p := b.get(at+"/customers"+query).is(200, `aria-current="true"`, ">40.00 USD")
		require.Less(t, strings.Index(p.body, "bob</code>"), strings.Index(p.body, "anna</code>"))
		require.NotContains(t, p.body, "free</code>")
		safe(t, p)
	}
	b.get(at+"/customers").is(200, "Most owed, USD", "Highest MRR, USD", "free</code>")
	b.get(at+"/customers?sort=owed&currency=EUR").is(200, "No customer has an amount above zero")
	// A list that was not read does not say that there are no customers.
	for query, says := range map[string]string{
		"sort=name": "owed, pastDue or monthlyRecurring", "cursor=x": "nextCursor",
		"sort=owed&currency=EURO": "currency", "find=" + strings.Repeat("x", 200): "find",
	} {
		p := b.get(at+"/customers?"+query).is(400, says, "All customers")
		for _, none := range []string{"No customer", "create the first one"} {
			require.NotContains(t, p.body, none, query)
		}
	}
	first := func(path string) string { return b.sheet(path)[1][6] }
	require.Equal(t, "2", first(anna+"/events.csv"))
	require.Equal(t, "1", first(anna+"/events.csv?order=asc"))
	b.get(anna+"/events?order=asc").is(200, `aria-current="true">Oldest first`)
	b.get(at+"/margin").is(200, `aria-sort="descending">Revenue`, `sort=cost`)
	safe(t, b.get(at+"/margin?sort=events").is(200, `aria-sort="descending">Events`))
	b.submit(at+"/clock", at+"/clock", fields("to", n.now().AddDate(0, 0, 20).Format(time.RFC3339)))
	overdue := b.get(at+"/customers?sort=pastDue&currency=USD").is(200, "Late by", ">40.00 USD",
		`aria-current="true">Most past due, USD`)
	require.Regexp(t, `>1\d days `, overdue.body)
	require.Less(t, strings.Index(overdue.body, "bob</code>"), strings.Index(overdue.body, "anna</code>"))
	require.NotContains(t, overdue.body, "free</code>")
	safe(t, overdue)
	b.get(at+"/overview").is(200, "sort=pastDue&amp;currency=USD")
	b.get(at+"/customers?sort=pastDue").is(200, `aria-current="true">Most past due, USD`)
	// What is past due is told with its sum, and stays in the activity once it is paid.
	b.get(bob).is(200, "All of it is past due", "With 1 other that is past due, too, 40.00 USD in all")
	oldest := b.firstLink(bob, at+"/invoices/[0-9a-f-]+")
	b.get(oldest+"/paid/confirm").is(200, "Its subscription, which is suspended, becomes active")
	b.submit(oldest, oldest+"/paid", fields("note", ""))
	b.get(bob).is(200, "fell due and was not paid", "was paid")
	p := b.get(at+"/invoices?status=PAST_DUE").is(200, `aria-current="true">Due first`)
	safe(t, p)
	b.get(at+"/invoices?status=PAST_DUE&order=newest").is(200, `aria-current="true">Newest first`)
	b.get(at+"/invoices?status=DUE&order=due").is(200, `aria-current="true">Due first`)
}

// TestTotals: what invoices come to by state, what recurs in a month, and what a customer owes.
func TestTotals(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	b.submit(at+"/catalog", at+"/catalog", fields("action", "apply", "document", catalog+
		"  - {key: year, name: Year, priceAmount: 100, currency: USD, intervalMonths: 12, features: []}\n"))
	b.submit(at+"/customers", at+"/customers", fields("id", "bob", "first", "Bob", "last", "B",
		"email", "b@b.example"))
	const bob = at + "/customers/bob"
	b.submit(bob, bob+"/subscriptions", fields("plan", "year"))
	invoice := at + "/invoices/" + (&recorder{browser: b}).newestInvoice()
	b.submit(invoice, invoice+"/paid", fields("note", ""))
	// 20 + 100 ÷ 12, rounded once.
	safe(t, b.get(at+"/overview").is(200, "28.33 USD</p>", "2 subscriptions, including suspended ones",
		"Newest subscriptions", "bob</a> to Year", "Newest invoices"))
	b.get(bob).is(200, "Monthly recurring revenue (MRR): 8.33 USD")
	b.get(at+"/invoices").is(200, `id="totals"`, "<strong>20.00 USD</strong>",
		"<strong>100.00 USD</strong>", "1 invoice<")
	b.get(at+"/invoices?customer=bob").is(200, "<strong>100.00 USD</strong>")
	p := b.get(at+"/customers").is(200, `id="count">2 customers`, `data-label="Plan">Year`,
		`data-label="Owed"><span>100.00 USD</span>`)
	safe(t, p)
	b.submit(at+"/clock", at+"/clock", fields("to", n.now().AddDate(0, 0, 20).Format(time.RFC3339)))
	b.get(at+"/customers").is(200, `<span class="late">100.00 USD`, `status suspended`)
}

// TestTheLog: an operator of one account sees its environment's changes and nobody else's, and
// chooses among them.
func TestTheLog(t *testing.T) {
	n, o := named(t)
	const who = "ops@example.com"
	o.grant(who, console.Grant{Manage: true})
	b := n.by(o, who)
	b.furnish()
	b.submit("/console", "/console/accounts", fields("name", "other"))
	const at = "/console/accounts/demo/sandbox"
	b.submit("/console/accounts/other/sandbox/keys", "/console/accounts/other/sandbox/keys",
		fields("scope", "full", "label", "elsewhere"))
	o.grant(who, console.Grant{Account: "demo"})
	p := b.get(at+"/log").is(200, "created the customer", "subscribed anna to team")
	safe(t, p)
	require.NotContains(t, p.body, "elsewhere")
	require.NotContains(t, b.get(at+"/log?account=other").is(200).body, "elsewhere")
	b.get(at+"/log?customer=anna").is(200, "subscribed anna to team")
	require.NotContains(t, b.get(at+"/log?customer=anna").body, "applied a catalog")
	b.get(at+"/log?customer=nobody").is(404, "Customer not found")
	safe(t, b.get(at+"/log?actor=someone").is(200, "No matching changes", "All changes"))
	b.get(at+"/log?actor="+who).is(200, `aria-current="true">`+who)
	b.get("/console/changes").is(403)
	b.get("/console/changes.csv").is(403)
	b.get("/console/accounts/other/sandbox/log").is(403)
	o.grant(who, console.Grant{})
	b.get("/console/changes?account=other").is(200, "elsewhere")
	require.NotContains(t, b.get("/console/changes?account=other").body, "subscribed anna")
}
