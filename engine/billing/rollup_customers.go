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
	src rollup.Source, q *UsageQuery, most int,
) (list []CustomerUsage, others int, err error) {
	s := m.state.Load()
	sums := map[uint64]*rollup.Cell{}
	err = src.Sum(rollup.Query{
		Part: journal.PartUsage, Owner: 1, Through: rollup.Environment(0) - 1, Item: q.Feature,
		HasItem: q.HasFeature, From: rollup.HourOf(q.From), To: rollup.HourOf(q.To),
	}, func(c rollup.Cell) error {
		if row := uint32(c.Owner); row > s.Customers.Len() || s.Customers.Read(row).Env != q.Env {
			return nil
		}
		if sums[c.Owner] == nil {
			sums[c.Owner] = &rollup.Cell{Key: c.Key}
		}
		sums[c.Owner].Add(c.Events, c.Units)
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("billing: add up the journal: %w", err)
	}
	ranked := make([]*rollup.Cell, 0, len(sums))
	for _, c := range sums { // any order: they are sorted
		if !c.Empty() {
			ranked = append(ranked, c)
		}
	}
	slices.SortFunc(ranked, func(a, b *rollup.Cell) int {
		if q.HasFeature {
			return cmp.Or(b.Units.Cmp(a.Units), cmp.Compare(a.Owner, b.Owner))
		}
		return cmp.Or(cmp.Compare(b.Events, a.Events), cmp.Compare(a.Owner, b.Owner))
	})
	list = []CustomerUsage{}
	for _, c := range ranked[:min(most, len(ranked))] {
		list = append(list, CustomerUsage{
			Customer: string(s.ExternalID(s.Customers.Read(uint32(c.Owner)))), Events: c.Events,
			Units: bounded(c.Units),
		})
	}
	return list, len(ranked) - len(list), nil
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
	Most   int
}

// DeniedByCustomer ranks the customers of an environment, and the reasons, by checks that were
// denied in a widened query's range, as far as the journal keeps them. It returns so many at most,
// and how many others there are.
func (m *journalReader) DeniedByCustomer(
	src rollup.Source, q *DenialQuery,
) (list []CustomerDenials, others int, err error) {
	type key struct {
		customer uint64
		reason   uint32
	}
	s := m.state.Load()
	sums := map[key]int64{}
	err = src.Sum(rollup.Query{
		Part: journal.PartAudit, Owner: 1, Through: rollup.Environment(0) - 1, Item: uint32(q.Reason),
		HasItem: q.Reason != 0, From: rollup.HourOf(q.From), To: rollup.HourOf(q.To),
	}, func(c rollup.Cell) error {
		if row := uint32(c.Owner); row <= s.Customers.Len() && s.Customers.Read(row).Env == q.Env {
			sums[key{c.Owner, c.Item}] += c.Events
		}
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("billing: add up the journal: %w", err)
	}
	ranked := slices.SortedFunc(maps.Keys(sums), func(a, b key) int {
		return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a.customer, b.customer),
			cmp.Compare(a.reason, b.reason))
	})
	list = []CustomerDenials{}
	for _, k := range ranked[:min(q.Most, len(ranked))] {
		list = append(list, CustomerDenials{
			Customer: string(s.ExternalID(s.Customers.Read(uint32(k.customer)))),
			Reason:   Reason(k.reason).String(), Checks: sums[k],
		})
	}
	return list, len(ranked) - len(list), nil
}
