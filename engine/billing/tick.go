package billing

import (
	"fmt"

	"tollgate/engine"
)

// tick carries no news but the entry's stamp: what is due by then happens, as much of it as one
// entry may do.
type tick struct{}

func decodeTick(_ *Machine, payload []byte) (command, error) {
	if len(payload) != 0 {
		return nil, fmt.Errorf("payload of %d bytes", len(payload))
	}
	return tick{}, nil
}

// What does not fit the entry is done by the next tick, which NextDue asks for; and every command
// brings the subscriptions that it touches up to its stamp by itself, so it does not matter how far
// the sweep has come.
func (tick) apply(t *turn) engine.Outcome {
	for !t.spent() && t.m.scratch.facts.size < tickBytes {
		e := t.dueBy(t.stamp)
		if e == nil {
			break
		}
		now := e.now(t.stamp)
		// Of one instant credits expire last: what a period's end rolls over is decided first.
		if first, pool := e.dues.first(), e.poolDues.first(); first.at <= pool.at {
			t.advance(first.row, now)
		} else {
			t.expireAt(pool.row, now)
		}
	}
	return engine.OutcomeDone
}

// expireAt books what a pool's grants lose by an instant of the environment's clock.
func (t *turn) expireAt(pool uint32, now int64) {
	p := t.pools.Read(pool)
	lock := t.stripe(p.customer)
	lock.Lock()
	t.spend(2 + int(p.grants)/4 + 4*t.expire(pool, now))
	lock.Unlock()
}

// checkState compares this replica's rolling hash with the leader's. It is compared when the
// entry is decoded: a replica that disagrees applies nothing more.
type checkState struct{}

func decodeCheckState(m *Machine, payload []byte) (command, error) {
	c, ok := engine.ParseCheckState(payload)
	if !ok {
		return nil, fmt.Errorf("payload of %d bytes", len(payload))
	}
	if !m.ring.Agrees(c) {
		return nil, fmt.Errorf("after entry %d the leader's state hash was %016x, this one's differs",
			c.Index, c.Hash)
	}
	return checkState{}, nil
}

func (checkState) apply(*turn) engine.Outcome { return engine.OutcomeDone }
