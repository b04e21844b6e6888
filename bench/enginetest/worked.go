package enginetest

import (
	"cmp"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// Worked is one worked billing case; each kind has its own part of the fields.
type Worked struct {
	ID, Kind, Currency string
	Tiers              []struct {
		UpTo                  any // a number, or "inf"
		PricePerUnit, FlatFee string
	}
	Quantity, Before, Amount, PricePerUnit string
	PackageSize, PricePerPackage           string
	UnitsEach, OldPrice, NewPrice          string
	At, Anchor, PeriodStart, PeriodEnd     time.Time
	IntervalMonths                         uint32
	Readings, Periods                      []string
	Weights                                []int64
	Events                                 json.RawMessage
	Late                                   struct {
		Period, ArrivesIn int
		Units             string
	}
	WorkedCredits
	Expect json.RawMessage
}

// WorkedCredits is what a worked case says of credits.
type WorkedCredits struct {
	Grants []struct {
		ID, Amount string
		Priority   int64
		ExpiresAt  time.Time
	}
	Consume, Policy, Cap, Balance string
}

// Biller is what worked cases are played against, a machine or a server: one customer of a sandbox.
type Biller interface {
	// Begin makes an account that sells doc, and at an instant of its sandbox a customer that
	// subscribes to the document's first plan. Usage may come 100 days late.
	Begin(doc billing.CatalogDocument, at time.Time)
	// Advance moves the sandbox's clock on, and carries out what is due.
	Advance(to time.Time)
	// Use records units of the feature "usage" that occurred at an instant.
	Use(units string, at time.Time)
	Upgrade(plan string)
	// Invoices are the customer's, oldest first; Period is its subscription's.
	Invoices() []WorkedInvoice
	Period() (start, end time.Time)
	// Grant makes the pool "pool" if there is none, and grants credits to it; never where expires
	// is zero. Remaining is what the grant of a name still holds; Pool is the pool of any name.
	Grant(name, amount string, priority int64, expires time.Time)
	Remaining(name string) decimal.Decimal
	Pool() (balance, expired decimal.Decimal)
}

// WorkedInvoice is what cases ask of an invoice.
type WorkedInvoice struct {
	Type   string // IN_ADVANCE_INITIAL, REGULAR, ADJUSTMENT
	Amount decimal.Decimal
	Lines  []WorkedLine
}

// WorkedLine is what cases ask of an invoice's line. Feature is empty for a price.
type WorkedLine struct {
	Feature    string
	Amount     decimal.Decimal
	Start, End time.Time
}

// usage is the sum of an invoice's lines for usage.
func (v *WorkedInvoice) usage() (total decimal.Decimal) {
	for _, line := range v.Lines {
		if line.Feature != "" {
			total, _ = total.Add(line.Amount)
		}
	}
	return total
}

// workedKinds says how each kind of case is played.
var workedKinds = map[string]func(*testing.T, *Worked, Biller){
	"graduated":                    playQuantity,
	"volume":                       playQuantity,
	"package":                      playQuantity,
	"graduated_accumulate":         playAccumulate,
	"per_unit_periodic_cumulative": playReadings,
	"per_unit_events":              playEvents,
	"billing_period":               playPeriod,
	"proration":                    playProration,
	"round":                        playRound,
	"credit_burn":                  playBurn,
	"rollover":                     playRollover,
	"late_usage":                   playLate,
	"period_boundary":              playBoundary,
}

// WorkedCases are the cases of a file.
func WorkedCases(t *testing.T, path string) []Worked {
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var file struct{ Cases []Worked }
	require.NoError(t, json.Unmarshal(raw, &file))
	require.Equal(t, strings.Count(string(raw), `"kind":`), len(file.Cases))
	return file.Cases
}

// PlayWorkedCases plays the cases of a file that pick chooses, each against a new Biller, and
// returns how many it played. The kind "allocate" is left out: no command divides an amount
// (engine/price has those cases).
func PlayWorkedCases(
	t *testing.T, path string, pick func(*Worked) bool, begin func(*testing.T) Biller,
) (played int) {
	cases := WorkedCases(t, path)
	for i := range cases {
		c := &cases[i]
		if c.Kind == "allocate" || !pick(c) {
			continue
		}
		play := workedKinds[c.Kind]
		require.NotNil(t, play, "case %s is of the unknown kind %q", c.ID, c.Kind)
		played++
		t.Run(c.Kind+"/"+c.ID, func(t *testing.T) { play(t, c, begin(t)) })
	}
	return played
}

// workedStart is where the sandbox of a case begins that names no date.
var workedStart = time.Date(2025, 1, 10, 12, 0, 0, 0, time.UTC)

// WorkedExpect decodes what a case expects.
func WorkedExpect[T any](t *testing.T, c *Worked) (want T) {
	require.NoError(t, json.Unmarshal(c.Expect, &want))
	return want
}

// WorkedNumber is a number of a case.
func WorkedNumber(t *testing.T, text string) decimal.Decimal {
	d, err := decimal.ParseLoose(text)
	require.NoError(t, err, text)
	return d
}

func requireWorked(t *testing.T, want string, got decimal.Decimal) {
	require.Equal(t, WorkedNumber(t, want), got, "got %s", got)
}

// document is a catalog whose plan "plan" has the feature "usage", priced as the case says.
func (c *Worked) document(t *testing.T) billing.CatalogDocument {
	f := billing.PlanFeatureDocument{Key: "usage", PricingType: "usage_based"}
	switch {
	case strings.HasPrefix(c.Kind, "graduated"):
		f.PricingType = "graduated"
	case c.PackageSize != "":
		f.Pricing.Model = "package"
		f.Pricing.PackageSize = WorkedNumber(t, c.PackageSize)
		f.Pricing.PricePerPackage = WorkedNumber(t, c.PricePerPackage)
	case c.Kind == "volume":
		f.Pricing.Model = "volume"
	case c.PricePerUnit != "":
		f.Pricing.PricePerUnit = WorkedNumber(t, c.PricePerUnit)
	}
	for _, tier := range c.Tiers {
		next := billing.TierDocument{
			Infinite: tier.UpTo == "inf", PricePerUnit: WorkedNumber(t, tier.PricePerUnit),
			FlatFee: WorkedNumber(t, tier.FlatFee),
		}
		if upTo, ok := tier.UpTo.(float64); ok {
			next.UpTo = decimal.FromInt(int64(upTo))
		}
		f.Pricing.Tiers = append(f.Pricing.Tiers, next)
	}
	currency, months := c.Currency, c.IntervalMonths
	currency = cmp.Or(currency, "USD")
	months = cmp.Or(months, 1)
	return billing.CatalogDocument{
		Features: []billing.FeatureDocument{{Key: "usage"}},
		Plans: []billing.PlanDocument{{
			Key: "plan", Currency: currency, IntervalMonths: months,
			Features: []billing.PlanFeatureDocument{f},
		}},
	}
}

// month is the instant that many periods after workedStart.
func month(n int) time.Time { return workedStart.AddDate(0, n, 0) }

func playQuantity(t *testing.T, c *Worked, b Biller) {
	b.Begin(c.document(t), workedStart)
	b.Use(c.Quantity, workedStart)
	b.Advance(month(1))
	all := b.Invoices()
	require.Len(t, all, 2)
	requireWorked(t, WorkedExpect[string](t, c), all[1].usage())
	requireWorked(t, WorkedExpect[string](t, c), all[1].Amount)
}

func playAccumulate(t *testing.T, c *Worked, b Biller) {
	doc := c.document(t)
	doc.Plans[0].Features[0].Pricing.ResetMode = "accumulate"
	b.Begin(doc, workedStart)
	b.Use(c.Before, workedStart)
	b.Advance(month(1))
	b.Use(c.Quantity, month(1))
	b.Advance(month(2))
	all := b.Invoices()
	require.Len(t, all, 3)
	requireWorked(t, WorkedExpect[string](t, c), all[2].usage())
}

func playReadings(t *testing.T, c *Worked, b Biller) {
	doc := c.document(t)
	doc.Plans[0].Features[0].Pricing.ResetMode = "accumulate"
	b.Begin(doc, workedStart)
	before := decimal.Decimal{}
	for i, reading := range c.Readings {
		units, ok := WorkedNumber(t, reading).Sub(before)
		require.True(t, ok)
		before = WorkedNumber(t, reading)
		b.Use(units.String(), month(i))
		b.Advance(month(i + 1))
	}
	for i, want := range WorkedExpect[[]string](t, c) {
		requireWorked(t, want, b.Invoices()[i+1].usage())
	}
}

func playEvents(t *testing.T, c *Worked, b Biller) {
	var count int
	require.NoError(t, json.Unmarshal(c.Events, &count))
	b.Begin(c.document(t), workedStart)
	for range count {
		b.Use(c.UnitsEach, workedStart)
	}
	b.Advance(month(1))
	requireWorked(t, WorkedExpect[string](t, c), b.Invoices()[1].usage())
}

func playPeriod(t *testing.T, c *Worked, b Biller) {
	want := WorkedExpect[struct{ Start, End time.Time }](t, c)
	b.Begin(c.document(t), c.Anchor)
	b.Advance(c.At)
	start, end := b.Period()
	require.Equal(t, want.Start, start)
	require.Equal(t, want.End, end)
}

func playProration(t *testing.T, c *Worked, b Biller) {
	want := WorkedExpect[struct{ Credit, Charge, Net string }](t, c)
	doc := c.document(t)
	dear := doc.Plans[0]
	dear.Key, dear.PriceAmount = "dear", WorkedNumber(t, c.NewPrice)
	doc.Plans[0].PriceAmount = WorkedNumber(t, c.OldPrice)
	doc.Plans = append(doc.Plans, dear)
	b.Begin(doc, c.PeriodStart)
	start, end := b.Period()
	require.Equal(t, [2]time.Time{c.PeriodStart, c.PeriodEnd}, [2]time.Time{start, end})
	b.Advance(c.At)
	b.Upgrade("dear")
	all := b.Invoices()
	require.Len(t, all, 2)
	require.Equal(t, "ADJUSTMENT", all[1].Type)
	require.Len(t, all[1].Lines, 2)
	requireWorked(t, want.Credit, all[1].Lines[0].Amount)
	requireWorked(t, want.Charge, all[1].Lines[1].Amount)
	requireWorked(t, want.Net, all[1].Amount)
}

func playRound(t *testing.T, c *Worked, b Biller) {
	doc := c.document(t)
	doc.Plans[0].Features[0].Pricing.PricePerUnit = WorkedNumber(t, c.Amount)
	b.Begin(doc, workedStart)
	b.Use("1", workedStart)
	b.Advance(month(1))
	requireWorked(t, WorkedExpect[string](t, c), b.Invoices()[1].usage())
}

// playBurn: the feature has no price, credits of the pool pay for it one by one.
func playBurn(t *testing.T, c *Worked, b Biller) {
	doc := c.document(t)
	doc.Plans[0].Features[0] = billing.PlanFeatureDocument{
		Key: "usage", PricingType: "included",
		Pricing: billing.PricingDocument{Credits: billing.CreditsDocument{Pool: "pool"}},
	}
	at := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	b.Begin(doc, at)
	for _, g := range c.Grants {
		b.Grant(g.ID, g.Amount, g.Priority, g.ExpiresAt)
	}
	b.Use(c.Consume, at)
	for name, want := range WorkedExpect[map[string]string](t, c) {
		requireWorked(t, want, b.Remaining(name))
	}
}

// playRollover: the plan grants the balance in each period, so the next one comes on top of what
// is kept.
func playRollover(t *testing.T, c *Worked, b Biller) {
	want := WorkedExpect[struct{ Kept, Expired string }](t, c)
	doc := c.document(t)
	allocation := billing.CreditAllocationDocument{
		Pool: "pool", Amount: WorkedNumber(t, c.Balance), RolloverPolicy: c.Policy,
	}
	if c.Cap != "" {
		allocation.HasCap, allocation.RolloverCap = true, WorkedNumber(t, c.Cap)
	}
	doc.Plans[0].CreditAllocations = []billing.CreditAllocationDocument{allocation}
	b.Begin(doc, workedStart)
	b.Advance(month(1))
	balance, expired := b.Pool()
	kept, ok := balance.Sub(allocation.Amount)
	require.True(t, ok)
	requireWorked(t, want.Kept, kept)
	requireWorked(t, want.Expired, expired)
}

// playLate: the case counts periods from 1; the late units are a line that names their period.
func playLate(t *testing.T, c *Worked, b Biller) {
	want := WorkedExpect[struct {
		Invoice1, Invoice2, Invoice3, AdjustmentAmount string
		AdjustmentLineForPeriod                        int
	}](t, c)
	b.Begin(c.document(t), workedStart)
	for i, units := range c.Periods {
		b.Use(units, month(i))
		if i+1 == c.Late.ArrivesIn {
			b.Use(c.Late.Units, month(c.Late.Period-1).Add(time.Hour))
		}
		b.Advance(month(i + 1))
	}
	all := b.Invoices()
	for i, amount := range []string{want.Invoice1, want.Invoice2, want.Invoice3} {
		requireWorked(t, amount, all[i+1].Amount)
	}
	for _, line := range all[c.Late.ArrivesIn].Lines {
		if line.Feature != "" && line.Start.Equal(month(want.AdjustmentLineForPeriod-1)) {
			require.Equal(t, month(want.AdjustmentLineForPeriod), line.End)
			requireWorked(t, want.AdjustmentAmount, line.Amount)
			return
		}
	}
	require.Fail(t, "no line names the late units' period", "%+v", all[c.Late.ArrivesIn].Lines)
}

func playBoundary(t *testing.T, c *Worked, b Biller) {
	want := WorkedExpect[struct{ ThisInvoice, NextInvoice string }](t, c)
	var events []struct{ Units, At string }
	require.NoError(t, json.Unmarshal(c.Events, &events))
	at := map[string]time.Time{"periodStart": workedStart, "periodEnd": month(1)}
	b.Begin(c.document(t), workedStart)
	b.Advance(month(1).Add(-time.Minute)) // before either is in the past
	for _, e := range events {
		b.Use(e.Units, at[e.At])
	}
	b.Advance(month(2))
	all := b.Invoices()
	requireWorked(t, want.ThisInvoice, all[1].Amount)
	requireWorked(t, want.NextInvoice, all[2].Amount)
}
