// Package billing is the billing state machine: accounts, keys, catalogs, customers,
// subscriptions, usage, entitlements and invoices, as a pure function of their log. See DESIGN.md.
package billing

import (
	"fmt"
	"sync"
	"sync/atomic"

	"tollgate/engine"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// Config says which Raft group a Machine belongs to.
type Config struct {
	// Shard is the number of the group; entries of another are refused.
	Shard uint16
	// creditBounds are smaller in tests alone.
	creditBounds
}

// Machine is the billing state machine; it implements engine.Machine. Apply, Snapshot and Restore
// are for one goroutine at a time; everything else, the queries above all, for any beside it.
type Machine struct {
	config Config
	// state is replaced whole by Restore.
	state   atomic.Pointer[state]
	journal *journal.Journal
	// applying is held by Apply and by Restore where it replaces what it read, for those queries
	// that must see keys and journal of one instant.
	applying sync.RWMutex
	ring     engine.HashRing
	scratch  scratch
	// snapshotting reports whether a Snapshot was not released yet.
	snapshotting atomic.Bool
}

var _ engine.Machine = (*Machine)(nil)

// New returns an empty machine.
func New(c Config) *Machine {
	m := &Machine{config: c, journal: journal.New()}
	m.state.Store(newState())
	return m
}

// scratch is memory that Apply uses again for every entry.
type scratch struct {
	commands []command
	payloads [][]byte
	usages   []RecordUsage
	entry    usageEntry
	payload  []byte
	draws    []draw
	facts    factRecord
	changes  changeRecords
	// moved are the pools whose credits the present command has moved.
	moved []uint32
	// work is what the entry has done so far: see work.go.
	work int
}

// keptUsages is how many decoded usage events are kept as memory for the next entry; more than
// fit an entry of any but the smallest events.
const keptUsages = 8192

func (s *scratch) reset() {
	s.work = 0
	clear(s.commands)
	clear(s.payloads)
	s.commands, s.payloads = s.commands[:0], s.payloads[:0]
	if cap(s.usages) > keptUsages {
		s.usages = nil
	}
	s.usages = s.usages[:0]
}

// usage returns a zeroed record, which is good until the next entry.
func (s *scratch) usage() *RecordUsage {
	if len(s.usages) == cap(s.usages) {
		s.usages = make([]RecordUsage, 0, max(256, 2*cap(s.usages)))
	}
	s.usages = append(s.usages, RecordUsage{})
	return &s.usages[len(s.usages)-1]
}

// Apply carries out one entry. The whole entry is decoded before its first record is applied, so
// that an entry that stops the replica has changed nothing.
func (m *Machine) Apply(index uint64, entry []byte, out *engine.Applied) error {
	out.Reset()
	s := m.state.Load()
	h, err := m.decode(s, index, entry)
	if err != nil {
		return err
	}
	m.applying.Lock()
	defer m.applying.Unlock()
	t := turn{state: s, m: m, index: index, stamp: max(h.Stamp, s.stamp.Load()), hash: s.hash64}
	retention := s.limits.Load().KeyRetentionMS
	s.floor = max(s.floor, t.stamp-retention)
	s.keys.Expire(t.stamp)
	s.requests.expire(t.stamp - RequestRetentionMS)
	m.expireAudits(&t, out)
	ahead := m.scratch.usages
	for i, c := range m.scratch.commands {
		if len(ahead) > 0 && c == command(&ahead[0]) {
			n := min(anticipated, len(ahead))
			s.anticipate(ahead[:n])
			ahead = ahead[n:]
		}
		t.position, t.payload, t.reply, t.told = uint32(i), m.scratch.payloads[i], nil, 0
		outcome := t.perform(c)
		t.tellDepleted()
		t.fold(uint64(outcome))
		out.Results = append(out.Results, engine.Result{Outcome: outcome, Value: t.reply})
	}
	m.journalFacts(index, uint32(len(m.scratch.commands)))
	m.journalChanges(&t, uint32(len(m.scratch.commands))+1)
	m.endJournal(&t, out)
	s.changesShown.Store(s.changes)
	t.fold(uint64(t.stamp))
	s.publish(index, t.stamp, s.store.HashNext(t.hash))
	m.ring.Note(engine.CheckState{Index: index, Hash: s.hash64})
	return nil
}

// decode fills the scratch with the entry's commands. Every error wraps engine.ErrHalt.
func (m *Machine) decode(s *state, index uint64, entry []byte) (engine.Header, error) {
	m.scratch.reset()
	h, records, err := engine.ParseNext(index, entry, m.config.Shard, s.applied.Load())
	if err != nil {
		return h, err
	}
	for r, ok := records.Next(); ok; r, ok = records.Next() {
		d, known := define(r.Kind)
		if !known {
			return h, fmt.Errorf("%w: entry %d has a record of the unknown kind %d",
				engine.ErrHalt, index, r.Kind)
		}
		c, err := d.decode(m, r.Payload)
		if err != nil {
			return h, fmt.Errorf("%w: entry %d, record %d (%s): %w",
				engine.ErrHalt, index, len(m.scratch.commands), d.name, err)
		}
		m.scratch.commands = append(m.scratch.commands, c)
		m.scratch.payloads = append(m.scratch.payloads, r.Payload)
	}
	if err := records.Err(); err != nil {
		return h, fmt.Errorf("%w: entry %d: %w", engine.ErrHalt, index, err)
	}
	return h, nil
}

// publish makes an entry's index, stamp and hash known to queries.
func (s *state) publish(index uint64, stamp int64, hash uint64) {
	s.hashMu.Lock()
	s.hashIndex, s.hash64 = index, hash
	s.hashMu.Unlock()
	s.stamp.Store(stamp)
	s.applied.Store(index)
}

// Applied is the index of the last entry that was applied, or restored from a snapshot.
func (m *Machine) Applied() uint64 { return m.state.Load().applied.Load() }

// Stamp is the newest stamp that was applied, in milliseconds since 1970 UTC.
func (m *Machine) Stamp() int64 { return m.state.Load().stamp.Load() }

// NextDue is the instant, in log time, at which the next thing falls due; 0 when nothing will.
func (m *Machine) NextDue() int64 {
	s := m.state.Load()
	next, audits := s.schedule.next.Load(), s.auditDue.Load()
	if next == 0 || audits != 0 && audits < next {
		return audits
	}
	return next
}

// StateHash is the rolling hash of everything applied so far, and the index it belongs to.
func (m *Machine) StateHash() (index, hash uint64) {
	s := m.state.Load()
	s.hashMu.Lock()
	defer s.hashMu.Unlock()
	return s.hashIndex, s.hash64
}

// Journal is the record of usage and audit events.
func (m *Machine) Journal() *journal.Journal { return m.journal }

// Clock is the log time of a query: the newest stamp, or the node's own clock where that is ahead.
func (m *Machine) Clock(nowMS int64) int64 { return max(m.Stamp(), nowMS) }

// EnvironmentNow is Clock on the environment's own clock, which may run ahead of log time.
func (m *Machine) EnvironmentNow(env uint32, nowMS int64) int64 {
	now := m.Clock(nowMS)
	if e := m.state.Load().environment(env); e != nil {
		return e.now(now)
	}
	return now
}

// since lists the cluster version from which each kind may be proposed, for kinds that older builds
// do not know. The first release knows all of them.
var since = [...]engine.Since{}

// Since is from which cluster version on a record may be proposed.
func (m *Machine) Since(r engine.Record) uint32 {
	return max(engine.SinceOf(since[:], r, unwrap), sinceFields(r))
}

// sinceFields is Since by the fields that a record has.
func sinceFields(r engine.Record) (version uint32) {
	for carried := true; carried; r, carried = unwrap(r) {
		var c CreateSubscription
		if r.Kind == KindCreateSubscription && wire.Decode(r.Payload, &c) == nil {
			version = max(version, c.Since())
		}
	}
	return version
}

// Version is the cluster version that the log has agreed on, and the newest that this build knows.
func (m *Machine) Version() (agreed, known uint32) {
	return m.state.Load().version.Load(), engine.Version
}

// setVersion raises the cluster version.
type setVersion uint32

func decodeSetVersion(_ *Machine, payload []byte) (command, error) {
	version, err := engine.ParseSetVersion(payload, engine.Version)
	return setVersion(version), err
}

// A version that is not newer changes nothing: two leaders may have asked the members.
func (v setVersion) apply(t *turn) engine.Outcome {
	if uint32(v) > t.version.Load() {
		t.fold(uint64(v))
		t.version.Store(uint32(v))
	}
	return engine.OutcomeDone
}

// growing are the commands that make the state grow for good, or for as long as keys are kept. What
// ends, frees, corrects, replaces or pays something is not among them. TestWhatGrowsIsKnown places
// every kind of the registry.
var growing = map[engine.Kind]bool{
	KindRecordUsage: true, KindRecordProbedUsage: true,
	KindCreateAccount: true, KindCreateKey: true, KindApplyCatalog: true,
	KindCreateCustomer: true, KindCreateSubscription: true, KindChangePlan: true,
	KindCreatePool: true, KindGrantCredits: true, KindDeductCredits: true,
	KindOpenCheckout: true, KindKeepAnswer: true, KindAdvanceClock: true,
	KindCreateWebhookEndpoint: true,
}

// Grows reports whether a record makes the state grow, also where another command carries it.
func Grows(r engine.Record) bool {
	for inner, carried := unwrap(r); carried; inner, carried = unwrap(r) {
		r = inner
	}
	return growing[r.Kind]
}

// unwrap returns the record that another one carries; false where it carries none, or no replica
// will take it.
func unwrap(r engine.Record) (inner engine.Record, carried bool) {
	switch r.Kind {
	case KindOnce:
		var c Once
		err := wire.Decode(r.Payload, &c)
		return engine.Record{Kind: c.Kind, Payload: c.Payload}, err == nil
	case KindSubmit:
		var c Submit
		err := wire.Decode(r.Payload, &c)
		return engine.Record{Kind: c.Kind, Payload: c.Payload}, err == nil
	case KindAdminister:
		var c Administer
		err := wire.Decode(r.Payload, &c)
		return engine.Record{Kind: c.Kind, Payload: c.Payload}, err == nil
	}
	return inner, false
}
