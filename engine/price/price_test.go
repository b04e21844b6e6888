package price_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine/decimal"
	"tollgate/engine/price"
)

var must = decimal.MustParse

// anyAmount draws decimals ≥ 0 of the sizes that prices and quantities have, up to large ones.
func anyAmount() *rapid.Generator[decimal.Decimal] {
	return rapid.Map(rapid.OneOf(
		rapid.StringMatching(`(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?`),
		rapid.StringMatching(`0\.0{0,6}[0-9]{1,6}`),
		rapid.StringMatching(`[1-9][0-9]{4,11}(\.[0-9]{1,12})?`),
	), must)
}

func anyModel(t *rapid.T) *price.Model {
	m := &price.Model{
		Kind:          price.Kind(rapid.IntRange(1, 5).Draw(t, "kind")),
		IncludedUnits: rapid.OneOf(rapid.Just(decimal.Decimal{}), anyAmount()).Draw(t, "included"),
	}
	switch m.Kind {
	case price.KindPerUnit:
		m.PricePerUnit = anyAmount().Draw(t, "pricePerUnit")
	case price.KindPackage:
		m.PackageSize, _ = anyAmount().Draw(t, "packageSize").Add(must("0.000000000001"))
		m.PricePerPackage = anyAmount().Draw(t, "pricePerPackage")
	case price.KindGraduated, price.KindVolume:
		var upTo decimal.Decimal
		for range rapid.IntRange(0, 4).Draw(t, "tiers") {
			step, _ := anyAmount().Draw(t, "step").Add(must("0.000000000001"))
			upTo, _ = upTo.Add(step)
			m.Tiers = append(m.Tiers, price.Tier{UpTo: upTo})
		}
		m.Tiers = append(m.Tiers, price.Tier{Infinite: true})
		for i := range m.Tiers {
			m.Tiers[i].PricePerUnit = anyAmount().Draw(t, "tierPrice")
			m.Tiers[i].FlatFee = anyAmount().Draw(t, "flatFee")
		}
	}
	require.Empty(t, price.Problems(m))
	return m
}

// anyQuantity draws amounts, and the borders of the model's tiers and packages.
func anyQuantity(t *rapid.T, m *price.Model) decimal.Decimal {
	borders := []decimal.Decimal{{}, m.IncludedUnits}
	for _, span := range append([]price.Tier{{UpTo: m.PackageSize}}, m.Tiers...) {
		border, ok := span.UpTo.Add(m.IncludedUnits)
		require.True(t, ok)
		beyond, ok := border.Add(must("0.000000000001"))
		require.True(t, ok)
		borders = append(borders, border, beyond)
	}
	return rapid.OneOf(anyAmount(), rapid.SampledFrom(borders)).Draw(t, "quantity")
}

func oracleOf(m *price.Model) *enginetest.OracleModel {
	_, name := m.Kind.Names()
	o := &enginetest.OracleModel{
		Name:            name,
		PricePerUnit:    enginetest.Rat(m.PricePerUnit.String()),
		PackageSize:     enginetest.Rat(m.PackageSize.String()),
		PricePerPackage: enginetest.Rat(m.PricePerPackage.String()),
		IncludedUnits:   enginetest.Rat(m.IncludedUnits.String()),
	}
	for _, tier := range m.Tiers {
		next := enginetest.OracleTier{
			PricePerUnit: enginetest.Rat(tier.PricePerUnit.String()),
			FlatFee:      enginetest.Rat(tier.FlatFee.String()),
		}
		if !tier.Infinite {
			next.UpTo = enginetest.Rat(tier.UpTo.String())
		}
		o.Tiers = append(o.Tiers, next)
	}
	return o
}

func TestRatingAgreesWithOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyModel(t)
		before, after := anyQuantity(t, m), anyQuantity(t, m)
		o := oracleOf(m)
		limit := enginetest.Rat(decimal.Largest().String())
		q, r := enginetest.Rat(before.String()), enginetest.Rat(after.String())
		places := rapid.IntRange(0, 4).Draw(t, "places")
		amount, err := price.Line(m, before, places)
		if o.Rate(q).Cmp(limit) > 0 {
			require.ErrorIs(t, err, price.ErrRange)
			return
		}
		require.NoError(t, err)
		require.Zero(t, o.Line(q, places).Cmp(enginetest.Rat(amount.String())), "%s", amount)
		if o.Rate(r).Cmp(limit) > 0 {
			return
		}
		cost, err := price.Cost(m, before, after)
		require.NoError(t, err)
		difference := o.Rate(r)
		difference.Sub(difference, o.Rate(q))
		require.Zero(t, enginetest.RoundHalfUp(difference, decimal.Scale).
			Cmp(enginetest.Rat(cost.String())), "cost %s", cost)
		delta, err := price.Delta(m, before, after, places)
		require.NoError(t, err)
		lines := o.Line(r, places)
		lines.Sub(lines, o.Line(q, places))
		require.Zero(t, lines.Cmp(enginetest.Rat(delta.String())), "delta %s", delta)
	})
}

func TestMoreUsageNeverCostsLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyModel(t)
		if m.Kind == price.KindVolume {
			m.Kind = price.KindGraduated // a volume discount may well make more units cheaper
		}
		less, more := anyQuantity(t, m), anyQuantity(t, m)
		if more.Less(less) {
			less, more = more, less
		}
		low, lowErr := price.Rate(m, less)
		high, highErr := price.Rate(m, more)
		if highErr != nil {
			require.ErrorIs(t, highErr, price.ErrRange)
			return
		}
		require.NoError(t, lowErr)
		require.LessOrEqual(t, low.Cmp(high), 0)
	})
}

// TestTokenPrices has quantities and amounts that were computed apart from this code.
func TestTokenPrices(t *testing.T) {
	input := &price.Model{Kind: price.KindGraduated, Tiers: []price.Tier{
		{UpTo: must("100000"), PricePerUnit: must("0.000003")},
		{UpTo: must("500000"), PricePerUnit: must("0.0000025"), FlatFee: must("1")},
		{Infinite: true, PricePerUnit: must("0.000002")},
	}}
	output := &price.Model{Kind: price.KindPerUnit, PricePerUnit: must("0.000015")}
	for _, c := range []struct {
		m              *price.Model
		quantity, want string
	}{
		{input, "373140", "1.98"},
		{input, "337284", "1.89"},
		{input, "326475", "1.87"},
		{input, "100000", "0.3"},
		{input, "500001", "2.3"},
		{output, "5237", "0.08"},
		{output, "3874", "0.06"},
		{output, "0", "0"},
	} {
		amount, err := price.Line(c.m, must(c.quantity), 2)
		require.NoError(t, err)
		require.Equal(t, c.want, amount.String(), c.quantity)
	}
}

func TestIncludedUnitsComeFirst(t *testing.T) {
	tiers := []price.Tier{
		{UpTo: must("10"), PricePerUnit: must("2")},
		{Infinite: true, PricePerUnit: must("1"), FlatFee: must("5")},
	}
	included := must("100")
	for name, c := range map[string]struct {
		m    price.Model
		want map[string]string
	}{
		"per unit": {
			price.Model{Kind: price.KindPerUnit, PricePerUnit: must("0.5")},
			map[string]string{"0": "0", "99.5": "0", "100": "0", "101": "0.5"},
		},
		"graduated": {
			price.Model{Kind: price.KindGraduated, Tiers: tiers},
			map[string]string{"100": "0", "110": "20", "111": "26"},
		},
		"volume": {
			price.Model{Kind: price.KindVolume, Tiers: tiers},
			map[string]string{"100": "0", "110": "20", "111": "16"},
		},
		"package": {
			price.Model{
				Kind: price.KindPackage, PackageSize: must("10"), PricePerPackage: must("3"),
			},
			map[string]string{"100": "0", "100.1": "3", "110": "3", "110.1": "6"},
		},
	} {
		c.m.IncludedUnits = included
		for quantity, want := range c.want {
			amount, err := price.Line(&c.m, must(quantity), 2)
			require.NoError(t, err)
			require.Equal(t, want, amount.String(), "%s of %s", name, quantity)
		}
	}
}

func TestCostIsRoundedAtTheTwelfthPlaceOnly(t *testing.T) {
	m := &price.Model{Kind: price.KindPerUnit, PricePerUnit: must("0.000000000003")}
	cost, err := price.Cost(m, must("1"), must("1.5"))
	require.NoError(t, err)
	require.Equal(t, "0.000000000002", cost.String(), "1.5e-12 is shown half up")
	cost, err = price.Cost(m, must("5"), must("1"))
	require.NoError(t, err)
	require.Equal(t, "-0.000000000012", cost.String())
}

func TestRangeIsAnErrorAndNeverWraps(t *testing.T) {
	huge := decimal.Largest()
	for name, m := range map[string]*price.Model{
		"per unit": {Kind: price.KindPerUnit, PricePerUnit: must("1.000000000001")},
		"graduated": {Kind: price.KindGraduated, Tiers: []price.Tier{
			{UpTo: must("1"), FlatFee: huge}, {Infinite: true, PricePerUnit: huge, FlatFee: huge},
		}},
		"volume":   {Kind: price.KindVolume, Tiers: []price.Tier{{Infinite: true, PricePerUnit: huge}}},
		"package":  {Kind: price.KindPackage, PackageSize: must("0.5"), PricePerPackage: must("1")},
		"packages": {Kind: price.KindPackage, PackageSize: must("1"), PricePerPackage: must("2")},
	} {
		require.Empty(t, price.Problems(m))
		_, err := price.Rate(m, huge)
		require.ErrorIs(t, err, price.ErrRange, name)
		_, err = price.Line(m, huge, 2)
		require.ErrorIs(t, err, price.ErrRange, name)
		_, err = price.Delta(m, must("1"), huge, 2)
		require.ErrorIs(t, err, price.ErrRange, name)
		_, err = price.Cost(m, must("1"), huge)
		require.ErrorIs(t, err, price.ErrRange, name)
	}
}

func TestRateRefuses(t *testing.T) {
	_, err := price.Rate(&price.Model{Kind: price.KindPerUnit}, must("-1"))
	require.ErrorIs(t, err, price.ErrQuantity)
	for name, m := range map[string]*price.Model{
		"no kind":         {},
		"unknown kind":    {Kind: 99},
		"no tiers":        {Kind: price.KindVolume},
		"graduated short": {Kind: price.KindGraduated, Tiers: []price.Tier{{UpTo: must("1")}}},
		"volume short":    {Kind: price.KindVolume, Tiers: []price.Tier{{UpTo: must("1")}}},
		"no package size": {Kind: price.KindPackage},
	} {
		_, err := price.Rate(m, must("2"))
		require.ErrorIs(t, err, price.ErrModel, name)
	}
}

func TestRateDoesNotAllocate(t *testing.T) {
	m := benchmarked()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if cost, err := price.Cost(m, must("373140"), must("600000")); err != nil || cost.IsZero() {
			t.Fatal(cost, err)
		}
	}))
}

func benchmarked() *price.Model {
	return &price.Model{Kind: price.KindGraduated, Tiers: []price.Tier{
		{UpTo: must("100000"), PricePerUnit: must("0.000003")},
		{UpTo: must("500000"), PricePerUnit: must("0.0000025"), FlatFee: must("1")},
		{Infinite: true, PricePerUnit: must("0.000002")},
	}}
}

func BenchmarkRating(b *testing.B) {
	m, used, projected := benchmarked(), must("373140"), must("600000")
	for _, op := range []struct {
		name string
		do   func() error
	}{
		{"rate", func() error { _, err := price.Rate(m, projected); return err }},
		{"line", func() error { _, err := price.Line(m, projected, 2); return err }},
		{"cost", func() error { _, err := price.Cost(m, used, projected); return err }},
	} {
		b.Run(op.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := op.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestEachUnitBetweenTwoQuantitiesCostsTheDifference of what both cost.
func TestEachUnitBetweenTwoQuantitiesCostsTheDifference(t *testing.T) {
	priced := 0
	rapid.Check(t, func(t *rapid.T) {
		m := anyModel(t)
		from, to := anyQuantity(t, m), anyQuantity(t, m)
		if to.Less(from) {
			from, to = to, from
		}
		before, wrong := price.Rate(m, from)
		after, tooMuch := price.Rate(m, to)
		if wrong != nil || tooMuch != nil {
			return
		}
		if each, ok := m.Each(from, to); ok {
			units, fits := to.Sub(from)
			require.True(t, fits)
			difference, fits := after.Sub(before)
			require.True(t, fits)
			require.Equal(t, difference, decimal.Product(units, each))
			priced++
		}
	})
	require.Positive(t, priced)
}
