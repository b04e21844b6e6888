package console_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
)

// TestAReservationOfAPage: the question says what it would hold, what that costs and what is left
// then; it is settled in parts and for good, each asked before, by running totals: sent twice, a
// form holds and settles once. The upcoming invoice and the budget have what was settled.
func TestAReservationOfAPage(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	const anna = at + "/customers/anna"
	(&recorder{browser: b}).ask(b.programs, "putBudget", `{"name":"Anna","customerReferenceId":"anna",`+
		`"limits":[{"of":"price","limit":4,"window":"day"}]}`, "anna")
	b.get(anna).is(200, "Reserve units for a call")

	reserve := func(units, minutes string) url.Values {
		return fields("feature", "calls", "usageUnits", units, "hold", minutes, "expiry", "release")
	}
	for _, c := range []struct{ units, minutes, says string }{
		{"six", "10", "Enter a number"},
		{"1,200", "10", "Nothing was changed. Enter a number, such as 1200."},
		{"6", "0", "Enter a whole number from 1 to 1,440"},
	} {
		p := b.send(anna+"/reservations", b.fill(anna, reserve(c.units, c.minutes))).
			is(400, c.says, `id="hold" open`)
		require.Equal(t, 1, strings.Count(p.body, "aria-invalid"), c)
		require.Equal(t, 1, strings.Count(p.body, " autofocus"), c)
		require.Contains(t, p.body, `id="try">`, "the form for usage stays closed")
	}
	b.send(anna+"/reservations", b.fill(anna, reserve("9", "10"))).is(402, "budget")

	form := b.fill(anna, reserve("6", "10"))
	asked := b.asked(anna+"/reservations", form).is(200, "Reserve this for anna?", "6 units",
		"Costs if all of it is used", "3.00 USD", "Left of the limit then", "4 of 10",
		"1.00 USD of 4.00 USD (price, each day)",
		"Held at the budget anna</dt><dd>3.00 USD, which these units hold until they are settled")
	safe(t, asked)
	sure := b.confirmed(asked, form)
	first := b.send(anna+"/reservations", sure).is(303)
	again := b.send(anna+"/reservations", sure).is(303)
	if first.to != again.to {
		t.Fatalf("the second click made another one: %s and %s", first.to, again.to)
	}
	p := b.get(first.to).is(200, "The units are reserved", `href="`+anna+`"`, "Settle and close…")
	safe(t, p)
	hold := regexp.MustCompile(at + `/reservations/[0-9a-f-]+`).FindString(first.to)
	b.get(anna).is(200, "Open reservations", `href="`+hold+`"`, "calls: 0 used and 6 held of 10",
		`<rect class="held"`)
	for list, file := range map[string]string{
		at + "/reservations":              at + "/reservations.csv?state=open", // those of all: the open ones
		anna + "/reservations?state=open": anna + "/reservations.csv?state=open",
		anna + "/reservations":            anna + "/reservations.csv",
	} {
		b.get(list).is(200, `href="`+file, ">1 reservation<")
		rows := b.sheet(file)
		require.Len(t, rows, 2, file)
		require.Equal(t, []string{"anna", "open", "anna", "calls", "6", "0", "6", "0"}, rows[1][4:12])
	}
	require.Len(t, b.sheet(anna+"/reservations.csv?state=settled"), 1)

	settle := func(units, final string) url.Values { return fields("units.calls", units, "final", final) }
	b.send(hold+"/settle", b.fill(hold, settle("some", "no"))).is(400, "Enter a number, such as 1200")
	b.send(hold+"/settle", b.fill(hold, settle("0.1234567890123", "no"))).is(400, "up to 12 decimal places")
	b.send(hold+"/settle", b.fill(hold, settle("0", "no"))).is(400, "Enter more than the 0 settled before")
	for _, c := range []struct{ units, says string }{{"2", "1.00 USD"}, {"5", "1.50 USD"}} {
		form := b.fill(hold, settle(c.units, "no"))
		asked := b.asked(hold+"/settle", form).is(200, "Settle a part of this reservation?",
			"Used of calls, in all", "Maximum added to the bill", c.says)
		safe(t, asked)
		sure := b.confirmed(asked, form)
		b.send(hold+"/settle", sure).is(303)
		b.get(b.send(hold+"/settle", sure).is(303).to).is(200, "A part of the reservation was settled")
	}
	// Less than was settled, or a part that adds nothing, is refused at the field.
	for _, final := range []string{"no", "yes"} {
		b.send(hold+"/settle", b.fill(hold, settle("2", final))).
			is(400, "Enter at least the 5 settled before", `value="2" required aria-invalid="true"`)
	}
	b.send(hold+"/settle", b.fill(hold, settle("5", "no"))).is(400, "Enter more than the 5 settled before")
	// What a program settles while the question is read is not said to be this form's doing.
	form = b.fill(hold, settle("5.5", "no"))
	sure = b.confirmed(b.asked(hold+"/settle", form).is(200, "Settle a part"), form)
	b.submit(hold, hold+"/settle", settle("6", "no")).is(200, "A part of the reservation was settled")
	b.send(hold+"/settle", sure).is(400, "Enter more than the 6 settled before")
	b.asked(hold+"/settle", b.fill(hold, settle("7", "yes"))).is(200, "Settle and close this reservation?",
		"1: recorded as overrun where it does not fit", "released immediately")
	b.submit(hold, hold+"/settle", settle("7", "yes")).is(200, "The reservation was settled", "settled")
	b.get(anna).is(200, "3.50 USD of 4.00 USD")
	p = b.get(hold).is(200, ">7<", ">settled<")
	safe(t, p)
	b.get(at+"/log").is(200, "reserved calls 6 under", "settled the reservation")
	b.get(at + "/reservations/00000000-0000-4000-8000-000000000000").is(404)
}

// hold reserves calls for anna in a way that no form offers, and returns the reservation's page.
func (b *browser) hold(key string, calls int64, change func(*billing.Reserve)) string {
	b.t.Helper()
	id := [16]byte([]byte(key + strings.Repeat(" ", 16-len(key))))
	c := billing.Reserve{
		Env: b.environment(), ID: id, Key: id, KeyText: key, Customer: "anna", TTLMS: 600_000,
		Items: []billing.ReserveItem{{FeatureKey: "calls", Units: decimal.FromInt(calls)}},
	}
	change(&c)
	b.Do(b.t, billing.KindReserve, &c)
	return "/console/accounts/demo/sandbox/reservations/" + string(server.AppendUUID(nil, id))
}

// TestAnExpiredReservationIsSettled on its page: where its expiry has billed, the event is amended
// to the real units, also to fewer; where it has released, the usage is recorded.
func TestAnExpiredReservationIsSettled(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	billed := b.hold("stream", 4, func(c *billing.Reserve) { c.SettleOnExpiry = true })
	released := b.hold("call", 3, func(*billing.Reserve) {})
	refusing := b.hold("strict", 1, func(c *billing.Reserve) { c.RefuseOverrun = true })
	b.get(billed).is(200, "<dt>Expires</dt>", "then billed", "Settle a part")
	b.asked(refusing+"/settle", b.fill(refusing, fields("units.calls", "2", "final", "yes"))).
		is(200, "1: all of it is refused if this does not fit")
	b.submit(at+"/clock", at+"/clock", fields("to", n.now().Add(time.Hour).Format(time.RFC3339)))

	p := b.get(billed).is(200, "<dt>Expired</dt>", "what it held was billed", `class="status billed"`,
		"the usage event is amended", "Settle and close…")
	safe(t, p)
	require.NotContains(t, p.body, "Would have expired")
	require.NotContains(t, p.body, "Settle a part")
	form := fields("units.calls", "1", "final", "yes")
	b.asked(billed+"/settle", b.fill(billed, form)).is(200, "Settle and close this reservation?",
		"Billed when it expired", "that usage event is amended to these units")
	b.submit(billed, billed+"/settle", form).is(200, "The reservation was settled", "<dt>Expired</dt>")
	p = b.get(at+"/customers/anna/events").is(200, "calls")
	b.get(at+"/usage.csv?customer=anna").is(200, ",calls,1,")

	p = b.get(released).is(200, "<dt>Expired</dt>", "what it held was released", "as any usage is")
	require.NotContains(t, p.body, "Settle a part")
	// A question for a part that a stale page sends is asked as what it is: the last settlement.
	b.asked(released+"/settle", b.fill(released, fields("units.calls", "3", "final", "no"))).
		is(200, "Settle and close this reservation?", "The reservation has expired, and holds nothing")
	b.submit(released, released+"/settle", fields("units.calls", "3", "final", "yes")).
		is(200, "The reservation was settled", "settled after it had expired")
	b.get(at+"/usage.csv?customer=anna").is(200, "calls,") // of one day or, near midnight, of two
	b.get(at+"/customers/anna").is(200, "4 of 10")
}

// TestAPriceSaysThatCreditsPay: the question does not say that a settlement costs money which the
// credits that the reservation holds will pay.
func TestAPriceSaysThatCreditsPay(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	b.submit(at+"/catalog", at+"/catalog", fields("action", "apply", "document",
		strings.Replace(catalog, "pricePerUnit: 0.5", "credits: {pool: prepaid}, pricePerUnit: 0.5", 1)))
	b.submit(at+"/customers", at+"/customers", fields("id", "bert", "first", "B", "last", "C",
		"email", "b@example.com"))
	const bert = at + "/customers/bert"
	b.submit(bert, bert+"/subscriptions", fields("plan", "team"))
	b.submit(bert, bert+"/pools", fields("name", "prepaid", "hard", "true"))
	pool := b.firstLink(bert, at+`/pools/[0-9a-f-]+`)
	b.submit(pool, pool+"/grantCredits", fields("amount", "6"))
	hold := b.hold("held", 6, func(c *billing.Reserve) { c.Customer = "bert" })
	b.asked(hold+"/settle", b.fill(hold, fields("units.calls", "6", "final", "yes"))).
		is(200, "Maximum added to the bill", "3.00 USD, less what the credits pay that it holds")
	b.send(pool+"/deductCredits", b.fill(pool, fields("amount", "5"))).
		is(400, "less than this that no reservation holds", "aria-invalid")
	b.submit(pool, pool+"/freezePool", url.Values{})
	refused := b.send(pool+"/deductCredits", b.fill(pool, fields("amount", "1")))
	require.Contains(t, refused.body, "frozen")
	require.NotContains(t, refused.body, "aria-invalid", "another amount does not help")
	b.submit(pool, pool+"/unfreezePool", url.Values{})
	b.submit(hold, hold+"/settle", fields("units.calls", "6", "final", "yes"))
	b.get(pool).is(200, ">0<")
	// What is still to be reserved is priced with the credits that nothing holds.
	b.submit(pool, pool+"/grantCredits", fields("amount", "2"))
	p := b.asked(bert+"/reservations", b.fill(bert, fields("feature", "calls", "usageUnits", "3",
		"hold", "10", "expiry", "release"))).is(200, "Costs if all of it is used", "0.50 USD")
	require.NotContains(t, p.body, "less what the credits")
}

// TestReservationsAreListed: in any state, of a customer and at a budget; the sentence about one in
// the log leads to it.
func TestReservationsAreListed(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	const anna = at + "/customers/anna"
	(&recorder{browser: b}).ask(b.programs, "putBudget", `{"name":"Anna","customerReferenceId":"anna",`+
		`"limits":[{"of":"price","limit":4,"window":"day"}]}`, "anna")
	open := b.hold("first", 1, func(*billing.Reserve) {})
	closed := b.hold("second", 1, func(*billing.Reserve) {})
	b.submit(closed, closed+"/settle", fields("units.calls", "1", "final", "yes"))
	list := anna + "/reservations"
	b.get(anna).is(200, `href="`+list+`"`)
	p := b.get(list).is(200, `href="`+open+`"`, `href="`+closed+`"`, `aria-current="true">All`)
	safe(t, p)
	require.Less(t, strings.Index(p.body, closed), strings.Index(p.body, open), "newest first")
	for state, page := range map[string]string{"open": open, "settled": closed} {
		p = b.get(list+"?state="+state).is(200, `href="`+page+`"`, `class="status `+state+`"`)
		require.Equal(t, 1, strings.Count(p.body, at+"/reservations/"), state)
	}
	b.get(list+"?state=released").is(200, "No reservation matches")
	b.get(list + "?state=gone").is(400)
	b.get(at + "/customers/nobody/reservations").is(404)

	p = b.get(at+"/budgets/anna").is(200, `href="`+at+`/reservations?budget=anna"`)
	p = b.get(at+"/reservations?budget=anna").is(200, `href="`+closed+`"`, `href="`+anna+`"`)
	safe(t, p)
	p = b.get(at+"/reservations").is(200, `href="`+open+`"`, `aria-current="true">Open`)
	require.NotContains(t, p.body, closed)
	b.get(at+"/log").is(200, `<a href="`+closed+`">The admin key settled the reservation second</a>`)
}
