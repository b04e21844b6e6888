package budgets

import (
	"encoding/binary"
	"math"
	"math/bits"

	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// climb is what a node and all above it take of the prices of one currency, with the least room of
// their limits, so that the events of siblings ask them together. It only ever admits what each of
// these limits plainly admits, and is no state: with or without it, the same counts in the same
// order. Limits with thresholds, of one feature, or of something else than price have none.
type climb struct {
	node     uint32
	currency [3]byte
	changes  uint64 // climbs.changes when it was begun
	// ready is set once it is made, never where it cannot be.
	ready, never bool
	// room is up to where climbs.spent may grow, end when the first of the windows ends.
	room  [2]uint64
	end   int64
	rows  []uint32 // the limits
	names []byte   // as Counted.Limits has them
}

const keptClimbs = 64

// climbs are those of nodes that were asked of late. They are Apply's.
type climbs struct {
	kept [keptClimbs]climb
	// changes counts what was written to nodes and limits, other than counted by Charge: each makes
	// all climbs anew. spent, in words as decimal.Exact has them, is no less than what Charge has
	// added to any one limit since.
	changes uint64
	spent   [2]uint64
	// asked is the one that has admitted the charge that Apply is at; nil: none has.
	asked *climb
}

// rested is a table that climbs rest on.
type rested[T any] struct {
	*page.Table[T]
	climbs *climbs
}

// Write is that of the table, and makes all climbs anew.
func (x rested[T]) Write(row uint32) *T {
	x.climbs.changed()
	return x.Table.Write(row)
}

func (x *climbs) changed() { x.changes, x.spent = x.changes+1, [2]uint64{} }

// small returns an amount that is not below zero, nor above some 10¹⁴, in two words.
func small(x *decimal.Exact) (words [2]uint64, ok bool) {
	w := x.Words()
	return [2]uint64{w[0], w[1]}, w[3]|w[2] == 0 && w[1]>>62 == 0
}

func plus(x, y [2]uint64) [2]uint64 {
	low, carry := bits.Add64(x[0], y[0], 0)
	return [2]uint64{low, x[1] + y[1] + carry}
}

func exceeds(x, y [2]uint64) bool { return x[1] > y[1] || x[1] == y[1] && x[0] > y[0] }

// spend notes that a limit has counted so much.
func (x *climbs) spend(amount *decimal.Exact) {
	if words, ok := small(amount); ok && x.spent[1]>>62 == 0 {
		x.spent = plus(x.spent, words)
	} else if amount.Sign() > 0 {
		x.changed()
	}
}

// admits reports whether a node and all above it admit a charge by their climb. One is made where a
// node is asked for the second time since the last change.
func (x *climbs) admits(f *Forest, node uint32, c *Charge, now int64) bool {
	x.asked = nil
	k := &x.kept[node%keptClimbs]
	if k.node != node || k.changes != x.changes || k.currency != c.Currency {
		k.node, k.changes, k.currency, k.ready, k.never = node, x.changes, c.Currency, false, false
		return false
	}
	amount, ok := small(&c.Price)
	if !ok || k.never {
		return false
	}
	if !k.admits(x, amount, now) && !(k.fill(f, c, now) && k.admits(x, amount, now)) {
		return false
	}
	x.asked = k
	return true
}

func (k *climb) admits(x *climbs, amount [2]uint64, now int64) bool {
	return k.ready && now < k.end && !exceeds(plus(x.spent, amount), k.room)
}

// fill makes the climb; false: some limit is to be asked by itself.
func (k *climb) fill(f *Forest, c *Charge, now int64) bool {
	k.rows, k.names, k.end, k.ready = k.rows[:0], k.names[:0], math.MaxInt64, false
	k.room = [2]uint64{math.MaxUint64, math.MaxUint64}
	for at := k.node; at != 0; at = f.nodes.Read(at).Parent {
		if n := f.nodes.Read(at); n.Archived || n.Frozen {
			k.never = true
			return false
		}
		for row := f.nodes.Read(at).FirstLimit; row != 0; row = f.limits.Read(row).Next {
			l := f.limits.Read(row)
			if k.never = !l.takesPrice(c) || l.Thresholds[0] != 0; k.never || now >= l.End {
				return false
			}
			_, used := small(&l.Used)
			_, held := small(&l.Held)
			if !used || !held {
				return false
			}
			left, _ := l.Max.Exact().Sub(l.Used)
			left, _ = left.Sub(l.Held)
			room, ok := small(&left)
			switch {
			case left.Sign() < 0 && !l.Soft:
				return false
			case !ok || l.Soft: // no sum of small ones leaves the range of numbers
				room = [2]uint64{0, 1 << 62}
			}
			if room = plus(room, f.climbs.spent); exceeds(k.room, room) {
				k.room = room
			}
			k.end = min(k.end, l.End)
			k.rows = append(k.rows, row)
			k.names = binary.AppendUvarint(k.names, uint64(row))
			k.names = binary.AppendUvarint(k.names, l.Born)
		}
	}
	k.ready = true
	return true
}
