package rollups

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/rollup"
	"tollgate/wal"
)

// history is a journal, what its segments have, and a store of its counts.
type history struct {
	*Store
	journal *journal.Journal
	sealed  map[string][]byte
	index   uint64
	reads   atomic.Int64
	counted atomic.Int64 // records
	lost    string       // the segment that cannot be read
	tell    bool         // segments are counted as they are written
	dir     string
	files   wal.FS
	version rollup.Versions
}

var errLost = errors.New("a segment cannot be read")

// openHistory returns one whose segments have few bytes.
func openHistory(dir string) *history {
	h := &history{journal: journal.NewCutting(300), sealed: map[string][]byte{}, dir: dir}
	h.open()
	return h
}

func (h *history) open() {
	h.Store = Open(h.dir, Options{
		FS: h.files, Journal: h.journal, BlockBytes: 64, CountVersions: h.version,
		Count: func(r journal.Record, add func(rollup.Cell)) {
			h.counted.Add(1)
			countRecord(r, add)
		},
		Lend: func(part journal.Part, number uint64, use func([]byte) error) error {
			h.reads.Add(1)
			if fmt.Sprint(part, number) == h.lost {
				return errLost
			}
			lent := bytes.Clone(h.sealed[fmt.Sprint(part, number)])
			defer clear(lent) // it is not kept
			return use(lent)
		},
	})
}

// countRecord counts an event of one owner and one of everybody.
func countRecord(r journal.Record, add func(rollup.Cell)) {
	c := rollup.Cell{
		Key: rollup.Key{
			Owner: uint64(r.Payload[2]), Item: uint32(r.Payload[0]), Hour: rollup.HourOf(r.At),
		},
		Events: 1, Units: decimal.FromInt(int64(r.Payload[1])),
	}
	add(c)
	c.Owner = rollup.Environment(1)
	add(c)
}

// record appends an entry of one record that counts for an owner. As in the billing journal, that
// of the audit part has no owner itself.
func (h *history) record(kind journal.Kind, owner uint32, item, units byte, hour int64) {
	h.index++
	r := journal.Record{
		Kind: kind, Index: h.index, Owner: owner, At: hour * rollup.HourMS,
		Payload: append([]byte{item, units, byte(owner)}, make([]byte, 29)...),
	}
	if kind == journal.KindAudit {
		r.Owner = 0
	}
	h.journal.Append(r)
	for _, s := range h.journal.EndEntry(h.index, nil) {
		h.sealed[fmt.Sprint(s.Part, s.Number)] = append([]byte(nil), s.Data...)
		if h.tell {
			h.Count(s.SegmentInfo, s.Data)
		}
	}
}

// hurried is a context in which Step does not rest.
func hurried() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// settle takes steps until there is nothing to do.
func (h *history) settle(t require.TestingT) { require.NoError(t, h.exhaust()) }

// exhaust takes steps until no work is left, or only work that fails.
func (h *history) exhaust() error {
	for {
		if did, err := h.Step(hurried()); !did {
			return err
		}
	}
}

func sumOf(t require.TestingT, s rollup.Source, q rollup.Query) map[rollup.Key]rollup.Cell {
	sums := map[rollup.Key]rollup.Cell{}
	require.NoError(t, s.Sum(q, func(c rollup.Cell) error {
		require.True(t, q.Has(c.Key))
		sum := sums[c.Key]
		sum.Key = c.Key
		sum.Add(c.Events, c.Units)
		sums[c.Key] = sum
		return nil
	}))
	return sums
}

// plain adds up what the journal has, record by record.
func (h *history) plain(t require.TestingT, q rollup.Query) map[rollup.Key]rollup.Cell {
	sums := map[rollup.Key]rollup.Cell{}
	view := h.journal.View()[q.Part]
	data := [][]byte{view.Tail}
	for _, info := range view.Segments {
		data = append(data, h.sealed[fmt.Sprint(q.Part, info.Number)])
	}
	for _, d := range data {
		require.NoError(t, journal.Scan(d, func(r journal.Record) error {
			countRecord(r, func(c rollup.Cell) {
				if q.Has(c.Key) {
					sum := sums[c.Key]
					sum.Key = c.Key
					sum.Add(c.Events, c.Units)
					sums[c.Key] = sum
				}
			})
			return nil
		}))
	}
	return sums
}

// What was counted as a segment was written is not read again, unless Step fell behind, or the
// segment is of another history.
func TestSegmentsAreCountedAsTheyAreWritten(t *testing.T) {
	h := openHistory(t.TempDir())
	h.tell = true
	segments := func() int { return len(h.journal.View()[journal.PartUsage].Segments) }
	seal := func(n int) {
		for i := int64(0); segments() < n; i++ {
			h.record(journal.KindUsage, 1, 1, 1, i)
		}
	}
	q := rollup.Query{Owner: 1, To: 1000}
	check := func(reads int) {
		h.reads.Store(0)
		h.settle(t)
		require.EqualValues(t, reads, h.reads.Load())
		require.Equal(t, h.plain(t, q), sumOf(t, h, q))
		require.EqualValues(t, reads, h.reads.Load())
		require.Empty(t, h.early.segments)
	}
	seal(3)
	check(0)
	seal(3 + maxEarly + 2)
	check(2)

	seal(3 + maxEarly + 3)
	last := &h.early.segments[0]
	last.info.Hash++
	last.cells = nil
	check(1)
	h.Count(last.info, []byte("no segment"))
	require.Empty(t, h.early.segments, "Step reads it, and says what is wrong")

	seal(3 + maxEarly + 4)
	h.early.segments[0].cells = make([]rollup.Cell, maxEarlyCells)
	info, before := h.early.segments[0].info, h.counted.Load()
	h.Count(info, h.sealed[fmt.Sprint(info.Part, info.Number)])
	require.Equal(t, before, h.counted.Load(), "too many cells wait for Step")
	h.early.put(counted{})
	require.Equal(t, 1, len(h.early.segments))
}

// Whatever was counted, merged, dropped and opened again, sums are those of the journal's records.
func TestSumsAreThoseOfTheJournal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "rollups")
		require.NoError(t, err)
		defer func() { require.NoError(t, os.RemoveAll(dir)) }()
		h := openHistory(dir)
		hour := int64(0)
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			h.tell = rapid.Bool().Draw(t, "told")
			switch rapid.SampledFrom([]string{"record", "record", "step", "settle", "reopen", "expire"}).
				Draw(t, "act") {
			case "record":
				for range rapid.IntRange(1, 400).Draw(t, "records") {
					kind := journal.KindUsage
					if h.index%2 == 1 {
						kind = journal.KindAudit
					}
					hour += int64(h.index % 2)
					n := byte(h.index * 37 >> 2)
					h.record(kind, uint32(n%7), n%3, n, hour-int64(n%5))
				}
			case "step":
				_, err := h.Step(hurried())
				require.NoError(t, err)
			case "settle":
				h.piece = rapid.SampledFrom([]uint64{1, 1 << 20}).Draw(t, "piece")
				h.settle(t)
			case "reopen":
				require.NoError(t, h.Close())
				h.open()
			case "expire":
				h.index++
				h.journal.Expire(hour*rollup.HourMS, 50*rollup.HourMS, nil)
			}
			q := rollup.Query{
				Part: rapid.SampledFrom(journal.Parts()).Draw(t, "part"),
				From: rapid.Int32Range(-5, int32(hour)).Draw(t, "from"), To: int32(hour) + 1,
				Owner:   rapid.SampledFrom([]uint64{0, 1, 3, rollup.Environment(1)}).Draw(t, "owner"),
				Through: rapid.SampledFrom([]uint64{0, 0, 3, rollup.Environment(0) - 1}).Draw(t, "through"),
				Item:    rapid.Uint32Range(0, 3).Draw(t, "item"), HasItem: rapid.Bool().Draw(t, "has item"),
			}
			if q.To -= rapid.Int32Range(0, 3).Draw(t, "before"); rapid.Bool().Draw(t, "short") {
				q.To = q.From + 3
			}
			if len(h.journal.View()[q.Part].Segments) > maxUncounted {
				h.settle(t)
			}
			require.Equal(t, h.plain(t, q), sumOf(t, h, q))
		}
		require.NoError(t, h.Close())
	})
}

// Files are merged by sixteen: their number grows with the logarithm, and a query reads no segment.
func TestFilesAreMerged(t *testing.T) {
	h := openHistory(t.TempDir())
	for i := range 2400 {
		h.record(journal.KindUsage, uint32(i%5), 1, 1, int64(i))
	}
	segments := len(h.journal.View()[journal.PartUsage].Segments)
	require.Greater(t, segments, 300)
	err := h.Sum(rollup.Query{To: 1}, func(rollup.Cell) error { return nil })
	require.ErrorIs(t, err, rollup.ErrCounting, "not one segment is counted yet")
	h.settle(t)
	names, err := os.ReadDir(h.dir)
	require.NoError(t, err)
	require.Len(t, names, segments/256+segments%256/16+segments%16)
	for i := range 300 {
		h.record(journal.KindAudit, 1, 1, 1, int64(i))
	}
	h.settle(t)
	for _, r := range h.runs[journal.PartAudit] {
		require.LessOrEqual(t, r.last-r.first, uint64(fanIn-1), "the oldest segments will be dropped")
	}
	h.reads.Store(0)
	q := rollup.Query{Owner: rollup.Environment(1), To: 3000}
	require.Equal(t, h.plain(t, q), sumOf(t, h, q))
	require.Zero(t, h.reads.Load())
}

// A file that is damaged anywhere is found out, removed and made again.
func TestDamageIsFoundAndRepaired(t *testing.T) {
	for _, at := range []string{"block", "directory", "footer", "cut"} {
		t.Run(at, func(t *testing.T) {
			h := openHistory(t.TempDir())
			for i := range 200 {
				h.record(journal.KindUsage, uint32(i%5), 1, 1, int64(i))
			}
			h.settle(t)
			q := rollup.Query{Owner: 3, To: 1000}
			want := h.plain(t, q)
			path := filepath.Join(h.dir, h.runs[0][0].name())
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			lines := int(binary.LittleEndian.Uint32(data[len(data)-12:]))
			data[map[string]int{
				"directory": len(data) - footerBytes - lines*lineBytes, "footer": len(data) - footerBytes + 20,
			}[at]] ^= 1
			if at == "cut" {
				data = data[:len(data)/2]
			}
			require.NoError(t, h.Close())
			require.NoError(t, os.WriteFile(path, data, 0o600))
			h.open()
			if at == "block" {
				_, err := h.Step(context.Background()) // takes the file in
				require.NoError(t, err)
				all := rollup.Query{Owner: 0, To: 1000}
				require.ErrorIs(t, h.Sum(all, func(rollup.Cell) error { return nil }), ErrDamaged)
			}
			h.settle(t)
			h.reads.Store(0)
			require.Equal(t, want, sumOf(t, h, q))
			require.Zero(t, h.reads.Load())
		})
	}
}

// Files of another history are not gone by.
func TestForeignFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	h := openHistory(dir)
	for i := range 200 {
		h.record(journal.KindUsage, 3, 1, 1, int64(i))
	}
	h.settle(t)
	require.NoError(t, h.Close())
	other := openHistory(dir)
	for i := range 100 {
		other.record(journal.KindUsage, 3, 1, 2, int64(i))
	}
	q := rollup.Query{Owner: 3, To: 1000}
	_, err := other.Step(context.Background()) // takes the files in
	require.NoError(t, err)
	require.Equal(t, other.plain(t, q), sumOf(t, other, q))
	other.settle(t)
	require.Equal(t, other.plain(t, q), sumOf(t, other, q))
}

// Without room nothing is written.
func TestDiskReserve(t *testing.T) {
	h := openHistory(t.TempDir())
	h.opts.Room = func(uint64) bool { return false }
	for i := range 20 {
		h.record(journal.KindUsage, 3, 1, 1, int64(i))
	}
	_, err := h.Step(context.Background())
	require.NoError(t, err)
	_, err = h.Step(context.Background())
	require.ErrorIs(t, err, ErrNoRoom)
	q := rollup.Query{Owner: 3, To: 1000}
	require.Equal(t, h.plain(t, q), sumOf(t, h, q))
}

// A query that has enough ends, wherever cells come from, and says nothing about the files.
func TestAQueryEnds(t *testing.T) {
	h, enough := openHistory(t.TempDir()), errors.New("enough")
	q := rollup.Query{Owner: rollup.Environment(1), To: 1000}
	ends := func() {
		t.Helper()
		cells := 0
		require.ErrorIs(t, h.Sum(q, func(rollup.Cell) error {
			cells++
			return enough
		}), enough)
		require.Equal(t, 1, cells)
	}
	h.record(journal.KindUsage, 1, 1, 1, 0)
	h.record(journal.KindUsage, 1, 1, 1, 1)
	ends() // in the tail
	for i := range int64(20) {
		h.record(journal.KindUsage, 1, 1, 1, i)
	}
	h.counted.Store(0)
	ends() // in a segment without a file
	require.Equal(t, int64(1), h.counted.Load())
	h.settle(t)
	ends() // in a file
	did, err := h.Step(hurried())
	require.NoError(t, err)
	require.False(t, did)
}

// Queries run beside counting and merging, and see all of what was there when they began.
func TestSumBesideStep(t *testing.T) {
	h := openHistory(t.TempDir())
	for i := range 1000 {
		h.record(journal.KindUsage, uint32(i%5), 1, 1, int64(i))
	}
	h.settle(t)
	require.NoError(t, h.Close())
	require.NoError(t, os.RemoveAll(h.dir))
	h.open()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	done := make(chan error)
	go func() {
		did, err := true, error(nil)
		for did && err == nil {
			did, err = h.Step(ctx)
		}
		done <- err
	}()
	q := rollup.Query{Owner: rollup.Environment(1), To: 3000}
	for {
		events := int64(0)
		err := h.Sum(q, func(c rollup.Cell) error {
			events += c.Events
			return nil
		})
		if err == nil {
			require.Equal(t, int64(1000), events)
		} else {
			require.ErrorIs(t, err, rollup.ErrCounting)
		}
		select {
		case err := <-done:
			require.NoError(t, err)
			return
		default:
		}
	}
}

// A record without an owner counts for the owners that its payload names, also in a segment without
// a file and in a tail that a later query has left behind.
func TestRecordsWithoutAnOwnerAreCounted(t *testing.T) {
	h := openHistory(t.TempDir())
	h.record(journal.KindAudit, 3, 1, 1, 1)
	q := rollup.Query{Part: journal.PartAudit, Owner: 1, Through: rollup.Environment(0) - 1, To: 1000}
	before := h.journal.View()[journal.PartAudit]
	for i := range int64(20) {
		h.record(journal.KindAudit, 3, 1, 1, i)
	}
	require.Greater(t, len(h.journal.View()[journal.PartAudit].Segments), 1)
	want := h.plain(t, q)
	require.Len(t, want, 20)
	require.Equal(t, want, sumOf(t, h, q))
	events := int64(0)
	require.NoError(t, h.sumTail(&before, &q, func(c rollup.Cell) error {
		require.Equal(t, uint64(3), c.Owner)
		events += c.Events
		return nil
	}))
	require.Equal(t, int64(1), events)
	h.settle(t)
	require.Equal(t, want, sumOf(t, h, q))
}
