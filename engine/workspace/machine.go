// Package workspace is the state machine of the second Raft group: workspaces, keys, flows, runs,
// purchases, credits, issues and notifications, as a pure function of their log. See DESIGN.md.
package workspace

import (
	"sync/atomic"

	"tollgate/engine"
	"tollgate/engine/journal"
	"tollgate/engine/machine"
)

// Config says which Raft group a Machine belongs to.
type Config struct {
	// Shard is the number of the group; entries of another are refused.
	Shard uint16
}

// Machine is the workspace state machine; it implements engine.Machine. Apply, Snapshot and Restore
// must be called from one goroutine at a time. All other methods, queries above all, may run
// concurrently with them.
type Machine struct {
	machine.Asked
	kernel machine.Kernel[*Machine, *turn]
	// state is replaced whole by Restore.
	state atomic.Pointer[state]
}

var _ engine.Machine = (*Machine)(nil)

// New returns an empty machine.
func New(c Config) *Machine {
	m := &Machine{}
	m.kernel.Shard, m.kernel.Table = c.Shard, table
	m.Asked = machine.Ask(func() *machine.Log { return &m.state.Load().log })
	m.state.Store(newState())
	return m
}

// Apply carries out one entry. What is due by its stamp happens before its records.
func (m *Machine) Apply(index uint64, entry []byte, out *engine.Applied) error {
	out.Reset()
	s := m.state.Load()
	begun, records, err := m.kernel.Decode(m, &s.log, index, entry)
	if err != nil {
		return err
	}
	t := turn{begun, s}
	s.advance(&t.Turn)
	for i := range records {
		t.Reply = nil
		s.mu.Lock()
		outcome := records[i].Op.Apply(&t)
		s.mu.Unlock()
		t.Conclude(outcome, out)
	}
	if len(s.runs.ended) > 0 {
		s.mu.Lock()
		s.runs.Pack()
		s.mu.Unlock()
	}
	s.publishDue()
	m.kernel.Close(&t.Turn, s.store.HashNext)
	return nil
}

// NextDue is the instant, in log time, at which the next thing falls due; 0 when nothing will.
func (m *Machine) NextDue() int64 { return m.state.Load().nextDue.Load() }

// Journal is nil: this machine keeps none.
func (m *Machine) Journal() *journal.Journal { return nil }
