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

// drop takes an item out of those that are over.
func (x *expiring) drop(f *Forest, item uint32, place int) {
	if place < x.summed {
		x.add(f, item, true)
		x.summed--
		x.put(place, x.over[x.summed])
		place = x.summed
	}
	last := len(x.over) - 1
	if place != last {
		x.put(place, x.over[last])
	}
	x.over = x.over[:last]
	if delete(x.places, item); last == 0 {
		x.over, x.places, x.held = nil, nil, nil
	}
}

func (x *expiring) put(place int, item uint32) { x.over[place], x.places[item] = item, place }

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
	return x.due.First().At <= now || x.summed < len(x.over)
}

// stepWork bounds a step of a query, since it keeps Apply waiting. A unit is a limit that is
// visited, some 0.1 µs; an item that is found to be over takes itemWork, too.
const (
	stepWork = 512
	itemWork = 3
)

// step brings held nearer to an instant. It ends with the item that exceeds so much work.
func (x *expiring) step(f *Forest, now int64, work int) {
	for work > 0 {
		work -= itemWork
		if first := x.due.First(); first.At <= now {
			if x.held == nil {
				x.places, x.held = map[uint32]int{}, map[uint32]decimal.Exact{}
			}
			x.place(f, first.Row, rows.Never)
			x.over = append(x.over, first.Row)
			x.places[first.Row] = len(x.over) - 1
		}
		if x.summed == len(x.over) {
			return
		}
		work -= x.add(f, x.over[x.summed], false)
		x.summed++
	}
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
// Nothing is put back for a query of an earlier instant. So the instant is that of the newest
// entry, the same for all queries, and no node's clock.
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
