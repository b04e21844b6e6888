package billing_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// populated is a machine with customers c-0 … c-(n−1), one subscription with three counters and
// one invoice each. Machines of one size are shared by the benchmarks.
func populated(n int) (*billing.Machine, *enginetest.Log) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	l.Keep = false
	enginetest.NewAccount(l, enginetest.TokenPlan())
	var records []engine.Record
	flush := func() {
		results, err := l.Apply(records...)
		if err != nil {
			panic(err)
		}
		for i, r := range results {
			if r.Outcome != engine.OutcomeDone {
				panic(fmt.Sprintf("record %d: %s", i, r.Outcome))
			}
		}
		records = records[:0]
	}
	for i := range n {
		name := customerName(i)
		records = append(records, engine.Record{
			Kind: billing.KindCreateCustomer, Payload: wire.Encode(nil, &billing.CreateCustomer{
				Env: enginetest.Sandbox, ID: enginetest.ID("c" + name), ExternalID: name,
				FirstName: "Ada", LastName: "Lovelace", Email: name + "@example.com",
				Address: "12 St James's Square, London",
			}),
		}, engine.Record{
			Kind: billing.KindCreateSubscription, Payload: wire.Encode(nil, &billing.CreateSubscription{
				Env: enginetest.Sandbox, ID: enginetest.ID("s" + name),
				InvoiceID: enginetest.ID("i" + name), Customer: name, Plan: "llm-team", GraceDays: 7,
			}),
		})
		if len(records) >= 300 {
			flush()
		}
	}
	flush()
	return m, l
}

func customerName(i int) string { return fmt.Sprintf("customer-%08d", i) }

var (
	millionOnce    sync.Once
	millionMachine *billing.Machine
	millionLog     *enginetest.Log
	millionBytes   float64
)

// million returns the machine with a million customers, built once.
func million() (*billing.Machine, *enginetest.Log) {
	millionOnce.Do(func() {
		before := heap()
		millionMachine, millionLog = populated(1_000_000)
		millionBytes = float64(heap()-before) / 1_000_000
	})
	return millionMachine, millionLog
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

func sized(b *testing.B, n int) (*billing.Machine, *enginetest.Log) {
	b.Helper()
	if n == 1_000_000 {
		return million()
	}
	return populated(n)
}

var sizes = []int{1_000, 100_000, 1_000_000}

// BenchmarkCheck draws customers at random.
func BenchmarkCheck(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m, l := sized(b, n)
			names := make([][]byte, 1<<16)
			for i := range names {
				names[i] = []byte(customerName(rand.IntN(n)))
			}
			q := billing.CheckQuery{
				Env: enginetest.Sandbox, Feature: []byte("output-tokens"), Now: l.Stamp,
			}
			var d billing.Decision
			b.ReportAllocs()
			i := 0
			used := processorTime(b)
			for b.Loop() {
				q.Customer = names[i&(len(names)-1)]
				m.Check(&q, &d)
				i++
			}
			used = processorTime(b) - used
			b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "cpu-ns/check")
			if !d.Allowed() {
				b.Fatalf("denied: %v", d.Reason)
			}
		})
	}
}

// BenchmarkCheckTogether is 64 checks at once.
func BenchmarkCheckTogether(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m, l := sized(b, n)
			qs := make([]billing.CheckQuery, 1<<16)
			for i := range qs {
				qs[i] = billing.CheckQuery{
					Env: enginetest.Sandbox, Feature: []byte("output-tokens"), Now: l.Stamp,
					Customer: []byte(customerName(rand.IntN(n))),
				}
			}
			ds := make([]billing.Decision, 64)
			b.ReportAllocs()
			at := 0
			used := processorTime(b)
			for b.Loop() {
				m.CheckTogether(qs[at:at+len(ds)], ds)
				at = (at + len(ds)) & (len(qs) - 1)
			}
			used = processorTime(b) - used
			checks := float64(b.N * len(ds))
			b.ReportMetric(float64(used.Nanoseconds())/checks, "cpu-ns/check")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/checks, "ns/op")
			if !ds[0].Allowed() {
				b.Fatalf("denied: %v", ds[0].Reason)
			}
		})
	}
}

// BenchmarkCheckBeside is a check among a million customers while another goroutine applies usage
// events at full speed, and, in the second case, a third writes snapshots without a pause.
func BenchmarkCheckBeside(b *testing.B) {
	for _, snapshots := range []bool{false, true} {
		name := "ingest"
		if snapshots {
			name = "snapshot"
		}
		b.Run(name, func(b *testing.B) { checkBeside(b, snapshots) })
	}
}

// besideEvents are enough for some seconds; they are made before anything is measured.
const besideEvents = 2_000_000

func checkBeside(b *testing.B, snapshots bool) {
	m, l := million()
	l.Stamp += 1000
	entries, _ := usageEntries(l, 1_000_000, besideEvents)
	q := billing.CheckQuery{Env: enginetest.Sandbox, Feature: []byte("output-tokens"), Now: l.Stamp}
	names := make([][]byte, 1<<16)
	for i := range names {
		names[i] = []byte(customerName(rand.IntN(1_000_000)))
	}
	applied, stop := make(chan struct{}), make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		defer close(applied)
		var out engine.Applied
		for _, e := range entries {
			l.Index++
			if err := m.Apply(l.Index, e, &out); err != nil {
				panic(err)
			}
		}
	})
	if snapshots {
		writing.Go(func() { writeSnapshots(m, stop) })
	}
	var took []time.Duration
	var d billing.Decision
	for running := true; running; { // a check each time, and at least one when all is applied
		select {
		case <-applied:
			running = false
		default:
		}
		q.Customer = names[len(took)&(len(names)-1)]
		begin := time.Now()
		m.Check(&q, &d)
		took = append(took, time.Since(begin))
	}
	close(stop)
	writing.Wait()
	require.True(b, d.Allowed())
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
	b.ReportMetric(float64(len(took)), "checks")
	b.ReportMetric(0, "ns/op")
}

// writeSnapshots writes one after the other to nowhere, at least one.
func writeSnapshots(m *billing.Machine, stop <-chan struct{}) {
	for {
		sn, err := m.Snapshot()
		if err != nil {
			panic(err)
		}
		if _, err = sn.WriteTo(io.Discard); err != nil {
			panic(err)
		}
		sn.Release()
		select {
		case <-stop:
			return
		default:
		}
	}
}

// BenchmarkApplyUsage applies entries of 256 KiB; ns/op is per usage event. The last case has 50
// million keys besides a million customers, and takes 4 GiB.
func BenchmarkApplyUsage(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m, l := sized(b, n)
			applyUsage(b, m, l, n)
		})
	}
	b.Run("1000000-50M-keys", func(b *testing.B) {
		m, l := million()
		for m.Stats().IdempotencyKeys < 50_000_000 {
			entries, _ := usageEntries(l, 1_000_000, 500_000)
			applyEntries(b, m, l, entries)
		}
		applyUsage(b, m, l, 1_000_000)
	})
}

func applyUsage(b *testing.B, m *billing.Machine, l *enginetest.Log, customers int) {
	b.Helper()
	l.Stamp += 1000
	entries, perEntry := usageEntries(l, customers, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	used := processorTime(b)
	applyEntries(b, m, l, entries)
	used = processorTime(b) - used
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "cpu-ns/event")
	b.ReportMetric(float64(perEntry), "events/entry")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func applyEntries(b *testing.B, m *billing.Machine, l *enginetest.Log, entries [][]byte) {
	b.Helper()
	var out engine.Applied
	for _, e := range entries {
		l.Index++
		if err := m.Apply(l.Index, e, &out); err != nil {
			b.Fatal(err)
		}
		for i := range out.Sealed {
			out.Sealed[i].Release() // as a node does that has stored it
		}
		for _, r := range out.Results {
			if !r.Outcome.Recorded() {
				b.Fatalf("outcome %d", r.Outcome)
			}
		}
	}
}

// processorTime is what the process has used so far, its garbage collector included: on a machine
// that others use too, it says more than the time on the wall.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var benchKey uint64

// usageEntries makes entries that hold events events of random customers.
func usageEntries(l *enginetest.Log, n, events int) (entries [][]byte, perEntry int) {
	features := [][]byte{[]byte("requests"), []byte("input-tokens"), []byte("output-tokens")}
	var entry []byte
	close := func() {
		if entry != nil {
			engine.SetStamp(entry, l.Stamp)
			entries = append(entries, entry)
		}
		entry = nil
	}
	var payload []byte
	for i := range events {
		benchKey++
		key := fmt.Appendf(nil, "bench-%012d", benchKey)
		c := billing.RecordUsage{
			Env: enginetest.Sandbox, Key: billing.UsageKey(enginetest.Sandbox, key), Attempt: 7,
			KeyText: key, Customer: []byte(customerName(rand.IntN(n))),
			EventName: features[i%3], Units: decimal.FromInt(int64(i % 100)),
			OccurredAt: l.Stamp - 100,
		}
		payload = c.Seal(payload[:0])
		r := engine.Record{Kind: billing.KindRecordUsage, Payload: payload}
		if entry != nil && len(entry)+engine.RecordSize(r) > engine.MaxEntryBytes {
			close()
		}
		if entry == nil {
			entry = engine.AppendHeader(make([]byte, 0, engine.MaxEntryBytes), 0)
			perEntry = 0
		}
		entry = engine.AppendRecord(entry, r)
		perEntry++
	}
	perEntry = max(perEntry, events/max(1, len(entries)))
	close()
	return entries, perEntry
}

// BenchmarkCustomerMemory prints the bytes that a customer with one subscription, three counters
// and the initial invoice takes.
func BenchmarkCustomerMemory(b *testing.B) {
	million()
	for b.Loop() {
		continue
	}
	b.ReportMetric(millionBytes, "B/customer")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkSnapshot starts a snapshot of a million customers; the time is that of Snapshot().
func BenchmarkSnapshot(b *testing.B) {
	m, _ := million()
	var starting, writing time.Duration
	n := 0
	for b.Loop() {
		begin := time.Now()
		sn, err := m.Snapshot()
		if err != nil {
			b.Fatal(err)
		}
		starting += time.Since(begin)
		begin = time.Now()
		if _, err := sn.WriteTo(io.Discard); err != nil {
			b.Fatal(err)
		}
		writing += time.Since(begin)
		sn.Release()
		n++
	}
	b.ReportMetric(float64(starting.Microseconds())/float64(n), "µs/start")
	b.ReportMetric(float64(writing.Milliseconds())/float64(n), "ms/write")
}

// BenchmarkSeal encodes a usage event.
func BenchmarkSeal(b *testing.B) {
	c := enginetest.Usage(&enginetest.Log{Stamp: enginetest.Epoch}, "key-1", "c-1", "requests", 3)
	buf := make([]byte, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		buf = c.Seal(buf[:0])
	}
}
