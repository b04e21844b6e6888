package budgets

import (
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/decimal"
)

// Corrected is an event that was counted, and what it is to count more. One that has counted in no
// budget counts that at Node, as usage of now.
type Corrected struct {
	Counted *Counted
	Change  *Charge
	Node    uint32 // 0: Counted says where
}

// unopened is the window of now where a limit has not begun it.
const unopened = ^uint32(0)

// where visits the limits in which a corrected event counts, as each does.
func where(
	f *Forest, e *Corrected, now int64, visit func(row uint32, l *Limit, closed uint32),
) {
	if e.Node == 0 {
		f.each(e.Counted, visit)
	}
	for at := e.Node; at != 0; at = f.nodes.Read(at).Parent {
		for row := f.nodes.Read(at).FirstLimit; row != 0; row = f.limits.Read(row).Next {
			closed := uint32(0)
			if now >= f.limits.Read(row).End {
				closed = unopened
			}
			visit(row, f.limits.Read(row), closed)
		}
	}
}

// PlanCorrections decides, in the order of Plan, whether events that were counted may count so
// much more, together; less they always may. It changes nothing.
func (f *Forest) PlanCorrections(events []Corrected, now int64) (r Refusal, o engine.Outcome) {
	type sum struct {
		row, closed uint32
		amount      decimal.Exact
	}
	var sums []sum
	o = engine.OutcomeDone
	for i := range events {
		where(f, &events[i], now, func(row uint32, l *Limit, closed uint32) {
			amount, takes := l.takes(events[i].Change)
			if !takes {
				return
			}
			at := slices.IndexFunc(sums, func(s sum) bool { return s.row == row && s.closed == closed })
			if at < 0 {
				sums = append(sums, sum{row, closed, amount})
				return
			}
			var ok bool
			if sums[at].amount, ok = sums[at].amount.Add(amount); !ok {
				o = engine.OutcomeOverflow
			}
		})
	}
	for _, s := range sums {
		l, ok := f.limits.Read(s.row), true
		n := f.nodes.Read(l.Node)
		window := f.refusal(s.row, l.Held, now)
		total, most := l.Used, l.Max
		switch {
		case s.closed == unopened:
			total = l.Held
		case s.closed != 0:
			w := f.windows.Read(s.closed)
			total = w.Used
			window.past(w.Start, w.End, total)
			most = w.Max
			window.Limit = most
		case now < l.End:
			total, ok = total.Add(l.Held)
		default: // it is over, though nothing has begun the next one
			window.past(l.Start, l.End, total)
		}
		if ok {
			total, ok = total.Add(s.amount)
		}
		switch {
		case o != engine.OutcomeDone:
		case s.amount.Sign() > 0 && n.Archived:
			r, o = Refusal{Budget: f.Key(l.Node)}, engine.OutcomeBudgetArchived
		case s.amount.Sign() > 0 && n.Frozen:
			r, o = Refusal{Budget: f.Key(l.Node)}, engine.OutcomeBudgetFrozen
		case !ok || !total.InRange():
			o = engine.OutcomeOverflow
		case !l.Soft && s.amount.Sign() > 0 && total.Cmp(most.Exact()) > 0:
			r, o = window, engine.OutcomeBudgetExceeded
		}
	}
	return r, o
}

// past makes a refusal that of a window that is over: it holds nothing.
func (r *Refusal) past(start, end int64, used decimal.Exact) {
	r.Start, r.End, r.Used, r.Held = start, end, rounded(used), decimal.Decimal{}
}

// Correct counts a change of an event that was counted, in the windows that counted it, as far as
// they are kept. k becomes what the event counts then. It returns the thresholds that this has
// reached in windows of now.
func (f *Forest) Correct(
	t *accounts.Tx, env uint32, k *Counted, change *Charge, now int64,
) (crossed []Crossing) {
	lock := f.Lock(env)
	lock.Lock()
	defer lock.Unlock()
	f.each(k, func(row uint32, l *Limit, closed uint32) {
		amount, takes := l.takes(change)
		if !takes || amount.Sign() == 0 {
			return
		}
		l = f.limits.Write(row)
		if closed != 0 {
			w := f.windows.Write(closed)
			w.Used, _ = w.Used.Add(amount)
			beyond := !l.Soft && w.Used.Cmp(w.Max.Exact()) > 0
			w.Overrun = w.Overrun || amount.Sign() > 0 && beyond
			words := w.Used.Words()
			t.Fold(uint64(closed)<<32 ^ words[0] ^ words[1]<<1)
			return
		}
		l.Used, _ = l.Used.Add(amount)
		held := l.Held
		if now >= l.End { // it is over: it holds and tells nothing
			held = decimal.Exact{}
		} else {
			crossed = cross(f, crossed, row, l, &amount, now)
		}
		l.Overrun = l.Overrun || amount.Sign() > 0 && l.over(held)
		l.measure()
		t.Hash = l.fold(t.Hash, row)
	})
	sum := k.Charge()
	sum.add(change)
	k.Price = nil // that may be a part of the event's record
	k.set(&sum)
	return crossed
}
