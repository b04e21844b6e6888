package price

import "tollgate/engine/decimal"

// ratePerUnit: units × price.
func ratePerUnit(m *Model, units decimal.Decimal) (decimal.Exact, error) {
	return decimal.Product(units, m.PricePerUnit), nil
}
