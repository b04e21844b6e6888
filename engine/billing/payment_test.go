package billing_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// payDesk is a desk with a due invoice and the sandbox provider.
func payDesk(t *testing.T) (*desk, billing.InvoiceView) {
	d := newDesk(t)
	d.is(engine.OutcomeDone, billing.KindCreateSubscription, d.subscribe())
	d.is(engine.OutcomeDone, billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
		Env: enginetest.Sandbox, Provider: "sandbox", SecretKey: []byte("sealed"), Actor: "ops",
	})
	invoice, ok := d.m.Invoice(enginetest.Sandbox, enginetest.ID("i"))
	require.True(t, ok)
	require.Equal(t, billing.InvoiceDue, invoice.Status)
	return d, invoice
}

func payment(event, checkout string, i *billing.InvoiceView) *billing.RecordPayment {
	return &billing.RecordPayment{
		Env: enginetest.Sandbox, Provider: "sandbox", EventID: event, CheckoutID: checkout,
		InvoiceID: i.ID, Amount: i.Amount, Currency: i.Currency,
	}
}

func (d *desk) pays(c *billing.RecordPayment, repeated bool, result billing.PaymentResult) {
	d.t.Helper()
	var got billing.PaymentReply
	r := d.is(engine.OutcomeDone, billing.KindRecordPayment, c)
	require.NoError(d.t, wire.Decode(r.Value, &got))
	require.Equal(d.t, billing.PaymentReply{Repeated: repeated, Result: result}, got)
}

func TestAPaymentCountsOnce(t *testing.T) {
	d, invoice := payDesk(t)
	d.m.Suspend(enginetest.ID("s"), d.Stamp)
	d.pays(payment("e1", "c1", &invoice), false, billing.PaymentApplied)
	paid, _ := d.m.Invoice(enginetest.Sandbox, invoice.ID)
	require.Equal(t, billing.InvoicePaid, paid.Status)
	s, _ := d.m.Subscription(enginetest.Sandbox, enginetest.ID("s"))
	require.True(t, s.IsActive, "a payment ends the suspension")
	// The same event, another event of the same checkout (a poll beside the webhook): no payment.
	d.pays(payment("e1", "c1", &invoice), true, billing.PaymentApplied)
	d.pays(payment("poll", "c1", &invoice), true, billing.PaymentApplied)
	// Another checkout of the same invoice took money twice.
	d.pays(payment("e2", "c2", &invoice), false, billing.PaymentOver)
	again := restored(t, enginetest.Snapshot(t, d.m))
	require.Len(t, again.Payments(enginetest.Sandbox, invoice.ID), 2)
	log := enginetest.NewLog(again, d.Stamp)
	var got billing.PaymentReply
	r := log.Do(billing.KindRecordPayment, payment("e2", "", &invoice))
	require.NoError(t, wire.Decode(r.Value, &got))
	require.True(t, got.Repeated, "known after a restore too")
}

func TestAPaymentThatDoesNotFitIsKept(t *testing.T) {
	d, invoice := payDesk(t)
	less := payment("e1", "c1", &invoice)
	less.Amount = decimal.FromInt(1)
	d.pays(less, false, billing.PaymentMismatch)
	other := payment("e2", "c2", &invoice)
	other.Currency = "EUR"
	d.pays(other, false, billing.PaymentMismatch)
	d.m.SetInvoiceStatus(invoice.ID, billing.InvoiceVoid)
	d.pays(payment("e3", "c3", &invoice), false, billing.PaymentUnexpected)
	require.Len(t, d.m.Payments(enginetest.Sandbox, invoice.ID), 3)
	unknown := payment("e4", "c4", &invoice)
	unknown.InvoiceID = enginetest.ID("nothing")
	d.is(engine.OutcomeInvoiceUnknown, billing.KindRecordPayment, unknown)
}

// TestMoneyThatDoesNotFitIsTold: whatever comes in beside what is due is told, once for each
// payment and with the reason; what fits, and what is not a payment, is not.
func TestMoneyThatDoesNotFitIsTold(t *testing.T) {
	d, invoice := payDesk(t)
	d.is(engine.OutcomeDone, billing.KindCreateWebhookEndpoint, d.hook())
	told := func() (texts []string) {
		page, _, _ := d.m.WebhookDeliveries(&billing.DeliveryQuery{
			Env: enginetest.Sandbox, Endpoint: enginetest.ID("hook"), Limit: 100,
		})
		for i := range page { // newest first
			if m := &page[i].Message; m.Type == billing.WebhookInvoiceOverpaid {
				require.Equal(t, "ada", m.Customer)
				require.Equal(t, enginetest.ID("s"), m.SubscriptionID)
				texts = append(texts, fmt.Sprint(m.PaidResult, " ", m.ProviderEvent, " ", m.Paid, " ",
					m.PaidCurrency, " for ", m.Number, " ", m.Status, " ", m.Amount, " ", m.Currency))
			}
		}
		return texts
	}
	pending := d.m.PendingInvoices(enginetest.Sandbox, 1)[0]
	less := payment("e1", "c1", &invoice)
	less.Amount = decimal.FromInt(1)
	refund := payment("e2", "", &invoice)
	refund.Other = "charge.refunded"
	d.pays(refund, false, billing.PaymentIgnored)
	for repeated := range 2 {
		d.pays(less, repeated > 0, billing.PaymentMismatch)
		d.pays(payment("e3", "c3", &pending), repeated > 0, billing.PaymentUnexpected)
	}
	d.m.SetInvoiceStatus(invoice.ID, billing.InvoiceVoid)
	for repeated := range 2 {
		d.pays(payment("e4", "c4", &invoice), repeated > 0, billing.PaymentUnexpected)
	}
	// Another amount for an invoice that is due, and not stored yet.
	d.Stamp = pending.PeriodEnd + 1
	other := payment("e5", "c5", &pending)
	other.Amount = decimal.FromInt(7)
	d.pays(other, false, billing.PaymentMismatch)
	fits := payment("e6", "c6", &pending)
	d.pays(fits, false, billing.PaymentApplied)
	d.pays(payment("e7", "c7", &pending), false, billing.PaymentOver)
	state := func(s billing.InvoiceStatus) string { return fmt.Sprint(s) }
	require.Equal(t, []string{
		"overpaid e7 20 USD for 2 " + state(billing.InvoicePaid) + " 20 USD",
		"mismatch e5 7 USD for 2 " + state(billing.InvoiceDue) + " 20 USD",
		"unexpected e4 20 USD for 1 " + state(billing.InvoiceVoid) + " 20 USD",
		"unexpected e3 20 USD for 0 " + state(billing.InvoicePending) + " 20 USD",
		"mismatch e1 1 USD for 1 " + state(billing.InvoiceDue) + " 20 USD",
	}, told())
}

// TestAPaymentFindsAnInvoiceThatIsBeingIssued: a period has ended, whoever looks sees its invoice
// DUE, and no entry has stored it yet.
func TestAPaymentFindsAnInvoiceThatIsBeingIssued(t *testing.T) {
	d, _ := payDesk(t)
	next := d.m.PendingInvoices(enginetest.Sandbox, 1)[0]
	d.pays(payment("early", "c0", &next), false, billing.PaymentUnexpected)
	d.Stamp = next.PeriodEnd + 1
	due, ok := d.m.Invoice(enginetest.Sandbox, next.ID)
	require.True(t, ok)
	due.Amount, due.Currency = decimal.FromInt(20), "USD"
	d.pays(payment("e1", "c1", &due), false, billing.PaymentApplied)
	d.pays(payment("e2", "c2", &due), false, billing.PaymentOver)
	paid, _ := d.m.Invoice(enginetest.Sandbox, next.ID)
	require.Equal(t, billing.InvoicePaid, paid.Status)
	require.Len(t, d.m.Payments(enginetest.Sandbox, next.ID), 3)
}

// TestReportsAreBounded: what is not a payment is kept a hundred times for an invoice, known again
// after a restore, and in no payment's way.
func TestReportsAreBounded(t *testing.T) {
	d, invoice := payDesk(t)
	report := func(event string, repeated bool) {
		c := payment(event, "c1", &invoice)
		c.Other = "charge.refunded"
		d.pays(c, repeated, billing.PaymentIgnored)
	}
	for i := range billing.MaxReports + 10 {
		report(fmt.Sprint("e", i), false)
	}
	report("e0", true)
	require.Len(t, d.m.Payments(enginetest.Sandbox, invoice.ID), billing.MaxReports)
	again := restored(t, enginetest.Snapshot(t, d.m))
	kept := again.Payments(enginetest.Sandbox, invoice.ID)
	require.Len(t, kept, billing.MaxReports)
	require.Equal(t, "charge.refunded", kept[0].Other)
	d = &desk{Log: enginetest.NewLog(again, d.Stamp), t: t, m: again}
	report("e0", true)
	report("late", false)
	d.pays(payment("paid", "c1", &invoice), false, billing.PaymentApplied)
	require.Len(t, again.Payments(enginetest.Sandbox, invoice.ID), billing.MaxReports+1)
}

func TestOpenCheckout(t *testing.T) {
	d, invoice := payDesk(t)
	open := &billing.OpenCheckout{
		Env: enginetest.Sandbox, ID: enginetest.ID("c"), InvoiceID: invoice.ID,
	}
	d.is(engine.OutcomeDone, billing.KindOpenCheckout, open)
	at := d.Stamp
	d.Stamp += 1000
	d.is(engine.OutcomeDone, billing.KindOpenCheckout, open)
	d.is(engine.OutcomeDone, billing.KindNoteCheckout, &billing.NoteCheckout{
		ID: open.ID, ProviderID: "cs_1",
	})
	again := restored(t, enginetest.Snapshot(t, d.m))
	c, ok := again.Checkout(enginetest.Sandbox, open.ID)
	require.True(t, ok)
	require.Equal(t, at, c.RequestedAt, "the first time stands")
	openAt := func(m *billing.Machine, provider string, from int64) map[uint64]billing.Checkout {
		return maps.Collect(m.OpenCheckouts(provider, from, at))
	}
	require.Equal(t, map[uint64]billing.Checkout{0: c}, openAt(again, "sandbox", 0))
	require.Empty(t, openAt(again, "sandbox", at))
	require.Empty(t, openAt(again, "stripe", 0))
	closed := &billing.NoteCheckout{ID: open.ID, Closed: true}
	d.is(engine.OutcomeDone, billing.KindNoteCheckout, closed)
	require.Empty(t, openAt(d.m, "sandbox", 0))
	d.is(engine.OutcomeCheckoutUnknown, billing.KindNoteCheckout, &billing.NoteCheckout{})

	d.is(engine.OutcomeDone, billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
		Env: enginetest.Sandbox, Provider: "none",
	})
	d.is(engine.OutcomeNoProvider, billing.KindOpenCheckout, open)
	pending := d.m.PendingInvoices(enginetest.Sandbox, 1)[0]
	d.is(engine.OutcomeInvoicePending, billing.KindOpenCheckout, &billing.OpenCheckout{
		Env: enginetest.Sandbox, ID: open.ID, InvoiceID: pending.ID,
	})
	for status, want := range map[billing.InvoiceStatus]engine.Outcome{
		billing.InvoicePaid: engine.OutcomeInvoicePaid,
		billing.InvoiceVoid: engine.OutcomeInvoiceVoid,
	} {
		d.m.SetInvoiceStatus(invoice.ID, status)
		d.is(want, billing.KindOpenCheckout, open)
	}
	d.is(engine.OutcomeProviderRefused, billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
		Env: enginetest.Sandbox + 1, Provider: "sandbox",
	})
}

// TestReplacedSettingsAreKept: the newest eight, for four weeks, in snapshots too, until they are
// to be forgotten; checkouts name those that they were made with.
func TestReplacedSettingsAreKept(t *testing.T) {
	d, invoice := payDesk(t) // revision 1
	set := func(provider, secret string, forget bool) {
		t.Helper()
		d.is(engine.OutcomeDone, billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
			Env: enginetest.Sandbox, Provider: provider, SecretKey: []byte(secret),
			ForgetPrevious: forget, Actor: "ops",
		})
	}
	kept := func(m *billing.Machine, now int64) (revisions []uint32) {
		settings := m.PaymentSettings(enginetest.Sandbox)
		for _, p := range settings.Kept(now) {
			revisions = append(revisions, p.Revision)
		}
		return revisions
	}
	set("none", "", false)
	require.Equal(t, []uint32{1}, kept(d.m, d.Stamp))
	d.Stamp += dayMS
	set("stripe", "a", false)
	require.Equal(t, []uint32{1}, kept(d.m, d.Stamp), "none is nothing to keep")
	open := &billing.OpenCheckout{
		Env: enginetest.Sandbox, ID: enginetest.ID("c"), InvoiceID: invoice.ID,
	}
	d.is(engine.OutcomeDone, billing.KindOpenCheckout, open)
	set("stripe", "b", false)
	require.Equal(t, []uint32{3, 1}, kept(d.m, d.Stamp))
	again := restored(t, enginetest.Snapshot(t, d.m))
	require.Equal(t, d.m.PaymentSettings(enginetest.Sandbox),
		again.PaymentSettings(enginetest.Sandbox))
	c, _ := again.Checkout(enginetest.Sandbox, open.ID)
	require.Equal(t, uint32(3), c.Revision)
	d.is(engine.OutcomeDone, billing.KindNoteCheckout, &billing.NoteCheckout{
		ID: open.ID, ProviderID: "cs", Provider: "sandbox", Revision: 1,
	})
	c, _ = d.m.Checkout(enginetest.Sandbox, open.ID)
	require.Equal(t, []any{uint32(1), "sandbox"}, []any{c.Revision, c.Provider})

	end := d.Stamp + billing.CheckoutPatienceMS
	require.Equal(t, []uint32{3}, kept(d.m, end-1), "1 was replaced a day before")
	require.Empty(t, kept(d.m, end))
	for i := range 10 {
		set("stripe", fmt.Sprint("s", i), false)
	}
	require.Equal(t, []uint32{13, 12, 11, 10, 9, 8, 7, 6}, kept(d.m, d.Stamp))
	set("stripe", "s9", true) // the same: only the others go
	require.Empty(t, kept(d.m, d.Stamp))
	settings := d.m.PaymentSettings(enginetest.Sandbox)
	require.Equal(t, []any{uint32(14), "s9"}, []any{settings.Revision, string(settings.SecretKey)})
	require.Contains(t, d.changes(d.m, 0, 1)[0].Values,
		billing.FieldChange{Name: "previous", After: "forgotten"})
	changes := d.changes(d.m, 0, 1)[0].Number
	set("stripe", "s9", true)
	require.Equal(t, changes, d.changes(d.m, 0, 1)[0].Number, "sent again")
	set("stripe", "new", true)
	require.Empty(t, kept(d.m, d.Stamp))
	d.Stamp = end
	set("stripe", "newer", false)
	d.Stamp += billing.CheckoutPatienceMS
	set("none", "", false)
	require.Len(t, d.m.PaymentSettings(enginetest.Sandbox).Previous, 1, "expired ones are dropped")
}

// TestPaymentSecretsAreNotInTheRecordOfChanges: the record says that they were set, and no more.
func TestPaymentSecretsAreNotInTheRecordOfChanges(t *testing.T) {
	d, _ := payDesk(t)
	c := d.changes(d.m, 0, 1)[0]
	require.Equal(t, "payment-provider.set", c.Action)
	require.Equal(t, []billing.FieldChange{
		{Name: "provider", Before: "none", After: "sandbox"}, {Name: "secrets", After: "set"},
	}, c.Values)
	require.Equal(t, []byte("sealed"), restored(t, enginetest.Snapshot(t, d.m)).
		PaymentSettings(enginetest.Sandbox).SecretKey)
}
