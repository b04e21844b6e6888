// Package lifecycle brings subscriptions to an instant, step by step, and stores what came of it:
// periods that end, invoices, late usage, plan changes, cancellations. Queries look at the same
// copy and let it go. It knows no command.
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

// Projector brings copies of subscriptions to an instant: see Ledger.
type Projector struct {
	credits.Vault
	Pending *page.Index // id of a PENDING invoice → subscription
}

// Open makes a projector without subscriptions.
func (p *Projector) Open() {
	p.Vault.Open()
	p.Pending = page.NewIndex()
}

// Runner is a turn that lets happen what is due of subscriptions, and stores what came of it.
type Runner struct {
	credits.Burner
	S *Projector
	// Holds lets reservations expire in turn with what is due of subscriptions.
	Holds Expirer
}

// Expirer knows the open reservations.
type Expirer interface {
	// NextHold is the customer's that expires next; at never where there is none.
	NextHold(customer uint32) rows.Due
	// ExpireHold lets one expire at its instant, by which its customer's subscriptions are.
	ExpireHold(row uint32)
}

// Ledger is one subscription on its way to an instant: copies of its records, which steps change,
// and what the steps brought forth. Commands commit it; queries look at it and let it go. So what
// is due has happened for both, whether or not a tick has come.
type Ledger struct {
	*Projector
	Env     *accounts.Environment
	Catalog *catalogs.Catalog
	Row     uint32
	Sub     book.Subscription
	was     book.Subscription // as it is stored

	Counters []book.Counter
	bases    []book.Base    // as long as counters
	covers   []book.Counter // what of each counter credits have paid, as long as counters
	Spans    []book.HeldSpan
	Unpaid   []HeldInvoice    // oldest first
	changes  []heldPlanChange // those that changed, and the pending one
	Drafts   []Draft
	finished []HeldInvoice // no longer unpaid
	Facts    []credits.Fact
	Credit   decimal.Decimal // of the customer, in the subscription's currency
	credited []creditStep
	// happened is what webhooks must report of it.
	happened []happening
	// held are the sequences of plan versions that were left which a step or a command has asked for.
	held []*heldSequence
	// heldAt has them by what they are of, stored the rows of all that the subscription has, once
	// one was asked for.
	heldAt map[book.SequenceKey]*heldSequence
	stored map[book.SequenceKey]uint32
}

// creditStep is what a ledger's step means for the customer's credits: a period of a plan version
// that ends or starts, else an upgrade from another version.
type creditStep struct {
	start, end bool
	version    uint32
	from       *catalogs.PlanVersion
	at         int64
}

// HeldInvoice is an unpaid invoice in a ledger; due and status may change.
type HeldInvoice struct {
	Row uint32 // 0: a draft, whose place in drafts is at
	at  int
	book.Invoice
}

// heldPlanChange is a plan change in a ledger.
type heldPlanChange struct {
	row uint32
	book.PlanChange
}

// OpenLedger copies a subscription's records. Queries hold the customer's lock.
func (s *Projector) OpenLedger(row uint32) *Ledger {
	b := s.Subscriptions.Whole(row)
	e := s.Environment(s.Customers.Read(b.Customer).Env)
	l := &Ledger{Projector: s, Env: e, Catalog: e.Catalog.Load(), Row: row, Sub: b, was: b}
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

// Version is the plan version that the subscription is on.
func (l *Ledger) Version() *catalogs.PlanVersion { return l.Catalog.Version(l.Sub.Version) }

// NextDue is the earliest instant at which something of the subscription falls due.
func (l *Ledger) NextDue() int64 {
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

// Run lets everything happen that is due by an instant, in order, each at its own instant; no step
// begins when so many units of work are done, but the first. It returns how many were.
func (l *Ledger) Run(now int64, most int) (units int) {
	for first := true; l.Sub.Due <= now && (first || units < most); first = false {
		drafts, told, span := len(l.Drafts), len(l.happened), l.Sub.Span
		units += 1 + len(l.Unpaid)/4
		l.step(l.Sub.Due)
		l.Sub.Due = l.NextDue()
		for i := drafts; i < len(l.Drafts); i++ {
			units += l.Weight() + l.Drafts[i].weight()
		}
		if l.Sub.Span != span && len(l.Drafts) == drafts { // its invoice waits
			units += l.Weight()
		}
		units += 16 * (len(l.happened) - told)
	}
	return units
}

// Weight is how many units of work it is to open or commit the ledger, and to close its span.
func (l *Ledger) Weight() (units int) {
	units = 4 + len(l.Counters) + len(l.Unpaid)/4
	for i := range l.Spans {
		units += len(l.Spans[i].Meters)
	}
	return units + (len(l.Spans)+len(l.stored)+len(l.held))/4
}

// weight is how many units of work it is to encode the draft.
func (d *Draft) weight() (units int) {
	units = 4
	for i := range d.Items {
		units += 2 + len(d.Items[i].Tiers)/2
	}
	return units
}

// step lets the one thing happen that is due: of several at one instant, invoices fall due first,
// then the period ends, then the invoice of one that ended is issued, then late usage is billed,
// then a grace ends.
func (l *Ledger) step(at int64) {
	for i := range l.Unpaid {
		if v := &l.Unpaid[i]; v.Status == book.InvoiceDue && v.DueAt == at {
			l.fallDue(i)
			return
		}
	}
	switch {
	case l.Sub.EndedAt == 0 && l.Sub.PeriodEnd == at:
		l.endPeriod(at)
	case l.Sub.IssueAt == at:
		l.issuePeriod(at)
	case l.Sub.AdjustAt == at:
		l.adjust(at)
	default:
		l.Sub.SuspendedAt = at
		l.Tell(accounts.WebhookSubscriptionSuspended, at)
	}
}

// fallDue makes an unpaid invoice PAST_DUE, or PAID when it amounts to nothing.
func (l *Ledger) fallDue(i int) {
	v := &l.Unpaid[i]
	if !v.Amount.IsZero() {
		v.Status = book.InvoicePastDue
		l.TellInvoice(accounts.WebhookInvoicePastDue, v.DueAt, v)
		return
	}
	l.settle(i, v.DueAt)
}

// settle makes an unpaid invoice PAID. What is no longer unpaid is written by commit like the rest.
func (l *Ledger) settle(i int, at int64) {
	l.Unpaid[i].Status, l.Unpaid[i].PaidAt = book.InvoicePaid, at
	l.Facts = append(l.Facts, credits.Fact{
		Kind: credits.FactPaid, At: at, Invoice: credits.InvoiceFact{ID: l.Unpaid[i].ID},
	})
	l.TellInvoice(accounts.WebhookInvoicePaid, at, &l.Unpaid[i])
	l.Close(i)
}

// Close takes an invoice out of the unpaid ones.
func (l *Ledger) Close(i int) {
	v := l.Unpaid[i]
	l.Unpaid = append(l.Unpaid[:i:i], l.Unpaid[i+1:]...)
	v.NextUnpaid = 0
	l.finished = append(l.finished, v)
}

// Everything is as much work as there is.
const Everything = math.MaxInt

// advance brings a subscription to an instant of its environment's clock. Every command that
// touches a subscription comes through here first. False: there is more due than this entry may
// do, and the command is to be deferred; what has happened stays, so that each entry gets further.
func (t *Runner) advance(row uint32, now int64) bool {
	if t.S.Subscriptions.Read(row).Due > now {
		return true
	}
	if t.Spent() {
		return false
	}
	l := t.S.OpenLedger(row)
	t.Spend(2 * l.Weight())
	t.Spend(l.Run(now, t.Left()))
	t.Commit(l)
	return l.Sub.Due > now
}

// AdvanceCustomer brings all subscriptions of a customer to an instant, and lets its reservations
// expire, in the order in which things are due. False is as with advance.
func (t *Runner) AdvanceCustomer(customer uint32, now int64) bool {
	t.Spend(int(t.S.Customers.Rest(customer).Subscriptions) / 8) // the command walks them once more
	for t.S.Customers.Read(customer).Held {
		hold := t.Holds.NextHold(customer)
		if hold.At > now {
			break
		}
		if !t.advanceSubscriptions(customer, hold.At) || t.Spent() {
			return false
		}
		t.Holds.ExpireHold(hold.Row)
	}
	return t.advanceSubscriptions(customer, now)
}

// advanceSubscriptions brings all subscriptions of a customer to an instant, in the order in which
// things are due: they share what the customer has to its credit, and invoices are numbered as they
// come. False is as with advance.
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

// dueOfCustomer are the two of a customer's subscriptions with the earliest due instants; at never
// where there is none.
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

// Advanced opens the ledger of a subscription that is brought to an instant first, with the
// customer's others, for a command to work on; false is as with advance.
func (t *Runner) Advanced(row uint32, now int64) (l *Ledger, ok bool) {
	if !t.AdvanceCustomer(t.S.Subscriptions.Read(row).Customer, now) {
		return nil, false
	}
	l = t.S.OpenLedger(row)
	t.Spend(2*l.Weight() + 4)
	return l, true
}

// Current opens the ledger of a subscription that a command names, brought to now on its
// environment's clock, for the command to work on. Nil: outcome says why there is nothing to do.
func (t *Runner) Current(
	env uint32, id *[16]byte,
) (l *Ledger, now int64, outcome engine.Outcome) {
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

// LedgerAt opens a ledger and brings it to an instant. What the customer has to its credit there
// may depend on other subscriptions: LedgerAmong looks at those, too.
func (s *Projector) LedgerAt(row uint32, now int64) *Ledger {
	l := s.OpenLedger(row)
	l.Run(now, Everything)
	return l
}

// LedgersOf opens the ledgers of a customer's subscriptions that have something due by an
// instant, and brings them there together. credit is what the customer has then, where that
// changed.
func (s *Projector) LedgersOf(
	customer uint32, now int64,
) (ledgers []*Ledger, credit map[string]decimal.Decimal) {
	for row := s.Customers.Read(customer).FirstSubscription; row != 0; {
		b := s.Subscriptions.Read(row)
		if b.Due <= now {
			ledgers = append(ledgers, s.OpenLedger(row))
		}
		row = b.Next
	}
	credit = map[string]decimal.Decimal{}
	for {
		var next *Ledger
		for _, l := range ledgers {
			if l.Sub.Due <= now && (next == nil || l.Sub.Due < next.Sub.Due) {
				next = l
			}
		}
		if next == nil {
			return ledgers, credit
		}
		currency := next.Version().Currency
		if left, ok := credit[currency]; ok {
			next.Credit = left
		}
		next.Run(next.Sub.Due, Everything)
		credit[currency] = next.Credit
	}
}

// LedgerAmong opens a ledger and brings it to an instant, together with the customer's others.
func (s *Projector) LedgerAmong(row uint32, now int64) (l *Ledger) {
	ledgers, credit := s.LedgersOf(s.Subscriptions.Read(row).Customer, now)
	for _, other := range ledgers {
		if other.Row == row {
			l = other
		}
	}
	if l == nil {
		l = s.OpenLedger(row)
	}
	if left, ok := credit[l.Version().Currency]; ok {
		l.Credit = left
	}
	return l
}
