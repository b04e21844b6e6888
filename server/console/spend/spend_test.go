package spend_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	api "tollgate/sdk/go"
	"tollgate/server/console/spend"
)

// TestPastWindowsHaveTheirOwnClock: a day of Berlin begins before that of UTC, and is called by its
// own date.
func TestPastWindowsHaveTheirOwnClock(t *testing.T) {
	labels := func(zone string, at ...time.Time) ([]string, string) {
		var windows []api.BudgetWindow
		for _, start := range at {
			windows = append(windows, api.BudgetWindow{WindowStart: start, Used: "1", Limit: "2"})
		}
		l := api.BudgetLimit{Used: "0", Held: "0"}
		l.Of, l.Window, l.Limit, l.TimeZone = "cost", "day", "2", zone
		c := spend.Past(spend.LimitOf(l), windows)
		return c.Labels, c.Title
	}
	summer := time.Date(2026, 7, 1, 22, 0, 0, 0, time.UTC)
	winter := time.Date(2026, 1, 1, 23, 0, 0, 0, time.UTC)
	got, title := labels("Europe/Berlin", summer, winter)
	require.Equal(t, []string{"2026-01-02", "2026-07-02"}, got)
	require.Equal(t, "Used, cost, each day, in Europe/Berlin", title)
	got, title = labels("UTC", summer.Truncate(24*time.Hour))
	require.Equal(t, []string{"2026-07-01"}, got)
	require.Equal(t, "Used, cost, each day", title)
}

// TestWindowsEndByTheirOwnClock: and say which.
func TestWindowsEndByTheirOwnClock(t *testing.T) {
	var l api.BudgetLimit
	l.TimeZone = "Europe/Berlin"
	require.Empty(t, spend.LimitOf(l).Until())
	l.WindowEnd = time.Date(2027, 3, 7, 23, 0, 0, 0, time.UTC)
	require.Equal(t, "2027-03-08 00:00 Europe/Berlin", spend.LimitOf(l).Until())
	l.TimeZone = "UTC"
	require.Equal(t, "2027-03-07 23:00 UTC", spend.LimitOf(l).Until())
}
