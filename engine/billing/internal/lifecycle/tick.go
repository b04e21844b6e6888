package lifecycle

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
)

// Tick carries no news but the entry's stamp: what is due by then happens, as much of it as one
// entry may do.
//
// What does not fit the entry is done by the next tick, which NextDue asks for; and every command
// brings the subscriptions that it touches up to its stamp by itself, so it does not matter how far
// the sweep has come.
func (t *Runner) Tick() engine.Outcome {
	for t.Entry.Work < accounts.TickWork && t.Moves.Facts.Size < accounts.TickBytes {
		e := t.S.DueBy(t.Stamp)
		if e == nil {
			break
		}
		t.happen(e, e.Now(t.Stamp))
	}
	return engine.OutcomeDone
}

// happen lets happen what is due first in an environment, up to where it is another's turn.
func (t *Runner) happen(e *accounts.Environment, now int64) {
	first, second := e.Dues.Two()
	// Of one instant reservations expire behind what is due of subscriptions, and credits last: what
	// a period's end rolls over is decided first.
	pool, hold := e.PoolDues.First(), e.HoldDues.First()
	switch {
	case first.At <= min(pool.At, hold.At):
		t.advance(first.Row, min(now, first.Until(second), hold.At))
	case hold.At <= pool.At:
		t.Holds.ExpireHold(hold.Row)
	default:
		t.expireAt(pool.Row, now)
	}
}

// Sweep lets everything happen that is due in an environment. False: there is more due than this
// entry may do, and the command is to be deferred.
func (t *Runner) Sweep(e *accounts.Environment) bool {
	for now := e.Now(t.Stamp); e.Due.Load() <= now; t.happen(e, now) {
		if t.Spent() {
			return false
		}
	}
	return true
}

// expireAt books what a pool's grants lose by an instant of the environment's clock.
func (t *Runner) expireAt(pool uint32, now int64) {
	p := t.S.Pools.Read(pool)
	lock := t.S.WriteLock(p.Customer)
	t.Spend(2 + int(p.Grants)/4 + 4*t.Expire(pool, now))
	lock.Unlock()
}
