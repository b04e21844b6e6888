package cluster

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"tollgate/engine"
	"tollgate/engine/fair"
)

// fate is what became of a batch as a whole.
type fate uint8

const (
	// fateUnknown: it may or may not have been carried out.
	fateUnknown fate = iota
	// fateNotProposed: definitely nothing happened.
	fateNotProposed
	// fateDecided: it was carried out; each record has its result.
	fateDecided
)

// fateOf distinguishes raft's definite refusals from errors that leave the outcome open. Only those
// listed here are definite: an error that a later version adds is unknown until someone has read
// the code that returns it. ErrRaftShutdown is unknown although it is sometimes definite.
func fateOf(err error) fate {
	switch err {
	case nil:
		return fateDecided
	case raft.ErrNotLeader, raft.ErrEnqueueTimeout, raft.ErrLeadershipTransferInProgress,
		errPastDeadline:
		return fateNotProposed
	default: // ErrLeadershipLost, ErrRaftShutdown, ErrAbortedByRestore, errors of the log store, …
		return fateUnknown
	}
}

// batch is what is sent together: an entry on the leader, a frame on a follower. It is assembled
// when it is sent.
type batch struct {
	// data is the header and the encoded records.
	data    []byte
	records int
	// parts are the calls' shares of it, in order.
	parts []part
	// deadline is the latest of the callers'; the batch is not proposed after it.
	deadline    time.Time
	submittedAt time.Time
	// apart reports whether all of it belongs to one flow, which has a backlog.
	apart bool
	flow  fair.Flow

	// id is the frame's sequence number; index the log entry, set when it was applied.
	id, index uint64
	// applied holds one result per record once the fate is decided.
	applied engine.Applied
}

// part is one ticket's share of a batch: count records, from its first on.
type part struct {
	ticket       *ticket
	first, count int
	bytes        int
}

// ticket is one call's, or one run of a frame's, place in a queue. Its records are sent in order,
// in one batch or several, between those of other flows.
type ticket struct {
	flow     fair.Flow
	deadline time.Time
	// timed reports whether a call waits for the ticket. The queue gives such a call up at its
	// deadline; a frame's ticket is never given up.
	timed bool
	// records are encoded when they are sent, or data holds them already encoded, with these sizes.
	records []engine.Record
	data    []byte
	sizes   []int
	// count is the number of records, bytes their total size.
	count, bytes int

	// The queue's lock guards the following until done has a token.

	// results has one element per record: OutcomeNone until it is sent, then OutcomeUnknown until
	// its fate is known.
	results []engine.Result
	next    int // the first record not sent yet
	waiting int // bytes of the records not sent yet
	open    int // records whose fate is not known
	// gone reports whether the queue has given up the call: results may be reused from then on, the
	// ticket must not be.
	gone bool
	done chan struct{} // has a token once no record's fate is open, or the call was given up
}

// ticketPool recycles tickets.
type ticketPool struct{ sync.Pool }

func (p *ticketPool) take() *ticket {
	if t, ok := p.Get().(*ticket); ok {
		return t
	}
	return &ticket{done: make(chan struct{}, 1)}
}

// release recycles a ticket whose token was received, or which no queue accepted.
func (p *ticketPool) release(t *ticket) {
	*t = ticket{done: t.done}
	p.Put(t)
}

// measure counts a ticket's records, before a queue accepts it.
func (t *ticket) measure() {
	t.count, t.bytes = len(t.records), 0
	if t.sizes != nil {
		t.count, t.bytes = len(t.sizes), len(t.data)
		return
	}
	for i := range t.records {
		t.bytes += engine.RecordSize(t.records[i])
	}
}

func (t *ticket) size(i int) int {
	if t.sizes != nil {
		return t.sizes[i]
	}
	return engine.RecordSize(t.records[i])
}

// queue collects records into batches. A batch is sent when nothing is in flight, or when a full
// one waits and fewer than depth batches are in flight. So no record waits for a batch to fill, and
// batches grow with the load. A batch is filled when it is sent, from each flow in turn, so that no
// flow waits behind another's records.
type queue struct {
	limits queueLimits
	// header begins each batch.
	header []byte
	// submit sends a batch, without blocking; it is called with the lock held, in order.
	// finish must be called later, from another goroutine.
	submit func(*batch)
	// weight is a flow's; nil: all have 1.
	weight func(fair.Flow) int

	mu       sync.Mutex
	taking   bool
	share    *fair.Share // bytes that wait, or are in flight
	lanes    fair.Lanes[*ticket]
	waiting  int // bytes in lanes
	inFlight []*batch
	apart    backlogs
	pace     pace
	// alarm runs expire at rings, which is zero while no alarm is set. One timer for all calls is
	// cheaper than one each, which would hardly ever fire.
	alarm *time.Timer
	rings time.Time
}

type queueLimits struct {
	batchBytes int // of one batch, header included
	bytes      int // of all batches that are not finished
	eager      int // batches in flight while there is no full one waiting
	depth      int // batches in flight at most
	// apart is how many bytes of a flow may wait before it is sent in separate batches, whose
	// answers no other call waits for; 0: flows always share batches.
	apart int
}

func newQueue(limits queueLimits, header []byte, submit func(*batch)) *queue {
	return &queue{
		limits: limits, header: header, submit: submit, share: fair.NewShare(limits.bytes),
		apart: newBacklogs(limits),
	}
}

// start makes the queue accept records.
func (q *queue) start() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taking = true
}

// stop accepts no more records and returns those not submitted: definitely not proposed.
func (q *queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taking = false
	var ready []*ticket
	q.drain(func(t *ticket) {
		if q.drop(t); t.open == 0 && !t.gone {
			ready = append(ready, t)
		}
	})
	signal(ready)
}

func signal(ready []*ticket) {
	for _, t := range ready {
		t.done <- struct{}{}
	}
}

// drain removes all waiting records from the lanes.
func (q *queue) drain(end func(*ticket)) {
	q.lanes.Drain(end)
	q.apart.lanes.Drain(end)
	q.apart.clear()
}

// drop gives up a ticket's records that were not sent yet.
func (q *queue) drop(t *ticket) {
	q.share.Give(t.flow, t.waiting)
	q.left(t, t.waiting)
	t.open -= t.count - t.next
	t.next, t.records, t.data, t.sizes = t.count, nil, nil, nil
}

// left records that bytes of a ticket wait no longer.
func (q *queue) left(t *ticket, bytes int) {
	t.waiting -= bytes
	if q.apart.left(t.flow, bytes) {
		return
	}
	q.waiting -= bytes
}

// add accepts a ticket or refuses it definitely: OutcomeNone when the queue accepts nothing,
// OutcomeShareFull when the flow has used its share, OutcomeOverloaded when the queue is full. wait
// is how long until there may be room.
func (q *queue) add(t *ticket) (took engine.Outcome, wait time.Duration) {
	t.measure()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.taking {
		return engine.OutcomeNone, 0
	}
	weight := q.weightOf(t.flow)
	switch q.share.Take(t.flow, weight, t.bytes) {
	case fair.RoomFlow:
		return engine.OutcomeShareFull, q.pace.lasts(q.share.Held(t.flow))
	case fair.RoomAll:
		return engine.OutcomeOverloaded, q.pace.lasts(q.share.Used())
	}
	t.next, t.waiting, t.open = 0, t.bytes, t.count
	if !q.apart.add(q, t, weight) {
		q.lanes.Push(t.flow, weight, t)
		q.waiting += t.bytes
	}
	if t.timed && (q.rings.IsZero() || t.deadline.Before(q.rings)) {
		q.ring(t.deadline, time.Until(t.deadline))
	}
	q.pump()
	return engine.OutcomeDone, 0
}

func (q *queue) weightOf(f fair.Flow) int {
	switch {
	case f == 0:
		return fair.OwnWeight
	case q.weight == nil:
		return 1
	}
	return q.weight(f)
}

// pump submits what can be sent. The caller holds the lock.
func (q *queue) pump() {
	full := q.full()
	for {
		n := len(q.inFlight) - q.apart.inFlight
		if q.waiting > 0 && (n < q.limits.eager || q.waiting > full && n < q.limits.depth) {
			if q.send(q.fill(q.waiting, q.lanes.Fill)) {
				continue
			}
		}
		if !q.apart.pump(q) {
			return
		}
	}
}

// full is how many bytes of records a batch takes.
func (q *queue) full() int { return q.limits.batchBytes - len(q.header) }

// fill assembles a batch of at most so many bytes. It drops records past their deadline: no call
// waits for them any more.
func (q *queue) fill(bytes int, from func(int, fair.Cut[*ticket])) *batch {
	size := min(len(q.header)+bytes, q.limits.batchBytes)
	b := &batch{data: append(make([]byte, 0, size), q.header...), submittedAt: time.Now()}
	from(q.full(), func(t *ticket, room int) (int, bool) {
		if b.submittedAt.Before(t.deadline) || t.next == t.count {
			return q.cut(b, t, room)
		}
		if q.drop(t); t.open == 0 && !t.gone {
			t.done <- struct{}{}
		}
		return 0, true
	})
	return b
}

// cut moves into b the records of a ticket that fit.
func (q *queue) cut(b *batch, t *ticket, room int) (took int, done bool) {
	first := t.next
	for t.next < t.count {
		size := t.size(t.next)
		if took+size > room && (size <= q.full() || b.records+took > 0) {
			break // a record larger than a batch is sent alone
		}
		if t.sizes != nil {
			b.data = append(b.data, t.data[:size]...)
			t.data = t.data[size:]
		} else {
			b.data = engine.AppendRecord(b.data, t.records[t.next])
		}
		t.results[t.next].Outcome = engine.OutcomeUnknown
		took += size
		t.next++
	}
	if n := t.next - first; n > 0 {
		b.parts = append(b.parts, part{ticket: t, first: first, count: n, bytes: took})
		b.records += n
		q.left(t, took)
		if t.deadline.After(b.deadline) {
			b.deadline = t.deadline
		}
	}
	return took, t.next == t.count
}

// send submits a batch, unless it is empty because all its records were dropped.
func (q *queue) send(b *batch) bool {
	if b.records == 0 {
		return false
	}
	q.inFlight = append(q.inFlight, b)
	q.submit(b)
	return true
}

// finish ends a batch that was submitted; false when that has happened before.
func (q *queue) finish(b *batch, f fate) bool {
	q.mu.Lock()
	i := slices.Index(q.inFlight, b)
	if i < 0 {
		q.mu.Unlock()
		return false
	}
	q.inFlight = slices.Delete(q.inFlight, i, i+1)
	q.apart.finished(b)
	q.pump()
	ready := q.end(b, f)
	q.mu.Unlock()
	signal(ready)
	return true
}

// abandon ends everything in flight: its fate will not be known here.
func (q *queue) abandon() {
	q.mu.Lock()
	defer q.mu.Unlock()
	flight := q.inFlight
	q.inFlight = nil
	for _, b := range flight {
		q.apart.finished(b)
		signal(q.end(b, fateUnknown))
	}
	q.pump()
}

// end gives each ticket its results, and returns those that have all of them. The caller holds the
// lock.
func (q *queue) end(b *batch, f fate) []*ticket {
	at, bytes, ready := 0, 0, make([]*ticket, 0, len(b.parts))
	for _, p := range b.parts {
		t := p.ticket
		q.share.Give(t.flow, p.bytes)
		bytes += p.bytes
		switch {
		case t.gone:
		case f == fateDecided:
			copy(t.results[p.first:p.first+p.count], b.applied.Results[at:])
		case f == fateNotProposed:
			clear(t.results[p.first : p.first+p.count])
		}
		at += p.count
		if t.open -= p.count; t.open == 0 && !t.gone {
			ready = append(ready, t)
		}
	}
	b.parts = nil
	q.pace.note(bytes)
	return ready
}

// owner is the batch in flight whose bytes these are, if any.
func (q *queue) owner(data []byte) *batch {
	if len(data) == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, b := range q.inFlight {
		if &b.data[0] == &data[0] {
			return b
		}
	}
	return nil
}

// alarmApart is how far two rings are apart at least, so that calls whose deadlines follow closely,
// as they do without a leader, are looked through together and not each by itself under the lock. A
// call may be given up so much late.
const alarmApart = 2 * time.Millisecond

// ring sets the alarm. The caller holds the lock.
func (q *queue) ring(at time.Time, after time.Duration) {
	q.rings = at
	if q.alarm == nil {
		q.alarm = time.AfterFunc(after, q.expire)
		return
	}
	q.alarm.Reset(after)
}

// expire gives up the calls whose deadline has passed, and sets the alarm for the next one.
func (q *queue) expire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, next := time.Now(), time.Time{}
	look := func(t *ticket) {
		switch {
		case !t.timed || t.gone:
		case !now.Before(t.deadline):
			q.withdraw(t)
		case next.IsZero() || t.deadline.Before(next):
			next = t.deadline
		}
	}
	q.lanes.Each(look)
	q.apart.lanes.Each(look)
	for _, b := range q.inFlight {
		for _, p := range b.parts {
			look(p.ticket)
		}
	}
	if q.rings = next; !next.IsZero() {
		q.ring(next, max(next.Sub(now), alarmApart))
	}
}

// withdraw gives a call up: it removes the records that were not sent, and stops writes to its
// results, so the fate of a record that was sent stays unknown there. The caller holds the lock.
func (q *queue) withdraw(t *ticket) {
	t.gone = true
	if t.next < t.count {
		q.drop(t)
	}
	t.done <- struct{}{}
}

// load is what the queue holds now.
func (q *queue) load() (bytes, inFlight int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.share.Used(), len(q.inFlight)
}

// pace is how fast a queue gets through its work.
type pace struct {
	since  time.Time
	landed int     // bytes since then
	rate   float64 // bytes a second, in the span before
}

const (
	paceSpan = 500 * time.Millisecond
	// maxPaceWait bounds how long a refusal asks a client to wait.
	maxPaceWait = 30 * time.Second
)

func (p *pace) note(bytes int) {
	p.landed += bytes
	if p.landed < 1<<16 && p.rate > 0 {
		return // not worth reading the clock
	}
	switch span := time.Since(p.since); {
	case p.since.IsZero() || span > 10*paceSpan:
		p.since, p.landed = time.Now(), 0
	case span >= paceSpan:
		p.rate = float64(p.landed) / span.Seconds()
		p.since, p.landed = time.Now(), 0
	}
}

// lasts is how long so many bytes take at that rate.
func (p *pace) lasts(bytes int) time.Duration {
	if p.rate <= 0 {
		return time.Second
	}
	wait := time.Duration(float64(bytes) / p.rate * float64(time.Second))
	return min(max(wait, time.Second), maxPaceWait)
}

var errPastDeadline = errors.New("cluster: every caller's deadline has passed")
