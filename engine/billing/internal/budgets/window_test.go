package budgets_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/zone"
)

var zones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana",
	"Africa/Casablanca", "Asia/Beirut", "Asia/Kathmandu", "Pacific/Kiritimati",
}

// TestWindowsAreThoseOfTheCalendar: a window has one date, month or year by the clock on the wall,
// holds its instant, and begins where the one before ends.
func TestWindowsAreThoseOfTheCalendar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(zones).Draw(t, "zone")
		z := enginetest.Zone(name)
		place, err := time.LoadLocation(name)
		require.NoError(t, err)
		at := rapid.Int64Range(1_577_923_200_000, 2_800_000_000_000).Draw(t, "at")
		if z != nil && rapid.Bool().Draw(t, "near a change") && len(z.Changes) > 0 {
			at = z.Changes[rapid.IntRange(0, min(100, len(z.Changes)-1)).Draw(t, "change")].At +
				rapid.Int64Range(-90*60_000, 90*60_000).Draw(t, "off")
		}
		for w := budgets.WindowHour; w < budgets.WindowLifetime; w++ {
			start, end := w.Around(at, z)
			require.LessOrEqual(t, start, at, w)
			require.Less(t, at, end, w)
			from, until := w.Around(start, z)
			require.Equal(t, [2]int64{start, end}, [2]int64{from, until}, w)
			from, until = w.Around(end-1, z)
			require.Equal(t, [2]int64{start, end}, [2]int64{from, until}, w)
			_, until = w.Around(start-1, z)
			require.Equal(t, start, until, "%s: the one before ends where this begins", w)
			first := time.UnixMilli(start).In(place)
			last := time.UnixMilli(end - 1).In(place)
			switch w {
			case budgets.WindowHour:
				require.Equal(t, first.Hour(), last.Hour())
				require.LessOrEqual(t, end-start, int64(3_600_000))
			case budgets.WindowDay:
				requireSpan(t, z, first, last, 0)
			case budgets.WindowWeek:
				require.Equal(t, time.Monday, first.Weekday())
				requireSpan(t, z, first, last, 6)
			case budgets.WindowMonth:
				require.Equal(t, 1, first.Day())
				require.Equal(t, 1, time.UnixMilli(end).In(place).Day())
				require.Less(t, end-start, int64(32*24*3_600_000))
			default:
				require.Equal(t, 1, first.YearDay())
				require.Equal(t, 1, time.UnixMilli(end).In(place).YearDay())
				require.Less(t, end-start, int64(367*24*3_600_000))
			}
		}
	})
}

// requireSpan: the last instant of a window is so many dates after the first.
func requireSpan(t require.TestingT, z *zone.Zone, first, last time.Time, days int) {
	y, m, d := first.Date()
	want := time.Date(y, m, d+days, 0, 0, 0, 0, time.UTC)
	y, m, d = last.Date()
	require.Equal(t, want, time.Date(y, m, d, 0, 0, 0, 0, time.UTC), "%+v", z)
}

func instant(t *testing.T, text string) int64 {
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return at.UnixMilli()
}

func TestWindowsWhereTheClockIsChanged(t *testing.T) {
	for _, c := range []struct {
		zone, at, start, end string
		window               budgets.Window
	}{
		{"Europe/Berlin", "2027-03-28T10:00:00Z", "2027-03-27T23:00:00Z", "2027-03-28T22:00:00Z", budgets.WindowDay},
		{"Europe/Berlin", "2027-10-31T10:00:00Z", "2027-10-30T22:00:00Z", "2027-10-31T23:00:00Z", budgets.WindowDay},
		{"Europe/Berlin", "2027-10-31T00:30:00Z", "2027-10-31T00:00:00Z", "2027-10-31T01:00:00Z", budgets.WindowHour},
		{"Australia/Lord_Howe", "2027-04-03T15:10:00Z", "2027-04-03T15:00:00Z", "2027-04-03T15:30:00Z", budgets.WindowHour},
		// Midnight is skipped: the day begins at one.
		{"Asia/Beirut", "2027-03-28T10:00:00Z", "2027-03-27T22:00:00Z", "2027-03-28T21:00:00Z", budgets.WindowDay},
		{"Africa/Casablanca", "2027-01-10T10:00:00Z", "2026-12-31T23:00:00Z", "2027-01-31T23:00:00Z", budgets.WindowMonth},
		{"UTC", "2027-01-03T23:59:59Z", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z", budgets.WindowWeek},
		{"UTC", "2028-02-29T12:00:00Z", "2028-01-01T00:00:00Z", "2029-01-01T00:00:00Z", budgets.WindowYear},
	} {
		start, end := c.window.Around(instant(t, c.at), enginetest.Zone(c.zone))
		require.Equal(t, instant(t, c.start), start, "%s %s", c.zone, c.at)
		require.Equal(t, instant(t, c.end), end, "%s %s", c.zone, c.at)
	}
}
