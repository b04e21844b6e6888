package billing

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/period"
	"tollgate/engine/rollup"
)

// By is the length of the buckets of a count; they begin at UTC.
//
//schema:enum
type By uint8

const (
	ByHour  By = 1 // hour
	ByDay   By = 2 // day
	ByMonth By = 3 // month
)

// Begin returns the beginning of an instant's bucket, in milliseconds since 1970 UTC.
func (b By) Begin(at int64) int64 {
	switch b {
	case ByMonth:
		return period.Month(at).Start
	case ByDay:
		return at - (at%accounts.DayMS+accounts.DayMS)%accounts.DayMS
	}
	return int64(rollup.HourOf(at)) * rollup.HourMS
}

// Next returns the beginning of the bucket after the one that begins at an instant.
func (b By) Next(begin int64) int64 {
	switch b {
	case ByMonth:
		return period.Month(begin).End
	case ByDay:
		return begin + accounts.DayMS
	}
	return begin + rollup.HourMS
}

const (
	// MaxBuckets bounds the buckets of one query, MaxUsagePoints the points of an answer.
	MaxBuckets     = 1_000
	MaxUsagePoints = 20_000
)

var (
	// ErrUsageEmpty means that a range has no bucket, ErrUsageTooLong that it has too many, and
	// ErrUsageTooLarge that the answer would have too many points.
	ErrUsageEmpty    = errors.New("billing: a range of usage is empty")
	ErrUsageTooLong  = errors.New("billing: a range of usage has too many buckets")
	ErrUsageTooLarge = errors.New("billing: an answer about usage has too many points")
)

// UsageQuery asks for usage, or with Checks for entitlement checks, in the buckets that overlap
// [From, To), on the environment's clock.
type UsageQuery struct {
	Env uint32
	// Customer is a row; 0: the whole environment.
	Customer uint32
	// Feature is a number, if HasFeature is set; 0 is unmatched names.
	Feature    uint32
	HasFeature bool
	By         By
	From, To   int64
}

// Widen moves From and To to the bounds of buckets.
func (q *UsageQuery) Widen() error {
	if q.From >= q.To {
		return ErrUsageEmpty
	}
	q.From = q.By.Begin(q.From)
	if end := q.By.Begin(q.To); end < q.To {
		q.To = q.By.Next(end)
	}
	count := 0
	for at := q.From; at < q.To; at = q.By.Next(at) {
		if count++; count > MaxBuckets {
			return ErrUsageTooLong
		}
	}
	return nil
}

// buckets is the default length of a range: two days of hours, 30 days, a year of months.
var buckets = [...]int{ByHour: 48, ByDay: 30, ByMonth: 12}

// Complete fills in the defaults of a query: days, up to now.
func (q *UsageQuery) Complete(now int64, hasFrom, hasTo bool) {
	q.By = cmp.Or(q.By, ByDay)
	if !hasTo {
		q.To = now + 1
	}
	if !hasFrom {
		q.From = q.By.Begin(q.To - 1)
		for range buckets[q.By] - 1 {
			q.From = q.By.Begin(q.From - 1)
		}
	}
}

// UsageReport is what was used in a range, by feature.
//
//schema:answer billingview UsageReport
type UsageReport struct {
	By     By            `json:"by" rule:"oneof=hour|day|month"`
	From   int64         `json:"from" as:"time"`
	To     int64         `json:"to" as:"time"`
	Series []UsageSeries `json:"series"`
}

// Totals is what an environment's customers used in a range, how its checks came out, and what its
// invoices come to.
//
//schema:answer admin UsageTotals
type Totals struct {
	By     By             `json:"by" rule:"oneof=hour|day|month"`
	From   int64          `json:"from" as:"time"`
	To     int64          `json:"to" as:"time"`
	Series []UsageSeries  `json:"series" with:"billingview.WriteUsageSeries"`
	Checks []ChecksSeries `json:"checks"`
	// ChecksFrom is where the counts of checks begin, if within the range; the range's end while
	// they are being computed.
	ChecksFrom int64           `json:"checksFrom,omitzero" as:"time"`
	Revenue    []RevenueSeries `json:"revenue"`
	// Suspended is how many subscriptions are suspended now.
	Suspended int64 `json:"suspendedSubscriptions"`
	// Customers is how many there are, archived ones too.
	Customers int64 `json:"customers"`
}

// UsagePoint is the usage of a bucket. Buckets without usage are omitted.
//
//schema:answer billingview UsagePoint
type UsagePoint struct {
	Start  int64           `json:"start" as:"time"`
	Events int64           `json:"events"`
	Units  decimal.Decimal `json:"usageUnits"`
}

// UsageSeries is the usage of a feature in a range.
//
//schema:answer billingview UsageSeries
type UsageSeries struct {
	// FeatureKey is empty for unmatched names, and where the series is the sum of several features.
	FeatureKey string `json:"featureKey"`
	// Features is how many those are: all but the most used, of an environment that uses too many to
	// list each.
	Features int64           `json:"features,omitzero"`
	Events   int64           `json:"events"`
	Units    decimal.Decimal `json:"usageUnits"`
	Points   []UsagePoint    `json:"points"`
}

// series are the sums of a query by item and bucket.
type series struct {
	q    *UsageQuery
	sums map[uint32]map[int64]*rollup.Cell
	size int
	// whole makes the range one bucket.
	whole bool
	// kept are the items that are told apart, the others are one; nil: all.
	kept map[uint32]bool
}

// otherItems stands for the items that are not told apart.
const otherItems = math.MaxUint32

func (s *series) add(c rollup.Cell) error {
	if s.kept != nil && !s.kept[c.Item] {
		c.Item = otherItems
	}
	buckets := s.sums[c.Item]
	if buckets == nil {
		buckets = map[int64]*rollup.Cell{}
		s.sums[c.Item] = buckets
	}
	at := s.q.From
	if !s.whole {
		at = s.q.By.Begin(int64(c.Hour) * rollup.HourMS)
	}
	if buckets[at] == nil {
		if s.size++; s.size > MaxUsagePoints {
			return ErrUsageTooLarge
		}
		buckets[at] = &rollup.Cell{Key: c.Key}
	}
	buckets[at].Add(c.Events, c.Units)
	return nil
}

func (q *UsageQuery) sum(src rollup.Source, part journal.Part) (*series, error) {
	return q.sumInto(&series{}, src, part)
}

func (q *UsageQuery) sumInto(
	s *series, src rollup.Source, part journal.Part,
) (*series, error) {
	s.q, s.sums = q, map[uint32]map[int64]*rollup.Cell{}
	asked := rollup.Query{
		Part: part, Owner: rollup.Environment(q.Env), Item: q.Feature, HasItem: q.HasFeature,
		From: rollup.HourOf(q.From), To: rollup.HourOf(q.To),
	}
	if q.Customer != 0 {
		asked.Owner = uint64(q.Customer)
	}
	err := src.Sum(asked, s.add)
	switch {
	case errors.Is(err, ErrUsageTooLarge):
		return nil, ErrUsageTooLarge
	case err != nil:
		return nil, fmt.Errorf("billing: add up the journal: %w", err)
	}
	return s, nil
}

// of returns an item's points in order, and their sum.
func (s *series) of(item uint32) (u UsageSeries) {
	var all rollup.Cell
	u.Points = make([]UsagePoint, 0, len(s.sums[item]))
	for at, c := range s.sums[item] { // any order: sums do not depend on it, and points are sorted
		all.Add(c.Events, c.Units)
		if !c.Empty() {
			u.Points = append(u.Points, UsagePoint{Start: at, Events: c.Events, Units: bounded(c.Units)})
		}
	}
	slices.SortFunc(u.Points, func(a, b UsagePoint) int { return cmp.Compare(a.Start, b.Start) })
	u.Events, u.Units = all.Events, bounded(all.Units)
	return u
}

// bounded returns a sum within the range of exact numbers.
func bounded(d decimal.Decimal) decimal.Decimal {
	if !d.InRange() {
		return decimal.Largest()
	}
	return d
}

// Usage answers a widened query from the usage part of the journal: a series for each feature with
// usage, in the order of the catalog, unmatched names last.
func (m *journalReader) Usage(src rollup.Source, q *UsageQuery) ([]UsageSeries, error) {
	s, err := q.sum(src, journal.PartUsage)
	if err != nil {
		return nil, err
	}
	return m.seriesOf(s, q.Env), nil
}

// mostSeries is how many features are told apart in any range.
const mostSeries = MaxUsagePoints/MaxBuckets - 1

// mostUsed answers as Usage does, of the features with the most events; the others are one series,
// the last.
func (m *journalReader) mostUsed(src rollup.Source, q *UsageQuery) ([]UsageSeries, error) {
	all, err := q.sumInto(&series{whole: true}, src, journal.PartUsage)
	if err != nil {
		return nil, err
	}
	items := slices.Sorted(maps.Keys(all.sums))
	slices.SortStableFunc(items, func(a, b uint32) int {
		return cmp.Compare(all.sums[b][q.From].Events, all.sums[a][q.From].Events)
	})
	kept := map[uint32]bool{}
	for _, item := range items[:min(len(items), mostSeries)] {
		kept[item] = true
	}
	s, err := q.sumInto(&series{kept: kept}, src, journal.PartUsage)
	if err != nil {
		return nil, err
	}
	others := s.of(otherItems)
	others.Features = int64(len(items) - len(kept))
	delete(s.sums, otherItems)
	return append(m.seriesOf(s, q.Env), others), nil
}

// seriesOf are the sums of an environment's usage, in the order of its catalog.
func (m *journalReader) seriesOf(s *series, env uint32) []UsageSeries {
	catalog := catalogs.NewCatalog()
	if e := m.state.Load().Environment(env); e != nil {
		catalog = e.Catalog.Load()
	}
	list := []UsageSeries{}
	for item := range s.sums { // any order: they are sorted
		u := s.of(item)
		if f := catalog.Feature(item); f != nil {
			u.FeatureKey = f.Document.Key
		}
		if len(u.Points) > 0 {
			list = append(list, u)
		}
	}
	slices.SortFunc(list, func(a, b UsageSeries) int {
		return cmp.Or(-cmp.Compare(min(len(a.FeatureKey), 1), min(len(b.FeatureKey), 1)),
			cmp.Compare(catalog.FeatureByKey[a.FeatureKey], catalog.FeatureByKey[b.FeatureKey]))
	})
	return list
}

// ChecksSeries counts the entitlement checks of an environment that came to a decision.
//
//schema:answer admin ChecksSeries
type ChecksSeries struct {
	Reason string        `json:"reason"`
	Checks int64         `json:"checks"`
	Points []ChecksPoint `json:"points"`
}

// ChecksPoint counts those of a bucket.
//
//schema:answer admin ChecksPoint
type ChecksPoint struct {
	Start  int64 `json:"start" as:"time"`
	Checks int64 `json:"checks"`
}

// Checks counts the entitlement checks of an environment by reason, from the audit part of the
// journal, which has 30 days of log time by default.
func (m *journalReader) Checks(src rollup.Source, q *UsageQuery) ([]ChecksSeries, error) {
	s, err := q.sum(src, journal.PartAudit)
	if err != nil {
		return nil, err
	}
	list := []ChecksSeries{}
	for reason := range uint32(256) {
		u := s.of(reason)
		if len(u.Points) == 0 {
			continue
		}
		c := ChecksSeries{Reason: Reason(reason).String(), Checks: u.Events}
		for _, p := range u.Points {
			c.Points = append(c.Points, ChecksPoint{Start: p.Start, Checks: p.Events})
		}
		list = append(list, c)
	}
	return list, nil
}

// RevenueSeries is what the invoices of an environment in one currency came to in a range. Billed
// are those issued in it, void ones left out, Collected those paid in it; Due, PastDue, Paid and
// Void are all that are so now, whenever they were issued.
//
//schema:answer admin RevenueSeries
type RevenueSeries struct {
	Currency        string          `json:"currency" rule:"min=3,max=3"`
	Billed          decimal.Decimal `json:"billed"`
	Collected       decimal.Decimal `json:"collected"`
	Due             decimal.Decimal `json:"due"`
	DueInvoices     int64           `json:"dueInvoices"`
	PastDue         decimal.Decimal `json:"pastDue"`
	PastDueInvoices int64           `json:"pastDueInvoices"`
	Paid            decimal.Decimal `json:"paid"`
	PaidInvoices    int64           `json:"paidInvoices"`
	Void            decimal.Decimal `json:"void"`
	VoidInvoices    int64           `json:"voidInvoices"`
	// MonthlyRecurring is the sum, over the subscriptions that have not ended, of the plan's price
	// divided by the months of its interval, rounded once to the currency's minor units.
	MonthlyRecurring decimal.Decimal `json:"monthlyRecurring"`
	// Subscriptions is how many those are. Suspended ones count, cancelled ones until they end.
	Subscriptions int64          `json:"subscriptions"`
	Points        []RevenuePoint `json:"points"`
}

// RevenuePoint is the revenue of a bucket. Empty buckets are omitted.
//
//schema:answer admin RevenuePoint
type RevenuePoint struct {
	Start     int64           `json:"start" as:"time"`
	Invoices  int64           `json:"invoices"` // issued
	Billed    decimal.Decimal `json:"billed"`
	Collected decimal.Decimal `json:"collected"`
}

// Revenue answers a widened query from the invoices and the counts of subscriptions: a series for
// each currency.
func (m *accountReader) Revenue(q *UsageQuery) []RevenueSeries {
	list := []RevenueSeries{}
	e := m.state.Load().Environment(q.Env)
	if e == nil {
		return list
	}
	for _, sums := range m.state.Load().Revenue.Of(q.Env, q.From, q.To) {
		s := RevenueSeries{
			Currency: sums.Currency, Points: []RevenuePoint{},
			Due: bounded(sums.Due.Sum), DueInvoices: sums.Due.Invoices,
			PastDue: bounded(sums.PastDue.Sum), PastDueInvoices: sums.PastDue.Invoices,
			Paid: bounded(sums.Paid.Sum), PaidInvoices: sums.Paid.Invoices,
			Void: bounded(sums.Void.Sum), VoidInvoices: sums.Void.Invoices,
		}
		var billed, collected rollup.Cell
		for _, h := range sums.Hours {
			if h.Billed == (book.Amount{}) && h.Collected == (book.Amount{}) {
				continue
			}
			billed.Add(h.Billed.Invoices, h.Billed.Sum)
			collected.Add(h.Collected.Invoices, h.Collected.Sum)
			begin := q.By.Begin(int64(h.Hour) * rollup.HourMS)
			if n := len(s.Points); n == 0 || s.Points[n-1].Start != begin {
				s.Points = append(s.Points, RevenuePoint{Start: begin})
			}
			p := &s.Points[len(s.Points)-1]
			p.Invoices += h.Billed.Invoices
			p.Billed, _ = p.Billed.Add(h.Billed.Sum)
			p.Collected, _ = p.Collected.Add(h.Collected.Sum)
		}
		s.Billed, s.Collected = bounded(billed.Units), bounded(collected.Units)
		list = append(list, s)
	}
	recurring := e.Catalog.Load().Recurring()
	for _, r := range recurring.Amounts() {
		at, found := slices.BinarySearchFunc(list, r.Currency, func(s RevenueSeries, c string) int {
			return cmp.Compare(s.Currency, c)
		})
		if !found {
			list = slices.Insert(list, at, RevenueSeries{Currency: r.Currency, Points: []RevenuePoint{}})
		}
		list[at].MonthlyRecurring, list[at].Subscriptions = r.Amount, r.Subscriptions
	}
	return list
}

// UsageTotals answers a widened query about an environment: usage, checks and revenue. It does not
// wait for checks that are still being counted. Of too many features, those that are used least are
// one series, so that revenue is always answered.
func (m *journalReader) UsageTotals(src rollup.Source, q *UsageQuery) (t Totals, err error) {
	t.By, t.From, t.To = q.By, q.From, q.To
	if t.Series, err = m.Usage(src, q); errors.Is(err, ErrUsageTooLarge) {
		t.Series, err = m.mostUsed(src, q)
	}
	if err != nil {
		return t, err
	}
	switch t.Checks, err = m.Checks(src, q); {
	case errors.Is(err, rollup.ErrCounting):
		t.Checks, t.ChecksFrom = []ChecksSeries{}, q.To
	case err != nil:
		return t, err
	default:
		if kept := m.checksKept(q.Env); kept > q.From {
			t.ChecksFrom = min(kept, q.To)
		}
	}
	t.Revenue = m.Revenue(q)
	if e := m.state.Load().Environment(q.Env); e != nil {
		t.Suspended, t.Customers = e.Suspended.Load(), e.Customers.Load()
	}
	return t, nil
}

// checksKept returns the instant on an environment's clock from which the journal has all its
// checks. That clock never falls behind log time, so dropped checks are earlier on it.
func (m *journalReader) checksKept(env uint32) int64 {
	view := m.Journal().Outline()[journal.PartAudit]
	e := m.state.Load().Environment(env)
	if e == nil || view.First == 1 {
		return math.MinInt64
	}
	oldest, ok := view.OldestAt()
	if !ok {
		oldest = m.Stamp()
	}
	return e.Now(oldest)
}
