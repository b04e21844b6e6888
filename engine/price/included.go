package price

import "tollgate/engine/decimal"

// rateIncluded: the plan's base price covers it.
func rateIncluded(*Model, decimal.Decimal) (decimal.Exact, error) { return decimal.Exact{}, nil }
