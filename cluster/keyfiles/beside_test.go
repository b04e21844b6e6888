package keyfiles

import (
	"context"
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
	"tollgate/engine/journal"
)

// A search that reads a file goes on in it while the file is merged away and its name removed; and
// it holds up neither.
func TestASearchHoldsUpNothing(t *testing.T) {
	h := newHistory()
	h.span(0, 1000)
	s, disk := h.onDisk(t)
	defer func() { require.NoError(t, s.Close()) }()
	h.span(1000, 1400)
	h.span(1400, 1900)
	var once atomic.Bool
	disk.Inject(func(op faultfs.Op) error {
		if op.Kind == faultfs.KindRead && op.Bytes == pageBytes && once.CompareAndSwap(false, true) {
			s.opts.BatchKeys = 1000
			settle(t, s, h, 0)
		}
		return nil
	})
	v, err := s.FindKey(keyOf(5))
	require.NoError(t, err)
	require.True(t, v.Found && v.Number == 5)
	require.True(t, once.Load())
	require.EqualValues(t, 1, s.Stats().Files)
	require.Len(t, disk.Files(), 1)
	h.agree(t, s, 0)
}

// A search that comes with files that are gone by then begins again with those that there are.
func TestASearchInWhatIsGoneBeginsAgain(t *testing.T) {
	h := newHistory()
	h.span(0, 1000)
	s, _ := h.onDisk(t)
	defer func() { require.NoError(t, s.Close()) }()
	before := s.view.Load()
	h.span(1000, 1600)
	s.opts.BatchKeys = 1000
	settle(t, s, h, 0)
	require.False(t, all(s.view.Load().runs, before.runs))
	key := keyOf(5)
	require.False(t, s.look(before, &search{key: key, prefix: binary.BigEndian.Uint64(key[:])}))
	h.agree(t, s, 0)
}

// While files are merged, new ones are made; and a merge whose files have gone leaves nothing.
func TestAMergeHoldsUpNoNewFile(t *testing.T) {
	for _, gone := range []bool{false, true} {
		h := newHistory()
		h.span(0, 1000)
		s, disk := h.onDisk(t)
		s.opts.BatchKeys = 1000
		h.span(1000, 1400)
		h.span(1400, 1900)
		list := h.journal.View()[journal.PartUsage].Segments
		did, err := s.Step(context.Background(), 0, list[0].EventsThrough+1)
		require.True(t, did)
		require.NoError(t, err)
		require.EqualValues(t, 2, s.Stats().Files)
		h.span(1900, 2300)
		merging := false
		disk.Inject(func(op faultfs.Op) error {
			if op.Kind == faultfs.KindWrite && !merging {
				merging = true
				did, err := s.Step(context.Background(), 0, h.through())
				require.True(t, did)
				require.NoError(t, err)
				require.Equal(t, h.through(), s.Covered())
				if gone {
					require.NoError(t, s.drop(s.view.Load().runs[0]))
				}
			}
			return nil
		})
		did, err = s.Rewrite(context.Background(), 8000)
		require.True(t, did)
		require.NoError(t, err)
		require.True(t, merging)
		require.Len(t, disk.Files(), 2)
		settle(t, s, h, 0)
		h.agree(t, s, 0)
		require.NoError(t, s.Close())
	}
}

// A file whose keys are all dropped while it is merged goes with the merge, which is not for
// nothing.
func TestAMergeOutlivesItsOldestKeys(t *testing.T) {
	h := newHistory()
	h.span(0, 1000)
	s, disk := h.onDisk(t)
	defer func() { require.NoError(t, s.Close()) }()
	s.opts.BatchKeys = 1000
	base := h.through()
	h.span(1000, 1900)
	did, err := s.Step(context.Background(), 0, h.through())
	require.True(t, did)
	require.NoError(t, err)
	merging := false
	disk.Inject(func(op faultfs.Op) error {
		if op.Kind == faultfs.KindWrite && !merging {
			merging = true
			did, err := s.Step(context.Background(), base, h.through())
			require.False(t, did)
			require.NoError(t, err)
		}
		return nil
	})
	did, err = s.Rewrite(context.Background(), 8000)
	require.True(t, did)
	require.NoError(t, err)
	require.True(t, merging)
	require.EqualValues(t, 1, s.Stats().Files)
	require.Len(t, disk.Files(), 1)
	h.agree(t, s, base)
}

// Keys are looked for by many while files are made, merged, repaired and dropped. What is said of
// them is right at all times.
func TestKeysAreFoundBesideAllWork(t *testing.T) {
	h, dir := newHistory(), t.TempDir()
	s := h.open(t, dir, nil)
	const spans, each = 24, 200
	var base atomic.Uint64
	var ended atomic.Bool
	var wg sync.WaitGroup
	for who := range uint64(3) {
		wg.Go(func() {
			for n := who; !ended.Load(); n += 7 {
				k, before := n%(spans*each), base.Load()
				v, err := s.FindKey(keyOf(k))
				switch {
				case err != nil:
					t.Errorf("key %d: %v", k, err)
					return
				case v.Found && v.Number != k, !v.Found && k >= base.Load() && k < v.Through,
					v.Through < before:
					t.Errorf("key %d from %d: %+v", k, before, v)
					return
				}
				runtime.Gosched()
			}
		})
	}
	work := make(chan struct{})
	wg.Go(func() { // as Rewrite runs, beside Step
		for range work {
			for did := true; did && !ended.Load(); {
				var err error
				if did, err = s.Rewrite(context.Background(), spans*each/2); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for i := range uint64(spans) {
		h.span(i*each, i*each+each)
		if i > spans/2 {
			base.Store((i - spans/2) * each)
		}
		for did := true; did; {
			var err error
			did, err = s.Step(context.Background(), base.Load(), h.through())
			require.NoError(t, err)
		}
		for _, r := range s.view.Load().runs[:1] {
			r.suspects(0)
		}
		select {
		case work <- struct{}{}:
		default:
		}
	}
	ended.Store(true)
	close(work)
	wg.Wait()
	settle(t, s, h, base.Load())
	h.agree(t, s, base.Load())
	require.NoError(t, s.Close())
}

// A rewriting rests three times as long as it worked, but no longer than two seconds, and not at
// all where there are many files; it ends with its context.
func TestRewritingRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		many := false
		start := time.Now()
		p := &pace{ctx: ctx, hurry: func() bool { return many }, since: start}
		require.NoError(t, p.did(paceBytes-1))
		require.Zero(t, time.Since(start))
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, p.did(1))
		require.Equal(t, 400*time.Millisecond, time.Since(start))
		time.Sleep(time.Second)
		require.NoError(t, p.did(paceBytes))
		require.Equal(t, 3400*time.Millisecond, time.Since(start))
		many = true
		time.Sleep(time.Second)
		require.NoError(t, p.did(paceBytes))
		require.Equal(t, 4400*time.Millisecond, time.Since(start))
		many = false
		time.AfterFunc(time.Second, cancel)
		time.Sleep(900 * time.Millisecond)
		require.ErrorIs(t, p.did(paceBytes), context.Canceled)
		require.Equal(t, 5400*time.Millisecond, time.Since(start))
		require.ErrorIs(t, p.did(1), context.Canceled)
		require.NoError(t, (*pace)(nil).did(paceBytes))
	})
}

// Many files of one size, as after a restored backup, become few, and no key is
// written more than three times for that.
func TestManyFilesBecomeFewAtLittleCost(t *testing.T) {
	h := newHistory()
	for i := range uint64(100) {
		h.span(i*20, i*20+20)
	}
	disk := faultfs.New()
	o := h.options()
	o.FS, o.BatchKeys = disk, 1
	s := opened(t, "/keys", o)
	for s.Covered() < h.through() {
		_, err := s.Step(context.Background(), 0, h.through())
		require.NoError(t, err)
	}
	require.EqualValues(t, len(h.journal.View()[journal.PartUsage].Segments), s.Stats().Files)
	h.agree(t, s, 0)
	settle(t, s, h, 0)
	h.agree(t, s, 0)
	sizes := []uint64{}
	for _, r := range s.view.Load().runs {
		sizes = append(sizes, r.records)
	}
	require.LessOrEqual(t, len(sizes), 8, sizes)
	require.Less(t, s.number.Load(), uint64(100+25), "files")
	require.NoError(t, s.Close())
}

// Neither making a file nor opening one holds its filters twice.
func TestFiltersAreInMemoryOnce(t *testing.T) {
	h, dir := newHistory(), t.TempDir()
	o := h.options()
	o.ShardKeys = 1 << 16
	s := opened(t, dir, o)
	of := scope{first: 1, last: 1, through: 200_000}
	w, err := s.newWriter(of, of.through, nil)
	require.NoError(t, err)
	all := make([]record, of.through)
	for n := range all {
		k := keyOf(uint64(n))
		all[n] = parseRecord(append(k[:], make([]byte, recordBytes-len(k))...))
		all[n].offset = uint32(n)
	}
	require.NoError(t, w.addAll(ordered(all)))
	require.NoError(t, w.finish())
	allocated := func(f func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	require.Less(t, allocated(func() { require.NoError(t, s.publish(w, nil)) }), uint64(16<<10))
	r := s.view.Load().runs[0]
	require.Less(t, float64(r.memory())/float64(r.records), 1.5)
	var again *run
	took := allocated(func() {
		again, err = openRun(s.opts.FS, r.path)
	})
	require.NoError(t, err)
	require.Less(t, float64(took), 1.2*float64(r.memory()))
	require.Equal(t, r.dir, again.dir)
	require.Equal(t, r.filters, again.filters)
	require.NoError(t, again.release())
	require.NoError(t, s.Close())
}
