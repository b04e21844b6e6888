package rollups

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/rollup"
)

// BenchmarkYear asks for a year in an environment of a million customers with 1,400 segments, some
// 100 million events: of a customer who used three features in each hour, and of all of them
// together.
func BenchmarkYear(b *testing.B) {
	const (
		customers, segments, hours = 1_000_000, 1400, 365 * 24
		busy                       = 500_000 // of customers, the one with usage in each hour
	)
	h := openHistory(b.TempDir())
	h.opts.BlockBytes = 16 << 10
	for i := int64(0); len(h.journal.View()[journal.PartUsage].Segments) < segments; i++ {
		h.record(journal.KindUsage, 1, 1, 1, i)
	}
	view := h.journal.View()[journal.PartUsage]
	require.NoError(b, h.opts.FS.MkdirAll(h.dir))
	cells := 0
	for first := uint64(1); first <= segments; {
		last := first
		for _, n := range [...]uint64{256, 16} {
			if (first-1)%n == 0 && first+n-1 <= segments {
				last = first + n - 1
				break
			}
		}
		w, err := h.newWriter("next", journal.PartUsage, first, last, &view, 1)
		require.NoError(b, err)
		from, to := int32((first-1)*hours/segments), int32(last*hours/segments)
		series := func(owner uint64, item uint32) {
			for hour := from; hour < to; hour++ {
				w.add(&rollup.Cell{
					Key: rollup.Key{Owner: owner, Item: item, Hour: hour}, Events: 9, Units: decimal.FromInt(5000),
				})
			}
		}
		for owner := uint64(1); owner <= customers; owner++ {
			for item := uint32(1); item <= 3; item++ {
				switch {
				case owner == busy:
					series(owner, item)
				case last-first == 255:
					w.add(&rollup.Cell{
						Key:    rollup.Key{Owner: owner, Item: item, Hour: from + int32(owner)%(to-from)},
						Events: 9, Units: decimal.FromInt(5000),
					})
				}
			}
		}
		for item := range uint32(10) {
			series(rollup.Environment(1), item)
		}
		made, err := w.end()
		require.NoError(b, err)
		require.NoError(b, h.replace(made, nil))
		cells += int(made.cells)
		first = last + 1
	}
	for _, owner := range []uint64{busy, busy + 1, rollup.Environment(1)} {
		b.Run(fmt.Sprint(owner), func(b *testing.B) {
			b.ReportMetric(float64(cells), "cells")
			for b.Loop() {
				n := 0
				require.NoError(b, h.Sum(rollup.Query{Owner: owner, To: hours}, func(rollup.Cell) error {
					n++
					return nil
				}))
				b.ReportMetric(float64(n), "cells/query")
			}
		})
	}
}

// BenchmarkMerge makes one run of sixteen, each with 20,000 of a million customers.
func BenchmarkMerge(b *testing.B) {
	const customers, cells = 1_000_000, 20_000
	for b.Loop() {
		b.StopTimer()
		h := openHistory(b.TempDir())
		h.opts.BlockBytes = 16 << 10
		for i := int64(0); len(h.journal.View()[journal.PartUsage].Segments) < fanIn; i++ {
			h.record(journal.KindUsage, 1, 1, 1, i)
		}
		view := h.journal.View()[journal.PartUsage]
		require.NoError(b, h.opts.FS.MkdirAll(h.dir))
		for n := uint64(1); n <= fanIn; n++ {
			w, err := h.newWriter("next", journal.PartUsage, n, n, &view, 1)
			require.NoError(b, err)
			for i := uint64(0); i < cells; i++ {
				owner := i*(customers/cells) + (i*n*7919)%(customers/cells)
				w.add(&rollup.Cell{
					Key:    rollup.Key{Owner: owner, Item: 1, Hour: 400_000},
					Events: 1, Units: decimal.FromInt(3),
				})
			}
			made, err := w.end()
			require.NoError(b, err)
			require.NoError(b, h.replace(made, nil))
		}
		b.StartTimer()
		for {
			did, err := h.merge(journal.PartUsage, &view)
			require.NoError(b, err)
			if !did {
				break
			}
		}
		b.StopTimer()
		require.Len(b, h.runs[journal.PartUsage], 1)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(fanIn*cells), "ns/cell")
}

// BenchmarkCountSegment counts a whole segment of usage events, of 10,000 customers in turns, and
// writes its file.
func BenchmarkCountSegment(b *testing.B) {
	const customers = 10_000
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, enginetest.TokenPlan())
	for i := range customers {
		enginetest.NewCustomer(l, strconv.Itoa(i), "llm-team")
	}
	src, events := &enginetest.Source{Journal: m.Journal()}, 0
	sealed := func() int {
		return slices.IndexFunc(src.Sealed, func(s journal.Segment) bool {
			return s.Part == journal.PartUsage
		})
	}
	for ; sealed() < 0; events++ {
		customer := strconv.Itoa(events % customers)
		u := enginetest.Usage(l, strconv.Itoa(events), customer, "output-tokens", 3)
		l.DoPayload(billing.KindRecordUsage, u.Seal(nil))
		src.Keep(&l.Applied)
	}
	data := src.Sealed[sealed()].Data
	b.ResetTimer()
	for b.Loop() {
		counts := Open(b.TempDir(), Options{
			Journal: m.Journal(),
			Count:   billing.CountRecord, CountVersions: billing.CountVersions,
			Lend: func(_ journal.Part, _ uint64, use func([]byte) error) error { return use(data) },
		})
		for did := true; did; { // read what is there, count the segment
			var err error
			did, err = counts.Step(hurried())
			require.NoError(b, err)
		}
		require.Len(b, counts.runs[journal.PartUsage], 1)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
}
