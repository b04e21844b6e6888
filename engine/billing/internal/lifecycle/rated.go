package lifecycle

import (
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/price"
)

// Billed returns how many units of a place's feature the bill has, or will have, in the sequence
// that the next ones continue: their price begins there. Units that credits have paid are not among
// them. ahead is the period after the present one. The customer's lock is held.
func (s *Projector) Billed(at book.Place, ahead bool) decimal.Decimal {
	n := s.uncovered(at)
	b := s.Subscriptions.Read(at.Subscription)
	var base book.Base
	if b.ColdPart != 0 { // a usual subscription has no bases
		if first := s.Subscriptions.Cold(at.Subscription).FirstBase; first != 0 {
			base = *s.Bases.Read(first + at.Counter - b.FirstCounter)
			n.Used = sums.Difference(n.Used, base.Opened)
		}
	}
	switch {
	case at.Feature.Accumulate:
		sum := sums.Of(sums.Of(base.Rated, n.Used), n.Next)
		sum = sums.Difference(sum, s.InterimOf(at.Counter).Invoiced)
		for row := b.FirstSpan; row != 0; row = s.Spans.Read(row).Next {
			p := s.Spans.Read(row)
			if p.Version != b.Version {
				continue
			}
			for m := p.FirstMeter; m != 0; m = s.Meters.Read(m).Next {
				if s.Meters.Read(m).Slot == at.Counter-b.FirstCounter {
					sum = sums.Of(sum, s.Meters.Read(m).Unbilled())
				}
			}
		}
		return sum
	case ahead:
		return n.Next
	}
	return n.Used
}

// MinBilled is the least that Billed is where usage of the present plan version is accepted: in
// the present period and in the spans that are closed. The customer's lock is held.
func (s *Projector) MinBilled(at book.Place) decimal.Decimal {
	least := s.Billed(at, false)
	b := s.Subscriptions.Read(at.Subscription)
	if at.Feature.Accumulate { // all spans are one sequence
		return least
	}
	for row := b.FirstSpan; row != 0 && least.Sign() > 0; row = s.Spans.Read(row).Next {
		p := s.Spans.Read(row)
		if p.Version != b.Version {
			continue
		}
		billed := decimal.Decimal{}
		for m := p.FirstMeter; m != 0; m = s.Meters.Read(m).Next {
			if x := s.Meters.Read(m); x.Slot == at.Counter-b.FirstCounter {
				billed = sums.Difference(x.Quantity, x.Covered)
			}
		}
		least = decimal.Min(least, billed)
	}
	return least
}

// uncovered returns what a place's counter has counted and credits have not paid.
func (s *Projector) uncovered(at book.Place) book.Counter {
	n := s.Counters.Read(at.Counter)
	if at.Credited() {
		used, next := s.Covered(at.Counter)
		n.Used, n.Next = sums.Difference(n.Used, used), sums.Difference(n.Next, next)
	}
	return n
}

// Billed is the same of a spot in the projection, and the feature by whose price it is.
func (l *Projection) Billed(
	at Spot, feature uint32,
) (units decimal.Decimal, f *catalogs.PlanFeature) {
	version := l.Sub.Version
	if at.Closed != nil {
		version = at.Closed.Version
	}
	slot, _ := l.Catalog.Version(version).Slot(feature)
	f = &l.Catalog.Version(version).Features[slot]
	switch {
	case f.Accumulate:
		units = *l.rated(version, slot)
		for i := range l.Spans {
			p := &l.Spans[i]
			if m, has := p.MeterOf(slot); has && p.Version == version {
				units = sums.Of(units, p.Meters[m].Unbilled())
			}
		}
		if version == l.Sub.Version {
			units = sums.Of(units, sums.Of(l.present(slot), l.ahead(slot)))
			if l.interims != nil { // lines have rated them
				units = sums.Difference(units, l.interims[slot].Invoiced)
			}
		}
	case at.Closed != nil:
		if m, has := at.Closed.MeterOf(slot); has {
			units = sums.Difference(at.Closed.Meters[m].Quantity, at.Closed.Meters[m].Covered)
		}
	case at.Ahead:
		units = l.ahead(slot)
	default:
		units = l.present(slot)
	}
	return units, f
}

// present is what a counter has counted in the present span and credits have not paid, ahead what
// it has for the period after.
func (l *Projection) present(slot uint32) decimal.Decimal {
	used := sums.Difference(l.Counters[slot].Used, l.bases[slot].Opened)
	return sums.Difference(used, l.covers[slot].Used)
}

func (l *Projection) ahead(slot uint32) decimal.Decimal {
	return sums.Difference(l.Counters[slot].Next, l.covers[slot].Next)
}

// Added is what units behind those that are billed add to the bill, unrounded; below zero, what
// they take off it. False: it is beyond the range of numbers.
func Added(f *catalogs.PlanFeature, billed, units decimal.Decimal) (decimal.Exact, bool) {
	if !f.Priced || units.IsZero() {
		return decimal.Exact{}, true
	}
	none := decimal.Decimal{}
	after, ok := billed.Add(units)
	if !ok {
		return decimal.Exact{}, false
	}
	if units.Sign() > 0 && f.Billable(after) {
		if each, ok := f.Model.Each(billed, after); ok {
			return decimal.Product(units, each), true
		}
	}
	to, err := price.Rate(&f.Model, decimal.Max(after, none))
	if err != nil {
		return decimal.Exact{}, false
	}
	from, err := price.Rate(&f.Model, decimal.Max(billed, none))
	if err != nil {
		return decimal.Exact{}, false
	}
	return to.Sub(from)
}

// Dearest is the most that units can add to the bill behind those that are billed, whatever comes
// between, unrounded. False: it is beyond the range of numbers.
func Dearest(f *catalogs.PlanFeature, billed, units decimal.Decimal) (decimal.Exact, bool) {
	if !f.Priced || units.Sign() <= 0 {
		return decimal.Exact{}, true
	}
	most, err := price.Dearest(&f.Model, billed, units)
	return most, err == nil
}
