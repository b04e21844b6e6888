package billing

import (
	"fmt"

	"tollgate/engine"
)

// Bounds of what one tick does: steps are invoices that fall due, periods that end and the like.
// What is left is done by the next one, which NextDue asks for; and every command brings the
// subscriptions that it touches up to its stamp by itself, so it does not matter how far the sweep
// has come.
const (
	tickSteps = 256
	tickBytes = 64 << 10 // of journal
)

// tick carries no news but the entry's stamp: what is due by then happens.
type tick struct{}

func decodeTick(_ *Machine, payload []byte) (command, error) {
	if len(payload) != 0 {
		return nil, fmt.Errorf("payload of %d bytes", len(payload))
	}
	return tick{}, nil
}

// sweptGrants bounds how many grants expire in one tick; one pool more may come on top.
const sweptGrants = 256

func (tick) apply(t *turn) engine.Outcome {
	left := tickSteps
	for left > 0 && t.m.scratch.facts.size < tickBytes {
		e := t.dueBy(t.stamp)
		if e == nil {
			break
		}
		left -= t.advance(e.dues.heap[0].row, e.now(t.stamp), left)
	}
	// Credits expire after the periods that ended before: what rolls over is decided first.
	if t.dueBy(t.stamp) == nil {
		t.expireCredits(sweptGrants)
	}
	return engine.OutcomeDone
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
