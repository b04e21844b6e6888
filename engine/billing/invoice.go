package billing

import (
	"tollgate/engine"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// paymentTermDays is how long after its issue an invoice falls due.
const paymentTermDays = 7

// MarkInvoicePaid makes an invoice PAID and its subscription active. Of a PAID invoice it changes
// nothing and is the same success again.
type MarkInvoicePaid struct {
	Env uint32
	ID  [16]byte
}

// Fields states the command's fields.
func (c *MarkInvoicePaid) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &c.Env)
	w.ID(2, &c.ID)
}

func (c *MarkInvoicePaid) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	row := t.invoiceIn(c.Env, &c.ID)
	if row == 0 {
		return engine.OutcomeInvoiceUnknown
	}
	now := e.now(t.stamp)
	inv := t.invoices.Read(row)
	b := t.advance(inv.subscription, now)
	switch inv.statusAt(now) {
	case InvoicePaid:
		return engine.OutcomeDone
	case InvoiceVoid:
		return engine.OutcomeInvoiceVoid
	case InvoicePending:
		return engine.OutcomeInvoicePending
	}

	lock := t.stripe(inv.customer)
	lock.Lock()
	inv = t.invoices.Write(row)
	inv.status, inv.paidAt = InvoicePaid, now
	if b.suspendedAt != 0 && b.cancelledAt == 0 {
		t.subscriptions.Write(inv.subscription).suspendedAt = 0
	}
	lock.Unlock()
	t.fold(uint64(row))
	return engine.OutcomeDone
}

// invoice is the record of an invoice; its lines are the text of the same row. id, customer and
// subscription never change.
type invoice struct {
	id                                    [16]byte
	number                                uint64
	createdAt, dueAt, paidAt              int64
	periodStart, periodEnd                int64
	amount                                decimal.Decimal
	customer, subscription, version, next uint32 // next: the customer's next younger invoice
	kind                                  InvoiceType
	status                                InvoiceStatus
}

var invoiceCodec = page.Codec[invoice]{
	Append: func(dst []byte, v *invoice) []byte {
		dst = append(dst, v.id[:]...)
		dst = appendI64(dst, int64(v.number))
		dst = appendI64(appendI64(appendI64(dst, v.createdAt), v.dueAt), v.paidAt)
		dst = appendI64(appendI64(dst, v.periodStart), v.periodEnd)
		dst = appendDecimal(dst, v.amount)
		dst = appendU32(appendU32(dst, v.customer), v.subscription)
		dst = appendU32(appendU32(dst, v.version), v.next)
		return append(dst, byte(v.kind), byte(v.status))
	},
	Read: func(src []byte, v *invoice) ([]byte, error) {
		r := reader{rest: src}
		v.id, v.number = r.id(), r.u64()
		v.createdAt, v.dueAt, v.paidAt = r.i64(), r.i64(), r.i64()
		v.periodStart, v.periodEnd = r.i64(), r.i64()
		v.amount = r.decimal()
		v.customer, v.subscription = r.u32(), r.u32()
		v.version, v.next = r.u32(), r.u32()
		v.kind, v.status = InvoiceType(r.u8()), InvoiceStatus(r.u8())
		return r.rest, r.err
	},
}

// statusAt is the invoice's state at an instant: a DUE one becomes PAST_DUE at its due date, or
// PAID by itself when there is nothing to pay.
func (v *invoice) statusAt(now int64) InvoiceStatus {
	switch {
	case v.status != InvoiceDue || now < v.dueAt:
		return v.status
	case v.amount.IsZero():
		return InvoicePaid
	}
	return InvoicePastDue
}

// invoiceLines is the cold part of an invoice.
type invoiceLines struct{ Items []InvoiceItem }

// Fields states the lines' fields.
func (l *invoiceLines) Fields(w *wire.Codec) { wire.List(w, 1, &l.Items) }

// Fields states a line's fields. A stored line leaves out a period that is the invoice's own.
func (i *InvoiceItem) Fields(w *wire.Codec) {
	w.String(1, &i.Description)
	w.String(2, &i.FeatureKey)
	w.Decimal(3, &i.Quantity)
	w.Decimal(4, &i.UnitPrice)
	w.Bool(5, &i.HasUnitPrice)
	wire.List(w, 6, &i.Tiers)
	w.Int(7, &i.PeriodStart)
	w.Int(8, &i.PeriodEnd)
	w.Decimal(9, &i.Amount)
}

// issueInitial issues the invoice that comes with a new subscription: the base price when it is
// billed in advance, nothing when in arrears. The customer's lock is held.
func (t *turn) issueInitial(e *environment, subscription uint32, id [16]byte) (row uint32) {
	b := t.subscriptions.Read(subscription)
	catalog := e.catalog.Load()
	version := catalog.version(b.version)
	lines := invoiceLines{}
	inv := invoice{
		id: id, customer: b.customer, subscription: subscription, version: b.version,
		kind: InvoiceInitial, status: InvoiceDue, createdAt: b.createdAt,
		dueAt:       b.createdAt + paymentTermDays*dayMS,
		periodStart: b.periodStart, periodEnd: b.periodEnd,
	}
	if version.timing == timingInAdvance {
		inv.amount = version.price.Round(version.places)
		lines.Items = []InvoiceItem{{
			Description: catalog.plans[version.plan-1].title() + " (base price)",
			Quantity:    decimal.FromInt(1), UnitPrice: version.price, HasUnitPrice: true,
			Amount: inv.amount,
		}}
	}
	return t.issue(e, &inv, &lines)
}

// issue numbers an invoice and adds it to its customer. The customer's lock is held.
func (t *turn) issue(e *environment, inv *invoice, lines *invoiceLines) (row uint32) {
	e.invoices++
	inv.number = e.invoices
	row, r := t.invoices.Append()
	*r = *inv
	_, cold := t.items.Append()
	cold.data = string(wire.Encode(nil, lines))
	c := t.customers.Write(inv.customer)
	if c.firstInvoice == 0 {
		c.firstInvoice = row
	} else {
		t.invoices.Write(c.lastInvoice).next = row
	}
	c.lastInvoice = row
	return row
}

// invoiceWith finds an invoice by its UUID in any environment; 0 when there is none.
func (s *state) invoiceWith(id *[16]byte) uint32 {
	return s.invoiceByID.Find(s.idHash(id), func(row uint32) bool {
		return s.invoices.Read(row).id == *id
	})
}

// invoiceIn finds an invoice of one environment; 0 when there is none.
func (s *state) invoiceIn(env uint32, id *[16]byte) uint32 {
	row := s.invoiceWith(id)
	if row != 0 && s.customers.Read(s.invoices.Read(row).customer).env != env {
		return 0
	}
	return row
}

// invoiceView must be called under the customer's lock.
func (s *state) invoiceView(row uint32) InvoiceView {
	v := s.invoices.Read(row)
	c := s.customers.Read(v.customer)
	e := s.environment(c.env)
	view := InvoiceView{
		ID: v.id, SubscriptionID: s.subscriptions.Read(v.subscription).id, Number: v.number,
		Type: v.kind, Status: v.statusAt(e.now(s.stamp.Load())),
		Customer: string(s.externalID(c)),
		Amount:   v.amount, Currency: e.catalog.Load().version(v.version).currency,
		CreatedAt: v.createdAt, DueDate: v.dueAt, PaidAt: v.paidAt,
		PeriodStart: v.periodStart, PeriodEnd: v.periodEnd,
	}
	if view.Status == InvoicePaid && v.status == InvoiceDue {
		view.PaidAt = v.dueAt
	}
	var lines invoiceLines
	if err := wire.Decode([]byte(s.items.Read(row).data), &lines); err != nil {
		panic("billing: invoice lines in memory do not decode: " + err.Error())
	}
	for i := range lines.Items {
		if item := &lines.Items[i]; item.PeriodEnd == 0 {
			item.PeriodStart, item.PeriodEnd = v.periodStart, v.periodEnd
		}
	}
	view.Items = lines.Items
	return view
}

// Invoices lists a customer's invoices, oldest first.
func (m *Machine) Invoices(env, customerRow uint32) []InvoiceView {
	s := m.state.Load()
	views := []InvoiceView{}
	if customerRow == 0 || customerRow > s.customers.Len() {
		return views
	}
	lock := s.stripe(customerRow)
	lock.RLock()
	defer lock.RUnlock()
	c := s.customers.Read(customerRow)
	if c.env != env {
		return views
	}
	for row := c.firstInvoice; row != 0; row = s.invoices.Read(row).next {
		views = append(views, s.invoiceView(row))
	}
	return views
}

// Invoice finds an invoice by its UUID.
func (m *Machine) Invoice(env uint32, id [16]byte) (InvoiceView, bool) {
	s := m.state.Load()
	row := s.invoiceIn(env, &id)
	if row == 0 {
		return InvoiceView{}, false
	}
	lock := s.stripe(s.invoices.Read(row).customer)
	lock.RLock()
	defer lock.RUnlock()
	return s.invoiceView(row), true
}
