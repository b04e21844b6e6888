package catalogs

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"sync/atomic"

	"tollgate/engine"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/price"
)

// VersionName formats a plan's version for people.
func (c *Catalog) VersionName(version uint32) string {
	return c.PlanKey(version) + " version " + strconv.Itoa(int(c.Version(version).Version))
}

// Statuses and billing timings of a plan, as documents write them.
const (
	PlanActive   = "ACTIVE"
	planArchived = "ARCHIVED"
	planDraft    = "DRAFT"

	TimingInAdvance = "IN_ADVANCE"
	TimingInArrears = "IN_ARREARS"
)

// Plan is one plan of a catalog. Name, description, status and metadata belong to the plan; price,
// currency, interval, timing and features to its versions, and subscribers keep theirs. A plan is
// replaced under the same number, except for the subscribers, which all its copies share.
type Plan struct {
	Number uint32
	ID     [16]byte
	// Document has the plan's own fields; its other fields are zero.
	Document PlanDocument
	Versions []*PlanVersion // oldest first
	// Subscribers counts the subscriptions of all versions that are not cancelled.
	Subscribers *atomic.Int64
}

// Newest returns the version for new subscriptions.
func (p *Plan) Newest() *PlanVersion { return p.Versions[len(p.Versions)-1] }

// PlanVersion is one version of a plan. It never changes, but for its subscribers.
type PlanVersion struct {
	// Number counts the versions of all plans of the environment from 1, Version those of this
	// plan; Plan is the plan's number.
	Number, Version, Plan uint32

	Price    decimal.Decimal
	Currency string
	Places   int // decimal places of the currency
	Interval uint32
	Timing   string
	Features []PlanFeature // in the document's order; a subscription has one counter for each
	slots    []featureSlot // the same, sorted by feature
	// InvoiceAbove is the amount of unbilled usage beyond which an interim invoice is made; 0: none.
	InvoiceAbove decimal.Decimal
	// Allocations are what the plan grants in every period.
	Allocations []CreditAllocationDocument
	// Subscribers counts its subscriptions that are not cancelled.
	Subscribers atomic.Int64
}

// PlanFeature is a feature within a plan version.
type PlanFeature struct {
	Feature     uint32
	PricingType string
	Pricing     PricingDocument
	Model       price.Model
	// Priced reports whether usage costs anything at all.
	Priced bool
	// Currency is the version's.
	Currency [3]byte
	// HasMax, Max and Hard are the limit; Accumulate reports whether usage is not reset at period
	// ends.
	// Watched is set if it has Thresholds, Interim if its plan has InvoiceAbove.
	HasMax, Hard, Accumulate, Watched, Interim bool

	Max     decimal.Decimal
	Credits FeatureCredits
	// thresholds are those of the limit at which usage is told, ascending.
	thresholds []threshold
	// safe is a quantity up to which the price is known to be within range.
	safe decimal.Decimal
}

// threshold is a percent of a limit.
type threshold struct {
	percent uint8
	at      decimal.Exact
}

// featureSlot maps a feature's number to its place in PlanVersion.Features.
type featureSlot struct{ feature, slot uint32 }

// Slot finds a feature within the version.
func (v *PlanVersion) Slot(feature uint32) (slot uint32, ok bool) {
	low, high := 0, len(v.slots)
	for low < high {
		middle := (low + high) / 2
		if v.slots[middle].feature < feature {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low < len(v.slots) && v.slots[low].feature == feature {
		return v.slots[low].slot, true
	}
	return 0, false
}

// newVersion makes a version of a normalised and validated document.
func (c *Catalog) newVersion(p *Plan, d *PlanDocument) *PlanVersion {
	v := &PlanVersion{
		Number: uint32(len(c.Versions)) + 1, Version: uint32(len(p.Versions)) + 1, Plan: p.Number,
		Price: d.PriceAmount, Currency: d.Currency,
		Interval: d.IntervalMonths, Timing: d.BillingTiming, Allocations: d.CreditAllocations,
		InvoiceAbove: d.InvoiceAbove,
	}
	v.Places, _ = decimal.MinorUnits(d.Currency)
	for i := range d.Features {
		f := newPlanFeature(c.FeatureByKey[d.Features[i].Key], &d.Features[i])
		f.Interim = !d.InvoiceAbove.IsZero()
		copy(f.Currency[:], d.Currency)
		v.Features = append(v.Features, f)
		v.slots = append(v.slots, featureSlot{f.Feature, uint32(i)})
	}
	slices.SortFunc(v.slots, func(a, b featureSlot) int { return cmp.Compare(a.feature, b.feature) })
	return v
}

// VersionDocument returns the version's part of a plan's document.
func (c *Catalog) VersionDocument(v *PlanVersion) PlanDocument {
	d := PlanDocument{
		PriceAmount: v.Price, Currency: v.Currency,
		IntervalMonths: v.Interval, BillingTiming: v.Timing, CreditAllocations: v.Allocations,
		InvoiceAbove: v.InvoiceAbove,
	}
	for i := range v.Features {
		f := &v.Features[i]
		d.Features = append(d.Features, PlanFeatureDocument{
			Key: c.Features[f.Feature-1].Document.Key, PricingType: f.PricingType, Pricing: f.Pricing,
		})
	}
	return d
}

// PlanRecord is a plan in a snapshot, with all its versions.
type PlanRecord struct {
	ID       [16]byte        `wire:"1"`
	Document PlanDocument    `wire:"2"`
	Versions []VersionRecord `wire:"3"`
}

// VersionRecord is a plan version in a snapshot.
type VersionRecord struct {
	Number   uint32       `wire:"1"`
	Document PlanDocument `wire:"2"`
}

// Title returns the plan's name on invoice lines.
func (p *Plan) Title() string { return Either(p.Document.Name, p.Document.Key) }

// Words of pricing in documents.
const (
	pricingIncluded   = "included"
	pricingUsageBased = "usage_based"
	pricingGraduated  = "graduated"

	modelPerUnit = "per_unit"

	resetModeReset      = "reset"
	resetModeAccumulate = "accumulate"
	limitModeSoft       = "soft"
	limitModeHard       = "hard"
)

// normalised fills in the defaults, and shares no tiers with d.
func (d PricingDocument) normalised(pricingType string) PricingDocument {
	if pricingType == pricingUsageBased {
		d.Model = Either(d.Model, modelPerUnit)
	}
	d.ResetMode = Either(d.ResetMode, resetModeReset)
	d.LimitMode = Either(d.LimitMode, limitModeSoft)
	d.Tiers = append([]TierDocument(nil), d.Tiers...)
	d.Thresholds = bytes.Clone(d.Thresholds)
	if d.Credits.Pool != "" && d.Credits.Weight.IsZero() {
		d.Credits.Weight = decimal.FromInt(1)
	}
	return d
}

// newPlanFeature makes a feature within a plan version of a normalised, validated document.
func newPlanFeature(number uint32, d *PlanFeatureDocument) PlanFeature {
	f := PlanFeature{
		Feature: number, PricingType: d.PricingType, Pricing: d.Pricing,
		HasMax: d.Pricing.HasMax, Max: d.Pricing.MaxUsage,
		Hard:       d.Pricing.LimitMode == limitModeHard,
		Accumulate: d.Pricing.ResetMode == resetModeAccumulate,
	}
	f.Model, _ = priceModel(d)
	f.Priced = f.Model.Kind != price.KindIncluded
	f.Credits = newFeatureCredits(&f, &d.Pricing.Credits)
	f.safe = safeQuantity(&f.Model)
	for _, percent := range d.Pricing.Thresholds {
		f.thresholds = append(f.thresholds, threshold{
			percent, decimal.Product(f.Max, decimal.FromBits(0, uint64(percent)*1e10)),
		})
	}
	f.Watched = len(f.thresholds) > 0
	return f
}

// priceModel makes the pricing model of a document; false if it names none.
func priceModel(d *PlanFeatureDocument) (m price.Model, ok bool) {
	kind, ok := price.KindOf(d.PricingType, d.Pricing.Model)
	m = price.Model{
		Kind: kind, PricePerUnit: d.Pricing.PricePerUnit,
		PackageSize: d.Pricing.PackageSize, PricePerPackage: d.Pricing.PricePerPackage,
		IncludedUnits: d.Pricing.IncludedUnits,
	}
	for _, t := range d.Pricing.Tiers {
		m.Tiers = append(m.Tiers, price.Tier(t))
	}
	return m, ok
}

// Full reports whether the usage has reached the limit.
func (f *PlanFeature) Full(used decimal.Decimal) bool {
	return f.HasMax && !used.Less(f.Max)
}

// Reached returns the highest threshold that the usage has reached, in percent; 0 if none.
func (f *PlanFeature) Reached(used decimal.Decimal) (percent uint8) {
	for i := range f.thresholds {
		if used.Exact().Cmp(f.thresholds[i].at) < 0 {
			break
		}
		percent = f.thresholds[i].percent
	}
	return percent
}

// Compare compares a total with the limit: nothing may be added beyond a hard limit.
func (f *PlanFeature) Compare(total, units decimal.Decimal) engine.Outcome {
	switch {
	case f.HasMax && f.Hard && f.Max.Less(total) && units.Sign() > 0:
		return engine.OutcomeHardLimit
	case f.Full(total):
		return engine.OutcomeLimitReached
	}
	return engine.OutcomeDone
}

// CompareWithHeld is Compare for a customer with reserved units: a hard limit refuses what exceeds
// it together with them, and is reached without them.
func (f *PlanFeature) CompareWithHeld(total, held, units decimal.Decimal) engine.Outcome {
	if !held.IsZero() && f.Compare(sums.Of(total, held), units) == engine.OutcomeHardLimit {
		return engine.OutcomeHardLimit
	}
	return f.Compare(total, units)
}

// FullWithHeld is Full with units that reservations hold.
func (f *PlanFeature) FullWithHeld(used, held decimal.Decimal) bool {
	return f.Full(sums.Of(used, held))
}

// Billable reports whether the price of a quantity is within the range of numbers.
func (f *PlanFeature) Billable(quantity decimal.Decimal) bool {
	if !f.safe.Less(quantity) {
		return true
	}
	_, err := price.Line(&f.Model, quantity, 0)
	return err == nil
}

// safeQuantity is the largest power of ten up to which every quantity has a price.
func safeQuantity(m *price.Model) decimal.Decimal {
	ten := decimal.FromInt(10)
	safe := decimal.Decimal{}
	for next := decimal.FromInt(1); ; {
		if _, err := price.Line(m, next, 0); err != nil {
			return safe
		}
		safe = next
		var ok bool
		if next, ok = next.Mul(ten); !ok {
			return safe
		}
	}
}
