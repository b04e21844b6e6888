package budgets

import (
	"cmp"
	"encoding/binary"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/decimal"
	"tollgate/engine/prefetch"
)

const (
	// A frozen or archived node refuses all charges. If it has limits, the code of its first one is
	// refusing; if it has none, shut stands in place of a limit.
	shut     = ^uint32(0)
	refusing = 1
	// roomy is a room that nothing bounds: sums of two such numbers do not overflow.
	roomy = 1 << 62
)

// code is a number for a currency, never 0.
func code(c [3]byte) uint32 {
	return 1<<24 | uint32(c[0])<<16 | uint32(c[1])<<8 | uint32(c[2])
}

// short is what a charge is for shortcuts: its currency's code, 0 where no limit may take one, and
// its price truncated to units of 2⁶⁴.
func (c *Charge) short() (currency uint32, price uint64) {
	price, ok := c.Price.Above()
	if !ok || price >= roomy {
		return 0, 0
	}
	return code(c.Currency), price
}

// plain reports whether a charge plainly fits, with nothing to decide.
func (l *Limit) plain(currency uint32, price uint64, now int64) bool {
	_, used := l.Used.Low()
	return l.code == currency && now < l.End && used+price < l.room
}

// shorten sets what follows from the limit itself, in a row.
func (l *Limit) shorten(row uint32) {
	if l.code = 0; l.Of == MeasurePrice && l.Feature == 0 {
		l.code = code(l.Currency)
	}
	var text [2 * binary.MaxVarintLen64]byte
	l.text = briefOf(binary.AppendUvarint(binary.AppendUvarint(text[:0], uint64(row)), l.Born))
	l.measure()
}

// measure sets the room.
func (l *Limit) measure() {
	l.room = 0
	if used, ok := l.Used.Above(); !l.Touched || !ok || used >= roomy || l.code <= refusing {
		return
	}
	room := uint64(roomy)
	if !l.Soft {
		left, _ := l.Max.Exact().Sub(l.Held)
		room = least(room, &left)
	}
	for _, threshold := range l.Thresholds {
		if threshold == 0 {
			break
		}
		// Nothing used has reached nothing, also where the limit is 0.
		at := decimal.Product(l.Max, percents(threshold))
		if l.Used.Sign() == 0 || l.Used.Cmp(at) < 0 {
			room = least(room, &at)
			break
		}
	}
	l.room = max(room, 1) - 1 // each of the two sums loses less than one unit by truncation
}

// least is the less of a room and an amount, which is cut.
func least(room uint64, x *decimal.Exact) uint64 {
	if x.Sign() < 0 {
		return 0
	}
	if cut, ok := x.Above(); ok {
		room = min(room, cut)
	}
	return room
}

// take takes from the room what is held more. What is held less is not given back: the next event
// that finds none measures anew.
func (l *Limit) take(held *decimal.Exact) {
	if held.Sign() < 0 {
		return
	}
	if more, ok := held.Above(); ok && more < l.room {
		l.room -= more + 1
	} else {
		l.room = 0
	}
}

// leads is where a node leads: see Forest.first.
func leads(f *Forest, node uint32) uint32 {
	for node != 0 {
		n := f.nodes.Read(node)
		switch {
		case n.FirstLimit != 0:
			return n.FirstLimit
		case n.Frozen || n.Archived:
			return shut
		}
		node = n.Parent
	}
	return 0
}

// Prefetch asks for the first limit of a customer's own budget, shortly before an event is to count
// in it: what is prefetched for a whole batch has left the first cache by then.
func Prefetch(f *Forest, customer uint32) {
	if row := f.first.At(f.owned.At(customer)); row != 0 && row != shut {
		prefetch.Lines([]prefetch.Address{prefetch.Of(f.limits.Read(row))})
	}
}

// link makes a node and its limits lead on: the tree has changed there or above. It returns how
// many limits it has visited.
func link(f *Forest, node uint32) (visited int) {
	n := f.nodes.Read(node)
	f.first.Set(node, leads(f, node))
	above, refuses := leads(f, n.Parent), n.Frozen || n.Archived
	for row := n.FirstLimit; row != 0; visited++ {
		l := f.limits.Read(row)
		to := cmp.Or(l.Next, above)
		if l.above != to || (l.code == refusing) != refuses { // a write may copy a page for a snapshot
			l = f.limits.Write(row)
			l.above = to
			if l.shorten(row); refuses {
				l.code = refusing
			}
		}
		row, refuses = l.Next, false
	}
	return visited
}

// relink makes a node that has changed lead on, and every node below it that has only nodes without
// limits, neither frozen nor archived, in between.
func relink(f *Forest, t *accounts.Tx, node uint32) {
	before := f.first.At(node)
	visited := link(f, node)
	if n := f.nodes.Read(node); n.Children > 0 && f.first.At(node) != before {
		for _, at := range f.in(n.Env).nodes {
			up := f.nodes.Read(at).Parent
			for visited++; up != 0 && up != node; visited++ {
				if over := f.nodes.Read(up); over.FirstLimit == 0 && !over.Frozen && !over.Archived {
					up = over.Parent
					continue
				}
				break
			}
			if up == node {
				visited += link(f, at)
			}
		}
	}
	t.Spend(visited / limitsPerUnit)
}
