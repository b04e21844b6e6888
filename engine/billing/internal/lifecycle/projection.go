// Package lifecycle brings subscriptions to an instant, step by step, and stores the result: ended
// periods, invoices, late usage, plan changes, cancellations. Queries use the same copy and drop
// it. The package knows no commands.
package lifecycle

import (
	"math"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// Projector brings copies of subscriptions to an instant: see Projection.
type Projector struct {
	credits.Vault
	Pending *page.Index // id of a PENDING invoice → subscription
}

// Open makes a projector without subscriptions.
func (p *Projector) Open() {
	p.Vault.Open()
	p.Pending = page.NewIndex()
}

// Runner is the part of a turn that carries out what is due, and stores the result.
type Runner struct {
	credits.Burner
	S *Projector
	// Holds makes reservations expire in order with the subscriptions' due events.
	Holds Expirer
}

// Expirer knows the open reservations.
type Expirer interface {
	// Holder is the customer of one.
	Holder(row uint32) (customer uint32)
	// NextHold returns the customer's reservation that expires next, with Never if there is none.
	NextHold(customer uint32) rows.Due
	// ExpireHold expires one at its instant. Its customer's subscriptions have been brought there.
	ExpireHold(row uint32)
}

// Projection is one subscription on its way to an instant: copies of its records, which steps
// change, and the results of the steps. Commands commit it; queries read and drop it. So both see
// what was due, with or without a tick.
type Projection struct {
	*Projector
	Env     *accounts.Environment
	Catalog *catalogs.Catalog
	Row     uint32
	Sub     book.Subscription
	was     book.Subscription // as stored

	Counters []book.Counter
	bases    []book.Base    // as long as counters
	covers   []book.Counter // the part of each counter that credits have paid, as long as counters
	Spans    []book.HeldSpan
	Unpaid   []HeldInvoice    // oldest first
	changes  []heldPlanChange // those that changed, and the pending one
	Drafts   []Draft
	finished []HeldInvoice // no longer unpaid
	Facts    []credits.Fact
	Credit   decimal.Decimal // of the customer, in the subscription's currency
	credited []creditStep
	// events are the events for webhooks.
	events []pendingEvent
	// held are the sequences of left plan versions that a step or a command has used.
	held []*heldSequence
	// interims are what interim invoices have of each counter; nil: the plan has no invoiceAbove.
	interims []book.InterimUnits
	// heldAt finds them by key. stored are the rows of all the subscription's sequences, once one
	// was used.
	heldAt map[book.SequenceKey]*heldSequence
	stored map[book.SequenceKey]uint32
}

// creditStep is a step's effect on the customer's credits: a period of a plan version ends or
// starts, or an upgrade from another version.
type creditStep struct {
	start, end bool
	version    uint32
	from       *catalogs.PlanVersion
	at         int64
}

// HeldInvoice is an unpaid invoice in a projection; due date and status may change.
type HeldInvoice struct {
	Row uint32 // 0: a draft, whose place in drafts is at
	at  int
	book.Invoice
}

// heldPlanChange is a plan change in a projection.
type heldPlanChange struct {
	row uint32
	book.PlanChange
}

// OpenProjection copies a subscription's records. Queries hold the customer's lock.
func (s *Projector) OpenProjection(row uint32) *Projection {
	b := s.Subscriptions.Whole(row)
	e := s.Environment(s.Customers.Read(b.Customer).Env)
	l := &Projection{Projector: s, Env: e, Catalog: e.Catalog.Load(), Row: row, Sub: b, was: b}
	n := int(b.Counters)
	l.Counters, l.bases, l.covers = make(
		[]book.Counter, n,
	), make([]book.Base, n), make([]book.Counter, n)
	for i := range l.Counters {
		l.Counters[i] = s.Counters.Read(b.FirstCounter + uint32(i))
		if (book.Place{Feature: &l.Version().Features[i]}).Credited() {
			l.covers[i].Used, l.covers[i].Next = s.Covered(b.FirstCounter + uint32(i))
		}
		if b.FirstBase != 0 {
			l.bases[i] = *s.Bases.Read(b.FirstBase + uint32(i))
		}
	}
	if !l.Version().InvoiceAbove.IsZero() {
		l.interims = make([]book.InterimUnits, n)
		for i := range l.interims {
			l.interims[i] = s.InterimOf(b.FirstCounter + uint32(i))
		}
	}
	l.Spans = s.HeldSpans(b.FirstSpan)
	for at := b.FirstUnpaid; at != 0; {
		v := s.Invoices.Read(at)
		l.Unpaid = append(l.Unpaid, HeldInvoice{Row: at, Invoice: v})
		at = v.NextUnpaid
	}
	if b.Pending != 0 {
		l.changes = append(l.changes, heldPlanChange{b.Pending, *s.PlanChanges.Read(b.Pending)})
	}
	l.Credit = s.Credit(b.Customer, l.Version().Currency)
	return l
}

// Version returns the subscription's plan version.
func (l *Projection) Version() *catalogs.PlanVersion { return l.Catalog.Version(l.Sub.Version) }

// NextDue returns the earliest instant at which something of the subscription falls due.
func (l *Projection) NextDue() int64 {
	at := int64(rows.Never)
	if l.Sub.EndedAt == 0 {
		at = l.Sub.PeriodEnd
	}
	for _, other := range [...]int64{l.Sub.IssueAt, l.Sub.AdjustAt} {
		if other != 0 {
			at = min(at, other)
		}
	}
	for i := range l.Unpaid {
		v := &l.Unpaid[i]
		if v.Status == book.InvoiceDue {
			at = min(at, v.DueAt)
		} else if l.Sub.Active() {
			at = min(at, v.GraceEnd)
		}
	}
	return at
}

// Run carries out everything due by an instant, each step at its own instant and in order. After
// the first step, it begins none once the given units of work are done. It returns the units done.
func (l *Projection) Run(now int64, maximum int) (units int) {
	for first := true; l.Sub.Due <= now && (first || units < maximum); first = false {
		drafts, told, span := len(l.Drafts), len(l.events), l.Sub.Span
		units += 1 + len(l.Unpaid)/4
		l.step(l.Sub.Due)
		l.Sub.Due = l.NextDue()
		for i := drafts; i < len(l.Drafts); i++ {
			units += l.Weight() + l.Drafts[i].weight()
		}
		if l.Sub.Span != span && len(l.Drafts) == drafts { // its invoice waits
			units += l.Weight()
		}
		units += 16 * (len(l.events) - told)
	}
	return units
}

// Weight returns the units of work for opening or committing the projection and closing its span.
func (l *Projection) Weight() (units int) {
	units = 4 + len(l.Counters) + len(l.Unpaid)/4
	for i := range l.Spans {
		units += len(l.Spans[i].Meters)
	}
	return units + (len(l.Spans)+len(l.stored)+len(l.held))/4
}

// weight returns the units of work for encoding the draft.
func (d *Draft) weight() (units int) {
	units = 4
	for i := range d.Items {
		units += 2 + len(d.Items[i].Tiers)/2
	}
	return units
}

// step carries out the one step that is due. Of several at one instant, first invoices fall due,
// then the period ends, then the invoice of an ended period is issued, then late usage is billed,
// then a grace period ends.
func (l *Projection) step(at int64) {
	for i := range l.Unpaid {
		if v := &l.Unpaid[i]; v.Status == book.InvoiceDue && v.DueAt == at {
			l.fallDue(i)
			return
		}
	}
	switch {
	case l.Sub.EndedAt == 0 && l.Sub.PeriodEnd == at:
		l.endPeriod(at)
		billAbove(l, at)
	case l.Sub.IssueAt == at:
		l.issuePeriod(at)
	case l.Sub.AdjustAt == at:
		l.adjust(at)
	default:
		l.Sub.SuspendedAt = at
		l.Emit(accounts.WebhookSubscriptionSuspended, at)
	}
}

// fallDue makes an unpaid invoice PAST_DUE, or PAID if its amount is 0.
func (l *Projection) fallDue(i int) {
	v := &l.Unpaid[i]
	if !v.Amount.IsZero() {
		v.Status = book.InvoicePastDue
		l.EmitInvoice(accounts.WebhookInvoicePastDue, v.DueAt, v)
		return
	}
	l.settle(i, v.DueAt)
}

// settle makes an unpaid invoice PAID. Commit writes it like the unpaid ones.
func (l *Projection) settle(i int, at int64) {
	l.Unpaid[i].Status, l.Unpaid[i].PaidAt = book.InvoicePaid, at
	l.Facts = append(l.Facts, credits.Fact{
		Kind: credits.FactPaid, At: at, Invoice: credits.InvoiceFact{ID: l.Unpaid[i].ID},
	})
	l.EmitInvoice(accounts.WebhookInvoicePaid, at, &l.Unpaid[i])
	l.Close(i)
}

// Close removes an invoice from the unpaid ones.
func (l *Projection) Close(i int) {
	v := l.Unpaid[i]
	l.Unpaid = append(l.Unpaid[:i:i], l.Unpaid[i+1:]...)
	v.NextUnpaid = 0
	l.finished = append(l.finished, v)
}

// Everything is more work than any run needs.
const Everything = math.MaxInt

// advance brings a subscription to an instant of its environment's clock. Every command on a
// subscription first calls it. It returns false if more is due than this entry may do: then the
// command is deferred. The steps done stay, so each entry makes progress.
func (t *Runner) advance(row uint32, now int64) bool {
	if t.S.Subscriptions.Read(row).Due > now {
		return true
	}
	if t.Spent() {
		return false
	}
	l := t.S.OpenProjection(row)
	t.Spend(2 * l.Weight())
	t.Spend(l.Run(now, t.Left()))
	t.Commit(l)
	return l.Sub.Due > now
}

// AdvanceCustomer brings all subscriptions of a customer to an instant and expires its
// reservations, in the order of their due instants. It returns false as advance does.
func (t *Runner) AdvanceCustomer(customer uint32, now int64) bool {
	t.Spend(int(t.S.Customers.Subscriptions(customer)) / 8) // the command walks them once more
	for t.S.Customers.Read(customer).Held {
		hold := t.Holds.NextHold(customer)
		if hold.At > now {
			break
		}
		if !t.advanceSubscriptions(customer, hold.At) || t.Spent() {
			return false
		}
		t.expire(hold)
	}
	return t.advanceSubscriptions(customer, now)
}

// Above notes that usage of a subscription whose plan has invoiceAbove was counted or corrected.
func (t *Runner) Above(subscription uint32) {
	for _, row := range t.Moves.Above {
		if row == subscription {
			return
		}
	}
	t.Moves.Above = append(t.Moves.Above, subscription)
}

// ExpireHolds lets the reservations of an environment expire that are over by an instant of its
// clock. False is as with advance.
func (t *Runner) ExpireHolds(e *accounts.Environment, now int64) bool {
	for {
		first := e.HoldDues.First()
		if first.At > now {
			return true
		}
		if t.Spent() || !t.AdvanceCustomer(t.Holds.Holder(first.Row), now) {
			return false
		}
	}
}

// advanceSubscriptions brings all subscriptions of a customer to an instant, in the order of their
// due instants, because they share its credit and invoices are numbered in order. It returns false
// as advance does.
func (t *Runner) advanceSubscriptions(customer uint32, now int64) bool {
	for {
		first, second := t.S.dueOfCustomer(customer)
		if first.At > now {
			return true
		}
		if !t.advance(first.Row, min(now, first.Until(second))) {
			return false
		}
	}
}

// dueOfCustomer returns the two of a customer's subscriptions with the earliest due instants; Never
// if there is none.
func (s *Projector) dueOfCustomer(customer uint32) (first, second rows.Due) {
	first, second = rows.Due{At: rows.Never}, rows.Due{At: rows.Never}
	for row := s.Customers.Read(customer).FirstSubscription; row != 0; {
		b := s.Subscriptions.Read(row)
		switch d := (rows.Due{At: b.Due, Row: row}); {
		case d.At < first.At:
			first, second = d, first
		case d.At < second.At:
			second = d
		}
		row = b.Next
	}
	return first, second
}

// Advanced first brings a subscription to an instant, with the customer's others, and opens its
// projection for a command. It returns false as advance does.
func (t *Runner) Advanced(row uint32, now int64) (l *Projection, ok bool) {
	if !t.AdvanceCustomer(t.S.Subscriptions.Read(row).Customer, now) {
		return nil, false
	}
	l = t.S.OpenProjection(row)
	t.Spend(2*l.Weight() + 4)
	return l, true
}

// Current opens the projection of a subscription that a command names, brought to now on its
// environment's clock. If it returns nil, outcome tells why there is nothing to do.
func (t *Runner) Current(
	env uint32, id *[16]byte,
) (l *Projection, now int64, outcome engine.Outcome) {
	e := t.S.Environment(env)
	if e == nil {
		return nil, 0, engine.OutcomeAccountUnknown
	}
	row := t.S.SubscriptionIn(env, id)
	if row == 0 {
		return nil, 0, engine.OutcomeSubscriptionUnknown
	}
	now = e.Now(t.Stamp)
	l, ok := t.Advanced(row, now)
	if !ok {
		return nil, 0, engine.OutcomeDeferred
	}
	return l, now, engine.OutcomeDone
}
