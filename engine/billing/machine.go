// Package billing is the billing state machine: accounts, keys, catalogs, customers,
// subscriptions, usage, entitlements and invoices, as a pure function of their log. See DESIGN.md.
package billing

import (
	"io"

	"tollgate/engine"
	"tollgate/engine/journal"
)

// Config says which Raft group a Machine belongs to.
type Config struct {
	// Shard is the number of the group; entries of another are refused.
	Shard uint16
}

// Machine is the billing state machine; it implements engine.Machine.
type Machine struct{ config Config }

// New returns an empty machine.
func New(c Config) *Machine { return &Machine{config: c} }

var _ engine.Machine = (*Machine)(nil)

func (m *Machine) Apply(index uint64, entry []byte, out *engine.Applied) error { return engine.ErrHalt }
func (m *Machine) Applied() uint64                                             { return 0 }
func (m *Machine) Stamp() int64                                                { return 0 }
func (m *Machine) NextDue() int64                                              { return 0 }
func (m *Machine) StateHash() (index, hash uint64)                             { return 0, 0 }
func (m *Machine) Snapshot() (engine.Snapshot, error)                          { return nil, engine.ErrHalt }
func (m *Machine) Restore(src io.Reader) error                                 { return engine.ErrHalt }
func (m *Machine) Journal() *journal.Journal                                   { return nil }
