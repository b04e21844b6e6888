package billing

import (
	"crypto/sha256"
	"encoding/binary"

	"tollgate/engine/credit"
	"tollgate/engine/decimal"
)

// Bounds of credits.
const (
	// MaxPools is how many pools a customer may have that are not archived.
	MaxPools = 32
	// MaxPoolRows is how many there may be with the archived ones: usage walks them.
	MaxPoolRows = 4 * MaxPools
	// MaxGrants is how many live grants of a pool commands may make; those of plans come on top.
	MaxGrants = 100
	// MaxTransactions is how many of its newest transactions a pool has in memory at least, and the
	// largest page of them.
	MaxTransactions = 1000

	maxDenominationCharacters = 64
	maxNoteCharacters         = 500
	maxCreditPriority         = 1_000_000
	maxExpiryDays             = 3650
	maxAllocations            = 32

	defaultDenomination = "credits"
	defaultCurrency     = "USD"
)

// poolName is how a pool's name stands in rows and plan versions: 64 bits of its SHA-256. 0 is no
// name.
type poolName uint64

// poolNamed is the name of a pool as rows have it.
func poolNamed(name string) poolName {
	if name == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(name))
	return poolName(binary.LittleEndian.Uint64(sum[:]) | 1)
}

// creditID derives the UUID (version 8) of a record that no command brings an id for: the n-th of
// its sort within what of names.
func creditID(sort string, of [16]byte, n uint64) (id [16]byte) {
	b := append([]byte(sort), of[:]...)
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(b, n))
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// featureCredits is how a feature within a plan version burns credits.
type featureCredits struct {
	pool   poolName // 0: it burns none
	weight decimal.Decimal
	// fallback reports whether usage costs money where credits do not cover it.
	fallback bool
}

func newFeatureCredits(f *planFeature, d *CreditsDocument) featureCredits {
	if d.Pool == "" {
		return featureCredits{}
	}
	c := featureCredits{pool: poolNamed(d.Pool), weight: d.Weight}
	if f.priced {
		c.fallback = !f.model.PricePerUnit.IsZero() || !f.model.PricePerPackage.IsZero()
		for _, tier := range f.model.Tiers {
			c.fallback = c.fallback || !tier.PricePerUnit.IsZero() || !tier.FlatFee.IsZero()
		}
	}
	return c
}

// credited reports whether the feature of the place burns credits.
func (p place) credited() bool { return p.feature != nil && p.feature.credits.pool != 0 }

// normalisedAllocations fills in the defaults of a plan's allocations.
func normalisedAllocations(d *PlanDocument) []CreditAllocationDocument {
	all := append([]CreditAllocationDocument(nil), d.CreditAllocations...)
	for i := range all {
		a := &all[i]
		a.Denomination = either(a.Denomination, defaultDenomination)
		a.Currency = either(a.Currency, d.Currency)
		a.RolloverPolicy = either(a.RolloverPolicy, credit.PolicyNone.String())
	}
	return all
}

// credits validates how a feature burns credits.
func (p *problems) credits(place string, d *CreditsDocument) {
	p.text(place+".pool", d.Pool, 0, maxNameCharacters)
	p.amount(place+".weight", d.Weight)
	if d.Pool == "" && !d.Weight.IsZero() {
		p.add(place+".pool", "is missing")
	}
}

// allocations validates what a plan grants.
func (p *problems) allocations(place string, d *PlanDocument) {
	if len(d.CreditAllocations) > maxAllocations {
		p.add(place, "at most %d", maxAllocations)
		return
	}
	pools := map[string]bool{}
	for i := range d.CreditAllocations {
		a, at := &d.CreditAllocations[i], place+"["+decimal.FromInt(int64(i)).String()+"]"
		p.text(at+".pool", a.Pool, 1, maxNameCharacters)
		if pools[a.Pool] {
			p.add(at+".pool", "%q stands twice", a.Pool)
		}
		pools[a.Pool] = true
		p.text(at+".denomination", a.Denomination, 1, maxDenominationCharacters)
		if _, known := decimal.MinorUnits(a.Currency); !known {
			p.add(at+".currency", "%q is not an ISO 4217 code", a.Currency)
		}
		p.amount(at+".amount", a.Amount)
		if a.Amount.IsZero() {
			p.add(at+".amount", "must not be 0")
		}
		if a.Priority < -maxCreditPriority || a.Priority > maxCreditPriority {
			p.add(at+".priority", "must be -%d to %d", maxCreditPriority, maxCreditPriority)
		}
		if a.ExpiresAfterDays > maxExpiryDays {
			p.add(at+".expiresAfterDays", "at most %d", maxExpiryDays)
		}
		if _, known := credit.PolicyOf(a.RolloverPolicy); !known {
			p.add(at+".rolloverPolicy", "%q is none of NONE, FULL, CAPPED", a.RolloverPolicy)
		}
		p.amount(at+".rolloverCap", a.RolloverCap)
		if capped := a.RolloverPolicy == credit.PolicyCapped.String(); capped != a.HasCap {
			p.add(at+".rolloverCap", "belongs to the rolloverPolicy CAPPED, and only to it")
		}
	}
}
