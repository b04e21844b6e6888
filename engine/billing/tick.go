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
	for t.m.scratch.work < tickWork && t.m.scratch.facts.size < tickBytes {
		e := t.dueBy(t.stamp)
		if e == nil {
			break
		}
		t.happen(e, e.now(t.stamp))
	}
	return engine.OutcomeDone
}

// happen lets happen what is due first in an environment, up to where it is another's turn.
func (t *turn) happen(e *environment, now int64) {
	first, second := e.dues.two()
	// Of one instant credits expire last: what a period's end rolls over is decided first.
	if pool := e.poolDues.first(); first.at <= pool.at {
		t.advance(first.row, min(now, first.until(second)))
	} else {
		t.expireAt(pool.row, now)
	}
}

// sweep lets everything happen that is due in an environment. False: there is more due than this
// entry may do, and the command is to be deferred.
func (t *turn) sweep(e *environment) bool {
	for now := e.now(t.stamp); e.due.Load() <= now; t.happen(e, now) {
		if t.spent() {
			return false
		}
	}
	return true
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

// handOver is the cluster's word to itself: it changes nothing here.
type handOver struct{}

func decodeHandOver(_ *Machine, payload []byte) (command, error) {
	if _, ok := engine.ParseHandOver(payload); !ok {
		return nil, fmt.Errorf("payload of %d bytes", len(payload))
	}
	return handOver{}, nil
}

func (handOver) apply(*turn) engine.Outcome { return engine.OutcomeDone }
