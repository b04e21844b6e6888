package console_test

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
)

// TestEventsPage: the newest first, of the kind and feature that the address selects, with what the
// API answers; voids, amendments and checks among them.
func TestEventsPage(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const anna = "/console/accounts/demo/sandbox/customers/anna"
	r := &recorder{browser: b, names: map[string]string{}}
	at := string(server.AppendTime(nil, n.now().UnixMilli()))
	for _, event := range []string{`"first","eventName":"calls"`, `"second","eventName":"nothing"`} {
		r.ask(n.programs, "ingestEvent", `{"eventIdempotencyKey":`+event+
			`,"customerReferenceId":"anna","occurredAt":"`+at+`"}`)
	}
	block := billing.AuditBlock{}
	block.Reset(1, 1, 1)
	check := billing.AuditCheck{
		Env: n.environment(), CustomerRow: n.row("anna"), FeatureNumber: 1,
		Reason: billing.ReasonLimitReached, At: n.now().UnixMilli(),
		Figures: billing.CheckFigures{
			Limited: true, Used: decimal.FromInt(1200), Held: decimal.FromInt(1),
			Limit: decimal.FromInt(1300), Asked: decimal.FromInt(100), Budget: "team",
		},
	}
	block.Add(&check)
	check.Reason, check.Figures = billing.ReasonAllowed, billing.CheckFigures{}
	block.Add(&check)
	n.Propose(n.now(), []engine.Record{{
		Kind: billing.KindRecordAudits, Payload: block.Encode(nil),
	}}, make([]engine.Result, 1))

	shows := func(path string, want, not []string) shown {
		t.Helper()
		p := b.get(anna+"/events"+path).is(200, want...)
		safe(t, p)
		for _, text := range not {
			require.NotContains(t, p.body, text)
		}
		return p
	}
	all := shows("", []string{"first", "second", "not billed", "limit reached", `data-live="`}, nil)
	require.Less(t, strings.Index(all.body, "<code>second"), strings.Index(all.body, "<code>first"))
	require.NotContains(t, all.body, "eventName&#34;", "a list has no JSON")
	b.get(html.UnescapeString(b.firstLink(anna+"/events?kind=usage&feature=calls", anna+"/events[^\"]+key=first"))).
		is(200, `&#34;eventName&#34;: &#34;calls&#34;`, "<dt>Plan now</dt><dd>Team", "0.50 USD a ",
			">Pending invoice</a>: 0.50 USD")
	seen := b.get(html.UnescapeString(b.firstLink(anna+"/events?kind=audit", anna+"/events[^\"]+check=[^\"]+"))).
		is(200, "JSON of the check", "&#34;reason&#34;: ")
	safe(t, seen)
	b.get(anna+"/events?at="+at+"&check=nothing").is(200, "no such check")
	require.Contains(t, b.get(anna+"/events?key=fir&kind=usage").is(303).to, "/search?q=fir")
	require.Contains(t, b.get(b.get("/console/accounts/demo/sandbox/events?key=first").is(303).to).is(303).to,
		anna+"/events?at=")
	shows("?feature=calls&kind=usage", []string{"first"}, []string{"<code>second", "limit reached"})
	shows("?kind=usage&unbilled=true", []string{"second"}, []string{"<code>first"})
	shows("?kind=audit&denied=true", []string{"limit reached", "1,200 used, 1 held of 1,300 in budget team, 100 requested"}, []string{"<code>first"})
	everyone := b.get("/console/accounts/demo/sandbox/events?key=first&at="+at).
		is(200, "Usage events, corrections and checks of all customers", "<code>first", "<code>second")
	safe(t, everyone)
	require.NotContains(t, everyone.body, "No event of this customer")
	shows("?to=2020-01-01", []string{"No event here matches"}, []string{"data-live"})
	b.get(anna+"/events?from=x").is(400, "from")
	b.get(anna+"/events/live?kind=usage").is(200, "second")

	const every = "/console/accounts/demo/sandbox/events"
	p := b.get(every).is(200, "first", "second", "limit reached", `href="`+anna+`"`, `data-live="`,
		anna+"/events?at=")
	safe(t, p)
	require.Less(t, strings.Index(p.body, "<code>second"), strings.Index(p.body, "<code>first"))
	b.get(every+"?kind=usage&unbilled=true").is(200, "second")
	b.get(every+"?kind=void").is(200, "No event here matches")
	b.get(every+"/live?kind=usage").is(200, "second")
	b.get(every+"?from=x").is(400, "from")

	const denied = "/console/accounts/demo/sandbox/denied"
	p = b.get(denied).is(200, "anna", "limit reached", "Denied checks")
	safe(t, p)
	b.get(b.firstLink(denied, anna+"/events[^\"]+")).is(200, "limit reached")
	b.get(denied+"?reason=no_subscription").is(200, "No check was denied")
	b.get(denied+"?from=x").is(400, "from")
	b.get("/console/accounts/demo/sandbox/overview").is(200, `id="denied"`)
}

// TestAFullPageOfEventsIsSmall: with its styles it has 100 KB at most, whatever the events carry
// along.
func TestAFullPageOfEventsIsSmall(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	const customer = "4f0c7b1e-5d0a-4f57-9f0e-3a6f1a2b9c8d"
	b.submit(at+"/customers", at+"/customers", fields("id", customer, "first", "A", "last", "B",
		"email", "a@b.example"))
	r := &recorder{browser: b, names: map[string]string{}}
	var batch []string
	for i := range 60 {
		batch = append(batch, fmt.Sprintf(`{"eventIdempotencyKey":"%08d-5d0a-4f57-9f0e-3a6f1a2b9c8d",`+
			`"eventName":"calls","customerReferenceId":%q,"occurredAt":%q,"meta":{"prompt":%q}}`, i, customer,
			n.now().UTC().Format(time.RFC3339), strings.Repeat(`a "word" & more `, 400)))
	}
	r.ask(n.programs, "ingestEventBatch", "["+strings.Join(batch, ",")+"]")
	for _, path := range []string{at + "/events", at + "/customers/" + customer + "/events"} {
		p := b.get(path).is(200)
		require.Equal(t, 50, strings.Count(p.body, "<code>000000"))
		b.small(p)
	}
	one := b.get(html.UnescapeString(b.firstLink(at+"/events", at+"/customers/[^\"]+key=[^\"]+")))
	require.Less(t, len(one.is(200, "word").body), 80<<10)
}

// small fails the test where a page with its styles has more than 100 KB.
func (b *browser) small(p shown) {
	b.t.Helper()
	style := regexp.MustCompile(`href="(/console/asset/[^"]+\.css)"`).FindStringSubmatch(p.body)
	require.NotNil(b.t, style)
	require.Less(b.t, len(p.body)+len(b.get(style[1]).body), 100<<10)
}

// TestPagesWithLongNamesAreSmall: full lists and charts of features, customers and event keys whose
// names have the most characters that they may have.
func TestPagesWithLongNamesAreSmall(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.submit("/console", "/console/accounts", fields("name", "demo"))
	const at = "/console/accounts/demo/sandbox"
	long := func(name string, maximum int) string { return name + strings.Repeat("x", maximum-len(name)) }
	feature := func(i int) string { return long(fmt.Sprintf("feature-%03d-", i), 128) }
	customer := func(i int) string { return long(fmt.Sprintf("customer-%03d-", i), 128) }
	const features, customers = 60, 30
	document := "features:\n"
	for i := range features {
		document += "  - {key: " + feature(i) + ", name: F}\n"
	}
	b.submit(at+"/catalog", at+"/catalog", fields("document", document, "action", "apply"))
	for i := range customers {
		b.submit(at+"/customers", at+"/customers", fields("id", customer(i), "first", "A", "last", "B",
			"email", "a@b.example"))
	}
	r := &recorder{browser: b, names: map[string]string{}}
	var batch []string
	for hour := range 40 { // so many bars that each of six series has one for each hour
		for i := range features {
			if hour > 0 && i >= 8 {
				break
			}
			batch = append(batch, fmt.Sprintf(`{"eventIdempotencyKey":%q,"eventName":%q,`+
				`"customerReferenceId":%q,"usageUnits":%d,"occurredAt":%q}`,
				long(fmt.Sprintf("%04d-", len(batch)), 255), feature(i), customer(len(batch)%customers),
				123_456_000+i, n.now().UTC().Add(-time.Duration(hour)*time.Hour).Format(time.RFC3339)))
		}
	}
	r.ask(n.programs, "ingestEventBatch", "["+strings.Join(batch, ",")+"]")
	from := n.now().UTC().Add(-39 * time.Hour).Format(time.RFC3339)
	p := b.get(at + "/usage?" + url.Values{"by": {"hour"}, "from": {from}}.Encode()).is(200)
	require.Equal(t, 240, strings.Count(p.body, "</title></rect>"))
	require.Contains(t, p.body, `<input id="feature"`)
	b.small(p)
	b.small(b.get(at + "/usage?by=hour&split=customer&from=" + url.QueryEscape(from)).is(200))
	b.small(b.get(at + "/overview").is(200))
	for _, path := range []string{at + "/events", at + "/customers/" + customer(0) + "/events"} {
		b.small(b.get(path).is(200))
	}
	b.small(b.get(at + "/customers").is(200))
	// A full page of keys has their forms on a page for each.
	for i := range 60 {
		b.send(at+"/keys", b.fill(at+"/keys", fields("scope", "full", "label",
			long(fmt.Sprintf("key-%02d-", i), 80)))).is(200)
	}
	keys := b.get(at+"/keys").is(200, "Replace…")
	b.small(keys)
	one := at + "/keys?key=" + regexp.MustCompile(`/keys\?key=([0-9a-f-]+)`).FindStringSubmatch(keys.body)[1]
	b.small(b.get(one).is(200, "Replace this key…", "Bind this key…"))
}

// TestFullPagesOfACustomerAndOfBudgetsAreSmall: with twenty subscriptions, thirty plans and more
// budgets than a page shows, whose names have the most characters that they may have.
func TestFullPagesOfACustomerAndOfBudgetsAreSmall(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.submit("/console", "/console/accounts", fields("name", "demo"))
	const at = "/console/accounts/demo/sandbox"
	const anna = at + "/customers/anna"
	long := func(name string) string { return name + strings.Repeat("x", 128-len(name)) }
	plan := func(i int) string { return long(fmt.Sprintf("plan-%02d-", i)) }
	calls := long("calls-")
	document := "features:\n  - {key: " + calls + ", name: Calls}\nplans:\n"
	for i := range 30 {
		document += "  - {key: " + plan(i) + ", name: " + plan(i) + ", priceAmount: 20, currency: USD, " +
			"intervalMonths: 1, features: [{key: " + calls + ", pricingType: usage_based, " +
			"pricing: {pricePerUnit: 0.5}}]}\n"
	}
	b.submit(at+"/catalog", at+"/catalog", fields("document", document, "action", "apply"))
	b.submit(at+"/customers", at+"/customers", fields("id", "anna", "first", "Anna", "last", "Berg",
		"email", "anna@example.com"))
	for i := range 20 {
		b.submit(anna, anna+"/subscriptions", fields("plan", plan(i)))
	}
	p := b.get(anna).is(200, "Change or cancel…")
	b.small(p)
	require.NotContains(t, p.body, "Cancel now…")
	links := regexp.MustCompile(anna+`\?subscription=([0-9a-f-]+)#`).FindAllStringSubmatch(p.body, 2)
	link, other := links[0], links[1][1]
	id := link[1]
	one := b.get(anna+"?subscription="+id).is(200, `<details id="change-`+id+`" open>`)
	require.Equal(t, 1, strings.Count(one.body, "Cancel now…"))
	b.small(one)
	b.submit(strings.TrimSuffix(link[0], "#"), anna+"/cancel",
		fields("subscription", id, "mode", "END_OF_PERIOD")).is(200, "The cancellation was recorded")
	change := fields("subscription", other, "plan", "nothing", "type", "UPGRADE")
	refused := b.send(anna+"/change", b.fill(anna, change))
	require.Equal(t, 404, refused.status)
	require.Contains(t, refused.body, `<input id="to-`+other+`" name="plan" type="text" value="nothing"`)
	require.Equal(t, 1, strings.Count(refused.body, `value="nothing"`), "nor in the other form")
	b.small(refused)

	r := &recorder{browser: b, names: map[string]string{}}
	limit := func(window string) string {
		return fmt.Sprintf(`{"of":"units","featureKey":%q,"limit":123456789,"window":%q}`, calls, window)
	}
	r.ask(b.programs, "putBudget", `{"name":"Anna","customerReferenceId":"anna","limits":[]}`, "anna")
	for i := range 60 {
		key := long(fmt.Sprintf("budget-%02d-", i))
		r.ask(b.programs, "putBudget", fmt.Sprintf(`{"name":%q,"parent":"anna","limits":[%s,%s,%s]}`,
			key, limit("day"), limit("month"), limit("lifetime")), key)
		r.ask(b.programs, "reserve", fmt.Sprintf(`{"reservationKey":"r%d","customerReferenceId":"anna",`+
			`"featureKey":%q,"usageUnits":98765432,"ttlSeconds":3600,"budget":%q}`, i, calls, key))
	}
	budgets := b.get(at+"/budgets").is(200, "held of 123,456,789")
	b.small(budgets)
	safe(t, budgets)
	b.small(b.get(anna).is(200))
	b.small(b.get(at+"/reservations").is(200, "50 reservations on this page; more on the next."))
}

// TestInvoicesOfAnEvent: of two invoices whose lines cover an event one counts it, as the page
// says; it names no void invoice, and nothing for an event that was voided.
func TestInvoicesOfAnEvent(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	const anna = at + "/customers/anna"
	r := &recorder{browser: b, names: map[string]string{}}
	begun := n.now().UTC()
	occurred := begun.AddDate(0, 0, 26).Format(time.RFC3339)
	advance := func(to time.Time) {
		b.submit(at+"/clock", at+"/clock", fields("to", to.Format(time.RFC3339)))
	}
	send := func(key string) (event string) {
		r.ask(n.programs, "ingestEvent", `{"eventIdempotencyKey":"`+key+`","eventName":"calls",`+
			`"customerReferenceId":"anna","usageUnits":4,"occurredAt":"`+occurred+`"}`)
		return anna + "/events?key=" + key + "&at=" + occurred
	}
	advance(begun.AddDate(0, 0, 27))
	early := send("early")
	advance(begun.AddDate(0, 0, 32))
	p := b.get(early).is(200, ">Invoice 2</a>: 2.00 USD for all usage")
	require.NotContains(t, p.body, "One of them")
	late := send("late")
	b.get(late).is(200, ">Invoice 2</a>", ">Pending invoice</a>", "One of them counts the event.")

	invoice := at + "/invoices/" + r.newestInvoice()
	b.submit(invoice, invoice+"/void", url.Values{}).is(200, "void")
	require.NotContains(t, b.get(late).is(200, ">Pending invoice</a>").body, "Invoice 2")
	b.submit(late, anna+"/events/void", fields("key", "late", "at", occurred)).is(200, "was voided")
	require.NotContains(t, b.get(late).is(200).body, `id="billed"`)
	b.get(early).is(200, `id="billed"`)
}

// TestInvoicesOfAnEventBeforeItsSubscription: the page says where it counts.
func TestInvoicesOfAnEventBeforeItsSubscription(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	occurred := n.now().UTC().Add(-time.Hour).Format(time.RFC3339)
	r := &recorder{browser: b, names: map[string]string{}}
	r.ask(n.programs, "ingestEvent", `{"eventIdempotencyKey":"before","eventName":"calls",`+
		`"customerReferenceId":"anna","usageUnits":4,"occurredAt":"`+occurred+`"}`)
	p := b.get("/console/accounts/demo/sandbox/customers/anna/events?key=before&at="+occurred).
		is(200, ">Pending invoice</a>: 2.00 USD", "before its subscription began")
	require.NotContains(t, p.body, "No line of an invoice")
}
