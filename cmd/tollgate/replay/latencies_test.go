package replay

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuantilesAreWithinTwoPercentOfTheTruth(t *testing.T) {
	pick := rand.New(rand.NewPCG(1, 2))
	for _, longest := range []time.Duration{0, 50 * time.Microsecond, time.Second, 20 * time.Minute} {
		var l latencies
		require.Zero(t, l.quantile(0.5))
		var all []time.Duration
		for range 5000 {
			d := time.Duration(float64(longest) * pick.Float64() * pick.Float64())
			d = d.Truncate(time.Microsecond)
			all = append(all, d)
			l.add(d)
		}
		slices.Sort(all)
		for _, part := range []float64{0.5, 0.99, 1} {
			exact := all[int(part*float64(len(all)))-1]
			got := l.quantile(part)
			require.GreaterOrEqual(t, got, exact)
			require.InDelta(t, exact, got, float64(exact)/50+float64(time.Microsecond)/2)
		}
	}
	var l latencies
	l.add(1 << 62)
	l.add(-1)
	require.Zero(t, l.quantile(0.5))
	require.Greater(t, l.quantile(1), 140*365*24*time.Hour)
}
