package cluster

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"tollgate/cluster/rollups"
	"tollgate/engine"
	"tollgate/engine/journal"
	"tollgate/engine/rollup"
)

// replica is the state machine of this node, with the files of its journal.
type replica struct {
	*core
	electorate *electorate
	// waitsFor finds this node's batch whose entry has these bytes; nil if there is none.
	waitsFor func(entry []byte) *batch

	segments Segments // nil without a journal; set before restored is closed
	// rollups is nil if nothing is counted; set like segments.
	rollups  *rollups.Store
	restored chan struct{}
	// applying is the entry that the machine was last given: reads may see some of its effects.
	applying   atomic.Uint64
	content    atomic.Pointer[content]
	snapshotAt atomic.Int64 // unix milliseconds
}

// fsm lets raft drive an engine.Machine. Raft calls it from one goroutine.
type fsm struct {
	replica *replica
	scratch engine.Applied // for entries that no caller on this node waits for

	restored uint64 // what the last Restore restored to, if nothing was applied since
	restores int    // how often in a row
	// stopped: an entry was not applied, so none after it may be.
	stopped bool
}

var _ raft.BatchingFSM = (*fsm)(nil)

// Apply carries out one entry.
func (f *fsm) Apply(l *raft.Log) any { return f.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch applies committed entries. Results go to the batch that waits for them on this node;
// raft only learns that there are some.
func (f *fsm) ApplyBatch(logs []*raft.Log) []any {
	r, answers := f.replica, make([]any, len(logs))
	if f.stopped || !r.awaitRestored() {
		f.stopped = true
		return answers
	}
	start := time.Now()
	for _, l := range logs {
		switch l.Type {
		case raft.LogConfiguration:
			r.electorate.followMembers(raft.DecodeConfiguration(l.Data), l.Index)
			r.lease.refresh()
		case raft.LogCommand:
			f.apply(l)
		}
		if f.stopped {
			return answers
		}
		r.progress.advance(l.Index, l.Term)
		r.progress.given.Store(l.Index)
	}
	f.restores = 0
	if on := r.config.Events.OnApply; on != nil {
		on(r.shard, len(logs), time.Since(start))
	}
	return answers
}

// apply applies one entry. If it cannot, it stops this replica, which never answers again.
func (f *fsm) apply(l *raft.Log) {
	r := f.replica
	if r.skips(l) {
		r.log.Warn("entry skipped as configured", "index", l.Index)
		return
	}
	own := r.waitsFor(l.Data)
	out := &f.scratch
	if own != nil {
		out = &own.applied
		out.Results = make([]engine.Result, 0, own.records)
	}
	start := time.Now()
	err := f.run(l, out)
	if on := r.config.Events.OnEntry; on != nil {
		on(r.shard, time.Since(start))
	}
	if err != nil {
		f.stopped = true
		r.halt(fmt.Errorf("cluster: group %s stops at entry %d (crc %08x): %w",
			r.name, l.Index, crc32.Checksum(l.Data, castagnoli), err))
		<-r.closing
		return
	}
	if own != nil {
		own.index = l.Index
	}
	for _, s := range out.Sealed {
		r.segments.Put(s)
	}
}

// run calls the machine; a panic is an error. A stamp older than the machine's is raised to it:
// an entry that a deposed leader submitted may slip into a later term, and stamps never go
// backwards. All replicas raise it alike.
func (f *fsm) run(l *raft.Log, out *engine.Applied) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	f.replica.applying.Store(l.Index)
	m := f.replica.machine
	return m.Apply(l.Index, raisedStamp(m, l.Data), out)
}

// raisedStamp is an entry whose stamp is the machine's if its own is older.
func raisedStamp(m engine.Machine, entry []byte) []byte {
	if h, _, err := engine.ParseEntry(entry); err != nil || h.Stamp >= m.Stamp() {
		return entry
	}
	raised := append([]byte(nil), entry...) // raft and the log's cache hold the original
	engine.SetStamp(raised, m.Stamp())
	return raised
}

// Snapshot fixes the state; raft writes it while Apply goes on.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if f.stopped {
		return nil, errHalted
	}
	s, err := f.replica.machine.Snapshot()
	if err != nil {
		return nil, err
	}
	return &fsmSnapshot{f.replica, s, f.replica.describe(s.Segments())}, nil
}

// restoreLimit is how often raft may install the same snapshot in a row.
const restoreLimit = 3

// Restore replaces the state. If raft restores the same snapshot repeatedly and applies nothing in
// between, it is in a loop that only a restart ends (trap 5).
func (f *fsm) Restore(src io.ReadCloser) (err error) {
	r, start := f.replica, time.Now()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cluster: restore: panic: %v", p)
		}
	}()
	if err := r.machine.Restore(src); err != nil {
		if errors.Is(err, engine.ErrNewerVersion) { // raft would try again forever
			r.halt(fmt.Errorf("cluster: group %s cannot take a snapshot: %w", r.name, err))
		}
		return err
	}
	index := r.machine.Applied()
	if index != f.restored {
		f.restored, f.restores = index, 0
	}
	f.restores++
	r.progress.advance(index, 0)
	r.noteRestored()
	if on := r.config.Events.OnRestore; on != nil {
		on(r.shard, time.Since(start))
	}
	if f.restores < restoreLimit {
		return nil
	}
	if err := r.rebuild(); err != nil {
		r.log.Error("cannot mark the log for removal", "error", err)
	}
	r.halt(fmt.Errorf("%w: group %s restored the snapshot of entry %d %d times in a row",
		ErrRestart, r.name, index, f.restores))
	<-r.closing
	return errHalted
}

// fsmSnapshot is a fixed state that is written to disk.
type fsmSnapshot struct {
	replica *replica
	state   engine.Snapshot
	content content
}

// Persist writes the state, and waits until every journal segment that it refers to is on disk.
func (s *fsmSnapshot) Persist(to raft.SnapshotSink) error {
	r, start := s.replica, time.Now()
	n, err := s.state.WriteTo(r.pace(to, s.state.Pressed))
	if err == nil {
		err = r.waitDurable(s.state.Segments())
	}
	if err != nil {
		if cerr := to.Cancel(); cerr != nil {
			r.log.Warn("cannot remove an unfinished snapshot", "error", cerr)
		}
		return err
	}
	if err := to.Close(); err != nil {
		return err
	}
	r.snapshotAt.Store(time.Now().UnixMilli())
	s.content.id = to.ID()
	r.content.Store(&s.content)
	if on := r.config.Events.OnSnapshot; on != nil {
		on(r.shard, n, time.Since(start))
	}
	return nil
}

const (
	// snapshotWork is how long a snapshot is written without a break while Apply runs, snapshotRest
	// the length of each break.
	snapshotWork = 500 * time.Microsecond
	snapshotRest = 2 * time.Millisecond
)

// paced writes a snapshot and leaves the processors to Apply: it rests between two blocks if
// entries were applied since the last rest, unless Apply is about to wait for it. After as much log
// as there is between two snapshots it no longer rests, so that every snapshot ends.
type paced struct {
	io.Writer
	replica *replica
	pressed func() bool
	since   time.Time
	given   uint64 // the newest entry when it rested last
	enough  int64  // bytes of log after which it no longer rests
}

func (r *replica) pace(to io.Writer, pressed func() bool) *paced {
	return &paced{
		Writer: to, replica: r, pressed: pressed, since: time.Now(), given: r.progress.given.Load(),
		enough: r.store.bytes.Load() + r.config.SnapshotBytes,
	}
}

// Write writes a block, and rests when it is time.
func (p *paced) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	if err != nil || time.Since(p.since) < snapshotWork {
		return n, err
	}
	if p.rests() {
		p.replica.pause(p.replica.ctx, snapshotRest)
	}
	p.since, p.given = time.Now(), p.replica.progress.given.Load()
	return n, nil
}

func (p *paced) rests() bool {
	r := p.replica
	return r.progress.given.Load() != p.given && r.store.bytes.Load() < p.enough && !p.pressed()
}

// Release ends the snapshot.
func (s *fsmSnapshot) Release() { s.state.Release() }

// awaitRestored waits until raft has restored the newest snapshot and the journal's segments are
// open; false if the group closes first.
func (r *replica) awaitRestored() bool {
	select {
	case <-r.restored:
		return true
	default:
	}
	select {
	case <-r.restored:
		return true
	case <-r.closing:
		return false
	}
}

func (r *replica) waitDurable(infos []journal.SegmentInfo) error {
	if r.segments == nil || len(infos) == 0 {
		return nil
	}
	return r.segments.WaitDurable(r.ctx, infos)
}

// content is the content of a snapshot on disk.
type content struct {
	id             string // "" for the restored one: the newest snapshot, if there is no newer state
	applied, hash  uint64
	stamp          int64
	listedSegments []journal.SegmentInfo
}

// describe describes the state that is being fixed; no entry is applied meanwhile.
func (r *replica) describe(segments []journal.SegmentInfo) content {
	index, hash := r.machine.StateHash()
	return content{
		applied: index, hash: hash, stamp: r.machine.Stamp(), listedSegments: segments,
	}
}

// noteRestored records the content of the snapshot that was just restored.
func (r *replica) noteRestored() {
	var segments []journal.SegmentInfo
	if j := r.machine.Journal(); j != nil {
		segments = j.Manifest()
	}
	c := r.describe(segments)
	r.content.Store(&c)
}

// visible is the newest entry of which a reader on this node may have seen a part. The entry being
// applied counts, since its records become visible one by one. Later readers on other nodes must
// see it too.
func (r *replica) visible() uint64 { return max(r.machine.Applied(), r.applying.Load()) }

// Events is the source of listings of the machine's journal; nil without a journal.
func (r *replica) Events() journal.Source {
	if r.segments == nil {
		return nil
	}
	return r.segments
}

// Rollups are the hourly counts of the machine's journal; nil without them.
func (r *replica) Rollups() rollup.Source {
	if r.rollups == nil {
		return nil
	}
	return r.rollups
}
