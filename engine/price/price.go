// Package price turns usage into money: the exact cost of a quantity under a pricing model, and its
// invoice line, rounded once. See DESIGN.md.
package price

import (
	"errors"

	"tollgate/engine/decimal"
)

// Why a quantity cannot be rated.
var (
	// ErrQuantity means that a quantity is negative.
	ErrQuantity = errors.New("price: negative quantity")
	// ErrRange means that an amount lies outside ±10²⁴.
	ErrRange = errors.New("price: amount outside of the range ±10^24")
	// ErrModel means that a model was never valid: its kind is unknown, or its tiers do not reach.
	ErrModel = errors.New("price: invalid model")
)

// Model defines how usage is priced. Its kind decides which fields apply; Problems names the
// others.
type Model struct {
	Kind            Kind
	PricePerUnit    decimal.Decimal // per_unit
	Tiers           []Tier          // graduated, volume
	PackageSize     decimal.Decimal // package
	PricePerPackage decimal.Decimal // package
	// IncludedUnits are free, in every kind: only the quantity beyond them is priced and fills
	// tiers and packages.
	IncludedUnits decimal.Decimal
}

// Tier is one tier of a graduated or volume model: the units above the tier before it, up to and
// with UpTo. FlatFee is charged once if the tier holds any units.
type Tier struct {
	Infinite     bool // the last tier, and only it; UpTo is 0 then
	UpTo         decimal.Decimal
	PricePerUnit decimal.Decimal
	FlatFee      decimal.Decimal
}

// Rate returns the unrounded cost of a quantity. The model must be valid. Errors: ErrQuantity,
// ErrRange, ErrModel. It allocates nothing.
func Rate(m *Model, quantity decimal.Decimal) (decimal.Exact, error) {
	if quantity.Sign() < 0 {
		return decimal.Exact{}, ErrQuantity
	}
	if !m.Kind.known() {
		return decimal.Exact{}, ErrModel
	}
	units, ok := quantity.Sub(m.IncludedUnits)
	if !ok {
		return decimal.Exact{}, ErrModel
	}
	if units.Sign() <= 0 {
		return decimal.Exact{}, nil
	}
	amount, err := models[m.Kind].rate(m, units)
	if err == nil && !amount.InRange() {
		err = ErrRange
	}
	return amount, err
}

// Each returns what each unit between two quantities costs, of which the second is the larger one.
// False: they may not all cost the same, or there is a fee between.
func (m *Model) Each(from, to decimal.Decimal) (price decimal.Decimal, ok bool) {
	if from.Less(m.IncludedUnits) {
		return price, false
	}
	switch m.Kind {
	case KindPerUnit:
		return m.PricePerUnit, true
	case KindGraduated:
		return m.eachGraduated(from, to)
	}
	return price, false
}

// Line returns the amount of an invoice line for a quantity: Rate rounded once, half away from
// zero, to the minor units of the currency (places, from decimal.MinorUnits).
func Line(m *Model, quantity decimal.Decimal, places int) (decimal.Decimal, error) {
	exact, err := Rate(m, quantity)
	if err != nil {
		return decimal.Decimal{}, err
	}
	amount, ok := exact.Round(places)
	if !ok {
		return decimal.Decimal{}, ErrRange
	}
	return amount, nil
}

// Delta returns the amount of a line for the units between two readings of one counter, of which
// the first was invoiced: Line(after) − Line(before). So the lines of a counter always add up to
// the rounded price of the whole. Counters that never reset, late usage, voids and amendments are
// billed by it; it is negative when the whole became cheaper.
func Delta(m *Model, before, after decimal.Decimal, places int) (decimal.Decimal, error) {
	invoiced, err := Line(m, before, places)
	if err != nil {
		return decimal.Decimal{}, err
	}
	whole, err := Line(m, after, places)
	if err != nil {
		return decimal.Decimal{}, err
	}
	amount, ok := whole.Sub(invoiced)
	if !ok {
		return decimal.Decimal{}, ErrRange
	}
	return amount, nil
}

// Cost returns the cost of the units from used to projected: Rate(projected) − Rate(used), not
// rounded to minor units. An exact difference may have 24 decimals; amounts shown have 12, so it is
// rounded to those, half away from zero.
func Cost(m *Model, used, projected decimal.Decimal) (decimal.Decimal, error) {
	before, err := Rate(m, used)
	if err != nil {
		return decimal.Decimal{}, err
	}
	after, err := Rate(m, projected)
	if err != nil {
		return decimal.Decimal{}, err
	}
	difference, ok := after.Sub(before)
	if !ok {
		return decimal.Decimal{}, ErrRange
	}
	cost, ok := difference.Round(decimal.Scale)
	if !ok {
		return decimal.Decimal{}, ErrRange
	}
	return cost, nil
}
