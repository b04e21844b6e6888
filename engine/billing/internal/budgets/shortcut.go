package budgets

import (
	"encoding/binary"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/decimal"
)

const (
	// shut stands for a node that is frozen or archived, in place of the limits from there on.
	shut = ^uint32(0)
	// roomy is a room that nothing bounds: sums of two such numbers do not overflow.
	roomy = 1 << 62
)

// code is a number for a currency, never 0.
func code(c [3]byte) uint32 {
	return 1<<24 | uint32(c[0])<<16 | uint32(c[1])<<8 | uint32(c[2])
}

// short is what a charge is for shortcuts: its currency's code, 0 where no limit may take one, and
// its price cut to units of 2⁶⁴.
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
	var text [2*binary.MaxVarintLen64 + 1]byte
	n := binary.PutUvarint(text[:], uint64(row))
	n += binary.PutUvarint(text[n:], l.Born)
	if l.text = 0; n < 8 {
		l.text = binary.LittleEndian.Uint64(text[:]) | uint64(n)<<56
	}
	l.measure()
}

// measure sets the room.
func (l *Limit) measure() {
	l.room = 0
	if used, ok := l.Used.Above(); !l.Touched || !ok || used >= roomy || l.code == 0 {
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
	l.room = max(room, 1) - 1 // what two numbers lose that are cut is less than 2
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

// leads is the first limit at a node or above it.
func leads(f *Forest, node uint32) uint32 {
	for node != 0 {
		n := f.nodes.Read(node)
		if n.Frozen || n.Archived {
			return shut
		}
		if n.FirstLimit != 0 {
			return n.FirstLimit
		}
		node = n.Parent
	}
	return 0
}

// link makes a node and its limits lead on: the tree has changed there or above.
func link(f *Forest, node uint32) {
	n := f.nodes.Read(node)
	f.first.Set(node, leads(f, node))
	above := leads(f, n.Parent)
	for row := n.FirstLimit; row != 0; {
		next := f.limits.Read(row).Next
		to := next
		if next == 0 {
			to = above
		}
		if f.limits.Read(row).above != to { // few have changed, and a snapshot copies what is written
			f.limits.Write(row).above = to
		}
		row = next
	}
}

// relink makes a node that has changed, and all below it, lead on.
func relink(f *Forest, t *accounts.Tx, node uint32) {
	link(f, node)
	if n := f.nodes.Read(node); n.Children > 0 {
		nodes := f.in(n.Env).nodes
		linked := 0
		for _, at := range nodes {
			if at != node && f.Within(at, node) {
				link(f, at)
				linked++
			}
		}
		t.Spend((len(nodes) + linked) / limitsPerUnit)
	}
}
