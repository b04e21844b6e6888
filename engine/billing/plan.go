package billing

import "tollgate/engine/billing/internal/catalogs"

// planView describes a plan version.
func planView(c *catalogs.Catalog, v *catalogs.PlanVersion) PlanView {
	p := c.Plans[v.Plan-1]
	view := PlanView{
		ID: p.ID, Version: v.Version, Key: p.Document.Key, Name: p.Document.Name,
		Description: p.Document.Description, PriceAmount: v.Price, Currency: v.Currency,
		IntervalMonths: v.Interval, BillingTiming: v.Timing, Status: p.Document.Status,
		Metadata: p.Document.Metadata, Features: make([]PlanFeatureView, len(v.Features)),
		CreditAllocations: v.Allocations,
	}
	for i := range v.Features {
		f := &v.Features[i]
		view.Features[i] = PlanFeatureView{
			FeatureView: featureView(c.Features[f.Feature-1]), PricingType: f.PricingType,
			Pricing: f.Pricing,
		}
	}
	return view
}
