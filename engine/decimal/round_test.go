package decimal

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRoundingAgreesWithBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyDecimal().Draw(t, "a"), anyDecimal().Draw(t, "b")
		places := rapid.IntRange(0, Scale).Draw(t, "places")
		same := func(name string, got Decimal, ok bool, exact *big.Rat, to int) {
			want, fits := rounded(exact, to)
			require.Equal(t, fits, ok, name)
			if ok {
				require.Equal(t, want, got, name)
			}
		}
		product := new(big.Rat).Mul(rat(a), rat(b))
		got, ok := a.Mul(b)
		same("mul", got, ok, product, Scale)
		got, ok = a.MulRound(b, places)
		same("mulRound", got, ok, product, places)
		same("round", a.Round(places), true, rat(a), places)
		part, whole := rapid.Int64().Draw(t, "part"), rapid.Int64Min(1).Draw(t, "whole")
		got, ok = Ratio(part, whole, places)
		same("ratio", got, ok, big.NewRat(part, whole), places)
	})
}

func TestRoundHalvesLeaveZero(t *testing.T) {
	for _, c := range []struct {
		amount string
		places int
		want   string
	}{
		{"0.005", 2, "0.01"},
		{"-0.005", 2, "-0.01"},
		{"0.004999999999", 2, "0"},
		{"-0.004999999999", 2, "0"},
		{"2.5", 0, "3"},
		{"-2.5", 0, "-3"},
		{"1.2345", 3, "1.235"},
		{"1.000000000001", 12, "1.000000000001"},
		{"1.5", 99, "1.5"},
		{"1.5", -1, "2"},
	} {
		amount := MustParse(c.amount)
		require.Equal(t, c.want, amount.Round(c.places).String(), c.amount)
		fromExact, ok := amount.Exact().Round(c.places)
		require.True(t, ok)
		require.Equal(t, c.want, fromExact.String(), c.amount)
	}
}

func TestRatioRefusesNoWhole(t *testing.T) {
	for _, whole := range []int64{0, -1} {
		_, ok := Ratio(1, whole, 8)
		require.False(t, ok)
	}
}

func TestCeilDivAgreesWithBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyDecimal().Draw(t, "a"), anyDecimal().Draw(t, "b")
		got, ok := a.CeilDiv(b)
		if a.Sign() < 0 || b.Sign() <= 0 {
			require.False(t, ok)
			return
		}
		n, rest := new(big.Int).QuoRem(integer(a), integer(b), new(big.Int))
		if rest.Sign() > 0 {
			n.Add(n, big.NewInt(1))
		}
		want, fits := decimalOf(n.Mul(n, big.NewInt(one)))
		require.Equal(t, fits, ok)
		if ok {
			require.Equal(t, want, got)
		}
	})
}

func TestExactAgreesWithBig(t *testing.T) {
	anyExact := rapid.Custom(func(t *rapid.T) Exact {
		return Product(anyDecimal().Draw(t, "left"), anyDecimal().Draw(t, "right"))
	})
	rapid.Check(t, func(t *rapid.T) {
		x, y := anyExact.Draw(t, "x"), anyExact.Draw(t, "y")
		places := rapid.IntRange(0, Scale).Draw(t, "places")
		sum, ok := x.Add(y)
		require.True(t, ok)
		require.Zero(t, ratExact(sum).Cmp(new(big.Rat).Add(ratExact(x), ratExact(y))))
		difference, ok := x.Sub(y)
		require.True(t, ok)
		require.Zero(t, ratExact(difference).Cmp(new(big.Rat).Sub(ratExact(x), ratExact(y))))
		require.Equal(t, ratExact(x).Cmp(ratExact(y)), x.Cmp(y))
		require.Equal(t, ratExact(x).Sign(), x.Sign())
		require.Equal(t, new(big.Rat).Abs(ratExact(x)).Cmp(rat(Largest())) <= 0, x.InRange())
		got, ok := sum.Round(places)
		want, fits := rounded(ratExact(sum), places)
		require.Equal(t, fits, ok)
		if ok {
			require.Equal(t, want, got)
		}
	})
}

func TestExactReportsOverflow(t *testing.T) {
	sum := Product(Largest(), Largest())
	for range 15 {
		var ok bool
		sum, ok = sum.Add(sum)
		require.True(t, ok)
	}
	for _, x := range []Exact{sum, sum.Neg()} {
		_, ok := x.Add(x)
		require.False(t, ok)
		_, ok = x.Sub(x.Neg())
		require.False(t, ok)
		_, ok = x.Round(2)
		require.False(t, ok)
		_, ok = x.Sub(x)
		require.True(t, ok)
	}
}

func TestFloorDivAgreesWithBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyDecimal().Draw(t, "a"), anyDecimal().Draw(t, "b")
		got, ok := a.FloorDiv(b)
		if a.Sign() < 0 || b.Sign() <= 0 {
			require.False(t, ok)
			return
		}
		scaled := new(big.Int).Mul(integer(a), big.NewInt(one))
		want, inRange := decimalOf(scaled.Quo(scaled, integer(b)))
		require.Equal(t, inRange, ok)
		if ok {
			require.Equal(t, want, got)
		}
	})
}
