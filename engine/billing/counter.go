package billing

import (
	"math"

	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// counter counts one feature's usage within a subscription. It is what checks read and what the
// invoice bills.
type counter struct {
	// used belongs to the current period (since the beginning where usage accumulates), next to
	// the period after it: events that occurred past the period's end.
	used, next decimal.Decimal
}

// reading is what limits compare: of a feature that accumulates all units, those ahead of the
// period's end too.
func (n *counter) reading(f *planFeature) decimal.Decimal {
	if f.accumulate {
		return sum(n.used, n.next)
	}
	return n.used
}

// appendCounter appends the bytes that stand for it in a snapshot.
func appendCounter(dst []byte, c *counter) []byte {
	return rows.AppendDecimal(rows.AppendDecimal(dst, c.used), c.next)
}

// readCounter reads what appendCounter wrote.
func readCounter(src []byte, c *counter) ([]byte, error) {
	r := rows.Reader{Rest: src}
	c.used, c.next = r.Decimal(), r.Decimal()
	if !c.used.InRange() || !c.next.InRange() {
		return nil, rows.ErrRecord
	}
	return r.Rest, r.Err
}

// counters are the counters of all subscriptions. Usage of the next period is rare, so a row is
// what is used of the present one; where there is more, the whole counter is a part.
type counters struct {
	rows  *page.Table[counterRow]
	whole *page.Parts[counter]
}

// counterRow is what is used, or, where that is not a number in range, says which part it is.
type counterRow struct{ used decimal.Decimal }

// partMark is the upper half of what stands in a row whose counter is a part: no number in range
// has it.
const partMark = math.MaxInt64

// part is the number of the row's part; 0 where the row has all there is.
func (r *counterRow) part() uint32 {
	if high, low := r.used.Bits(); high == partMark {
		return uint32(low)
	}
	return 0
}

// openCounters makes the tables.
func openCounters(s *page.Store) counters {
	c := counters{whole: page.NewParts[counter]()}
	c.rows = page.NewTable(s, tableCounters, page.Codec[counterRow]{
		Append: func(dst []byte, r *counterRow) []byte {
			n := c.of(r)
			return appendCounter(dst, &n)
		},
		Read: func(src []byte, r *counterRow) ([]byte, error) {
			var n counter
			rest, err := readCounter(src, &n)
			if err == nil {
				c.put(r, &n)
			}
			return rest, err
		},
		Apart: func(r *counterRow) bool { return r.part() != 0 },
	})
	return c
}

func (c *counters) of(r *counterRow) counter {
	if part := r.part(); part != 0 {
		return *c.whole.Read(part)
	}
	return counter{used: r.used}
}

func (c *counters) put(r *counterRow, n *counter) {
	part := r.part()
	if n.next.IsZero() {
		c.whole.Drop(part)
		r.used = n.used
		return
	}
	r.used = decimal.FromBits(partMark, uint64(c.whole.Put(part, *n)))
}

// Len is the number of counters.
func (c *counters) Len() uint32 { return c.rows.Len() }

// Bytes is the memory of all counters.
func (c *counters) Bytes() uint64 { return c.rows.Bytes() + c.whole.Bytes() }

// Read returns a counter. Readers hold the customer's lock.
func (c *counters) Read(row uint32) counter { return c.of(c.rows.Read(row)) }

// Reading is what limits compare of a feature's counter.
func (c *counters) Reading(row uint32, f *planFeature) decimal.Decimal {
	r := c.rows.Read(row)
	if part := r.part(); part != 0 {
		return c.whole.Read(part).reading(f)
	}
	return r.used
}

// Near is the memory that Read begins with, to be read ahead of it.
func (c *counters) Near(row uint32) *decimal.Decimal { return &c.rows.Read(row).used }

// Write stores a counter. For Apply, under the customer's lock.
func (c *counters) Write(row uint32, n *counter) { c.put(c.rows.Write(row), n) }
