package segments

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/journal"
	"tollgate/wal"
)

// indexer reads the payloads of these tests: of an audit record, lines of owner, time and nothing
// else in 12 bytes; any other record belongs to its owner.
func indexer(r journal.Record, add func(owner uint32, at int64, ordinal uint32)) {
	if r.Kind != journal.KindAudit {
		add(r.Owner, r.At, 0)
		return
	}
	for i := uint32(0); int(i)*12+12 <= len(r.Payload); i++ {
		b := r.Payload[i*12:]
		add(binary.LittleEndian.Uint32(b), int64(binary.LittleEndian.Uint64(b[4:])), i)
	}
}

// naive lists by reading everything.
func naive(t require.TestingT, all [][]byte, q journal.Query) []journal.Item {
	var items []journal.Item
	for _, data := range all {
		require.NoError(t, journal.Scan(data, func(r journal.Record) error {
			indexer(r, func(owner uint32, at int64, ordinal uint32) {
				it := journal.Item{Record: r, Time: at, Ordinal: ordinal}
				after := it.Cursor().Compare(q.After)
				if owner == q.Owner && at >= q.From && at < q.To && q.Kinds.Has(r.Kind) &&
					(!q.HasAfter || !q.Descending && after > 0 || q.Descending && after < 0) {
					items = append(items, it)
				}
			})
			return nil
		}))
	}
	slices.SortFunc(items, func(a, b journal.Item) int { return a.Cursor().Compare(b.Cursor()) })
	if q.Descending {
		slices.Reverse(items)
	}
	return items[:min(len(items), q.Limit)]
}

// history is a journal with its store, and the bytes of all segments.
type history struct {
	journal   *journal.Journal
	store     *Store
	sealed    []journal.Segment
	index     uint64 // the log time, too
	retention int64  // of audit blocks; 0 keeps them
}

func open(t require.TestingT, dir string, opts Options) *history {
	if opts.Fatal == nil {
		opts.Fatal = func(err error) { panic(err) }
	}
	if f, ok := opts.FS.(*faulty); ok {
		f.FS = wal.OS()
	}
	h := &history{journal: journal.New()}
	s, err := Open(dir, h.journal, indexer, opts)
	require.NoError(t, err)
	h.store = s
	return h
}

// end finishes an entry, lets audit blocks expire, and puts what was sealed.
func (h *history) end() {
	sealed := h.journal.EndEntry(h.index, nil)
	sealed, _ = h.journal.Expire(int64(h.index), h.retention, sealed)
	for _, s := range sealed {
		h.sealed = append(h.sealed, journal.Segment{
			SegmentInfo: s.SegmentInfo, Data: bytes.Clone(s.Data),
		})
		h.store.Put(s)
	}
}

// all is the bytes of everything that was not dropped.
func (h *history) all() [][]byte {
	var list [][]byte
	for _, s := range h.sealed {
		if !h.journal.Dropped(s.SegmentInfo) {
			list = append(list, s.Data)
		}
	}
	return append(list, h.journal.Tail(journal.PartUsage), h.journal.Tail(journal.PartAudit))
}

// entry appends an entry of random records, and now and then a very long one, so that segments
// are cut.
func (h *history) entry(t *rapid.T) {
	h.index += uint64(rapid.IntRange(1, 3).Draw(t, "gap"))
	// Times repeat often: thousands of events may have one.
	at := rapid.OneOf(rapid.Just(int64(50)), rapid.Int64Range(0, 100))
	owner := rapid.Uint32Range(1, 3)
	for position := range uint32(rapid.IntRange(0, 12).Draw(t, "records")) {
		r := journal.Record{
			Kind: journal.KindUsage, Index: h.index, Position: position * 2,
			Owner: owner.Draw(t, "owner"), At: at.Draw(t, "at"), Payload: []byte("usage"),
		}
		switch rapid.IntRange(0, 9).Draw(t, "sort") {
		case 0:
			r.Kind = journal.KindVoid
		case 1:
			r.Payload = make([]byte, 3<<20)
			r.Payload[3<<20-1] = byte(position)
		case 2, 3, 4:
			r.Kind, r.Owner, r.At, r.Payload = journal.KindAudit, 0, int64(h.index), nil
			for range rapid.IntRange(0, 40).Draw(t, "checks") {
				r.Payload = binary.LittleEndian.AppendUint32(r.Payload, owner.Draw(t, "owner"))
				r.Payload = binary.LittleEndian.AppendUint64(r.Payload, uint64(at.Draw(t, "at")))
			}
		}
		h.journal.Append(r)
	}
	h.end()
}

func drawQuery(t *rapid.T) journal.Query {
	q := journal.Query{
		Owner: rapid.Uint32Range(1, 4).Draw(t, "owner"),
		From:  rapid.OneOf(rapid.Int64Range(-1, 101), rapid.Just(int64(math.MinInt64))).Draw(t, "from"),
		To:    rapid.OneOf(rapid.Int64Range(-1, 101), rapid.Just(int64(math.MaxInt64))).Draw(t, "to"),
		Limit: rapid.SampledFrom([]int{1, 2, 7, 100000}).Draw(t, "limit"),
		Kinds: rapid.SampledFrom([]journal.KindSet{
			0, journal.Kinds(journal.KindUsage), journal.Kinds(journal.KindAudit, journal.KindVoid),
		}).Draw(t, "kinds"),
		Descending: rapid.Bool().Draw(t, "descending"),
	}
	if q.HasAfter = rapid.Bool().Draw(t, "page"); q.HasAfter { // of an item that may not exist
		q.After = journal.Cursor{
			At:       rapid.OneOf(rapid.Just(int64(50)), rapid.Int64Range(0, 100)).Draw(t, "after"),
			Index:    rapid.Uint64Range(0, 25).Draw(t, "index"),
			Position: rapid.Uint32Range(0, 24).Draw(t, "position"),
			Ordinal:  rapid.Uint32Range(0, 40).Draw(t, "ordinal"),
		}
	}
	return q
}

// requireEvents compares some usage events with those that reading everything finds.
func (h *history) requireEvents(t *rapid.T) {
	var want []journal.Record
	for _, data := range h.all() {
		require.NoError(t, journal.Scan(data, func(r journal.Record) error {
			if r.Kind == journal.KindUsage {
				want = append(want, r)
			}
			return nil
		}))
	}
	for range 4 {
		n := rapid.Uint64Range(0, uint64(len(want))+1).Draw(t, "number")
		got, err := h.store.Event(n)
		if n == 0 || n > uint64(len(want)) {
			require.ErrorIs(t, err, journal.ErrNoEvent)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want[n-1].Index, got.Index)
		require.Equal(t, want[n-1].Position, got.Position)
		require.True(t, bytes.Equal(want[n-1].Payload, got.Payload))
	}
}

// requireList compares some pages of a query with the naive listing.
func (h *history) requireList(t require.TestingT, q journal.Query) {
	all := h.all()
	for range 4 {
		want := naive(t, all, q)
		got, err := h.store.List(q)
		require.NoError(t, err)
		require.Len(t, got, len(want))
		for i := range want {
			require.Equal(t, want[i].Cursor(), got[i].Cursor())
			require.Equal(t, want[i].At, got[i].At)
			require.Equal(t, want[i].Kind, got[i].Kind)
			require.Equal(t, want[i].Owner, got[i].Owner)
			require.True(t, bytes.Equal(want[i].Payload, got[i].Payload))
		}
		if len(got) < q.Limit {
			return
		}
		q.After, q.HasAfter = got[len(got)-1].Cursor(), true
	}
}

func TestListAgreesWithReadingEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "segments")
		require.NoError(t, err)
		// A cache of one byte holds no index for longer than a query.
		cache := rapid.SampledFrom([]int64{1, 1 << 20}).Draw(t, "cache")
		h := open(t, dir, Options{CacheBytes: cache})
		defer func() { require.NoError(t, errors.Join(h.store.Close(), os.RemoveAll(dir))) }()
		h.retention = rapid.SampledFrom([]int64{0, 3, 9, 60}).Draw(t, "retention")
		for range rapid.IntRange(1, 12).Draw(t, "entries") {
			h.entry(t)
			if rapid.Bool().Draw(t, "sweep") {
				require.NoError(t, h.store.Sweep())
				requireSwept(t, h)
			}
			if rapid.IntRange(0, 3).Draw(t, "list") == 0 {
				h.requireList(t, drawQuery(t))
				h.requireEvents(t)
				h.requireWalk(t)
				h.requireBack(t)
			}
		}
		require.NoError(t, h.store.WaitDurable(t.Context(), h.journal.Manifest()))
		for range 4 {
			h.requireList(t, drawQuery(t))
		}
		require.NoError(t, h.store.Close())
		// Again from disk, some side indexes gone or damaged.
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		for _, name := range files {
			if strings.HasSuffix(name, ".idx") {
				spoil(t, name)
			}
		}
		again, err := Open(dir, h.journal, indexer, Options{CacheBytes: cache})
		require.NoError(t, err)
		h.store = again
		requireSwept(t, h)
		for range 4 {
			h.requireList(t, drawQuery(t))
		}
		h.requireEvents(t)
		for range 4 {
			h.requireWalk(t)
			h.requireBack(t)
		}
		require.NoError(t, h.store.Close())
	})
}

// A damaged side index is made again also when the cache has let go of it meanwhile.
func TestADamagedIndexOutsideTheCacheIsMadeAgain(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, Options{CacheBytes: 1})
	for odd := range int64(2) { // two segments whose checks alternate, of three blocks each
		h.index++
		r := journal.Record{Kind: journal.KindAudit, Index: h.index, At: int64(h.index)}
		for n := range int64(3 * blockEntries) {
			r.Payload = binary.LittleEndian.AppendUint32(r.Payload, 1)
			r.Payload = binary.LittleEndian.AppendUint64(r.Payload, uint64(2*n+odd))
		}
		h.journal.Append(r)
		sealed, _ := h.journal.Expire(int64(h.index)+100, 3000, h.journal.EndEntry(h.index, nil))
		h.sealed = append(h.sealed, sealed...)
		h.store.Put(sealed[0])
	}
	require.NoError(t, h.store.WaitDurable(t.Context(), h.journal.Manifest()))
	name := h.store.path(key{journal.PartAudit, 1}, ".idx")
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	b[len(b)-1] ^= 1
	require.NoError(t, os.WriteFile(name, b, 0o600))
	items, err := h.store.List(everything)
	require.NoError(t, err)
	require.Len(t, items, 6*blockEntries)
	require.NoError(t, h.store.Close())
}

// spoil removes a file, cuts it, or flips a bit of it.
func spoil(t *rapid.T, name string) {
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	switch rapid.IntRange(0, 3).Draw(t, "damage") {
	case 0:
		require.NoError(t, os.Remove(name))
	case 1:
		b = b[:rapid.IntRange(0, len(b)-1).Draw(t, "length")]
		require.NoError(t, os.WriteFile(name, b, 0o600))
	case 2:
		b[rapid.IntRange(0, len(b)-1).Draw(t, "byte")] ^= 1
		require.NoError(t, os.WriteFile(name, b, 0o600))
	}
}

func TestAnEventIsFoundByItsNumberBetweenMarks(t *testing.T) {
	h := open(t, t.TempDir(), Options{CacheBytes: 1})
	for n := uint64(1); n <= 3*markEvents; n++ {
		h.index = n
		h.journal.Append(journal.Record{
			Kind: journal.KindUsage, Index: n, Owner: 1, Payload: make([]byte, 40<<10),
		})
		h.journal.Append(journal.Record{Kind: journal.KindAmend, Index: n, Position: 1, Owner: 1})
		h.end()
	}
	require.NoError(t, h.store.WaitDurable(t.Context(), h.journal.Manifest()))
	require.NotEmpty(t, h.sealed)
	for n := uint64(1); n <= 3*markEvents; n++ {
		r, err := h.store.Event(n)
		require.NoError(t, err)
		require.Equal(t, n, r.Index)
	}
	require.NoError(t, h.store.Close())
}
