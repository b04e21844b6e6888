package budgets

import "tollgate/engine/decimal"

// Binding is the hard limit that leaves the smallest part of itself, as the answer to a reservation
// names it.
//
//schema:straight
type Binding struct {
	// Node is whose limit it is; 0: there is none.
	Node   uint32  `wire:"1"`
	Of     Measure `wire:"2"`
	Window Window  `wire:"3"`
	// Feature is the number of the feature whose usage the limit counts; 0: of all.
	Feature  uint32 `wire:"4"`
	Currency string `wire:"5"` // of a price
	// Limit is the limit, Remaining what it leaves, rounded to 12 decimals and never below zero.
	Limit     decimal.Decimal `wire:"6"`
	Remaining decimal.Decimal `wire:"7"`
}

// Append appends the encoding.
func (b *Binding) Append(dst []byte) []byte { return b.append(dst) }

// Bind finds which hard limit of a node, or of one above it, binds charges that are about to be
// held there: of those that count anything of them, the one that has the smallest part left then,
// the nearest first. bound has a bit for each charge, by its place, of which a hard limit counts
// anything. It is for commands, which have let holds expire that are over.
func Bind(f *Forest, node uint32, charges []Charge, now int64) (b Binding, bound uint8) {
	var best *Limit
	for at := node; at != 0; at = f.nodes.Read(at).Parent {
		for row := f.nodes.Read(at).FirstLimit; row != 0; {
			l := f.limits.Read(row)
			row = l.Next
			if l.Soft {
				continue
			}
			held, takes := l.Held, false
			for i := range charges {
				if amount, ok := l.takes(&charges[i]); ok && amount.Sign() > 0 {
					held.Increase(&amount)
					takes, bound = true, bound|1<<i
				}
			}
			if !takes {
				continue
			}
			if left := l.left(held, now); best == nil || tighter(left, l.Max, b.Remaining, best.Max) {
				best, b.Remaining = l, left
			}
		}
	}
	if best == nil {
		return b, bound
	}
	b.Node, b.Of, b.Window, b.Feature = best.Node, best.Of, best.Window, best.Feature
	b.Limit = best.Max
	if best.Of == MeasurePrice {
		b.Currency = currencyText(best.Currency)
	}
	return b, bound
}

// left is what a limit leaves with so much held, rounded to 12 decimals and never below zero.
func (l *Limit) left(held decimal.Exact, now int64) (left decimal.Decimal) {
	exact, ok := l.Max.Exact().Sub(l.used(now))
	if ok {
		exact, ok = exact.Sub(held)
	}
	if ok && exact.Sign() > 0 {
		left = rounded(exact)
	}
	return left
}

// tighter reports whether a limit that leaves so much has a smaller part left than another.
func tighter(left, limit, otherLeft, otherLimit decimal.Decimal) bool {
	return decimal.Product(left, otherLimit).Cmp(decimal.Product(otherLeft, limit)) < 0
}
