package price

import (
	"fmt"

	"tollgate/engine/decimal"
	"tollgate/engine/schema"
)

// MaxTiers is how many tiers a model may have; rating walks them on the path of a check.
const MaxTiers = 100

// Problem describes an invalid field of a model.
type Problem struct {
	Place string // as the catalog document writes it: tiers[1].upTo; "" is the whole
	Text  string // must be …
}

// Problems are all that is wrong with a model: an unknown kind, a negative price or number of
// units, tiers that do not ascend or do not end with an infinite one, a package without a size, or
// a field that the kind does not read: a price that is never charged is a mistake in the catalog.
func Problems(m *Model) []Problem {
	if !m.Kind.known() {
		return []Problem{{"model", "must be a known pricing model"}}
	}
	var found []Problem
	reads, name := models[m.Kind].fields, models[m.Kind].model
	for _, field := range [...]struct {
		place string
		value decimal.Decimal
		read  bool
	}{
		{"includedUnits", m.IncludedUnits, true},
		{"pricePerUnit", m.PricePerUnit, reads&fieldPricePerUnit != 0},
		{"packageSize", m.PackageSize, reads&fieldPackage != 0},
		{"pricePerPackage", m.PricePerPackage, reads&fieldPackage != 0},
	} {
		switch {
		case !field.read && !field.value.IsZero():
			found = append(found, Problem{
				field.place, "must be left out, the model " + name + " does not use it",
			})
		case field.value.Sign() < 0:
			found = append(found, Problem{field.place, schema.Negative})
		}
	}
	if reads&fieldPackage != 0 && m.PackageSize.IsZero() {
		found = append(found, Problem{"packageSize", schema.NotPositive})
	}
	if reads&fieldTiers != 0 {
		return append(found, tierProblems(m.Tiers)...)
	}
	if len(m.Tiers) > 0 {
		found = append(found, Problem{
			"tiers", "must be left out, the model " + name + " does not use them",
		})
	}
	return found
}

func tierProblems(tiers []Tier) (found []Problem) {
	if len(tiers) == 0 || len(tiers) > MaxTiers {
		return []Problem{{"tiers", fmt.Sprintf("must have 1–%d entries", MaxTiers)}}
	}
	var below decimal.Decimal
	for i := range tiers {
		tier, place := &tiers[i], fmt.Sprintf("tiers[%d].", i)
		if tier.PricePerUnit.Sign() < 0 {
			found = append(found, Problem{place + "pricePerUnit", schema.Negative})
		}
		if tier.FlatFee.Sign() < 0 {
			found = append(found, Problem{place + "flatFee", schema.Negative})
		}
		text, last := "", i == len(tiers)-1
		switch {
		case last != tier.Infinite && last:
			text = `must be "inf" in the last tier`
		case last != tier.Infinite:
			text = `must be a number, only the last tier is "inf"`
		case last && !tier.UpTo.IsZero():
			text = `must be either a number or "inf"`
		case !last && !below.Less(tier.UpTo):
			text = "must be greater than " + below.String()
		}
		if text != "" {
			found = append(found, Problem{place + "upTo", text})
		}
		below = tier.UpTo
	}
	return found
}
