package console

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"tollgate/engine/decimal"
	api "tollgate/sdk/go"
	"tollgate/server/console/page"
)

// splitCustomer is what the explorer's address has in "split" where its chart is by customer.
const splitCustomer = "customer"

// othersName is the series of all that have none of their own.
const othersName = "all others"

// byCustomer is the usage of a range by the customers who used most, each with a series as if it
// was a feature, and what all others used: of a feature its units, of all features, whose units do
// not add up, events.
func byCustomer(
	v *visit, totals *api.UsageTotals, customers []api.CustomerUsage, others int, feature string,
) *api.UsageTotals {
	split := api.UsageTotals{By: totals.By, From: totals.From, To: totals.To}
	rest := pointsOf(totals.Series, feature)
	room := page.MaxSeries
	for _, c := range customers {
		if c.Price != "" { // those whose usage adds nothing to a bill are not counted
			others++
			break
		}
	}
	if others > 0 || len(customers) > room {
		room--
	}
	for _, c := range customers[:min(len(customers), room)] {
		call, _ := v.usageCall()
		for name, value := range map[string]string{
			"customer": c.CustomerReferenceID, "by": totals.By,
			"from": written(totals.From), "to": written(totals.To),
		} {
			call.Query.Set(name, value)
		}
		points := pointsOf(need[api.UsageTotals](v, v.admin, call).Series, feature)
		for start, p := range points {
			rest[start] = rest[start].without(p)
		}
		split.Series = append(split.Series, seriesOf(c.CustomerReferenceID, points))
	}
	if room < page.MaxSeries {
		split.Series = append(split.Series, seriesOf(othersName, rest))
	}
	return &split
}

// bucketSum is what was used in a bucket.
type bucketSum struct {
	start  time.Time
	events int
	units  decimal.Decimal
}

// pointsOf adds up the buckets of series. Without a feature, their events are the units.
func pointsOf(all []api.UsageSeries, feature string) map[int64]bucketSum {
	points := map[int64]bucketSum{}
	for _, s := range all {
		for _, p := range s.Points {
			units, err := decimal.Parse(string(p.UsageUnits))
			if feature == "" || err != nil {
				units = decimal.FromInt(int64(p.Events))
			}
			at := points[p.Start.UnixMilli()]
			sum, _ := at.units.Add(units) // no count of units comes near the largest number
			points[p.Start.UnixMilli()] = bucketSum{p.Start, at.events + p.Events, sum}
		}
	}
	return points
}

// without is what is left of a bucket without a part of it. The part is read later: what arrived in
// between is in it alone, and leaves nothing, not less.
func (b bucketSum) without(part bucketSum) bucketSum {
	units, _ := b.units.Sub(part.units) // no count of units comes near the largest number
	return bucketSum{part.start, max(b.events-part.events, 0), decimal.Max(units, decimal.Decimal{})}
}

// seriesOf is a series with the buckets in which something was used.
func seriesOf(name string, points map[int64]bucketSum) (s api.UsageSeries) {
	s.FeatureKey = name
	sum := decimal.Decimal{}
	for _, p := range slices.SortedFunc(maps.Values(points), func(a, b bucketSum) int {
		return cmp.Compare(a.start.UnixMilli(), b.start.UnixMilli())
	}) {
		if p.events == 0 && p.units.IsZero() {
			continue
		}
		s.Events += p.events
		sum, _ = sum.Add(p.units)
		s.Points = append(s.Points, api.UsagePoint{
			Start: p.start, Events: p.events, UsageUnits: json.Number(p.units.String()),
		})
	}
	s.UsageUnits = json.Number(sum.String())
	return s
}

// splitSheet is the chart's figures: with units where they are of one feature.
func splitSheet(split *api.UsageTotals, feature string) *page.Sheet {
	head := []string{"start", "customer", "events"}
	if feature != "" {
		head = append(head, "units")
	}
	sheet := page.NewSheet(head...)
	for _, s := range split.Series {
		for _, p := range s.Points {
			row := []any{p.Start.UTC().Format(time.RFC3339), s.FeatureKey, p.Events}
			if feature != "" {
				row = append(row, p.UsageUnits)
			}
			sheet.Add(row...)
		}
	}
	return sheet
}
