package price

import "tollgate/engine/decimal"

// PartKind is what a Part of a quantity is.
type PartKind uint8

const (
	// PartIncluded are the included units, which cost nothing.
	PartIncluded PartKind = 1
	// PartUnits are units that all have the model's price.
	PartUnits PartKind = 2
	// PartTier are the units that a tier prices.
	PartTier PartKind = 3
	// PartPackages are the packages begun.
	PartPackages PartKind = 4
)

// Part is some of a quantity with one price: Amount is Units × Price + Fee.
type Part struct {
	Kind PartKind
	// Units are packages where Kind is PartPackages.
	Units, Price, Fee decimal.Decimal
	// Tier is the place of a tier in the model.
	Tier   int
	Amount decimal.Exact
}

// Breakdown returns the parts that a quantity's price is the sum of, in the order in which they
// fill: the amounts add up to Rate. The errors are those of Rate.
func Breakdown(m *Model, quantity decimal.Decimal) (parts []Part, err error) {
	total, err := Rate(m, quantity)
	if err != nil || quantity.IsZero() {
		return nil, err
	}
	included := decimal.Min(quantity, m.IncludedUnits)
	if included.Sign() > 0 {
		parts = append(parts, Part{Kind: PartIncluded, Units: included})
	}
	units, ok := quantity.Sub(included)
	if !ok {
		return nil, ErrModel
	}
	if units.IsZero() {
		return parts, nil
	}
	switch m.Kind {
	case KindPerUnit:
		return append(parts, Part{
			Kind: PartUnits, Units: units, Price: m.PricePerUnit, Amount: total,
		}), nil
	case KindPackage:
		packages, ok := units.CeilDiv(m.PackageSize)
		if !ok {
			return nil, ErrRange
		}
		return append(parts, Part{
			Kind: PartPackages, Units: packages, Price: m.PricePerPackage, Amount: total,
		}), nil
	}
	var below decimal.Decimal // where the tier begins
	for i := range m.Tiers {
		tier := &m.Tiers[i]
		last := tier.Infinite || !tier.UpTo.Less(units)
		if m.Kind == KindVolume && !last {
			continue
		}
		top := tier.UpTo
		if last {
			top = units
		}
		p := Part{Kind: PartTier, Price: tier.PricePerUnit, Fee: tier.FlatFee, Tier: i}
		if p.Units, ok = top.Sub(below); !ok {
			return nil, ErrModel
		}
		if p.Amount, ok = tier.price(p.Units); !ok {
			return nil, ErrRange
		}
		if parts = append(parts, p); last {
			break
		}
		below = top
	}
	return parts, nil
}
