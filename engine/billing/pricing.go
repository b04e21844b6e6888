package billing

import (
	"tollgate/engine/decimal"
	"tollgate/engine/price"
)

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
