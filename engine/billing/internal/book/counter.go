package book

import (
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// Counter counts one feature's usage within a subscription. It is what checks read and what the
// invoice bills.
//
//schema:row
type Counter struct {
	// Used belongs to the current period (since the beginning where usage accumulates), next to
	// the period after it: events that occurred past the period's end.
	Used, Next decimal.Decimal
}

// Reading is what limits compare: of a feature that accumulates all units, those ahead of the
// period's end too.
func (n *Counter) Reading(f *catalogs.PlanFeature) decimal.Decimal {
	if f.Accumulate {
		return sums.Of(n.Used, n.Next)
	}
	return n.Used
}

func (n *Counter) fits() bool { return n.Used.InRange() && n.Next.InRange() }

// counters are the counters of all subscriptions. Usage of the next period is rare, and so are
// numbers that are long: a row is what is used of the present period, in 8 bytes, and any other
// counter is a part.
type counters struct {
	Rows  *page.Table[CounterRow]
	Whole *page.Parts[Counter]
}

// CounterRow is what is used, or, where that is not a Short, says which part it is.
type CounterRow struct{ used decimal.Short }

// part is the number of the row's part; 0 where the row has all there is.
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
		Rows:  32, // as many as when they took 16 bytes: a snapshot beside writes is cut by pages
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

// Bytes is the memory of all counters.
func (c *counters) Bytes() uint64 { return c.Rows.Bytes() + c.Whole.Bytes() }

// Read returns a counter. Readers hold the customer's lock.
func (c *counters) Read(row uint32) Counter { return c.of(c.Rows.Read(row)) }

// Reading is what limits compare of a feature's counter.
func (c *counters) Reading(row uint32, f *catalogs.PlanFeature) decimal.Decimal {
	r := c.Rows.Read(row)
	if part := r.part(); part != 0 {
		return c.Whole.Read(part).Reading(f)
	}
	return r.used.Decimal()
}

// Near is the memory that Read begins with, to be read ahead of it.
func (c *counters) Near(row uint32) *decimal.Short { return &c.Rows.Read(row).used }

// Write stores a counter. For Apply, under the customer's lock.
func (c *counters) Write(row uint32, n *Counter) { c.put(c.Rows.Write(row), n) }
