package price_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/decimal"
	"tollgate/engine/price"
)

func TestBreakdown(t *testing.T) {
	tiers := [][3]string{{"100", "2", "0"}, {"200", "1", "5"}, {"inf", "0.5", "0"}}
	type part struct {
		kind        price.PartKind
		units, cost string
	}
	for _, c := range []struct {
		kind     price.Kind
		included string
		units    string
		want     []part
	}{
		{price.KindPerUnit, "0", "0", nil},
		{price.KindPerUnit, "0", "7", []part{{price.PartUnits, "7", "14"}}},
		{price.KindPerUnit, "5", "4", []part{{price.PartIncluded, "4", "0"}}},
		{price.KindPerUnit, "5", "7", []part{{price.PartIncluded, "5", "0"}, {price.PartUnits, "2", "4"}}},
		{price.KindPackage, "1", "8", []part{
			{price.PartIncluded, "1", "0"}, {price.PartPackages, "3", "9"},
		}},
		{price.KindGraduated, "10", "260", []part{
			{price.PartIncluded, "10", "0"},
			{price.PartTier, "100", "200"},
			{price.PartTier, "100", "105"},
			{price.PartTier, "50", "25"},
		}},
		{price.KindGraduated, "0", "100", []part{{price.PartTier, "100", "200"}}},
		{price.KindVolume, "0", "150", []part{{price.PartTier, "150", "155"}}},
		{price.KindIncluded, "0", "9", nil},
	} {
		m := price.Model{Kind: c.kind, IncludedUnits: decimal.MustParse(c.included)}
		switch c.kind {
		case price.KindPerUnit:
			m.PricePerUnit = decimal.FromInt(2)
		case price.KindPackage:
			m.PackageSize, m.PricePerPackage = decimal.FromInt(3), decimal.FromInt(3)
		case price.KindGraduated, price.KindVolume:
			m.Tiers = tiersOf(tiers...)
		}
		parts, err := price.Breakdown(&m, decimal.MustParse(c.units))
		require.NoError(t, err)
		var got []part
		for _, p := range parts {
			cost, ok := p.Amount.Round(12)
			require.True(t, ok)
			got = append(got, part{p.Kind, p.Units.String(), cost.String()})
		}
		require.Equal(t, c.want, got, "%v %s", c.kind, c.units)
	}
	_, err := price.Breakdown(&price.Model{Kind: price.KindPerUnit}, decimal.FromInt(-1))
	require.ErrorIs(t, err, price.ErrQuantity)
}

// TestPartsAddUp: the amounts of the parts are the price of the whole, their units the quantity.
func TestPartsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyModel(t)
		quantity := anyQuantity(t, m)
		parts, err := price.Breakdown(m, quantity)
		whole, wrong := price.Rate(m, quantity)
		require.Equal(t, wrong, err)
		if err != nil {
			return
		}
		var amount decimal.Exact
		var units decimal.Decimal
		for _, p := range parts {
			amount, _ = amount.Add(p.Amount)
			units, _ = units.Add(p.Units)
		}
		require.Zero(t, whole.Cmp(amount))
		if m.Kind != price.KindPackage && m.Kind != price.KindIncluded {
			require.Equal(t, quantity, units)
		}
	})
}
