package cluster

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"tollgate/engine"
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

// fateOf tells definite refusals of raft's from errors that leave the outcome open. Only what is
// listed here is definite: an error that a later version adds is unknown until someone has read
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

// batch is what travels together: an entry on the leader, a frame on a follower.
type batch struct {
	// data is the header and the encoded records.
	data []byte
	// records counts those that were added, withdrawn ones included.
	records int
	// deadline is the latest of the callers'; the batch is not proposed after it.
	deadline time.Time

	// The queue's lock guards these until done is closed.
	submitted   bool
	submittedAt time.Time
	size        int // bytes that the queue counts for it
	withdrawn   []part

	// id is the frame's sequence number; index the log entry, set when it was applied.
	id, index uint64
	// applied holds one result per record once the fate is decided.
	applied engine.Applied
	fate    fate
	done    chan struct{}
}

// part is what one call has in one batch.
type part struct {
	batch    *batch
	from, to int // bytes of data
	first    int // record
	count    int
}

// queue collects records into batches, in order. A batch leaves when nothing is in flight, or when
// it is full and less than depth batches are: nothing lingers, and the busier it is the larger the
// batches become.
type queue struct {
	limits queueLimits
	// begin starts a batch's data with its header.
	begin func() []byte
	// submit sends a batch on its way, without blocking; it is called with the lock held, in order.
	// finish must be called later, from another goroutine.
	submit func(*batch)

	mu       sync.Mutex
	taking   bool
	open     *batch
	sealed   []*batch
	inFlight []*batch
	bytes    int
	hint     int // size of the batch before, to allocate the next
}

type queueLimits struct {
	batchBytes int // of one batch, header included
	bytes      int // of all batches that are not finished
	eager      int // batches in flight while there is no full one waiting
	depth      int // batches in flight at most
}

// start begins to take records.
func (q *queue) start() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taking = true
}

// stop takes no more records and gives back what was not submitted: definitely not proposed.
func (q *queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taking = false
	waiting := q.sealed
	if q.open != nil {
		waiting = append(waiting, q.open)
	}
	q.open, q.sealed = nil, nil
	for _, b := range waiting {
		q.end(b, fateNotProposed)
	}
}

// add puts records into batches. What it did not take is a definite refusal: OutcomeNone when the
// queue takes nothing, OutcomeOverloaded when it is full.
func (q *queue) add(
	records []engine.Record, deadline time.Time, parts []part,
) ([]part, engine.Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.taking {
		return parts, engine.OutcomeNone
	}
	if q.bytes >= q.limits.bytes {
		return parts, engine.OutcomeOverloaded
	}
	for i := range records {
		size := engine.RecordSize(records[i])
		b := q.room(size, deadline)
		from := len(b.data)
		b.data = engine.AppendRecord(b.data, records[i])
		parts = q.note(b, from, 1, parts)
	}
	q.pump()
	return parts, engine.OutcomeDone
}

// addEncoded is add for records that another node has encoded already, one after the other.
func (q *queue) addEncoded(
	data []byte, sizes []int, deadline time.Time,
) ([]part, engine.Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.taking {
		return nil, engine.OutcomeNone
	}
	if q.bytes >= q.limits.bytes {
		return nil, engine.OutcomeOverloaded
	}
	var parts []part
	for len(sizes) > 0 {
		b := q.room(sizes[0], deadline)
		space, size, n := q.limits.batchBytes-len(b.data), 0, 0
		for n < len(sizes) && size+sizes[n] <= space {
			size += sizes[n]
			n++
		}
		from := len(b.data)
		b.data = append(b.data, data[:size]...)
		parts = q.note(b, from, n, parts)
		data, sizes = data[size:], sizes[n:]
	}
	q.pump()
	return parts, engine.OutcomeDone
}

// room returns the open batch, after making sure that a record of that size fits.
func (q *queue) room(size int, deadline time.Time) *batch {
	if q.open != nil && len(q.open.data)+size > q.limits.batchBytes {
		q.sealed = append(q.sealed, q.open)
		q.hint = len(q.open.data)
		q.open = nil
		q.pump()
	}
	if q.open == nil {
		header := q.begin()
		likely := min(q.hint+q.hint/4, q.limits.batchBytes)
		data := make([]byte, 0, max(len(header)+size, likely))
		q.open = &batch{data: append(data, header...), done: make(chan struct{})}
	}
	if deadline.After(q.open.deadline) {
		q.open.deadline = deadline
	}
	return q.open
}

// note counts n records that were appended to b, and extends the caller's last part if it can.
func (q *queue) note(b *batch, from, n int, parts []part) []part {
	size := len(b.data) - from
	b.size += size
	q.bytes += size
	first := b.records
	b.records += n
	if last := len(parts) - 1; last >= 0 && parts[last].batch == b {
		parts[last].to, parts[last].count = len(b.data), parts[last].count+n
		return parts
	}
	return append(parts, part{batch: b, from: from, to: len(b.data), first: first, count: n})
}

// pump submits what may leave. The caller holds the lock.
func (q *queue) pump() {
	for {
		var b *batch
		switch {
		case len(q.sealed) > 0 && len(q.inFlight) < q.limits.depth:
			b = q.sealed[0]
			q.sealed = slices.Delete(q.sealed, 0, 1)
		case len(q.sealed) == 0 && q.open != nil && len(q.inFlight) < q.limits.eager:
			b, q.open = q.open, nil
			q.hint = len(b.data)
		default:
			return
		}
		if b.dropWithdrawn(); b.records == b.countWithdrawn() {
			q.end(b, fateNotProposed)
			continue
		}
		b.submitted, b.submittedAt = true, time.Now()
		q.inFlight = append(q.inFlight, b)
		q.submit(b)
	}
}

// finish ends a batch that was submitted; false when that has happened before.
func (q *queue) finish(b *batch, f fate) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.inFlight, b)
	if i < 0 {
		return false
	}
	q.inFlight = slices.Delete(q.inFlight, i, i+1)
	q.pump()
	if f == fateDecided {
		b.spreadResults()
	}
	q.end(b, f)
	return true
}

// abandon ends everything in flight: nobody will say any more what became of it.
func (q *queue) abandon() {
	q.mu.Lock()
	defer q.mu.Unlock()
	flight := q.inFlight
	q.inFlight = nil
	for _, b := range flight {
		q.end(b, fateUnknown)
	}
	q.pump()
}

// end tells the callers. The caller holds the lock.
func (q *queue) end(b *batch, f fate) {
	q.bytes -= b.size
	b.fate = f
	close(b.done)
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

// withdraw takes a part back from a batch that has not been submitted; false when it was.
func (q *queue) withdraw(p part) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := p.batch
	if b.submitted {
		return false
	}
	select {
	case <-b.done:
		return b.fate == fateNotProposed
	default:
	}
	b.withdrawn = append(b.withdrawn, p)
	return true
}

// load is what the queue holds at this moment.
func (q *queue) load() (bytes, inFlight int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes, len(q.inFlight)
}

func (b *batch) countWithdrawn() int {
	n := 0
	for _, p := range b.withdrawn {
		n += p.count
	}
	return n
}

// dropWithdrawn removes the bytes of withdrawn parts, before the batch leaves.
func (b *batch) dropWithdrawn() {
	if len(b.withdrawn) == 0 {
		return
	}
	slices.SortFunc(b.withdrawn, func(x, y part) int { return x.from - y.from })
	kept := make([]byte, 0, len(b.data))
	at := 0
	for _, p := range b.withdrawn {
		kept = append(kept, b.data[at:p.from]...)
		at = p.to
	}
	b.data = append(kept, b.data[at:]...)
}

// spreadResults gives withdrawn records an empty place among the results, so that the parts of
// the others still point at theirs.
func (b *batch) spreadResults() {
	if len(b.withdrawn) == 0 {
		return
	}
	all := make([]engine.Result, 0, b.records)
	rest := b.applied.Results
	for _, p := range b.withdrawn {
		n := p.first - len(all)
		all = append(all, rest[:n]...)
		rest = rest[n:]
		all = append(all, make([]engine.Result, p.count)...)
	}
	b.applied.Results = append(all, rest...)
}

// result is what became of the i-th record of a part; the batch is done.
func (p *part) result(i int) engine.Result {
	switch p.batch.fate {
	case fateDecided:
		return p.batch.applied.Results[p.first+i]
	case fateNotProposed:
		return engine.Result{Outcome: engine.OutcomeNone}
	default:
		return engine.Result{Outcome: engine.OutcomeUnknown}
	}
}
