package billing

import (
	"fmt"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/lifecycle"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// consistent checks a restored state before anything uses it: rows refer to existing rows, lists
// end where and with whom their owners say, texts decode, due instants match the records, numbers
// of invoices have no gap. Checksums find damage; this finds a state that no log could have
// produced, from a broken build or a forged snapshot. Queries may then trust what they read, and
// never run off a table or around in a circle. linesDecode checks the rest.
func (s *state) consistent() error {
	for _, check := range [...]func() error{
		s.customersConsistent, s.subscriptionsConsistent, s.invoicesConsistent,
		s.ownedConsistent, s.listsConsistent, s.textsDecode, s.requestsConsistent,
		s.outboxConsistent, s.creditsConsistent, s.holds.Consistent, s.duesConsistent,
		s.budgets.Check,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// damaged returns the error for an inconsistent state.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", rows.ErrSnapshot, fmt.Errorf(format, args...))
}

// visited marks the rows of a table that a walk has visited.
type visited []bool

// meet marks a row; false if the table has no such row, or it was visited before.
func (v visited) meet(row uint32) bool {
	if row == 0 || uint64(row) >= uint64(len(v)) || v[row] {
		return false
	}
	v[row] = true
	return true
}

func (s *state) customersConsistent() error {
	customers, subscriptions := s.Customers.Len(), s.Subscriptions.Len()
	if s.Profiles.Len() != customers || s.correctionDraws.Len() != s.corrections.Len() {
		return damaged("tables of different length")
	}
	for row, c := range s.Customers.All() {
		cold := s.Customers.ColdOf(c)
		if s.Environment(c.Env) == nil || !s.named(c) ||
			(c.FirstSubscription == 0) != (cold.LastSubscription == 0) ||
			(c.FirstInvoice == 0) != (c.LastInvoice == 0) ||
			max(c.FirstSubscription, cold.LastSubscription) > subscriptions ||
			max(c.FirstInvoice, c.LastInvoice) > s.Invoices.Len() ||
			cold.FirstBalance > s.Balances.Len() {
			return damaged("customer %d leads nowhere", row)
		}
	}
	return nil
}

func (s *state) subscriptionsConsistent() error {
	customers, subscriptions := s.Customers.Len(), s.Subscriptions.Len()
	fits := func(first uint32, rows uint16, table uint32) bool {
		return first == 0 && rows == 0 || first != 0 && uint64(first)+uint64(rows) <= uint64(table)+1
	}
	for row := uint32(1); row <= subscriptions; row++ {
		b := s.Subscriptions.Whole(row)
		if b.Customer == 0 || b.Customer > customers || b.Next != 0 && b.Next <= row ||
			b.Next > subscriptions || b.Room < b.Counters ||
			!fits(b.FirstCounter, b.Room, s.Counters.Len()) ||
			b.FirstBase != 0 && !fits(b.FirstBase, b.Room, s.Bases.Len()) ||
			b.FirstUnpaid > s.Invoices.Len() ||
			max(b.FirstChange, b.LastChange, b.Pending) > s.PlanChanges.Len() {
			return damaged("subscription %d leads nowhere", row)
		}
		c := s.catalogOf(b.Customer)
		if !c.HasVersion(b.Version) || !c.HasVersion(b.BaseVersion) ||
			int(b.Counters) != len(c.Version(b.Version).Features) {
			return damaged("subscription %d has no plan", row)
		}
		if b.CancelMode > book.CancelByCustomer || b.PeriodEnd <= b.PeriodStart ||
			b.SpanStart < b.PeriodStart ||
			b.Pending != 0 && b.CancelMode != 0 {
			return damaged("subscription %d is in no state", row)
		}
	}
	counters := make(visited, s.Counters.Len()+1)
	told := make(visited, s.Counters.Len()+1)
	for row, v := range s.Told.Rows.All() {
		if !told.meet(v.Counter) {
			return damaged("what was told %d leads nowhere", row)
		}
	}
	for row, n := range s.Interims.All() {
		if !counters.meet(n.Counter) {
			return damaged("interim units %d lead nowhere", row)
		}
	}
	if err := s.Subscriptions.Details.Check(s.Subscriptions.Len(), func(data string) error {
		return wire.DecodeText(data, new(SubscriptionDetails))
	}); err != nil {
		return damaged("%w", err)
	}
	return nil
}

func (s *state) catalogOf(customer uint32) *catalogs.Catalog {
	return s.Environment(s.Customers.Read(customer).Env).Catalog.Load()
}

// invoicesConsistent checks that rows are in the order of their numbers, without a gap in an
// environment.
func (s *state) invoicesConsistent() error {
	numbers := map[uint32]uint64{}
	for row := uint32(1); row <= s.Invoices.Len(); row++ {
		v := s.Invoices.Read(row)
		if v.Customer == 0 || v.Customer > s.Customers.Len() || v.Next != 0 && v.Next <= row ||
			v.Next > s.Invoices.Len() || v.Subscription == 0 ||
			v.Subscription > s.Subscriptions.Len() ||
			s.Subscriptions.Read(v.Subscription).Customer != v.Customer {
			return damaged("invoice %d leads nowhere", row)
		}
		if !s.catalogOf(v.Customer).HasVersion(v.Version) {
			return damaged("invoice %d has no plan", row)
		}
		if v.Status == 0 || v.Status >= book.InvoiceStatuses {
			return damaged("invoice %d is in no state", row)
		}
		env := s.Customers.Read(v.Customer).Env
		if numbers[env]++; v.Number != numbers[env] {
			return damaged("invoice %d has the number %d, not %d", row, v.Number, numbers[env])
		}
	}
	for _, e := range s.Environments.All() {
		if e.Invoices != numbers[e.Number] {
			return damaged("environment %d has issued %d invoices, and holds %d", e.Number, e.Invoices,
				numbers[e.Number])
		}
	}
	return nil
}

// ownedConsistent walks the records of each customer and of each subscription.
func (s *state) ownedConsistent() error {
	balances := make(visited, s.Balances.Len()+1)
	subscriptions, invoices := uint32(0), uint32(0)
	for row, c := range s.Customers.All() {
		cold := s.Customers.ColdOf(c)
		last, count := uint32(0), uint32(0)
		for at := c.FirstSubscription; at != 0; at = s.Subscriptions.Read(at).Next {
			if s.Subscriptions.Read(at).Customer != row {
				return damaged("customer %d has subscription %d of another", row, at)
			}
			last, count = at, count+1
		}
		if last != cold.LastSubscription || count != cold.Subscriptions {
			return damaged("the subscriptions of customer %d do not end", row)
		}
		subscriptions += count
		last = 0
		for at := c.FirstInvoice; at != 0; at = s.Invoices.Read(at).Next {
			if s.Invoices.Read(at).Customer != row {
				return damaged("customer %d has invoice %d of another", row, at)
			}
			last = at
			invoices++
		}
		if last != c.LastInvoice {
			return damaged("the invoices of customer %d do not end", row)
		}
		for at := cold.FirstBalance; at != 0; at = s.Balances.Read(at).Next {
			if !balances.meet(at) || s.Balances.Read(at).Customer != row {
				return damaged("the balances of customer %d", row)
			}
		}
	}
	if subscriptions != s.Subscriptions.Len() || invoices != s.Invoices.Len() {
		return damaged("a subscription or an invoice is of no customer")
	}
	return s.spansConsistent()
}

// spansConsistent walks the spans with their meters, the unpaid invoices and the plan changes of
// each subscription, and the free rows of spans and meters.
func (s *state) spansConsistent() error {
	spans, meters := make(visited, s.Spans.Len()+1), make(visited, s.Meters.Len()+1)
	unpaid, changes := make(visited, s.Invoices.Len()+1), make(visited, s.PlanChanges.Len()+1)
	sequences := make(visited, s.Sequences.Len()+1)
	for row := uint32(1); row <= s.Subscriptions.Len(); row++ {
		b := s.Subscriptions.Whole(row)
		c := s.catalogOf(b.Customer)
		next, last := uint32(0), (*book.Span)(nil)
		for at := b.FirstSpan; at != 0; at = s.Spans.Read(at).Next {
			if !spans.meet(at) {
				return damaged("the spans of subscription %d", row)
			}
			p := s.Spans.Read(at)
			if p.Customer != b.Customer || p.Number < next || p.Number >= b.Span ||
				!c.HasVersion(p.Version) || p.End < p.Start {
				return damaged("span %d of subscription %d", at, row)
			}
			next, last = p.Number+1, p
			slots := uint32(0)
			for m := p.FirstMeter; m != 0; m = s.Meters.Read(m).Next {
				if !meters.meet(m) || s.Meters.Read(m).Slot < slots ||
					int(s.Meters.Read(m).Slot) >= len(c.Version(p.Version).Features) {
					return damaged("the meters of span %d", at)
				}
				slots = s.Meters.Read(m).Slot + 1
			}
		}
		if b.IssueAt != 0 && (last == nil || last.Billed || last.Period+1 != b.Period) {
			return damaged("nothing waits to be issued of subscription %d", row)
		}
		for at := b.FirstUnpaid; at != 0; at = s.Invoices.Read(at).NextUnpaid {
			if !unpaid.meet(at) || s.Invoices.Read(at).Subscription != row ||
				!s.Invoices.Read(at).Status.Open() {
				return damaged("the unpaid invoices of subscription %d", row)
			}
		}
		for at := b.FirstSequence; at != 0; at = s.Sequences.Read(at).Next {
			if !sequences.meet(at) {
				return damaged("the sequences of subscription %d", row)
			}
			if !s.Sequences.Read(at).Fits(c) {
				return damaged("sequence %d is of nothing that accumulates", at)
			}
		}
		if err := s.planChangesConsistent(row, changes); err != nil {
			return err
		}
	}
	for row := uint32(1); row <= s.Invoices.Len(); row++ {
		if s.Invoices.Read(row).Status.Open() != unpaid[row] {
			return damaged("invoice %d is unpaid, or is not", row)
		}
	}
	for at := s.FreeSpan; at != 0; at = s.Spans.Read(at).Next {
		if !spans.meet(at) {
			return damaged("the list of free spans")
		}
	}
	for at := s.FreeMeter; at != 0; at = s.Meters.Read(at).Next {
		if !meters.meet(at) {
			return damaged("the list of free meters")
		}
	}
	return nil
}

func (s *state) planChangesConsistent(row uint32, changes visited) error {
	b := s.Subscriptions.Whole(row)
	c := s.catalogOf(b.Customer)
	last, pending := uint32(0), uint32(0)
	for at := b.FirstChange; at != 0; at = s.PlanChanges.Read(at).Next {
		if !changes.meet(at) {
			return damaged("the plan changes of subscription %d", row)
		}
		change := s.PlanChanges.Read(at)
		if change.Subscription != row || !c.HasVersion(change.From) || !c.HasVersion(change.To) {
			return damaged("plan change %d leads nowhere", at)
		}
		if last = at; change.Status == book.ChangePending {
			pending = at
		}
	}
	if last != b.LastChange || pending != b.Pending {
		return damaged("the plan changes of subscription %d do not end", row)
	}
	return nil
}

// listsConsistent walks the corrections by age, and their free rows.
func (s *state) listsConsistent() error {
	met, last := make(visited, s.corrections.Len()+1), uint32(0)
	for at := s.FirstCorrection; at != 0; at = s.corrections.Read(at).next {
		if !met.meet(at) {
			return damaged("the list of corrections")
		}
		last = at
	}
	for at := s.FreeCorrection; at != 0; at = s.corrections.Read(at).next {
		if !met.meet(at) {
			return damaged("the list of free corrections")
		}
	}
	if last != s.LastCorrection {
		return damaged("the list of corrections does not end")
	}
	return nil
}

func decodes(data string, v wire.Fielder) bool { return wire.DecodeText(data, v) == nil }

// textsDecode decodes what queries will decode: a query could not refuse it.
func (s *state) textsDecode() error {
	profile := new(book.Profile)
	for row := uint32(1); row <= s.Profiles.Len(); row++ {
		if *profile = (book.Profile{}); !decodes(s.Profiles.Read(row).Data, profile) {
			return damaged("customer %d has no profile", row)
		}
	}
	for row := uint32(1); row <= s.correctionDraws.Len(); row++ {
		if !decodes(s.correctionDraws.Read(row).Data, new(credits.DrawList)) {
			return damaged("correction %d has no credits", row)
		}
	}
	return nil
}

// linesDecode decodes the lines of invoices and adds them up. No other part of a restore needs
// them. Invoices that share their lines, as those of a plan do, mostly share the work.
func linesDecode(s *state) error {
	if s.Items.Len() != s.Invoices.Len() {
		return damaged("tables of different length")
	}
	var known [rows.SharedPlaces]struct {
		place uint32
		total decimal.Decimal
	}
	for row := uint32(1); row <= s.Items.Len(); row++ {
		place := s.Items.Place(row)
		sum := &known[place%uint32(len(known))]
		if sum.place != place {
			var lines book.InvoiceLines
			if wire.Decode(s.Items.Get(row), &lines) != nil {
				return damaged("invoice %d has no lines", row)
			}
			sum.place, sum.total = place, decimal.Decimal{}
			for i := range lines.Items {
				sum.total = sums.Of(sum.total, lines.Items[i].Amount)
			}
		}
		if sum.total != s.Invoices.Read(row).Amount {
			return damaged("the lines of invoice %d add up to %s, not %s", row, sum.total,
				s.Invoices.Read(row).Amount)
		}
	}
	return nil
}

func (s *state) requestsConsistent() error {
	switch {
	case !s.requests.Consistent() || !s.submissions.Consistent():
		return damaged("the kept requests")
	case (s.Changes+accounts.ChangesPerMark-1)/accounts.ChangesPerMark != uint64(s.ChangeMarks.Len()):
		return damaged("%d admin changes have %d marks", s.Changes, s.ChangeMarks.Len())
	case !s.keysBelong():
		return damaged("an API key is of no customer")
	case !s.paymentsConsistent():
		return damaged("a checkout or a payment")
	}
	return nil
}

// duesConsistent checks each subscription's due instant: too late, it would not be billed; too
// early, it would be suspended.
func (s *state) duesConsistent() error {
	var unpaid []lifecycle.HeldInvoice
	for row := uint32(1); row <= s.Subscriptions.Len(); row++ {
		b := s.Subscriptions.Whole(row)
		l := lifecycle.Projection{Sub: b, Unpaid: unpaid[:0]}
		for at := b.FirstUnpaid; at != 0; {
			v := s.Invoices.Read(at)
			l.Unpaid = append(l.Unpaid, lifecycle.HeldInvoice{Row: at, Invoice: v})
			at = v.NextUnpaid
		}
		unpaid = l.Unpaid
		if at := l.NextDue(); at != b.Due {
			return damaged("subscription %d is due at %d, not %d", row, at, b.Due)
		}
	}
	return nil
}
