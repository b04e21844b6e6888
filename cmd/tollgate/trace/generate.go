package trace

import (
	"math"
	"math/rand/v2"
	"time"
)

// Generate makes a trace of n requests. The same seed gives the same rows, and a longer trace
// begins with the rows of a shorter one. Sizes and gaps follow the shape of the published code
// trace: long contexts (median about 1,500 tokens, at most 7,437), short answers (median about 13,
// at most 1,899), two or three requests a second.
func Generate(n int, seed uint64) []Row {
	random := rand.New(rand.NewPCG(seed, 0x746f6c6c67617465))
	at := time.Date(2026, time.January, 5, 9, 0, 0, 0, time.UTC)
	rows := make([]Row, n)
	for i := range rows {
		at = at.Add(time.Duration(random.ExpFloat64() * 400 * float64(time.Millisecond)))
		rows[i] = Row{
			Time:      at.Format(TimeLayout + ".0000000"),
			Context:   logNormal(random, 1500, 0.9, 7437),
			Generated: logNormal(random, 13, 1.0, 1899),
		}
	}
	return rows
}

// logNormal draws a whole number of at least 1 and at most limit.
func logNormal(random *rand.Rand, median, spread float64, limit uint64) uint64 {
	drawn := math.Round(median * math.Exp(spread*random.NormFloat64()))
	return min(max(uint64(drawn), 1), limit)
}
