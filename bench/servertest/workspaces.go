package servertest

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/fair"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
)

// Workspaces is a server.Proposer and a server.Reader over the state machine of the workspaces. A
// call is an entry of the log.
type Workspaces struct {
	Machine *workspace.Machine
	// NoLeader makes linearizable reads fail.
	NoLeader atomic.Bool

	asking sync.Mutex
	before func(engine.Kind) engine.Outcome

	// Stale is what Staleness says, in nanoseconds.
	Stale atomic.Int64

	refuse atomic.Pointer[engine.Result]
	mu     sync.Mutex
	index  uint64
	ahead  time.Duration
	kinds  [][]engine.Kind
	flows  map[engine.Kind]fair.Flow
	log    []byte
}

// NewWorkspaces makes a group with an empty machine.
func NewWorkspaces() *Workspaces {
	return &Workspaces{
		Machine: workspace.New(workspace.Config{Shard: 1}), flows: make(map[engine.Kind]fair.Flow),
	}
}

// Refuse makes every proposal come to this outcome without being applied; OutcomeNone ends that.
func (g *Workspaces) Refuse(o engine.Outcome) { g.RefuseWith(engine.Result{Outcome: o}) }

// RefuseWith is Refuse with a value in addition to the outcome.
func (g *Workspaces) RefuseWith(r engine.Result) { g.refuse.Store(&r) }

// Before has ask answer before each command, one at a time: by an outcome that refuses it, or by
// none or done. It may wait, too.
func (g *Workspaces) Before(ask func(engine.Kind) engine.Outcome) {
	g.asking.Lock()
	defer g.asking.Unlock()
	g.before = ask
}

// Now is the time of the next entry.
func (g *Workspaces) Now() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Now().Add(g.ahead)
}

// Later moves the clock on, and lets what is due happen.
func (g *Workspaces) Later(d time.Duration) {
	g.mu.Lock()
	g.ahead += d
	g.mu.Unlock()
	var results [1]engine.Result
	g.Propose(time.Time{}, []engine.Record{{Kind: engine.KindTick}}, results[:])
}

// Log is the entries so far, one after the other.
func (g *Workspaces) Log() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return string(g.log)
}

// Entries are the kinds of the records of each entry.
func (g *Workspaces) Entries() [][]engine.Kind {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.kinds)
}

// Flow is whose the newest command of a kind was, as far as the cluster shares by it.
func (g *Workspaces) Flow(kind engine.Kind) fair.Flow {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.flows[kind]
}

// Propose applies the records in one entry, now. As a group of a cluster does it refuses kinds that
// wait for a version that was not agreed on. An entry that the machine cannot apply panics.
func (g *Workspaces) Propose(_ time.Time, records []engine.Record, results []engine.Result) {
	r := g.refused(records[0])
	if r.Outcome != engine.OutcomeNone && r.Outcome != engine.OutcomeDone {
		for i := range results {
			results[i] = r
		}
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	entry, kinds := engine.AppendHeader(nil, 1), make([]engine.Kind, 0, len(records))
	for _, r := range records {
		entry, kinds = engine.AppendRecord(entry, r), append(kinds, r.Kind)
		g.flows[r.Kind] = r.Flow
	}
	engine.SetStamp(entry, time.Now().Add(g.ahead).UnixMilli())
	g.index++
	g.kinds, g.log = append(g.kinds, kinds), append(g.log, entry...)
	var out engine.Applied
	if err := g.Machine.Apply(g.index, entry, &out); err != nil {
		panic(err)
	}
	for i, r := range out.Results {
		results[i] = engine.Result{Outcome: r.Outcome, Value: slices.Clone(r.Value)}
	}
}

func (g *Workspaces) refused(first engine.Record) engine.Result {
	if agreed, _ := g.Machine.Version(); g.Machine.Since(first) > agreed {
		return engine.Result{Outcome: engine.OutcomeUpgrading}
	}
	if r := g.refuse.Load(); r != nil && r.Outcome != engine.OutcomeNone {
		return *r
	}
	g.asking.Lock()
	defer g.asking.Unlock()
	if g.before == nil {
		return engine.Result{}
	}
	return engine.Result{Outcome: g.before(first.Kind)}
}

// BeginRead answers at once.
func (g *Workspaces) BeginRead(time.Time) (engine.ReadTicket, engine.Outcome) {
	if g.NoLeader.Load() {
		return engine.ReadTicket{}, engine.OutcomeUnavailable
	}
	return engine.ReadTicket{Term: 1, Leader: true}, engine.OutcomeDone
}

// Behind is false.
func (g *Workspaces) Behind() bool { return false }

// Ask gets no answer.
func (g *Workspaces) Ask(time.Time, []byte) ([]byte, bool) { return nil, false }

// ReadStands is always so.
func (g *Workspaces) ReadStands(engine.ReadTicket) bool { return true }

// Staleness is Stale.
func (g *Workspaces) Staleness() time.Duration { return time.Duration(g.Stale.Load()) }

// Do carries out a command that must succeed.
func (g *Workspaces) Do(t testing.TB, kind engine.Kind, command wire.Fielder) engine.Result {
	t.Helper()
	var results [1]engine.Result
	records := []engine.Record{{Kind: kind, Payload: wire.Encode(nil, command)}}
	g.Propose(time.Time{}, records, results[:])
	require.Equal(t, engine.OutcomeDone, results[0].Outcome)
	return results[0]
}
