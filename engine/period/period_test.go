package period

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/decimal"
)

// at reads an instant; tests write them as people do.
func at(t require.TestingT, text string) int64 {
	instant, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return instant.UnixMilli()
}

// expected is the n-th boundary by the time package: the anchor's day in the n-th interval's
// month, or that month's last day.
func expected(c Cycle, n uint32) time.Time {
	anchor := time.UnixMilli(c.Anchor).UTC()
	month := int(anchor.Month()) + int(n)*int(c.IntervalMonths)
	last := time.Date(anchor.Year(), time.Month(month+1), 0, 0, 0, 0, 0, time.UTC).Day()
	return time.Date(anchor.Year(), time.Month(month), min(anchor.Day(), last), anchor.Hour(),
		anchor.Minute(), anchor.Second(), anchor.Nanosecond(), time.UTC)
}

func anyCycle(t *rapid.T) Cycle {
	// The longest first period of the year 9989 still ends in the year 9999.
	anchor := time.Date(rapid.IntRange(1970, 9989).Draw(t, "year"),
		time.Month(rapid.IntRange(1, 12).Draw(t, "month")),
		rapid.OneOf(rapid.IntRange(1, 31), rapid.IntRange(28, 31)).Draw(t, "day"),
		rapid.IntRange(0, 23).Draw(t, "hour"), 0, 0,
		rapid.IntRange(0, 999).Draw(t, "ms")*1e6, time.UTC)
	return Cycle{anchor.UnixMilli(), rapid.Uint32Range(1, MaxIntervalMonths).Draw(t, "months")}
}

func TestPeriodsAgreeWithTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyCycle(t)
		n := rapid.Uint32Range(0, 400).Draw(t, "n")
		p, ok := c.Period(n)
		require.Equal(t, expected(c, n+1).Year() <= 9999, ok)
		if !ok {
			return
		}
		require.Equal(t, expected(c, n).UnixMilli(), p.Start)
		require.Equal(t, expected(c, n+1).UnixMilli(), p.End)
		instant := rapid.Int64Range(p.Start, p.End-1).Draw(t, "instant")
		for _, inside := range []int64{p.Start, instant, p.End - 1} {
			holder, ok := c.At(inside)
			require.True(t, ok)
			require.Equal(t, p, holder, "the period that holds %d", inside)
		}
		if next, ok := c.Period(n + 1); ok {
			require.Equal(t, p.End, next.Start, "periods leave no gap")
		}
		require.Equal(t, time.UnixMilli(instant).UTC().Day(), DayOfMonth(instant))
	})
}

func TestEveryDayConvertsBothWays(t *testing.T) {
	for day := int64(0); day <= lastInstant/dayMS; day += 13 {
		c, want := civilOf(day*dayMS), time.UnixMilli(day*dayMS).UTC()
		require.Equal(t, [3]int{want.Year(), int(want.Month()), want.Day()},
			[3]int{c.year, c.month, c.day})
		require.Equal(t, day*dayMS, c.instant())
	}
	require.Equal(t, 31, DayOfMonth(-1), "1969-12-31")
	require.Equal(t, 1, DayOfMonth(-62_167_219_200_000), "0000-01-01")
}

func TestShortMonthsMoveNoLaterPeriod(t *testing.T) {
	c := Cycle{at(t, "2026-01-31T15:00:00Z"), 1}
	for n, start := range []string{
		"2026-01-31T15:00:00Z", "2026-02-28T15:00:00Z", "2026-03-31T15:00:00Z",
		"2026-04-30T15:00:00Z", "2026-05-31T15:00:00Z",
	} {
		p, ok := c.Period(uint32(n))
		require.True(t, ok)
		require.Equal(t, at(t, start), p.Start)
	}
	leap := Cycle{at(t, "2024-02-29T00:00:00Z"), 12}
	p, ok := leap.Period(4)
	require.True(t, ok)
	require.Equal(t, at(t, "2028-02-29T00:00:00Z"), p.Start)
	require.Equal(t, at(t, "2029-02-28T00:00:00Z"), p.End)
}

func TestOutOfRange(t *testing.T) {
	anchor := at(t, "2026-01-31T00:00:00Z")
	for name, c := range map[string]Cycle{
		"no interval":       {anchor, 0},
		"long interval":     {anchor, MaxIntervalMonths + 1},
		"before 1970":       {-1, 1},
		"after 9999":        {lastInstant + 1, 1},
		"ends in year 9999": {at(t, "9999-12-01T00:00:00Z"), 1},
	} {
		_, ok := c.Period(0)
		require.False(t, ok, name)
		_, ok = c.At(c.Anchor)
		require.False(t, ok, name)
	}
	c := Cycle{anchor, 120}
	_, ok := c.Period(math.MaxUint32)
	require.False(t, ok)
	for _, instant := range []int64{anchor - 1, math.MinInt64, math.MaxInt64, lastInstant} {
		_, ok = c.At(instant)
		require.False(t, ok, instant)
	}
}

func TestRemainingRatioAgreesWithBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, ok := anyCycle(t).Period(0)
		require.True(t, ok)
		instant := rapid.Int64Range(p.Start, p.End).Draw(t, "instant")
		got, ok := p.RemainingRatio(instant)
		require.True(t, ok)
		// FloatString rounds half away from zero, exactly.
		want := big.NewRat(p.End-instant, p.End-p.Start).FloatString(RatioPlaces)
		require.Equal(t, decimal.MustParse(want), got)
	})
}

func TestRemainingRatioAtTheEdges(t *testing.T) {
	p := Period{Start: 1000, End: 2000}
	for instant, want := range map[int64]string{
		0: "1", 1000: "1", 1001: "0.999", 1500: "0.5", 1999: "0.001", 2000: "0", 9000: "0",
	} {
		ratio, ok := p.RemainingRatio(instant)
		require.True(t, ok)
		require.Equal(t, want, ratio.String())
	}
	_, ok := Period{Start: 5, End: 5}.RemainingRatio(5)
	require.False(t, ok)
}

func TestNothingAllocates(t *testing.T) {
	c := Cycle{at(t, "2026-01-31T15:00:00Z"), 1}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		p, ok := c.At(c.Anchor + 100*dayMS)
		if ratio, fine := p.RemainingRatio(c.Anchor + 100*dayMS); !ok || !fine || ratio.IsZero() {
			t.Fatal(p, ratio)
		}
	}))
}

func BenchmarkAt(b *testing.B) {
	c := Cycle{at(b, "2026-01-31T15:00:00Z"), 1}
	for b.Loop() {
		if p, ok := c.At(c.Anchor + 1000*dayMS); !ok {
			b.Fatal(p)
		}
	}
}

// TestFormatAgreesWithTheTimePackage: for every instant that an API may name.
func TestFormatAgreesWithTheTimePackage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		instant := rapid.Int64Range(0, lastInstant).Draw(t, "instant")
		want := time.UnixMilli(instant).UTC().Format("2006-01-02T15:04:05.000Z")
		require.Equal(t, want, Format(instant))
	})
}
