package rollup_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"tollgate/engine/decimal"
	"tollgate/engine/rollup"
)

// BenchmarkTally counts a segment's events: 93,000 of so many customers, each also for their
// environment.
func BenchmarkTally(b *testing.B) {
	const events = 93_000
	for _, customers := range []int{1000, 1_000_000} {
		random := rand.New(rand.NewPCG(1, 2))
		owners := make([]uint64, events)
		for i := range owners {
			owners[i] = uint64(1 + random.IntN(customers))
		}
		b.Run(fmt.Sprint(customers), func(b *testing.B) {
			for b.Loop() {
				var tally rollup.Tally
				for _, owner := range owners {
					for _, o := range [...]uint64{owner, rollup.Environment(1)} {
						tally.Add(rollup.Cell{
							Key: rollup.Key{Owner: o, Item: 1, Hour: 400_000}, Events: 1, Units: decimal.FromInt(3),
						})
					}
				}
				tally.Cells()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/event")
		})
	}
}
