package cluster

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"fmt"
	"io"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"tollgate/engine"
	"tollgate/engine/journal"
)

// Kinds of the ledger's records.
const (
	kindCount engine.Kind = 16 // payload: key, 8 bytes, then anything: counts it once
	kindPanic engine.Kind = 17
	kindDue   engine.Kind = 18 // payload: unix milliseconds, 8 bytes: when a tick is wanted
	kindWork  engine.Kind = 19 // kindCount, of which an entry does workShare; the rest is deferred
	kindGated engine.Kind = 20 // like kindCount, but refused as long as key 0 was not counted
	kindAudit engine.Kind = 21 // payload: anything: becomes an audit block
	kindSpend engine.Kind = 22 // payload: key, attempt, 8 bytes each: takes one of spendLimit, per key
	kindLater engine.Kind = 23 // kindCount, of builds that know cluster version next
	// kindDemote has the number, 8 bytes, before which spent keys leave memory.
	kindDemote engine.Kind = 24
)

// spendLimit is how many keys can spend.
const spendLimit = 40

// workShare is how many records of kindWork an entry does.
const workShare = 4

// ledgerRetention is how long the ledger keeps audit blocks.
const ledgerRetention = 30 * time.Second

// ledger is a small state machine for tests: it counts each key once, however often it comes.
type ledger struct {
	shard   uint16
	ring    engine.HashRing
	journal *journal.Journal // nil without one
	known   uint32           // newest cluster version
	tier    *ledgerTier      // nil: spent keys stay in memory

	// gate, when set, holds Apply up until it is closed: of every entry, or, when gatedKey is not
	// 0, of those that count this key.
	gate     atomic.Pointer[chan struct{}]
	gatedKey atomic.Uint64
	held     atomic.Uint64 // the entry that came to the gate
	// begins, when set, is called when a snapshot begins.
	begins atomic.Pointer[func()]
	// writes, when set, is called before a snapshot is written.
	writes atomic.Pointer[func()]

	mu    sync.RWMutex
	state ledgerState
	broke bool // after a test spoiled its state
}

type ledgerState struct {
	Index, Hash uint64
	Stamp, Due  int64
	Ticks       int
	Counts      map[uint64]int    // how often a key came
	Spent       map[uint64]uint64 // the attempt that spent, by key
	Version     uint32            // agreed on
	Journal     []byte
	Spending    []byte // of the tier
}

func newLedger(shard uint16) *ledger {
	return &ledger{shard: shard, known: engine.Version, state: ledgerState{
		Counts: make(map[uint64]int), Spent: make(map[uint64]uint64),
	}}
}

func spendRecord(key, attempt uint64) engine.Record {
	b := binary.LittleEndian.AppendUint64(nil, key)
	return engine.Record{Kind: kindSpend, Payload: binary.LittleEndian.AppendUint64(b, attempt)}
}

// spend takes one of the limit for a key, once. An attempt that comes again is told what it was.
func (m *ledger) spend(key, attempt uint64) engine.Outcome {
	switch by, spent := m.state.Spent[key]; {
	case spent && by == attempt:
		return engine.OutcomeDone
	case spent:
		return engine.OutcomeDuplicate
	case len(m.state.Spent) >= spendLimit:
		return engine.OutcomeHardLimit
	}
	m.state.Spent[key] = attempt
	return engine.OutcomeDone
}

func countRecord(key uint64) engine.Record {
	return engine.Record{Kind: kindCount, Payload: binary.LittleEndian.AppendUint64(nil, key)}
}

// Answer says how often a key came.
func (m *ledger) Answer(question []byte) []byte {
	if len(question) != 8 {
		return nil
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return []byte{byte(m.state.Counts[binary.LittleEndian.Uint64(question)])}
}

func (m *ledger) Apply(index uint64, entry []byte, out *engine.Applied) error {
	out.Reset()
	if gate := m.gate.Load(); gate != nil && m.gated(entry) {
		m.held.Store(index)
		<-*gate
	}
	h, records, err := engine.ParseEntry(entry)
	if err != nil || h.Shard != m.shard {
		return fmt.Errorf("%w: shard %d: %v", engine.ErrHalt, h.Shard, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.Stamp < m.state.Stamp {
		return fmt.Errorf("%w: stamp went back by %d ms", engine.ErrHalt, m.state.Stamp-h.Stamp)
	}
	m.state.Index, m.state.Stamp = index, h.Stamp
	if m.journal != nil {
		out.Sealed, _ = m.journal.Expire(h.Stamp, ledgerRetention.Milliseconds(), out.Sealed)
	}
	position, share := uint32(0), workShare
	for r, ok := records.Next(); ok; r, ok = records.Next() {
		if r.Kind == kindWork {
			if share--; share < 0 {
				out.Results = append(out.Results, engine.Result{Outcome: engine.OutcomeDeferred})
				position++
				continue
			}
			r.Kind = kindCount
		}
		res, err := m.applyRecord(index, position, r)
		if err != nil {
			return err
		}
		out.Results = append(out.Results, res)
		position++
	}
	if m.broke {
		entry = append(append([]byte(nil), entry...), 1)
	}
	folded := binary.LittleEndian.AppendUint64(entry[:len(entry):len(entry)], m.state.Hash)
	m.state.Hash = xxhash.Sum64(folded)
	m.ring.Note(engine.CheckState{Index: index, Hash: m.state.Hash})
	if m.journal != nil {
		out.Sealed = m.journal.EndEntry(index, out.Sealed)
	}
	return records.Err()
}

// gated reports whether the gate holds this entry up.
func (m *ledger) gated(entry []byte) bool {
	key := m.gatedKey.Load()
	_, records, err := engine.ParseEntry(entry)
	if key == 0 || err != nil {
		return true
	}
	for r, ok := records.Next(); ok; r, ok = records.Next() {
		if r.Kind == kindCount && binary.LittleEndian.Uint64(r.Payload) == key {
			return true
		}
	}
	return false
}

func (m *ledger) applyRecord(
	index uint64, position uint32, r engine.Record,
) (engine.Result, error) {
	done := engine.Result{Outcome: engine.OutcomeDone}
	switch r.Kind {
	case engine.KindTick:
		m.state.Ticks++
		m.state.Due = 0
	case engine.KindHandOver:
	case engine.KindCheckState:
		if c, _ := engine.ParseCheckState(r.Payload); !m.ring.Agrees(c) {
			return done, fmt.Errorf("%w: another state at %d", engine.ErrHalt, c.Index)
		}
	case engine.KindSetVersion:
		version, err := engine.ParseSetVersion(r.Payload, m.known)
		if err != nil {
			return done, fmt.Errorf("%w: %w", engine.ErrHalt, err)
		}
		m.state.Version = max(m.state.Version, version)
	case kindDue:
		m.state.Due = int64(binary.LittleEndian.Uint64(r.Payload))
	case kindGated, kindCount, kindLater:
		if r.Kind == kindLater && m.known < next {
			return done, fmt.Errorf("%w: unknown kind %d", engine.ErrHalt, r.Kind)
		}
		if r.Kind == kindGated && m.state.Counts[0] == 0 {
			return engine.Result{Outcome: engine.OutcomeCustomerUnknown}, nil
		}
		key := binary.LittleEndian.Uint64(r.Payload)
		m.state.Counts[key]++
		done.Value = r.Payload[:8:8]
		if m.journal != nil && m.tier == nil {
			m.journal.Append(journal.Record{
				Kind: journal.KindUsage, Index: index, Position: position, Owner: 1,
				At: m.state.Stamp, Payload: r.Payload,
			})
		}
	case kindAudit:
		m.journal.Append(journal.Record{
			Kind: journal.KindAudit, Index: index, Position: position, Owner: 1,
			At: m.state.Stamp, Payload: r.Payload,
		})
	case kindSpend:
		return m.spendRecord(index, position, r.Payload)
	case kindDemote:
		m.tier.keys.Demote(binary.LittleEndian.Uint64(r.Payload))
	case kindPanic:
		panic("the ledger was told to")
	default:
		return done, fmt.Errorf("%w: kind %d", engine.ErrHalt, r.Kind)
	}
	return done, nil
}

func (m *ledger) read() ledgerState {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state
}

func (m *ledger) Applied() uint64                 { return m.read().Index }
func (m *ledger) Stamp() int64                    { return m.read().Stamp }
func (m *ledger) Version() (agreed, known uint32) { return m.read().Version, m.known }
func (m *ledger) Since(r engine.Record) uint32 {
	if r.Kind >= kindLater {
		return next
	}
	return 0
}

func (m *ledger) NextDue() int64            { return m.read().Due }
func (m *ledger) Journal() *journal.Journal { return m.journal }

func (m *ledger) StateHash() (index, hash uint64) {
	s := m.read()
	return s.Index, s.Hash
}

// has reports whether a key was counted.
func (m *ledger) has(key uint64) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state.Counts[key] > 0
}

// spent is a copy of what was spent, while a request of unknown fate may still be applied.
func (m *ledger) spent() map[uint64]uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return maps.Clone(m.state.Spent)
}

// keys is how many different keys were counted.
func (m *ledger) keys() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.state.Counts)
}

func (m *ledger) Snapshot() (engine.Snapshot, error) {
	if begins := m.begins.Load(); begins != nil {
		(*begins)()
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	s := ledgerSnapshot{index: m.state.Index, writes: m.writes.Load()}
	state := m.state
	if m.tier != nil {
		var err error
		if state.Spending, err = m.tier.save(); err != nil {
			return nil, err
		}
	}
	if m.journal != nil {
		j := m.journal.Begin()
		s.segments = j.Segments()
		var b bytes.Buffer
		if _, err := j.WriteTo(&b); err != nil {
			return nil, err
		}
		state.Journal = b.Bytes()
	}
	return s, gob.NewEncoder(&s.data).Encode(state)
}

func (m *ledger) Restore(src io.Reader) error {
	var s ledgerState
	if err := gob.NewDecoder(src).Decode(&s); err != nil {
		return err
	}
	if err := engine.CheckVersion(s.Version, m.known); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = s
	if m.state.Counts == nil {
		m.state.Counts = make(map[uint64]int)
	}
	if m.state.Spent == nil {
		m.state.Spent = make(map[uint64]uint64)
	}
	m.ring.Forget()
	if m.tier != nil {
		if err := m.tier.restore(s.Spending, uint64(len(s.Spent))); err != nil {
			return err
		}
	}
	if m.journal != nil {
		return m.journal.Restore(bytes.NewReader(s.Journal))
	}
	return nil
}

type ledgerSnapshot struct {
	index    uint64
	writes   *func()
	data     bytes.Buffer
	segments []journal.SegmentInfo
}

func (s ledgerSnapshot) Index() uint64                   { return s.index }
func (s ledgerSnapshot) Segments() []journal.SegmentInfo { return s.segments }
func (s ledgerSnapshot) Pressed() bool                   { return false }

func (s ledgerSnapshot) Release() {}

func (s ledgerSnapshot) WriteTo(dst io.Writer) (int64, error) {
	if s.writes != nil {
		(*s.writes)()
	}
	n, err := dst.Write(s.data.Bytes())
	return int64(n), err
}
