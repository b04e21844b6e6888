package console

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
)

// TestAChartHasTheFeaturesUsedMost: and the exact sum of the others.
func TestAChartHasTheFeaturesUsedMost(t *testing.T) {
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	totals := &api.UsageTotals{By: "day", From: day, To: day.AddDate(0, 0, 2)}
	for i := range 10 {
		units := json.Number(strconv.Itoa(i) + ".25")
		totals.Series = append(totals.Series, api.UsageSeries{
			FeatureKey: "f" + strconv.Itoa(i), UsageUnits: units,
			Points: []api.UsagePoint{{Start: day.AddDate(0, 0, 1), UsageUnits: units}},
		})
	}
	c := usageChart(totals)
	var names []string
	for _, s := range c.Series {
		names = append(names, s.Name)
	}
	require.Equal(t, []string{"f9", "f8", "f7", "f6", "f5", "all others"}, names)
	require.Equal(t, []string{"0", "9.25"}, c.Series[0].Texts)
	require.Equal(t, []string{"0", "11.25"}, c.Series[5].Texts)
	require.Equal(t, []float64{0, 11.25}, c.Series[5].Values)
	totals.Series = totals.Series[:6]
	require.Len(t, usageChart(totals).Series, 6)
}

// TestTheOverviewsFigures: of the newest day, of denied checks alone, and of months.
func TestTheOverviewsFigures(t *testing.T) {
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	of := func(events ...int) (all []api.UsagePoint) {
		for i, n := range events {
			all = append(all, api.UsagePoint{Start: day.AddDate(0, 0, i), Events: n})
		}
		return all
	}
	checks := func(reason string, n int) api.ChecksSeries {
		return api.ChecksSeries{
			Reason: reason, Checks: n, Points: []api.ChecksPoint{{Start: day, Checks: n}},
		}
	}
	var d overviewData
	days := &api.UsageTotals{
		By: "day", From: day, To: day.AddDate(0, 0, 2), ChecksFrom: day.Add(time.Hour),
		Series: []api.UsageSeries{{Points: of(1, 2)}, {Points: of(10, 20)}},
		Checks: []api.ChecksSeries{
			checks(billing.ReasonAllowed.String(), 100), checks("customer_suspended", 3), checks("x", 4),
		},
	}
	d.use(days)
	require.Equal(t, []float64{11, 22}, d.Events.Points)
	require.Equal(t, 22, d.EventsToday)
	require.Equal(t, 7, d.Denied)
	require.Equal(t, []float64{7, 0}, d.Checks.Points)
	require.Equal(t, []int{7, 0}, []int{d.MaxDenied, d.DeniedToday})
	require.Equal(t, "Counted since 1 Mar 2026.", d.DeniedSince)
	days.ChecksFrom = days.To
	d.use(days)
	require.Equal(t, "Checks are still being counted.", d.DeniedSince)

	billed := func(amounts map[time.Month]json.Number) (all []api.RevenuePoint) {
		for month, amount := range amounts {
			year := 2026
			if month == time.December {
				year--
			}
			all = append(all, api.RevenuePoint{
				Start: time.Date(year, month, 1, 0, 0, 0, 0, time.UTC), Billed: amount,
			})
		}
		return all
	}
	for _, c := range []struct {
		end                   time.Month
		billed                map[time.Month]json.Number
		month, before, change string
	}{
		{time.February, map[time.Month]json.Number{1: "30", 12: "20"}, "30", "20", "+50 %"},
		{time.March, map[time.Month]json.Number{1: "20", 2: "15"}, "15", "20", "-25 %"},
		{time.March, map[time.Month]json.Number{2: "15"}, "15", "0", ""},
		{time.March, nil, "0", "0", ""},
	} {
		end := time.Date(2026, c.end, 1, 0, 0, 0, 0, time.UTC)
		s := revenueOf(api.RevenueSeries{Points: billed(c.billed)}, end)
		require.Equal(t, []string{c.month, c.before, c.change},
			[]string{string(s.Month), string(s.Before), s.Change})
	}
	d.earn(&api.UsageTotals{SuspendedSubscriptions: 2, Revenue: []api.RevenueSeries{
		{Currency: "CHF", PaidInvoices: 9},
		{Currency: "EUR", PastDueInvoices: 1},
		{Currency: "USD", PastDueInvoices: 3},
	}})
	require.Equal(t, []int{2, 4, 3}, []int{d.Suspended, d.PastDue, len(d.Revenue)})
	require.Equal(t, "EUR", d.LateIn, "somebody has not paid in it")
}

// TestWhatIsPaidAtOnceWasNotLate: a card pays an invoice that is due at once some seconds later.
// One that had time was late from its due date on.
func TestWhatIsPaidAtOnceWasNotLate(t *testing.T) {
	due := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		given, after time.Duration
		late         bool
	}{
		{0, time.Minute, false},
		{0, 25 * time.Hour, true},
		{30 * 24 * time.Hour, 23 * time.Hour, true},
		{30 * 24 * time.Hour, 0, false},
		{30 * 24 * time.Hour, -time.Hour, false},
	} {
		i := invoice{}
		i.Status, i.CreatedAt, i.DueDate, i.PaidAt = "PAID", due.Add(-c.given), due, due.Add(c.after)
		texts := ""
		for _, a := range billed(&visit{account: "demo", environment: "sandbox"}, &i) {
			texts += a.Text
		}
		require.Equal(t, c.late, strings.Contains(texts, "fell due"), c)
	}
}

// TestLateByLessThanADay is not said as 0 days.
func TestLateByLessThanADay(t *testing.T) {
	now := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for ago, want := range map[time.Duration]string{
		time.Hour: "less than a day", 30 * time.Hour: "1 day", 50 * time.Hour: "2 days",
	} {
		require.Equal(t, want,
			customersData{now: now}.DaysLate(api.StandingAmount{PastDueSince: now.Add(-ago)}))
	}
}

// TestBlockedFeatures: one that another subscription still allows is not blocked, and each counts
// once.
func TestBlockedFeatures(t *testing.T) {
	at := func(key string, allowed bool) entitlement {
		return entitlement{api.Entitlement{FeatureKey: key, IsAllowed: allowed}}
	}
	require.Equal(t, blockedFeatures{List: []entitlement{at("seats", false)}, Of: 3}, blocked([]entitlement{
		at("tokens", false), at("calls", true), at("tokens", true), at("seats", false), at("seats", false),
	}))
}

// TestPointsOfCustomers: of a feature units count, of all of them events, and sums are exact.
func TestPointsOfCustomers(t *testing.T) {
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	of := func(units ...json.Number) (s api.UsageSeries) {
		for i, n := range units {
			s.Points = append(s.Points, api.UsagePoint{
				Start: day.AddDate(0, 0, i), Events: i + 1, UsageUnits: n,
			})
		}
		return s
	}
	units := pointsOf([]api.UsageSeries{of("0.1", "0.2")}, "calls")
	require.Equal(t, "0.1", units[day.UnixMilli()].units.String())
	events := pointsOf([]api.UsageSeries{of("5", "7"), of("1", "1", "1")}, "")
	s := seriesOf("ada", events)
	require.Equal(t, []string{"2", "4", "3"}, []string{
		string(s.Points[0].UsageUnits), string(s.Points[1].UsageUnits), string(s.Points[2].UsageUnits),
	})
	require.Equal(t, 9, s.Events)
	split := &api.UsageTotals{Series: []api.UsageSeries{seriesOf("=ada", units)}}
	require.Equal(t, [][]string{
		{"start", "customer", "events", "units"},
		{"2026-03-01T00:00:00Z", "'=ada", "1", "0.1"},
		{"2026-03-02T00:00:00Z", "'=ada", "2", "0.2"},
	}, splitSheet(split, "calls").Rows())
	require.Equal(t, []string{"start", "customer", "events"}, splitSheet(split, "").Rows()[0])
}

// TestOthersAreNeverLessThanNothing: what arrives between two readings is in the second alone.
func TestOthersAreNeverLessThanNothing(t *testing.T) {
	three, five := bucketSum{events: 3, units: decimal.FromInt(3)}, bucketSum{
		events: 5, units: decimal.FromInt(5),
	}
	require.Equal(t, bucketSum{events: 2, units: decimal.FromInt(2)}, five.without(three))
	require.Equal(t, bucketSum{}, three.without(five))
}

// TestAFileIsCutWhileItIsRead: it holds no more rows than it will have, and says what is missing:
// rows without room, or pages that were not read.
func TestAFileIsCutWhileItIsRead(t *testing.T) {
	s := page.NewSheet("n")
	for i := range page.MaxSheetRows {
		s.Add(i)
	}
	require.Empty(t, s.Missing())
	for i := range 3 {
		s.Add(i)
	}
	require.Len(t, s.Rows(), page.MaxSheetRows+1)
	require.Contains(t, s.Missing(), "up to 10000 rows")

	type numbers struct {
		N    int    `json:"n"`
		Next string `json:"nextCursor"`
	}
	reads := 0
	read := func(next string) *page.Sheet {
		s, reads = page.NewSheet("n"), 0
		readAll(&visit{}, s, func(server.Call) server.Reply {
			reads++
			return server.Reply{Status: 200, Body: []byte(`{"data":{"n":7,"nextCursor":"` + next + `"}}`)}
		}, server.Call{}, func(p *numbers) string {
			if reads == 1 {
				s.Add(p.N)
			}
			return p.Next
		})
		return s
	}
	require.Empty(t, read("").Missing())
	require.Equal(t, [][]string{{"n"}, {"7"}}, s.Rows())
	require.Contains(t, read("more").Missing(), "not all of the list was searched")
	require.Equal(t, maxSheetReads, reads)
}

// TestRemediesAreSentences: the name of a chapter is cut only from the end of one.
func TestRemediesAreSentences(t *testing.T) {
	const within = "issue one (OPERATIONS.md, Certificates) and put it there"
	for do, want := range map[string]string{
		within:                                within,
		"make room: OPERATIONS.md, Disk full": "make room",
		"look again; then OPERATIONS.md, A node that is not ready": "look again",
		"OPERATIONS.md, Replace a node":                            "",
		"use another one":                                          "use another one",
	} {
		f := Finding{Do: do}
		require.Equal(t, want, f.Remedy())
		require.Equal(t, strings.Contains(do, "OPERATIONS.md"), f.Chapter().URL != "", do)
	}
}

// TestPeopleReadWhatProgramsNeed not: of the log, and of keys of requests that a page has made up.
func TestPeopleReadWhatProgramsNeed(t *testing.T) {
	for text, want := range map[string]string{
		"Nothing was recorded, and its key may be used again. agents, units of output-tokens, day: " +
			"1000 used and 2000.5 held of 12000. Log index 241.": "Nothing was recorded. agents, units " +
			"of output-tokens, day: 1,000 used and 2,000.5 held of 12,000.",
		"Nothing was recorded. Grant credits, and send it again; its key may be used again.": "Nothing " +
			"was recorded. Grant credits, and send it again.",
		"The subscription of calls-2026: used 0, held 1000, limit 2000; asked for 3000. Log index 9.": "" +
			"The subscription of calls-2026: used 0, held 1,000, limit 2,000; asked for 3,000.",
		"Team of 2026 ends on 2026-11-27.": "Team of 2026 ends on 2026-11-27.",
	} {
		require.Equal(t, want, forPeople(text))
	}
}
