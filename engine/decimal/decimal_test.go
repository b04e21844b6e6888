package decimal

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestArithmeticAgreesWithBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyDecimal().Draw(t, "a"), anyDecimal().Draw(t, "b")
		n := rapid.Int64().Draw(t, "n")
		x, y := integer(a), integer(b)
		for _, op := range []struct {
			name string
			got  func() (Decimal, bool)
			want *big.Int
		}{
			{"add", func() (Decimal, bool) { return a.Add(b) }, new(big.Int).Add(x, y)},
			{"sub", func() (Decimal, bool) { return a.Sub(b) }, new(big.Int).Sub(x, y)},
			{"int", func() (Decimal, bool) { return a.MulInt(n) }, new(big.Int).Mul(x, big.NewInt(n))},
		} {
			got, ok := op.got()
			want, fits := decimalOf(op.want)
			require.Equal(t, fits, ok, op.name)
			if ok {
				require.Equal(t, want, got, op.name)
			}
		}
		require.Equal(t, x.Cmp(y), a.Cmp(b))
		require.Equal(t, x.Cmp(y) < 0, a.Less(b))
		require.Equal(t, x.Sign(), a.Sign())
		require.Equal(t, x.Sign() == 0, a.IsZero())
		require.Zero(t, integer(a.Neg()).Cmp(new(big.Int).Neg(x)))
		require.Zero(t, integer(a.Abs()).Cmp(new(big.Int).Abs(x)))
		require.Equal(t, a.Cmp(b) <= 0, Min(a, b) == a)
		require.Equal(t, a.Cmp(b) >= 0, Max(a, b) == a)
	})
}

func TestRangeEndsAreInside(t *testing.T) {
	smallest := MustParse("0.000000000001")
	require.Equal(t, "1000000000000000000000000", Largest().String())
	for _, end := range []Decimal{Largest(), Largest().Neg()} {
		require.True(t, end.InRange())
		outward := smallest.signed(end.Sign() < 0)
		_, ok := end.Add(outward)
		require.False(t, ok, "one step beyond %s", end)
		inward, ok := end.Sub(outward)
		require.True(t, ok)
		back, ok := inward.Add(outward)
		require.True(t, ok)
		require.Equal(t, end, back)
		_, ok = end.Add(end)
		require.False(t, ok)
		_, ok = end.MulInt(2)
		require.False(t, ok)
		_, ok = end.MulInt(math.MinInt64)
		require.False(t, ok)
	}
	require.False(t, FromBits(math.MaxInt64, math.MaxUint64).InRange())
	require.False(t, FromBits(math.MinInt64, 0).InRange())
}

func TestFromInt(t *testing.T) {
	for _, n := range []int64{0, 1, -1, 42, math.MaxInt64, math.MinInt64} {
		want, ok := decimalOf(new(big.Int).Mul(big.NewInt(n), big.NewInt(one)))
		require.True(t, ok)
		require.Equal(t, want, FromInt(n))
	}
}

func TestHotOperationsDoNotAllocate(t *testing.T) {
	text, a, b := []byte("12345.678901"), MustParse("0.0000025"), MustParse("18059974")
	buf := make([]byte, 0, maxText)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		d, err := Parse(text)
		if err != nil || d.IsZero() {
			t.Fatal(d, err)
		}
		sum, _ := a.Add(b)
		product, _ := sum.Mul(d)
		line, _ := Product(a, product).Round(2)
		if line.Cmp(product) > 0 {
			t.Fatal(line)
		}
		buf = line.AppendTo(buf[:0])
	}))
}

var sink Decimal

func BenchmarkParse(b *testing.B) {
	for _, text := range []string{"1", "12345.678901", "123456789012345678901234.123456789012"} {
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			raw := []byte(text)
			for b.Loop() {
				sink, _ = Parse(raw)
			}
		})
	}
}

func BenchmarkArithmetic(b *testing.B) {
	x, y := MustParse("18059974.25"), MustParse("0.0000025")
	wide := MustParse("123456789012345678.5")
	buf := make([]byte, 0, maxText)
	for _, op := range []struct {
		name string
		do   func()
	}{
		{"add", func() { sink, _ = x.Add(y) }},
		{"mul", func() { sink, _ = x.Mul(y) }},
		{"mulWide", func() { sink, _ = wide.Mul(y) }},
		{"productRound", func() { sink, _ = Product(x, y).Round(2) }},
		{"append", func() { buf = x.AppendTo(buf[:0]) }},
	} {
		b.Run(op.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				op.do()
			}
		})
	}
}
