package price

import "tollgate/engine/decimal"

// ratePackage: packages begun × price per package.
func ratePackage(m *Model, units decimal.Decimal) (decimal.Exact, error) {
	if m.PackageSize.Sign() <= 0 {
		return decimal.Exact{}, ErrModel
	}
	packages, ok := units.CeilDiv(m.PackageSize)
	if !ok {
		return decimal.Exact{}, ErrRange
	}
	return decimal.Product(packages, m.PricePerPackage), nil
}
