package price_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/price"
)

func TestKindOf(t *testing.T) {
	for _, c := range []struct {
		pricingType, model string
		want               price.Kind
	}{
		{"included", "", price.KindIncluded},
		{"usage_based", "", price.KindPerUnit},
		{"usage_based", "per_unit", price.KindPerUnit},
		{"usage_based", "volume", price.KindVolume},
		{"usage_based", "package", price.KindPackage},
		{"graduated", "", price.KindGraduated},
		{"graduated", "graduated", price.KindGraduated},
	} {
		kind, ok := price.KindOf(c.pricingType, c.model)
		require.True(t, ok, c)
		require.Equal(t, c.want, kind, c)
		pricingType, model := kind.Names()
		require.Equal(t, c.pricingType, pricingType)
		again, ok := price.KindOf(pricingType, model)
		require.True(t, ok)
		require.Equal(t, kind, again)
	}
	for _, c := range [][2]string{
		{"", ""},
		{"free", ""},
		{"usage_based", "graduated"},
		{"included", "volume"},
		{"graduated", "volume"},
		{"usage_based", "Package"},
	} {
		_, ok := price.KindOf(c[0], c[1])
		require.False(t, ok, c)
	}
	pricingType, model := price.Kind(0).Names()
	require.Empty(t, pricingType+model)
}

func TestProblemsNameThePlace(t *testing.T) {
	tier := func(upTo string) price.Tier { return price.Tier{UpTo: must(upTo)} }
	last := price.Tier{Infinite: true}
	tiered := func(tiers ...price.Tier) *price.Model {
		return &price.Model{Kind: price.KindGraduated, Tiers: tiers}
	}
	many := make([]price.Tier, price.MaxTiers+1)
	for place, models := range map[string][]*price.Model{
		"model":         {{}, {Kind: 6}, {Kind: 255}},
		"includedUnits": {{Kind: price.KindIncluded, IncludedUnits: must("-1")}},
		"pricePerUnit": {
			{Kind: price.KindPerUnit, PricePerUnit: must("-0.01")},
			{Kind: price.KindIncluded, PricePerUnit: must("1")},
			{Kind: price.KindVolume, Tiers: []price.Tier{last}, PricePerUnit: must("1")},
		},
		"packageSize": {
			{Kind: price.KindPackage, PricePerPackage: must("1")},
			{Kind: price.KindPackage, PackageSize: must("-1")},
			{Kind: price.KindPerUnit, PackageSize: must("1")},
		},
		"pricePerPackage": {
			{Kind: price.KindPackage, PackageSize: must("1"), PricePerPackage: must("-1")},
			{Kind: price.KindGraduated, Tiers: []price.Tier{last}, PricePerPackage: must("1")},
		},
		"tiers": {
			tiered(), tiered(many...),
			{Kind: price.KindVolume},
			{Kind: price.KindPerUnit, Tiers: []price.Tier{last}},
		},
		"tiers[0].upTo": {
			tiered(tier("0"), last), tiered(tier("-1"), last), tiered(last, last),
			tiered(price.Tier{Infinite: true, UpTo: must("5")}),
		},
		"tiers[1].upTo": {
			tiered(tier("5"), tier("5"), last), tiered(tier("5"), tier("4"), last),
			tiered(tier("5"), tier("6")),
		},
		"tiers[1].pricePerUnit": {
			tiered(tier("5"), price.Tier{Infinite: true, PricePerUnit: must("-1")}),
		},
		"tiers[0].flatFee": {tiered(price.Tier{Infinite: true, FlatFee: must("-1")})},
	} {
		for _, m := range models {
			problems := price.Problems(m)
			require.NotEmpty(t, problems, "%s: %v", place, m)
			require.Equal(t, place, problems[0].Place)
			require.Contains(t, problems[0].Text, "must")
		}
	}
	included := &price.Model{Kind: price.KindIncluded, IncludedUnits: must("9")}
	require.Empty(t, price.Problems(included))
}
