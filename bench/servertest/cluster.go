// Package servertest runs the real state machines without raft, for tests of the HTTP APIs: a
// proposer that applies at once, a reader that answers at once, and switches for bad days.
package servertest

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	"tollgate/engine/rollup"
	"tollgate/engine/wire"
)

// Cluster is a server.Proposer, a server.Reader and a journal.Source over one state machine.
type Cluster struct {
	Machine *billing.Machine
	// NoLeader makes linearizable reads fail.
	NoLeader atomic.Bool
	// Fickle is how many of the next tickets do not stand.
	Fickle atomic.Int32
	// Lagging makes the node one that is behind its leader, which answers the questions that Ask
	// counts, unless it is Mute.
	Lagging, Mute atomic.Bool
	Asks          atomic.Int64
	// Stale is what Staleness says, in nanoseconds.
	Stale atomic.Int64
	// Reads counts linearizable reads.
	Reads atomic.Int64
	// NoTicks keeps what falls due from happening by itself, as without a leader, until Tick.
	NoTicks atomic.Bool
	// Hidden are kinds of records (a journal.KindSet) that listings lack, as from a damaged journal.
	Hidden atomic.Uint64
	// Other is a journal that is read in place of the machine's own, as when one of the two has lost
	// something.
	Other atomic.Pointer[journal.Journal]
	// AuditBlocks counts the proposals of audit blocks.
	AuditBlocks atomic.Int64
	// Stamp is the stamp of all further entries, in milliseconds since 1970; 0: the time of day.
	Stamp atomic.Int64

	// Demotes is before how many of the next proposals all idempotency keys leave memory; Blind makes
	// the files that have them say nothing.
	Demotes atomic.Int32
	Blind   atomic.Bool
	// Lags is how many of the next looks into these files find all but the newest key there.
	Lags atomic.Int32

	// RefuseKind is a kind of records of which the next RefuseNext proposals come to
	// OutcomeOverloaded without being applied.
	RefuseKind atomic.Uint32
	RefuseNext atomic.Int32

	refuse  atomic.Uint32
	mu      sync.Mutex
	index   uint64
	applied engine.Applied
	entry   []byte
}

// New makes a cluster with an empty machine.
func New() *Cluster { return &Cluster{Machine: billing.New(billing.Config{})} }

// Refuse makes every proposal come to this outcome without being applied; OutcomeNone ends that.
func (c *Cluster) Refuse(o engine.Outcome) { c.refuse.Store(uint32(o)) }

// Hold keeps proposals waiting until Go.
func (c *Cluster) Hold() { c.mu.Lock() }

// Go ends Hold.
func (c *Cluster) Go() { c.mu.Unlock() }

// Propose applies the records in entries of their own, now. An entry that the machine cannot apply
// panics: that is a fault of the caller, or of the machine.
func (c *Cluster) Propose(_ time.Time, records []engine.Record, results []engine.Result) {
	if records[0].Kind == billing.KindRecordAudits {
		c.AuditBlocks.Add(1)
	}
	o := engine.Outcome(c.refuse.Load())
	if records[0].Kind == engine.Kind(c.RefuseKind.Load()) && c.RefuseNext.Add(-1) >= 0 {
		o = engine.OutcomeOverloaded
	}
	if o != engine.OutcomeNone {
		for i := range results {
			results[i] = engine.Result{Outcome: o}
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Demotes.Load() > 0 && c.Demotes.Add(-1) >= 0 {
		c.demote()
	}
	for len(records) > 0 {
		n := c.apply(records)
		for i, r := range c.applied.Results {
			results[i] = engine.Result{Outcome: r.Outcome, Value: slices.Clone(r.Value)}
		}
		records, results = records[n:], results[n:]
	}
	if !c.NoTicks.Load() {
		c.tick()
	}
}

// demote lets all idempotency keys leave memory.
func (c *Cluster) demote() {
	all := billing.DemoteKeys{Through: c.Machine.KeySpan().Next}
	c.apply([]engine.Record{
		{Kind: billing.KindDemoteKeys, Payload: wire.Encode(nil, &all)},
	})
}

// FindKey looks for an idempotency key in the whole journal.
func (c *Cluster) FindKey(key [16]byte) (idempotency.Verdict, error) {
	if c.Blind.Load() {
		return idempotency.Verdict{}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := c.source().FindKey(key)
	if c.Lags.Load() > 0 && c.Lags.Add(-1) >= 0 {
		v.Through--
	}
	return v, err
}

// Tick lets everything happen that is due by now.
func (c *Cluster) Tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tick()
}

func (c *Cluster) tick() {
	for due := c.Machine.NextDue(); due != 0 && due <= c.now(); {
		c.apply([]engine.Record{{Kind: engine.KindTick}})
		due = c.Machine.NextDue()
	}
}

func (c *Cluster) now() int64 {
	if stamp := c.Stamp.Load(); stamp != 0 {
		return stamp
	}
	return time.Now().UnixMilli()
}

// apply makes one entry of as many records as fit.
func (c *Cluster) apply(records []engine.Record) (n int) {
	c.entry = engine.AppendHeader(c.entry[:0], 0)
	for n < len(records) &&
		(n == 0 || len(c.entry)+engine.RecordSize(records[n]) <= engine.MaxEntryBytes) {
		c.entry = engine.AppendRecord(c.entry, records[n])
		n++
	}
	engine.SetStamp(c.entry, c.now())
	c.index++
	if err := c.Machine.Apply(c.index, c.entry, &c.applied); err != nil {
		panic(err)
	}
	return n
}

// BeginRead answers at once.
func (c *Cluster) BeginRead(time.Time) (engine.ReadTicket, engine.Outcome) {
	c.Reads.Add(1)
	if c.NoLeader.Load() {
		return engine.ReadTicket{}, engine.OutcomeUnavailable
	}
	return engine.ReadTicket{Term: 1, Leader: true}, engine.OutcomeDone
}

// Behind is Lagging.
func (c *Cluster) Behind() bool { return c.Lagging.Load() }

// Ask answers from the machine.
func (c *Cluster) Ask(_ time.Time, question []byte) ([]byte, bool) {
	c.Asks.Add(1)
	answer := c.Machine.Answer(question)
	return answer, len(answer) > 0 && !c.Mute.Load()
}

// ReadStands is false as often as Fickle says.
func (c *Cluster) ReadStands(engine.ReadTicket) bool {
	return c.Fickle.Load() <= 0 || c.Fickle.Add(-1) < 0
}

// Staleness is Stale.
func (c *Cluster) Staleness() time.Duration { return time.Duration(c.Stale.Load()) }

// List serves listings from the open tail of the journal.
func (c *Cluster) List(q journal.Query) ([]journal.Item, error) {
	q.Kinds &^= journal.KindSet(c.Hidden.Load())
	return c.source().List(q)
}

// Walk serves the open tail of the journal in the order of the log.
func (c *Cluster) Walk(owners []uint32, from uint64, yield func(journal.Record) error) error {
	hidden := journal.KindSet(c.Hidden.Load())
	return c.source().Walk(owners, from, func(r journal.Record) error {
		if hidden != 0 && hidden.Has(r.Kind) {
			return nil
		}
		return yield(r)
	})
}

// Back serves the open tail of the journal, the newest records first.
func (c *Cluster) Back(q journal.BackQuery, yield func(journal.Record) (bool, error)) error {
	hidden := journal.KindSet(c.Hidden.Load())
	return c.source().Back(q, func(r journal.Record) (bool, error) {
		if hidden != 0 && hidden.Has(r.Kind) {
			return true, nil
		}
		return yield(r)
	})
}

// Event serves usage events from the open tail of the journal.
func (c *Cluster) Event(number uint64) (journal.Record, error) { return c.source().Event(number) }

// Sum adds up the open tail of the journal.
func (c *Cluster) Sum(q rollup.Query, yield func(rollup.Cell) error) error {
	return c.source().Sum(q, yield)
}

func (c *Cluster) source() *enginetest.Source {
	if other := c.Other.Load(); other != nil {
		return &enginetest.Source{Journal: other}
	}
	return &enginetest.Source{Journal: c.Machine.Journal()}
}

// Do carries out a command that must succeed.
func (c *Cluster) Do(t testing.TB, kind engine.Kind, command wire.Fielder) engine.Result {
	t.Helper()
	var results [1]engine.Result
	records := []engine.Record{{Kind: kind, Payload: wire.Encode(nil, command)}}
	c.Propose(time.Time{}, records, results[:])
	require.Equal(t, engine.OutcomeDone, results[0].Outcome)
	return results[0]
}
