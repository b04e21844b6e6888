package console_test

import (
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
	"tollgate/engine/workspace"
	"tollgate/server"
)

// TestMoneyIsAskedFirst: each form that costs money, or is irreversible, shows its effect first,
// and takes effect once when it is confirmed twice.
func TestMoneyIsAskedFirst(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish() // anna is on team: invoice 1
	const at = "/console/accounts/demo/sandbox"
	const anna = at + "/customers/anna"
	count := func() [2]int {
		row := n.row("anna")
		return [2]int{
			len(n.Machine.Subscriptions(row)), len(n.Machine.Invoices(n.environment(), row)),
		}
	}
	// twice asks, sees that nothing has happened, and confirms twice.
	twice := func(on, path string, form url.Values, says ...string) shown {
		t.Helper()
		index, _ := n.Machine.StateHash()
		to := b.send(path, b.fill(on, form)).is(303).to
		asked := b.get(to).is(200, `id="confirm-button"`)
		asked.is(200, says...)
		safe(t, asked)
		back := b.get(to)
		require.Equal(t, onceField.FindString(asked.body), onceField.FindString(back.body),
			"going back to the question confirms the same form")
		after, _ := n.Machine.StateHash()
		require.Equal(t, index, after, "asking has changed something")
		sure := b.confirmed(asked, form)
		first := b.send(path, sure).is(303)
		changes, _ := (&recorder{browser: b}).rows()
		second := b.send(path, sure).is(303)
		require.Equal(t, first.to, second.to)
		again, _ := (&recorder{browser: b}).rows()
		require.Equal(t, changes, again, "the second click did something")
		return b.get(first.to).is(200)
	}

	require.Equal(t, [2]int{1, 1}, count())
	twice(anna, anna+"/subscriptions", fields("plan", "team"), "Subscribe anna to Team?",
		"20.00 USD a month", "Invoice issued now: 20.00 USD", "already has an active subscription")
	require.Equal(t, [2]int{2, 2}, count())
	invoice := at + "/invoices/" + (&recorder{browser: b}).newestInvoice()
	twice(invoice, invoice+"/paid", fields("note", "by bank transfer"), "as paid?", "20.00 USD",
		"cannot", "by bank transfer").is(200, "paid")
	b.get("/console/changes").is(200, "marked an invoice as paid", "by bank transfer")
	twice(anna, anna+"/subscriptions", fields("plan", "team"))
	invoice = at + "/invoices/" + (&recorder{browser: b}).newestInvoice()
	twice(invoice, invoice+"/void", url.Values{}, "Void invoice 3?", "never paid",
		"Not collected</dt><dd>20.00 USD").is(200, "void")
	b.submit(anna, anna+"/usage", fields("feature", "calls", "units", "6"))
	r := &recorder{browser: b, names: map[string]string{}}
	occurred := n.now().UTC().Format(time.RFC3339)
	r.ask(n.programs, "ingestEvent", `{"eventIdempotencyKey":"wrong","eventName":"calls",`+
		`"customerReferenceId":"anna","usageUnits":4,"occurredAt":"`+occurred+`"}`)
	event := anna + "/events?key=wrong&at=" + occurred
	b.get(event).is(200, `id="amend"`, `value="4"`)
	twice(event, anna+"/events/amend", fields("key", "wrong", "at", occurred, "units", "2", "reason", "a typo"),
		"Amend this event to 2 units?", "Counts now</dt><dd>4 units", "a typo", "Invoices to come").
		is(200, "The event was amended", `value="2"`)
	b.send(anna+"/events/amend", b.fill(event, fields("key", "wrong", "at", occurred, "units", "many"))).
		is(400, `value="many"`, `aria-invalid="true"`)
	b.submit(at+"/customers", at+"/customers", fields("id", "ben", "first", "Ben", "last", "Berg",
		"email", "ben@example.com"))
	const ben = at + "/customers/ben"
	for _, way := range []string{"void", "amend"} {
		b.send(ben+"/events/"+way, b.fill(event, fields("key", "wrong", "at", occurred, "units", "2"))).
			is(404, "Usage event not found", "No event of this customer")
	}
	twice(event, anna+"/events/void", fields("key", "wrong", "at", occurred), "Void this event?",
		"Counts then</dt><dd>0 units", "never counts again").is(200, "The event was voided")
	require.NotContains(t, b.get(event).body, `id="amend"`)
	b.get("/console/changes").is(200, "voided a usage event", "amended a usage event to 2 units")
	id := func(i int) string {
		return string(server.AppendUUID(nil, n.Machine.Subscriptions(n.row("anna"))[i].ID))
	}
	cancel := fields("subscription", id(1), "mode", "END_OF_PERIOD")
	twice(anna, anna+"/cancel", cancel, "No invoice is issued now", "Ends").
		is(200, "Keep Team…", "ends <time")
	kept := twice(anna, anna+"/keep", fields("subscription", id(1)), "Keep Team?", "20.00 USD a month",
		"Was to end", "the subscription renews on")
	require.NotContains(t, kept.is(200, "was reverted").body, "Keep Team…")
	twice(anna, anna+"/cancel", cancel)
	before := count()[1]
	b.submit(at+"/catalog", at+"/catalog", fields("document", strings.NewReplacer(
		"key: team", "key: large", "name: Team", "name: Large", "priceAmount: 20", "priceAmount: 50",
	).Replace(catalog), "action", "apply"))
	change := fields("subscription", id(0), "plan", "large", "type", "DOWNGRADE")
	twice(anna, anna+"/change", change, "Change to Large?", "Takes effect", "No invoice is issued now").
		is(200, "The change of plan was recorded", "changes to Large on <time", "Stay on Team…")
	twice(anna, anna+"/stay", fields("subscription", id(0)), "Stay on Team?",
		"The change to Large that is scheduled for").is(200, "change of plan was dropped")
	twice(anna, anna+"/change", change)
	change.Set("type", "UPGRADE")
	twice(anna, anna+"/change", change, "Change to Large?", "50.00 USD a month", "Invoice issued now: 3",
		"The change to Large that is scheduled for")
	require.Equal(t, before+1, count()[1])
	before++
	twice(anna, anna+"/cancel", fields("subscription", id(0), "mode", "IMMEDIATE"),
		"Invoice issued now: 3.00 USD", "nothing is refunded")
	require.Equal(t, before+1, count()[1])

	b.send(anna+"/pools", b.fill(anna, fields("name", strings.Repeat("n", 129), "hard", "true"))).
		is(400, `name="hard" value="true" checked`)
	b.submit(anna, anna+"/pools", fields("name", "prepaid"))
	pool := b.firstLink(anna, at+"/pools/[0-9a-f-]+")
	twice(pool, pool+"/grantCredits", fields("amount", "100", "note", "welcome"),
		"Balance afterwards", "100").is(200, "welcome")
	twice(pool, pool+"/deductCredits", fields("amount", "30"), "70").is(200, "70")
	// What the engine would refuse is refused before it is asked for.
	b.submit(at+"/customers/anna", at+"/customers/anna/pools", fields("name", "hard", "hard", "true"))
	hard := regexp.MustCompile(`href="([^"]+)">hard<`).FindStringSubmatch(
		b.get(at + "/customers/anna").body)[1]
	b.send(hard+"/deductCredits", b.fill(hard, fields("amount", "1"))).is(400, "aria-invalid")
	n.Do(t, billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
		Env: n.environment(), Provider: billing.ProviderSandbox,
	})
	twice(pool, pool+"/top-up", fields("below", "100", "credits", "500", "price", "5", "cap", "20",
		"card", "card_sandbox_success"), "500 credits for 5.00 USD", "20.00 USD", "made at once").
		is(200, "5.00 USD of 20.00 USD at most")
	b.submit(anna, anna+"/details", fields("first", "Anna", "last", "Berg", "email", "a@b.example",
		"phone", "", "address", "1 Main St, Oslo"))
	b.get(anna).is(200, `value="1 Main St, Oslo"`)
	b.send(anna+"/details", b.fill(anna, fields("first", "", "last", "Berg", "email", "nobody"))).
		is(400, `id="first-wrong"`, `id="email-wrong"`, `id="change-details" open`)
	b.send(anna+"/archive", b.confirmed(b.get(anna+"/archive/confirm").is(200, "no new usage"),
		url.Values{})).is(400, "has a subscription that is not cancelled")
	twice(pool, pool+"/top-up/stop", url.Values{}, "Turn off the automatic top-up", "What was bought stays")
	to := n.now().AddDate(0, 0, 3).UTC().Format(time.RFC3339)
	twice(at+"/clock", at+"/clock", fields("to", to), "Afterwards", "cannot be moved back",
		"Invoices issued</dt><dd>0<")
	to = n.now().AddDate(0, 1, 6).UTC().Format(time.RFC3339)
	due := count()[1]
	twice(at+"/clock", at+"/clock", fields("to", to), "Invoices issued</dt><dd>1<",
		"They come to</dt><dd>20.00 USD", "Subscriptions ended</dt><dd>1<")
	require.Equal(t, due+1, count()[1])
	b.submit(at+"/keys", at+"/keys", fields("scope", "full", "label", "checkout server"))
	key := string(server.AppendUUID(nil, n.Machine.Keys(n.environment())[0].ID))
	twice(at+"/keys", at+"/keys/"+key+"/revoke", url.Values{}, "checkout server", "for good")

	n.tenants.Do(t, workspace.KindSignUp, &workspace.SignUp{
		ID: [16]byte{1}, KeyID: [16]byte{2}, KeyHash: [32]byte{3}, ClaimHash: [32]byte{4},
	})
	w := b.firstLink("/console/workspaces", `/console/workspaces/[^"?]+`)
	twice(w, w+"/claim", fields("owner", "person@example.com"), "person@example.com", "for good")
	twice(w, w+"/credits", fields("amount", "5"), "Grant credits?")
}

// TestAQuestionChangesNothing: a GET does nothing, even with the confirmation; only questions have
// an address.
func TestAQuestionChangesNothing(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	invoice := at + "/invoices/" + (&recorder{browser: b}).newestInvoice()
	before, _ := n.Machine.StateHash()
	future := n.now().AddDate(1, 0, 0).UTC().Format(time.RFC3339)
	for _, to := range []string{
		invoice + "/paid/confirm?_sure=yes", at + "/customers/anna/subscriptions/confirm?_sure=yes&plan=team",
		at + "/clock/confirm?_sure=yes&to=" + future,
	} {
		b.get(to).is(200, `id="confirm-button"`)
	}
	b.get("/console/workspaces/ws_04000000000000000000000000/claim/confirm?_sure=yes&owner=a@b.c").is(404)
	after, _ := n.Machine.StateHash()
	require.Equal(t, before, after)
	b.get(at + "/customers/anna/usage/confirm").is(404)
}

// TestWhatCannotBeIsSaidBeforeAsking: a form with a mistake is shown again, and does not ask.
func TestWhatCannotBeIsSaidBeforeAsking(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	b.send(at+"/clock", b.fill(at+"/clock", fields("to", "yesterday"))).
		is(400, `value="yesterday"`, `aria-invalid="true"`, "Enter an instant after")
	b.send(at+"/clock", b.fill(at+"/clock", fields("to", "9999-12-31T00:00:00Z"))).
		is(400, `value="9999-12-31T00:00:00Z"`, "at most five years")
	b.get(at+"/clock/confirm?to=9999-12-31T00:00:00Z").is(400, "at most five years")
	b.get("/console/accounts/demo/live/clock/confirm?to=2099-01-01T00:00:00Z").is(400)
	anna := at + "/customers/anna"
	b.send(anna+"/subscriptions", b.fill(anna, fields("plan", "nothing"))).is(404, "Plan not found")
	b.send(anna+"/cancel", b.fill(anna, fields("subscription", "x", "mode", "IMMEDIATE"))).
		is(400, `role="alert"`)
}

// TestARefusedFormKeepsItsValues: it keeps the values, marks the invalid field, and the browser
// goes to it.
func TestARefusedFormKeepsItsValues(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	p := b.send(at+"/customers", b.fill(at+"/customers", fields(
		"id", "bob", "first", "Bob", "last", "Berg", "email", "nobody")))
	p.is(400, `value="bob"`, `value="Bob"`, `value="nobody"`, "The form has a mistake",
		`aria-invalid="true" aria-describedby="email-wrong" autofocus`, "Must be an e-mail address")
	safe(t, p)
	require.Equal(t, 1, strings.Count(p.body, "aria-invalid"))
	anna := at + "/customers/anna"
	p = b.send(anna+"/usage", b.fill(anna, fields("feature", "calls", "units", "many")))
	p.is(400, `value="many"`, `id="try" open`, "Enter a number, such as 1200", `option selected>calls`)
	safe(t, p)
	b.submit(anna, anna+"/pools", fields("name", "prepaid"))
	pool := b.firstLink(anna, at+"/pools/[0-9a-f-]+")
	b.send(pool+"/grantCredits", b.fill(pool, fields("amount", "-1", "note", "a gift"))).
		is(400, `value="-1"`, `value="a gift"`, `id="amount-wrong"`)
	b.send("/console/accounts", b.fill("/console", fields("name", "Not A Name"))).
		is(400, `value="Not A Name"`, `id="name-wrong"`)
	b.send(at+"/webhooks", b.fill(at+"/webhooks", fields("url", "no address", "description", "d"))).
		is(400, `value="no address"`, `value="d"`)
}

// TestAGrantSaysWhatItOpens: what the engine foresees is on the question.
func TestAGrantSaysWhatItOpens(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	const anna = at + "/customers/anna"
	b.submit(at+"/catalog", at+"/catalog", fields("document", strings.NewReplacer(
		"features:\n  - {", "features:\n  - {key: shots, name: Shots}\n  - {",
		"    features:\n", "    features:\n      - {key: shots, pricingType: included, "+
			"pricing: {credits: {pool: studio, weight: 1}}}\n",
		"key: team", "key: studio",
	).Replace(catalog), "action", "apply"))
	b.submit(anna, anna+"/subscriptions", fields("plan", "studio"))
	b.submit(anna, anna+"/pools", fields("name", "studio", "hard", "true"))
	pool := b.firstLink(anna, at+"/pools/[0-9a-f-]+")
	const opens = "Unblocked features</dt><dd>shots<"
	grant := func() shown {
		form := b.fill(pool, fields("amount", "5"))
		asked := b.asked(pool+"/grantCredits", form).is(200)
		b.send(pool+"/grantCredits", b.confirmed(asked, form)).is(303)
		return asked
	}
	grant().is(200, opens, "Balance afterwards</dt><dd>5<")
	require.NotContains(t, grant().is(200, "Balance afterwards</dt><dd>10<").body, opens)
	b.submit(pool, pool+"/deductCredits", fields("amount", "10"))
	b.submit(pool, pool+"/freezePool", fields())
	require.NotContains(t, grant().is(200, "The pool is frozen").body, opens)
}

// TestMessagesAreSentOnce: the forms that send messages to a webhook endpoint, each sent twice,
// send once, though what the first sent was delivered before the second.
func TestMessagesAreSentOnce(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	b.submit(at+"/webhooks", at+"/webhooks", fields("url", "https://shop.example/hook"))
	hook := b.firstLink(at+"/webhooks", at+"/webhooks/[0-9a-f-]+")
	endpoint := strings.TrimPrefix(hook, at+"/webhooks/")
	r := &recorder{browser: b, names: map[string]string{
		"{account}": "demo", "{environment}": "sandbox", "{endpoint}": endpoint,
	}}
	b.submit(at+"/customers/anna", at+"/customers/anna/subscriptions", fields("plan", "team"))
	delivered := func() {
		t.Helper()
		for n.Machine.Outbox().Pending > 0 {
			r.sentMessage(endpoint)
		}
	}
	delivered()
	twice := func(path string, form url.Values) {
		t.Helper()
		first := b.send(path, form).is(303)
		require.Contains(t, first.to, "done=")
		require.NotZero(t, n.Machine.Outbox().Pending)
		changes, _ := r.rows()
		delivered()
		require.Equal(t, first.to, b.send(path, form).is(303).to)
		again, _ := r.rows()
		require.Equal(t, changes, again, "the second click did something")
		require.Zero(t, n.Machine.Outbox().Pending)
	}
	form := b.fill(hook, fields("from", "2020-01-01", "all", "true"))
	asked := b.asked(hook+"/resend-many", form).is(200, "2020-01-01 to now",
		"failed and delivered ones", "https://shop.example/hook")
	twice(hook+"/resend-many", b.confirmed(asked, form))
	twice(hook+"/test", b.fill(hook, url.Values{}))
	b.send(hook+"/resend-many", b.fill(hook, fields("from", "today"))).is(400, "Enter a day")
}

// TestAQuestionKeepsItsPrice: a plan that was published anew after a question has shown its price
// is not sold by the answer to it.
func TestAQuestionKeepsItsPrice(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	const anna = at + "/customers/anna"
	publish := func(price string) {
		dearer := strings.ReplaceAll(catalog, "priceAmount: 20", "priceAmount: "+price)
		b.submit(at+"/catalog", at+"/catalog", fields("document", dearer+strings.ReplaceAll(
			dearer[strings.Index(dearer, "  - key: team"):], "team", "large"), "action", "apply"))
	}
	publish("30")
	id := string(server.AppendUUID(nil, n.Machine.Subscriptions(n.row("anna"))[0].ID))
	for path, form := range map[string]url.Values{
		anna + "/subscriptions": fields("plan", "large"),
		anna + "/change":        fields("subscription", id, "plan", "large", "type", "UPGRADE"),
	} {
		publish("30")
		asked := b.asked(path, b.fill(anna, form)).is(200, "30.00 USD a month")
		sure := b.confirmed(asked, form)
		publish("50")
		before, _ := n.Machine.StateHash()
		b.send(path, sure).is(409, "The price has changed", "Nothing was changed now")
		after, _ := n.Machine.StateHash()
		require.Equal(t, before, after)
		sure = b.confirmed(b.asked(path, b.fill(anna, form)), form)
		b.send(path, sure).is(303)
		publish("30")
		before, _ = n.Machine.StateHash()
		b.send(path, sure).is(409, "If this form was sent before, it may have been carried out then")
		after, _ = n.Machine.StateHash()
		require.Equal(t, before, after)
	}
	require.Len(t, n.Machine.Subscriptions(n.row("anna")), 2)

	publish("30")
	form := fields("plan", "large")
	var armed atomic.Bool
	preview, _ := n.admin.Operation("previewInvoices")
	answer := preview.Handle
	preview.Handle = func(x *server.Exchange) {
		if answer(x); armed.CompareAndSwap(true, false) {
			publish("50")
		}
	}
	question := b.send(anna+"/subscriptions", b.fill(anna, form)).is(303).to
	armed.Store(true)
	asked := b.get(question).is(200, "Invoice issued now: 30.00 USD")
	b.send(anna+"/subscriptions", b.confirmed(asked, form)).is(409, "The price has changed")
}
