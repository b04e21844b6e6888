package book

import "tollgate/engine/billing/internal/catalogs"

// Credited reports whether the place's feature burns credits.
func (p Place) Credited() bool { return p.Feature != nil && p.Feature.Credits.Pool != 0 }

// Place is where usage of a feature counts: a feature of a subscription, and its counter.
type Place struct {
	Subscription uint32 // 0: no subscription of the customer has the feature
	Counter      uint32
	Feature      *catalogs.PlanFeature
}

// Found reports whether a subscription has the feature.
func (p Place) Found() bool { return p.Subscription != 0 }

// PlaceIn finds a feature in one subscription of a plan version: of has the subscription and its
// first counter.
func PlaceIn(c *catalogs.Catalog, feature uint32, of Place, version uint32) (p Place, ok bool) {
	v := c.Version(version)
	slot, ok := v.Slot(feature)
	if !ok {
		return Place{}, false
	}
	return Place{of.Subscription, of.Counter + slot, &v.Features[slot]}, true
}
