package console_test

import (
	"net/url"
	"regexp"
	"testing"
)

// TestAReservationOfAPage: the question says what it would hold, what that costs and what is left
// then; it is settled in parts and for good, each asked before, by running totals: sent twice, a
// form holds and settles once. The invoice to come and the budget have what was settled.
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
		return fields("feature", "calls", "units", units, "hold", minutes, "expiry", "release")
	}
	for _, c := range []struct{ units, minutes, says string }{
		{"six", "10", "Enter a number"}, {"6", "0", "Enter a whole number from 1 to 1,440"},
	} {
		b.send(anna+"/reservations", b.fill(anna, reserve(c.units, c.minutes))).is(400, c.says, `id="hold" open`)
	}
	b.send(anna+"/reservations", b.fill(anna, reserve("9", "10"))).is(402, "budget")

	form := b.fill(anna, reserve("6", "10"))
	asked := b.asked(anna+"/reservations", form).is(200, "Reserve this for anna?", "6 units",
		"Costs if all of it is used", "3.00 USD", "Left of the limit then", "4 of 10",
		"1.00 USD of 4.00 USD (price, each day)")
	safe(t, asked)
	sure := b.confirmed(asked, form)
	first := b.send(anna+"/reservations", sure).is(303)
	again := b.send(anna+"/reservations", sure).is(303)
	if first.to != again.to {
		t.Fatalf("the second click made another one: %s and %s", first.to, again.to)
	}
	p := b.get(first.to).is(200, "The units are reserved", `href="`+anna+`"`, "Settle for good…")
	safe(t, p)
	hold := regexp.MustCompile(at + `/reservations/[0-9a-f-]+`).FindString(first.to)
	b.get(anna).is(200, "Open reservations", `href="`+hold+`"`)

	settle := func(units, final string) url.Values { return fields("units.calls", units, "final", final) }
	b.send(hold+"/settle", b.fill(hold, settle("some", "no"))).is(400, "Enter a number")
	for _, c := range []struct{ units, says string }{{"2", "1.00 USD"}, {"5", "1.50 USD"}} {
		form := b.fill(hold, settle(c.units, "no"))
		asked := b.asked(hold+"/settle", form).is(200, "Settle a part of this reservation?",
			"Used of calls, in all", "Adds to the bill, at most", c.says)
		safe(t, asked)
		sure := b.confirmed(asked, form)
		b.send(hold+"/settle", sure).is(303)
		b.get(b.send(hold+"/settle", sure).is(303).to).is(200, "A part of the reservation was settled")
	}
	b.submit(hold, hold+"/settle", settle("7", "yes")).is(200, "The reservation was settled", "settled")
	b.get(anna).is(200, "3.50 USD of 4.00 USD")
	p = b.get(hold).is(200, ">7<", ">settled<")
	safe(t, p)
	b.get(at+"/log").is(200, "reserved calls 6 under", "settled the reservation")
	b.get(at + "/reservations/00000000-0000-4000-8000-000000000000").is(404)
}
