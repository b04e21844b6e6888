package billing

import (
	"math"
	"sync/atomic"
)

// never is the due instant of what nothing falls due for any more.
const never = math.MaxInt64

// dues are rows by the instant at which something of them falls due: a binary heap by (instant,
// row), so that it pops in one order on every replica, whatever its layout. Only Apply and Restore
// touch it. It is not state: each record keeps its own instant. Its memory grows by a chunk at a
// time: a slice of a million rows that doubles would stop Apply for as long as it takes to copy.
type dues struct{ heap chunks[packedDue] }

// due is a row and its next instant.
type due struct {
	at  int64
	row uint32
}

// packedDue is a due without the four bytes that would fill up its instant's word.
type packedDue struct {
	high     int32
	low, row uint32
}

func (d due) packed() packedDue { return packedDue{int32(d.at >> 32), uint32(d.at), d.row} }

func (d packedDue) due() due { return due{int64(d.high)<<32 | int64(d.low), d.row} }

// at is what stands at a place of the heap.
func (q *dues) at(i int) due { return q.heap.at(i).due() }

func (d due) before(o due) bool { return d.at < o.at || d.at == o.at && d.row < o.row }

// until is the last instant whose events come before those of another row, whose turn is after d's.
func (d due) until(o due) int64 {
	if o.row < d.row {
		return o.at - 1
	}
	return o.at
}

// first is the earliest of all; its instant is never when there is none.
func (q *dues) first() due {
	if q.heap.n == 0 {
		return due{at: never}
	}
	return q.at(0)
}

// two are the row whose turn is first, and the one whose turn is after it; at never where there is
// none.
func (q *dues) two() (first, second due) {
	first, second = q.first(), due{at: never}
	for i := 1; i <= min(2, q.heap.n-1); i++ {
		if d := q.at(i); i == 1 || d.before(second) {
			second = d
		}
	}
	return first, second
}

// set moves a row to an instant; never takes it out. places is where each row stands in its heap,
// counted from 1.
func (q *dues) set(places *chunks[uint32], row uint32, at int64) {
	for places.n <= int(row) {
		places.push(0)
	}
	i := int(*places.at(int(row))) - 1
	switch {
	case i < 0 && at == never:
		return
	case i < 0:
		q.heap.push(due{at, row}.packed())
		q.up(places, q.heap.n-1)
		return
	case at == never:
		moved := q.heap.pop()
		*places.at(int(row)) = 0
		if i == q.heap.n {
			return
		}
		*q.heap.at(i) = moved
	default:
		*q.heap.at(i) = due{at, row}.packed()
	}
	q.down(places, q.up(places, i))
}

func (q *dues) up(places *chunks[uint32], i int) int {
	d := q.at(i)
	for i > 0 {
		parent := q.at((i - 1) / 2)
		if !d.before(parent) {
			break
		}
		q.put(places, i, parent)
		i = (i - 1) / 2
	}
	q.put(places, i, d)
	return i
}

func (q *dues) down(places *chunks[uint32], i int) {
	d := q.at(i)
	for {
		child := 2*i + 1
		if child >= q.heap.n {
			break
		}
		if child+1 < q.heap.n && q.at(child+1).before(q.at(child)) {
			child++
		}
		if !q.at(child).before(d) {
			break
		}
		q.put(places, i, q.at(child))
		i = child
	}
	q.put(places, i, d)
}

func (q *dues) put(places *chunks[uint32], i int, d due) {
	*q.heap.at(i) = d.packed()
	*places.at(int(d.row)) = uint32(i) + 1
}

// chunks is a list that grows without moving more than a chunk of what it holds.
type chunks[T any] struct {
	list [][]T
	n    int
}

// chunkRows is how many elements a chunk has; a power of two.
const chunkRows = 4096

func (c *chunks[T]) at(i int) *T { return &c.list[i/chunkRows][i%chunkRows] }

// push appends v. The first chunk grows like any slice, so that a short list stays small.
func (c *chunks[T]) push(v T) {
	k, i := c.n/chunkRows, c.n%chunkRows
	if k == len(c.list) {
		var fresh []T
		if k > 0 {
			fresh = make([]T, 0, chunkRows)
		}
		c.list = append(c.list, fresh)
	}
	if i == len(c.list[k]) {
		c.list[k] = append(c.list[k], v)
	} else {
		c.list[k][i] = v
	}
	c.n++
}

func (c *chunks[T]) pop() T {
	c.n--
	return *c.at(c.n)
}

// schedule is what falls due in a group. Of each environment one instant counts, in log time: the
// environments are heaps themselves, so that it does not matter how many there are.
type schedule struct {
	// live and sandbox are the environments by the instant at which something of them falls due.
	// Live ones come first: a sandbox whose clock was moved by years must not delay them.
	live, sandbox dues
	// Where each environment, subscription and pool stands in its heap.
	environments, subscriptions, pools chunks[uint32]
	// next is the earliest instant of all in log time, for NextDue; 0 when there is none.
	next atomic.Int64
}

// reschedule notes a subscription's next instant.
func (s *state) reschedule(e *environment, row uint32, at int64) {
	e.dues.set(&s.schedule.subscriptions, row, at)
	s.requeue(e)
}

// reschedulePool notes when the first of a pool's live grants expires.
func (s *state) reschedulePool(row uint32) {
	p, at := s.pools.Read(row), int64(never)
	if !p.archived && p.nextExpiry != 0 {
		at = p.nextExpiry
	}
	e := s.environment(s.customers.Read(p.customer).env)
	e.poolDues.set(&s.schedule.pools, row, at)
	s.requeue(e)
}

// requeue notes an environment's next instant, after one of its rows or its clock was moved.
func (s *state) requeue(e *environment) {
	at := min(e.dues.first().at, e.poolDues.first().at)
	e.due.Store(at)
	if at != never {
		at -= e.offset.Load()
	}
	q := &s.schedule.live
	if e.kind == EnvironmentSandbox {
		q = &s.schedule.sandbox
	}
	q.set(&s.schedule.environments, e.number, at)
	next := min(s.schedule.live.first().at, s.schedule.sandbox.first().at)
	if next == never {
		next = 0
	}
	s.schedule.next.Store(next)
}

// dueBy returns the environment in which something is due at a log time: a live one where there is
// one, then the earliest; nil when nothing is due.
func (s *state) dueBy(stamp int64) *environment {
	for _, q := range [...]*dues{&s.schedule.live, &s.schedule.sandbox} {
		if first := q.first(); first.at <= stamp {
			return s.environment(first.row)
		}
	}
	return nil
}
