package cluster

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// watchedLog is the group's log with a watchdog: if the disk fails to store entries, or takes too
// long, the process ends. It never retries an fsync. It also counts bytes, because raft counts only
// entries.
type watchedLog struct {
	raft.LogStore
	core *core
	// sinceSnapshot is what was stored since the last snapshot; entries and bytes are totals, from
	// which meanEntry is computed.
	sinceSnapshot, bytes, entries atomic.Int64
	// scanned is set when raft has looked through the log for lists of members, which it does
	// before it starts.
	scanned atomic.Bool
}

func newWatchedLog(c *core, logs raft.LogStore) *watchedLog {
	return &watchedLog{LogStore: logs, core: c}
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
	c, start, size := w.core, time.Now(), int64(0)
	for _, l := range logs {
		size += int64(len(l.Data))
	}
	limit := c.config.StoreTimeout
	watchdog := time.AfterFunc(limit, func() {
		c.halt(fmt.Errorf("cluster: group %s: the disk has not answered for %s", c.name, limit))
	})
	err := w.LogStore.StoreLogs(logs)
	watchdog.Stop()
	if err != nil {
		c.halt(fmt.Errorf("cluster: group %s: store entries: %w", c.name, err))
		return err
	}
	w.bytes.Add(size)
	w.entries.Add(int64(len(logs)))
	w.sinceSnapshot.Add(size)
	if f := c.config.Events.OnStore; f != nil {
		f(c.shard, int(size), time.Since(start))
	}
	return nil
}

// countStored counts what is on disk when the process begins: otherwise a node that is restarted
// often would never take a snapshot, and its log would grow without end.
func (w *watchedLog) countStored() error {
	c := w.core
	if c.logSize == nil {
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
	found, err := c.snapshots.List()
	if err != nil {
		return err
	}
	behind := first - 1
	if len(found) > 0 {
		behind = max(behind, found[0].Index)
	}
	size, _ := c.logSize()
	entries := last - first + 1
	w.bytes.Store(size)
	w.entries.Store(int64(entries))
	if last > behind {
		w.sinceSnapshot.Store(int64(float64(size) * float64(last-behind) / float64(entries)))
	}
	return nil
}

// GetLog reads an entry. If it cannot be read, raft would panic or continue silently; this ends the
// process first, with the reason. Until raft starts, a command comes without its data.
func (w *watchedLog) GetLog(index uint64, l *raft.Log) error {
	if header := w.core.header; header != nil && !w.scanned.Load() {
		if err := header(index, l); err == nil && l.Type == raft.LogCommand {
			return nil
		}
	}
	err := w.LogStore.GetLog(index, l)
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) {
		w.core.end(fmt.Errorf("cluster: group %s: read entry %d: %w", w.core.name, index, err))
	}
	return err
}

// DeleteRange deletes entries; a log that cannot is damaged, and ends the process. So does a
// leader whose entries differ from those committed here: acknowledged records are about to be lost,
// because some node forgot a promise, and this folder still has them.
func (w *watchedLog) DeleteRange(low, high uint64) error {
	first, err := w.FirstIndex()
	if err != nil {
		return err
	}
	if sure := max(w.core.progress.given.Load(), w.core.before); low > first && low <= sure {
		err := fmt.Errorf("%w: group %s: entries %d to %d are committed here, and the leader has others "+
			"in their place; nothing was deleted: keep this folder", ErrContradiction, w.core.name, low,
			min(sure, high))
		w.core.halt(err)
		return err
	}
	err = w.LogStore.DeleteRange(low, high)
	if err != nil {
		w.core.halt(fmt.Errorf("cluster: group %s: delete entries: %w", w.core.name, err))
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

// watchedVote is the group's term and vote; a write that fails ends the process.
type watchedVote struct {
	raft.StableStore
	core *core
}

// Set stores a value durably, or ends the process.
func (w *watchedVote) Set(key, value []byte) error { return w.done(w.StableStore.Set(key, value)) }

// SetUint64 stores a number durably, or ends the process.
func (w *watchedVote) SetUint64(key []byte, n uint64) error {
	return w.done(w.StableStore.SetUint64(key, n))
}

func (w *watchedVote) done(err error) error {
	if err != nil {
		w.core.end(fmt.Errorf("cluster: group %s: no vote is given and no term begun: %w; look at "+
			"the disk, then start this process again", w.core.name, err))
	}
	return err
}
