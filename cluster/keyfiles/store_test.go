package keyfiles

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	"tollgate/wal"
)

// history is a journal of events, whose keys are numbers, and what its segments have.
type history struct {
	journal *journal.Journal
	sealed  map[uint64][]byte
	keys    []uint64 // by number
	index   uint64
	missing bool // no segment can be read
}

// cut is the length of a segment, in bytes.
const cut = 256 << 10

func newHistory() *history {
	return &history{journal: journal.NewCutting(cut), sealed: make(map[uint64][]byte)}
}

// alike is from where on keys have the same first eight bytes, which a page begins with.
const alike = 1 << 60

func keyOf(n uint64) [16]byte {
	if n >= alike {
		key := [16]byte{7: 1, 0: 0x80}
		binary.BigEndian.PutUint64(key[8:], n)
		return key
	}
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(nil, n))
	return [16]byte(sum[:16])
}

func slotOf(n uint64) idempotency.Slot {
	return idempotency.Slot{
		Attempt: uint32(n) + 1, Fingerprint: uint32(n*0x9e3779b1) & 0xffffff, Outcome: uint8(n),
	}
}

// add records events of keys, and seals the segment that they are in.
func (h *history) add(keys ...uint64) {
	padding := make([]byte, cut/len(keys)+1)
	var sealed []journal.Segment
	for _, k := range keys {
		h.index++
		h.journal.Append(journal.Record{
			Kind: journal.KindUsage, Index: h.index, Owner: 1, At: int64(h.index),
			Payload: append(binary.LittleEndian.AppendUint64(nil, k), padding...),
		})
		h.keys = append(h.keys, k)
		h.index++
		h.journal.Append(journal.Record{Kind: journal.KindVoid, Index: h.index, Owner: 1})
		sealed = h.journal.EndEntry(h.index, sealed)
	}
	for _, s := range sealed {
		h.sealed[s.Number] = append([]byte(nil), s.Data...)
	}
}

// span adds events of the keys from one number to another.
func (h *history) span(from, to uint64) {
	var keys []uint64
	for ; from < to; from++ {
		keys = append(keys, from)
	}
	h.add(keys...)
}

func (h *history) through() uint64 {
	list := h.journal.View()[journal.PartUsage].Segments
	return list[len(list)-1].EventsThrough
}

var errMissing = errors.New("a segment is missing")

func (h *history) lend(_ journal.Part, number uint64, use func(data []byte) error) error {
	lent := bytes.Clone(h.sealed[number])
	if lent == nil || h.missing {
		return errMissing
	}
	defer clear(lent) // it is not kept
	return use(lent)
}

func keyOfRecord(r journal.Record) (e idempotency.Entry, ok bool, err error) {
	if r.Kind != journal.KindUsage {
		return e, false, nil
	}
	n := binary.LittleEndian.Uint64(r.Payload)
	return idempotency.Entry{Key: keyOf(n), Slot: slotOf(n + r.Index/2)}, true, nil
}

func (h *history) options() Options {
	return Options{
		Journal: h.journal, Lend: h.lend, KeyOf: keyOfRecord, BatchKeys: 400, ShardKeys: 512,
	}
}

func (h *history) open(t *testing.T, dir string, fs wal.FS) *Store {
	t.Helper()
	o := h.options()
	o.FS = fs
	return opened(t, dir, o)
}

// opened opens a store, and has it take in the files that there are.
func opened(t *testing.T, dir string, o Options) *Store {
	t.Helper()
	s := Open(dir, o)
	for did := true; did; {
		var err error
		did, err = s.load()
		require.NoError(t, err)
	}
	return s
}

// settle does all there is to do, for keys that are kept from base on.
func settle(t *testing.T, s *Store, h *history, base uint64) {
	t.Helper()
	require.NoError(t, h.work(s, base, h.through()))
}

// work does all there is to do, as far as it comes.
func (h *history) work(s *Store, base, wanted uint64) error {
	for did := true; did; {
		var err error
		if did, err = s.Step(context.Background(), base, wanted); err != nil {
			return err
		}
		more, err := s.Rewrite(context.Background(), uint64(len(h.keys))-base)
		if err != nil {
			return err
		}
		did = did || more
	}
	return nil
}

// agree compares the files with the history, for keys that are kept from base on.
func (h *history) agree(t *testing.T, s *Store, base uint64) {
	t.Helper()
	through := h.through()
	last := make(map[uint64]uint64)
	for number, k := range h.keys[:through] {
		last[k] = uint64(number)
	}
	for k, number := range last {
		v, err := s.FindKey(keyOf(k))
		require.NoError(t, err)
		require.Equal(t, through, v.Through)
		if number < base {
			require.True(t, !v.Found || v.Number < base, "key %d, number %d", k, number)
			continue
		}
		require.Equal(t, idempotency.Verdict{
			Through: through, Found: true, Number: number, Slot: slotOf(k + number),
		}, v, "key %d", k)
	}
	for k := range uint64(1000) {
		v, err := s.FindKey(keyOf(1<<40 + k))
		require.NoError(t, err)
		require.False(t, v.Found)
	}
}

func TestFilesHaveWhatTheJournalHas(t *testing.T) {
	h, dir := newHistory(), t.TempDir()
	h.span(0, 3000)
	s := h.open(t, dir, nil)
	did, err := s.Step(context.Background(), 0, 0)
	require.NoError(t, err)
	require.False(t, did, "nothing is wanted")
	v, err := s.FindKey(keyOf(1))
	require.NoError(t, err)
	require.Zero(t, v)
	settle(t, s, h, 0)
	h.agree(t, s, 0)
	for i := range uint64(20) {
		h.span(3000+i*500, 3500+i*500)
		settle(t, s, h, 0)
	}
	h.agree(t, s, 0)
	st := s.Stats()
	require.Equal(t, h.through(), st.Keys)
	require.LessOrEqual(t, st.Files, uint64(10))
	require.Less(t, float64(st.Hits)/float64(st.Probes), 1.2)
	require.NoError(t, s.Close())
	s = h.open(t, dir, nil)
	h.agree(t, s, 0)
	require.Equal(t, st.Files, s.Stats().Files)
	require.NoError(t, s.Close())
}

// Of a key that was used again after it had been dropped, the newest use counts, in one file and in
// two, before and after they are merged; and files go with their keys.
func TestDroppedKeysGo(t *testing.T) {
	h := newHistory()
	s := h.open(t, t.TempDir(), nil)
	h.span(0, 1000)
	settle(t, s, h, 0)
	h.span(0, 700)
	h.add(5, 6, 5)
	settle(t, s, h, 1000)
	h.agree(t, s, 1000)
	for i := range uint64(10) {
		h.span(i*100, i*100+1200)
		base := uint64(len(h.keys)) - 1300
		settle(t, s, h, base)
		h.agree(t, s, base)
	}
	require.Less(t, s.Stats().Keys, uint64(4000))
	settle(t, s, h, uint64(len(h.keys)))
	require.Zero(t, s.Stats().Files)
	names, err := os.ReadDir(s.dir)
	require.NoError(t, err)
	require.Empty(t, names)
	require.NoError(t, s.Close())
}

// Where fewer keys are kept than a file may have, files go all the same: none takes in new keys for
// ever.
func TestFilesOfFewKeysGo(t *testing.T) {
	for _, kept := range []uint64{100, 450, 800, 1300} {
		h := newHistory()
		s := h.open(t, t.TempDir(), nil)
		for i := range uint64(60) {
			h.span(i*100, i*100+100)
			next := uint64(len(h.keys))
			settle(t, s, h, max(next, kept)-kept)
		}
		next := uint64(len(h.keys))
		h.agree(t, s, next-kept)
		for _, r := range s.view.Load().runs {
			require.LessOrEqual(t, r.through-r.from, uint64(minMerged*s.opts.BatchKeys))
			require.Greater(t, r.through, next-kept, "%d kept", kept)
		}
		require.NoError(t, s.Close())
	}
}

// A byte that is wrong anywhere is found, or without meaning; no key is ever said to be unknown, or
// to be another's. The file is made again.
func TestADamagedByteIsNeverAWrongVerdict(t *testing.T) {
	h := newHistory()
	h.span(0, 300)
	whole := t.TempDir()
	s := h.open(t, whole, nil)
	settle(t, s, h, 0)
	require.NoError(t, s.Close())
	files, err := filepath.Glob(filepath.Join(whole, "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	data, err := os.ReadFile(files[0])
	require.NoError(t, err)
	dir := t.TempDir()
	name := filepath.Join(dir, filepath.Base(files[0]))
	for at := 0; at < len(data); at += 37 {
		bad := append([]byte(nil), data...)
		bad[at] ^= 1 << (at % 8)
		require.NoError(t, os.WriteFile(name, bad, 0o600))
		s := h.open(t, dir, nil)
		failed := 0
		for k := range uint64(300) {
			v, err := s.FindKey(keyOf(k))
			if err != nil {
				require.ErrorIs(t, err, ErrDamaged)
				failed++
				continue
			}
			if v.Through > k {
				require.True(t, v.Found && v.Number == k && v.Slot == slotOf(2*k), "byte %d", at)
			}
		}
		require.LessOrEqual(t, failed, pageRecords, "byte %d", at)
		settle(t, s, h, 0)
		h.agree(t, s, 0)
		require.EqualValues(t, 1, s.Stats().Damages, "byte %d", at)
		require.NoError(t, s.Close())
	}
	for _, size := range []int{0, 1, footerBytes, len(data) - 1} {
		require.NoError(t, os.WriteFile(name, data[:size], 0o600))
		s := h.open(t, dir, nil)
		require.Zero(t, s.Covered())
		settle(t, s, h, 0)
		h.agree(t, s, 0)
		require.NoError(t, s.Close())
	}
}

// A file of another journal is not gone by, and a file that is ahead of the journal, which comes
// again from the log, is.
func TestFilesBelongToTheirJournal(t *testing.T) {
	h, dir := newHistory(), t.TempDir()
	h.span(0, 500)
	s := h.open(t, dir, nil)
	settle(t, s, h, 0)
	require.NoError(t, s.Close())

	older := newHistory()
	s = older.open(t, dir, nil)
	require.EqualValues(t, h.through(), s.Covered())
	older.span(0, 500)
	settle(t, s, older, 0)
	older.agree(t, s, 0)
	require.Zero(t, s.Stats().Damages)
	require.NoError(t, s.Close())

	other := newHistory()
	s = other.open(t, dir, nil)
	other.span(1000, 1500)
	settle(t, s, other, 0)
	other.agree(t, s, 0)
	require.EqualValues(t, 1, s.Stats().Damages)
	require.NoError(t, s.Close())
	s = h.open(t, dir, nil)
	require.Zero(t, s.Covered(), "found at once")
	require.NoError(t, s.Close())
}

// Where a file is gone between others, the keys behind it are not vouched for until it is made
// again.
func TestAGapIsFilled(t *testing.T) {
	h, dir := newHistory(), t.TempDir()
	o := h.options()
	o.BatchKeys = 1
	s := opened(t, dir, o)
	for i := range uint64(7) {
		h.span(i<<(12-i), i<<(12-i)+1<<(10-i)) // no two are to be merged
	}
	list := h.journal.View()[journal.PartUsage].Segments
	for range len(list) {
		_, err := s.build(context.Background(), h.through())
		require.NoError(t, err)
	}
	before := s.Stats().Files
	require.Greater(t, before, uint64(3))
	require.NoError(t, s.drop(s.view.Load().runs[2]))
	h.missing = true
	require.Equal(t, list[1].EventsThrough, s.Covered())
	_, err := s.build(context.Background(), h.through())
	require.ErrorIs(t, err, errMissing)
	h.missing = false
	settle(t, s, h, 0)
	h.agree(t, s, 0)
	require.NoError(t, s.Close())
}

// A merge leaves out what was dropped.
func TestAMergeDropsKeys(t *testing.T) {
	h := newHistory()
	s := h.open(t, t.TempDir(), nil)
	h.span(0, 600)
	settle(t, s, h, 0)
	h.span(600, 1200)
	settle(t, s, h, 500)
	require.EqualValues(t, 1, s.Stats().Files)
	require.Equal(t, h.through()-500, s.Stats().Keys)
	h.agree(t, s, 500)
	require.NoError(t, s.Close())
}

// Keys are numbered by counting them: where a segment has more or fewer than the manifest says, no
// file is made of it.
func TestASegmentThatCountsOtherwiseIsNotGoneBy(t *testing.T) {
	h, dir := newHistory(), t.TempDir()
	h.span(0, 600)
	o := h.options()
	o.KeyOf = func(r journal.Record) (idempotency.Entry, bool, error) {
		e, ok, err := keyOfRecord(r)
		return e, ok && r.Index != 5, err
	}
	s := opened(t, dir, o)
	_, err := s.Step(context.Background(), 0, 600)
	require.ErrorContains(t, err, "ends at usage event")
	require.Zero(t, s.Stats().Covered)
	require.NoError(t, s.Close())
}

// Filters that are asked together let through what the library's own Contains lets through.
func TestFiltersAreAskedAsTheLibraryAsks(t *testing.T) {
	h := newHistory()
	for i := range uint64(asked) {
		h.span(i*30, i*30+30)
	}
	o := h.options()
	o.BatchKeys, o.ShardKeys = 1, 16
	s := opened(t, t.TempDir(), o)
	for s.Covered() < h.through() {
		_, err := s.Step(context.Background(), 0, h.through())
		require.NoError(t, err)
	}
	runs := s.view.Load().runs
	runs = runs[:min(len(runs), asked)]
	require.Greater(t, len(runs), asked/2)
	let := 0
	for k := range uint64(4000) {
		key := keyOf(k)
		prefix := binary.BigEndian.Uint64(key[:])
		want := uint64(0)
		for i, r := range runs {
			f := &r.filters[prefix>>r.shift]
			if len(f.Fingerprints) > 0 && f.Contains(prefix) {
				want |= 1 << i
				let++
			}
		}
		require.Equal(t, want, ask(runs, prefix), "key %d", k)
	}
	require.Greater(t, let, len(runs)*20)
	require.NoError(t, s.Close())
}

// addFile makes a file of the keys of consecutive numbers.
func addFile(b *testing.B, s *Store, number, each uint64) {
	b.Helper()
	w, err := s.newWriter(scope{
		first: number + 1, last: number + 1, from: number * each, through: (number + 1) * each,
	}, each, nil)
	require.NoError(b, err)
	all := make([]record, each)
	for n := range all {
		k := keyOf(number*each + uint64(n))
		all[n] = parseRecord(append(k[:], make([]byte, recordBytes-16)...))
		all[n].offset = uint32(n)
	}
	require.NoError(b, w.addAll(ordered(all)))
	require.NoError(b, w.finish())
	require.NoError(b, s.publish(w, nil))
}

// BenchmarkLoad reads what is kept in memory of a file, from the page cache.
func BenchmarkLoad(b *testing.B) {
	s := Open(b.TempDir(), Options{})
	addFile(b, s, 0, 1e6)
	r := s.view.Load().runs[0]
	for b.Loop() {
		again, err := openRun(s.opts.FS, r.path)
		require.NoError(b, err)
		require.NoError(b, again.release())
	}
	require.NoError(b, s.Close())
}

// BenchmarkFindKey looks for a key that is in no file, and for one that is, in eight files.
func BenchmarkFindKey(b *testing.B) {
	s := Open(b.TempDir(), Options{})
	const each = 1 << 20
	for i := range uint64(8) {
		addFile(b, s, i, each)
	}
	keys := make([][16]byte, 1<<16)
	for _, found := range []bool{false, true} {
		for i := range keys {
			n := uint64(i) * 127
			if !found {
				n += 1 << 40
			}
			keys[i] = keyOf(n)
		}
		b.Run(map[bool]string{false: "miss", true: "hit"}[found], func(b *testing.B) {
			n, reads := 0, s.reads.Load()
			for b.Loop() {
				v, err := s.FindKey(keys[n%len(keys)])
				if err != nil || v.Found != found {
					b.Fatal(v, err)
				}
				n++
			}
			b.ReportMetric(float64(s.reads.Load()-reads)/float64(b.N), "reads/op")
			st := s.Stats()
			b.ReportMetric(float64(st.Memory)/float64(st.Keys), "B/key")
			b.ReportMetric(float64(st.Bytes)/float64(st.Keys), "disk-B/key")
		})
	}
	require.NoError(b, s.Close())
}
