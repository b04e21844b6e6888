package billing

import "tollgate/engine"

// tick carries no news but the entry's stamp: what is due by then happens, as much of it as one
// entry may do.
//
// What does not fit the entry is done by the next tick, which NextDue asks for; and every command
// brings the subscriptions that it touches up to its stamp by itself, so it does not matter how far
// the sweep has come.
func (t *runner) tick() engine.Outcome {
	for t.entry.work < tickWork && t.moves.facts.size < tickBytes {
		e := t.s.dueBy(t.Stamp)
		if e == nil {
			break
		}
		t.happen(e, e.now(t.Stamp))
	}
	return engine.OutcomeDone
}

// happen lets happen what is due first in an environment, up to where it is another's turn.
func (t *runner) happen(e *environment, now int64) {
	first, second := e.dues.Two()
	// Of one instant credits expire last: what a period's end rolls over is decided first.
	if pool := e.poolDues.First(); first.At <= pool.At {
		t.advance(first.Row, min(now, first.Until(second)))
	} else {
		t.expireAt(pool.Row, now)
	}
}

// sweep lets everything happen that is due in an environment. False: there is more due than this
// entry may do, and the command is to be deferred.
func (t *runner) sweep(e *environment) bool {
	for now := e.now(t.Stamp); e.due.Load() <= now; t.happen(e, now) {
		if t.spent() {
			return false
		}
	}
	return true
}

// expireAt books what a pool's grants lose by an instant of the environment's clock.
func (t *runner) expireAt(pool uint32, now int64) {
	p := t.s.pools.Read(pool)
	lock := t.s.stripe(p.customer)
	lock.Lock()
	t.spend(2 + int(p.grants)/4 + 4*t.expire(pool, now))
	lock.Unlock()
}
