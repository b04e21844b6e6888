package price

import "tollgate/engine/decimal"

// Kind names a pricing model. Numbers are never reused; 0 is none.
type Kind uint8

const (
	// KindIncluded costs nothing.
	KindIncluded Kind = 1
	// KindPerUnit prices every unit alike.
	KindPerUnit Kind = 2
	// KindGraduated prices each unit by the tier that it falls into itself.
	KindGraduated Kind = 3
	// KindVolume prices all units by the tier that the whole quantity falls into.
	KindVolume Kind = 4
	// KindPackage prices whole packages; the last one begun counts.
	KindPackage Kind = 5
)

// fields are the fields of a Model that a kind reads, besides IncludedUnits.
type fields uint8

const (
	fieldPricePerUnit fields = 1 << iota
	fieldTiers
	fieldPackage
)

// models is the only list of the kinds. Of one pricing type the first row is the default model.
var models = [...]struct {
	pricingType, model string
	fields             fields
	// rate returns the price of units > 0, the included ones already taken off.
	rate func(m *Model, units decimal.Decimal) (decimal.Exact, error)
}{
	KindIncluded:  {"included", "included", 0, rateIncluded},
	KindPerUnit:   {"usage_based", "per_unit", fieldPricePerUnit, ratePerUnit},
	KindGraduated: {"graduated", "graduated", fieldTiers, rateGraduated},
	KindVolume:    {"usage_based", "volume", fieldTiers, rateVolume},
	KindPackage:   {"usage_based", "package", fieldPackage, ratePackage},
}

// KindOf returns the kind that a catalog names by its pricingType and, within it, its model; an
// empty model is the pricing type's default. ok is false when the two name none.
func KindOf(pricingType, model string) (kind Kind, ok bool) {
	for i := range models {
		row := &models[i]
		if row.rate != nil && row.pricingType == pricingType &&
			(model == "" || model == row.model) {
			return Kind(i), true
		}
	}
	return 0, false
}

// Names returns the catalog's names for the kind; both are empty for an unknown kind.
func (k Kind) Names() (pricingType, model string) {
	if !k.known() {
		return "", ""
	}
	return models[k].pricingType, models[k].model
}

func (k Kind) known() bool { return int(k) < len(models) && models[k].rate != nil }
