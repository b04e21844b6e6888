package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	api "tollgate/sdk/go"
	"tollgate/server/console"
)

// TestCustomerPage: the page answers what a customer pays, owes and uses, and why checks are
// denied, with the way to the invoice that is late.
func TestCustomerPage(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish() // anna is on team: invoice 1 of 20.00 USD
	const at = "/console/accounts/demo/sandbox"
	const anna = at + "/customers/anna"
	p := b.get(anna).is(200, ">Team<", "20.00 USD a month, renews", "No usage in the last 30 days",
		"How to send the first one", "Due, and not late")
	require.NotContains(t, p.body, `id="denied"`)
	for i := range 12 {
		b.submit(anna, anna+"/usage", fields("feature", "calls", "units", fmt.Sprint(i+1)))
	}
	b.submit(anna, anna+"/usage", fields("feature", "sea.miles", "units", "2"))
	p = b.get(anna).is(200, `id="denied"`, "1 of 1 features is blocked",
		"The usage limit of this feature is reached", `class="chart"`, "(matches no feature)",
		at+"/usage.csv?customer=anna", at+"/usage?customer=anna", "not billed")
	safe(t, p)
	events := p.body[strings.Index(p.body, `id="latest-events"`):]
	require.Equal(t, 8, strings.Count(events, `data-label="Kind"`))
	last := -1
	for _, units := range []string{">2<", ">12<", ">11<", ">10<"} { // newest first
		found := strings.Index(events, `data-label="Units"`+units)
		require.Greater(t, found, last, units)
		last = found
	}
	b.get(at+"/usage.csv?customer=anna").is(200, "start,feature,units,events")

	b.submit(at+"/clock", at+"/clock", fields("to", n.now().AddDate(0, 0, 20).Format(time.RFC3339)))
	p = b.get(anna).is(200, "Some of it is past due", "The subscription is suspended",
		`class="status suspended"`)
	denied := p.body[strings.Index(p.body, `id="denied"`):]
	require.Regexp(t, `<a href="`+at+`/invoices/[0-9a-f-]{36}">Invoice 1, 20\.00 USD</a> has been past due since`,
		denied)
	safe(t, p)
}

// TestSentences: a change is said in words with its values, and leads to what it is about.
func TestSentences(t *testing.T) {
	for _, c := range []struct {
		change api.AdminChange
		says   string
	}{
		{
			api.AdminChange{
				Actor: "admin-key", Action: "clock.advanced",
				After: map[string]string{"clock": "2027-01-22T21:10:00.000Z"},
			}, "The admin key moved the test clock to 22 Jan 2027, 21:10",
		},
		{
			api.AdminChange{
				Actor: "ada@example.com", Action: "key.created",
				After: map[string]string{"scope": "full"},
			}, "ada@example.com created the key, scope full",
		},
		{
			api.AdminChange{
				Actor: "ada@example.com", Action: "webhook-endpoint.deleted",
				Before: map[string]string{"url": "https://a.example"},
			}, "ada@example.com removed the webhook endpoint https://a.example",
		},
		{
			api.AdminChange{
				Actor: "a{amount}", Action: "credits.granted",
				After: map[string]string{"amount": "1200.5", "note": "{amount}"},
			}, "a{amount} granted 1,200.5 credits",
		},
		{
			api.AdminChange{
				Actor: "ada@example.com", Action: "subscription.created",
				After: map[string]string{"customer": "{plan}", "plan": "team"},
			}, "ada@example.com subscribed (plan) to team",
		},
		{api.AdminChange{Actor: "x", Action: "moon.landed-on"}, "x moon landed on"},
	} {
		text, _ := console.SentenceOf(&c.change)
		require.Equal(t, c.says, text)
	}
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	invoice := at + "/invoices/" + (&recorder{browser: b}).newestInvoice()
	b.submit(invoice, invoice+"/paid", fields("note", ""))
	b.get("/console/changes").is(200,
		`<a href="`+invoice+`">The admin key marked an invoice as paid</a>`,
		`<a href="`+at+`/customers/anna">The admin key subscribed anna to team</a>`,
		`<a href="`+at+`/customers/anna">The admin key created the customer anna</a>`,
		`<a href="`+at+`/catalog">The admin key applied a catalog</a>`,
		`<a href="/console/accounts/demo">The admin key created the account demo</a>`)
}
