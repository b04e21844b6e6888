package book

import (
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/decimal"
	"tollgate/engine/price"
)

// PartKind is what a part of a line's quantity is.
//
//schema:enum
type PartKind uint8

const (
	// PartIncluded are the included units, which cost nothing.
	PartIncluded PartKind = 1 // included
	// PartUnits are units that all have one price.
	PartUnits PartKind = 2 // units
	// PartTier are the units that a tier prices.
	PartTier PartKind = 3 // tier
	// PartPackages are the packages begun.
	PartPackages PartKind = 4 // packages
)

// InvoicePart is some of a line's quantity with one price: its amount is units × unitPrice +
// flatFee, not rounded; the parts add up to the line's amount, rounded once.
//
//schema:answer billingview InvoicePart
type InvoicePart struct {
	Kind PartKind `json:"kind"`
	// Units are packages where kind is packages.
	Units decimal.Decimal `json:"units"`
	// Price is that of a unit, or of a package.
	Price decimal.Decimal `json:"unitPrice"`
	Fee   decimal.Decimal `json:"flatFee" if:"HasFee"`
	// UpTo is where the tier ends; the last tier does not.
	UpTo    decimal.Decimal `json:"upTo" if:"HasUpTo"`
	Amount  decimal.Decimal `json:"amount"`
	HasFee  bool
	HasUpTo bool
}

// partKinds are the names that answers have for the kinds of package price.
var partKinds = [...]PartKind{
	price.PartIncluded: PartIncluded, price.PartUnits: PartUnits, price.PartTier: PartTier,
	price.PartPackages: PartPackages,
}

// BreakDown says of each line of usage which units make its amount, where the catalog's version
// explains it: a line that may go on from units billed before, or is of another version, has no
// parts.
func BreakDown(c *catalogs.Catalog, version uint32, items []InvoiceItem) {
	v := c.Version(version)
	for i := range items {
		item := &items[i]
		if !item.Kind.OfUsage() || item.Kind == LineLate || item.Quantity.Sign() <= 0 ||
			goesOn(items, i) {
			continue
		}
		for j := range v.Features {
			f := &v.Features[j]
			if c.Feature(f.Feature).Document.Key == item.FeatureKey {
				if !f.Accumulate && !f.Interim { // else units may have been billed before
					item.Parts = partsOf(f, item, v.Places)
				}
				break
			}
		}
	}
}

// goesOn reports whether another line of an invoice is of the same feature and period.
func goesOn(items []InvoiceItem, i int) bool {
	for j := range items {
		if j != i && items[j].FeatureKey == items[i].FeatureKey &&
			items[j].PeriodStart == items[i].PeriodStart {
			return true
		}
	}
	return false
}

// partsOf are the parts of a line under a plan's price; nil where they do not make its amount.
func partsOf(f *catalogs.PlanFeature, item *InvoiceItem, places int) (parts []InvoicePart) {
	all, err := price.Breakdown(&f.Model, item.Quantity)
	if err != nil || len(all) == 1 && all[0].Kind == price.PartUnits {
		return nil // the line says it
	}
	var total decimal.Exact
	for _, p := range all {
		amount, ok := p.Amount.Round(decimal.Scale)
		if sum, fits := total.Add(p.Amount); ok && fits {
			total = sum
		} else {
			return nil
		}
		part := InvoicePart{
			Kind: partKinds[p.Kind], Units: p.Units, Price: p.Price, Fee: p.Fee,
			HasFee: p.Fee.Sign() != 0, Amount: amount,
		}
		if p.Kind == price.PartTier {
			tier := &f.Model.Tiers[p.Tier]
			part.UpTo, part.HasUpTo = tier.UpTo, !tier.Infinite
		}
		parts = append(parts, part)
	}
	if made, ok := total.Round(places); !ok || made != item.Amount {
		return nil
	}
	return parts
}
