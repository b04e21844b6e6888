package billing

import (
	"cmp"
	"slices"
	"sync/atomic"

	"tollgate/engine/decimal"
	"tollgate/engine/price"
)

// Statuses and billing timings of a plan, as documents write them.
const (
	planActive   = "ACTIVE"
	planArchived = "ARCHIVED"
	planDraft    = "DRAFT"

	timingInAdvance = "IN_ADVANCE"
	timingInArrears = "IN_ARREARS"
)

// plan is one plan of a catalog. Name, description, status and metadata belong to the plan; price,
// currency, interval, timing and features to its versions, and subscribers keep theirs. A plan is
// replaced under the same number, except for subscribers, which all its copies share.
type plan struct {
	number uint32
	id     [16]byte
	// document holds what belongs to the plan; the rest of it is zero.
	document PlanDocument
	versions []*planVersion // oldest first
	// subscribers counts the subscriptions of any version that are not cancelled.
	subscribers *atomic.Int64
}

// newest is the version that new subscriptions get.
func (p *plan) newest() *planVersion { return p.versions[len(p.versions)-1] }

// planVersion is one version of a plan. It never changes.
type planVersion struct {
	// number counts the versions of all plans of the environment from 1, version those of this
	// plan, plan is the plan's number.
	number, version, plan uint32

	price    decimal.Decimal
	currency string
	places   int // decimal places of the currency
	interval uint32
	timing   string
	features []planFeature // in the document's order; a subscription has one counter for each
	slots    []featureSlot // the same, sorted by feature
	// allocations are what the plan grants in every period.
	allocations []CreditAllocationDocument
}

// planFeature is a feature within a plan version.
type planFeature struct {
	feature     uint32
	pricingType string
	pricing     PricingDocument
	model       price.Model
	// priced reports whether usage costs anything at all.
	priced bool
	// hasMax, max and hard are the limit; accumulate reports whether usage is not reset at period
	// ends.
	hasMax, hard, accumulate bool
	max                      decimal.Decimal
	credits                  featureCredits
	// safe is a quantity up to which the price is known to be in range.
	safe decimal.Decimal
}

// featureSlot leads from a feature's number to its place in planVersion.features.
type featureSlot struct{ feature, slot uint32 }

// slot finds a feature within the version.
func (v *planVersion) slot(feature uint32) (slot uint32, ok bool) {
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

// newVersion makes a version of a normalised document. The document was validated.
func (c *catalog) newVersion(p *plan, d *PlanDocument) *planVersion {
	v := &planVersion{
		number: uint32(len(c.versions)) + 1, version: uint32(len(p.versions)) + 1, plan: p.number,
		price: d.PriceAmount, currency: d.Currency,
		interval: d.IntervalMonths, timing: d.BillingTiming, allocations: d.CreditAllocations,
	}
	v.places, _ = decimal.MinorUnits(d.Currency)
	for i := range d.Features {
		f := newPlanFeature(c.featureByKey[d.Features[i].Key], &d.Features[i])
		v.features = append(v.features, f)
		v.slots = append(v.slots, featureSlot{f.feature, uint32(i)})
	}
	slices.SortFunc(v.slots, func(a, b featureSlot) int { return cmp.Compare(a.feature, b.feature) })
	return v
}

// versionDocument returns the version's part of a plan's document.
func (c *catalog) versionDocument(v *planVersion) PlanDocument {
	d := PlanDocument{
		PriceAmount: v.price, Currency: v.currency,
		IntervalMonths: v.interval, BillingTiming: v.timing, CreditAllocations: v.allocations,
	}
	for i := range v.features {
		f := &v.features[i]
		d.Features = append(d.Features, PlanFeatureDocument{
			Key: c.features[f.feature-1].document.Key, PricingType: f.pricingType, Pricing: f.pricing,
		})
	}
	return d
}

// planView describes a plan version.
func planView(c *catalog, v *planVersion) PlanView {
	p := c.plans[v.plan-1]
	view := PlanView{
		ID: p.id, Version: v.version, Key: p.document.Key, Name: p.document.Name,
		Description: p.document.Description, PriceAmount: v.price, Currency: v.currency,
		IntervalMonths: v.interval, BillingTiming: v.timing, Status: p.document.Status,
		Metadata: p.document.Metadata, Features: make([]PlanFeatureView, len(v.features)),
		CreditAllocations: v.allocations,
	}
	for i := range v.features {
		f := &v.features[i]
		view.Features[i] = PlanFeatureView{
			Feature: featureView(c.features[f.feature-1]), PricingType: f.pricingType, Pricing: f.pricing,
		}
	}
	return view
}

// subscribed counts a subscription in or out of its plan.
func (s *book) subscribed(b *subscription, by int64) {
	if b.endedAt != 0 {
		return
	}
	c := s.environment(s.customers.Read(b.customer).env).catalog.Load()
	c.plans[c.version(b.version).plan-1].subscribers.Add(by)
}

// planRecord is a plan in a snapshot, with all its versions.
type planRecord struct {
	ID       [16]byte        `wire:"1"`
	Document PlanDocument    `wire:"2"`
	Versions []versionRecord `wire:"3"`
}

// versionRecord is a plan version in a snapshot.
type versionRecord struct {
	Number   uint32       `wire:"1"`
	Document PlanDocument `wire:"2"`
}

// title is what invoice lines call the plan.
func (p *plan) title() string { return either(p.document.Name, p.document.Key) }

// Words of pricing, as documents write them.
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
		d.Model = either(d.Model, modelPerUnit)
	}
	d.ResetMode = either(d.ResetMode, resetModeReset)
	d.LimitMode = either(d.LimitMode, limitModeSoft)
	d.Tiers = append([]TierDocument(nil), d.Tiers...)
	if d.Credits.Pool != "" && d.Credits.Weight.IsZero() {
		d.Credits.Weight = decimal.FromInt(1)
	}
	return d
}

// newPlanFeature makes a feature within a plan version of a normalised, validated document.
func newPlanFeature(number uint32, d *PlanFeatureDocument) planFeature {
	f := planFeature{
		feature: number, pricingType: d.PricingType, pricing: d.Pricing,
		hasMax: d.Pricing.HasMax, max: d.Pricing.MaxUsage,
		hard:       d.Pricing.LimitMode == limitModeHard,
		accumulate: d.Pricing.ResetMode == resetModeAccumulate,
	}
	f.model, _ = priceModel(d)
	f.priced = f.model.Kind != price.KindIncluded
	f.credits = newFeatureCredits(&f, &d.Pricing.Credits)
	f.safe = safeQuantity(&f.model)
	return f
}

// priceModel makes the pricing model that a document describes; false when it names none.
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

// full reports whether the usage has reached the limit.
func (f *planFeature) full(used decimal.Decimal) bool {
	return f.hasMax && !used.Less(f.max)
}
