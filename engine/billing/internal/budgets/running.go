package budgets

import (
	"slices"

	"tollgate/engine"
	"tollgate/engine/decimal"
)

// part is how much of a limit is used or held.
type part struct {
	node       uint32
	taken, max decimal.Decimal
}

// partOf is a limit's part at an instant, where it holds so much. A limit of 0 is full.
func (l *Limit) partOf(held decimal.Exact, now int64) part {
	if l.Max.Sign() <= 0 {
		return part{l.Node, decimal.FromInt(1), decimal.FromInt(1)}
	}
	taken, ok := l.used(now).Add(held)
	if !ok {
		taken = l.Max.Exact()
	}
	return part{l.Node, rounded(taken), l.Max}
}

// RunningOut finds the limits of which so many percent are used or held at an instant. keys are
// those of the nodes that the fullest of them belong to, so many limits at most; count is how many
// there are. Nodes that are archived, or are below one, have none. The caller holds the lock.
func (f *Forest) RunningOut(env uint32, percent int64, maximum int, now int64) (
	keys []string, count int,
) {
	e := f.in(env)
	if e == nil {
		return nil, 0
	}
	var parts []part
	bound := decimal.FromInt(percent)
	for _, row := range e.nodes {
		for at := f.nodes.Read(row).FirstLimit; at != 0; at = f.limits.Read(at).Next {
			p := f.limits.Read(at).partOf(unexpired(f, at), now)
			if decimal.Product(p.taken, decimal.FromInt(100)).Cmp(decimal.Product(p.max, bound)) >= 0 &&
				f.open(row) == engine.OutcomeDone {
				parts = append(parts, p)
			}
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int {
		return decimal.Product(b.taken, a.max).Cmp(decimal.Product(a.taken, b.max))
	})
	for _, p := range parts[:min(maximum, len(parts))] {
		if key := f.Key(p.node); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys, len(parts)
}
