// Package workspace is the state machine of the second Raft group: workspaces, keys, flows, runs,
// purchases, credits, issues and notifications, as a pure function of their log. See DESIGN.md.
package workspace

import (
	"fmt"
	"sync/atomic"

	"tollgate/engine"
	"tollgate/engine/journal"
)

// Config says which Raft group a Machine belongs to.
type Config struct {
	// Shard is the number of the group; entries of another are refused.
	Shard uint16
}

// Machine is the workspace state machine; it implements engine.Machine. Apply, Snapshot and Restore
// are for one goroutine at a time; everything else, the queries above all, for any beside it.
type Machine struct {
	config Config
	// state is replaced whole by Restore.
	state   atomic.Pointer[state]
	ring    engine.HashRing // of the applying goroutine
	scratch scratch
	// snapshotting reports whether a Snapshot was not released yet.
	snapshotting atomic.Bool
}

var _ engine.Machine = (*Machine)(nil)

// New returns an empty machine.
func New(c Config) *Machine {
	m := &Machine{config: c}
	m.state.Store(newState())
	return m
}

// scratch is memory that Apply uses again for every entry.
type scratch struct {
	commands []command
}

// Apply carries out one entry. The whole entry is decoded before its first record is applied, so
// that an entry that stops the replica has changed nothing. What is due by the entry's stamp
// happens before its records.
func (m *Machine) Apply(index uint64, entry []byte, out *engine.Applied) error {
	out.Reset()
	s := m.state.Load()
	h, err := m.decode(s, index, entry)
	if err != nil {
		return err
	}
	t := turn{state: s, m: m, index: index, stamp: max(h.Stamp, s.stamp.Load()), hash: s.hash64}
	t.advance()
	for _, c := range m.scratch.commands {
		t.reply = nil
		s.mu.Lock()
		outcome := c.apply(&t)
		s.mu.Unlock()
		t.fold(uint64(outcome))
		out.Results = append(out.Results, engine.Result{Outcome: outcome, Value: t.reply})
	}
	if len(s.runs.ended) > 0 {
		s.mu.Lock()
		s.runs.Pack()
		s.mu.Unlock()
	}
	t.fold(uint64(t.stamp))
	s.publishDue()
	s.publish(index, t.stamp, s.store.HashNext(t.hash))
	m.ring.Note(engine.CheckState{Index: index, Hash: s.hash64})
	return nil
}

// decode fills the scratch with the entry's commands. Every error wraps engine.ErrHalt.
func (m *Machine) decode(s *state, index uint64, entry []byte) (engine.Header, error) {
	clear(m.scratch.commands)
	m.scratch.commands = m.scratch.commands[:0]
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

// Clock is the log time of a query: the newest stamp, or the node's own clock where that is ahead.
func (m *Machine) Clock(nowMS int64) int64 { return max(m.Stamp(), nowMS) }

// NextDue is the instant, in log time, at which the next thing falls due; 0 when nothing will.
func (m *Machine) NextDue() int64 { return m.state.Load().nextDue.Load() }

// StateHash is the rolling hash of everything applied so far, and the index it belongs to.
func (m *Machine) StateHash() (index, hash uint64) {
	s := m.state.Load()
	s.hashMu.Lock()
	defer s.hashMu.Unlock()
	return s.hashIndex, s.hash64
}

// Journal is nil: this machine keeps none.
func (m *Machine) Journal() *journal.Journal { return nil }
