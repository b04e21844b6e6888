package book

import (
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// Counter counts one feature's usage within a subscription. Checks read it and invoices bill it.
//
//schema:row
type Counter struct {
	// Used belongs to the current period (to all time if usage accumulates), Next to the period
	// after it: events that occurred after the period's end.
	Used, Next decimal.Decimal
}

// Reading returns what limits compare: for an accumulating feature all units, including those after
// the period's end.
func (n *Counter) Reading(f *catalogs.PlanFeature) decimal.Decimal {
	if f.Accumulate {
		return sums.Of(n.Used, n.Next)
	}
	return n.Used
}

func (n *Counter) fits() bool { return n.Used.InRange() && n.Next.InRange() }

// counters are the counters of all subscriptions. Usage of the next period and long numbers are
// rare. So a row is the usage of the present period, in 8 bytes, and any other counter is a part.
type counters struct {
	Rows  *page.Table[CounterRow]
	Whole *page.Parts[Counter]
}

// CounterRow is the usage, or, if it is not a Short, the number of its part.
type CounterRow struct{ used decimal.Short }

// part returns the number of the row's part; 0 if there is none.
func (r *CounterRow) part() uint32 {
	if r.used&decimal.NoShort == decimal.NoShort {
		return uint32(r.used >> 32)
	}
	return 0
}

// OpenCounters makes the tables.
func OpenCounters(s *page.Store) counters {
	c := counters{Whole: page.NewParts[Counter]()}
	c.Rows = page.NewTable(s, accounts.TableCounters, page.Codec[CounterRow]{
		Append: func(dst []byte, r *CounterRow) []byte {
			n := c.of(r)
			return appendCounter(dst, &n)
		},
		Read: func(src []byte, r *CounterRow) ([]byte, error) {
			var n Counter
			rest, err := readCounter(src, &n)
			if err == nil {
				c.put(r, &n)
			}
			return rest, err
		},
		Apart: func(r *CounterRow) bool { return r.part() != 0 },
		Rows:  32, // as many as with 16-byte rows: snapshots copy pages
	})
	return c
}

func (c *counters) of(r *CounterRow) Counter {
	if part := r.part(); part != 0 {
		return *c.Whole.Read(part)
	}
	return Counter{Used: r.used.Decimal()}
}

func (c *counters) put(r *CounterRow, n *Counter) {
	part := r.part()
	if used, ok := n.Used.Short(); ok && n.Next.IsZero() {
		c.Whole.Drop(part)
		r.used = used
		return
	}
	r.used = decimal.Short(c.Whole.Put(part, *n))<<32 | decimal.NoShort
}

// Len is the number of counters.
func (c *counters) Len() uint32 { return c.Rows.Len() }

// Bytes returns the memory of all counters.
func (c *counters) Bytes() uint64 { return c.Rows.Bytes() + c.Whole.Bytes() }

// Read returns a counter. Readers hold the customer's lock.
func (c *counters) Read(row uint32) Counter { return c.of(c.Rows.Read(row)) }

// Reading returns what limits compare of a feature's counter.
func (c *counters) Reading(row uint32, f *catalogs.PlanFeature) decimal.Decimal {
	r := c.Rows.Read(row)
	if part := r.part(); part != 0 {
		return c.Whole.Read(part).Reading(f)
	}
	return r.used.Decimal()
}

// Near returns the memory that Read begins with, for prefetching.
func (c *counters) Near(row uint32) *decimal.Short { return &c.Rows.Read(row).used }

// Write stores a counter. For Apply, under the customer's lock.
func (c *counters) Write(row uint32, n *Counter) { c.put(c.Rows.Write(row), n) }
