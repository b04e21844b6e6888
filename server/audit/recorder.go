// Package audit brings every answered check into the log, for the client API, and states what the
// record of changes shows of an operator's act. See "Life of a check" in server/DESIGN.md.
package audit

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/fair"
	"tollgate/server"
	"tollgate/server/spool"
)

const (
	// blockLinger is how long a block collects after its first check: a fifth of the 100 ms whose
	// checks a killed node may lose. strictLinger is the same where answers wait for it.
	blockLinger  = 20 * time.Millisecond
	strictLinger = 5 * time.Millisecond
	// spoolLinger is the same while blocks go to the spool: fewer and larger ones, so that the
	// spool drains faster than it fills.
	spoolLinger = 50 * time.Millisecond
	// blockBytes is the size at which a block is full. An account may hold as much of a block as is
	// free; its next check waits for the next block.
	blockBytes = 128 << 10
	// proposeTimeout is how long one proposal of a block may take before the spool takes it.
	proposeTimeout = time.Second
	// retryPause is the pause between attempts while the cluster is not reachable.
	retryPause = 200 * time.Millisecond
)

var (
	faultAudit = server.NewFault(503, "audit_full", "The check cannot be recorded").With(
		"Every answered check leaves an audit event, and there is no room for more of them until the " +
			"cluster can be reached again. Repeat the request.").Retry(1)
	faultAuditUncommitted = server.NewFault(503, "audit_uncommitted",
		"The check is not committed").With("This service answers checks when their audit events are " +
		"committed. Repeat the request.").Retry(1)
)

// Faults are those of a check that cannot be recorded.
func Faults() []*server.Fault { return []*server.Fault{faultAudit, faultAuditUncommitted} }

// Stats says how a recorder is doing.
type Stats struct {
	// Recorded checks went into blocks, Committed ones into the log.
	Recorded, Committed uint64
	// Waits counts checks that had to wait for room.
	Waits uint64
	// Open is the number of checks in the block that is collecting.
	Open int
	// SpoolBytes wait in the spool, SpoolBlocks in number.
	SpoolBytes, SpoolBlocks uint64
	// Denied are the recorded checks that were denied, by reason: billing.Reason.
	Denied []uint64
}

// block is a billing.AuditBlock on its way.
type block struct {
	billing.AuditBlock
	// verdict is nil while no request waits for one.
	verdict *Verdict
}

// Verdict is what became of a block; committed stands once done is closed.
type Verdict struct {
	done      chan struct{}
	committed bool
}

// Recorder collects answered checks into blocks and brings these into the log, one at a time and
// in order: a block that cannot be proposed goes to the spool, and while that holds any, so does
// every later block. See "Life of a check" in server/DESIGN.md.
type Recorder struct {
	proposer server.Proposer
	log      *slog.Logger
	spool    *spool.Spool
	origin   uint64
	boot     uint64
	strict   bool // Options.Committed

	mu       sync.Mutex
	open     *block
	shares   *fair.Share // of the open block, in bytes
	spare    *block
	sequence uint64
	room     chan struct{} // closed at the next swap; nil while no request waits
	stopped  bool

	full      atomic.Bool
	denied    []atomic.Uint64 // by reason
	recorded  atomic.Uint64
	committed atomic.Uint64
	waits     atomic.Uint64

	first   chan struct{} // a block got its first check
	brimful chan struct{} // a block is full
	stop    chan struct{}
	drain   chan struct{} // the spool is no longer empty
	running sync.WaitGroup
}

// Options are what a recorder needs from the node that runs it.
type Options struct {
	Proposer server.Proposer
	// Dir keeps the spool of blocks that could not be proposed, Bytes bounds it.
	Dir   string
	Bytes int64
	// Origin is the node's number in the cluster, Boot differs at every start.
	Origin, Boot uint64
	// Committed has checks answered when their block is committed.
	Committed bool
	Log       *slog.Logger
}

// Open makes a recorder, which runs until Close; blocks that an earlier process left in the spool
// are proposed first.
func Open(o Options) (*Recorder, error) {
	s, err := spool.Open(filepath.Join(o.Dir, "audit.spool"),
		spool.Options{Limit: o.Bytes, Log: o.Log})
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	r := &Recorder{
		proposer: o.Proposer, log: o.Log, spool: s, origin: o.Origin, boot: o.Boot,
		strict: o.Committed,
		open:   new(block), spare: new(block), shares: fair.NewShare(blockBytes),
		first: make(chan struct{}, 1), brimful: make(chan struct{}, 1),
		stop: make(chan struct{}), drain: make(chan struct{}, 1),
		denied: make([]atomic.Uint64, len(billing.Reason(0).Names())),
	}
	r.nameOpen()
	r.running.Add(2)
	go r.collect()
	go r.drainSpool()
	signal(r.drain)
	return r, nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (r *Recorder) nameOpen() {
	r.sequence++
	r.open.Reset(r.origin, r.boot, r.sequence)
	r.open.verdict = nil
	r.shares.Clear()
}

// Record takes one check over as Add does, and with Options.Committed waits until its block is
// committed; a stale read is content with the spool there.
func (r *Recorder) Record(c *billing.AuditCheck, deadline time.Time, stale bool) *server.Fault {
	v, fault := r.Add(c, deadline)
	if v == nil {
		return fault
	}
	return v.Await(deadline, stale)
}

// Add takes one check over. It waits while the open block has no room for the check's account,
// until the deadline. The verdict is nil where nothing has to be committed before the answer.
func (r *Recorder) Add(c *billing.AuditCheck, deadline time.Time) (*Verdict, *server.Fault) {
	flow := billing.FlowOf(c.Env)
	r.mu.Lock()
	room := r.shares.Take(flow, 1, 0)
	for room != fair.RoomTaken && !r.stopped {
		r.waits.Add(1)
		signal(r.brimful)
		if !r.waitForRoom(deadline) {
			return nil, refusal(room)
		}
		room = r.shares.Take(flow, 1, 0)
	}
	if r.stopped || r.full.Load() {
		r.mu.Unlock()
		return nil, faultAudit
	}
	before := r.open.Bytes()
	r.open.Add(c)
	r.shares.Take(flow, 1, r.open.Bytes()-before)
	switch {
	case r.open.Bytes() >= blockBytes:
		signal(r.brimful)
		signal(r.first)
	case r.open.Len() == 1:
		signal(r.first)
	}
	if r.strict && r.open.verdict == nil {
		r.open.verdict = &Verdict{done: make(chan struct{})}
	}
	v := r.open.verdict
	r.mu.Unlock()
	r.recorded.Add(1)
	if c.Reason > billing.ReasonAllowed && int(c.Reason) < len(r.denied) {
		r.denied[c.Reason].Add(1)
	}
	return v, nil
}

// refusal is why a check found no room in time.
func refusal(room fair.Room) *server.Fault {
	if room == fair.RoomFlow {
		return server.FaultOf(engine.OutcomeShareFull)
	}
	return faultAudit
}

// waitForRoom is called with r.mu held, and returns with it held when there may be room.
func (r *Recorder) waitForRoom(deadline time.Time) bool {
	if r.room == nil {
		r.room = make(chan struct{})
	}
	room := r.room
	r.mu.Unlock()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-room:
		r.mu.Lock()
		return true
	case <-timer.C:
		return false
	}
}

// Await waits until the block is committed; a stale read is content with the spool.
func (v *Verdict) Await(deadline time.Time, stale bool) *server.Fault {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-v.done:
		if stale || v.committed {
			return nil
		}
		return faultAuditUncommitted
	case <-timer.C:
		return faultAuditUncommitted
	}
}

// collect swaps blocks, and sends each on, until stop.
func (r *Recorder) collect() {
	defer r.running.Done()
	timer := time.NewTimer(time.Hour)
	var payload []byte
	for {
		select {
		case <-r.first:
		case <-r.stop:
			r.sendOpen(payload)
			return
		}
		timer.Reset(r.linger())
		select {
		case <-timer.C:
		case <-r.brimful:
		case <-r.stop:
		}
		payload = r.sendOpen(payload)
	}
}

// linger is how long the open block collects after its first check.
func (r *Recorder) linger() time.Duration {
	switch {
	case !r.spool.Empty():
		return spoolLinger
	case r.strict:
		return strictLinger
	}
	return blockLinger
}

// sendOpen swaps the open block for the spare one and brings it into the log or the spool.
func (r *Recorder) sendOpen(payload []byte) []byte {
	r.mu.Lock()
	b := r.open
	if b.Len() == 0 {
		r.mu.Unlock()
		return payload
	}
	r.open, r.spare = r.spare, nil
	r.nameOpen()
	if r.room != nil {
		close(r.room)
		r.room = nil
	}
	r.mu.Unlock()

	payload = b.Encode(payload[:0])
	committed := r.send(payload, b.Len())

	if b.verdict != nil {
		b.verdict.committed = committed
		close(b.verdict.done)
	}
	r.mu.Lock()
	r.spare = b
	r.mu.Unlock()
	return payload
}

// send reports whether the block is committed; when it is not, the spool has it. While neither
// takes the block, checks are refused and it is tried again.
func (r *Recorder) send(payload []byte, checks int) (committed bool) {
	for {
		if r.spool.Empty() {
			outcome := r.propose(payload)
			if settled(outcome) {
				r.full.Store(false)
				r.committed.Add(uint64(checks))
				return true
			}
			r.log.Warn("audit events go to the spool: the cluster cannot be reached",
				"outcome", uint8(outcome), "checks", checks)
		}
		if r.store(payload) {
			return false
		}
		timer := time.NewTimer(retryPause)
		select {
		case <-timer.C:
		case <-r.stop:
			timer.Stop()
			if !r.store(payload) {
				r.log.Error("audit events are lost: the spool is full at shutdown", "checks", checks)
			}
			return false
		}
	}
}

// store appends to the spool. While that fails, checks are refused.
func (r *Recorder) store(payload []byte) bool {
	err := r.spool.Append(payload)
	if err != nil && !r.full.Swap(true) {
		r.log.Error("checks are refused: the audit spool is full or cannot be written", "error", err)
	}
	if err == nil {
		r.full.Store(false)
		signal(r.drain)
	}
	return err == nil
}

func (r *Recorder) propose(payload []byte) engine.Outcome {
	records := [1]engine.Record{{Kind: billing.KindRecordAudits, Payload: payload}}
	var results [1]engine.Result
	r.proposer.Propose(time.Now().Add(proposeTimeout), records[:], results[:])
	return results[0].Outcome
}

// settled reports whether the block is in the log, now or since an earlier attempt.
func settled(o engine.Outcome) bool {
	return o == engine.OutcomeDone || o == engine.OutcomeDuplicate
}

// drainSpool proposes what the spool holds, oldest first, until stop.
func (r *Recorder) drainSpool() {
	defer r.running.Done()
	var payload []byte
	pause := time.NewTimer(time.Hour)
	for {
		select {
		case <-r.drain:
		case <-r.stop:
			return
		}
		for !r.spool.Empty() {
			var err error
			if payload, err = r.spool.Head(payload[:0]); err == nil && settled(r.propose(payload)) {
				err = r.spool.Advance()
				if err == nil {
					continue
				}
			}
			if err != nil {
				r.log.Error("the audit spool cannot be read", "error", err)
			}
			pause.Reset(retryPause)
			select {
			case <-pause.C:
			case <-r.stop:
				return
			}
		}
	}
}

// Stats says how it is doing, for metrics.
func (r *Recorder) Stats() Stats {
	s := Stats{
		Recorded: r.recorded.Load(), Committed: r.committed.Load(), Waits: r.waits.Load(),
	}
	r.mu.Lock()
	s.Open = r.open.Len()
	r.mu.Unlock()
	s.SpoolBytes, s.SpoolBlocks = r.spool.Size()
	for i := range r.denied {
		s.Denied = append(s.Denied, r.denied[i].Load())
	}
	return s
}

// Close sends what was collected, and stops.
func (r *Recorder) Close() error {
	r.mu.Lock()
	if r.stopped {
		r.mu.Unlock()
		return nil
	}
	r.stopped = true
	if r.room != nil {
		close(r.room)
		r.room = nil
	}
	r.mu.Unlock()
	close(r.stop)
	r.running.Wait()
	if err := r.spool.Close(); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}
