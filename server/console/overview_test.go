package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOverviewAndUsage: an environment without anything, one with usage, denied checks and an
// invoice, and what the explorer says to questions that it cannot answer.
func TestOverviewAndUsage(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.submit("/console", "/console/accounts", fields("name", "demo"))
	const at = "/console/accounts/demo/sandbox"
	b.get(at+"/overview").is(200, "No usage yet", "$API/events", "Bearer sk_test_…", "Nothing at the moment", "No invoice was issued yet")
	b.get(at+"/usage").is(200, "No usage in this range", "$API/events")
	b.get("/console/accounts/demo/live/usage").is(200, "Bearer sk_live_…")

	b.submit(at+"/catalog", at+"/catalog", fields("document", catalog, "action", "apply"))
	b.submit(at+"/customers", at+"/customers", fields("id", "anna/1", "first", "Anna", "last", "Berg",
		"email", "anna@example.com"))
	const anna = at + "/customers/anna%2F1"
	b.submit(anna, anna+"/subscriptions", fields("plan", "team"))
	b.submit(anna, anna+"/usage", fields("feature", "calls", "units", "8"))
	b.submit(anna, anna+"/usage", fields("feature", "typo", "units", "1"))

	page := b.get(at+"/overview").is(200, `<figure class="chart">`, ", calls: 8</title>",
		"Billed this month", "1 event name</a> matches no feature", "anna/1", `href="`+at+`/usage.csv"`)
	require.Less(t, len(page.body), 60_000)
	// What is newest renews itself.
	page.is(200, `data-live="`+at+`/overview/live"`)
	part := b.get(at+"/overview/live").is(200, "Newest customers", "anna/1", "Newest invoices")
	require.NotContains(t, part.body, "<html")
	yesterday := time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)
	today, shown := time.Now().UTC().Format(time.DateOnly), time.Now().UTC().Format("2 Jan 2006")
	page.is(200, "<title>"+shown+": 2</title>", `<th scope="row">`+shown+`</th><td class="n">2</td>`,
		`id="denied-numbers"`, `href="`+at+`/checks.csv"`, "<span>Events</span>",
		"<span>2</span><span>1</span><span>0</span>", "<span>"+shown+"</span>")
	b.get(at+"/usage?feature=calls&customer=anna%2F1&by=hour").is(200, "calls: 8", `<option selected>calls`)
	b.get(at+"/usage?from="+today+"&to="+today).is(200, shown+", calls: 8", `value="`+today+`"`)
	// Who used most, within three clicks of the overview: usage, yesterday, the feature.
	b.get(at+"/usage").is(200, ">Yesterday</a>", "Customers who used most, by events",
		`href="`+anna+`">anna/1</a>`)
	b.get(at+"/usage?feature=calls").is(200, "Customers who used most of calls, by units", ">8</td>")
	// By money in one click more, or in one alone.
	b.get(at+"/usage").is(200, "Most added to bills, USD", `/usage?feature=calls">calls</a>`)
	b.get(at+"/usage?sort=price").is(200, "by what it adds to bills", ">4.00 USD</td>",
		`aria-current="true">Most added to bills, USD`)
	b.get(at + "/usage?sort=price&feature=typo").is(404)
	b.get(at+"/usage?sort=price&currency=EUR").is(200, "No usage adds to a bill in EUR")
	b.ranking.Store(true) // the figure stays where the ranking is refused
	for _, query := range []string{"sort=price", "sort=price&split=customer"} {
		p := b.get(at+"/usage?"+query).is(503, "ranking customers by price for other requests",
			`id="chart"`, `id="totals"`, "Most added to bills, USD")
		require.NotContains(t, p.body, `id="customers"`)
	}
	b.get(at + "/ranking.csv?sort=price").is(503)
	b.get(at + "/usage.csv?split=customer").is(503)
	b.ranking.Store(false)
	page.is(200, "sort=price&amp;to="+yesterday+`#customers" id="yesterday"`)
	require.Contains(t, b.get(at+"/ranking.csv?sort=price").body, "anna/1,2,,USD,4\n")
	b.get(at+"/usage?split=customer").is(200, "Usage by customer, events", ", anna/1: 2</title>",
		`<option value="customer" selected>`)
	b.get(at+"/usage?split=customer&feature=calls").is(200, "Usage by customer, units",
		", anna/1: 8</title>")
	b.get(at+"/usage?split=customer&customer=anna%2F1").is(200, "Usage by feature")
	byCustomer := b.get(at + "/usage.csv?by=month&split=customer&feature=calls&from=" + today).is(200)
	require.Equal(t, "start,customer,events,units\n"+today[:7]+"-01T00:00:00Z,anna/1,1,8\n",
		byCustomer.body)
	p := b.get(at+"/usage?by=hour&from="+yesterday+"&to="+yesterday).is(200, "No usage in this range")
	require.NotContains(t, p.body, "who used most")
	csv := b.get(at + "/usage.csv?by=month&from=" + today).is(200)
	require.Equal(t, "start,feature,units,events\n"+today[:7]+"-01T00:00:00Z,calls,8,1\n"+
		today[:7]+"-01T00:00:00Z,,1,1\n", csv.body)

	for query, want := range map[string]string{
		"by=hour&from=1970-01-01":       "1,000 buckets",
		"from=yesterday":                "RFC 3339",
		"from=2026-02-02&to=2026-01-01": "before to",
		"by=week":                       "hour, day or month",
	} {
		b.get(at+"/usage?"+query).is(400, want, `role="alert"`, `id="explore"`)
		b.get(at + "/usage.csv?" + query).is(400)
	}
	b.get(at+"/usage?customer=%3Cscript%3E").is(404, "Customer not found", "&lt;script&gt;")
	b.get(at+"/usage?feature=nothing").is(404, "Feature not found")
}

// TestWhoUsedMostInEachCurrency: one click from the overview, and a file of each.
func TestWhoUsedMostInEachCurrency(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish() // anna pays in USD
	const at = "/console/accounts/demo/sandbox"
	plan := catalog[strings.Index(catalog, "  - key: team"):]
	b.submit(at+"/catalog", at+"/catalog", fields("document", catalog+strings.NewReplacer(
		"key: team", "key: euro", "USD", "EUR", "0.5", "0.25").Replace(plan), "action", "apply"))
	b.submit(at+"/customers", at+"/customers", fields("id", "ben", "first", "Ben", "last", "Berg",
		"email", "ben@example.com"))
	b.submit(at+"/customers/ben", at+"/customers/ben/subscriptions", fields("plan", "euro"))
	for _, customer := range []string{"anna", "ben"} {
		b.submit(at+"/customers/"+customer, at+"/customers/"+customer+"/usage",
			fields("feature", "calls", "units", "4"))
	}
	b.get(at+"/overview").is(200, "usage?by=hour&amp;from=", "&amp;sort=price&amp;to=")
	p := b.get(at+"/usage?sort=price").is(200, "by what it adds to bills in USD", ">2.00 USD</td>",
		"by what it adds to bills in EUR", ">1.00 EUR</td>",
		`aria-current="true">Most added to bills, each currency`, "Most added to bills, EUR")
	require.Equal(t, 1, strings.Count(p.body, `id="customers"`))
	safe(t, p)
	b.get(at+"/usage").is(200, "Customers who used most, by events", `href="`+at+
		`/usage?sort=price#customers">Most added to bills, each currency`)
	for currency, row := range map[string]string{"USD": "anna,1,,USD,2\n", "EUR": "ben,1,,EUR,1\n"} {
		file := at + "/ranking.csv?currency=" + currency + "&sort=price"
		p.is(200, strings.ReplaceAll(file, "&", "&amp;"))
		require.Contains(t, b.get(file).body, row)
		one := b.get(at+"/usage?sort=price&currency="+currency).is(200, "in "+currency+"<",
			`aria-current="true">Most added to bills, `+currency)
		require.Equal(t, 1, strings.Count(one.body, "<caption>Customers who used most"))
	}
	// A fourth currency has no table of its own, and is a click away.
	document := catalog
	for key, currency := range map[string]string{"euro": "EUR", "franc": "CHF", "pound": "GBP"} {
		document += strings.NewReplacer(
			"key: team", "key: "+key, "USD", currency, "0.5", "0.25").Replace(plan)
	}
	b.submit(at+"/catalog", at+"/catalog", fields("document", document, "action", "apply"))
	all := b.get(at+"/usage?sort=price").is(200, "1 more currency has no table here: <a href=\""+at+
		`/usage?currency=GBP&amp;sort=price#customers">GBP</a>.`)
	require.Equal(t, 3, strings.Count(all.body, "<caption>Customers who used most"))
	require.NotContains(t, all.body, "Most added to bills, GBP")
	b.get(at+"/usage?sort=price&currency=GBP").is(200, "by what it adds to bills in GBP",
		`aria-current="true">Most added to bills, GBP`)
}

// TestTheMargin is the page of what was earned and what it cost.
func TestTheMargin(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox/margin"
	for _, by := range []string{"customer", "feature", "plan"} {
		safe(t, b.get(at+"?by="+by).is(200, "20.00 USD", "100 %"))
	}
	b.get(at).is(200, `href="/console/accounts/demo/sandbox/customers/anna"`)
	b.get(at+"?from=2020-01-01&to=2020-01-02").is(200, "No revenue and no cost")
	for _, wrong := range []string{"?from=yesterday", "?by=moon"} {
		require.NotContains(t, b.get(at+wrong).is(400).body, "No revenue and no cost")
	}
	b.get(at+"?from=yesterday").is(400, "RFC 3339")
	week := n.now().AddDate(0, 0, -6).UTC().Format(time.DateOnly)
	b.get(at).is(200, `name="from" value="`+week+`"`)
}
