package enginetest

import (
	"math/big"
	"slices"

	"tollgate/engine/billing"
)

// OracleSubscription is a subscription of an OracleCustomer.
type OracleSubscription struct {
	Plan    *OraclePlan
	EndedAt int64
	// Ends reports whether it ends with its period; To is the plan that it changes to there, if
	// any.
	Ends bool
	To   func() *OraclePlan
	// Unlisted is what corrections took back of usage that VOID invoices alone have: no line says
	// so.
	Unlisted map[string]*big.Rat

	customer               *OracleCustomer
	base                   *OraclePlan // whose price the period bears in arrears
	anchor                 int64
	months, period         int // after the anchor the period ends; how many periods were before it
	periodStart, periodEnd int64
	adjustAt               int64
	issueAt                int64
	waiting                func(now int64) // issues the invoice that waits until issueAt
	spans                  []*oracleSpan   // the last one is open, unless the subscription has ended
	ahead                  []*OracleEvent
	// billed is what lines have of accumulating features, by the plan version that they count
	// under.
	billed map[*OraclePlan]map[string]*big.Rat
	chain  map[string]int  // from which span on a feature's counter counts
	vague  map[string]bool // features whose counter has two readings
}

// OracleEvent is a usage event. Where no span has it, it is recorded and unpriced.
type OracleEvent struct {
	Feature string
	Units   *big.Rat
	At      int64
	Voided  bool
	of      *OracleSubscription
	span    *oracleSpan
}

// oracleSpan is a time under one plan, within one period.
type oracleSpan struct {
	number, period int
	plan           *OraclePlan
	start, end     int64
	events         []*OracleEvent
	billed         bool
	// interim is set while an interim invoice bills the open span.
	interim bool
	// invoiced is what of a feature's units is on invoices.
	invoiced map[string]*big.Rat
	// unpaid is what of invoiced is on VOID invoices, and has not been corrected away since.
	unpaid map[string]*big.Rat
}

// quantity is what a feature's events in the span add up to.
func (p *oracleSpan) quantity(feature string) *big.Rat {
	total := new(big.Rat)
	for _, e := range p.events {
		if e.Feature == feature {
			total.Add(total, e.Units)
		}
	}
	return total
}

// Subscribe makes a subscription with its initial invoice.
func (c *OracleCustomer) Subscribe(p *OraclePlan, now int64) *OracleSubscription {
	if c.credit == nil {
		c.credit = new(big.Rat)
	}
	s := &OracleSubscription{
		Plan: p, base: p, customer: c, anchor: now, periodStart: now,
		billed: map[*OraclePlan]map[string]*big.Rat{}, chain: map[string]int{}, vague: map[string]bool{},
		Unlisted: map[string]*big.Rat{},
	}
	s.months = p.Months
	s.periodEnd = later(now, p.Months)
	s.open(now)
	c.Subscriptions = append(c.Subscriptions, s)
	v := s.invoice(billing.InvoiceInitial, now)
	if !p.Arrears {
		s.charge(v, billing.LineBase, p, big.NewRat(1, 1), s.periodStart, s.periodEnd)
	}
	c.issue(v)
	return s
}

func (s *OracleSubscription) open(at int64) {
	p := &oracleSpan{
		number: len(s.spans), period: s.period, plan: s.Plan, start: at,
		invoiced: map[string]*big.Rat{}, unpaid: map[string]*big.Rat{},
	}
	for i := range p.plan.Features {
		f := &p.plan.Features[i]
		p.invoiced[f.Key], p.unpaid[f.Key] = new(big.Rat), new(big.Rat)
	}
	s.spans = append(s.spans, p)
}

func (s *OracleSubscription) last() *oracleSpan { return s.spans[len(s.spans)-1] }

func (s *OracleSubscription) due() int64 {
	at := int64(1) << 62
	if s.EndedAt == 0 {
		at = s.periodEnd
	}
	if s.adjustAt != 0 {
		at = min(at, s.adjustAt)
	}
	if s.waiting != nil {
		at = min(at, s.issueAt)
	}
	return at
}

// Use records an event, and issues the interim invoice to which it leads.
func (s *OracleSubscription) Use(feature string, units *big.Rat, at, now int64) *OracleEvent {
	e, leads := s.Count(feature, units, at, now)
	if leads {
		s.Above(now)
	}
	return e
}

// Count records an event. It counts where it occurred: before the subscription in the first span,
// past the period's end in the next period, after the subscription's end in the last span. leads
// reports whether Above comes next, at the end of the entry.
func (s *OracleSubscription) Count(
	feature string, units *big.Rat, at, now int64,
) (e *OracleEvent, leads bool) {
	e = &OracleEvent{Feature: feature, Units: units, At: at, of: s}
	if s.EndedAt == 0 && at >= s.periodEnd {
		if s.Plan.feature(feature) == nil {
			return e, false
		}
		s.ahead = append(s.ahead, e)
		return e, s.Plan.InvoiceAbove != nil
	}
	p := s.spanAt(at)
	if p.plan.feature(feature) == nil { // the plan of that time did not have it
		return e, false
	}
	e.put(p)
	s.touched(e, now)
	return e, s.EndedAt == 0 && s.Plan.InvoiceAbove != nil
}

// Above issues an interim invoice once the usage that no invoice has costs more than the plan's
// InvoiceAbove. What was forgiven does not lessen it: its corrections cost nothing. Its lines go on
// where those of the one before ended.
func (s *OracleSubscription) Above(now int64) {
	if s.Plan.InvoiceAbove == nil || s.EndedAt != 0 {
		return
	}
	sum := new(big.Rat)
	for n, p := range s.spans {
		for i := range p.plan.Features {
			f := &p.plan.Features[i]
			if f.Model.Name == "included" {
				continue
			}
			before := p.settled(f.Key)
			if f.Accumulate {
				before.Set(s.lined(p.plan, f.Key))
				for at, other := range s.spans {
					if other.plan == p.plan {
						rated := other.settled(f.Key)
						if at < n {
							rated = other.quantity(f.Key)
						}
						before.Add(before, rated).Sub(before, other.invoiced[f.Key])
					}
				}
			}
			after := new(big.Rat).Add(before, p.quantity(f.Key))
			after.Sub(after, p.settled(f.Key))
			sum.Add(sum, f.Model.Rate(after)).Sub(sum, f.Model.Rate(before))
		}
	}
	if sum.Cmp(s.Plan.InvoiceAbove) <= 0 {
		return
	}
	s.issueWaiting(now)
	p := s.last()
	v := &OracleInvoice{Type: billing.InvoiceInterim, At: now, Start: p.start, End: now}
	p.end, p.interim = now, true
	s.bill(v)
	p.end, p.interim = 0, false
	if len(v.Lines) > 0 { // else the invoice that waited has all of it
		s.customer.issue(v)
	}
}

// settled is how many units of a feature need no line any more: the invoiced ones, but for those on
// VOID invoices that have been corrected away.
func (p *oracleSpan) settled(feature string) *big.Rat {
	paid := new(big.Rat).Sub(p.invoiced[feature], p.unpaid[feature])
	low, high := paid, p.invoiced[feature]
	if low.Cmp(high) > 0 {
		low, high = high, low
	}
	// Any quantity between the two needs no line: it is settled as it is.
	switch quantity := p.quantity(feature); {
	case quantity.Cmp(low) < 0:
		return new(big.Rat).Set(low)
	case quantity.Cmp(high) > 0:
		return new(big.Rat).Set(high)
	default:
		return quantity
	}
}

// spanAt is the span in which something that occurred at an instant counts.
func (s *OracleSubscription) spanAt(at int64) *oracleSpan {
	i := len(s.spans) - 1
	for i > 0 && s.spans[i].start > at {
		i--
	}
	return s.spans[i]
}

// Candidate reports whether usage of a feature which occurred at an instant may be the
// subscription's; began reports whether the subscription had begun by then.
func (s *OracleSubscription) Candidate(feature string, at int64) (candidate, began bool) {
	began = s.spans[0].start <= at
	if s.EndedAt != 0 && (at >= s.EndedAt || !began) {
		return false, began
	}
	return s.spanAt(at).plan.feature(feature) != nil, began
}

func (e *OracleEvent) put(p *oracleSpan) {
	e.span = p
	p.events = append(p.events, e)
}

// touched notes that an event of a span came or was changed.
func (s *OracleSubscription) touched(e *OracleEvent, now int64) {
	if s.EndedAt != 0 {
		if s.adjustAt == 0 && s.waiting == nil {
			s.adjustAt = (now/oracleDay + 1) * oracleDay
		}
		return
	}
	if f := s.Plan.feature(e.Feature); f != nil {
		running := f.Accumulate || e.span.period == s.period
		if running != (e.span.number >= s.chain[e.Feature]) {
			s.vague[e.Feature] = true
		}
	}
}

// Carries reports whether the present plan has a feature.
func (s *OracleSubscription) Carries(feature string) bool { return s.Plan.feature(feature) != nil }

// CarriesAt reports whether usage of a feature which occurred at an instant counts somewhere.
func (s *OracleSubscription) CarriesAt(feature string, at int64) bool {
	if s.EndedAt == 0 && at >= s.periodEnd {
		return s.Carries(feature)
	}
	return s.spanAt(at).plan.feature(feature) != nil
}

// Priced reports whether the event counts in a span whose plan has a price for it.
func (e *OracleEvent) Priced() bool {
	return e.span != nil && e.span.plan.feature(e.Feature).Model.Name != "included"
}

// Correct gives an event other units.
func (e *OracleEvent) Correct(units *big.Rat, now int64) {
	e.Units = units
	if e.span != nil {
		e.of.touched(e, now)
	}
	if e.span != nil || e.of != nil && slices.Contains(e.of.ahead, e) {
		e.of.Above(now)
	}
}

// Used is what the limit of a feature reads; known is false where plan changes within the period
// leave two readings of that.
func (s *OracleSubscription) Used(feature string) (used *big.Rat, known bool) {
	used = new(big.Rat)
	for _, p := range s.spans[s.chain[feature]:] {
		used.Add(used, p.quantity(feature))
	}
	return used, !s.vague[feature]
}

// Room is what the limit of a feature leaves in the present period where so much is held; nil where
// it has none. hard reports whether it refuses usage, known is false where Used is not known, or
// some has counted for the next period.
func (s *OracleSubscription) Room(feature string, held *big.Rat) (room *big.Rat, hard, known bool) {
	f := s.Plan.feature(feature)
	if f == nil || f.Limit == nil {
		return nil, false, true
	}
	used, known := s.Used(feature)
	for _, e := range s.ahead {
		known = known && e.Feature != feature
	}
	return new(big.Rat).Sub(f.Limit, used.Add(used, held)), f.Hard, known
}

// Present reports whether usage which occurred at an instant counts in the present span.
func (s *OracleSubscription) Present(at int64) bool {
	return s.EndedAt == 0 && at >= s.last().start && at < s.periodEnd
}

// close ends the open span. next is the plan of the one after it; period reports whether the
// billing period ends too, ends that the subscription does.
func (s *OracleSubscription) close(at int64, next *OraclePlan, period, ends bool) {
	p := s.last()
	p.end = at
	var ahead []*OracleEvent
	var opening []*OracleEvent
	for _, e := range s.ahead {
		goesOn := next.feature(e.Feature) != nil
		switch {
		case ends, !goesOn: // it has no other place
			e.put(p)
		case !period:
			ahead = append(ahead, e)
		default:
			opening = append(opening, e)
		}
	}
	s.ahead = ahead
	old := s.Plan
	if period {
		s.period++
	}
	if ends {
		s.EndedAt, s.Ends, s.To = at, false, nil
		return
	}
	s.Plan = next
	s.open(at)
	for _, e := range opening {
		e.put(s.last())
	}
	for i := range next.Features {
		f := &next.Features[i]
		was := old.feature(f.Key)
		if was == nil && !period && !f.Accumulate { // the period's limit holds over all of it
			s.chain[f.Key], s.vague[f.Key] = s.firstOfPeriod(), false
		} else if was == nil || period && !(f.Accumulate && was.Accumulate) {
			s.chain[f.Key], s.vague[f.Key] = s.last().number, false
		}
		// A version that it had before: its limit compares what it has compared then, too.
		if f.Accumulate && next != old && s.had(next) {
			s.vague[f.Key] = true
		}
	}
}

// firstOfPeriod is the number of the span with which the present period begins.
func (s *OracleSubscription) firstOfPeriod() int {
	n := s.last().number
	for n > 0 && s.spans[n-1].period == s.period {
		n--
	}
	return n
}

// had reports whether a span before the last one was under a plan version.
func (s *OracleSubscription) had(p *OraclePlan) bool {
	for _, span := range s.spans[:len(s.spans)-1] {
		if span.plan == p {
			return true
		}
	}
	return false
}

// endPeriod is what happens at the end of a period. Its invoice has the usage of it, then the base
// price; it is issued at once, or waits.
func (s *OracleSubscription) endPeriod(at int64) {
	old, next := s.Plan, s.Plan
	if s.To != nil && !s.Ends {
		if to := s.To(); to != nil {
			next = to
		}
	}
	s.To = nil
	ends, base, start, end := s.Ends, s.base, s.periodStart, s.periodEnd
	s.close(at, next, true, ends)
	if !ends {
		s.base = next
		s.periodStart, s.months = later(s.anchor, s.months), s.months+next.Months
		s.periodEnd = later(s.anchor, s.months)
	}
	s.issueAt = at + s.customer.Settle
	s.waiting = func(now int64) {
		v := &OracleInvoice{Type: billing.InvoiceRegular, At: now, Start: start, End: end}
		s.bill(v)
		one := big.NewRat(1, 1)
		if old.Arrears {
			s.charge(v, billing.LineBase, base, one, start, end)
		}
		if !ends && !next.Arrears {
			s.charge(v, billing.LineBase, next, one, s.periodStart, s.periodEnd)
		}
		if !ends || len(v.Lines) > 0 {
			s.customer.issue(v)
		}
	}
	if s.issueAt == at {
		s.issueWaiting(at)
	}
	s.Above(at)
}

// left is what part of the period is left, at 8 decimals.
func (s *OracleSubscription) left(now int64) *big.Rat {
	return RoundHalfUp(big.NewRat(s.periodEnd-now, s.periodEnd-s.periodStart), 8)
}

// Cancel ends the subscription now: what is unbilled is billed, nothing is refunded. An upgrade in
// the period has given the rest of the old price back, and charged the new one's: the whole base
// price is due, as at the period's end.
func (s *OracleSubscription) Cancel(now int64) {
	s.issueWaiting(now)
	v, plan, left := s.invoice(billing.InvoiceRegular, now), s.Plan, s.left(now)
	n := len(s.spans)
	upgraded := n > 1 && s.spans[n-2].period == s.period
	s.close(now, s.Plan, true, true)
	s.bill(v)
	if plan.Arrears && upgraded {
		s.charge(v, billing.LineBase, s.base, big.NewRat(1, 1), s.periodStart, s.periodEnd)
	} else if passed := new(big.Rat).Sub(big.NewRat(1, 1), left); plan.Arrears && passed.Sign() > 0 {
		s.charge(v, billing.LineBase, s.base, passed, s.periodStart, now)
	}
	if len(v.Lines) > 0 {
		s.customer.issue(v)
	}
}

// Upgrade changes the plan now, and issues the interim invoice to which that leads. Where interval
// and timing stay, so does the period.
func (s *OracleSubscription) Upgrade(to *OraclePlan, now int64) {
	defer s.Above(now)
	s.issueWaiting(now)
	s.To = nil
	old, left := s.Plan, s.left(now)
	v := s.invoice(billing.InvoiceAdjustment, now)
	end := s.periodEnd
	if to.Months == old.Months && to.Arrears == old.Arrears {
		s.close(now, to, false, false)
		s.charge(v, billing.LineUnused, old, left, now, end)
		s.charge(v, billing.LineRemaining, to, left, now, end)
		s.customer.issue(v)
		return
	}
	s.close(now, to, true, false)
	s.bill(v)
	one := big.NewRat(1, 1)
	if old.Arrears {
		s.charge(v, billing.LineBase, s.base, one, s.periodStart, end)
	}
	s.charge(v, billing.LineUnused, old, left, now, end)
	s.base, s.anchor, s.months = to, now, to.Months
	s.periodStart, s.periodEnd = now, later(now, to.Months)
	if !to.Arrears {
		s.charge(v, billing.LineRemaining, to, one, s.periodStart, s.periodEnd)
	}
	v.Start, v.End = s.periodStart, s.periodEnd
	s.customer.issue(v)
}
