package segments

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/journal"
	"tollgate/wal"
)

// audits appends a block with a check of owner 1, and makes it a segment.
func (h *history) audits() journal.SegmentInfo {
	h.index++
	check := make([]byte, 12)
	check[0], check[4] = 1, byte(h.index)
	h.journal.Append(journal.Record{
		Kind: journal.KindAudit, Index: h.index, At: int64(h.index), Payload: check,
	})
	sealed, _ := h.journal.Expire(int64(h.index)+100, 3000, h.journal.EndEntry(h.index, nil))
	h.sealed = append(h.sealed, sealed[0])
	h.store.Put(sealed[0])
	return sealed[0].SegmentInfo
}

// requireSwept requires that no file of a dropped segment is there, and nothing known of one.
func requireSwept(t require.TestingT, h *history) {
	names, err := filepath.Glob(filepath.Join(h.store.dir, "audit-*"))
	require.NoError(t, err)
	first := h.journal.First(journal.PartAudit)
	for _, name := range names {
		require.False(t, outlived(filepath.Base(name), first), "%s is before %d", name, first)
	}
	h.store.lock.Lock()
	defer h.store.lock.Unlock()
	for k := range h.store.segments {
		require.False(t, k.part == journal.PartAudit && k.number < first, "%v is known", k)
	}
	h.store.cache.lock.Lock()
	defer h.store.cache.lock.Unlock()
	for seg := range h.store.cache.held {
		require.False(t, h.journal.Dropped(seg.info), "the index of %s is held", seg.info)
	}
}

func (h *history) names(t require.TestingT) (names []string) {
	found, err := os.ReadDir(h.store.dir)
	require.NoError(t, err)
	for _, f := range found {
		names = append(names, strings.TrimPrefix(f.Name(), "0"))
	}
	return names
}

func TestFilesOfDroppedSegmentsGo(t *testing.T) {
	h := open(t, t.TempDir(), Options{})
	h.seal()
	at := int64(h.index)
	old := []journal.SegmentInfo{h.audits(), h.audits(), h.audits()}
	require.NoError(t, h.store.WaitDurable(t.Context(), h.journal.Manifest()))
	require.Len(t, h.names(t), 8, "four segments and their side indexes")
	all, err := h.store.List(everything)
	require.NoError(t, err)
	page, err := h.store.List(journal.Query{
		Owner: 1, To: math.MaxInt64, Kinds: journal.Kinds(journal.KindAudit), Limit: 2,
	})
	require.NoError(t, err)

	_, dropped := h.journal.Expire(at+2+200, 200, nil)
	require.Equal(t, 2, dropped)
	require.NoError(t, h.store.Sweep())
	requireSwept(t, h)
	require.Equal(t, []string{
		"audit-0000000003.idx", "audit-0000000003.seg",
		"usage-0000000001.idx", "usage-0000000001.seg",
	}, h.names(t))
	require.Empty(t, h.store.Missing())
	require.NoError(t, h.store.WaitDurable(t.Context(), old), "a snapshot may list them still")
	_, err = h.store.Read(journal.PartAudit, 2)
	require.ErrorIs(t, err, ErrDropped)
	_, err = h.store.Read(journal.PartAudit, 4)
	require.ErrorIs(t, err, ErrMissing)
	_, err = h.store.Read(2, 1)
	require.ErrorIs(t, err, ErrMissing)

	left, err := h.store.List(everything)
	require.NoError(t, err)
	require.Less(t, len(left), len(all))
	rest, err := h.store.List(journal.Query{
		Owner: 1, To: math.MaxInt64, Kinds: journal.Kinds(journal.KindAudit), Limit: 100,
		After: page[1].Cursor(), HasAfter: true,
	})
	require.NoError(t, err)
	require.NotEmpty(t, rest, "a cursor into what was dropped goes on with what is there")
	for _, item := range rest {
		require.EqualValues(t, old[2].FirstIndex, item.Index)
	}
	require.NoError(t, h.store.Close())
}

// A process that ends between the drop and the deletion, or in the midst of it, leaves files that
// the next one deletes; so does a snapshot of another node that has dropped more.
func TestLeftoversOfDroppedSegmentsAreDeletedAtOpen(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, Options{})
	for range 3 {
		h.audits()
	}
	h.seal()
	require.NoError(t, h.store.WaitDurable(t.Context(), h.journal.Manifest()))
	require.NoError(t, h.store.Close())
	require.NoError(t, os.Remove(h.store.path(key{journal.PartAudit, 1}, ".seg")))
	_, dropped := h.journal.Expire(102, 100, nil)
	require.Equal(t, 2, dropped)
	var snapshot bytes.Buffer
	_, err := h.journal.Begin().WriteTo(&snapshot)
	require.NoError(t, err)
	j := journal.New()
	require.NoError(t, j.Restore(&snapshot))
	again, err := Open(dir, j, indexer, Options{})
	require.NoError(t, err)
	h.store, h.journal = again, j
	requireSwept(t, h)
	require.Len(t, h.names(t), 4)
	require.NoError(t, again.WaitDurable(t.Context(), j.Manifest()))
	require.NoError(t, again.Close())
}

// A node that went back to an older snapshot lists what no other node has any more.
func TestASegmentThatOthersDroppedIsNotWaitedFor(t *testing.T) {
	peer := open(t, t.TempDir(), Options{})
	info := peer.audits()
	var snapshot bytes.Buffer
	_, err := peer.journal.Begin().WriteTo(&snapshot)
	require.NoError(t, err)
	_, dropped := peer.journal.Expire(200, 100, nil)
	require.Equal(t, 1, dropped)

	j := journal.New()
	require.NoError(t, j.Restore(&snapshot))
	s, err := Open(t.TempDir(), j, indexer, Options{})
	require.NoError(t, err)
	require.Equal(t, []journal.SegmentInfo{info}, s.Missing())
	fetches := 0
	fetch := func(_ context.Context, info journal.SegmentInfo) ([]byte, error) {
		fetches++
		return peer.store.Read(info.Part, info.Number)
	}
	require.NoError(t, s.Repair(t.Context(), fetch), "that is not a failure")
	durable := make(chan error)
	go func() { durable <- s.WaitDurable(t.Context(), []journal.SegmentInfo{info}) }()
	select {
	case err := <-durable:
		require.Fail(t, "it did not wait", "%v", err)
	case <-time.After(10 * time.Millisecond):
	}
	_, dropped = j.Expire(200, 100, nil) // this node's log has come as far
	require.Equal(t, 1, dropped)
	require.NoError(t, s.Sweep())
	require.NoError(t, <-durable)
	require.Empty(t, s.Missing())
	require.NoError(t, s.Repair(t.Context(), fetch))
	require.Equal(t, 1, fetches)
	require.NoError(t, errors.Join(s.Close(), peer.store.Close()))
}

func TestASegmentThatIsDroppedInTheQueueIsNotWritten(t *testing.T) {
	gate, entered := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h := open(t, t.TempDir(), Options{FS: &faulty{sync: func() error {
		once.Do(func() { close(entered) })
		<-gate
		return nil
	}}})
	h.seal()
	<-entered
	info := h.audits() // queued behind it
	_, dropped := h.journal.Expire(1000, 100, nil)
	require.Equal(t, 1, dropped)
	swept := make(chan error)
	go func() { swept <- h.store.Sweep() }()
	require.NoError(t, h.store.WaitDurable(t.Context(), []journal.SegmentInfo{info}))
	close(gate)
	require.NoError(t, <-swept)
	late := h.sealed[len(h.sealed)-1]
	require.Equal(t, info, late.SegmentInfo)
	h.store.Put(late) // cut and dropped by one entry
	h.seal()
	require.NoError(t, h.store.WaitDurable(t.Context(), h.journal.Manifest()))
	requireSwept(t, h)
	require.Len(t, h.names(t), 4)
	require.NoError(t, h.store.Close())
}

func TestADeletionThatFailsIsTriedAgain(t *testing.T) {
	broken := errors.New("input/output error")
	fails := atomic.Bool{}
	fs := &faulty{remove: func() error {
		if fails.Load() {
			return broken
		}
		return nil
	}}
	h := open(t, t.TempDir(), Options{FS: fs})
	h.audits()
	require.NoError(t, h.store.WaitDurable(t.Context(), h.journal.Manifest()))
	_, dropped := h.journal.Expire(1000, 100, nil)
	require.Equal(t, 1, dropped)
	fails.Store(true)
	require.ErrorIs(t, h.store.Sweep(), broken)
	fails.Store(false)
	require.NoError(t, h.store.Sweep())
	requireSwept(t, h)
	require.NoError(t, h.store.Close())
}

// A segment may hold nobody's checks: those of unknown customers.
func TestASegmentOfNobodyIsListedBeforeItIsWritten(t *testing.T) {
	gate := make(chan struct{})
	h := open(t, t.TempDir(), Options{FS: &faulty{sync: func() error { <-gate; return nil }}})
	h.index++
	h.journal.Append(journal.Record{Kind: journal.KindAudit, Index: 1, At: 1})
	sealed, _ := h.journal.Expire(101, 3000, h.journal.EndEntry(1, nil))
	h.store.Put(sealed[0])
	all := journal.Query{Owner: 1, From: math.MinInt64, To: math.MaxInt64, Limit: 10}
	items, err := h.store.List(all)
	require.NoError(t, err)
	require.Empty(t, items)
	close(gate)
	require.NoError(t, h.store.WaitDurable(t.Context(), h.journal.Manifest()))
	_, err = h.store.List(all)
	require.NoError(t, err)
	require.NoError(t, h.store.Close())
}

// A peer's answer may come when the segment was dropped and swept already.
func TestAFetchThatComesTooLateLeavesNoFile(t *testing.T) {
	h := open(t, t.TempDir(), Options{})
	info := h.audits()
	data := h.sealed[0].Data
	require.NoError(t, h.store.WaitDurable(t.Context(), []journal.SegmentInfo{info}))
	require.NoError(t, h.store.Close())
	var snapshot bytes.Buffer
	_, err := h.journal.Begin().WriteTo(&snapshot)
	require.NoError(t, err)
	h.journal = journal.New()
	require.NoError(t, h.journal.Restore(&snapshot))
	again, err := Open(t.TempDir(), h.journal, indexer, Options{})
	require.NoError(t, err)
	h.store = again
	require.Len(t, again.Missing(), 1)
	err = again.Repair(t.Context(), func(context.Context, journal.SegmentInfo) ([]byte, error) {
		_, dropped := h.journal.Expire(1000, 100, nil)
		require.Equal(t, 1, dropped)
		return data, again.Sweep()
	})
	require.NoError(t, err)
	require.Empty(t, h.names(t))
	require.NoError(t, again.Close())
}

// A file that goes away under a reader is not damage.
func TestADeletedFileIsNotDamaged(t *testing.T) {
	fs := &faulty{}
	h := open(t, t.TempDir(), Options{FS: fs, Damaged: func(info journal.SegmentInfo, err error) {
		t.Errorf("%s: %v", info, err)
	}})
	h.index += 10
	info := h.audits()
	require.NoError(t, h.store.WaitDurable(t.Context(), []journal.SegmentInfo{info}))
	seg := h.store.lookup(info)
	fs.open = func() {
		fs.open = nil
		_, dropped := h.journal.Expire(1000, 100, nil)
		require.Equal(t, 1, dropped)
		require.NoError(t, h.store.Sweep())
	}
	require.True(t, h.store.scrubOne(info))
	require.Equal(t, stored, seg.state)
	_, err := h.store.load(seg)
	require.ErrorIs(t, err, ErrDropped)
	require.NoError(t, h.store.Close())
}

// Listings go on while segments are cut, dropped and deleted: they see every usage event, and audit
// events without a gap behind the first.
func TestListingsBesideDrops(t *testing.T) {
	h := open(t, t.TempDir(), Options{})
	done, events := make(chan struct{}), atomic.Uint64{}
	go func() {
		defer close(done)
		for range 40 {
			for range 3 {
				h.index++
				h.journal.Append(journal.Record{
					Kind: journal.KindUsage, Index: h.index, Owner: 1, At: int64(h.index),
				})
				h.journal.EndEntry(h.index, nil)
			}
			events.Add(3)
			h.audits()
			h.journal.Expire(int64(h.index), 20, nil)
			if err := h.store.Sweep(); err != nil {
				panic(err)
			}
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		least := events.Load()
		items, err := h.store.List(everything)
		require.NoError(t, err)
		usage, last := uint64(0), uint64(0)
		for _, item := range items {
			if item.Kind == journal.KindUsage {
				usage++
				continue
			}
			require.True(t, last == 0 || item.Index == last+4, "%d after %d", item.Index, last)
			last = item.Index
		}
		require.GreaterOrEqual(t, usage, least, "a listing hid usage events")
	}
	require.Greater(t, h.journal.First(journal.PartAudit), uint64(3))
	require.NoError(t, h.store.Sweep())
	requireSwept(t, h)
	require.NoError(t, h.store.Close())
}

// creating calls before each time a file is created.
type creating struct {
	wal.FS
	before func(name string)
}

func (c *creating) CreateUncached(name string) (wal.File, error) {
	c.before(name)
	return c.FS.CreateUncached(name)
}

// A listing that makes the index of a segment again leaves no file behind if the segment is dropped
// and swept meanwhile.
func TestADroppedSegmentGetsNoIndexAgain(t *testing.T) {
	files := &creating{FS: wal.OS(), before: func(string) {}}
	h := open(t, t.TempDir(), Options{FS: files, CacheBytes: 1})
	for range 3 {
		h.audits()
	}
	require.NoError(t, h.store.WaitDurable(t.Context(), h.journal.Manifest()))
	_, err := h.store.List(everything) // the cache keeps one index
	require.NoError(t, err)
	seg := h.store.lookup(h.sealed[0].SegmentInfo)
	require.Nil(t, seg.cached())
	name := h.store.path(keyOf(seg.info), ".idx")
	require.NoError(t, os.Remove(name))
	files.before = func(created string) {
		require.Equal(t, name+".tmp", created)
		files.before = func(string) {}
		_, dropped := h.journal.Expire(102, 100, nil)
		require.Equal(t, 2, dropped)
		require.NoError(t, h.store.Sweep())
	}
	x, err := h.store.sideIndex(seg)
	require.NoError(t, err)
	require.NotNil(t, x.body, "the listing that is under way reads it from memory")
	requireSwept(t, h)
	require.NoError(t, h.store.Close())
}

func TestOutlived(t *testing.T) {
	for name, want := range map[string]bool{
		"audit-0000000006.seg": true, "audit-0000000006.idx": true, "audit-0000000007.seg": false,
		"usage-0000000001.seg": false, "audit-0000000006.seg.tmp": false, "audit-x.seg": false,
		"lost+found": false, "audit-6": false,
	} {
		require.Equal(t, want, outlived(name, 7), name)
	}
}
