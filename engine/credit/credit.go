// Package credit is the arithmetic of prepaid credits: the order in which grants burn, the credits
// that usage needs, and the balance carried over at the end of a period. It is pure and independent
// of pools and logs. See DESIGN.md.
package credit

import (
	"bytes"
	"cmp"
	"iter"

	"tollgate/engine/decimal"
)

// Grant holds the fields that decide the burn order. Times are milliseconds on the environment's
// clock.
type Grant struct {
	ID        [16]byte
	Remaining decimal.Decimal
	Priority  int32 // lower burns first
	CreatedAt int64
	ExpiresAt int64 // worthless from this instant on; 0: never
}

// Live reports whether the grant can pay at an instant.
func (g *Grant) Live(now int64) bool { return g.Remaining.Sign() > 0 && !g.Expired(now) }

// Expired reports whether the grant's time is over.
func (g *Grant) Expired(now int64) bool { return g.ExpiresAt != 0 && g.ExpiresAt <= now }

// Compare orders grants as they burn: lower priority, then sooner expiry (none is last), then
// older, then id.
func Compare(a, b *Grant) int {
	return cmp.Or(
		cmp.Compare(a.Priority, b.Priority),
		compareExpiry(a.ExpiresAt, b.ExpiresAt),
		cmp.Compare(a.CreatedAt, b.CreatedAt),
		bytes.Compare(a.ID[:], b.ID[:]),
	)
}

func compareExpiry(a, b int64) int {
	switch {
	case a == b:
		return 0
	case a == 0:
		return 1
	case b == 0:
		return -1
	}
	return cmp.Compare(a, b)
}

// Burn takes an amount from grants, which come in the order of Compare, and yields each grant's
// name with the amount it pays; rest is the amount that no grant covers. Grants that are not live
// pay nothing.
func Burn[N any](
	grants iter.Seq2[N, *Grant], amount decimal.Decimal, now int64,
	pay func(name N, amount decimal.Decimal),
) (rest decimal.Decimal) {
	rest = amount
	if rest.Sign() <= 0 {
		return decimal.Decimal{}
	}
	for name, g := range grants {
		if !g.Live(now) {
			continue
		}
		paid := decimal.Min(g.Remaining, rest)
		pay(name, paid)
		if rest = Less(rest, paid); rest.IsZero() {
			break
		}
	}
	return rest
}

// Less is a − b for amounts of which b is a part: it cannot leave the range.
func Less(a, b decimal.Decimal) decimal.Decimal {
	d, ok := a.Sub(b)
	if !ok {
		panic("credit: " + b.String() + " is not a part of " + a.String())
	}
	return d
}

// Need is how many credits an amount of usage costs: units × weight, rounded once to 12 decimals.
// When ok is false the product is out of range.
func Need(units, weight decimal.Decimal) (credits decimal.Decimal, ok bool) {
	return units.Mul(weight)
}

// Covered is how many of the units are paid when rest of the credits that they need is missing:
// the missing credits count as rest ÷ weight units, rounded down at 12 decimals, so that rounding
// never makes anybody pay twice.
func Covered(units, rest, weight decimal.Decimal) decimal.Decimal {
	if rest.IsZero() {
		return units
	}
	missing, ok := rest.FloorDiv(weight)
	if !ok || units.Less(missing) {
		return decimal.Decimal{}
	}
	return Less(units, missing)
}
