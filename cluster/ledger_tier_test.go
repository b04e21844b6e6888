package cluster

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"tollgate/engine"
	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
)

// ledgerTier are the keys that a ledger has spent, of which few stay in memory. What it decides is
// compared with the map that has all of them.
type ledgerTier struct{ keys *idempotency.Keys }

const (
	// tierKeys is how many spent keys stay in memory.
	tierKeys = 4
	// tierSegment is the length of a journal segment of spent keys: a few of them.
	tierSegment = 128
)

// withTier gives the ledger a tier, and a journal of the keys that were spent.
func withTier(c *Config) {
	m := c.Billing.Machine.(*ledger)
	m.tier = &ledgerTier{idempotency.New(1 << 40)}
	m.journal = journal.NewCutting(tierSegment)
	c.Billing.Indexer = func(journal.Record, func(owner uint32, at int64, ordinal uint32)) {}
	c.Billing.KeyOf = func(r journal.Record) (e idempotency.Entry, ok bool, err error) {
		if r.Kind != journal.KindUsage {
			return e, false, nil
		}
		key, attempt := binary.LittleEndian.Uint64(r.Payload), binary.LittleEndian.Uint64(r.Payload[8:])
		return idempotency.Entry{Key: spentKey(key), Slot: slotOf(attempt)}, true, nil
	}
}

func spentKey(key uint64) (k [16]byte) {
	binary.BigEndian.PutUint64(k[:], key*0x9e3779b97f4a7c15)
	return k
}

func slotOf(attempt uint64) idempotency.Slot {
	return idempotency.Slot{Attempt: uint32(attempt), Fingerprint: uint32(attempt>>32) & 0xffffff}
}

func (k *ledgerTier) save() ([]byte, error) {
	var b bytes.Buffer
	s := k.keys.Begin()
	defer s.Release()
	_, err := s.WriteTo(&b)
	return b.Bytes(), err
}

func (k *ledgerTier) restore(data []byte, added uint64) error {
	return k.keys.Restore(bytes.NewReader(data), added)
}

// spendRecord spends a key. payload: key, attempt; then, where the proposer has looked for the key
// in files, the number up to which it did, and what it found: number and one, attempt.
func (m *ledger) spendRecord(
	index uint64, position uint32, payload []byte,
) (engine.Result, error) {
	word := func(i int) uint64 {
		if len(payload) < 8*i+8 {
			return 0
		}
		return binary.LittleEndian.Uint64(payload[8*i:])
	}
	key, attempt := word(0), word(1)
	if m.tier == nil {
		return engine.Result{Outcome: m.spend(key, attempt)}, nil
	}
	keys, span := m.tier.keys, m.tier.keys.Span()
	spends := spentKey(key)
	slot, used := keys.Find(spends, keys.Hash(spends))
	switch found := word(3); {
	case used:
	case found > 0 && found-1 < span.Memory:
		slot, used = slotOf(word(4)), true
	case word(2) < span.Memory:
		return engine.Result{Outcome: engine.OutcomeKeyUnproven}, nil
	}
	by, spent := m.state.Spent[key]
	if used != spent || spent && slot != slotOf(by) {
		return engine.Result{}, fmt.Errorf("%w: key %d was spent by %d (%v), and the tier says %v (%v)",
			engine.ErrHalt, key, by, spent, slot, used)
	}
	outcome := m.spend(key, attempt)
	if !used && outcome == engine.OutcomeDone {
		keys.Add(spends, keys.Hash(spends), slotOf(attempt), m.state.Stamp, 0)
		m.journal.Append(journal.Record{
			Kind: journal.KindUsage, Index: index, Position: position, Owner: 1,
			At: m.state.Stamp, Payload: payload[:16:16],
		})
	}
	return engine.Result{Outcome: outcome}, nil
}

// spendThrough spends a key through a node, as the HTTP API records usage.
func spendThrough(g *Group, deadline time.Time, key, attempt uint64) engine.Outcome {
	var results [1]engine.Result
	m, open := g.machine.(*ledger), false
	for range 4 {
		r := spendRecord(key, attempt)
		if m.KeySpan().OnDisk() > 0 || results[0].Outcome == engine.OutcomeKeyUnproven {
			v, err := g.KeyFinder().FindKey(spentKey(key))
			if err != nil {
				break
			}
			after := uint64(0)
			if v.Found {
				after = v.Number + 1
			}
			by := uint64(v.Slot.Attempt) | uint64(v.Slot.Fingerprint)<<32
			for _, word := range []uint64{v.Through, after, by} {
				r.Payload = binary.LittleEndian.AppendUint64(r.Payload, word)
			}
		}
		g.Propose(deadline, []engine.Record{r}, results[:])
		if results[0].Outcome != engine.OutcomeKeyUnproven {
			return results[0].Outcome
		}
		open = true
	}
	if !open && results[0].Outcome == engine.OutcomeNone {
		return engine.OutcomeUnavailable // it was never proposed
	}
	return engine.OutcomeKeyUnproven
}

// KeySpan is that of the spent keys; empty without a tier.
func (m *ledger) KeySpan() (s idempotency.Span) {
	if m.tier != nil {
		s = m.tier.keys.Span()
	}
	return s
}

func (m *ledger) KeysWanted() uint64 {
	span := m.KeySpan()
	return max(span.Memory, max(span.Next, tierKeys/2)-tierKeys/2)
}

func (m *ledger) KeysToDemote() uint64 {
	span := m.KeySpan()
	if span.InMemory() <= tierKeys {
		return 0
	}
	return span.Next - tierKeys/2
}

func (m *ledger) Demotion(through uint64) engine.Record {
	return engine.Record{Kind: kindDemote, Payload: binary.LittleEndian.AppendUint64(nil, through)}
}
