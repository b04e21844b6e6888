// Package workspace is the state machine of the second Raft group: flows, quotes, runs, purchases,
// issues and alerts. At present it has no domain state: it keeps the stamp, the applied index and
// the rolling hash that every machine has, and knows the kinds that every machine knows. See
// DESIGN.md.
package workspace

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/cespare/xxhash/v2"

	"tollgate/engine"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// Config says which Raft group a Machine belongs to.
type Config struct {
	// Shard is the number of the group; entries of another are refused.
	Shard uint16
}

// Machine is the workspace state machine; it implements engine.Machine.
type Machine struct {
	config Config
	ring   engine.HashRing // of the applying goroutine

	mu    sync.RWMutex
	state state
}

var _ engine.Machine = (*Machine)(nil)

// state is all there is: what a snapshot holds.
type state struct {
	Index uint64
	Stamp int64
	Hash  uint64
}

// Fields states the snapshot's fields.
func (s *state) Fields(c *wire.Codec) {
	wire.Uint(c, 1, &s.Index)
	c.Int(2, &s.Stamp)
	wire.Uint(c, 3, &s.Hash)
}

// New returns an empty machine.
func New(c Config) *Machine { return &Machine{config: c} }

// Apply carries out one entry. Stamps are taken as max(previous, entry's). Errors wrap
// engine.ErrHalt: an entry of another shard, one that does not decode, or an unknown kind; then
// nothing has changed.
func (m *Machine) Apply(index uint64, entry []byte, out *engine.Applied) error {
	out.Reset()
	h, records, err := engine.ParseEntry(entry)
	if err != nil {
		return fmt.Errorf("%w: %w", engine.ErrHalt, err)
	}
	if h.Shard != m.config.Shard {
		return fmt.Errorf("%w: entry %d is of shard %d, this is shard %d",
			engine.ErrHalt, index, h.Shard, m.config.Shard)
	}
	next := m.present()
	next.Index, next.Stamp = index, max(next.Stamp, h.Stamp)
	for r, ok := records.Next(); ok; r, ok = records.Next() {
		if err := m.check(index, r); err != nil {
			return err
		}
		out.Results = append(out.Results, engine.Result{Outcome: engine.OutcomeDone})
	}
	if err := records.Err(); err != nil {
		return fmt.Errorf("%w: entry %d: %w", engine.ErrHalt, index, err)
	}
	next.Hash = fold(next, entry)
	m.replace(next)
	m.ring.Note(engine.CheckState{Index: next.Index, Hash: next.Hash})
	return nil
}

// check carries out one record, none of which changes anything yet.
func (m *Machine) check(index uint64, r engine.Record) error {
	switch r.Kind {
	case engine.KindTick:
		return nil
	case engine.KindCheckState:
		c, ok := engine.ParseCheckState(r.Payload)
		if !ok {
			return fmt.Errorf("%w: entry %d: malformed state check", engine.ErrHalt, index)
		}
		if !m.ring.Agrees(c) {
			return fmt.Errorf("%w: state differs from the leader's at entry %d", engine.ErrHalt, c.Index)
		}
		return nil
	default:
		return fmt.Errorf("%w: entry %d has a record of unknown kind %d", engine.ErrHalt, index, r.Kind)
	}
}

// fold is the rolling hash after an entry: xxHash64 of the hash before, the index, the stamp and
// the entry's bytes, little endian.
func fold(s state, entry []byte) uint64 {
	var head [24]byte
	binary.LittleEndian.PutUint64(head[0:], s.Hash)
	binary.LittleEndian.PutUint64(head[8:], s.Index)
	binary.LittleEndian.PutUint64(head[16:], uint64(s.Stamp))
	return xxhash.Sum64(append(head[:], entry...))
}

func (m *Machine) present() state {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state
}

func (m *Machine) replace(s state) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = s
}

// Applied is the index of the last entry.
func (m *Machine) Applied() uint64 { return m.present().Index }

// Stamp is the newest applied stamp, in milliseconds since 1970 UTC.
func (m *Machine) Stamp() int64 { return m.present().Stamp }

// NextDue is 0: nothing falls due here yet.
func (m *Machine) NextDue() int64 { return 0 }

// StateHash is the rolling hash and the index it belongs to.
func (m *Machine) StateHash() (index, hash uint64) {
	s := m.present()
	return s.Index, s.Hash
}

// Journal is nil: this machine keeps none.
func (m *Machine) Journal() *journal.Journal { return nil }

// magic begins a snapshot; its last byte is the version of the format.
const magic = "TGWS\x01"

// maxSnapshotBytes bounds what Restore reads.
const maxSnapshotBytes = 1 << 10

// Snapshot fixes the present state.
func (m *Machine) Snapshot() (engine.Snapshot, error) { return snapshot{m.present()}, nil }

// Restore replaces the state by what a snapshot wrote.
func (m *Machine) Restore(src io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(src, maxSnapshotBytes))
	if err != nil {
		return fmt.Errorf("workspace: read snapshot: %w", err)
	}
	if len(data) < len(magic) || string(data[:len(magic)]) != magic {
		return fmt.Errorf("%w: no snapshot of a workspace machine", engine.ErrHalt)
	}
	var s state
	if err := wire.Decode(data[len(magic):], &s); err != nil {
		return fmt.Errorf("%w: snapshot: %w", engine.ErrHalt, err)
	}
	m.ring.Forget()
	m.replace(s)
	return nil
}

type snapshot struct{ state state }

func (s snapshot) Index() uint64                   { return s.state.Index }
func (s snapshot) Segments() []journal.SegmentInfo { return nil }
func (s snapshot) Release()                        {}

func (s snapshot) WriteTo(dst io.Writer) (int64, error) {
	n, err := dst.Write(wire.Encode([]byte(magic), &s.state))
	return int64(n), err
}
