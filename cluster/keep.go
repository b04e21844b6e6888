package cluster

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"tollgate/engine"
	"tollgate/engine/journal"
)

const (
	// timeEvery is how often the leader looks whether something has fallen due.
	timeEvery = 50 * time.Millisecond
	// tickWait bounds the leader's own proposals.
	tickWait = 5 * time.Second
	// maxSettlePause bounds the pause after a tick that took long.
	maxSettlePause = 100 * time.Millisecond
)

// comparesStates is false only in a program in which clients have to find what is wrong.
var comparesStates = true

// keepTime proposes what the log needs of its own accord while this node leads: a tick when
// something has fallen due, and the state's hash every so many entries.
func (g *Group) keepTime() {
	ticker := time.NewTicker(timeEvery)
	defer ticker.Stop()
	tick := func() bool { return g.proposeOwn(engine.Record{Kind: engine.KindTick}) }
	pause := func(d time.Duration) bool { return g.pause(g.ctx, d) }
	checked, _ := g.machine.StateHash()
	for {
		select {
		case <-ticker.C:
		case <-g.closing:
			return
		}
		g.lease.refresh()
		if !g.route.Load().ready {
			continue
		}
		settle(g.due, tick, pause)
		index, hash := g.machine.StateHash()
		if comparesStates && index >= checked+g.config.CheckEntries {
			check := engine.AppendCheckState(nil, engine.CheckState{Index: index, Hash: hash})
			if g.proposeOwn(engine.Record{Kind: engine.KindCheckState, Payload: check}) {
				checked = index
			}
		}
	}
}

// settle lets happen what is due, tick by tick: each does a bounded part of it. Between two of them
// what waited meanwhile goes first, for as long as the tick took: a hundred thousand periods that
// end at once take half of the cluster, and not all of it.
func settle(due, tick func() bool, pause func(time.Duration) bool) {
	for due() {
		start := time.Now()
		if !tick() || !due() || !pause(min(time.Since(start), maxSettlePause)) {
			return
		}
	}
}

func (g *Group) due() bool {
	at := g.machine.NextDue()
	return at > 0 && g.clocks.stampMS() >= at && g.ctx.Err() == nil
}

func (g *Group) proposeOwn(r engine.Record) bool {
	var result [1]engine.Result
	g.propose(time.Now().Add(tickWait), []engine.Record{r}, result[:], true)
	return result[0].Outcome == engine.OutcomeDone
}

const (
	// snapshotLook is how often the bytes since the last snapshot are looked at.
	snapshotLook = time.Second
	// minTrailing is the least number of entries that stay behind a snapshot.
	minTrailing = 16
)

// keepSnapshots takes a snapshot when enough bytes were logged since the last: raft itself counts
// entries, which say nothing about size.
func (g *Group) keepSnapshots() {
	for g.pause(g.ctx, snapshotLook) {
		// What is not applied yet, after a restart above all, is in no snapshot that is taken now.
		pending := g.store.sizeOf(g.raft.AppliedIndex(), g.raft.LastIndex())
		if g.store.sinceSnapshot.Load()-pending < g.snapshotBytes() && !g.lostSnapshot() {
			continue
		}
		if err := g.TakeSnapshot(); err != nil {
			g.log.Warn("no snapshot taken", "error", err)
			if !g.pause(g.ctx, 10*snapshotLook) {
				return
			}
		}
	}
}

// lostSnapshot reports whether a snapshot on disk is damaged: another takes its place, before a
// follower or the next start needs it.
func (g *Group) lostSnapshot() bool {
	return g.snapshotDamage != nil && g.snapshotDamage() != nil
}

// snapshotBytes is how much log this node writes before it takes a snapshot. All nodes write the
// same log: with one threshold they would all take theirs at the same moment, when each has less
// of its disk and processors for the others. The second of three members takes its a sixth
// earlier, the third a third.
func (g *Group) snapshotBytes() int64 {
	servers := g.servers().Servers
	rank, members := int64(0), int64(len(servers))
	for _, s := range servers {
		if string(s.ID) < g.config.NodeID {
			rank++
		}
	}
	return g.config.SnapshotBytes - g.config.SnapshotBytes*rank/(2*max(1, members))
}

// TakeSnapshot writes a snapshot now and shortens the log behind it. It returns nil when there is
// nothing new to write.
func (g *Group) TakeSnapshot() error {
	err := g.takeSnapshot()
	if on := g.config.Events.OnSnapshotFailed; on != nil && err != nil && g.ctx.Err() == nil {
		on(g.shard)
	}
	return err
}

func (g *Group) takeSnapshot() error {
	logged, last := g.store.sinceSnapshot.Load(), g.raft.LastIndex()
	err := g.retune(func(set func(raft.ReloadableConfig) error, c raft.ReloadableConfig) error {
		c.TrailingLogs = uint64(max(minTrailing, g.config.TrailingBytes/g.store.meanEntry()))
		return set(c)
	})
	if err != nil {
		return err
	}
	if err = g.snapshot(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return err
	}
	found, err := g.snapshots.List()
	if err != nil {
		return err
	}
	var index uint64
	if len(found) > 0 {
		index = found[0].Index
	}
	g.store.sinceSnapshot.Add(-max(0, logged-g.store.sizeOf(index, last)))
	return nil
}

// changeBetween is what raft says, for want of an error that could be told by its value, where a
// change of the members was committed after a snapshot had begun.
const changeBetween = "wait until the configuration entry"

// snapshot lets raft take one, again where members changed meanwhile.
func (g *Group) snapshot() error {
	for try := 1; ; try++ {
		applied := g.adapter.progress.index.Load()
		err := g.raft.Snapshot().Error()
		if err == nil || !strings.Contains(err.Error(), changeBetween) || try == snapshotTries ||
			!g.adapter.progress.await(g.ctx, time.After(snapshotLook), applied+1) {
			return err
		}
	}
}

// segmentsLook is how often missing and dropped journal segments are looked for.
const segmentsLook = time.Second

// keepSegments deletes the files of journal segments that were dropped, and fetches those that this
// node's state lists and its disk does not have, after a snapshot of another node was installed or
// a file was damaged.
func (g *Group) keepSegments() {
	if g.segments == nil {
		return
	}
	fetch := func(ctx context.Context, info journal.SegmentInfo) ([]byte, error) {
		return g.peers.fetch(ctx, g.shard, info)
	}
	for {
		if err := g.segments.Sweep(); err != nil {
			g.log.Warn("dropped journal segments are still on disk", "error", err)
		}
		if missing := g.segments.Missing(); len(missing) > 0 {
			if err := g.segments.Repair(g.ctx, fetch); err != nil && g.ctx.Err() == nil {
				g.log.Warn("journal segments are missing", "count", len(missing), "error", err)
			}
		}
		if !g.pause(g.ctx, segmentsLook) {
			return
		}
	}
}
