package billing

import "math"

// never is the due instant of what nothing falls due for any more.
const never = math.MaxInt64

// dues are the subscriptions of one environment by the instant at which something of them falls
// due: a binary heap by (instant, row), so that it pops in one order on every replica, whatever its
// layout. Only Apply and Restore touch it. It is no state: each record keeps its own instant.
type dues struct{ heap []due }

// due is a subscription's row and its next instant, on the environment's clock.
type due struct {
	at  int64
	row uint32
}

func (d due) before(o due) bool { return d.at < o.at || d.at == o.at && d.row < o.row }

// first is the earliest instant; never when there is none.
func (q *dues) first() int64 {
	if len(q.heap) == 0 {
		return never
	}
	return q.heap[0].at
}

// set moves a subscription to an instant; never takes it out. places is where each row stands in
// its environment's heap, counted from 1.
func (q *dues) set(places *[]uint32, row uint32, at int64) {
	for uint32(len(*places)) <= row {
		*places = append(*places, 0)
	}
	i := int((*places)[row]) - 1
	switch {
	case i < 0 && at == never:
		return
	case i < 0:
		q.heap = append(q.heap, due{at, row})
		q.up(*places, len(q.heap)-1)
		return
	case at == never:
		last := len(q.heap) - 1
		moved := q.heap[last]
		q.heap = q.heap[:last]
		(*places)[row] = 0
		if i == last {
			return
		}
		q.heap[i] = moved
	default:
		q.heap[i].at = at
	}
	q.down(*places, q.up(*places, i))
}

func (q *dues) up(places []uint32, i int) int {
	d := q.heap[i]
	for i > 0 && d.before(q.heap[(i-1)/2]) {
		q.put(places, i, q.heap[(i-1)/2])
		i = (i - 1) / 2
	}
	q.put(places, i, d)
	return i
}

func (q *dues) down(places []uint32, i int) {
	d := q.heap[i]
	for {
		child := 2*i + 1
		if child >= len(q.heap) {
			break
		}
		if child+1 < len(q.heap) && q.heap[child+1].before(q.heap[child]) {
			child++
		}
		if !q.heap[child].before(d) {
			break
		}
		q.put(places, i, q.heap[child])
		i = child
	}
	q.put(places, i, d)
}

func (q *dues) put(places []uint32, i int, d due) {
	q.heap[i] = d
	places[d.row] = uint32(i) + 1
}

// reschedule notes a subscription's next instant in its environment's heap.
func (s *state) reschedule(e *environment, row uint32, at int64) {
	e.dues.set(&s.places, row, at)
	e.due.Store(e.dues.first())
	s.rescheduled = true
}

// publishDue works out the earliest instant of all environments, in log time.
func (s *state) publishDue() {
	if !s.rescheduled {
		return
	}
	s.rescheduled = false
	next := int64(never)
	for _, e := range s.environments.all() {
		if at := e.dues.first(); at != never {
			next = min(next, at-e.offset.Load())
		}
	}
	if next == never {
		next = 0
	}
	s.nextDue.Store(next)
}

// dueBy returns the environment in which something is due at a log time, the earliest first, and
// the one with the lower number where two are equal; nil when nothing is due.
func (s *state) dueBy(stamp int64) (earliest *environment) {
	best := int64(never)
	for _, e := range s.environments.all() {
		at := e.dues.first()
		if at == never {
			continue
		}
		if at -= e.offset.Load(); at <= stamp && at < best {
			best, earliest = at, e
		}
	}
	return earliest
}
