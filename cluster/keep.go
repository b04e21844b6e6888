package cluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"tollgate/engine"
	"tollgate/engine/journal"
)

const (
	// timeEvery is how often the leader checks whether something has fallen due.
	timeEvery = 50 * time.Millisecond
	// maxSettlePause bounds the pause after a tick that took long.
	maxSettlePause = 100 * time.Millisecond
)

// comparesStates is false only in a program that tests whether clients find a divergence.
var comparesStates = true

// keeper does a group's background work: ticks, state checks, snapshots, journal repairs, and
// moving leadership to a node whose disk has room.
type keeper struct {
	*core
	electorate *electorate
	router     *router
	proposer   *proposer
	replica    *replica
	reader     *reader
	handover   *handover
	membership *membership
}

// keepTime proposes ticks and state checks while this node leads: a tick when something has fallen
// due, and the state's hash every so many entries.
func (k *keeper) keepTime() {
	ticker := time.NewTicker(timeEvery)
	defer ticker.Stop()
	tick := func() bool { return k.proposer.proposeOwn(engine.Record{Kind: engine.KindTick}) }
	pause := func(d time.Duration) bool { return k.pause(k.ctx, d) }
	checked, _ := k.machine.StateHash()
	for {
		select {
		case <-ticker.C:
		case <-k.closing:
			return
		}
		k.lease.refresh()
		if !k.router.route.Load().ready {
			continue
		}
		settle(k.due, tick, pause)
		index, hash := k.machine.StateHash()
		if comparesStates && index >= checked+k.config.CheckEntries {
			check := engine.AppendCheckState(nil, engine.CheckState{Index: index, Hash: hash})
			if k.proposer.proposeOwn(engine.Record{Kind: engine.KindCheckState, Payload: check}) {
				checked = index
			}
		}
	}
}

// settle carries out what is due, tick by tick; each tick does a bounded part. Between two ticks,
// waiting writes get as much time as the tick took, so a hundred thousand periods that end at once
// take half of the cluster's time and not all of it.
func settle(due, tick func() bool, pause func(time.Duration) bool) {
	for due() {
		start := time.Now()
		if !tick() || !due() || !pause(min(time.Since(start), maxSettlePause)) {
			return
		}
	}
}

func (k *keeper) due() bool {
	at := k.machine.NextDue()
	return at > 0 && k.clocks.stampMS() >= at && k.ctx.Err() == nil
}

const (
	// snapshotLook is how often the bytes since the last snapshot are checked.
	snapshotLook = time.Second
	// snapshotTries is how often to look for a snapshot again after a newer one replaced it.
	snapshotTries = 3
	// minTrailing is the least number of entries that stay behind a snapshot.
	minTrailing = 16
)

// keepSnapshots takes a snapshot when enough bytes were logged since the last: raft itself counts
// entries, which say nothing about size.
func (k *keeper) keepSnapshots() {
	for k.pause(k.ctx, snapshotLook) {
		// A snapshot taken now lacks what is not applied yet, as after a restart.
		pending := k.store.sizeOf(k.raft.AppliedIndex(), k.raft.LastIndex())
		if !k.lostSnapshot() && !k.takesTurn(k.store.sinceSnapshot.Load()-pending) {
			continue
		}
		if err := k.TakeSnapshot(); err != nil {
			k.log.Warn("no snapshot taken", "error", err)
			if !k.pause(k.ctx, 10*snapshotLook) {
				return
			}
		}
	}
}

// turnWithin bounds the question whose turn it is. No node waits for a member that does not answer.
const turnWithin = 500 * time.Millisecond

// takesTurn reports whether this node writes a snapshot now, after it has logged so many bytes
// since the last. Members write theirs one after the other: each that does has less of its disk and
// processors for clients. All write the same log and would want a snapshot at the same moment, so
// each is content with three quarters of SnapshotBytes (the first one of a process with less, see
// wanted) and waits for its turn until there are all of them. Two that ask at the same moment may
// both write; that costs time, and nothing else.
func (k *keeper) takesTurn(logged int64) bool {
	if logged < k.wanted() {
		k.progress.turn.Store(turnNone)
		return false
	}
	k.progress.turn.Store(turnWanted)
	return logged >= k.config.SnapshotBytes || k.isNext()
}

// wanted is how much log must follow the last snapshot before this node wants another: three
// quarters of SnapshotBytes. The first snapshot of a process comes earlier, depending on its place
// among the members, so that three nodes are a quarter of SnapshotBytes apart.
func (k *keeper) wanted() int64 {
	wanted := k.config.SnapshotBytes / 4 * 3
	if k.replica.snapshotAt.Load() != 0 {
		return wanted
	}
	members, place := k.servers().Servers, 0
	for _, s := range members {
		if string(s.ID) <= k.config.NodeID {
			place++
		}
	}
	return wanted * int64(max(place, 1)) / int64(max(len(members), 1))
}

// isNext asks the other members: none of them writes a snapshot, and of those that want to, this
// node is the first by its id.
func (k *keeper) isNext() bool {
	ctx, cancel := context.WithTimeout(k.ctx, turnWithin)
	defer cancel()
	var before atomic.Bool
	var asking sync.WaitGroup
	for _, s := range k.servers().Servers {
		if string(s.ID) == k.config.NodeID {
			continue
		}
		asking.Go(func() {
			said, err := k.request(ctx, string(s.ID), callTurn, nil)
			if err == nil && len(said) == 1 && k.isBefore(s.ID, said[0]) {
				before.Store(true)
			}
		})
	}
	asking.Wait()
	return !before.Load()
}

func (k *keeper) isBefore(other raft.ServerID, turn byte) bool {
	return turn == turnTaken || turn == turnWanted && string(other) < k.config.NodeID
}

// lostSnapshot reports whether a snapshot on disk is damaged: it is replaced before a follower or
// the next start needs it.
func (k *keeper) lostSnapshot() bool {
	return k.snapshotDamage != nil && k.snapshotDamage() != nil
}

// TakeSnapshot writes a snapshot now and shortens the log behind it. It returns nil when there is
// nothing new to write.
func (k *keeper) TakeSnapshot() error {
	k.progress.turn.Store(turnTaken)
	err := k.takeSnapshot()
	k.progress.turn.Store(turnNone)
	if on := k.config.Events.OnSnapshotFailed; on != nil && err != nil && k.ctx.Err() == nil {
		on(k.shard)
	}
	return err
}

func (k *keeper) takeSnapshot() error {
	logged, last := k.store.sinceSnapshot.Load(), k.raft.LastIndex()
	err := k.retune(func(set func(raft.ReloadableConfig) error, c raft.ReloadableConfig) error {
		c.TrailingLogs = uint64(max(minTrailing, k.config.TrailingBytes/k.store.meanEntry()))
		return set(c)
	})
	if err != nil {
		return err
	}
	if err = k.snapshot(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return err
	}
	found, err := k.snapshots.List()
	if err != nil {
		return err
	}
	var index uint64
	if len(found) > 0 {
		index = found[0].Index
	}
	k.store.sinceSnapshot.Add(-max(0, logged-k.store.sizeOf(index, last)))
	return nil
}

// changeBetween is part of raft's error when a change of members was committed after a snapshot had
// begun; raft has no error value for it.
const changeBetween = "wait until the configuration entry"

// snapshot makes raft take one, and tries again if members changed meanwhile.
func (k *keeper) snapshot() error {
	for try := 1; ; try++ {
		applied := k.progress.index.Load()
		err := k.raft.Snapshot().Error()
		if err == nil || !strings.Contains(err.Error(), changeBetween) || try == snapshotTries ||
			!k.progress.await(k.ctx, time.After(snapshotLook), applied+1) {
			return err
		}
	}
}

// segmentsLook is how often to look for missing and dropped journal segments.
const segmentsLook = time.Second

// keepSegments deletes the files of journal segments that were dropped, and fetches those that this
// node's state lists and its disk does not have, after a snapshot of another node was installed or
// a file was damaged.
func (k *keeper) keepSegments() {
	if k.replica.segments == nil {
		return
	}
	fetch := func(ctx context.Context, info journal.SegmentInfo) ([]byte, error) {
		return k.peers.fetch(ctx, k.shard, info)
	}
	for {
		if err := k.replica.segments.Sweep(); err != nil {
			k.log.Warn("dropped journal segments are still on disk", "error", err)
		}
		if missing := k.replica.segments.Missing(); len(missing) > 0 {
			if err := k.replica.segments.Repair(k.ctx, fetch); err != nil && k.ctx.Err() == nil {
				k.log.Warn("journal segments are missing", "count", len(missing), "error", err)
			}
		}
		if !k.pause(k.ctx, segmentsLook) {
			return
		}
	}
}

func (k *keeper) agree(common uint32) {
	agreed, known := k.machine.Version()
	common = min(common, known)
	if common <= agreed || !k.router.route.Load().ready {
		return
	}
	payload := engine.AppendSetVersion(nil, common)
	if k.proposer.proposeOwn(engine.Record{Kind: engine.KindSetVersion, Payload: payload}) {
		k.log.Info("the cluster has agreed on a version", "version", common)
	}
}
