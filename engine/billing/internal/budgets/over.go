package budgets

import (
	"sync"

	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
)

// set says when an item expires into nothing; Never: into usage, or it holds nothing any more. What
// the item holds is in the state before and after.
func (x *expiring) set(f *Forest, item uint32, at int64) {
	if place, is := x.places[item]; is {
		x.drop(f, item, place)
	}
	x.place(f, item, at)
}

// place moves an item to another instant in due.
func (x *expiring) place(f *Forest, item uint32, at int64) {
	f.placing.Lock()
	x.due.Set(&f.places, item, at)
	f.placing.Unlock()
}

// drop takes an item out of those that are over. It returns how many limits it visited.
func (x *expiring) drop(f *Forest, item uint32, place int) (visited int) {
	if place < x.summed {
		visited = x.add(f, item, true)
		x.summed--
		x.put(place, x.over[x.summed])
		place = x.summed
	}
	last := len(x.over) - 1
	if place != last {
		x.put(place, x.over[last])
	}
	x.over, x.back = x.over[:last], min(x.back, last)
	if delete(x.places, item); last == 0 {
		x.over, x.places, x.held = nil, nil, nil
	}
	return visited
}

func (x *expiring) put(place int, d rows.Due) { x.over[place], x.places[d.Row] = d, place }

// add adds what an item holds to held, or takes it back. It returns how many limits it visited.
func (x *expiring) add(f *Forest, item uint32, back bool) (visited int) {
	c := f.items.Read(item)
	for at := c.Node; at != 0; at = f.nodes.Read(at).Parent {
		for row := f.nodes.Read(at).FirstLimit; row != 0; row = f.limits.Read(row).Next {
			visited++
			amount, takes := f.limits.Read(row).takes(&c.Charge)
			if !takes {
				continue
			}
			if back {
				amount = amount.Neg()
			}
			sum := x.held[row]
			sum.Increase(&amount)
			x.held[row] = sum
		}
	}
	return visited
}

// unexpired is what a limit holds without what queries have found to be over.
func unexpired(f *Forest, row uint32) decimal.Exact {
	l := f.limits.Read(row)
	held, _ := l.Held.Sub(f.in(f.nodes.Read(l.Node).Env).held[row])
	return held
}

// again makes queries add up anew: nodes were moved, or limits replaced.
func (x *expiring) again() {
	x.summed = 0
	clear(x.held)
}

// behind reports whether held is not what holds as of an instant.
func (x *expiring) behind(now int64) bool {
	return x.due.First().At <= now || x.summed < len(x.over) || x.early(now)
}

// backMS is by how much an instant may lie behind that of a query before, in milliseconds, without
// what was over then holding again: queries that come at once differ by less.
const backMS = 1000

// early reports whether items are over that are not for a query of an instant.
func (x *expiring) early(now int64) bool { return x.latest > now+backMS }

// putBack makes items hold again that are not over at an instant, the last ones of over first, or
// goes on with that where a step ended. It returns the work that it leaves.
func (x *expiring) putBack(f *Forest, now int64, work int) (left int) {
	if x.back == 0 {
		x.back, x.behindBack = len(x.over), 0
	}
	for x.back > 0 && work > 0 {
		x.back--
		work -= itemWork
		d := x.over[x.back]
		if d.At <= now {
			x.behindBack = max(x.behindBack, d.At)
			continue
		}
		work -= x.drop(f, d.Row, x.back)
		x.place(f, d.Row, d.At)
	}
	if x.back == 0 {
		x.latest = x.behindBack
	}
	return work
}

// stepWork bounds a step of a query, since it keeps Apply waiting. A unit is a limit that is
// visited, some 0.1 µs; an item that is found to be over takes itemWork, too.
const (
	stepWork = 512
	itemWork = 3
)

// step brings held nearer to an instant. It ends with the item that exceeds so much work.
func (x *expiring) step(f *Forest, now int64, work int) {
	if x.early(now) {
		work = x.putBack(f, now, work)
	}
	for work > 0 {
		work -= itemWork
		if first := x.due.First(); first.At <= now {
			if x.held == nil {
				x.places, x.held = map[uint32]int{}, map[uint32]decimal.Exact{}
			}
			x.place(f, first.Row, rows.Never)
			x.over = append(x.over, first)
			x.places[first.Row] = len(x.over) - 1
			x.latest, x.behindBack = max(x.latest, first.At), max(x.behindBack, first.At)
		}
		if x.summed == len(x.over) {
			return
		}
		work -= x.add(f, x.over[x.summed].Row, false)
		x.summed++
	}
}

// Early reports whether something is left out at an instant of an environment that is not over
// then, where Foresee has admitted. Its caller holds the lock.
func Early(f *Forest, env uint32, now int64) bool {
	e := f.in(env)
	return e != nil && e.expiring.early(now)
}

// Behind reports whether what is over at an instant of an environment is not left out yet where
// Foresee has refused. It takes the lock.
func Behind(f *Forest, env uint32, now int64) bool {
	lock := f.Lock(env)
	lock.RLock()
	defer lock.RUnlock()
	e := f.in(env)
	return e != nil && e.expiring.behind(now)
}

// CatchUp makes queries leave out all that is over at an instant of an environment. However much
// that is, Apply goes on in between. Until the next PUT or move, each item that is over is visited
// once, by whichever query comes first. The caller holds no lock that keeps Apply waiting.
//
// What was over holds again only for a query that is more than backMS earlier. So queries go by the
// newest entry, the same for all, and by a node's clock only where that is further ahead.
func CatchUp(f *Forest, env uint32, now int64) {
	lock := f.Lock(env)
	for Behind(f, env, now) {
		lock.Lock()
		f.in(env).expiring.step(f, now, stepWork)
		lock.Unlock()
	}
}

// Current locks an environment for a query that leaves out all that is over at an instant, which is
// as CatchUp says.
func Current(f *Forest, env uint32, now int64) *sync.RWMutex {
	lock := f.Lock(env)
	for {
		lock.RLock()
		if e := f.in(env); e == nil || !e.expiring.behind(now) {
			return lock
		}
		lock.RUnlock()
		CatchUp(f, env, now)
	}
}
