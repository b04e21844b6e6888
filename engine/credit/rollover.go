package credit

import "tollgate/engine/decimal"

// Policy defines what happens to a balance at the end of a period. The numbers are part of
// snapshots and are never reused.
type Policy uint8

const (
	// PolicyNone: everything expires.
	PolicyNone Policy = 1
	// PolicyFull: everything stays.
	PolicyFull Policy = 2
	// PolicyCapped: no more than a cap stays.
	PolicyCapped Policy = 3
)

var policyWords = [...]string{PolicyNone: "NONE", PolicyFull: "FULL", PolicyCapped: "CAPPED"}

// PolicyOf reads a policy's word; an empty one is NONE.
func PolicyOf(word string) (p Policy, ok bool) {
	if word == "" {
		return PolicyNone, true
	}
	for i, w := range policyWords {
		if w != "" && w == word {
			return Policy(i), true
		}
	}
	return 0, false
}

// String is the policy's word.
func (p Policy) String() string {
	if int(p) < len(policyWords) {
		return policyWords[p]
	}
	return ""
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
