package decimal

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func bigOf(u uint128) *big.Int {
	n := new(big.Int).SetUint64(u.hi)
	return n.Mul(n, bigWord).Add(n, new(big.Int).SetUint64(u.lo))
}

// TestDivisionEstimate draws dividends that a multiple of the divisor meets or just misses, with
// quotients of every size: where an estimated quotient is one too large, if anywhere.
func TestDivisionEstimate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := uint128{
			rapid.Uint64Range(0, math.MaxUint64>>rapid.IntRange(0, 63).Draw(t, "cut")).Draw(t, "hi"),
			rapid.OneOf(rapid.Uint64Min(1), rapid.Just(uint64(math.MaxUint64))).Draw(t, "lo"),
		}
		all := uint128{math.MaxUint64, math.MaxUint64}
		most := new(big.Int).Quo(bigOf(all), bigOf(v))
		if !most.IsUint64() {
			most.SetUint64(math.MaxUint64)
		}
		below := rapid.Uint64Range(0, most.Uint64()/2).Draw(t, "below")
		u := v.times(most.Uint64()-below, 0)
		if below > 0 {
			u = u.plus(v.minus(uint128{0, 1}))
		}
		quotient, remainder := u.dividedBy(v)
		want, rest := new(big.Int).QuoRem(bigOf(u), bigOf(v), new(big.Int))
		require.Zero(t, want.Cmp(bigOf(quotient)), "%v ÷ %v", u, v)
		require.Zero(t, rest.Cmp(bigOf(remainder)), "%v mod %v", u, v)
	})
}

func TestRoundRefusesBeyond128Bits(t *testing.T) {
	// 2¹²⁸ units of 10⁻¹²: their low words alone are 0.
	x := Exact{product(uint128{1, 0}, uint128{one, 0})}
	_, ok := x.Round(Scale)
	require.False(t, ok)
	_, ok = x.Neg().Round(Scale)
	require.False(t, ok)
	require.False(t, x.InRange())
	require.False(t, x.Neg().InRange())
}

func TestTimesCheckedSeesEveryOverflow(t *testing.T) {
	for _, c := range []struct {
		u  uint128
		n  uint64
		ok bool
	}{
		{uint128{math.MaxUint64, math.MaxUint64}, 1, true},
		{uint128{1 << 62, math.MaxUint64}, 3, true},
		{uint128{1 << 63, 0}, 2, false},
		{uint128{math.MaxUint64 / 3, math.MaxUint64}, 3, false}, // only the carry overflows
	} {
		product, ok := c.u.timesChecked(c.n)
		require.Equal(t, c.ok, ok, c)
		if ok {
			want := new(big.Int).Mul(bigOf(c.u), new(big.Int).SetUint64(c.n))
			require.Zero(t, want.Cmp(bigOf(product)))
		}
	}
}

func TestMulCarriesBetweenWords(t *testing.T) {
	product, ok := FromBits(0, math.MaxUint64).Mul(FromBits(0, 1))
	require.True(t, ok)
	require.Equal(t, FromBits(0, 18446744), product, "(2⁶⁴ − 1) × 10⁻²⁴ at 12 places")
}

// wordEdges are the words where carries begin and end.
var wordEdges = []uint64{0, 1, one, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}

// eachUint256 calls visit with every combination of wordEdges.
func eachUint256(visit func(w3, w2, w1, w0 uint64)) {
	n := len(wordEdges)
	for i := range n * n * n * n {
		visit(wordEdges[i%n], wordEdges[i/n%n], wordEdges[i/n/n%n], wordEdges[i/n/n/n])
	}
}

func bigOf256(u uint256) *big.Int {
	n := new(big.Int).Mul(bigOf(uint128{u.w3, u.w2}), bigWord)
	return n.Mul(n, bigWord).Add(n, bigOf(uint128{u.w1, u.w0}))
}

func TestProductAtTheEdgesOfWords(t *testing.T) {
	eachUint256(func(a, b, c, d uint64) {
		m, n := uint128{a, b}, uint128{c, d}
		want := new(big.Int).Mul(bigOf(m), bigOf(n))
		require.Zero(t, want.Cmp(bigOf256(product(m, n))), "%v × %v", m, n)
	})
}

func TestDivisionAtTheEdgesOfWords(t *testing.T) {
	eachUint256(func(a, b, c, d uint64) {
		u := uint256{a, b, c, d}
		for _, n := range []uint64{1, 3, one, 1e19} {
			want := new(big.Int).Quo(bigOf256(u), new(big.Int).SetUint64(n))
			require.Zero(t, want.Cmp(bigOf256(u.over(n))), "%v ÷ %d", u, n)
		}
	})
}

// TestWithinKnowsWhatItSays: where it says that a sum is within a limit, it is; and it says so of
// usual amounts.
func TestWithinKnowsWhatItSays(t *testing.T) {
	part := rapid.Custom(func(t *rapid.T) Exact {
		if rapid.Bool().Draw(t, "usual") {
			return FromInt(rapid.Int64Range(0, 1e9).Draw(t, "units")).Exact()
		}
		return Product(anyDecimal().Draw(t, "a"), anyDecimal().Draw(t, "b"))
	})
	rapid.Check(t, func(t *rapid.T) {
		x, y, z := part.Draw(t, "x"), part.Draw(t, "y"), part.Draw(t, "z")
		limit := anyDecimal().Draw(t, "limit")
		sum, ok := x.Add(y)
		if ok {
			sum, ok = sum.Add(z)
		}
		if rounded, whole := sum.Round(Scale); ok && whole {
			limit = rapid.SampledFrom([]Decimal{limit, rounded}).Draw(t, "near")
		}
		if Within(limit, &x, &y, &z) {
			require.True(t, ok && sum.Cmp(limit.Exact()) <= 0)
		}
	})
	one, hundred := FromInt(1).Exact(), FromInt(100).Exact()
	require.True(t, Within(FromInt(102), &one, &hundred, &one))
	require.True(t, Within(Largest(), &one, &hundred, &one))
	require.False(t, Within(FromInt(101), &one, &hundred, &one))
	minus := one.Neg()
	require.False(t, Within(FromInt(102), &minus, &hundred, &one), "it is not plain")
}
