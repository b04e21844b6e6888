// Package sums adds and subtracts amounts that may reach the end of the range of numbers.
package sums

import "tollgate/engine/decimal"

// Of returns a + b and saturates: amounts near the end of the range were refused before.
func Of(a, b decimal.Decimal) decimal.Decimal {
	if s, ok := a.Add(b); ok {
		return s
	}
	if a.Sign() < 0 {
		return decimal.Largest().Neg()
	}
	return decimal.Largest()
}

// Difference returns a − b within the range of numbers.
func Difference(a, b decimal.Decimal) decimal.Decimal { return Of(a, b.Neg()) }

// Remaining returns max(0, limit − used).
func Remaining(limit, used decimal.Decimal) decimal.Decimal {
	left, ok := limit.Sub(used)
	if !ok || left.Sign() < 0 {
		return decimal.Decimal{}
	}
	return left
}
