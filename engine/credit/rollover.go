package credit

import (
	"slices"

	"tollgate/engine/decimal"
)

// Policy defines what happens to a balance at the end of a period. The numbers are part of
// snapshots and are never reused.
//
//schema:enum
type Policy uint8

const (
	// PolicyNone: everything expires.
	PolicyNone Policy = 1 // NONE
	// PolicyFull: everything stays.
	PolicyFull Policy = 2 // FULL
	// PolicyCapped: no more than a cap stays.
	PolicyCapped Policy = 3 // CAPPED
)

// PolicyOf reads a policy's word; an empty one is NONE.
func PolicyOf(word string) (p Policy, ok bool) {
	if word == "" {
		return PolicyNone, true
	}
	i := slices.Index(policyNames, word)
	return Policy(max(i, 0)), i > 0
}

// Keep splits a balance at the end of a period into the part that stays and the part that expires.
// The cap applies to PolicyCapped only. A balance that is not positive stays as it is: debts do not
// expire.
func (p Policy) Keep(balance, limit decimal.Decimal) (kept, expired decimal.Decimal) {
	if balance.Sign() <= 0 {
		return balance, decimal.Decimal{}
	}
	switch p {
	case PolicyFull:
		kept = balance
	case PolicyCapped:
		kept = decimal.Max(decimal.Decimal{}, decimal.Min(balance, limit))
	}
	return kept, Less(balance, kept)
}
