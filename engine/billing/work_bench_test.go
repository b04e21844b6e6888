package billing_test

import (
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// longest keeps how long the longest Apply took: on the wall, and of the processor, which is what
// it would take on a machine that does nothing else.
type longest struct {
	wall, processor, sum time.Duration
	// work is what all entries counted, most the entry that counted most.
	work, most int
	// before is called before each entry.
	before func()
}

// threadTime is what this thread has used so far; the goroutine is locked to it.
func threadTime(b testing.TB) time.Duration {
	b.Helper()
	var t unix.Timespec
	require.NoError(b, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return time.Duration(t.Nano())
}

func record(kind engine.Kind, c wire.Fielder) engine.Record {
	return engine.Record{Kind: kind, Payload: wire.Encode(nil, c)}
}

// apply applies one entry of records, and those again that are deferred.
func (w *longest) apply(b *testing.B, l *enginetest.Log, records ...engine.Record) (entries int) {
	for len(records) > 0 {
		entry := l.Entry(records...)
		if w.before != nil {
			w.before()
		}
		began, used := time.Now(), threadTime(b)
		results, err := l.ApplyEntry(entry)
		w.wall = max(w.wall, time.Since(began))
		used = threadTime(b) - used
		w.processor, w.sum = max(w.processor, used), w.sum+used
		work := l.Machine.(*billing.Machine).Work()
		w.work, w.most = w.work+work, max(w.most, work)
		require.NoError(b, err)
		entries++
		left := records[:0:0]
		for i := range results {
			if results[i].Outcome == engine.OutcomeDeferred {
				left = append(left, records[i])
			}
		}
		records = left
	}
	return entries
}

// settle ticks until nothing is due.
func (w *longest) settle(b *testing.B, l *enginetest.Log) (ticks int) {
	for at := l.Machine.NextDue(); at != 0 && at <= l.Stamp; at = l.Machine.NextDue() {
		ticks += w.apply(b, l, engine.Record{Kind: engine.KindTick})
	}
	return ticks
}

func (w *longest) report(b *testing.B, entries int) {
	b.ReportMetric(float64(entries), "entries")
	b.ReportMetric(float64(w.wall.Microseconds()), "longest-µs")
	b.ReportMetric(float64(w.processor.Microseconds()), "longest-cpu-µs")
	b.ReportMetric(float64(w.sum.Nanoseconds())/float64(w.work), "cpu-ns/unit")
	b.ReportMetric(float64(w.most), "most-units")
}

// used makes each of n customers use its plan.
func used(l *enginetest.Log, n int, feature string) {
	for i := range n {
		u := enginetest.Usage(l, fmt.Sprint(l.Index, " ", i), customerName(i), feature, 100)
		l.DoPayload(billing.KindRecordUsage, u.Seal(nil))
	}
}

// BenchmarkClosePeriods closes the period of 100,000 subscriptions with usage.
func BenchmarkClosePeriods(b *testing.B) {
	for _, beside := range []bool{false, true} {
		b.Run(map[bool]string{false: "alone", true: "beside-snapshots"}[beside], func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var w longest
			entries := 0
			for b.Loop() {
				b.StopTimer()
				m, l := populated(100_000)
				used(l, 100_000, "output-tokens")
				l.Stamp += 28 * dayMS
				end := func() {}
				if beside {
					w.before, end = snapshots(b, m)
				}
				b.StartTimer()
				entries = w.settle(b, l)
				b.StopTimer()
				end()
				b.StartTimer()
			}
			w.report(b, entries)
		})
	}
}

// snapshots returns what begins a snapshot whenever the one before is written, and what ends them.
func snapshots(b *testing.B, m *billing.Machine) (begin, end func()) {
	ready := make(chan engine.Snapshot, 1)
	ready <- nil
	release := func(sn engine.Snapshot) {
		if sn != nil {
			sn.Release()
		}
	}
	begin = func() {
		select {
		case last := <-ready:
			release(last)
		default:
			return
		}
		sn, err := m.Snapshot()
		require.NoError(b, err)
		go func() {
			if _, err := sn.WriteTo(io.Discard); err != nil {
				panic(err)
			}
			ready <- sn
		}()
	}
	return begin, func() { release(<-ready) }
}

// BenchmarkOutage is the first entries after an outage of a year: 20,000 subscriptions have twelve
// periods to close each, and 1,000 events come at once.
func BenchmarkOutage(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var w longest
	entries, ticks := 0, 0
	for b.Loop() {
		b.StopTimer()
		_, l := populated(20_000)
		l.Stamp += 366 * dayMS
		var records []engine.Record
		for i := range 1000 {
			u := enginetest.Usage(l, fmt.Sprint("after ", i), customerName(i), "requests", 1)
			records = append(records, engine.Record{
				Kind: billing.KindRecordUsage, Payload: u.Seal(nil),
			})
		}
		b.StartTimer()
		entries = w.apply(b, l, records...)
		ticks = w.settle(b, l)
	}
	w.report(b, entries)
	b.ReportMetric(float64(ticks), "ticks")
}

// BenchmarkManySubscriptions is a customer at its limit of subscriptions, five years
// behind, whose next event comes.
func BenchmarkManySubscriptions(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var w longest
	entries := 0
	for b.Loop() {
		b.StopTimer()
		_, l := populated(1)
		for i := range billing.MaxSubscriptions - 1 {
			l.Do(billing.KindCreateSubscription, &billing.CreateSubscription{
				Env: enginetest.Sandbox, ID: enginetest.ID(fmt.Sprint("s", i)),
				InvoiceID: enginetest.ID(fmt.Sprint("i", i)),
				Customer:  customerName(0), Plan: "llm-team",
			})
		}
		l.Stamp += 5 * 366 * dayMS
		u := enginetest.Usage(l, "after", customerName(0), "requests", 1)
		b.StartTimer()
		entries = w.apply(b, l, engine.Record{
			Kind: billing.KindRecordUsage, Payload: u.Seal(nil),
		})
	}
	w.report(b, entries)
}

// widePlan is a plan with so many features of so many tiers each.
func widePlan(features, tiers int) billing.CatalogDocument {
	var doc billing.CatalogDocument
	plan := billing.PlanDocument{
		Key: "wide", Name: "Wide", Currency: "USD", IntervalMonths: 1,
		PriceAmount: decimal.FromInt(20),
	}
	for i := range features {
		key := fmt.Sprintf("feature-%03d", i)
		doc.Features = append(doc.Features, billing.FeatureDocument{Key: key, Name: key})
		f := billing.PlanFeatureDocument{Key: key, PricingType: "graduated"}
		f.Pricing.ResetMode = map[bool]string{true: "accumulate", false: "reset"}[i%2 == 0]
		for n := range tiers {
			tier := billing.TierDocument{PricePerUnit: decimal.MustParse("0.000003")}
			if tier.Infinite = n == tiers-1; !tier.Infinite {
				tier.UpTo = decimal.FromInt(int64(n+1) * 10)
			}
			f.Pricing.Tiers = append(f.Pricing.Tiers, tier)
		}
		plan.Features = append(plan.Features, f)
	}
	doc.Plans = append(doc.Plans, plan)
	return doc
}

// widened is a machine with n customers on a wide plan, who used each feature.
func widened(n, features, tiers int) (*billing.Machine, *enginetest.Log) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	l.Keep = false
	enginetest.NewAccount(l, widePlan(features, tiers))
	for i := range n {
		enginetest.NewCustomer(l, customerName(i), "wide")
		for k := range features {
			u := enginetest.Usage(l, fmt.Sprint(i, " ", k), customerName(i),
				fmt.Sprintf("feature-%03d", k), 500)
			l.DoPayload(billing.KindRecordUsage, u.Seal(nil))
		}
	}
	return m, l
}

// BenchmarkWidePlans closes periods of plans with many features and tiers: rating is linear in
// tiers, and an invoice has a line for each feature.
func BenchmarkWidePlans(b *testing.B) {
	for _, size := range [][2]int{{1, 1}, {1, 100}, {100, 1}, {100, 100}, {500, 25}} {
		b.Run(fmt.Sprintf("features=%d/tiers=%d", size[0], size[1]), func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var w longest
			entries := 0
			for b.Loop() {
				b.StopTimer()
				_, l := widened(100, size[0], size[1])
				l.Stamp += 28 * dayMS
				b.StartTimer()
				entries = w.settle(b, l)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/100, "µs/subscription")
			w.report(b, entries)
		})
	}
}

// BenchmarkPruneCatalog archives all of a catalog that is as large as one may be.
func BenchmarkPruneCatalog(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var w longest
	for b.Loop() {
		b.StopTimer()
		m := billing.New(billing.Config{})
		l := enginetest.NewLog(m, enginetest.Epoch)
		l.Keep = false
		enginetest.NewAccount(l, enginetest.TokenPlan())
		for part := range 20 {
			doc := largeCatalog(part)
			l.Do(billing.KindApplyCatalog, enginetest.ApplyCatalog(enginetest.Sandbox, doc))
		}
		l.Do(billing.KindApplyCatalog, enginetest.ApplyCatalog(enginetest.Sandbox, largeCatalog(0)))
		prune := enginetest.ApplyCatalog(enginetest.Sandbox, enginetest.TokenPlan())
		prune.Prune = true
		b.StartTimer()
		w.apply(b, l, record(billing.KindApplyCatalog, prune))
	}
	w.report(b, 1)
}

// largeCatalog is the n-th part of a catalog of 10,000 features and plans.
func largeCatalog(n int) (doc billing.CatalogDocument) {
	for i := range 490 {
		key := fmt.Sprintf("key-%02d-%03d", n, i)
		doc.Features = append(doc.Features, billing.FeatureDocument{Key: key, Name: key})
		doc.Plans = append(doc.Plans, billing.PlanDocument{
			Key: key, Name: key, Currency: "USD", IntervalMonths: 1,
			Features: []billing.PlanFeatureDocument{{Key: key, PricingType: "included"}},
		})
	}
	return doc
}

// BenchmarkAdvanceClock moves a sandbox of 5,000 subscriptions with pools of expiring credits by
// five years; the command and the ticks that follow are measured.
func BenchmarkAdvanceClock(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var w longest
	entries := 0
	for b.Loop() {
		b.StopTimer()
		m := billing.New(billing.Config{})
		l := enginetest.NewLog(m, enginetest.Epoch)
		l.Keep = false
		doc := enginetest.TokenPlan()
		doc.Plans[0].CreditAllocations = []billing.CreditAllocationDocument{{
			Pool: "credits", Amount: decimal.FromInt(10), RolloverPolicy: "FULL",
			ExpiresAfterDays: 45, Currency: "USD", Denomination: "credits",
		}}
		enginetest.NewAccount(l, doc)
		for i := range 5_000 {
			enginetest.NewCustomer(l, customerName(i), "llm-team")
		}
		to := l.Stamp + 5*365*dayMS
		b.StartTimer()
		entries = w.apply(b, l, record(billing.KindAdvanceClock, &billing.AdvanceClock{
			Env: enginetest.Sandbox, To: to,
		}))
		entries += w.settle(b, l)
		if !m.ClockSettledTo(enginetest.Sandbox, to) {
			b.Fatal("not settled")
		}
	}
	w.report(b, entries)
}
