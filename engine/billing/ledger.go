package billing

import (
	"math"

	"tollgate/engine"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// projector brings copies of subscriptions to an instant: see ledger.
type projector struct {
	*vault
	pending *page.Index // id of a PENDING invoice → subscription
}

// newProjector returns a projector without subscriptions.
func newProjector() *projector {
	return &projector{vault: newVault(), pending: page.NewIndex()}
}

// runner is a turn that lets happen what is due of subscriptions, and stores what came of it.
type runner struct {
	burner
	s *projector
}

// ledger is one subscription on its way to an instant: copies of its records, which steps change,
// and what the steps brought forth. Commands commit it; queries look at it and let it go. So what
// is due has happened for both, whether or not a tick has come.
type ledger struct {
	*projector
	env     *environment
	catalog *catalog
	row     uint32
	b       subscription
	was     subscription // as it is stored

	counters []counter
	bases    []base    // as long as counters
	covers   []counter // what of each counter credits have paid, as long as counters
	spans    []heldSpan
	unpaid   []heldInvoice    // oldest first
	changes  []heldPlanChange // those that changed, and the pending one
	drafts   []draft
	finished []heldInvoice // no longer unpaid
	facts    []fact
	credit   decimal.Decimal // of the customer, in the subscription's currency
	credited []creditStep
	// happened is what webhooks have to tell of it.
	happened []happening
	// held are the sequences of plan versions that were left which a step or a command has asked for.
	held []*heldSequence
	// heldAt has them by what they are of, stored the rows of all that the subscription has, once
	// one was asked for.
	heldAt map[sequenceKey]*heldSequence
	stored map[sequenceKey]uint32
}

// creditStep is what a ledger's step means for the customer's credits: a period of a plan version
// that ends or starts, else an upgrade from another version.
type creditStep struct {
	start, end bool
	version    uint32
	from       *planVersion
	at         int64
}

// heldInvoice is an unpaid invoice in a ledger; due and status may change.
type heldInvoice struct {
	row uint32 // 0: a draft, whose place in drafts is at
	at  int
	invoice
}

// heldPlanChange is a plan change in a ledger.
type heldPlanChange struct {
	row uint32
	planChange
}

// openLedger copies a subscription's records. Queries hold the customer's lock.
func (s *projector) openLedger(row uint32) *ledger {
	b := s.subscriptions.Whole(row)
	e := s.environment(s.customers.Read(b.customer).env)
	l := &ledger{projector: s, env: e, catalog: e.catalog.Load(), row: row, b: b, was: b}
	n := int(b.counters)
	l.counters, l.bases, l.covers = make([]counter, n), make([]base, n), make([]counter, n)
	for i := range l.counters {
		l.counters[i] = s.counters.Read(b.firstCounter + uint32(i))
		if (place{feature: &l.version().features[i]}).credited() {
			l.covers[i].used, l.covers[i].next = s.covered(b.firstCounter + uint32(i))
		}
		if b.firstBase != 0 {
			l.bases[i] = *s.bases.Read(b.firstBase + uint32(i))
		}
	}
	l.spans = s.heldSpans(b.firstSpan)
	for at := b.firstUnpaid; at != 0; {
		v := s.invoices.Read(at)
		l.unpaid = append(l.unpaid, heldInvoice{row: at, invoice: v})
		at = v.nextUnpaid
	}
	if b.pending != 0 {
		l.changes = append(l.changes, heldPlanChange{b.pending, *s.planChanges.Read(b.pending)})
	}
	l.credit = s.credit(b.customer, l.version().currency)
	return l
}

// version is the plan version that the subscription is on.
func (l *ledger) version() *planVersion { return l.catalog.version(l.b.version) }

// nextDue is the earliest instant at which something of the subscription falls due.
func (l *ledger) nextDue() int64 {
	at := int64(rows.Never)
	if l.b.endedAt == 0 {
		at = l.b.periodEnd
	}
	for _, other := range [...]int64{l.b.issueAt, l.b.adjustAt} {
		if other != 0 {
			at = min(at, other)
		}
	}
	for i := range l.unpaid {
		v := &l.unpaid[i]
		if v.status == InvoiceDue {
			at = min(at, v.dueAt)
		} else if l.b.active() {
			at = min(at, v.graceEnd)
		}
	}
	return at
}

// run lets everything happen that is due by an instant, in order, each at its own instant; no step
// begins when so many units of work are done, but the first. It returns how many were.
func (l *ledger) run(now int64, most int) (units int) {
	for first := true; l.b.due <= now && (first || units < most); first = false {
		drafts, told, span := len(l.drafts), len(l.happened), l.b.span
		units += 1 + len(l.unpaid)/4
		l.step(l.b.due)
		l.b.due = l.nextDue()
		for i := drafts; i < len(l.drafts); i++ {
			units += l.weight() + l.drafts[i].weight()
		}
		if l.b.span != span && len(l.drafts) == drafts { // its invoice waits
			units += l.weight()
		}
		units += 16 * (len(l.happened) - told)
	}
	return units
}

// weight is how many units of work it is to open or commit the ledger, and to close its span.
func (l *ledger) weight() (units int) {
	units = 4 + len(l.counters) + len(l.unpaid)/4
	for i := range l.spans {
		units += len(l.spans[i].meters)
	}
	return units + (len(l.spans)+len(l.stored)+len(l.held))/4
}

// weight is how many units of work it is to encode the draft.
func (d *draft) weight() (units int) {
	units = 4
	for i := range d.items {
		units += 2 + len(d.items[i].Tiers)/2
	}
	return units
}

// step lets the one thing happen that is due: of several at one instant, invoices fall due first,
// then the period ends, then the invoice of one that ended is issued, then late usage is billed,
// then a grace ends.
func (l *ledger) step(at int64) {
	for i := range l.unpaid {
		if v := &l.unpaid[i]; v.status == InvoiceDue && v.dueAt == at {
			l.fallDue(i)
			return
		}
	}
	switch {
	case l.b.endedAt == 0 && l.b.periodEnd == at:
		l.endPeriod(at)
	case l.b.issueAt == at:
		l.issuePeriod(at)
	case l.b.adjustAt == at:
		l.adjust(at)
	default:
		l.b.suspendedAt = at
		l.tell(WebhookSubscriptionSuspended, at)
	}
}

// fallDue makes an unpaid invoice PAST_DUE, or PAID when it amounts to nothing.
func (l *ledger) fallDue(i int) {
	v := &l.unpaid[i]
	if !v.amount.IsZero() {
		v.status = InvoicePastDue
		l.tellInvoice(WebhookInvoicePastDue, v.dueAt, v)
		return
	}
	l.settle(i, v.dueAt)
}

// settle makes an unpaid invoice PAID. What is no longer unpaid is written by commit like the rest.
func (l *ledger) settle(i int, at int64) {
	l.unpaid[i].status, l.unpaid[i].paidAt = InvoicePaid, at
	l.facts = append(l.facts, fact{
		Kind: factPaid, At: at, Invoice: invoiceFact{ID: l.unpaid[i].id},
	})
	l.tellInvoice(WebhookInvoicePaid, at, &l.unpaid[i])
	l.close(i)
}

// close takes an invoice out of the unpaid ones.
func (l *ledger) close(i int) {
	v := l.unpaid[i]
	l.unpaid = append(l.unpaid[:i:i], l.unpaid[i+1:]...)
	v.nextUnpaid = 0
	l.finished = append(l.finished, v)
}

// everything is as much work as there is.
const everything = math.MaxInt

// advance brings a subscription to an instant of its environment's clock. Every command that
// touches a subscription comes through here first. False: there is more due than this entry may
// do, and the command is to be deferred; what has happened stays, so that each entry gets further.
func (t *runner) advance(row uint32, now int64) bool {
	if t.s.subscriptions.Read(row).due > now {
		return true
	}
	if t.spent() {
		return false
	}
	l := t.s.openLedger(row)
	t.spend(2 * l.weight())
	t.spend(l.run(now, t.left()))
	t.commit(l)
	return l.b.due > now
}

// advanceCustomer brings all subscriptions of a customer to an instant, in the order in which
// things are due: they share what the customer has to its credit, and invoices are numbered as they
// come. False is as with advance.
func (t *runner) advanceCustomer(customer uint32, now int64) bool {
	t.spend(int(t.s.customers.Read(customer).subscriptions) / 8) // the command walks them once more
	for {
		first, second := t.s.dueOfCustomer(customer)
		if first.At > now {
			return true
		}
		if !t.advance(first.Row, min(now, first.Until(second))) {
			return false
		}
	}
}

// dueOfCustomer are the two subscriptions of a customer of which something falls due next; at never
// where there is none.
func (s *projector) dueOfCustomer(customer uint32) (first, second rows.Due) {
	first, second = rows.Due{At: rows.Never}, rows.Due{At: rows.Never}
	for row := s.customers.Read(customer).firstSubscription; row != 0; {
		b := s.subscriptions.Read(row)
		switch d := (rows.Due{At: b.due, Row: row}); {
		case d.At < first.At:
			first, second = d, first
		case d.At < second.At:
			second = d
		}
		row = b.next
	}
	return first, second
}

// advanced opens the ledger of a subscription that is brought to an instant first, with the
// customer's others, for a command to work on; false is as with advance.
func (t *runner) advanced(row uint32, now int64) (l *ledger, ok bool) {
	if !t.advanceCustomer(t.s.subscriptions.Read(row).customer, now) {
		return nil, false
	}
	l = t.s.openLedger(row)
	t.spend(2*l.weight() + 4)
	return l, true
}

// current opens the ledger of a subscription that a command names, brought to now on its
// environment's clock, for the command to work on. Nil: outcome says why there is nothing to do.
func (t *runner) current(
	env uint32, id *[16]byte,
) (l *ledger, now int64, outcome engine.Outcome) {
	e := t.s.environment(env)
	if e == nil {
		return nil, 0, engine.OutcomeAccountUnknown
	}
	row := t.s.subscriptionIn(env, id)
	if row == 0 {
		return nil, 0, engine.OutcomeSubscriptionUnknown
	}
	now = e.now(t.Stamp)
	l, ok := t.advanced(row, now)
	if !ok {
		return nil, 0, engine.OutcomeDeferred
	}
	return l, now, engine.OutcomeDone
}

// ledgerAt opens a ledger and brings it to an instant. What the customer has to its credit there
// may depend on other subscriptions: ledgerAmong looks at those, too.
func (s *projector) ledgerAt(row uint32, now int64) *ledger {
	l := s.openLedger(row)
	l.run(now, everything)
	return l
}

// ledgersOf opens the ledgers of a customer's subscriptions of which something is due by an
// instant, and brings them there together. credit is what the customer has then, where that
// changed.
func (s *projector) ledgersOf(
	customer uint32, now int64,
) (ledgers []*ledger, credit map[string]decimal.Decimal) {
	for row := s.customers.Read(customer).firstSubscription; row != 0; {
		b := s.subscriptions.Read(row)
		if b.due <= now {
			ledgers = append(ledgers, s.openLedger(row))
		}
		row = b.next
	}
	credit = map[string]decimal.Decimal{}
	for {
		var next *ledger
		for _, l := range ledgers {
			if l.b.due <= now && (next == nil || l.b.due < next.b.due) {
				next = l
			}
		}
		if next == nil {
			return ledgers, credit
		}
		currency := next.version().currency
		if left, ok := credit[currency]; ok {
			next.credit = left
		}
		next.run(next.b.due, everything)
		credit[currency] = next.credit
	}
}

// ledgerAmong opens a ledger and brings it to an instant, together with the customer's others.
func (s *projector) ledgerAmong(row uint32, now int64) (l *ledger) {
	ledgers, credit := s.ledgersOf(s.subscriptions.Read(row).customer, now)
	for _, other := range ledgers {
		if other.row == row {
			l = other
		}
	}
	if l == nil {
		l = s.openLedger(row)
	}
	if left, ok := credit[l.version().currency]; ok {
		l.credit = left
	}
	return l
}
