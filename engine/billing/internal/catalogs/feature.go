package catalogs

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/price"
)

// Compare compares a total with the limit: nothing may be added beyond a hard limit.
func (f *PlanFeature) Compare(total, units decimal.Decimal) engine.Outcome {
	switch {
	case f.HasMax && f.Hard && f.Max.Less(total) && units.Sign() > 0:
		return engine.OutcomeHardLimit
	case f.Full(total):
		return engine.OutcomeLimitReached
	}
	return engine.OutcomeDone
}

// CompareBeside is Compare for a customer with reserved units: a hard limit refuses what exceeds it
// together with them, and is reached without them.
func (f *PlanFeature) CompareBeside(total, held, units decimal.Decimal) engine.Outcome {
	if !held.IsZero() && f.Compare(sums.Of(total, held), units) == engine.OutcomeHardLimit {
		return engine.OutcomeHardLimit
	}
	return f.Compare(total, units)
}

// FullBeside is Full with units that reservations hold.
func (f *PlanFeature) FullBeside(used, held decimal.Decimal) bool {
	return f.Full(sums.Of(used, held))
}

// Billable reports whether the price of a quantity is within the range of numbers.
func (f *PlanFeature) Billable(quantity decimal.Decimal) bool {
	if !f.safe.Less(quantity) {
		return true
	}
	_, err := price.Line(&f.Model, quantity, 0)
	return err == nil
}

// safeQuantity is the largest power of ten up to which every quantity has a price.
func safeQuantity(m *price.Model) decimal.Decimal {
	ten := decimal.FromInt(10)
	safe := decimal.Decimal{}
	for next := decimal.FromInt(1); ; {
		if _, err := price.Line(m, next, 0); err != nil {
			return safe
		}
		safe = next
		var ok bool
		if next, ok = next.Mul(ten); !ok {
			return safe
		}
	}
}
