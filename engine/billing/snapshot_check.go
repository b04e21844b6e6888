package billing

import (
	"fmt"

	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// consistent checks a state that was restored, before anything is built on it: rows lead to rows
// that exist, lists end where and with whom their owners say, texts decode, what is due is what the
// records say, numbers of invoices have no gap. Checksums find damage; this finds a state that no
// log could have led to, of a build that was broken or a snapshot that someone made. Queries may
// then trust what they read, and never run off a table or around in a circle.
func (s *state) consistent() error {
	for _, check := range [...]func() error{
		s.customersConsistent, s.subscriptionsConsistent, s.invoicesConsistent,
		s.ownedConsistent, s.listsConsistent, s.textsDecode, s.requestsConsistent,
		s.outboxConsistent, s.creditsConsistent, s.duesConsistent,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// damaged is the error of a state that does not fit together.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrSnapshot, fmt.Errorf(format, args...))
}

// visited tells which rows of a table a walk has met.
type visited []bool

// meet notes a row; false when the table has none such, or it was met before.
func (v visited) meet(row uint32) bool {
	if row == 0 || uint64(row) >= uint64(len(v)) || v[row] {
		return false
	}
	v[row] = true
	return true
}

func (s *state) customersConsistent() error {
	customers, subscriptions := s.customers.Len(), s.subscriptions.Len()
	if s.profiles.Len() != customers || s.items.Len() != s.invoices.Len() ||
		s.correctionDraws.Len() != s.corrections.Len() {
		return damaged("tables of different length")
	}
	for row := uint32(1); row <= customers; row++ {
		c := s.customers.Read(row)
		if s.environment(c.env) == nil || !s.named(c) ||
			(c.firstSubscription == 0) != (c.lastSubscription == 0) ||
			(c.firstInvoice == 0) != (c.lastInvoice == 0) ||
			max(c.firstSubscription, c.lastSubscription) > subscriptions ||
			max(c.firstInvoice, c.lastInvoice) > s.invoices.Len() ||
			c.firstBalance > s.balances.Len() {
			return damaged("customer %d leads nowhere", row)
		}
	}
	return nil
}

func (s *state) subscriptionsConsistent() error {
	customers, subscriptions := s.customers.Len(), s.subscriptions.Len()
	fits := func(first uint32, rows uint16, table uint32) bool {
		return first == 0 && rows == 0 || first != 0 && uint64(first)+uint64(rows) <= uint64(table)+1
	}
	for row := uint32(1); row <= subscriptions; row++ {
		b := s.subscriptions.Whole(row)
		if b.customer == 0 || b.customer > customers || b.next != 0 && b.next <= row ||
			b.next > subscriptions || b.room < b.counters ||
			!fits(b.firstCounter, b.room, s.counters.Len()) ||
			b.firstBase != 0 && !fits(b.firstBase, b.room, s.bases.Len()) ||
			b.firstUnpaid > s.invoices.Len() ||
			max(b.firstChange, b.lastChange, b.pending) > s.planChanges.Len() {
			return damaged("subscription %d leads nowhere", row)
		}
		c := s.catalogOf(b.customer)
		if !c.hasVersion(b.version) || !c.hasVersion(b.baseVersion) ||
			int(b.counters) != len(c.version(b.version).features) {
			return damaged("subscription %d has no plan", row)
		}
		if b.cancelMode > CancelAtPeriodEnd || b.periodEnd <= b.periodStart ||
			b.spanStart < b.periodStart ||
			b.pending != 0 && b.cancelMode != 0 {
			return damaged("subscription %d is in no state", row)
		}
	}
	if err := s.subscriptions.CheckDetails(func(data string) error {
		return wire.Decode([]byte(data), new(SubscriptionDetails))
	}); err != nil {
		return damaged("%w", err)
	}
	return nil
}

func (s *state) catalogOf(customer uint32) *catalog {
	return s.environment(s.customers.Read(customer).env).catalog.Load()
}

// hasVersion reports whether a plan version has that number.
func (c *catalog) hasVersion(n uint32) bool {
	return n != 0 && uint64(n) <= uint64(len(c.versions))
}

// invoicesConsistent: rows are in the order of their numbers, which have no gap in an environment.
func (s *state) invoicesConsistent() error {
	numbers := map[uint32]uint64{}
	for row := uint32(1); row <= s.invoices.Len(); row++ {
		v := s.invoices.Read(row)
		if v.customer == 0 || v.customer > s.customers.Len() || v.next != 0 && v.next <= row ||
			v.next > s.invoices.Len() || v.subscription == 0 ||
			v.subscription > s.subscriptions.Len() ||
			s.subscriptions.Read(v.subscription).customer != v.customer {
			return damaged("invoice %d leads nowhere", row)
		}
		if !s.catalogOf(v.customer).hasVersion(v.version) {
			return damaged("invoice %d has no plan", row)
		}
		env := s.customers.Read(v.customer).env
		if numbers[env]++; v.number != numbers[env] {
			return damaged("invoice %d has the number %d, not %d", row, v.number, numbers[env])
		}
	}
	for _, e := range s.environments.All() {
		if e.invoices != numbers[e.number] {
			return damaged("environment %d has issued %d invoices, and holds %d", e.number, e.invoices,
				numbers[e.number])
		}
	}
	return nil
}

// ownedConsistent walks what belongs to each customer and to each subscription.
func (s *state) ownedConsistent() error {
	balances := make(visited, s.balances.Len()+1)
	subscriptions, invoices := uint32(0), uint32(0)
	for row := uint32(1); row <= s.customers.Len(); row++ {
		c := s.customers.Read(row)
		last, count := uint32(0), uint32(0)
		for at := c.firstSubscription; at != 0; at = s.subscriptions.Read(at).next {
			if s.subscriptions.Read(at).customer != row {
				return damaged("customer %d has subscription %d of another", row, at)
			}
			last, count = at, count+1
		}
		if last != c.lastSubscription || count != uint32(c.subscriptions) {
			return damaged("the subscriptions of customer %d do not end", row)
		}
		subscriptions += count
		last = 0
		for at := c.firstInvoice; at != 0; at = s.invoices.Read(at).next {
			if s.invoices.Read(at).customer != row {
				return damaged("customer %d has invoice %d of another", row, at)
			}
			last = at
			invoices++
		}
		if last != c.lastInvoice {
			return damaged("the invoices of customer %d do not end", row)
		}
		for at := c.firstBalance; at != 0; at = s.balances.Read(at).next {
			if !balances.meet(at) || s.balances.Read(at).customer != row {
				return damaged("the balances of customer %d", row)
			}
		}
	}
	if subscriptions != s.subscriptions.Len() || invoices != s.invoices.Len() {
		return damaged("a subscription or an invoice is of no customer")
	}
	return s.spansConsistent()
}

// spansConsistent walks the spans with their meters, the unpaid invoices and the plan changes of
// each subscription, and the free rows of spans and meters.
func (s *state) spansConsistent() error {
	spans, meters := make(visited, s.spans.Len()+1), make(visited, s.meters.Len()+1)
	unpaid, changes := make(visited, s.invoices.Len()+1), make(visited, s.planChanges.Len()+1)
	sequences := make(visited, s.sequences.Len()+1)
	for row := uint32(1); row <= s.subscriptions.Len(); row++ {
		b := s.subscriptions.Whole(row)
		c := s.catalogOf(b.customer)
		next, last := uint32(0), (*span)(nil)
		for at := b.firstSpan; at != 0; at = s.spans.Read(at).next {
			if !spans.meet(at) {
				return damaged("the spans of subscription %d", row)
			}
			p := s.spans.Read(at)
			if p.customer != b.customer || p.number < next || p.number >= b.span ||
				!c.hasVersion(p.version) || p.end < p.start {
				return damaged("span %d of subscription %d", at, row)
			}
			next, last = p.number+1, p
			slots := uint32(0)
			for m := p.firstMeter; m != 0; m = s.meters.Read(m).next {
				if !meters.meet(m) || s.meters.Read(m).slot < slots ||
					int(s.meters.Read(m).slot) >= len(c.version(p.version).features) {
					return damaged("the meters of span %d", at)
				}
				slots = s.meters.Read(m).slot + 1
			}
		}
		if b.issueAt != 0 && (last == nil || last.billed || last.period+1 != b.period) {
			return damaged("nothing waits to be issued of subscription %d", row)
		}
		for at := b.firstUnpaid; at != 0; at = s.invoices.Read(at).nextUnpaid {
			if !unpaid.meet(at) || s.invoices.Read(at).subscription != row ||
				!s.invoices.Read(at).status.open() {
				return damaged("the unpaid invoices of subscription %d", row)
			}
		}
		for at := b.firstSequence; at != 0; at = s.sequences.Read(at).next {
			if !sequences.meet(at) {
				return damaged("the sequences of subscription %d", row)
			}
			if !s.sequences.Read(at).fits(c) {
				return damaged("sequence %d is of nothing that accumulates", at)
			}
		}
		if err := s.planChangesConsistent(row, changes); err != nil {
			return err
		}
	}
	for row := uint32(1); row <= s.invoices.Len(); row++ {
		if s.invoices.Read(row).status.open() != unpaid[row] {
			return damaged("invoice %d is unpaid, or is not", row)
		}
	}
	for at := s.freeSpan; at != 0; at = s.spans.Read(at).next {
		if !spans.meet(at) {
			return damaged("the list of free spans")
		}
	}
	for at := s.freeMeter; at != 0; at = s.meters.Read(at).next {
		if !meters.meet(at) {
			return damaged("the list of free meters")
		}
	}
	return nil
}

// open reports whether the invoice waits to be paid.
func (v InvoiceStatus) open() bool { return v == InvoiceDue || v == InvoicePastDue }

func (s *state) planChangesConsistent(row uint32, changes visited) error {
	b := s.subscriptions.Whole(row)
	c := s.catalogOf(b.customer)
	last, pending := uint32(0), uint32(0)
	for at := b.firstChange; at != 0; at = s.planChanges.Read(at).next {
		if !changes.meet(at) {
			return damaged("the plan changes of subscription %d", row)
		}
		change := s.planChanges.Read(at)
		if change.subscription != row || !c.hasVersion(change.from) || !c.hasVersion(change.to) {
			return damaged("plan change %d leads nowhere", at)
		}
		if last = at; change.status == ChangePending {
			pending = at
		}
	}
	if last != b.lastChange || pending != b.pending {
		return damaged("the plan changes of subscription %d do not end", row)
	}
	return nil
}

// listsConsistent walks the corrections, by age and those whose rows are free.
func (s *state) listsConsistent() error {
	met, last := make(visited, s.corrections.Len()+1), uint32(0)
	for at := s.firstCorrection; at != 0; at = s.corrections.Read(at).next {
		if !met.meet(at) {
			return damaged("the list of corrections")
		}
		last = at
	}
	for at := s.freeCorrection; at != 0; at = s.corrections.Read(at).next {
		if !met.meet(at) {
			return damaged("the list of free corrections")
		}
	}
	if last != s.lastCorrection {
		return damaged("the list of corrections does not end")
	}
	return nil
}

func decodes(data string, v wire.Fielder) bool { return wire.Decode([]byte(data), v) == nil }

// textsDecode decodes what queries will decode: there it would be too late to refuse it.
func (s *state) textsDecode() error {
	for row := uint32(1); row <= s.profiles.Len(); row++ {
		if !decodes(s.profiles.Read(row).Data, new(profile)) {
			return damaged("customer %d has no profile", row)
		}
	}
	for row := uint32(1); row <= s.items.Len(); row++ {
		var lines invoiceLines
		if !decodes(s.items.Read(row).Data, &lines) {
			return damaged("invoice %d has no lines", row)
		}
		var total decimal.Decimal
		for i := range lines.Items {
			total = sum(total, lines.Items[i].Amount)
		}
		if total != s.invoices.Read(row).amount {
			return damaged("the lines of invoice %d add up to %s, not %s", row, total,
				s.invoices.Read(row).amount)
		}
	}
	for row := uint32(1); row <= s.correctionDraws.Len(); row++ {
		if !decodes(s.correctionDraws.Read(row).Data, new(drawList)) {
			return damaged("correction %d has no credits", row)
		}
	}
	return nil
}

func (s *state) requestsConsistent() error {
	switch {
	case !s.requests.Consistent() || !s.submissions.Consistent():
		return damaged("the kept requests")
	case (s.changes+changesPerMark-1)/changesPerMark != uint64(s.changeMarks.Len()):
		return damaged("%d admin changes have %d marks", s.changes, s.changeMarks.Len())
	case !s.keysBelong():
		return damaged("an API key is of no customer")
	case !s.paymentsConsistent():
		return damaged("a checkout or a payment")
	}
	return nil
}

// duesConsistent checks that each subscription is due when something of it is: one that is due too
// late would not be billed, one too early would be suspended.
func (s *state) duesConsistent() error {
	for row := uint32(1); row <= s.subscriptions.Len(); row++ {
		b := s.subscriptions.Whole(row)
		l := ledger{b: b}
		for at := b.firstUnpaid; at != 0; {
			v := s.invoices.Read(at)
			l.unpaid = append(l.unpaid, heldInvoice{row: at, invoice: v})
			at = v.nextUnpaid
		}
		if at := l.nextDue(); at != b.due {
			return damaged("subscription %d is due at %d, not %d", row, at, b.due)
		}
	}
	return nil
}
