package budgets

import (
	"math/bits"

	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// climb is what a node and all above it take of the prices of one currency, with the least room of
// their limits, so that the events of siblings ask them together. It only ever admits what each of
// these limits plainly admits, and is not a part of the state: with or without it, the same counts
// in the same order. Limits with thresholds, of one feature, or of something else than price have
// none.
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

func (k *climb) admits(x *climbs, amount [2]uint64, now int64) bool {
	return k.ready && now < k.end && !exceeds(plus(x.spent, amount), k.room)
}
