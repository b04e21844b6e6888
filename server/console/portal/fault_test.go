package portal_test

import (
	"math"
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
	"tollgate/server/client"
	"tollgate/server/console/portal"
	"tollgate/server/link"
)

// program sends a request with the account's API key.
func (n *node) program(method, path, once string) page {
	n.t.Helper()
	header := map[string]string{"Authorization": "Bearer " + n.key}
	if once != "" {
		header["Idempotency-Key"] = once
	}
	return n.ask(method, client.Prefix+"/"+path, header, "")
}

// reserve holds 5 calls for a customer, and returns the reservation's id.
func (n *node) reserve(customer string) string {
	n.t.Helper()
	id := [16]byte{11, customer[0]}
	n.Do(n.t, billing.KindReserve, &billing.Reserve{
		Env: n.env, ID: id, Key: id, KeyText: "call of " + customer, Customer: customer, TTLMS: 600_000,
		Items: []billing.ReserveItem{{FeatureKey: "calls", Units: decimal.FromInt(5)}},
	})
	return string(server.AppendUUID(nil, id))
}

// TestRequestsAreLimited for each customer, whichever links they have, and for them alone.
func TestRequestsAreLimited(t *testing.T) {
	n := start(t)
	first, second, ben := n.link("ada", n.keyID), n.link("ada", [16]byte{}), n.link("ben", n.keyID)
	for range portal.PerMinute / 2 {
		n.get(first + "/look.css").is(200)
		n.get(second + "/look.css").is(200)
	}
	var refused page
	require.Eventually(t, func() bool { // room comes back while a slow machine asks
		refused = n.get(first)
		return refused.status == 429
	}, time.Minute, time.Nanosecond)
	refused.is(429, "Too many requests", "Wait a minute")
	require.NotEmpty(t, refused.header.Get("Retry-After"))
	n.get(ben).is(200)
}

// TestEndedLinksLockNobodyOut: requests with a link that has ended have a limit of their own.
func TestEndedLinksLockNobodyOut(t *testing.T) {
	n := start(t)
	ended := n.link("ada", n.keyID)
	n.Do(t, billing.KindRevokePortalLinks, &billing.RevokePortalLinks{Env: n.env, Customer: "ada"})
	at := n.link("ada", n.keyID)
	require.Eventually(t, func() bool {
		return n.get(ended).status == 429
	}, time.Minute, time.Nanosecond)
	for range portal.PerMinute / 2 {
		n.get(at + "/look.css").is(200)
	}
}

// TestAPriceThatChangedMeanwhile: a form whose page said something else changes nothing.
func TestAPriceThatChangedMeanwhile(t *testing.T) {
	n := start(t)
	at := n.link("ada", n.keyID)
	change := at + "/subscriptions/" + ofAda + "/change"
	n.publish(10)
	n.get(change+"?plan=scale").is(200, "Nothing is charged now")
	seen := n.hidden(change + "?plan=scale")
	seen.Set("plan", "scale")
	n.publish(50)
	before := n.changes()
	n.post(change, seen).is(409, "The price has changed", "Nothing was changed. Look again.")
	seen.Del("version")
	n.post(change, seen).is(409)
	n.publish(60)
	seen = n.hidden(change + "?plan=scale")
	seen.Set("plan", "scale")
	n.publish(70)
	n.post(change, seen).is(409, "The price has changed")
	require.Len(t, n.changes(), len(before)+2, "the catalog alone was changed")
	n.get(at).is(200, "TEAM", "20.00 USD a month")
}

// TestWhatTheMerchantPays is hidden: limits of cost, and the budgets of reservations.
func TestWhatTheMerchantPays(t *testing.T) {
	n := start(t)
	at := n.link("ada", n.keyID)
	limits := []billing.LimitDocument{
		{Of: billing.MeasureCost, Limit: decimal.FromInt(7_321), Window: billing.WindowDay},
		{
			Of: billing.MeasureUnits, Feature: "calls", Limit: decimal.FromInt(6),
			Window: billing.WindowDay,
		},
	}
	put := &billing.PutBudget{
		Env: n.env, Key: "internal-key", Name: "Ada's calls", Customer: "ada", Limits: limits,
	}
	n.Do(t, billing.KindPutBudget, put)
	n.reserve("ada")
	p := n.get(at).is(200, "Ada&#39;s calls", "units of calls, each day", "call of ada")
	for _, hidden := range []string{"cost, each", "7,321", "internal-key", ">Budget</th>"} {
		require.NotContains(t, p.body, hidden)
	}
	put.Limits = limits[:1]
	n.Do(t, billing.KindPutBudget, put)
	require.NotContains(t, n.get(at).body, "Ada&#39;s calls")
}

// TestOldHoldsAreFound behind many that are closed.
func TestOldHoldsAreFound(t *testing.T) {
	n := start(t)
	at := n.link("ada", n.keyID)
	n.reserve("ada")
	for i := range 1001 {
		id := [16]byte{12, byte(i >> 8), byte(i)}
		n.Do(t, billing.KindReserve, &billing.Reserve{
			Env: n.env, ID: id, Key: id, KeyText: "late", Customer: "ada", TTLMS: 600_000,
			Items: []billing.ReserveItem{{FeatureKey: "calls", Units: decimal.FromInt(1)}},
		})
		n.Do(t, billing.KindReleaseReservation, &billing.ReleaseReservation{Env: n.env, ID: id})
	}
	n.get(at).is(200, "call of ada")
}

// TestPayingAgainLeadsToTheSamePage: an invoice has one open page, however often it is asked for,
// and another one once that is closed.
func TestPayingAgainLeadsToTheSamePage(t *testing.T) {
	n := start(t)
	at := n.link("ada", n.keyID)
	pay := func() string {
		to := n.send(at, at+"/invoices/"+invoiceAda+"/pay", nil).is(303).header.Get("Location")
		p := n.get(to).is(200)
		return regexp.MustCompile(`href="([^"]+)" target="_top"`).FindStringSubmatch(p.body)[1]
	}
	open := func() []billing.Checkout {
		var all []billing.Checkout
		for _, c := range n.Machine.OpenCheckouts("sandbox", 0, math.MaxInt64) {
			all = append(all, c)
		}
		return all
	}
	none := n.get(at + "/invoices/" + invoiceAda + "/pay").is(303).header.Get("Location")
	require.Equal(t, at+"/invoices/"+invoiceAda, none, "no page is made by a GET")
	first := pay()
	for range 3 {
		require.Equal(t, first, pay())
	}
	require.Len(t, open(), 1)
	n.Do(t, billing.KindNoteCheckout, &billing.NoteCheckout{ID: open()[0].ID, Closed: true})
	require.NotEqual(t, first, pay())
	require.Len(t, open(), 1)

	form := n.hidden(at)
	id, _ := server.ParseUUID(invoiceAda)
	n.Do(t, billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{Env: n.env, ID: id})
	paid := n.post(at+"/invoices/"+invoiceAda+"/pay", form).is(303)
	n.get(paid.header.Get("Location")).is(200, "The invoice is paid")
	paid = n.get(at + "/invoices/" + invoiceAda + "/pay").is(303) // by the back button
	n.get(paid.header.Get("Location")).is(200, "The invoice is paid", "Nothing to pay")
}

// TestFormsHaveKeysOfTheirOwn: a customer's form meets no Idempotency-Key of a program.
func TestFormsHaveKeysOfTheirOwn(t *testing.T) {
	n := start(t)
	at := n.link("ada", n.keyID)
	token := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(n.get(at).body, -1) {
		token.Set(m[1], m[2])
	}
	token.Set("_once", "monthly-run")
	n.ask("POST", at+"/invoices/"+invoiceAda+"/pay", map[string]string{
		"Origin": n.base, "Content-Type": "application/x-www-form-urlencoded",
	}, token.Encode()).is(303)
	n.program("POST", "billing/invoices/"+invoiceBen+"/payprovider/checkout", "monthly-run").is(200)
}

// TestAFastClock: a link that is made on a node whose clock is fast ends with a revocation, and
// lives as long as any other.
func TestAFastClock(t *testing.T) {
	n := start(t)
	n.later.Store(int64(10 * time.Minute))
	made := n.program("POST", "customers/ada/portal-links", "").is(201)
	at := link.Root + regexp.MustCompile(`/portal(/[\w-]+)"`).FindStringSubmatch(made.body)[1]
	n.later.Store(0)
	n.get(at).is(200)
	n.later.Store(int64(69 * time.Minute))
	n.get(at).is(200)
	n.later.Store(int64(72 * time.Minute))
	n.get(at).is(403)
	n.later.Store(0)
	n.Do(t, billing.KindRevokePortalLinks, &billing.RevokePortalLinks{Env: n.env, Customer: "ada"})
	n.get(at).is(403)
	n.get(n.link("ada", n.keyID)).is(200)
}

// TestWhatTheMerchantCancelled stays cancelled: its customer keeps only what they cancelled.
func TestWhatTheMerchantCancelled(t *testing.T) {
	n := start(t)
	at := n.link("ada", n.keyID)
	of := at + "/subscriptions/" + ofAda
	n.program("POST", "subscriptions/cancellation/"+ofAda, "").is(200)
	require.NotContains(t, n.get(at).is(200, "ends ").body, "Keep TEAM")
	n.send(at, of+"/keep", nil).is(403, "cannot be done here")
	n.send(at, of+"/cancel", nil).is(303)
	n.send(at, of+"/keep", nil).is(403, "cannot be done here")

	n.program("DELETE", "subscriptions/cancellation/"+ofAda+"/scheduled", "").is(200)
	n.send(at, of+"/cancel", nil).is(303)
	n.get(at).is(200, "Keep TEAM")
	n.send(at, of+"/keep", nil).is(303)
	n.send(at, of+"/cancel", nil).is(303)
	n.program("POST", "subscriptions/cancellation/"+ofAda, "").is(200)
	n.send(at, of+"/keep", nil).is(403, "cannot be done here")
}

// TestHoldsAndBudgets: a customer sees what is reserved and their budget, and releases what their
// plan lets them.
func TestHoldsAndBudgets(t *testing.T) {
	n := start(t)
	at := n.link("ada", n.keyID)
	require.NotContains(t, n.get(at).body, "Reserved")
	n.Do(t, billing.KindPutBudget, &billing.PutBudget{
		Env: n.env, Key: "ada's", Name: "Ada's calls", Customer: "ada", Limits: []billing.LimitDocument{{
			Of: billing.MeasureUnits, Feature: "calls", Limit: decimal.FromInt(6),
			Window: billing.WindowDay,
		}},
	})
	id := n.reserve("ada")
	n.get(at).is(200, "Reserved", "call of ada", "Ada&#39;s calls", "units of calls, each day",
		"0 + 5 held of 6", "nearly full", "Release…")
	release := at + "/reservations/" + id + "/release"
	n.get(release).is(200, "Release this reservation?", "5 units")
	for range 2 {
		n.send(at, release, nil).is(303)
	}
	require.NotContains(t, n.get(at).is(200, "0 of 6").body, "Reserved")
	require.Equal(t, "portal of ada", n.changes()[0].Actor)

	// A plan that does not let its customers release anything.
	n.Do(t, billing.KindChangePlan, &billing.ChangePlan{
		Env: n.env, ID: [16]byte{6, 1}, ChangeID: [16]byte{12}, Plan: "scale",
		Type: billing.ChangeUpgrade,
	})
	ben := n.link("ben", n.keyID)
	release = ben + "/reservations/" + n.reserve("ben") + "/release"
	require.NotContains(t, n.get(ben).is(200, "Reserved").body, "Release…")
	n.get(release).is(403, "cannot be done here")
	n.send(ben, release, nil).is(403, "cannot be done here")

	// Customers do not know their provider's budgets: the refusal does not name them.
	n.Do(t, billing.KindFreezeBudget, &billing.FreezeBudget{Env: n.env, Key: "ada's", Frozen: true})
	frozen := n.get(at).is(200, "Your provider has paused this. Contact them to resume.")
	require.NotContains(t, frozen.body, "ada&#39;s")
	require.NotContains(t, frozen.body, "is frozen")

	// One that has ended says so, whatever the plan allows.
	n.Do(t, billing.KindSettleReservation, &billing.SettleReservation{
		Env: n.env, ID: [16]byte{11, 'b'}, EventKey: "call of ben", Key: [16]byte{12},
		Items:      []billing.SettleItem{{FeatureKey: "calls", Units: decimal.FromInt(1)}},
		OccurredAt: time.Now().UnixMilli(),
	})
	n.get(release).is(409, "This reservation has ended", "holds nothing any more")
	n.send(ben, release, nil).is(409, "This reservation has ended")
}
