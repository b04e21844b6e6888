package cluster

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"tollgate/engine"
	"tollgate/engine/journal"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fsm lets raft drive an engine.Machine. Raft calls it from one goroutine.
type fsm struct {
	group    *Group
	scratch  engine.Applied // for entries that nobody here waits for
	progress progress

	restored uint64 // what the last Restore restored to, if nothing was applied since
	restores int    // how often in a row
	// stopped: an entry was not applied, so none after it may be.
	stopped bool
}

var _ raft.BatchingFSM = (*fsm)(nil)

// Apply carries out one entry.
func (f *fsm) Apply(l *raft.Log) any { return f.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch carries out committed entries. Results go to the batch that waits for them here; raft
// only learns that there are some.
func (f *fsm) ApplyBatch(logs []*raft.Log) []any {
	g, answers := f.group, make([]any, len(logs))
	if f.stopped || !g.awaitRestored() {
		f.stopped = true
		return answers
	}
	start := time.Now()
	for _, l := range logs {
		switch l.Type {
		case raft.LogConfiguration:
			members := raft.DecodeConfiguration(l.Data)
			voters := configVoters(members)
			g.departed.follow(members, g.snapshotMembers())
			g.committed.Store(&voters)
			g.configured.Store(l.Index)
			g.lease.refresh()
		case raft.LogCommand:
			f.apply(l)
		}
		if f.stopped {
			return answers
		}
		f.progress.advance(l.Index, l.Term)
		g.carriedOut.Store(l.Index)
	}
	f.restores = 0
	if on := g.config.Events.OnApply; on != nil {
		on(g.shard, len(logs), time.Since(start))
	}
	return answers
}

// awaitRestored waits until the journal's segments are open, which is after raft has restored the
// newest snapshot; false when the group closes instead.
func (g *Group) awaitRestored() bool {
	select {
	case <-g.restored:
		return true
	default:
	}
	select {
	case <-g.restored:
		return true
	case <-g.closing:
		return false
	}
}

// apply carries out one entry, or stops this replica: then it never returns an answer.
func (f *fsm) apply(l *raft.Log) {
	g := f.group
	if g.skips(l) {
		g.log.Warn("entry skipped on the operator's word", "index", l.Index)
		return
	}
	own := g.local.owner(l.Data)
	out := &f.scratch
	if own != nil {
		out = &own.applied
	}
	start := time.Now()
	err := f.run(l, out)
	if on := g.config.Events.OnEntry; on != nil {
		on(g.shard, time.Since(start))
	}
	if err != nil {
		f.stopped = true
		g.halt(fmt.Errorf("cluster: group %s stops at entry %d (crc %08x): %w",
			g.name, l.Index, crc32.Checksum(l.Data, castagnoli), err))
		<-g.closing
		return
	}
	if own != nil {
		own.index = l.Index
	}
	for _, s := range out.Sealed {
		g.segments.Put(s)
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
	m, data := f.group.machine, l.Data
	if h, _, err := engine.ParseEntry(data); err == nil && h.Stamp < m.Stamp() {
		data = append([]byte(nil), data...) // raft and the log's cache hold the original
		engine.SetStamp(data, m.Stamp())
	}
	f.group.applying.Store(l.Index)
	return m.Apply(l.Index, data, out)
}

func (g *Group) skips(l *raft.Log) bool {
	for _, s := range g.config.Skip {
		if s.Shard == g.shard && s.Index == l.Index {
			return crc32.Checksum(l.Data, castagnoli) == s.CRC
		}
	}
	return false
}

// Snapshot fixes the state; raft writes it beside Apply.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	if f.stopped {
		return nil, errHalted
	}
	s, err := f.group.machine.Snapshot()
	if err != nil {
		return nil, err
	}
	return &fsmSnapshot{f.group, s, f.group.describe(s.Segments())}, nil
}

// restoreLimit is how often in a row raft may install the same snapshot.
const restoreLimit = 3

// Restore replaces the state. Raft that restores the same snapshot over and over, without
// applying anything in between, is caught in a loop that only a restart ends (trap 5).
func (f *fsm) Restore(src io.ReadCloser) (err error) {
	g, start := f.group, time.Now()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cluster: restore: panic: %v", p)
		}
	}()
	if err := g.machine.Restore(src); err != nil {
		if errors.Is(err, engine.ErrNewerVersion) { // raft would try again forever
			g.halt(fmt.Errorf("cluster: group %s cannot take a snapshot: %w", g.name, err))
		}
		return err
	}
	index := g.machine.Applied()
	if index != f.restored {
		f.restored, f.restores = index, 0
	}
	f.restores++
	f.progress.advance(index, 0)
	g.noteRestored()
	if on := g.config.Events.OnRestore; on != nil {
		on(g.shard, time.Since(start))
	}
	if f.restores < restoreLimit {
		return nil
	}
	if err := g.rebuild(); err != nil {
		g.log.Error("cannot mark the log for removal", "error", err)
	}
	g.halt(fmt.Errorf("%w: group %s restored the snapshot of entry %d %d times in a row",
		ErrRestart, g.name, index, f.restores))
	<-g.closing
	return errHalted
}

// fsmSnapshot is a fixed state on its way to disk.
type fsmSnapshot struct {
	group   *Group
	state   engine.Snapshot
	content content
}

// Persist writes the state, and waits until every journal segment that it refers to is on disk.
func (s *fsmSnapshot) Persist(to raft.SnapshotSink) error {
	g, start := s.group, time.Now()
	n, err := s.state.WriteTo(to)
	if err == nil {
		err = g.waitDurable(s.state.Segments())
	}
	if err != nil {
		if cerr := to.Cancel(); cerr != nil {
			g.log.Warn("cannot remove an unfinished snapshot", "error", cerr)
		}
		return err
	}
	if err := to.Close(); err != nil {
		return err
	}
	g.snapshotAt.Store(time.Now().UnixMilli())
	s.content.id = to.ID()
	g.content.Store(&s.content)
	if on := g.config.Events.OnSnapshot; on != nil {
		on(g.shard, n, time.Since(start))
	}
	return nil
}

// Release ends the snapshot.
func (s *fsmSnapshot) Release() { s.state.Release() }

func (g *Group) waitDurable(infos []journal.SegmentInfo) error {
	if g.segments == nil || len(infos) == 0 {
		return nil
	}
	return g.segments.WaitDurable(g.ctx, infos)
}

// progress is how far the log is applied, and who waits for more.
type progress struct {
	index atomic.Uint64

	mu      sync.Mutex
	newest  place
	waiting int
	news    chan struct{}
}

// place is an entry's: its index and its term, 0 where that is not known. Logs that have the same
// entry in a place are the same up to there.
type place struct{ index, term uint64 }

// advance notes that everything up to an entry of that term is applied.
func (p *progress) advance(index, term uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest = place{index, term}
	p.set(index)
}

// at is the newest entry applied that the machine was shown.
func (p *progress) at() place {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newest
}

// pass is advance for an entry that is nothing to apply, and that later ones may have overtaken.
func (p *progress) pass(index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(max(index, p.index.Load()))
}

func (p *progress) set(index uint64) {
	p.index.Store(index)
	if p.waiting > 0 && p.news != nil {
		close(p.news)
		p.news = nil
	}
}

// await waits until index is applied; false when ctx ends first.
func (p *progress) await(ctx context.Context, late <-chan time.Time, index uint64) bool {
	if p.index.Load() >= index {
		return true
	}
	p.mu.Lock()
	p.waiting++
	defer func() {
		p.waiting--
		p.mu.Unlock()
	}()
	for p.index.Load() < index {
		if p.news == nil {
			p.news = make(chan struct{})
		}
		news := p.news
		p.mu.Unlock()
		ok := true
		select {
		case <-news:
		case <-late:
			ok = false
		case <-ctx.Done():
			ok = false
		}
		p.mu.Lock()
		if !ok {
			return false
		}
	}
	return true
}
