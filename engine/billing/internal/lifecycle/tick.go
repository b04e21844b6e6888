package lifecycle

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
)

// Tick carries out what is due by the entry's stamp, as much as one entry may do.
//
// The next tick, which NextDue asks for, does the rest. Every command brings its subscriptions to
// its stamp by itself, so no command depends on how far the sweep has come.
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

// happen carries out what is due first in an environment, up to the instant of the second.
func (t *Runner) happen(e *accounts.Environment, now int64) {
	first, second := e.Dues.Two()
	// At one instant, subscriptions come first, then reservations expire, then credits: a period's
	// end decides first what rolls over.
	pool, hold := e.PoolDues.First(), e.HoldDues.First()
	switch {
	case first.At <= min(pool.At, hold.At):
		t.advance(first.Row, min(now, first.Until(second), hold.At))
	case hold.At <= pool.At:
		t.expire(hold)
	default: // what falls due next takes from the credits that end later
		t.expireAt(pool.Row, min(now, first.At-1, hold.At-1))
	}
}

// Sweep carries out everything due in an environment. It returns false if more is due than this
// entry may do: then the command is deferred.
func (t *Runner) Sweep(e *accounts.Environment) bool {
	for now := e.Now(t.Stamp); e.Due.Load() <= now; t.happen(e, now) {
		if t.Spent() {
			return false
		}
	}
	return true
}

// expireAt expires a pool's grants at an instant of the environment's clock.
func (t *Runner) expireAt(pool uint32, now int64) {
	p := t.S.Pools.Read(pool)
	lock := t.S.WriteLock(p.Customer)
	t.Spend(2 + int(p.Grants)/4 + 4*t.Expire(pool, now))
	lock.Unlock()
	t.TopUpPool(pool, now)
}
