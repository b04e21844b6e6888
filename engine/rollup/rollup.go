// Package rollup has the counts by hour that a journal adds up to, and their bytes in blocks. See
// DESIGN.md.
package rollup

import (
	"cmp"
	"errors"
	"math/bits"
	"slices"

	"tollgate/engine/decimal"
	"tollgate/engine/journal"
)

// ErrCounting means that a node has not counted all that its journal has: ask again.
var ErrCounting = errors.New("rollup: the usage index is still being built here")

// HourMS is an hour in milliseconds.
const HourMS = 3_600_000

// Key names what is counted: for whom, what, and in which hour.
type Key struct {
	// Owner is a customer's row, or Environment of an environment's number.
	Owner uint64
	// Item is what the owner's events are told apart by: a feature's number, a reason.
	Item uint32
	// Hour counts from 1970 UTC.
	Hour int32
}

// Environment is the owner that an environment's totals have.
func Environment(number uint32) uint64 { return 1<<32 | uint64(number) }

// HourOf is the hour of an instant in milliseconds since 1970 UTC.
func HourOf(at int64) int32 {
	hour := at / HourMS
	if at%HourMS < 0 {
		hour--
	}
	return int32(hour)
}

// Compare orders keys by owner, item and hour.
func (k Key) Compare(other Key) int {
	if k.Owner != other.Owner { // nearly always; cmp.Or would compare all three
		return cmp.Compare(k.Owner, other.Owner)
	}
	return cmp.Or(cmp.Compare(k.Item, other.Item), cmp.Compare(k.Hour, other.Hour))
}

// Cell is what was counted under a key. Units are added modulo 2¹²⁸, so that sums do not depend on
// their order; InRange tells those that are meant.
type Cell struct {
	Key
	Events int64
	Units  decimal.Decimal
}

// Add counts events and units on.
func (c *Cell) Add(events int64, units decimal.Decimal) {
	c.Events += events
	high, low := c.Units.Bits()
	moreHigh, moreLow := units.Bits()
	low, carry := bits.Add64(low, moreLow, 0)
	c.Units = decimal.FromBits(high+moreHigh+int64(carry), low)
}

// Empty reports whether nothing is left of what was counted.
func (c *Cell) Empty() bool { return c.Events == 0 && c.Units.IsZero() }

// Counter says what a record counts: add is called once for each cell that it adds to. It must
// depend on the record alone, and may ignore a record that it does not know.
type Counter func(r journal.Record, add func(Cell))

// Versions names what a Counter counts of each part of a journal.
type Versions [2]uint32

// Query asks for an owner's cells in the hours From ≤ hour < To, or for those of all owners from
// Owner to Through.
type Query struct {
	Part     journal.Part
	Owner    uint64
	Through  uint64 // 0: Owner alone
	Item     uint32 // where HasItem is set; otherwise all
	HasItem  bool
	From, To int32
}

// Last is the last owner that is asked for.
func (q *Query) Last() uint64 { return max(q.Owner, q.Through) }

// Has reports whether a key is asked for.
func (q *Query) Has(k Key) bool {
	return q.Owner <= k.Owner && k.Owner <= q.Last() &&
		(!q.HasItem || k.Item == q.Item) && q.From <= k.Hour && k.Hour < q.To
}

// Source adds a journal up.
type Source interface {
	// Sum yields cells that add up to what all records of the journal count, in any order and any
	// number of each key. An error of yield ends it, and is returned.
	Sum(q Query, yield func(Cell) error) error
}

// Tally collects cells. The zero value is empty.
type Tally struct {
	cells []Cell // each key once
	// places has the number of a key's cell, from 1 on, in the first free place from the one that its
	// hash names. It is a power of two long, and at most half full.
	places []uint32
}

// leastPlaces is how many places a tally has at first.
const leastPlaces = 16

// Add counts a cell.
func (t *Tally) Add(c Cell) {
	if 2*len(t.cells) >= len(t.places) {
		t.grow()
	}
	at := t.place(&c.Key)
	if n := t.places[at]; n != 0 {
		t.cells[n-1].Add(c.Events, c.Units)
		return
	}
	t.cells = append(t.cells, c)
	t.places[at] = uint32(len(t.cells))
}

// place is where a key stands, or the free place where it belongs.
func (t *Tally) place(k *Key) int {
	last := uint64(len(t.places) - 1)
	at := (k.Owner*0x9e3779b97f4a7c15 ^ uint64(k.Item)*0xff51afd7ed558ccd ^
		uint64(k.Hour)*0xc2b2ae3d27d4eb4f) >> bits.LeadingZeros64(last)
	for n := t.places[at]; n != 0 && t.cells[n-1].Key != *k; n = t.places[at] {
		at = (at + 1) & last
	}
	return int(at)
}

// grow makes room for twice as many keys.
func (t *Tally) grow() {
	t.places = make([]uint32, max(leastPlaces, 2*len(t.places)))
	t.cells = slices.Grow(t.cells, len(t.places)/2-len(t.cells))
	for i := range t.cells {
		t.places[t.place(&t.cells[i].Key)] = uint32(i + 1)
	}
}

// Cells are what was counted, sorted, each key once, without those of which nothing is left. The
// tally is empty afterwards.
func (t *Tally) Cells() []Cell {
	cells := sorted(t.cells)
	*t = Tally{}
	return slices.DeleteFunc(cells, func(c Cell) bool { return c.Empty() })
}

// sorted are cells in the order of their keys. It sorts their places, from the last byte of a key
// to its first, and skips bytes that all keys share. Comparing cells, which are moved on the way,
// takes three times as long.
func sorted(cells []Cell) []Cell {
	type place struct {
		words [2]uint64 // of the key, the least first
		at    uint32
	}
	places, moved := make([]place, len(cells)), make([]place, len(cells))
	var differ [2]uint64
	for i := range cells {
		k := &cells[i].Key
		p := &places[i]
		*p = place{[2]uint64{uint64(k.Item)<<32 | uint64(uint32(k.Hour)^1<<31), k.Owner}, uint32(i)}
		differ[0] |= p.words[0] ^ places[0].words[0]
		differ[1] |= p.words[1] ^ places[0].words[1]
	}
	for digit := range 16 {
		word, shift := digit/8, digit%8*8
		if differ[word]>>shift&0xff == 0 {
			continue
		}
		var next [256]int // where the next key with a byte goes
		for i := range places {
			next[places[i].words[word]>>shift&0xff]++
		}
		for b, sum := 0, 0; b < len(next); b++ {
			next[b], sum = sum, sum+next[b]
		}
		for i := range places {
			to := &next[places[i].words[word]>>shift&0xff]
			moved[*to] = places[i]
			*to++
		}
		places, moved = moved, places
	}
	inOrder := make([]Cell, len(cells))
	for i := range places {
		inOrder[i] = cells[places[i].at]
	}
	return inOrder
}
