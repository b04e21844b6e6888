package cluster

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"tollgate/engine"
)

// reader decides when this node's memory may answer reads.
type reader struct {
	*core
	router  *router
	replica *replica
	asker   *asker

	index  readIndex
	hint   newestHint
	wakeup chan struct{}
	opened instant
}

func newReader(c *core, r *router, m *replica) *reader {
	return &reader{
		core: c, router: r, replica: m, asker: &asker{core: c, router: r},
		hint:   newestHint{news: make(chan struct{}, 1)},
		wakeup: make(chan struct{}, 1), opened: now(),
	}
}

// BeginRead returns once this node's own memory holds every write that was acknowledged anywhere
// before the call. On a leader under lease that is at once; a leader whose lease has lapsed waits
// for a majority; a follower asks the leader how far it has applied, and waits for that. The
// outcome is OutcomeDone, or OutcomeUnavailable when that did not happen before the deadline.
func (r *reader) BeginRead(deadline time.Time) (engine.ReadTicket, engine.Outcome) {
	if term, ok := r.lease.holds(); ok {
		return engine.ReadTicket{Term: term, Leader: true}, engine.OutcomeDone
	}
	return r.beginSlowRead(deadline)
}

// ReadStands reports, after the value was copied out, whether the ticket was valid throughout.
func (r *reader) ReadStands(t engine.ReadTicket) bool {
	return !t.Leader || r.lease.stands(t.Term)
}

func (r *reader) beginSlowRead(deadline time.Time) (engine.ReadTicket, engine.Outcome) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		current := r.router.route.Load()
		moment := retryEvery
		switch {
		case current.ready:
			// Confirmed by a majority after the call began: nothing can invalidate it.
			if r.lease.confirm(r.wake, timer.C) {
				return engine.ReadTicket{Term: current.term}, engine.OutcomeDone
			}
		case current.leader != "" && current.leader != r.config.NodeID:
			if r.readIndex(current, timer.C) {
				return engine.ReadTicket{Term: current.term}, engine.OutcomeDone
			}
		default:
			moment = math.MaxInt64
		}
		if !time.Now().Before(deadline) || !r.awaitRoute(current, moment, deadline) {
			return engine.ReadTicket{}, engine.OutcomeUnavailable
		}
		timer.Reset(time.Until(deadline))
	}
}

// awaitRoute waits until the route has changed, or a moment; false at the deadline.
func (r *reader) awaitRoute(current *route, moment time.Duration, deadline time.Time) bool {
	left := time.Until(deadline)
	timer := time.NewTimer(min(moment, left))
	defer timer.Stop()
	select {
	case <-current.changed:
		return true
	case <-timer.C:
		return moment < left
	case <-r.closing:
		return false
	}
}

// wake asks raft to send heartbeats now.
func (r *reader) wake() {
	select {
	case r.wakeup <- struct{}{}:
	default:
	}
}

// answerWakeups makes raft send heartbeats when a reader waits for them. VerifyLeader is used only
// for that: its own answer counts acknowledgements of requests that were sent before the call.
func (r *reader) answerWakeups() {
	for {
		select {
		case <-r.wakeup:
			r.raft.VerifyLeader()
		case <-r.closing:
			return
		}
		if !r.pause(r.ctx, time.Millisecond) {
			return
		}
	}
}

// readIndex asks the leader how far it has applied, and waits until this node has, too.
func (r *reader) readIndex(current *route, late <-chan time.Time) bool {
	round := r.index.join(func(q *round) { r.askIndex(current, q) })
	select {
	case <-round.done:
	case <-late:
		return false
	}
	if !round.ok {
		return false
	}
	from := monotonic()
	applied := r.progress.await(r.ctx, late, round.index)
	r.asker.noteWait(time.Duration(monotonic() - from))
	return applied
}

// readIndex coalesces questions to the leader: one is under way, and later callers join the next,
// because the one under way may have been answered before they began.
type readIndex struct {
	mu           sync.Mutex
	asking, next *round
}

type round struct {
	ask   func(*round)
	index uint64
	ok    bool
	done  chan struct{}
}

func (x *readIndex) join(ask func(*round)) *round {
	x.mu.Lock()
	if x.next == nil {
		x.next = &round{ask: ask, done: make(chan struct{})}
	}
	r := x.next
	start := x.asking == nil
	if start {
		x.asking, x.next = r, nil
	}
	x.mu.Unlock()
	if start {
		r.ask(r)
	}
	return r
}

// answer ends a round and begins the next, unless that has happened already.
func (x *readIndex) answer(r *round, index uint64, ok bool) {
	x.mu.Lock()
	if x.asking != r {
		x.mu.Unlock()
		return
	}
	r.index, r.ok = index, ok
	close(r.done)
	x.asking, x.next = x.next, nil
	next := x.asking
	x.mu.Unlock()
	if next != nil {
		next.ask(next)
	}
}

// abandon ends the round under way: the leader has changed.
func (x *readIndex) abandon() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range []*round{x.asking, x.next} {
		if r != nil {
			close(r.done)
		}
	}
	x.asking, x.next = nil, nil
}

func (r *reader) askIndex(current *route, q *round) {
	ms := binary.AppendUvarint(nil, uint64(r.config.RPCTimeout.Milliseconds()))
	err := r.peers.call(current.leader, callReadIndex, r.shard, ms, func(reply []byte, err error) {
		index, n := binary.Uvarint(reply)
		if err == nil && n > 0 {
			r.receiveHint(index, reply[n:])
		}
		r.index.answer(q, index, err == nil && n > 0)
	})
	if err != nil {
		go r.index.answer(q, 0, false) // in a goroutine: answer may ask again
	}
}

// serveReadIndex answers a follower: how far this leader had applied at a moment after the
// question when it certainly was the leader; empty when it is not.
func (r *reader) serveReadIndex(payload []byte, reply func([]byte)) {
	ms, n := binary.Uvarint(payload)
	if n <= 0 {
		reply(nil)
		return
	}
	if term, ok := r.lease.holds(); ok {
		index := r.replica.visible()
		if r.lease.stands(term) { // the machine may have slept since the lease was granted
			reply(r.indexAnswer(index, term))
			return
		}
	}
	wait := min(time.Duration(ms)*time.Millisecond, r.config.RPCTimeout)
	go func() { // ends with the lease when the group closes
		timer := time.NewTimer(wait)
		defer timer.Stop()
		if r.lease.confirm(r.wake, timer.C) {
			reply(r.indexAnswer(r.replica.visible(), r.router.route.Load().term))
			return
		}
		reply(nil)
	}()
}

// Staleness is how old this node's own memory may be: 0 on a leader under lease; on a leader
// without, the time since a majority answered; otherwise the time since this node asked a leader
// for its applied index, and reached it. Time that the machine was asleep counts.
func (r *reader) Staleness() time.Duration {
	if term, ok := r.lease.holds(); ok && r.lease.stands(term) {
		return 0
	}
	if age, ok := r.lease.age(); ok && age != math.MaxInt64 {
		return age
	}
	if at := r.contact.Load(); at != nil {
		return at.until(r.lease.clock())
	}
	return r.silence()
}

// silence is the Staleness of a node that has not caught up with a leader since it started: its
// state is as old as its newest entry, whose stamp may be ahead of the clock. If no entry is
// applied yet, that is decades: the others may have continued for years. The later of
// this node's clock and the others' counts: a node that has just started may know a single other
// clock, which may be wrong. The clock is read once, as for stampMS.
func (r *reader) silence() time.Duration {
	now, t := r.clocks.now().UnixMilli(), r.lease.clock()
	now -= min(0, r.clocks.aheadAt(now))
	sinceEntry := time.Duration(now-r.machine.Stamp())*time.Millisecond + clockLead
	// The others' clocks are kept relative to the monotonic one, which stops during sleep.
	slept := time.Duration(max(0, t.drift-r.opened.drift))
	return max(sinceEntry+slept, r.opened.until(t))
}

// freshEvery is how often a follower asks how far the leader is.
const freshEvery = 100 * time.Millisecond

// keepFresh regularly asks the leader for its applied index and records when this node has applied
// as much. Appends alone do not prove it: one may have been in transit for long, and storing
// entries is not applying them.
func (r *reader) keepFresh() {
	for r.pause(r.ctx, freshEvery) {
		current := r.router.route.Load()
		if current.ready || current.leader == "" || current.leader == r.config.NodeID {
			continue
		}
		asked, timer := r.lease.clock(), time.NewTimer(r.config.RPCTimeout)
		if r.readIndex(current, timer.C) {
			r.contact.note(asked)
		}
		timer.Stop()
	}
}

// commitHint is what a leader says of its log together with the read index: the newest entry that
// it has applied, and the term in which it leads.
type commitHint struct {
	// index is the read index of the same answer.
	index     uint64
	committed place
	term      uint64
}

// newestHint is the leader's newest hint; news signals that there is a newer one.
type newestHint struct {
	atomic.Pointer[commitHint]
	news chan struct{}
}

// indexAnswer is the answer to callReadIndex: the read index, and then a commitHint.
func (r *reader) indexAnswer(index, term uint64) []byte {
	committed := r.progress.at()
	answer := binary.AppendUvarint(make([]byte, 0, 4*binary.MaxVarintLen64), index)
	answer = binary.AppendUvarint(answer, committed.index)
	answer = binary.AppendUvarint(answer, committed.term)
	return binary.AppendUvarint(answer, term)
}

// receiveHint reads the hint behind a read index, if this node is not as far. It ignores a
// malformed one: hints are an optimization.
func (r *reader) receiveHint(index uint64, rest []byte) {
	var numbers [3]uint64
	for i := range numbers {
		number, n := binary.Uvarint(rest)
		if n <= 0 {
			return
		}
		numbers[i], rest = number, rest[n:]
	}
	if r.progress.index.Load() >= index {
		return
	}
	r.hint.Store(&commitHint{index, place{numbers[0], numbers[1]}, numbers[2]})
	select {
	case r.hint.news <- struct{}{}:
	default:
	}
}

const (
	// hintEvery is how soon this node checks again for an entry that the leader has named.
	hintEvery = time.Millisecond
	// hintTries bounds the checks: by then an append has said it.
	hintTries = 100
)

// followHints commits what the leader's answers say is committed, without waiting for the next
// append: an idle leader sends one every CommitTimeout.
func (r *reader) followHints() {
	for {
		select {
		case <-r.hint.news:
		case <-r.closing:
			return
		}
		for range hintTries {
			w := r.hint.Load()
			if r.progress.index.Load() >= w.index {
				break
			}
			r.applyHint(w.committed, w.term)
			if !r.pause(r.ctx, hintEvery) {
				return
			}
			current := r.router.route.Load()
			follows := current.leader != "" && !current.ready && current.term == w.term
			if follows && w.committed.index < w.index {
				r.index.join(func(q *round) { r.askIndex(current, q) }) // it was being applied
			}
		}
	}
}

// applyHint tells raft that an entry is committed, as an empty append of the leader would: raft
// compares the place, and so all before it. An entry that a leader has applied stays
// committed, however late the hint arrives; raft refuses hints of an earlier term.
func (r *reader) applyHint(committed place, term uint64) {
	var entry raft.Log
	address, leader := r.raft.LeaderWithID()
	if committed.term == 0 || leader == "" || string(leader) == r.config.NodeID ||
		r.raft.CurrentTerm() != term ||
		r.store.GetLog(committed.index, &entry) != nil || entry.Term != committed.term {
		return
	}
	head := header()
	head.ID, head.Addr = []byte(leader), r.transport.EncodePeer(leader, address)
	r.transport.deliver(raft.RPC{
		Command: &raft.AppendEntriesRequest{
			RPCHeader: head, Term: term, LeaderCommitIndex: committed.index,
			PrevLogEntry: committed.index, PrevLogTerm: committed.term,
		},
		RespChan: make(chan raft.RPCResponse, 1),
	})
}

// deliver gives raft a request that no node has sent.
func (t *transport) deliver(rpc raft.RPC) {
	select {
	case t.consumer <- rpc:
	case <-t.closing:
	}
}

const (
	// slowApply is how long a follower takes to apply what its leader has applied before it counts
	// as behind, and behindFor is how long it counts as that.
	slowApply = 10 * time.Millisecond
	behindFor = time.Second
	// maxAsked bounds the questions of one node that the leader has not answered yet.
	maxAsked = 32
)

// asker forwards questions to the leader on a node that applies entries so late that the leader
// answers sooner.
type asker struct {
	*core
	router *router

	until   atomic.Int64 // monotonic nanoseconds; 0: this node never was behind
	waiting atomic.Int32 // questions that the leader has not answered yet
}

// noteWait records how long this node took to apply what its leader had applied.
func (a *asker) noteWait(waited time.Duration) {
	if waited >= slowApply {
		a.until.Store(monotonic() + int64(behindFor))
	}
}

// Behind reports whether this node has been slow to apply what its leader had applied.
func (a *asker) Behind() bool {
	until := a.until.Load()
	return until != 0 && monotonic() < until
}

// Ask makes the leader answer a question for the state machine, from a memory that holds every
// write acknowledged before the call. It reports false on a leader, and where no answer came: then
// the caller reads this node's memory after BeginRead. The question may be reused once Ask returns.
func (a *asker) Ask(deadline time.Time, question []byte) ([]byte, bool) {
	leader := a.router.route.Load().leader
	if leader == "" || leader == a.config.NodeID {
		return nil, false
	}
	defer a.waiting.Add(-1)
	if a.waiting.Add(1) > maxAsked {
		return nil, false
	}
	answers := make(chan []byte, 1)
	payload := append(make([]byte, 0, len(question)), question...)
	err := a.peers.call(leader, callAsk, a.shard, payload, func(answer []byte, err error) {
		if err != nil {
			answer = nil
		}
		answers <- append([]byte(nil), answer...)
	})
	if err != nil {
		return nil, false
	}
	timer := time.NewTimer(min(time.Until(deadline), a.config.RPCTimeout))
	defer timer.Stop()
	select {
	case answer := <-answers:
		return answer, len(answer) > 0
	case <-timer.C:
	case <-a.closing:
	}
	return nil, false
}

// serve answers a follower's question; empty if this node does not hold the lease, or its machine
// answers no questions.
func (a *asker) serve(question []byte) []byte {
	answerer, ok := a.machine.(engine.Answerer)
	if !ok {
		return nil
	}
	term, ok := a.lease.holds()
	if !ok {
		return nil
	}
	answer := answerer.Answer(question)
	if !a.lease.stands(term) { // the machine may have slept since the lease was granted
		return nil
	}
	return answer
}
