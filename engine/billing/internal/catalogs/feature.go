package catalogs

import (
	"tollgate/engine"
	"tollgate/engine/decimal"
	"tollgate/engine/price"
)

// Compare says what a total means for the limit: past a hard limit nothing may be added.
func (f *PlanFeature) Compare(total, units decimal.Decimal) engine.Outcome {
	switch {
	case f.HasMax && f.Hard && f.Max.Less(total) && units.Sign() > 0:
		return engine.OutcomeHardLimit
	case f.Full(total):
		return engine.OutcomeLimitReached
	}
	return engine.OutcomeDone
}

// Billable reports whether a quantity has a price within the range of numbers.
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
