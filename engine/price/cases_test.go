package price_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/decimal"
	"tollgate/engine/period"
	"tollgate/engine/price"
)

type worked = enginetest.Worked

var number = enginetest.WorkedNumber

// kinds maps each kind of case to its proof.
var kinds = map[string]func(*testing.T, *worked){
	"graduated":                    quantityCase,
	"volume":                       quantityCase,
	"package":                      quantityCase,
	"graduated_accumulate":         accumulateCase,
	"per_unit_periodic_cumulative": readingsCase,
	"per_unit_events":              eventsCase,
	"billing_period":               billingPeriodCase,
	"proration":                    prorationCase,
	"round":                        roundCase,
	"allocate":                     allocateCase,
	"late_usage":                   lateUsageCase,
	"period_boundary":              periodBoundaryCase,
}

// elsewhere are the kinds that these packages cannot state.
var elsewhere = map[string]string{
	"credit_burn": "grants and their order belong to credit pools",
	"rollover":    "rollover policies belong to credit pools",
}

func TestWorkedCases(t *testing.T) {
	cases := enginetest.WorkedCases(t, "../testdata/billing-cases.json")
	proved, left, seen := 0, 0, map[string]bool{}
	for i := range cases {
		c := &cases[i]
		seen[c.Kind] = true
		if elsewhere[c.Kind] != "" {
			left++
			continue
		}
		prove, ok := kinds[c.Kind]
		require.True(t, ok, "case %s is of the unknown kind %q", c.ID, c.Kind)
		if t.Run(c.Kind+"/"+c.ID, func(t *testing.T) { prove(t, c) }) {
			proved++
		}
	}
	require.Equal(t, len(cases), proved+left, "every case is proved or belongs elsewhere")
	require.Len(t, seen, len(kinds)+len(elsewhere), "every kind named here has a case")
	require.Equal(t, 5, left, "cases that belong elsewhere")
}

func places(t *testing.T, c *worked) int {
	n, ok := decimal.MinorUnits(c.Currency)
	require.True(t, ok, c.Currency)
	return n
}

// requireAmount compares an amount with one of the case, and checks that it is in minor units.
func requireAmount(t *testing.T, c *worked, want string, got decimal.Decimal) {
	require.Equal(t, number(t, want), got, "got %s", got)
	require.Equal(t, got, got.Round(places(t, c)))
}

// model is the case's pricing model, without Problems.
func model(t *testing.T, c *worked) *price.Model {
	m := &price.Model{}
	name := strings.TrimSuffix(c.Kind, "_accumulate")
	switch {
	case c.PackageSize != "":
		m.PackageSize, m.PricePerPackage = number(t, c.PackageSize), number(t, c.PricePerPackage)
	case c.PricePerUnit != "":
		name, m.PricePerUnit = "per_unit", number(t, c.PricePerUnit)
	}
	for _, tier := range c.Tiers {
		next := price.Tier{
			Infinite:     tier.UpTo == "inf",
			PricePerUnit: number(t, tier.PricePerUnit),
			FlatFee:      number(t, tier.FlatFee),
		}
		if upTo, ok := tier.UpTo.(float64); ok {
			next.UpTo = decimal.FromInt(int64(upTo))
		}
		m.Tiers = append(m.Tiers, next)
	}
	pricingType := "usage_based"
	if name == "graduated" {
		pricingType = name
	}
	var ok bool
	m.Kind, ok = price.KindOf(pricingType, name)
	require.True(t, ok, name)
	require.Empty(t, price.Problems(m))
	return m
}

func line(t *testing.T, c *worked, quantity string) decimal.Decimal {
	amount, err := price.Line(model(t, c), number(t, quantity), places(t, c))
	require.NoError(t, err)
	return amount
}

func quantityCase(t *testing.T, c *worked) {
	requireAmount(t, c, enginetest.WorkedExpect[string](t, c), line(t, c, c.Quantity))
}

func accumulateCase(t *testing.T, c *worked) {
	before := number(t, c.Before)
	after, ok := before.Add(number(t, c.Quantity))
	require.True(t, ok)
	amount, err := price.Delta(model(t, c), before, after, places(t, c))
	require.NoError(t, err)
	requireAmount(t, c, enginetest.WorkedExpect[string](t, c), amount)
}

func readingsCase(t *testing.T, c *worked) {
	want := enginetest.WorkedExpect[[]string](t, c)
	require.Len(t, want, len(c.Readings))
	var before decimal.Decimal
	for i, reading := range c.Readings {
		after := number(t, reading)
		amount, err := price.Delta(model(t, c), before, after, places(t, c))
		require.NoError(t, err)
		requireAmount(t, c, want[i], amount)
		before = after
	}
}

func eventsCase(t *testing.T, c *worked) {
	var count int
	require.NoError(t, json.Unmarshal(c.Events, &count))
	var counter decimal.Decimal
	for range count {
		var ok bool
		counter, ok = counter.Add(number(t, c.UnitsEach))
		require.True(t, ok)
	}
	requireAmount(t, c, enginetest.WorkedExpect[string](t, c), line(t, c, counter.String()))
}

func billingPeriodCase(t *testing.T, c *worked) {
	want := enginetest.WorkedExpect[struct{ Start, End time.Time }](t, c)
	cycle := period.Cycle{Anchor: c.Anchor.UnixMilli(), IntervalMonths: c.IntervalMonths}
	got, ok := cycle.At(c.At.UnixMilli())
	require.True(t, ok)
	require.Equal(t, want.Start, time.UnixMilli(got.Start).UTC())
	require.Equal(t, want.End, time.UnixMilli(got.End).UTC())
}

func prorationCase(t *testing.T, c *worked) {
	want := enginetest.WorkedExpect[struct{ Credit, Charge, Net string }](t, c)
	p := period.Period{Start: c.PeriodStart.UnixMilli(), End: c.PeriodEnd.UnixMilli()}
	ratio, ok := p.RemainingRatio(c.At.UnixMilli())
	require.True(t, ok)
	credit, ok := number(t, c.OldPrice).Neg().MulRound(ratio, places(t, c))
	require.True(t, ok)
	charge, ok := number(t, c.NewPrice).MulRound(ratio, places(t, c))
	require.True(t, ok)
	net, ok := credit.Add(charge)
	require.True(t, ok)
	requireAmount(t, c, want.Credit, credit)
	requireAmount(t, c, want.Charge, charge)
	requireAmount(t, c, want.Net, net)
}

func roundCase(t *testing.T, c *worked) {
	requireAmount(t, c, enginetest.WorkedExpect[string](t, c), number(t, c.Amount).Round(places(t, c)))
}

func allocateCase(t *testing.T, c *worked) {
	want := enginetest.WorkedExpect[[]string](t, c)
	weights := make([]decimal.Decimal, len(c.Weights))
	for i, weight := range c.Weights {
		weights[i] = decimal.FromInt(weight)
	}
	shares, ok := decimal.Allocate(number(t, c.Amount), places(t, c), weights)
	require.True(t, ok)
	require.Len(t, shares, len(want))
	for i, share := range shares {
		requireAmount(t, c, want[i], share)
	}
}

// lateUsageCase: the late units are a Delta line of the period that they belong to, on the
// invoice of the period that they arrive in. The case counts periods from 1.
func lateUsageCase(t *testing.T, c *worked) {
	want := enginetest.WorkedExpect[struct {
		Invoice1, Invoice2, Invoice3, AdjustmentAmount string
		AdjustmentLineForPeriod                        int
	}](t, c)
	invoices := make([]decimal.Decimal, len(c.Periods))
	for i, units := range c.Periods {
		invoices[i] = line(t, c, units)
	}
	require.Equal(t, want.AdjustmentLineForPeriod, c.Late.Period)
	billed := number(t, c.Periods[c.Late.Period-1])
	whole, ok := billed.Add(number(t, c.Late.Units))
	require.True(t, ok)
	adjustment, err := price.Delta(model(t, c), billed, whole, places(t, c))
	require.NoError(t, err)
	requireAmount(t, c, want.AdjustmentAmount, adjustment)
	on := &invoices[c.Late.ArrivesIn-1]
	*on, ok = on.Add(adjustment)
	require.True(t, ok)
	for i, amount := range []string{want.Invoice1, want.Invoice2, want.Invoice3} {
		requireAmount(t, c, amount, invoices[i])
	}
}

// periodBoundaryCase: an event at the start is this period's, one at the end is the next one's.
func periodBoundaryCase(t *testing.T, c *worked) {
	want := enginetest.WorkedExpect[struct{ ThisInvoice, NextInvoice string }](t, c)
	var events []struct{ Units, At string }
	require.NoError(t, json.Unmarshal(c.Events, &events))
	cycle := period.Cycle{Anchor: 1_700_000_000_000, IntervalMonths: 1}
	this, ok := cycle.Period(4)
	require.True(t, ok)
	instants := map[string]int64{"periodStart": this.Start, "periodEnd": this.End}
	counters := map[uint32]decimal.Decimal{}
	for _, event := range events {
		instant, ok := instants[event.At]
		require.True(t, ok, event.At)
		holder, ok := cycle.At(instant)
		require.True(t, ok)
		counters[holder.Number], ok = counters[holder.Number].Add(number(t, event.Units))
		require.True(t, ok)
	}
	requireAmount(t, c, want.ThisInvoice, line(t, c, counters[this.Number].String()))
	requireAmount(t, c, want.NextInvoice, line(t, c, counters[this.Number+1].String()))
}
