package charging

import (
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
)

// Fitting is the search for the most units of an item that fit the limits of budgets: what they
// count never shrinks as they grow.
type Fitting struct {
	// Fits is known to fit, Not is known not to; both are multiples of Step, but for the first Not.
	Fits, Not, Step decimal.Decimal
	// room is what the limit that refuses Not has left, amount what it asks of it.
	room, amount decimal.Decimal
}

// Refused notes that units do not fit.
func (s *Fitting) Refused(units decimal.Decimal, r *budgets.Refusal, c *budgets.Charge) {
	s.Not, s.room = units, sums.Remaining(r.Limit, sums.Of(r.Used, r.Held))
	switch r.Of {
	case budgets.MeasureUnits:
		s.amount = c.Units
	case budgets.MeasureCost:
		s.amount = c.Cost
	default:
		s.amount, _ = c.Price.Round(decimal.Scale)
	}
}

// Next is what is to be tried: what fits if the limit grows evenly, which is so of most prices;
// then one step more, which proves it; then the middle.
func (s *Fitting) Next(try int) decimal.Decimal {
	gap := sums.Remaining(s.Not, s.Fits)
	units := sums.Of(s.Fits, s.Step)
	switch try % 3 {
	case 0:
		if part, ok := s.Not.Mul(s.room); ok && s.amount.Sign() > 0 {
			units, _ = part.FloorDiv(s.amount)
		}
	case 2:
		half, _ := gap.FloorDiv(decimal.FromInt(2))
		units = sums.Of(s.Fits, half)
	}
	if s.Step != decimal.FromBits(0, 1) {
		units = Whole(units)
	}
	if !s.Fits.Less(units) || !units.Less(s.Not) {
		return sums.Of(s.Fits, s.Step)
	}
	return units
}

// Whole rounds down to a whole number.
func Whole(d decimal.Decimal) decimal.Decimal {
	if whole := d.Round(0); !d.Less(whole) {
		return whole
	}
	return sums.Difference(d.Round(0), decimal.FromInt(1))
}

// Over reports whether the most is found.
func (s *Fitting) Over() bool { return !s.Step.Less(sums.Remaining(s.Not, s.Fits)) }
