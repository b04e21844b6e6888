package billing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/rollup"
)

// CustomerUsage is what a customer has used.
//
//schema:answer admin CustomerUsage
type CustomerUsage struct {
	Customer string          `json:"customerReferenceId" rule:"min=1,max=128"`
	Events   int64           `json:"events"`
	Units    decimal.Decimal `json:"usageUnits"`
}

// UsageByCustomer ranks the customers of an environment by what they used in a widened query's
// range: of its feature by units, of all features, whose units do not add up, by events. It returns
// so many at most, and how many others there are.
func (m *journalReader) UsageByCustomer(
	src rollup.Source, q *UsageQuery, maximum int,
) (list []CustomerUsage, others int, err error) {
	s := m.state.Load()
	sums, err := m.customerSums(src, &rollup.Query{
		Part: journal.PartUsage, Item: q.Feature, HasItem: q.HasFeature,
		From: rollup.HourOf(q.From), To: rollup.HourOf(q.To),
	}, s, q.Env, false)
	if err != nil {
		return nil, 0, err
	}
	ranked, others := rank(maximum, sums, func(a, b *rollup.Cell) int {
		if q.HasFeature {
			return cmp.Or(b.Units.Cmp(a.Units), cmp.Compare(a.Owner, b.Owner))
		}
		return cmp.Or(cmp.Compare(b.Events, a.Events), cmp.Compare(a.Owner, b.Owner))
	})
	list = []CustomerUsage{}
	for _, c := range ranked {
		list = append(list, CustomerUsage{
			Customer: string(s.ExternalID(s.Customers.Read(uint32(c.Owner)))), Events: c.Events,
			Units: bounded(c.Units),
		})
	}
	return list, others, nil
}

// CustomerDenials counts the checks that were denied to a customer for a reason.
//
//schema:answer admin CustomerDenials
type CustomerDenials struct {
	Customer string `json:"customerReferenceId" rule:"min=1,max=128"`
	Reason   string `json:"reason"`
	Checks   int64  `json:"checks"`
}

// DenialQuery asks which customers were denied checks most.
type DenialQuery struct {
	UsageQuery
	// Reason, if it is not 0, is the only one that counts.
	Reason Reason
	Max    int
}

// DeniedByCustomer ranks the customers of an environment, and the reasons, by checks that were
// denied in a widened query's range, as far as the journal keeps them. It returns so many at most,
// and how many others there are.
func (m *journalReader) DeniedByCustomer(
	src rollup.Source, q *DenialQuery,
) (list []CustomerDenials, others int, err error) {
	s := m.state.Load()
	sums, err := m.customerSums(src, &rollup.Query{
		Part: journal.PartAudit, Item: uint32(q.Reason), HasItem: q.Reason != 0,
		From: rollup.HourOf(q.From), To: rollup.HourOf(q.To),
	}, s, q.Env, true)
	if err != nil {
		return nil, 0, err
	}
	ranked, others := rank(q.Max, sums, func(a, b *rollup.Cell) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), a.Compare(b.Key))
	})
	list = []CustomerDenials{}
	for _, c := range ranked {
		list = append(list, CustomerDenials{
			Customer: string(s.ExternalID(s.Customers.Read(uint32(c.Owner)))),
			Reason:   Reason(c.Item).String(), Checks: c.Events,
		})
	}
	return list, others, nil
}

// cellRows has a cell for each row of a table, in pages that are made when one is needed: a map of
// a million customers takes ten times as long. Pages are short, for an environment's customers may
// lie far apart.
type cellRows []*[rowsOfPage]rollup.Cell

const rowsOfPage = 16

// at is the cell of a row, of at most the length that the rows were made for.
func (r cellRows) at(row uint32) *rollup.Cell {
	page := &r[row/rowsOfPage]
	if *page == nil {
		*page = new([rowsOfPage]rollup.Cell)
	}
	return &(*page)[row%rowsOfPage]
}

// customerSums adds up what a query, whose owners it sets, finds of an environment's customers: all
// items together, or, apart, by item.
func (m *journalReader) customerSums(
	src rollup.Source, q *rollup.Query, s *state, env uint32, apart bool,
) (map[uint32]cellRows, error) {
	q.Owner, q.Through = 1, rollup.Environment(0)-1
	sums, rows := map[uint32]cellRows{}, s.Customers.Len()
	var last struct { // most cells follow one of the same customer and item
		owner uint64
		item  uint32
		cell  *rollup.Cell // nil: of another environment
	}
	err := src.Sum(*q, func(c rollup.Cell) error {
		item := c.Item
		if !apart {
			item = 0
		}
		if c.Owner != last.owner || item != last.item {
			last.owner, last.item, last.cell = c.Owner, item, nil
			if row := uint32(c.Owner); row <= rows && s.Customers.Read(row).Env == env {
				if sums[item] == nil {
					sums[item] = make(cellRows, rows/rowsOfPage+1)
				}
				last.cell = sums[item].at(row)
				last.cell.Key = rollup.Key{Owner: c.Owner, Item: item}
			}
		}
		if last.cell != nil {
			last.cell.Add(c.Events, c.Units)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("billing: add up the journal: %w", err)
	}
	return sums, nil
}

// rank returns the first cells in an order, so many at most, and how many others there are that are
// not empty.
func rank(
	maximum int, sums map[uint32]cellRows, order func(a, b *rollup.Cell) int,
) (first []*rollup.Cell, others int) {
	kept := foremost[*rollup.Cell]{most: maximum, order: order}
	for _, item := range slices.Sorted(maps.Keys(sums)) {
		for _, page := range sums[item] {
			if page == nil {
				continue
			}
			for i := range page {
				if c := &page[i]; !c.Empty() {
					kept.add(c)
				}
			}
		}
	}
	first = kept.sorted()
	return first, kept.added - len(first)
}

// foremost keeps the first of many in an order, so many at most.
type foremost[T any] struct {
	most  int
	order func(a, b T) int
	added int
	// list has the first in front, in order, once it was full, and then those that came before the
	// last of them.
	list []T
	full bool
}

func (f *foremost[T]) add(v T) {
	f.added++
	if f.full && f.order(f.list[f.most-1], v) <= 0 {
		return
	}
	if f.list = append(f.list, v); len(f.list) == 2*f.most {
		slices.SortFunc(f.list, f.order)
		f.list, f.full = f.list[:f.most], true
	}
}

// sorted returns the first ones.
func (f *foremost[T]) sorted() []T {
	slices.SortFunc(f.list, f.order)
	return f.list[:min(f.most, len(f.list))]
}
