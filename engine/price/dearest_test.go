package price_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/decimal"
	"tollgate/engine/price"
)

func tiersOf(steps ...[3]string) (tiers []price.Tier) {
	for _, s := range steps {
		t := price.Tier{
			Infinite: s[0] == "inf", PricePerUnit: decimal.MustParse(s[1]), FlatFee: decimal.MustParse(s[2]),
		}
		if !t.Infinite {
			t.UpTo = decimal.MustParse(s[0])
		}
		tiers = append(tiers, t)
	}
	return tiers
}

func TestDearest(t *testing.T) {
	falling := [][3]string{{"100", "1", "0"}, {"200", "0.5", "0"}, {"inf", "0.1", "0"}}
	rising := [][3]string{{"100", "0.1", "0"}, {"200", "1", "0"}, {"inf", "0.5", "7"}}
	for _, c := range []struct {
		kind        price.Kind
		tiers       [][3]string
		included    string
		from, units string
		want        string
	}{
		{price.KindGraduated, falling, "0", "0", "10", "10"},
		{price.KindGraduated, falling, "0", "95", "10", "7.5"},
		{price.KindGraduated, falling, "0", "500", "10", "1"},
		{price.KindGraduated, rising, "0", "0", "10", "17"}, // into the fee's tier
		{price.KindGraduated, rising, "0", "300", "10", "5"},
		{price.KindGraduated, rising, "50", "0", "10", "17"},
		{price.KindGraduated, rising, "0", "0", "200", "157"},
		{price.KindVolume, falling, "0", "0", "10", "10"},
		{price.KindVolume, falling, "0", "150", "10", "5"},
		{price.KindVolume, falling, "0", "60", "50", "40"}, // ten fewer
		{price.KindVolume, rising, "0", "0", "10", "100"},  // the 91 before get dearer, too
		{price.KindVolume, rising, "0", "250", "10", "5"},
		{price.KindPerUnit, nil, "5", "0", "10", "20"},
		{price.KindPackage, nil, "5", "0", "10", "12"},
		{price.KindIncluded, nil, "0", "0", "10", "0"},
	} {
		m := price.Model{
			Kind: c.kind, Tiers: tiersOf(c.tiers...), IncludedUnits: decimal.MustParse(c.included),
		}
		switch c.kind {
		case price.KindPerUnit:
			m.PricePerUnit = decimal.FromInt(2)
		case price.KindPackage:
			m.PackageSize, m.PricePerPackage = decimal.FromInt(3), decimal.FromInt(3)
		}
		got, err := price.Dearest(&m, decimal.MustParse(c.from), decimal.MustParse(c.units))
		require.NoError(t, err)
		amount, ok := got.Round(12)
		require.True(t, ok)
		require.Equal(t, c.want, amount.String(), "%v %s + %s", c.kind, c.from, c.units)
	}
}

// TestNothingIsDearer: wherever units come to lie behind from, neither they nor fewer cost more.
func TestNothingIsDearer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := func(label string) decimal.Decimal {
			return decimal.FromInt(rapid.Int64Range(0, 12).Draw(t, label))
		}
		m := price.Model{
			Kind: rapid.SampledFrom([]price.Kind{
				price.KindPerUnit, price.KindGraduated, price.KindVolume, price.KindPackage,
			}).Draw(t, "kind"),
			PricePerUnit: small("price"), PricePerPackage: small("package"),
			PackageSize:   decimal.FromInt(rapid.Int64Range(1, 5).Draw(t, "size")),
			IncludedUnits: small("included"),
		}
		end := int64(0)
		for range rapid.IntRange(0, 3).Draw(t, "tiers") {
			end += rapid.Int64Range(1, 9).Draw(t, "wide")
			m.Tiers = append(m.Tiers, price.Tier{
				UpTo: decimal.FromInt(end), PricePerUnit: small("tier"), FlatFee: small("fee"),
			})
		}
		m.Tiers = append(m.Tiers, price.Tier{
			Infinite: true, PricePerUnit: small("last"), FlatFee: small("fee"),
		})
		from, units := small("from"), small("units")
		dearest, err := price.Dearest(&m, from, units)
		require.NoError(t, err)
		for step := range int64(80) {
			half, _ := decimal.FromInt(step).Mul(decimal.MustParse("0.5"))
			place, _ := from.Add(half)
			before, err := price.Rate(&m, place)
			require.NoError(t, err)
			for fewer := units; fewer.Sign() > 0; fewer, _ = fewer.Sub(decimal.MustParse("0.5")) {
				after, _ := place.Add(fewer)
				cost, err := price.Rate(&m, after)
				require.NoError(t, err)
				cost, _ = cost.Sub(before)
				require.LessOrEqual(t, cost.Cmp(dearest), 0, "%s at %s", fewer, place)
			}
		}
	})
}
