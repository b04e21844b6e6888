package billing_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/journal"
)

// watched is a source that looks at how much memory is in use when a walk has yielded everything.
type watched struct {
	journal.Source
	inUse uint64
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC() // what has a finalizer outlives the first
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func (w *watched) Walk(owners []uint32, from uint64, yield func(journal.Record) error) error {
	err := w.Source.Walk(owners, from, yield)
	w.inUse = max(w.inUse, inUse())
	return err
}

// TestVerifyingHoldsNoRecords: however many records a customer has, verifying and explaining hold
// the same; of closed periods, too, only what the state holds of them.
func TestVerifyingHoldsNoRecords(t *testing.T) {
	held := func(events, months int) int64 {
		k := openBooks(t)
		k.l.Keep = false
		for i := range months {
			for j := range events {
				u := enginetest.Usage(k.l, fmt.Sprint("k", i, " ", j), "ada", "input-tokens", 1)
				k.l.DoPayload(billing.KindRecordUsage, u.Seal(nil))
			}
			k.to(k.l.Stamp + 31*dayMS)
		}
		src := &watched{Source: k.src}
		before := inUse()
		v, err := k.m.VerifyInvoices(src, enginetest.Sandbox, []uint32{1})
		require.NoError(t, err)
		require.Empty(t, v.Differences)
		require.Equal(t, uint64(events*months), v.Records)
		spans, err := billing.SpansHeld(k.m, k.src, enginetest.Sandbox, 1)
		require.NoError(t, err)
		require.Less(t, spans, 3, "of %d months", months)
		runtime.KeepAlive(k)
		return int64(src.inUse) - int64(before)
	}
	little := held(100, 2)
	require.Less(t, held(10_000, 2)-little, int64(64<<10), "9,900 records more a month")
	require.Less(t, held(1, 60)-little, int64(64<<10), "58 invoices more")
}

// BenchmarkVerify reads the journal of 1,000 customers once.
func BenchmarkVerify(b *testing.B) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	l.Keep = false
	src := &enginetest.Source{Journal: m.Journal()}
	enginetest.NewAccount(l, enginetest.TokenPlan())
	var rows []uint32
	const customers, events, months = 1000, 100, 2
	for i := range customers {
		enginetest.NewCustomer(l, fmt.Sprint("c", i), "llm-team")
		rows = append(rows, uint32(i+1))
	}
	for month := range months {
		for i := range customers * events {
			u := enginetest.Usage(l, fmt.Sprint(month, " ", i), fmt.Sprint("c", i%customers),
				"input-tokens", 7)
			l.DoPayload(billing.KindRecordUsage, u.Seal(nil))
			src.Keep(&l.Applied)
		}
		l.Stamp += 31 * dayMS
		for at := m.NextDue(); at != 0 && at <= l.Stamp; at = m.NextDue() {
			l.DoPayload(engine.KindTick, nil)
			src.Keep(&l.Applied)
		}
	}
	verify := func(rows []uint32, records uint64) {
		v, err := m.VerifyInvoices(src, enginetest.Sandbox, rows)
		require.NoError(b, err)
		require.Empty(b, v.Differences)
		require.Equal(b, records, v.Records)
	}
	b.ReportAllocs()
	for b.Loop() {
		verify(rows, customers*events*months)
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/(customers*events*months)*1e6, "s/1M-events")
}
