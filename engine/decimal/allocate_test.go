package decimal

import (
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAllocateAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places := rapid.IntRange(0, 4).Draw(t, "places")
		amount := anyDecimal().Draw(t, "amount").Round(places)
		weights := rapid.SliceOfN(anyDecimal(), 1, 6).Draw(t, "weights")
		total := new(big.Rat)
		for i, weight := range weights {
			weights[i] = weight.Abs()
			total.Add(total, rat(weights[i]))
		}
		shares, ok := Allocate(amount, places, weights)
		if total.Sign() == 0 || total.Cmp(rat(Largest())) > 0 {
			require.False(t, ok)
			return
		}
		require.True(t, ok)
		unit := new(big.Rat).SetFrac64(1, int64(pow10[places]))
		sum := new(big.Rat)
		for i, share := range shares {
			require.Equal(t, share.Round(places), share)
			sum.Add(sum, rat(share))
			fair := new(big.Rat).Mul(rat(amount), new(big.Rat).Quo(rat(weights[i]), total))
			off := fair.Sub(fair, rat(share))
			require.Negative(t, off.Abs(off).Cmp(unit), "a share is off by a unit or more")
		}
		require.Zero(t, sum.Cmp(rat(amount)))
	})
}

func TestAllocateGivesOddUnitsToLargestRemainders(t *testing.T) {
	for _, c := range []struct {
		amount  string
		places  int
		weights []int64
		want    []string
	}{
		{"0.05", 2, []int64{1, 1, 1}, []string{"0.02", "0.02", "0.01"}},
		{"-0.05", 2, []int64{1, 1, 1}, []string{"-0.02", "-0.02", "-0.01"}},
		{"0.05", 2, []int64{3, 3, 5}, []string{"0.02", "0.01", "0.02"}},
		{"1", 0, []int64{0, 1, 1}, []string{"0", "1", "0"}},
		{"0", 2, []int64{1, 2}, []string{"0", "0"}},
	} {
		weights := make([]Decimal, len(c.weights))
		for i, weight := range c.weights {
			weights[i] = FromInt(weight)
		}
		shares, ok := Allocate(MustParse(c.amount), c.places, weights)
		require.True(t, ok)
		got := slices.Collect(func(yield func(string) bool) {
			for _, share := range shares {
				if !yield(share.String()) {
					return
				}
			}
		})
		require.Equal(t, c.want, got, "%s by %v", c.amount, c.weights)
	}
}

func TestAllocateRefuses(t *testing.T) {
	single, negative := FromInt(1), FromInt(-1)
	for name, c := range map[string]struct {
		amount  string
		places  int
		weights []Decimal
	}{
		"no weights":      {"1", 2, nil},
		"all weights 0":   {"1", 2, []Decimal{{}, {}}},
		"negative weight": {"1", 2, []Decimal{FromInt(3), negative}},
		"parts of a unit": {"0.005", 2, []Decimal{single}},
		"13 places":       {"1", 13, []Decimal{single}},
		"heavy weights":   {"1", 2, []Decimal{Largest(), single}},
	} {
		_, ok := Allocate(MustParse(c.amount), c.places, c.weights)
		require.False(t, ok, name)
	}
}
