package segments

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tollgate/engine/journal"
	"tollgate/wal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seal appends until one more segment is cut.
func (h *history) seal() journal.SegmentInfo {
	for n := len(h.sealed); len(h.sealed) == n; {
		h.index++
		payload := make([]byte, 1<<20)
		payload[0] = byte(h.index)
		h.journal.Append(journal.Record{
			Kind: journal.KindUsage, Index: h.index, Owner: 1, At: int64(h.index), Payload: payload,
		})
		h.end()
	}
	return h.sealed[len(h.sealed)-1].SegmentInfo
}

var everything = journal.Query{Owner: 1, From: 0, To: math.MaxInt64, Limit: 1 << 20}

// faulty is a file system that does what its functions say.
type faulty struct {
	wal.FS
	sync    func() error
	syncDir func() error
	rename  func() error
	remove  func() error
	open    func()
	creates atomic.Int64
}

type faultyFile struct {
	wal.File
	fs *faulty
}

func (f faultyFile) Sync() error {
	if f.fs.sync != nil {
		if err := f.fs.sync(); err != nil {
			return err
		}
	}
	return f.File.Sync()
}

func (f *faulty) Create(name string) (wal.File, error) {
	f.creates.Add(1)
	file, err := f.FS.Create(name)
	return faultyFile{file, f}, err
}

func (f *faulty) CreateUncached(name string) (wal.File, error) {
	f.creates.Add(1)
	file, err := f.FS.CreateUncached(name)
	return faultyFile{file, f}, err
}

func (f *faulty) SyncDir(dir string) error {
	if f.syncDir != nil {
		if err := f.syncDir(); err != nil {
			return err
		}
	}
	return f.FS.SyncDir(dir)
}

func (f *faulty) Rename(from, to string) error {
	if f.rename != nil {
		if err := f.rename(); err != nil {
			return err
		}
	}
	return f.FS.Rename(from, to)
}

func (f *faulty) OpenRead(name string) (wal.File, error) {
	if f.open != nil {
		f.open()
	}
	return f.FS.OpenRead(name)
}

func (f *faulty) OpenReadUncached(name string) (wal.File, error) {
	if f.open != nil {
		f.open()
	}
	return f.FS.OpenReadUncached(name)
}

func (f *faulty) Remove(name string) error {
	if f.remove != nil {
		if err := f.remove(); err != nil {
			return err
		}
	}
	return f.FS.Remove(name)
}

func TestASegmentIsDurableAfterBothSyncs(t *testing.T) {
	var lock sync.Mutex
	var order []string
	note := func(what string) func() error {
		return func() error {
			lock.Lock()
			defer lock.Unlock()
			order = append(order, what)
			return nil
		}
	}
	gate := make(chan struct{})
	h := open(t, t.TempDir(), Options{FS: &faulty{
		FS:     wal.OS(),
		sync:   func() error { <-gate; return note("file")() },
		rename: note("rename"), syncDir: note("directory"),
	}})
	info := h.seal()
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, h.store.WaitDurable(soon, h.journal.Manifest()), context.DeadlineExceeded)
	require.Empty(t, h.store.Missing(), "what is on the way is not missing")
	close(gate)
	require.NoError(t, h.store.WaitDurable(t.Context(), []journal.SegmentInfo{info}))
	lock.Lock()
	require.Equal(t, []string{"directory", "file", "rename", "directory"}, order[:4])
	lock.Unlock()
	require.NoError(t, h.store.Close())
}

func TestAFailedWriteIsFatal(t *testing.T) {
	broken := errors.New("input/output error")
	fails := func() error { return broken }
	calls := atomic.Int64{}
	for name, fs := range map[string]*faulty{
		"fsync":           {sync: fails},
		"rename":          {rename: fails},
		"directory fsync": {syncDir: func() error { return broken }},
	} {
		t.Run(name, func(t *testing.T) {
			calls.Store(0)
			if fs.syncDir != nil { // only after Open
				first := true
				fs.syncDir = func() error {
					if first {
						first = false
						return nil
					}
					return broken
				}
			}
			h := open(t, t.TempDir(), Options{FS: fs, QueueSegments: 1, Fatal: func(err error) {
				require.ErrorIs(t, err, broken)
				calls.Add(1)
			}})
			h.seal()
			require.ErrorIs(t, h.store.WaitDurable(t.Context(), h.journal.Manifest()), broken)
			for range 3 { // Apply is not held up by a store that is dead
				h.seal()
			}
			require.EqualValues(t, 1, calls.Load())
			require.ErrorIs(t, h.store.Close(), broken)
		})
	}
}

func TestWhatIsThereIsNotWrittenAgain(t *testing.T) {
	dir, fs := t.TempDir(), &faulty{}
	h := open(t, dir, Options{})
	h.seal()
	h.seal()
	require.NoError(t, h.store.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "usage-0000000009.seg.tmp"), []byte("x"), 0o600))

	damaged := filepath.Join(dir, "usage-0000000002.idx")
	require.NoError(t, os.WriteFile(damaged, []byte("x"), 0o600))
	again := open(t, dir, Options{FS: fs}) // replays its log
	var written []uint64
	again.store.OnWritten(func(info journal.SegmentInfo, data []byte) {
		require.EqualValues(t, info.Hash, xxhash.Sum64(data))
		written = append(written, info.Number)
	})
	require.NoFileExists(t, filepath.Join(dir, "usage-0000000009.seg.tmp"))
	var renamed atomic.Int64
	fs.rename = func() error { renamed.Add(1); return nil }
	again.seal()
	again.seal()
	require.NoError(t, again.store.WaitDurable(t.Context(), again.journal.Manifest()))
	require.EqualValues(t, 1, renamed.Load(), "only the side index that is damaged")
	require.Empty(t, written)
	require.Equal(t, h.journal.Manifest(), again.journal.Manifest())
	list, err := again.store.List(everything)
	require.NoError(t, err)
	require.Len(t, list, int(again.index))
	again.seal()
	require.NoError(t, again.store.Close())
	require.Equal(t, []uint64{3}, written)
	renamed.Store(1)

	damaged = filepath.Join(dir, "usage-0000000001.seg")
	data, err := os.ReadFile(damaged)
	require.NoError(t, err)
	data[len(data)-1] ^= 1
	require.NoError(t, os.WriteFile(damaged, data, 0o600))
	third := open(t, dir, Options{FS: fs})
	third.seal()
	third.seal()
	require.NoError(t, third.store.WaitDurable(t.Context(), third.journal.Manifest()))
	require.EqualValues(t, 3, renamed.Load(), "the segment that is damaged, and its index")
	require.NoError(t, third.store.Close())
}

func TestAMissingOrDamagedSegmentIsFetchedFromAPeer(t *testing.T) {
	peer := open(t, t.TempDir(), Options{})
	for range 4 {
		peer.seal()
	}
	infos := peer.journal.Manifest()
	require.NoError(t, peer.store.WaitDurable(t.Context(), infos))

	dir := t.TempDir()
	for _, s := range peer.sealed[:3] {
		name := filepath.Join(dir, filepath.Base(peer.store.path(keyOf(s.SegmentInfo), ".seg")))
		b := bytes.Clone(s.Data)
		switch s.Number {
		case 2:
			b[len(b)/2] ^= 4
		case 3:
			b = b[:len(b)-1]
		}
		require.NoError(t, os.WriteFile(name, b, 0o600))
	}
	var snapshot bytes.Buffer
	_, err := peer.journal.Begin().WriteTo(&snapshot)
	require.NoError(t, err)
	j := journal.New()
	require.NoError(t, j.Restore(&snapshot))
	found := make(chan uint64, 10)
	s, err := Open(dir, j, indexer, Options{Damaged: func(info journal.SegmentInfo, err error) {
		found <- info.Number
	}})
	require.NoError(t, err)
	require.EqualValues(t, 2, <-found, "the scrubber reads what was there")
	require.Eventually(t, func() bool { return len(s.Missing()) == 3 },
		5*time.Second, time.Millisecond)
	_, err = s.List(everything)
	require.Error(t, err)
	_, err = s.Read(journal.PartUsage, 4)
	require.ErrorIs(t, err, ErrMissing)
	_, err = s.Read(journal.PartUsage, 5)
	require.ErrorIs(t, err, ErrMissing)
	_, err = s.Read(journal.PartUsage, 2)
	require.ErrorIs(t, err, ErrDamaged)

	durable := make(chan error)
	go func() { durable <- s.WaitDurable(t.Context(), infos) }()
	bad := errors.New("no such peer")
	err = s.Repair(t.Context(), func(_ context.Context, info journal.SegmentInfo) ([]byte, error) {
		switch info.Number {
		case 2:
			return nil, bad
		case 3:
			return make([]byte, info.Length), nil
		}
		return peer.store.Read(journal.PartUsage, info.Number)
	})
	require.ErrorIs(t, err, bad)
	require.ErrorIs(t, err, ErrDamaged)
	require.Len(t, s.Missing(), 2)
	fromPeer := func(_ context.Context, info journal.SegmentInfo) ([]byte, error) {
		return peer.store.Read(journal.PartUsage, info.Number)
	}
	require.NoError(t, s.Repair(t.Context(), fromPeer))
	require.NoError(t, <-durable)
	require.Empty(t, s.Missing())
	want, err := peer.store.List(everything)
	require.NoError(t, err)
	got, err := s.List(everything)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Len(t, got, int(peer.index))
	require.NoError(t, errors.Join(s.Close(), peer.store.Close()))
}

func TestAListingNeverServesDamage(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, Options{})
	h.seal()
	require.NoError(t, h.store.Close())
	name := h.store.path(key{journal.PartUsage, 1}, ".seg")
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	b[5000] ^= 1
	require.NoError(t, os.WriteFile(name, b, 0o600))
	var snapshot bytes.Buffer
	_, err = h.journal.Begin().WriteTo(&snapshot)
	require.NoError(t, err)
	j := journal.New()
	require.NoError(t, j.Restore(&snapshot))
	s, err := Open(dir, j, indexer, Options{})
	require.NoError(t, err)
	_, err = s.List(everything)
	require.ErrorIs(t, err, ErrDamaged)
	require.NoError(t, s.Close())
}

func TestWhatWasJustSealedIsListedBeforeItsPut(t *testing.T) {
	h := open(t, t.TempDir(), Options{})
	h.journal.Append(journal.Record{
		Kind: journal.KindUsage, Index: 1, Owner: 1, At: 1, Payload: make([]byte, 9<<20),
	})
	sealed := h.journal.EndEntry(1, nil)
	require.Len(t, sealed, 1)
	require.Empty(t, h.store.Missing())
	items, err := h.store.List(everything)
	require.NoError(t, err)
	require.Len(t, items, 1)
	require.Empty(t, h.store.Missing())
	h.store.Put(sealed[0])
	require.NoError(t, h.store.WaitDurable(t.Context(), h.journal.Manifest()))
	require.NoError(t, h.store.Close())
}

func TestAnOldViewOfTheTailStaysOld(t *testing.T) {
	h := open(t, t.TempDir(), Options{})
	h.journal.Append(journal.Record{Kind: journal.KindUsage, Index: 1, Owner: 1, At: 1})
	h.end()
	old := h.journal.Tail(journal.PartUsage)
	h.journal.Append(journal.Record{Kind: journal.KindUsage, Index: 2, Owner: 1, At: 2})
	h.end()
	items, err := h.store.List(everything)
	require.NoError(t, err)
	require.Len(t, items, 2)
	m := &merge{query: everything, bounds: boundsOf(&everything)}
	require.NoError(t, h.store.placeTail(m, old, journal.PartUsage))
	require.Len(t, m.runs[0].(*tailRun).entries, 1)
	require.NoError(t, h.store.Close())
}

func BenchmarkList(b *testing.B) {
	h := open(b, b.TempDir(), Options{})
	for len(h.sealed) < 8 { // 8 segments of 40,000 events of 1,000 customers
		h.index++
		for position := range uint32(1000) {
			h.journal.Append(journal.Record{
				Kind: journal.KindUsage, Index: h.index, Position: position, Owner: position + 1,
				At: int64(h.index), Payload: make([]byte, 200),
			})
		}
		h.end()
	}
	require.NoError(b, h.store.WaitDurable(b.Context(), h.journal.Manifest()))
	q := journal.Query{Owner: 7, From: 0, To: math.MaxInt64, Limit: 100}
	b.ReportAllocs()
	for b.Loop() {
		items, err := h.store.List(q)
		require.NoError(b, err)
		require.Len(b, items, 100)
	}
	require.NoError(b, h.store.Close())
}

func BenchmarkBuildIndex(b *testing.B) {
	j, checks := journal.New(), 0
	var data []byte
	for index := uint64(1); data == nil; index++ { // blocks of checks of 12 bytes, 100 customers
		r := journal.Record{Kind: journal.KindAudit, Index: index, At: int64(index)}
		for n := range uint32(100) {
			r.Payload = binary.LittleEndian.AppendUint32(r.Payload, (n*7+uint32(index))%5000)
			r.Payload = binary.LittleEndian.AppendUint64(r.Payload, index)
			checks++
		}
		j.Append(r)
		for _, sealed := range j.EndEntry(index, nil) {
			data = sealed.Data
		}
	}
	b.ResetTimer()
	for b.Loop() {
		x, err := build(data, indexer)
		require.NoError(b, err)
		b.ReportMetric(float64(len(x.body))/float64(checks), "B/check")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(checks), "ns/check")
}

func TestListingsBesideAppend(t *testing.T) {
	h := open(t, t.TempDir(), Options{})
	done := make(chan struct{})
	var applied atomic.Uint64
	go func() {
		defer close(done)
		for range 600 {
			h.index++
			h.journal.Append(journal.Record{
				Kind: journal.KindUsage, Index: h.index, Owner: 1, At: int64(h.index),
				Payload: make([]byte, 64<<10),
			})
			h.end()
			applied.Store(h.index)
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		least := applied.Load()
		items, err := h.store.List(everything)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(items), int(least), "a listing saw a gap")
		for i, it := range items {
			require.EqualValues(t, i+1, it.Index)
		}
	}
	require.NoError(t, h.store.Close())
}

// TestLentBytesAreThoseOfTheSegment reads segments of several lengths into the same memory, and one
// that is still in memory, which that leaves alone.
func TestLentBytesAreThoseOfTheSegment(t *testing.T) {
	h := open(t, t.TempDir(), Options{})
	defer func() { require.NoError(t, h.store.Close()) }()
	for range 3 {
		h.seal()
	}
	require.NoError(t, h.store.WaitDurable(t.Context(), h.journal.Manifest()))
	h.store.writing.Lock()
	h.seal()
	for _, i := range []int{0, 3, 1, 2, 3, 0} {
		want := h.sealed[i]
		used := false
		require.NoError(t, h.store.Lend(want.Part, want.Number, func(data []byte) error {
			used = true
			require.True(t, bytes.Equal(want.Data, data))
			return nil
		}))
		require.True(t, used)
	}
	h.store.writing.Unlock()
	own := errors.New("its own")
	lend := func(number uint64) error {
		return h.store.Lend(journal.PartUsage, number, func([]byte) error { return own })
	}
	require.ErrorIs(t, lend(1), own)
	require.ErrorIs(t, lend(5), ErrMissing)
}

// TestBytesReadFromMemoryAreNotUsedAgain reads a segment before it is on disk, and keeps what it
// read while the journal goes on.
func TestBytesReadFromMemoryAreNotUsedAgain(t *testing.T) {
	h := open(t, t.TempDir(), Options{})
	defer func() { require.NoError(t, h.store.Close()) }()
	entry := func() []journal.Segment {
		h.index++
		h.journal.Append(journal.Record{
			Kind: journal.KindUsage, Index: h.index, Owner: 1, Payload: make([]byte, 1<<20),
		})
		return h.journal.EndEntry(h.index, nil)
	}
	cut := func() journal.Segment {
		for {
			if sealed := entry(); len(sealed) > 0 {
				h.store.Put(sealed[0])
				return sealed[0]
			}
		}
	}
	durable := func() {
		require.NoError(t, h.store.WaitDurable(t.Context(), h.journal.Manifest()))
	}
	first := cut() // its tail has grown to the length of the others
	durable()
	require.Empty(t, entry())
	set := func(to state) {
		seg := h.store.lookup(first.SegmentInfo)
		seg.lock.Lock()
		defer seg.lock.Unlock()
		seg.state = to
	}
	set(absent)
	require.Len(t, h.store.Missing(), 1)
	unread := cut()
	require.Len(t, h.store.Missing(), 1, "that reads no other segment")
	set(stored)
	durable()
	require.Same(t, &first.Data[0], &unread.Data[0])
	h.store.writing.Lock()
	write := sync.OnceFunc(h.store.writing.Unlock)
	defer write() // or Close would wait where an assertion fails
	sealed := cut()
	require.Same(t, &unread.Data[0], &sealed.Data[0], "what no one read is used again")
	read, err := h.store.Read(journal.PartUsage, sealed.Number)
	require.NoError(t, err)
	require.Same(t, &sealed.Data[0], &read[0], "it is read from memory")
	run := &segmentRun{store: h.store, seg: h.store.lookup(sealed.SegmentInfo)}
	require.NoError(t, run.openSegment())
	require.Same(t, &sealed.Data[0], &run.data[0])
	write()
	for range 3 {
		durable()
		require.NotSame(t, &sealed.Data[0], &cut().Data[0])
	}
	require.Equal(t, sealed.Hash, xxhash.Sum64(read))
}
