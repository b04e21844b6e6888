package lifecycle

import (
	"cmp"
	"container/heap"
	"slices"

	"tollgate/engine/decimal"
)

// Projections are a customer's subscriptions at an instant. They come there together, because they
// share the customer's credit: which of them it pays for depends on the order of due instants.
type Projections struct {
	*Projector
	// Due are those that had something due, in the order of their rows.
	Due []*Projection
	// Credit is the customer's credit then, where it changed.
	Credit map[string]decimal.Decimal
	// Whole reports whether all that is due was carried out.
	Whole bool
}

// ProjectionsNow are a customer's subscriptions at the log's time. Queries hold the customer's
// lock.
func (s *Projector) ProjectionsNow(customer uint32) *Projections {
	e := s.Environment(s.Customers.Read(customer).Env)
	return s.Projections(customer, e.Now(s.Log.Stamp()))
}

// Projections opens the projections of a customer's subscriptions that have something due by an
// instant, and brings them there.
func (s *Projector) Projections(customer uint32, now int64) *Projections {
	return s.ProjectionsWithin(customer, now, Everything)
}

// ProjectionsWithin is Projections, but begins no step once so many units of work are done.
func (s *Projector) ProjectionsWithin(customer uint32, now int64, maximum int) *Projections {
	g := &Projections{Projector: s, Credit: map[string]decimal.Decimal{}}
	for row := s.Customers.Read(customer).FirstSubscription; row != 0; {
		b := s.Subscriptions.Read(row)
		if b.Due <= now {
			g.Due = append(g.Due, s.OpenProjection(row))
		}
		row = b.Next
	}
	queue := dueProjections(slices.Clone(g.Due))
	heap.Init(&queue)
	for len(queue) != 0 && maximum > 0 {
		l := queue[0]
		if l.Sub.Due > now {
			heap.Pop(&queue)
			continue
		}
		currency := l.Version().Currency
		if left, ok := g.Credit[currency]; ok {
			l.Credit = left
		}
		maximum -= l.Run(l.Sub.Due, maximum)
		g.Credit[currency] = l.Credit
		heap.Fix(&queue, 0)
	}
	g.Whole = len(queue) == 0
	return g
}

// Of returns the projection of one of the customer's subscriptions.
func (g *Projections) Of(row uint32) (l *Projection) {
	at, due := slices.BinarySearchFunc(g.Due, row, func(l *Projection, row uint32) int {
		return cmp.Compare(l.Row, row)
	})
	if due {
		l = g.Due[at]
	} else {
		l = g.OpenProjection(row)
	}
	if left, ok := g.Credit[l.Version().Currency]; ok {
		l.Credit = left
	}
	return l
}

// ProjectionAt opens a projection and brings it to an instant, together with the customer's others.
func (s *Projector) ProjectionAt(row uint32, now int64) *Projection {
	return s.Projections(s.Subscriptions.Read(row).Customer, now).Of(row)
}

// dueProjections is a heap of projections in the order of (due instant, row).
type dueProjections []*Projection

// Len is for container/heap, as are the other methods.
func (q dueProjections) Len() int { return len(q) }

// Less reports the order.
func (q dueProjections) Less(i, j int) bool {
	a, b := q[i], q[j]
	return a.Sub.Due < b.Sub.Due || a.Sub.Due == b.Sub.Due && a.Row < b.Row
}

// Swap exchanges two.
func (q dueProjections) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push appends one.
func (q *dueProjections) Push(l any) { *q = append(*q, l.(*Projection)) }

// Pop removes the last one.
func (q *dueProjections) Pop() any {
	last := len(*q) - 1
	l := (*q)[last]
	*q = (*q)[:last]
	return l
}
