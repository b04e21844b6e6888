package cluster

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
)

// watchedLog is the group's log with a watchdog: entries that the disk does not take in time, or
// not at all, end the process. It never tries an fsync again. It also counts bytes, because raft
// counts entries.
type watchedLog struct {
	raft.LogStore
	group *Group
	// sinceSnapshot is what was stored since the last snapshot; entries and bytes are totals, of
	// which meanEntry is made.
	sinceSnapshot, bytes, entries atomic.Int64
}

func newWatchedLog(g *Group, logs raft.LogStore) *watchedLog {
	return &watchedLog{LogStore: logs, group: g}
}

// IsMonotonic passes on whether the log takes no gaps.
func (w *watchedLog) IsMonotonic() bool {
	m, ok := w.LogStore.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// StoreLog stores one entry.
func (w *watchedLog) StoreLog(l *raft.Log) error { return w.StoreLogs([]*raft.Log{l}) }

// StoreLogs stores entries durably, or ends the process.
func (w *watchedLog) StoreLogs(logs []*raft.Log) error {
	g, start, size := w.group, time.Now(), int64(0)
	for _, l := range logs {
		size += int64(len(l.Data))
	}
	limit := g.config.StoreTimeout
	watchdog := time.AfterFunc(limit, func() {
		g.halt(fmt.Errorf("cluster: group %s: the disk has not answered for %s", g.name, limit))
	})
	err := w.LogStore.StoreLogs(logs)
	watchdog.Stop()
	if err != nil {
		g.halt(fmt.Errorf("cluster: group %s: store entries: %w", g.name, err))
		return err
	}
	w.bytes.Add(size)
	w.entries.Add(int64(len(logs)))
	w.sinceSnapshot.Add(size)
	if f := g.config.Events.OnStore; f != nil {
		f(g.shard, int(size), time.Since(start))
	}
	return nil
}

// countStored takes in what is on disk when the process begins: otherwise a node that is restarted
// often would never take a snapshot, and its log would grow without end.
func (w *watchedLog) countStored() error {
	g := w.group
	if g.logSize == nil {
		return nil
	}
	first, err := w.FirstIndex()
	if err != nil {
		return err
	}
	last, err := w.LastIndex()
	if err != nil || last == 0 {
		return err
	}
	found, err := g.snapshots.List()
	if err != nil {
		return err
	}
	behind := first - 1
	if len(found) > 0 {
		behind = max(behind, found[0].Index)
	}
	size, _ := g.logSize()
	entries := last - first + 1
	w.bytes.Store(size)
	w.entries.Store(int64(entries))
	if last > behind {
		w.sinceSnapshot.Store(int64(float64(size) * float64(last-behind) / float64(entries)))
	}
	return nil
}

// GetLog reads an entry. Raft panics, or goes on without a word, when one cannot be read; this ends
// the process with the reason first.
func (w *watchedLog) GetLog(index uint64, l *raft.Log) error {
	err := w.LogStore.GetLog(index, l)
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) {
		w.group.end(fmt.Errorf("cluster: group %s: read entry %d: %w", w.group.name, index, err))
	}
	return err
}

// DeleteRange deletes entries; a log that cannot is damaged, and ends the process. So does a leader
// that has other entries than those that are committed here: what was acknowledged is about to be
// lost, since somebody forgot a promise, and this folder is where it still is.
func (w *watchedLog) DeleteRange(low, high uint64) error {
	first, err := w.FirstIndex()
	if err != nil {
		return err
	}
	if sure := max(w.group.carriedOut.Load(), w.group.before); low > first && low <= sure {
		err := fmt.Errorf("%w: group %s: entries %d to %d are committed here, and the leader has others "+
			"in their place; nothing was deleted: keep this folder", ErrContradiction, w.group.name, low,
			min(sure, high))
		w.group.halt(err)
		return err
	}
	err = w.LogStore.DeleteRange(low, high)
	if err != nil {
		w.group.halt(fmt.Errorf("cluster: group %s: delete entries: %w", w.group.name, err))
	}
	return err
}

// meanEntry is the mean size of the entries stored so far, at least 64 bytes.
func (w *watchedLog) meanEntry() int64 {
	return max(64, w.bytes.Load()/max(1, w.entries.Load()))
}

// sizeOf estimates the bytes of the entries behind one index up to another.
func (w *watchedLog) sizeOf(behind, last uint64) int64 {
	if last <= behind {
		return 0
	}
	return int64(last-behind) * w.meanEntry()
}

// watchedVote is the group's term and vote: what the disk does not take ends the process.
type watchedVote struct {
	raft.StableStore
	group *Group
}

// Set stores a value durably, or ends the process.
func (w *watchedVote) Set(key, value []byte) error { return w.done(w.StableStore.Set(key, value)) }

// SetUint64 stores a number durably, or ends the process.
func (w *watchedVote) SetUint64(key []byte, n uint64) error {
	return w.done(w.StableStore.SetUint64(key, n))
}

func (w *watchedVote) done(err error) error {
	if err != nil {
		w.group.end(fmt.Errorf("cluster: group %s: no vote is given and no term begun: %w; look at "+
			"the disk, then start this process again", w.group.name, err))
	}
	return err
}

// end halts this replica and, where the process survives that, as in tests with many nodes, the
// goroutine of raft's that asked: raft would panic. Before raft runs, it returns.
func (g *Group) end(err error) {
	g.halt(err)
	select {
	case <-g.running:
		<-g.closing
		runtime.Goexit()
	default:
	}
}

// disk watches the free space under the data folder, and how long the disk takes to answer.
type disk struct {
	dir  string
	need int64
	free atomic.Int64
	low  atomic.Bool

	mu sync.Mutex
	// measure is statfs; tests fill a disk with it.
	measure func(dir string) (int64, error)
	count   uint64
	waiting map[uint64]diskChange
}

// diskChange is a change that the disk was asked for and has not made yet.
type diskChange struct {
	what string
	at   int64 // monotonic
}

// diskEvery is how often free space is measured.
const diskEvery = time.Second

func freeBytes(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("cluster: free space of %s: %w", dir, err)
	}
	return int64(s.Bavail) * s.Bsize, nil
}

func (d *disk) look() error {
	d.mu.Lock()
	measure := d.measure
	d.mu.Unlock()
	free, err := measure(d.dir)
	if err != nil {
		return err
	}
	d.free.Store(free)
	d.low.Store(free < d.need)
	return nil
}

// left is how much may be written without using the reserve.
func (d *disk) left() uint64 { return uint64(max(0, d.free.Load()-d.need)) }

// room reports whether so many bytes may be written without using the reserve.
func (d *disk) room(bytes uint64) bool {
	left := d.free.Load() - d.need
	return left >= 0 && uint64(left) >= bytes
}

// began notes a change that the disk is asked for; done that it has answered.
func (d *disk) began(what string) (done func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count++
	number := d.count
	if d.waiting == nil {
		d.waiting = make(map[uint64]diskChange)
	}
	d.waiting[number] = diskChange{what, monotonic()}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting, number)
	}
}

// oldest is the change that the disk has not answered for the longest time; 0 when there is none.
func (d *disk) oldest() (what string, waited time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var oldest uint64
	for number := range d.waiting {
		if oldest == 0 || number < oldest {
			oldest = number
		}
	}
	if oldest == 0 {
		return "", 0
	}
	c := d.waiting[oldest]
	return c.what, time.Duration(monotonic() - c.at)
}
