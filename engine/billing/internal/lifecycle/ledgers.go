package lifecycle

import (
	"cmp"
	"container/heap"
	"slices"

	"tollgate/engine/decimal"
)

// Ledgers are a customer's subscriptions at an instant. They come there together, because they
// share the customer's credit: which of them it pays for depends on the order of due instants.
type Ledgers struct {
	*Projector
	// Due are those that had something due, in the order of their rows.
	Due []*Ledger
	// Credit is the customer's credit then, where it changed.
	Credit map[string]decimal.Decimal
	// Whole reports whether all that is due was carried out.
	Whole bool
}

// LedgersNow are a customer's subscriptions at the log's time. Queries hold the customer's lock.
func (s *Projector) LedgersNow(customer uint32) *Ledgers {
	e := s.Environment(s.Customers.Read(customer).Env)
	return s.Ledgers(customer, e.Now(s.Log.Stamp()))
}

// Ledgers opens the ledgers of a customer's subscriptions that have something due by an instant,
// and brings them there.
func (s *Projector) Ledgers(customer uint32, now int64) *Ledgers {
	return s.LedgersWithin(customer, now, Everything)
}

// LedgersWithin is Ledgers, but begins no step once so many units of work are done.
func (s *Projector) LedgersWithin(customer uint32, now int64, most int) *Ledgers {
	g := &Ledgers{Projector: s, Credit: map[string]decimal.Decimal{}}
	for row := s.Customers.Read(customer).FirstSubscription; row != 0; {
		b := s.Subscriptions.Read(row)
		if b.Due <= now {
			g.Due = append(g.Due, s.OpenLedger(row))
		}
		row = b.Next
	}
	queue := dueLedgers(slices.Clone(g.Due))
	heap.Init(&queue)
	for len(queue) != 0 && most > 0 {
		l := queue[0]
		if l.Sub.Due > now {
			heap.Pop(&queue)
			continue
		}
		currency := l.Version().Currency
		if left, ok := g.Credit[currency]; ok {
			l.Credit = left
		}
		most -= l.Run(l.Sub.Due, most)
		g.Credit[currency] = l.Credit
		heap.Fix(&queue, 0)
	}
	g.Whole = len(queue) == 0
	return g
}

// Of returns the ledger of one of the customer's subscriptions.
func (g *Ledgers) Of(row uint32) (l *Ledger) {
	at, due := slices.BinarySearchFunc(g.Due, row, func(l *Ledger, row uint32) int {
		return cmp.Compare(l.Row, row)
	})
	if due {
		l = g.Due[at]
	} else {
		l = g.OpenLedger(row)
	}
	if left, ok := g.Credit[l.Version().Currency]; ok {
		l.Credit = left
	}
	return l
}

// LedgerAt opens a ledger and brings it to an instant, together with the customer's others.
func (s *Projector) LedgerAt(row uint32, now int64) *Ledger {
	return s.Ledgers(s.Subscriptions.Read(row).Customer, now).Of(row)
}

// dueLedgers is a heap of ledgers in the order of (due instant, row).
type dueLedgers []*Ledger

// Len is for container/heap, as are the other methods.
func (q dueLedgers) Len() int { return len(q) }

// Less reports the order.
func (q dueLedgers) Less(i, j int) bool {
	a, b := q[i], q[j]
	return a.Sub.Due < b.Sub.Due || a.Sub.Due == b.Sub.Due && a.Row < b.Row
}

// Swap exchanges two.
func (q dueLedgers) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push appends one.
func (q *dueLedgers) Push(l any) { *q = append(*q, l.(*Ledger)) }

// Pop removes the last one.
func (q *dueLedgers) Pop() any {
	last := len(*q) - 1
	l := (*q)[last]
	*q = (*q)[:last]
	return l
}
