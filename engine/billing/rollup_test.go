package billing_test

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/rollup"
)

// counted is where usage is counted: a feature's key, empty for names that match none, and where a
// bucket begins.
type counted struct {
	feature string
	start   int64
}

// usageRanges are what is recounted by each length of a bucket: hours while most histories go on.
var usageRanges = func() map[billing.By]billing.UsageQuery {
	const day = 24 * rollup.HourMS
	ranges := map[billing.By]billing.UsageQuery{}
	for by, days := range map[billing.By][2]int64{
		billing.ByHour: {-10, 30}, billing.ByDay: {-290, 700}, billing.ByMonth: {-290, 700},
	} {
		ranges[by] = billing.UsageQuery{
			By:   by,
			From: by.Begin(enginetest.Epoch + days[0]*day), To: by.Begin(enginetest.Epoch + days[1]*day),
		}
	}
	return ranges
}()

// usageSums are sums of usage.
type usageSums map[counted]rollup.Cell

func (s usageSums) add(at counted, c rollup.Cell) {
	sum := s[at]
	sum.Add(c.Events, c.Units)
	s[at] = sum
}

// require compares sums with those that are wanted.
func (s usageSums) require(t require.TestingT, want usageSums) {
	require.Len(t, s, len(want))
	for at, c := range want {
		require.Equal(t, c.Events, s[at].Events, at)
		if c.Units.InRange() { // else an answer has the largest number
			require.Equal(t, c.Units, s[at].Units, at)
		}
	}
}

// recount adds up a customer's listed events by feature and bucket: each event once, as its
// corrections left it.
func recount(
	t require.TestingT, m *billing.Machine, src *enginetest.Source, env, row uint32,
) map[billing.By]usageSums {
	type name struct {
		key string
		at  int64
	}
	events, next, err := m.Events(src, billing.EventQuery{
		Customer: row, From: -1 << 62, To: 1 << 62, Limit: 1000,
		Kinds: []billing.EventKind{billing.EventUsage, billing.EventVoid, billing.EventAmend},
	})
	require.NoError(t, err)
	require.Zero(t, next.Index, "the test reads one page")
	last := map[name]*billing.EventView{}
	for i := range events {
		e := &events[i]
		at := name{e.Key, e.OccurredAt}
		if known := last[at]; known == nil || known.Index < e.Index ||
			known.Index == e.Index && known.Position < e.Position {
			last[at] = e
		}
	}
	sums := map[billing.By]usageSums{}
	for by, in := range usageRanges {
		sums[by] = usageSums{}
		for _, e := range last {
			if e.Kind != billing.EventVoid && e.OccurredAt >= in.From && e.OccurredAt < in.To {
				at := counted{e.FeatureKey, by.Begin(e.OccurredAt)}
				if m.FeatureNumber(env, at.feature) == 0 {
					at.feature = "" // a listed event has the key that its sender gave
				}
				sums[by].add(at, rollup.Cell{Events: 1, Units: e.Units})
			}
		}
	}
	return sums
}

// deniedTo counts a customer's listed checks of a range that were denied, by reason.
func deniedTo(
	t require.TestingT, m *billing.Machine, src *enginetest.Source, row uint32, from, to int64,
) map[string]int64 {
	counts := map[string]int64{}
	q := billing.EventQuery{
		Customer: row, From: from, To: to, Limit: 1000, Denied: true,
	}
	for {
		events, next, err := m.Events(src, q)
		require.NoError(t, err)
		for i := range events {
			counts[events[i].Reason.String()]++
		}
		if q.After = next; next.Index == 0 {
			return counts
		}
	}
}

// TestUsageIsRecounted: in any history, usage by feature and by hour, day and month is what the
// listed events add up to, that of an environment what its customers' adds up to, checks are as
// many as were recorded, and those denied to a customer as many as are listed.
func TestUsageIsRecounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := enginetest.BillingEntries(t)
		m := billing.New(billing.Config{})
		src := &enginetest.Source{Journal: m.Journal()}
		var out engine.Applied
		for i, e := range entries {
			require.NoError(t, m.Apply(uint64(i)+1, e, &out))
			src.Keep(&out)
		}
		checks := int64(0)
		for env := range uint32(12) { // checks may name one that is not there
			all := map[billing.By]usageSums{}
			for by := range usageRanges {
				all[by] = usageSums{}
			}
			of := func(by billing.By, customer uint32) usageSums {
				sums, q := usageSums{}, usageRanges[by]
				q.Env, q.Customer = env, customer
				list, err := m.Usage(src, &q)
				require.NoError(t, err)
				for _, s := range list {
					for _, p := range s.Points {
						sums.add(counted{s.FeatureKey, p.Start}, rollup.Cell{Events: p.Events, Units: p.Units})
					}
				}
				return sums
			}
			for _, row := range m.Customers(env, 0, 1000) {
				each := recount(t, m, src, env, row)
				for by := billing.ByHour; by <= billing.ByMonth; by++ {
					of(by, row).require(t, each[by])
					for at, c := range each[by] {
						all[by].add(at, c)
					}
				}
			}
			for by := billing.ByHour; by <= billing.ByMonth; by++ {
				of(by, 0).require(t, all[by])
			}
			list, err := m.Checks(src, &billing.UsageQuery{
				Env: env, By: billing.ByMonth, From: 0, To: 4 * enginetest.Epoch,
			})
			require.NoError(t, err)
			denied := int64(0)
			for _, s := range list {
				if checks += s.Checks; s.Reason != billing.ReasonAllowed.String() {
					denied += s.Checks
				}
			}
			q := billing.DenialQuery{Max: 1 << 20, UsageQuery: billing.UsageQuery{
				Env: env, By: billing.ByMonth, From: 0, To: 4 * enginetest.Epoch,
			}}
			customers, others, err := m.DeniedByCustomer(src, &q)
			require.NoError(t, err)
			require.Zero(t, others)
			ranked := map[string]map[string]int64{} // by customer and reason
			for _, c := range customers {
				if ranked[c.Customer] == nil {
					ranked[c.Customer] = map[string]int64{}
				}
				ranked[c.Customer][c.Reason] = c.Checks
				denied -= c.Checks
			}
			listed := map[string]map[string]int64{}
			for _, row := range m.Customers(env, 0, 1000) {
				if counts := deniedTo(t, m, src, row, -1<<62, 1<<62); len(counts) > 0 {
					names, _ := m.CustomerNames(env, row)
					listed[names.ExternalID] = counts
				}
			}
			require.Equal(t, listed, ranked)
			requireDeniedByHour(t, m, src, env)
			require.GreaterOrEqual(t, denied, int64(0), "the rest named no customer")
		}
		_, audits := m.Journal().Usage()
		require.LessOrEqual(t, checks, int64(m.Stats().AuditEvents))
		if m.Journal().First(1) == 1 && audits > 0 { // none was dropped
			require.Equal(t, int64(m.Stats().AuditEvents), checks)
		}
	})
}

// requireDeniedByHour compares the denied checks of an environment's first hours, in each hour that
// has some, with those that are listed, and the hours' with the ranges'.
func requireDeniedByHour(
	t require.TestingT, m *billing.Machine, src *enginetest.Source, env uint32,
) {
	q := usageRanges[billing.ByHour]
	q.Env = env
	list, err := m.Checks(src, &q)
	require.NoError(t, err)
	byHour := map[counted]int64{}
	for _, s := range list {
		sum := int64(0)
		for _, p := range s.Points {
			byHour[counted{s.Reason, p.Start}], sum = p.Checks, sum+p.Checks
		}
		require.Equal(t, s.Checks, sum)
	}
	rows := m.Customers(env, 0, 1000)
	for _, s := range list[:min(len(list), 3)] {
		for _, p := range s.Points[:min(len(s.Points), 3)] {
			q.From, q.To = p.Start, p.Start+rollup.HourMS
			alone := billing.DenialQuery{Max: 1 << 20, UsageQuery: q}
			customers, _, err := m.DeniedByCustomer(src, &alone)
			require.NoError(t, err)
			ranked := map[string]int64{}
			for _, c := range customers {
				if c.Reason == s.Reason {
					ranked[c.Customer] = c.Checks
				}
			}
			listed, all := map[string]int64{}, int64(0)
			for _, row := range rows {
				if n := deniedTo(t, m, src, row, q.From, q.To)[s.Reason]; n > 0 {
					names, _ := m.CustomerNames(env, row)
					listed[names.ExternalID] = n
					all += n
				}
			}
			require.Equal(t, listed, ranked, "%s at %d", s.Reason, p.Start)
			require.LessOrEqual(t, all, byHour[counted{s.Reason, p.Start}], "the rest named no customer")
		}
	}
}

func TestUsageByFeatureAndBucket(t *testing.T) {
	m, l := opened()
	enginetest.NewCustomer(l, "bob", "llm-team")
	src := &enginetest.Source{Journal: m.Journal()}
	record := func(key, customer, feature string, units int64) {
		u := enginetest.Usage(l, key, customer, feature, units)
		require.False(t, l.DoPayload(billing.KindRecordUsage, u.Seal(nil)).Outcome.Refused())
	}
	begin := billing.ByDay.Begin(l.Stamp) + 24*rollup.HourMS
	l.Stamp = begin - 1
	record("a", "ada", "output-tokens", 1)
	l.Stamp = begin
	record("b", "ada", "output-tokens", 10)
	record("c", "bob", "output-tokens", 100)
	record("d", "ada", "no such name", 7)
	record("e", "ada", "requests", 2)
	record("void", "ada", "requests", 5)
	id := billing.UsageKey(enginetest.Sandbox, []byte("void"))
	ref, _, err := m.FindUsage(src, src, enginetest.Sandbox, id)
	require.NoError(t, err)
	l.Stamp += 5 * rollup.HourMS // a void counts where its event did
	require.Equal(t, engine.OutcomeDone, l.Do(billing.KindVoidUsage, &billing.VoidUsage{
		Env: enginetest.Sandbox, Key: id, Original: ref,
	}).Outcome)

	ada, _ := m.Customer(enginetest.Sandbox, "ada")
	q := billing.UsageQuery{
		Env: enginetest.Sandbox, Customer: ada.Row, By: billing.ByDay, From: begin - 1, To: begin + 1,
	}
	require.NoError(t, q.Widen())
	require.Equal(t, begin-24*rollup.HourMS, q.From)
	require.Equal(t, begin+24*rollup.HourMS, q.To)
	list, err := m.Usage(src, &q)
	require.NoError(t, err)
	n := decimal.FromInt
	catalogOrder := []billing.UsageSeries{
		{FeatureKey: "output-tokens", Events: 2, Units: n(11), Points: []billing.UsagePoint{
			{Start: begin - 24*rollup.HourMS, Events: 1, Units: n(1)}, {Start: begin, Events: 1, Units: n(10)},
		}},
		{FeatureKey: "requests", Events: 1, Units: n(2), Points: []billing.UsagePoint{
			{Start: begin, Events: 1, Units: n(2)},
		}},
		{Events: 1, Units: n(7), Points: []billing.UsagePoint{{Start: begin, Events: 1, Units: n(7)}}},
	}
	require.ElementsMatch(t, catalogOrder, list)
	require.Empty(t, list[2].FeatureKey, "unmatched names come last")

	q.Customer, q.HasFeature, q.Feature = 0, true, 0
	list, err = m.Usage(src, &q)
	require.NoError(t, err)
	require.Equal(t, catalogOrder[2:], list)
}

// TestUsageIsRankedByPrice: what a day's usage added to the bill is what a check foresaw for it,
// after what was used before, whatever was used since.
func TestUsageIsRankedByPrice(t *testing.T) {
	m, l := opened()
	enginetest.NewCustomer(l, "bob", "llm-team")
	enginetest.NewCustomer(l, "eve", "")
	src := &enginetest.Source{Journal: m.Journal()}
	day := billing.ByDay.Begin(l.Stamp) + 24*rollup.HourMS
	foreseen := map[string]decimal.Decimal{}
	record := func(customer, feature string, units int64) {
		q := billing.CheckQuery{
			Env: enginetest.Sandbox, Customer: []byte(customer), Feature: []byte(feature),
			Track: true, Units: decimal.FromInt(units), Now: l.Stamp,
		}
		var d billing.Decision
		m.Check(&q, &d)
		if l.Stamp >= day && l.Stamp < day+24*rollup.HourMS {
			foreseen[customer], _ = foreseen[customer].Add(d.ProjectedCost)
		}
		u := enginetest.Usage(l, fmt.Sprint(customer, feature, l.Index), customer, feature, units)
		require.False(t, l.DoPayload(billing.KindRecordUsage, u.Seal(nil)).Outcome.Refused())
	}
	ask := func(from int64, maximum int) ([]billing.CustomerUsage, int) {
		q := billing.PriceQuery{Currency: "USD", Max: maximum, UsageQuery: billing.UsageQuery{
			Env: enginetest.Sandbox, By: billing.ByDay, From: from, To: from + 24*rollup.HourMS,
		}}
		list, others, err := m.UsageByPrice(src, &q)
		require.NoError(t, err)
		return list, others
	}
	for _, at := range []int64{day - 1, day + 1, day + 24*rollup.HourMS} {
		l.Stamp = at
		record("ada", "output-tokens", 30_000_000)
		record("bob", "output-tokens", 90_000)
		record("bob", "output-tokens", 70_000_000)
		record("ada", "no such name", 7)
		record("eve", "output-tokens", 1_000_000_000) // without a plan it adds nothing
	}
	list, others := ask(day, 10)
	require.Zero(t, others)
	require.Equal(t, []billing.CustomerUsage{
		{
			Customer: "bob", Events: 2, Units: decimal.FromInt(70_090_000), Currency: "USD",
			HasPrice: true, Price: foreseen["bob"],
		},
		{
			Customer: "ada", Events: 2, Units: decimal.FromInt(30_000_007), Currency: "USD",
			HasPrice: true, Price: foreseen["ada"],
		},
	}, list)
	first, others := ask(day, 1)
	require.Equal(t, list[:1], first)
	require.Equal(t, 1, others)
	none, others := ask(day+72*rollup.HourMS, 10)
	require.Empty(t, none)
	require.Zero(t, others)

	l.Stamp = day + 45*24*rollup.HourMS // another period: priced as if the day began one
	l.DoPayload(engine.KindTick, nil)
	list, _ = ask(day, 10)
	require.Len(t, list, 2)
	q := billing.PriceQuery{Currency: "EUR", Max: 10, UsageQuery: billing.UsageQuery{
		Env: enginetest.Sandbox, By: billing.ByMonth, From: 0, To: 2 * day,
	}}
	none, others, err := m.UsageByPrice(src, &q)
	require.NoError(t, err)
	require.Empty(t, none)
	require.Zero(t, others)
}

// TestARankingByPriceAloneIsBounded: others answer, however far the customers lie apart; one
// ranking by price is made at a time, a few wait for their turn, and one more is refused.
func TestARankingByPriceAloneIsBounded(t *testing.T) {
	m, l := opened()
	for i := range 100 {
		enginetest.NewCustomer(l, fmt.Sprint("c", i), "")
	}
	m.BoundRanking(1 << 10)
	q := billing.UsageQuery{Env: enginetest.Sandbox, To: enginetest.Epoch}
	priced := billing.PriceQuery{UsageQuery: q, Currency: "USD", Max: 5}
	list, others, err := m.UsageByCustomer(eachCustomer(101), &q, 5)
	require.NoError(t, err)
	require.Equal(t, 101, len(list)+others)
	denials := billing.DenialQuery{UsageQuery: q, Max: 5}
	denied, others, err := m.DeniedByCustomer(eachCustomer(101), &denials)
	require.NoError(t, err)
	require.Equal(t, 101, len(denied)+others)
	_, _, err = m.UsageByPrice(eachCustomer(101), &priced)
	require.ErrorIs(t, err, billing.ErrRankingTooLarge)
	_, _, err = m.UsageByPrice(eachCustomer(1), &priced)
	require.ErrorIs(t, err, billing.ErrRankingTooLarge, "a part begins anew")
	m.BoundRanking(0)
	_, _, err = m.UsageByPrice(eachCustomer(10), &priced)
	require.NoError(t, err, "the one before it is over")
	const waiting = 3
	made := make(chan error, waiting+1)
	_, _, err = m.UsageByPrice(whileSumming(sync.OnceFunc(func() {
		for range waiting + 1 {
			go func() {
				_, _, err := m.UsageByPrice(eachCustomer(10), &priced)
				made <- err
			}()
		}
		require.ErrorIs(t, <-made, billing.ErrRanking, "the others wait")
		_, _, err = m.UsageByCustomer(eachCustomer(10), &q, 5)
		require.NoError(t, err)
	})), &priced)
	require.NoError(t, err)
	for range waiting {
		require.NoError(t, <-made)
	}
}

// TestARankingInPartsIsTheSame as one of all customers together: what the first used is kept.
func TestARankingInPartsIsTheSame(t *testing.T) {
	m, l := opened()
	const customers = 300
	begin := billing.ByDay.Begin(l.Stamp)
	for i := range customers {
		for n := range 29 { // so that they lie in three groups of rows
			enginetest.NewCustomer(l, fmt.Sprint("none", i, "-", n), "")
		}
		name := fmt.Sprint("c", i)
		enginetest.NewCustomer(l, name, "llm-team")
		for feature, units := range map[string]int64{
			"output-tokens": 1_000_000 * int64(i*7919%customers), "input-tokens": 50_000_000,
		} {
			u := enginetest.Usage(l, name+feature, name, feature, units)
			require.False(t, l.DoPayload(billing.KindRecordUsage, u.Seal(nil)).Outcome.Refused())
		}
	}
	src := &askedSource{Source: &enginetest.Source{Journal: m.Journal()}}
	ask := func(room int) (list []billing.CustomerUsage, others, sums int) {
		m.BoundRanking(room)
		src.sums = 0
		q := billing.PriceQuery{Currency: "USD", Max: 20, UsageQuery: billing.UsageQuery{
			Env: enginetest.Sandbox, By: billing.ByDay, From: begin, To: begin + 24*rollup.HourMS,
		}}
		list, others, err := m.UsageByPrice(src, &q)
		require.NoError(t, err)
		return list, others, src.sums
	}
	want, others, sums := ask(0)
	require.Equal(t, []int{20, customers - 20}, []int{len(want), others})
	require.Equal(t, 2, sums, "the range, and what came after it")
	list, others, sums := ask(80 << 10)
	require.Equal(t, want, list)
	require.Equal(t, customers, len(list)+others)
	require.Greater(t, sums, 4)
}

// askedSource counts how often a source is asked.
type askedSource struct {
	rollup.Source
	sums int
}

func (c *askedSource) Sum(q rollup.Query, yield func(rollup.Cell) error) error {
	c.sums++
	return c.Source.Sum(q, yield)
}

// whileSumming does something while it is asked.
type whileSumming func()

func (do whileSumming) Sum(rollup.Query, func(rollup.Cell) error) error {
	do()
	return nil
}

// TestTotalsOfManyFeatures: the most used are told apart, and the others are one series, so that
// revenue is answered whatever is used.
func TestTotalsOfManyFeatures(t *testing.T) {
	m, _ := opened()
	const features = 2_000
	from := billing.ByDay.Begin(enginetest.Epoch)
	src := eachFeature{features, 12}
	q := billing.UsageQuery{
		Env: enginetest.Sandbox, By: billing.ByDay, From: from, To: from + 12*24*rollup.HourMS,
	}
	_, err := m.Usage(src, &q)
	require.Equal(t, billing.ErrUsageTooLarge, err)
	totals, err := m.UsageTotals(src, &q)
	require.NoError(t, err)
	require.NotEmpty(t, totals.Revenue)
	var events, told int64
	last := totals.Series[len(totals.Series)-1]
	for _, s := range totals.Series {
		events += s.Events
		require.Len(t, s.Points, 12)
		if s.Features == 0 {
			told++
			require.Greater(t, s.Events, int64(12*(features-30)), "it is among the most used")
		}
	}
	require.Equal(t, int64(19), told)
	require.EqualValues(t, features-19, last.Features)
	require.EqualValues(t, 12*features*(features+1)/2, events, "nothing is left out")
}

// eachFeature yields, on each of so many days, so many events of each of so many features as its
// number is.
type eachFeature struct{ features, days int }

func (f eachFeature) Sum(q rollup.Query, yield func(rollup.Cell) error) error {
	if q.Part != journal.PartUsage {
		return nil
	}
	for item := range f.features {
		for day := range f.days {
			if err := yield(rollup.Cell{
				Key: rollup.Key{
					Item: uint32(item + 1), Hour: rollup.HourOf(enginetest.Epoch) + int32(24*day),
				},
				Events: int64(item + 1), Units: decimal.FromInt(1),
			}); err != nil {
				return fmt.Errorf("of the source: %w", err)
			}
		}
	}
	return nil
}

// TestRevenueIsRecounted: in any history, revenue and suspensions, which are kept as invoices are
// written, are those that a restore counts, and that the listed invoices add up to.
func TestRevenueIsRecounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := billing.New(billing.Config{})
		var out engine.Applied
		for i, e := range enginetest.BillingEntries(t) {
			require.NoError(t, m.Apply(uint64(i)+1, e, &out))
		}
		again := restored(t, enginetest.Snapshot(t, m))
		require.Equal(t, again.Stats().Issued, m.Stats().Issued)
		counts, settled := m.Stats().Issued, true
		for env := range uint32(2*m.Stats().Accounts + 1) {
			q := billing.UsageQuery{Env: env, By: billing.ByDay, To: 4 * enginetest.Epoch}
			revenue := m.Revenue(&q)
			require.Equal(t, again.Revenue(&q), revenue)
			totals, err := m.UsageTotals(&enginetest.Source{Journal: m.Journal()}, &q)
			require.NoError(t, err)
			counted, err := again.UsageTotals(&enginetest.Source{Journal: again.Journal()}, &q)
			require.NoError(t, err)
			require.Equal(t, counted.Suspended, totals.Suspended)
			var invoices []billing.InvoiceView
			suspended, monthly, rows := int64(0), recurring{}, m.Customers(env, 0, 1000)
			for _, row := range rows {
				of, own := m.Invoices(env, row), recurring{}
				invoices = append(invoices, of...)
				for _, v := range m.Subscriptions(row) {
					if v.SuspendedAt != 0 && v.EndedAt == 0 {
						suspended++
					}
					monthly.add(&v)
					own.add(&v)
				}
				requireStanding(t, m.Standing(row), of, own)
			}
			requireRanked(t, m, env, rows)
			if due := m.NextDue(); due != 0 && due <= m.Stamp() {
				settled = false
				continue // a listing shows what the state will have after a tick
			}
			require.Equal(t, suspended, totals.Suspended)
			require.EqualValues(t, len(rows), totals.Customers)
			require.EqualValues(t, len(rows), again.CustomerCount(env))
			trouble := m.PoolsInTrouble(env, 1000, 1000)
			require.Equal(t, again.PoolsInTrouble(env, 1000, 1000), trouble)
			depleted, failed := int64(0), int64(0)
			for _, p := range trouble.Newest {
				if p.Depleted {
					depleted++
				}
				if p.Failed {
					failed++
				}
			}
			require.Equal(t, depleted, trouble.Depleted)
			require.Equal(t, failed, trouble.Failed)
			requireRevenue(t, invoices, &q, revenue, monthly)
			for i := range invoices {
				if status := invoices[i].Status; status != billing.InvoicePending {
					counts[status]--
				}
			}
			for _, v := range invoices[:min(len(invoices), 3)] { // by hour, and an hour alone
				for _, at := range []int64{v.CreatedAt, v.PaidAt} {
					q := billing.UsageQuery{Env: env, By: billing.ByHour, From: at, To: at + 1}
					require.NoError(t, q.Widen())
					requireRevenue(t, invoices, &q, m.Revenue(&q), monthly)
				}
			}
			q.By = billing.ByMonth
			requireRevenue(t, invoices, &q, m.Revenue(&q), monthly)
		}
		if settled {
			require.Zero(t, counts, "each issued invoice is counted by its status")
		}
	})
}

// recurring are the prices of subscriptions, each divided by the months of its interval, by
// currency.
type recurring map[string]*perMonth

type perMonth struct {
	sum   big.Rat
	count int64
}

func (r recurring) add(v *billing.SubscriptionView) {
	if v.EndedAt != 0 {
		return
	}
	at := r[v.Plan.Currency]
	if at == nil {
		at = new(perMonth)
		r[v.Plan.Currency] = at
	}
	price, _ := new(big.Rat).SetString(v.Plan.PriceAmount.String())
	at.sum.Add(&at.sum, price.Quo(price, big.NewRat(int64(v.Plan.IntervalMonths), 1)))
	at.count++
}

// requireMonthly compares an amount with the exact sum: it is rounded once.
func (r recurring) requireMonthly(t require.TestingT, currency string, got decimal.Decimal) {
	places, _ := decimal.MinorUnits(currency)
	want := r[currency]
	if want == nil {
		want = new(perMonth)
	}
	if d, err := decimal.Parse(want.sum.FloatString(places)); err == nil {
		require.Equal(t, d.String(), got.String())
	}
}

// requireStanding compares what a customer owes and pays with the listed invoices and
// subscriptions.
func requireStanding(
	t require.TestingT, got billing.Standing, invoices []billing.InvoiceView, monthly recurring,
) {
	owed, late := map[string]decimal.Decimal{}, map[string]decimal.Decimal{}
	since := map[string]int64{}
	for _, v := range invoices {
		if v.Status == billing.InvoiceDue || v.Status == billing.InvoicePastDue {
			owed[v.Currency], _ = owed[v.Currency].Add(v.Amount)
		}
		if v.Status == billing.InvoicePastDue {
			late[v.Currency], _ = late[v.Currency].Add(v.Amount)
			if since[v.Currency] == 0 || v.DueDate < since[v.Currency] {
				since[v.Currency] = v.DueDate
			}
		}
	}
	plans := int64(0)
	for _, m := range monthly {
		plans += m.count
	}
	require.Len(t, got.Plans, int(plans))
	named := map[string]bool{}
	for _, a := range got.Amounts {
		named[a.Currency] = true
		require.Equal(t, owed[a.Currency], a.Owed)
		require.Equal(t, late[a.Currency], a.PastDue)
		require.Equal(t, since[a.Currency], a.PastDueSince)
		monthly.requireMonthly(t, a.Currency, a.MonthlyRecurring)
	}
	for currency := range owed {
		require.True(t, named[currency])
	}
	for currency := range monthly {
		require.True(t, named[currency])
	}
}

var rankings = []billing.RankedBy{
	billing.RankedByOwed, billing.RankedByPastDue, billing.RankedByRecurring,
}

// requireRanked ranks an environment's customers by what Standing says of each.
func requireRanked(t require.TestingT, m *billing.Machine, env uint32, rows []uint32) {
	currencies := m.Currencies(env)
	for _, currency := range append(currencies, "XXX") {
		for _, by := range rankings {
			type place struct {
				name   string
				amount decimal.Decimal
			}
			var want []place
			for _, row := range rows {
				for _, a := range m.Standing(row).Amounts {
					amount := [...]decimal.Decimal{a.Owed, a.PastDue, a.MonthlyRecurring}[by]
					if a.Currency == currency && amount.Sign() > 0 {
						names, _ := m.CustomerNames(env, row)
						want = append(want, place{names.ExternalID, amount})
					}
				}
			}
			slices.SortStableFunc(want, func(a, b place) int { return b.amount.Cmp(a.amount) })
			for _, from := range []int{0, 1, 1000} {
				for _, limit := range []int{1, 2, 1000} {
					list, others := m.RankCustomers(&billing.Ranking{
						Env: env, Currency: currency, By: by, From: from, Limit: limit,
					})
					some := want[min(from, len(want)):]
					some = some[:min(limit, len(some))]
					require.Len(t, list, len(some))
					for i, w := range some {
						require.Equal(t, w.name, list[i].ExternalID, "%s %v", currency, by)
					}
					require.Equal(t, max(0, len(want)-from-limit), others)
				}
			}
		}
	}
}

// requireRevenue adds up the listed invoices of an environment and compares.
func requireRevenue(
	t require.TestingT, invoices []billing.InvoiceView, q *billing.UsageQuery,
	got []billing.RevenueSeries, monthly recurring,
) {
	type sums struct {
		billed, collected, due, late rollup.Cell
		settled, void                rollup.Cell
		issued, paid                 map[int64]rollup.Cell // by bucket
	}
	want := map[string]*sums{}
	for _, v := range invoices {
		s := want[v.Currency]
		if s == nil {
			s = &sums{issued: map[int64]rollup.Cell{}, paid: map[int64]rollup.Cell{}}
			want[v.Currency] = s
		}
		in := func(at int64, all *rollup.Cell, buckets map[int64]rollup.Cell) {
			if at >= q.From && at < q.To {
				all.Add(1, v.Amount)
				c := buckets[q.By.Begin(at)]
				c.Add(1, v.Amount)
				buckets[q.By.Begin(at)] = c
			}
		}
		switch v.Status {
		case billing.InvoiceVoid:
			s.void.Add(1, v.Amount)
			continue
		case billing.InvoicePaid:
			s.settled.Add(1, v.Amount)
			in(v.PaidAt, &s.collected, s.paid)
		case billing.InvoiceDue:
			s.due.Add(1, v.Amount)
		case billing.InvoicePastDue:
			s.late.Add(1, v.Amount)
		}
		in(v.CreatedAt, &s.billed, s.issued)
	}
	for currency := range monthly {
		if want[currency] == nil {
			want[currency] = &sums{}
		}
	}
	require.Len(t, got, len(want))
	equal := func(c *rollup.Cell, d decimal.Decimal) {
		if c.Units.InRange() { // else an answer has the largest number
			require.Equal(t, c.Units, d)
		}
	}
	for i := range got {
		g := &got[i]
		s := want[g.Currency]
		require.Equal(t, s.due.Events, g.DueInvoices)
		require.Equal(t, s.late.Events, g.PastDueInvoices)
		equal(&s.billed, g.Billed)
		equal(&s.collected, g.Collected)
		equal(&s.due, g.Due)
		equal(&s.late, g.PastDue)
		require.Equal(t, s.settled.Events, g.PaidInvoices)
		require.Equal(t, s.void.Events, g.VoidInvoices)
		equal(&s.settled, g.Paid)
		equal(&s.void, g.Void)
		monthly.requireMonthly(t, g.Currency, g.MonthlyRecurring)
		if m := monthly[g.Currency]; m != nil {
			require.Equal(t, m.count, g.Subscriptions)
		}
		buckets := maps.Clone(s.issued)
		maps.Copy(buckets, s.paid)
		require.Len(t, g.Points, len(buckets))
		for _, p := range g.Points {
			issued, paid := s.issued[p.Start], s.paid[p.Start]
			require.Equal(t, issued.Events, p.Invoices)
			equal(&issued, p.Billed)
			equal(&paid, p.Collected)
		}
	}
}

// Checks that are too old or still being counted are told from none at all.
func TestChecksFrom(t *testing.T) {
	const day = 24 * rollup.HourMS
	m, l := opened()
	src := &enginetest.Source{Journal: m.Journal()}
	begin := l.Stamp
	at := func(days int64) {
		l.Stamp = begin + days*day
		l.DoPayload(engine.KindTick, nil)
		src.Keep(&l.Applied)
	}
	check := func(sequence uint64) {
		var b billing.AuditBlock
		b.Reset(1, 1, sequence)
		b.Add(&billing.AuditCheck{
			Env: enginetest.Sandbox, CustomerRow: 1, FeatureNumber: 1, Reason: 1, At: l.Stamp,
		})
		done := l.DoPayload(billing.KindRecordAudits, b.Encode(nil))
		require.Equal(t, engine.OutcomeDone, done.Outcome)
		src.Keep(&l.Applied)
	}
	q := billing.UsageQuery{
		Env: enginetest.Sandbox, By: billing.ByDay, From: begin - day, To: begin + 99*day,
	}
	counted := func(src rollup.Source) (checks, from int64) {
		totals, err := m.UsageTotals(src, &q)
		require.NoError(t, err)
		for _, c := range totals.Checks {
			checks += c.Checks
		}
		return checks, totals.ChecksFrom
	}
	check(1)
	at(20)
	check(2)
	checks, from := counted(src)
	require.Equal(t, int64(2), checks)
	require.Zero(t, from, "all are counted")
	checks, from = counted(counting{src})
	require.Zero(t, checks)
	require.Equal(t, q.To, from, "none is counted yet")
	at(21)
	at(30)
	checks, from = counted(src)
	require.Equal(t, int64(1), checks)
	require.Equal(t, begin+20*day, from, "the first is too old")
	require.Equal(t, engine.OutcomeDone, l.Do(billing.KindAdvanceClock, &billing.AdvanceClock{
		Env: enginetest.Sandbox, To: l.Stamp + 5*day,
	}).Outcome)
	_, from = counted(src)
	require.Equal(t, begin+25*day, from, "on the environment's clock")
	at(60)
	checks, from = counted(src)
	require.Zero(t, checks)
	require.Equal(t, begin+65*day, from)
}

// counting is a source whose audit part is still being counted.
type counting struct{ rollup.Source }

func (c counting) Sum(q rollup.Query, yield func(rollup.Cell) error) error {
	if q.Part == journal.PartAudit {
		return rollup.ErrCounting
	}
	return c.Source.Sum(q, yield)
}

// many is a journal that counted so many items.
type many struct {
	cells, yielded int
}

func (n *many) Sum(_ rollup.Query, yield func(rollup.Cell) error) error {
	for n.yielded = range n.cells {
		err := yield(rollup.Cell{Key: rollup.Key{Item: uint32(n.yielded)}, Events: 1})
		if err != nil {
			return fmt.Errorf("of the source: %w", err)
		}
	}
	return nil
}

// BenchmarkRankCustomers ranks all customers of an environment by their subscriptions.
func BenchmarkRankCustomers(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m, _ := sized(b, n)
			q := billing.Ranking{
				Env: enginetest.Sandbox, Currency: "USD", By: billing.RankedByRecurring, Limit: 50,
			}
			b.ReportAllocs()
			for b.Loop() {
				if list, others := m.RankCustomers(&q); len(list)+others != n {
					b.Fatal(len(list), others)
				}
			}
		})
	}
}

// BenchmarkCountRecord counts usage events as a node does with each sealed segment.
func BenchmarkCountRecord(b *testing.B) {
	m, l := opened()
	for range 1000 {
		u := enginetest.Usage(l, strconv.FormatUint(l.Index, 10), "ada", "output-tokens", 3)
		l.DoPayload(billing.KindRecordUsage, u.Seal(nil))
	}
	src := &enginetest.Source{Journal: m.Journal()}
	b.ReportAllocs()
	for b.Loop() {
		var tally rollup.Tally
		if err := src.Walk(nil, 0, func(r journal.Record) error {
			billing.CountRecord(r, tally.Add)
			return nil
		}); err != nil || len(tally.Cells()) != 2 {
			b.Fatal(err)
		}
	}
}

// eachCustomer yields a cell of one event for each of so many customers.
type eachCustomer int

func (n eachCustomer) Sum(q rollup.Query, yield func(rollup.Cell) error) error {
	for row := int(q.Owner); row <= min(int(n), int(q.Last())); row++ {
		c := rollup.Cell{Key: rollup.Key{Owner: uint64(row), Item: 1}, Events: 1}
		if err := yield(c); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkUsageByCustomer ranks all customers of an environment.
func BenchmarkUsageByCustomer(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m, _ := sized(b, n)
			q := billing.UsageQuery{Env: enginetest.Sandbox, To: enginetest.Epoch}
			used := processorTime(b)
			for b.Loop() {
				list, others, err := m.UsageByCustomer(eachCustomer(n), &q, 20)
				require.NoError(b, err)
				require.Equal(b, n, len(list)+others)
			}
			used = processorTime(b) - used
			b.ReportMetric(float64(used.Nanoseconds())/float64(b.N)/1e6, "cpu-ms/ranking")
		})
	}
}

// BenchmarkUsageByPrice is the same by what the usage adds to bills.
func BenchmarkUsageByPrice(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m, _ := sized(b, n)
			q := billing.PriceQuery{Currency: "USD", Max: 20, UsageQuery: billing.UsageQuery{
				Env: enginetest.Sandbox, To: enginetest.Epoch,
			}}
			used := processorTime(b)
			for b.Loop() {
				_, _, err := m.UsageByPrice(eachCustomer(n), &q)
				require.NoError(b, err)
			}
			used = processorTime(b) - used
			b.ReportMetric(float64(used.Nanoseconds())/float64(b.N)/1e6, "cpu-ms/ranking")
		})
	}
}

// TestStatsKeepNoMemoryOfTheJournal: metrics are scraped all the time, and memory is used again.
func TestStatsKeepNoMemoryOfTheJournal(t *testing.T) {
	m := billing.NewCutting(4 << 10)
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, enginetest.TokenPlan())
	enginetest.NewCustomer(l, "ada", "llm-team")
	var memory []*byte
	for i := 0; len(memory) < 3; i++ {
		u := enginetest.Usage(l, strconv.Itoa(i), "ada", "input-tokens", 1)
		l.DoPayload(billing.KindRecordUsage, u.Seal(nil))
		stats := m.Stats().Journal[journal.PartUsage]
		require.NotZero(t, stats.Bytes)
		require.EqualValues(t, enginetest.Epoch, stats.OldestAt)
		for j := range l.Applied.Sealed {
			memory = append(memory, &l.Applied.Sealed[j].Data[0])
			l.Applied.Sealed[j].Release()
		}
	}
	require.Same(t, memory[0], memory[1])
	require.Same(t, memory[1], memory[2])
}
