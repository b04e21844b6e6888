package enginetest

import "math/big"

// OracleModel is a pricing model in math/big. It rates by the definitions of the specification,
// apart from engine/price and engine/decimal, so that the two can be compared.
type OracleModel struct {
	Name            string // included, per_unit, graduated, volume, package
	PricePerUnit    *big.Rat
	Tiers           []OracleTier
	PackageSize     *big.Rat
	PricePerPackage *big.Rat
	IncludedUnits   *big.Rat
}

// OracleTier is one tier; UpTo is nil in the infinite one.
type OracleTier struct{ UpTo, PricePerUnit, FlatFee *big.Rat }

// Rat reads a decimal number. It panics at what is none: oracles are fed by tests.
func Rat(text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		panic("enginetest: no number: " + text)
	}
	return r
}

// Rate returns the unrounded price of a quantity ≥ 0.
func (m *OracleModel) Rate(quantity *big.Rat) *big.Rat {
	units := new(big.Rat).Sub(quantity, m.IncludedUnits)
	total := new(big.Rat)
	if units.Sign() <= 0 {
		return total
	}
	switch m.Name {
	case "included":
	case "per_unit":
		total.Mul(units, m.PricePerUnit)
	case "graduated":
		for i, tier := range m.Tiers {
			if held := m.held(i, units); held.Sign() > 0 {
				total.Add(total, held.Mul(held, tier.PricePerUnit)).Add(total, tier.FlatFee)
			}
		}
	case "volume":
		chosen := m.Tiers[0]
		for i, tier := range m.Tiers {
			if m.held(i, units).Sign() > 0 {
				chosen = tier
			}
		}
		total.Mul(units, chosen.PricePerUnit).Add(total, chosen.FlatFee)
	case "package":
		packages := new(big.Rat).Quo(units, m.PackageSize)
		begun, rest := new(big.Int).QuoRem(packages.Num(), packages.Denom(), new(big.Int))
		if rest.Sign() > 0 {
			begun.Add(begun, big.NewInt(1))
		}
		total.Mul(new(big.Rat).SetInt(begun), m.PricePerPackage)
	default:
		panic("enginetest: no model: " + m.Name)
	}
	return total
}

// held returns how many of the units lie in tier i, 0 or less when none does.
func (m *OracleModel) held(i int, units *big.Rat) *big.Rat {
	top := new(big.Rat).Set(units)
	if upTo := m.Tiers[i].UpTo; upTo != nil && upTo.Cmp(top) < 0 {
		top.Set(upTo)
	}
	if i > 0 {
		top.Sub(top, m.Tiers[i-1].UpTo)
	}
	return top
}

// Line returns the price of a quantity rounded once, half away from zero.
func (m *OracleModel) Line(quantity *big.Rat, places int) *big.Rat {
	return RoundHalfUp(m.Rate(quantity), places)
}

// RoundHalfUp rounds to a number of decimal places, half away from zero.
func RoundHalfUp(r *big.Rat, places int) *big.Rat {
	return Rat(r.FloatString(places)) // which rounds exactly that way
}
