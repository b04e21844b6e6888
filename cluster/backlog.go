package cluster

import "tollgate/engine/fair"

// backlogs holds the flows with so much waiting that each travels in its own batches: a call that
// shared a batch with such a flow would wait for its answer, too. fair.Share limits a flow's
// batches in flight, so that it leaves room for the next.
type backlogs struct {
	lanes    fair.Lanes[*ticket]
	waiting  map[fair.Flow]*backlog // of every flow in the queue
	flights  *fair.Share
	inFlight int
}

// backlog is one flow's waiting bytes; apart reports whether they wait in backlogs.lanes.
type backlog struct {
	bytes int
	apart bool
}

func newBacklogs(limits queueLimits) backlogs {
	if limits.apart == 0 {
		return backlogs{}
	}
	return backlogs{
		waiting: make(map[fair.Flow]*backlog), flights: fair.NewShare(limits.depth),
	}
}

func (a *backlogs) clear() {
	if a.waiting != nil {
		clear(a.waiting)
	}
}

// add takes a ticket if its flow travels apart; a flow with too much waiting does so from now on.
func (a *backlogs) add(q *queue, t *ticket, weight int) bool {
	if a.waiting == nil {
		return false
	}
	w := a.waiting[t.flow]
	if w == nil {
		w = new(backlog)
		a.waiting[t.flow] = w
	}
	if !w.apart && w.bytes+t.bytes > q.limits.apart {
		w.apart = true
		q.lanes.MoveTo(&a.lanes, t.flow)
		q.waiting -= w.bytes
	}
	w.bytes += t.bytes
	if w.apart {
		a.lanes.Push(t.flow, weight, t)
	}
	return w.apart
}

// left notes that bytes of a flow wait no longer; it reports whether they waited apart.
func (a *backlogs) left(f fair.Flow, bytes int) (apart bool) {
	w := a.waiting[f]
	if w == nil {
		return false
	}
	apart = w.apart
	if w.bytes -= bytes; w.bytes <= 0 {
		delete(a.waiting, f)
	}
	return apart
}

// pump submits one batch of a flow that travels apart; false when none may leave.
func (a *backlogs) pump(q *queue) bool {
	if a.lanes.Empty() {
		return false
	}
	full := q.full()
	for first := a.lanes.Next(); ; {
		f := a.lanes.Next()
		w, n := a.waiting[f], a.flights.Held(f)
		if w == nil { // all of it was withdrawn
			a.lanes.FillOne(0, func(*ticket, int) (int, bool) { return 0, true })
			return !a.lanes.Empty()
		}
		if n < q.limits.eager || w.bytes > full {
			if a.flights.Take(f, 1, 1) == fair.RoomTaken {
				a.send(q, f, w.bytes)
				return true
			}
		}
		if a.lanes.Skip(); a.lanes.Next() == first {
			return false
		}
	}
}

func (a *backlogs) send(q *queue, f fair.Flow, bytes int) {
	b := q.fill(bytes, func(room int, cut fair.Cut[*ticket]) {
		a.lanes.FillOne(room, cut)
	})
	b.apart, b.flow = true, f
	if b.records == 0 {
		a.flights.Give(f, 1)
		return
	}
	a.inFlight++
	q.send(b)
}

// finished notes that a batch is no longer in flight.
func (a *backlogs) finished(b *batch) {
	if b.apart {
		a.inFlight--
		a.flights.Give(b.flow, 1)
	}
}
