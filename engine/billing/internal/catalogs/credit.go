package catalogs

import (
	"crypto/sha256"
	"encoding/binary"

	"tollgate/engine/credit"
	"tollgate/engine/decimal"
	"tollgate/engine/schema"
)

// Bounds of credits.
const (
	// MaxPools bounds a customer's pools that are not archived.
	MaxPools = 32
	// MaxPoolRows bounds them with the archived ones: usage walks them.
	MaxPoolRows = 4 * MaxPools
	// MaxGrants bounds the live grants of a pool that commands make; plans may add more.
	MaxGrants = 100
	// MaxTransactions is how many of its newest transactions a pool keeps in memory, and the
	// largest page of them.
	MaxTransactions = 1000

	MaxDenominationCharacters = 64
	MaxNoteCharacters         = 500
	MaxCreditPriority         = 1_000_000
	maxExpiryDays             = 3650
	maxAllocations            = 32

	DefaultDenomination = "credits"
	DefaultCurrency     = "USD"
)

// PoolName is the form of a pool's name in rows and plan versions: 64 bits of its SHA-256. 0 is no
// name.
type PoolName uint64

// PoolNamed returns a pool's name as rows have it.
func PoolNamed(name string) PoolName {
	if name == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(name))
	return PoolName(binary.LittleEndian.Uint64(sum[:]) | 1)
}

// CreditID derives the UUID (version 8) of a record for which no command has an id: the n-th of its
// kind within of.
func CreditID(sort string, of [16]byte, n uint64) (id [16]byte) {
	b := append([]byte(sort), of[:]...)
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(b, n))
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// FeatureCredits says how a feature of a plan version burns credits.
type FeatureCredits struct {
	Pool   PoolName // 0: it burns none
	Weight decimal.Decimal
	// Fallback reports whether usage costs money if credits do not cover it.
	Fallback bool
}

func newFeatureCredits(f *PlanFeature, d *CreditsDocument) FeatureCredits {
	if d.Pool == "" {
		return FeatureCredits{}
	}
	c := FeatureCredits{Pool: PoolNamed(d.Pool), Weight: d.Weight}
	if f.Priced {
		c.Fallback = !f.Model.PricePerUnit.IsZero() || !f.Model.PricePerPackage.IsZero()
		for _, tier := range f.Model.Tiers {
			c.Fallback = c.Fallback || !tier.PricePerUnit.IsZero() || !tier.FlatFee.IsZero()
		}
	}
	return c
}

// normalisedAllocations fills in the defaults of a plan's allocations.
func normalisedAllocations(d *PlanDocument) []CreditAllocationDocument {
	all := append([]CreditAllocationDocument(nil), d.CreditAllocations...)
	for i := range all {
		a := &all[i]
		a.Denomination = Either(a.Denomination, DefaultDenomination)
		a.Currency = Either(a.Currency, d.Currency)
		a.RolloverPolicy = Either(a.RolloverPolicy, credit.PolicyNone.String())
	}
	return all
}

// credits validates how a feature burns credits.
func (p *problems) credits(place string, d *CreditsDocument) {
	p.text(place+".pool", d.Pool, 0, MaxNameCharacters)
	p.amount(place+".weight", d.Weight)
	p.when(d.Pool == "" && !d.Weight.IsZero(), place+".pool", schema.Required)
}

// allocations validates what a plan grants.
func (p *problems) allocations(place string, d *PlanDocument) {
	if len(d.CreditAllocations) > maxAllocations {
		p.add(place, "%s", schema.TooMany(maxAllocations))
		return
	}
	pools := map[string]bool{}
	for i := range d.CreditAllocations {
		a, at := &d.CreditAllocations[i], place+"["+decimal.FromInt(int64(i)).String()+"]"
		p.text(at+".pool", a.Pool, 1, MaxNameCharacters)
		p.when(pools[a.Pool], at+".pool", "%q appears more than once", a.Pool)
		pools[a.Pool] = true
		p.text(at+".denomination", a.Denomination, 1, MaxDenominationCharacters)
		_, known := decimal.MinorUnits(a.Currency)
		p.when(!known, at+".currency", "%q is not an ISO 4217 code", a.Currency)
		p.amount(at+".amount", a.Amount)
		p.when(a.Amount.IsZero(), at+".amount", "must not be 0")
		p.when(a.Priority < -MaxCreditPriority || a.Priority > MaxCreditPriority, at+".priority",
			"%s", schema.Outside(-MaxCreditPriority, MaxCreditPriority))
		p.when(a.ExpiresAfterDays > maxExpiryDays, at+".expiresAfterDays",
			"%s", schema.Outside(0, maxExpiryDays))
		_, known = credit.PolicyOf(a.RolloverPolicy)
		p.when(!known, at+".rolloverPolicy", "must be NONE, FULL or CAPPED")
		p.amount(at+".lowBalance", a.LowBalance)
		p.amount(at+".rolloverCap", a.RolloverCap)
		capped := a.RolloverPolicy == credit.PolicyCapped.String()
		p.when(capped != a.HasCap, at+".rolloverCap",
			"belongs to the rolloverPolicy CAPPED, and only to it")
	}
}
