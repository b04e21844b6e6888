package console_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
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
		"Invoice 1 was issued: 20.00 USD", "The admin key subscribed anna to team", "Due, and not late",
		"Monthly recurring revenue (MRR): 20.00 USD")
	require.NotContains(t, p.body, `id="denied"`)
	for i := range 12 {
		b.submit(anna, anna+"/usage", fields("feature", "calls", "units", fmt.Sprint(i+1)))
	}
	b.submit(anna, anna+"/usage", fields("feature", "sea.miles", "units", "2"))
	p = b.get(anna).is(200, `id="denied"`, "1 of 1 features is blocked",
		"The usage limit of this feature is reached", `class="chart"`, "(matches no feature)",
		at+"/usage.csv?customer=anna", at+"/usage?customer=anna", "not billed")
	safe(t, p)
	activity := p.body[strings.Index(p.body, `id="activity"`):]
	require.Equal(t, 20, strings.Count(activity, `data-label="Kind"`))
	require.Contains(t, activity, "The admin key recorded 12 units of calls")
	last := -1
	for _, text := range []string{
		"2 of sea.miles, not billed", ">12 of calls<", ">11 of calls<",
	} { // newest first
		found := strings.Index(activity, text)
		require.Greater(t, found, last, text)
		last = found
	}
	b.get(at+"/usage.csv?customer=anna").is(200, "start,feature,units,events")

	b.submit(at+"/clock", at+"/clock", fields("to", n.now().AddDate(0, 0, 20).Format(time.RFC3339)))
	p = b.get(anna).is(200, "All of it is past due", "The subscription is suspended",
		`class="status suspended"`)
	// The move of the clock is between what happened before it and after, on the sandbox's clock.
	activity = p.body[strings.Index(p.body, `id="activity"`):]
	require.Less(t, strings.Index(activity, "moved the test clock"),
		strings.Index(activity, "fell due and was not paid"))
	require.Less(t, strings.Index(activity, "fell due and was not paid"),
		strings.Index(activity, ">12 of calls<"))
	require.NotContains(t, p.body, `id="looked"`)
	live, _ := n.Machine.Environment("demo", billing.EnvironmentLive)
	for i := range 2000 {
		n.Do(t, billing.KindSetOrigins, &billing.SetOrigins{
			Env: live, Origins: []string{fmt.Sprintf("https://o%d.example", i)}, Actor: "busy",
		})
	}
	other := b.get(anna).is(200, "only the newest 2,000 of the cluster were looked at").body
	require.NotContains(t, other, "subscribed anna to team")
	denied := p.body[strings.Index(p.body, `id="denied"`):]
	require.Regexp(t, `<a href="`+at+`/invoices/[0-9a-f-]{36}">Invoice 1, 20\.00 USD</a> has been past due since`,
		denied)
	safe(t, p)
}

// TestWebhooksAreInATimeline: messages about a customer stand among what happened to them, when it
// happened, and in an endpoint's list for them alone.
func TestWebhooksAreInATimeline(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	b.submit(at+"/webhooks", at+"/webhooks", fields("url", "https://shop.example/hook"))
	hook := b.firstLink(at+"/webhooks", at+"/webhooks/[0-9a-f-]+")
	for _, id := range []string{"bert", "carl"} {
		b.submit(at+"/customers", at+"/customers", fields("id", id, "first", "B", "last", "C",
			"email", "b@example.com"))
		b.submit(at+"/customers/"+id, at+"/customers/"+id+"/subscriptions", fields("plan", "team"))
	}
	b.submit(at+"/clock", at+"/clock", fields("to", n.now().AddDate(0, 0, 20).Format(time.RFC3339)))
	p := b.get(at+"/customers/bert").is(200, "subscription.created to https://shop.example/hook: waits",
		"invoice.past_due to")
	safe(t, p)
	require.NotContains(t, p.body, `id="looked-webhooks"`)
	activity := p.body[strings.Index(p.body, `id="activity"`):]
	require.Less(t, strings.Index(activity, "invoice.past_due to"),
		strings.Index(activity, "subscription.created to"), "it happened then")
	message := regexp.MustCompile(hook + `/deliveries/msg_[0-9a-f]+`).FindString(activity)
	b.get(message).is(200, `href="`+at+`/customers/bert"`, "clock", "\nwebhook-timestamp: (not sent yet)\n",
		"The message has not been sent yet")
	require.NotContains(t, b.get(at+"/customers/anna").body, "subscription.created to")

	list := b.get(hook+"?customer=bert").is(200, "Only messages about", "?customer=bert&amp;status=failed")
	safe(t, list)
	require.Contains(t, list.body, `href="`+at+`/customers/bert">bert</a></td>`)
	require.NotContains(t, list.body, "carl")
	b.get(hook+"?customer=anna").is(200, "invoice.past_due")
	b.get(hook+"?customer=anna&status=failed").is(200, "No delivery matches")
	b.get(hook+"?customer=nobody").is(404, "Customer not found")
}

// TestAttemptsAreOnTheirDeliverysPage: ten of each of fifty messages would make the list heavy; it
// has the last one of each.
func TestAttemptsAreOnTheirDeliverysPage(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	b.submit(at+"/webhooks", at+"/webhooks", fields("url", "https://shop.example/hook"))
	hook := b.firstLink(at+"/webhooks", at+"/webhooks/[0-9a-f-]+")
	for i := range 51 {
		id := fmt.Sprint("c", i)
		b.submit(at+"/customers", at+"/customers", fields("id", id, "first", "B", "last", "C",
			"email", "b@example.com"))
		b.submit(at+"/customers/"+id, at+"/customers/"+id+"/subscriptions", fields("plan", "team"))
	}
	due := n.Machine.DueWebhooks(n.now().AddDate(1, 0, 0).UnixMilli(), 100,
		func([16]byte) int { return 100 }, func(uint64) bool { return false })
	require.Len(t, due, 51) // the first of each customer
	for i := range due {
		for attempt := range uint32(10) {
			n.Do(t, billing.KindRecordDelivery, &billing.RecordDelivery{
				Env: due[i].Env, Endpoint: due[i].Endpoint.ID, Row: due[i].Delivery.Row,
				Sequence: due[i].Delivery.Sequence, Attempt: attempt + 1, Outcome: billing.AttemptRetry,
				Status: 500 + attempt, Reason: strings.Repeat("r", 200), TookMS: 7, RetryMS: 1,
				Answer: "down",
			})
		}
	}
	list := b.get(hook).is(200, "50 deliveries on this page; more on the next.", "retry 509")
	require.NotContains(t, list.body, "retry 508")
	b.small(list)
	one := regexp.MustCompile(`href="(` + hook + `/deliveries/msg_[0-9a-f]+)"[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*retry 509`).
		FindStringSubmatch(list.body)[1]
	p := b.get(one).is(200, "10 attempts in all")
	for status := range 10 {
		p.is(200, fmt.Sprint(`data-label="HTTP status">`, 500+status))
	}
	b.small(p)
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
		{
			api.AdminChange{Actor: "engine", Action: "credits.not-granted", After: map[string]string{
				"amount": "1200", "pool": "prepaid", "reason": "the pool's total would be out of range",
			}},
			"engine could not grant 1,200 credits to prepaid: the pool's total would be out of range",
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
	(&recorder{browser: b}).ask(n.programs, "putBudget", `{"name":"Research"}`, "r/d")
	b.send(at+"/customers/anna/portal-link", b.fill(at+"/customers/anna", fields("minutes", "60")))
	// The same form, sent twice, makes one link.
	link := b.fill(at+"/customers/anna", fields("minutes", "90"))
	b.send(at+"/customers/anna/portal-link", link).is(200, "The portal link was created", "for 90 minutes")
	before := len(b.sheet("/console/changes.csv"))
	b.send(at+"/customers/anna/portal-link", link).is(200, "was created before")
	require.Len(t, b.sheet("/console/changes.csv"), before)
	require.Regexp(t, "created a portal link that is valid for 9[01] minutes",
		b.get(at+"/customers/anna").is(200).body)
	b.submit(at+"/settings", at+"/settings/terms", fields("paymentTermDays", "9"))
	b.submit(at+"/customers/anna", at+"/customers/anna/pools", fields("name", "prepaid"))
	pool := b.firstLink(at+"/customers/anna", at+"/pools/[0-9a-f-]+")
	n.Do(t, billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
		Env: n.environment(), Provider: billing.ProviderSandbox,
	})
	b.submit(pool, pool+"/top-up", fields("below", "1", "credits", "10", "price", "2", "cap", "4",
		"card", "x"))
	held := b.reserve("anna", "call-1")
	b.submit(at+"/customers/anna", at+"/reservations/"+held+"/release", url.Values{})
	b.get("/console/changes").is(200,
		`<a href="`+at+`/budgets/r%2Fd">olga@example.com created the budget Research</a>`,
		`<a href="`+at+`/customers/anna">The admin key created a portal link`,
		`<a href="`+at+`/settings">The admin key set the payment terms</a>`,
		`<a href="`+pool+`">The admin key set a pool to be topped up below 1</a>`,
		`<a href="`+at+`/reservations/`+held+`">The admin key released the reservation call-1</a>`,
		`<a href="`+invoice+`">The admin key marked an invoice as paid</a>`,
		`<a href="`+at+`/customers/anna">The admin key subscribed anna to team</a>`,
		`<a href="`+at+`/customers/anna">The admin key created the customer anna</a>`,
		`<a href="`+at+`/catalog">The admin key applied a catalog</a>`,
		`<a href="/console/accounts/demo">The admin key created the account demo</a>`)
}

// TestFormsAreAtHand: a page whose form is behind a list leads to it from its head.
func TestFormsAreAtHand(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	b.submit(at+"/keys", at+"/keys", fields("scope", "full", "label", "shop"))
	for path, forms := range map[string][]string{
		"/console":                {"create-account"},
		at + "/customers":         {"create-customer"},
		at + "/keys":              {"create-key"},
		at + "/customers/anna":    {"subscribe", "record-usage", "create-pool", "portal-link"},
		at + "/customers?find=no": {"create-customer"},
	} {
		p := b.get(path).is(200)
		safe(t, p)
		for _, form := range forms {
			link := strings.Index(p.body, `href="#`+form+`"`)
			require.Positive(t, link, form)
			require.Less(t, link, strings.Index(p.body, `id="`+form+`"`))
			require.Less(t, link, strings.Index(p.body+"<table", "<table"))
		}
	}
}
