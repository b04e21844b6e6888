package cluster

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// instant is a moment on two clocks: since the process began on the monotonic clock, and how far
// the wall clock had run ahead of that. A machine that sleeps stops its monotonic clock (Linux
// CLOCK_MONOTONIC) and moves its wall clock on wake-up, so that between two moments on either side
// of a sleep `drift` differs.
type instant struct {
	mono  int64 // nanoseconds
	drift int64 // nanoseconds
}

// epoch is where monotonic time is counted from.
var epoch = time.Now()

func monotonic() int64 { return int64(time.Since(epoch)) }

func now() instant {
	t := time.Now()
	mono := int64(t.Sub(epoch))
	return instant{mono: mono, drift: t.UnixNano() - epoch.UnixNano() - mono}
}

// driftLimit is how far wall and monotonic clock may part within a lease. NTP slews by at most
// 0.05 %, which is 0.25 ms in a lease of 450 ms; a step of the wall clock costs one lease.
const driftLimit = int64(20 * time.Millisecond)

func (a instant) sameAwake(b instant) bool {
	d := a.drift - b.drift
	return -driftLimit <= d && d <= driftLimit
}

// until is how long it is from one moment to a later one, time asleep included. A step ahead of the
// wall clock counts as a sleep: nothing distinguishes them.
func (a instant) until(b instant) time.Duration {
	return time.Duration(b.mono - a.mono + max(0, b.drift-a.drift))
}

// grant is a lease as readers see it: one value, replaced as a whole.
type grant struct {
	term  uint64
	until int64 // monotonic, nanoseconds
	drift int64
}

// promiseTenths is for how many tenths of the heartbeat timeout a request of this build's leaders
// binds its receiver. A leader sends two to four of them in that time, and so keeps its lease; a
// voter stands no sooner than a dead leader is known to be dead (succession.go), or silent for
// longer than that.
const promiseTenths = 4

// leaseTenths is how many tenths of the promise a lease lasts; one is for clock rates.
var leaseTenths time.Duration = 9

// lease knows until when no other node can have become leader. Per peer it keeps when the newest
// append was SENT that the peer answered with success in the same term: such a peer votes for
// no other node for as long after that as the append asks for. See LEASE.md for the argument.
type lease struct {
	// promise is for how long a follower votes for no other node after a request of this leader.
	// window is 0.9 of that.
	promise, window time.Duration
	// maxPromise is the longest promise that a request may ask for, and what one binds for that names
	// none: a heartbeat timeout.
	maxPromise time.Duration
	self       raft.ServerID
	// voters are the voters of the latest and of the committed configuration.
	voters func() [2][]raft.ServerID
	onHeld func(bool)
	// slept is added to the time that the machine slept; tests set it.
	slept atomic.Int64

	published atomic.Pointer[grant]

	mu      sync.Mutex
	term    uint64 // the term whose reads are allowed: leader, and its barrier is applied
	dead    uint64 // no lease in this term or an earlier one again
	bare    uint64 // the term in which leadership is being handed over: no lease, see forgo
	doubts  int    // requests of a newer term that raft is looking at
	ackTerm uint64
	acks    map[raft.ServerID]instant
	held    bool
	news    broadcast // quorumAck may have moved
}

func newLease(heartbeat time.Duration, self string, onHeld func(bool)) *lease {
	promise := heartbeat / 10 * promiseTenths
	return &lease{
		promise:    promise,
		window:     promise / 10 * leaseTenths,
		maxPromise: heartbeat,
		self:       raft.ServerID(self),
		voters:     func() [2][]raft.ServerID { return [2][]raft.ServerID{} },
		onHeld:     onHeld,
		acks:       make(map[raft.ServerID]instant),
	}
}

// clock is now.
func (l *lease) clock() instant {
	i := now()
	i.drift += l.slept.Load()
	return i
}

// holds is the fast path of a read: one atomic load and a monotonic clock.
func (l *lease) holds() (term uint64, ok bool) {
	g := l.published.Load()
	if g == nil || monotonic() >= g.until {
		return 0, false
	}
	return g.term, true
}

// stands reports whether the lease of a term is valid at this moment, and that the machine did not
// sleep since it was granted.
func (l *lease) stands(term uint64) bool {
	g := l.published.Load()
	if g == nil || g.term != term {
		return false
	}
	t := l.clock()
	return t.mono < g.until && t.sameAwake(instant{drift: g.drift})
}

// begin allows reads in a term: this node leads it and has applied its barrier.
func (l *lease) begin(term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if term > l.dead && term > l.term {
		l.term = term
		l.publish()
	}
}

// end forbids reads in this and every earlier term, for good.
func (l *lease) end(term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kill(term)
}

func (l *lease) kill(term uint64) {
	l.dead = max(l.dead, term)
	if l.term <= l.dead {
		l.term = 0
	}
	l.publish()
	l.news.send()
}

// forgo ends the lease of a term whose leadership is handed over: from here on the others may vote
// for the target. A majority that answers after a read began is still proof, see confirm: a voter
// that answers has not voted in a newer term by then.
func (l *lease) forgo(term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bare = max(l.bare, term)
	l.publish()
}

// ackedAt is when the newest append left that a peer answered in a term; false without one.
func (l *lease) ackedAt(term uint64, peer raft.ServerID) (sent instant, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ackTerm != term {
		return instant{}, false
	}
	sent, ok = l.acks[peer]
	return sent, ok
}

// active is the newest term in which a lease could be held, 0 for none.
func (l *lease) active() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := max(l.term, l.ackTerm); t > l.dead {
		return t
	}
	return 0
}

// doubt suspends the lease while raft looks at a request of a newer term: it may give its vote
// away. settle ends that; newest is the term raft is in afterwards.
func (l *lease) doubt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubts++
	l.publish()
}

func (l *lease) settle(newest uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubts--
	if newest > 0 && newest > l.term {
		l.kill(newest - 1)
		return
	}
	l.publish()
}

// ack records that a peer answered an append of this term that was sent at that moment.
func (l *lease) ack(term uint64, peer raft.ServerID, sent instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if term <= l.dead || term < l.ackTerm {
		return
	}
	if term > l.ackTerm {
		l.ackTerm = term
		clear(l.acks)
	}
	if old, ok := l.acks[peer]; !ok || sent.mono > old.mono {
		l.acks[peer] = sent
		l.publish()
		l.news.send()
	}
}

// refresh publishes the lease again, for a group of one voter, whose only acknowledgement is its
// own.
func (l *lease) refresh() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.publish()
}

// publish states the lease as it is now. The caller holds the lock.
func (l *lease) publish() {
	held := false
	if l.term == 0 || l.doubts > 0 || l.term <= l.bare {
		l.published.Store(nil)
	} else {
		t := l.clock()
		until := l.quorumAck(t) + int64(l.window)
		held = until > t.mono
		l.published.Store(&grant{term: l.term, until: until, drift: t.drift})
	}
	if held != l.held {
		l.held = held
		l.onHeld(held)
	}
}

// never is a moment before every other.
const never = math.MinInt64 / 2

// quorumAck is the newest moment after which a majority, this node included, answered a request
// that was sent then or later. The caller holds the lock.
func (l *lease) quorumAck(t instant) int64 {
	quorum := int64(math.MaxInt64)
	for _, voters := range l.voters() {
		var sent []int64
		for _, v := range voters {
			at := int64(never)
			if v == l.self {
				at = t.mono
			} else if a, ok := l.acks[v]; ok && l.ackTerm == l.term && t.sameAwake(a) {
				at = a.mono
			}
			sent = append(sent, at)
		}
		if len(sent) == 0 {
			return never
		}
		slices.Sort(sent)
		quorum = min(quorum, sent[(len(sent)-1)/2]) // the majority-th newest
	}
	return quorum
}

// age is how long ago quorumAck is; false when this node does not lead a ready term.
func (l *lease) age() (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term == 0 {
		return 0, false
	}
	t := l.clock()
	q := l.quorumAck(t)
	if q == never {
		return math.MaxInt64, true
	}
	return time.Duration(t.mono - q), true
}

// confirm waits until a majority has answered something that was sent after the call began, in
// one and the same term: then no newer leader had acknowledged anything before that. It returns
// false if this node does not lead, or at the deadline.
func (l *lease) confirm(ring func(), deadline <-chan time.Time) bool {
	l.mu.Lock()
	term, start := l.term, l.clock().mono
	if term == 0 {
		l.mu.Unlock()
		return false
	}
	for l.term == term {
		if l.doubts == 0 && l.quorumAck(l.clock()) >= start {
			l.mu.Unlock()
			return true
		}
		news := l.news.next()
		l.mu.Unlock()
		ring()
		select {
		case <-news:
		case <-deadline:
			return false
		}
		l.mu.Lock()
	}
	l.mu.Unlock()
	return false
}

// bond is a node's promise to a leader not to vote for any candidate, itself included, until it
// ends. Only the goroutine that inspects requests reads and writes it.
type bond struct {
	until int64         // monotonic
	lasts time.Duration // what the newest request asks for
	asked chan chan bool
}

func newBond(maximum time.Duration) *bond {
	return &bond{until: monotonic() + int64(maximum), lasts: maximum, asked: make(chan chan bool)}
}

// bondMark begins what a request says of the promise that it asks for, in Leader: raft reads the
// leader's address from Addr, and this field only where that is empty. No address begins so. The
// promise follows, in nanoseconds.
const bondMark = 0

// bondOf is that field of a request.
func bondOf(req *raft.AppendEntriesRequest) *[]byte {
	//lint:ignore SA1019 it is deprecated as the place of an address
	return &req.Leader
}

func appendBond(promise time.Duration) []byte {
	return binary.AppendUvarint([]byte{bondMark}, uint64(promise))
}

// parseBond is the promise that a request asks for. One that does not arrive whole is taken as the
// longest: a lease may rest on it.
func parseBond(said []byte, maximum time.Duration) time.Duration {
	if len(said) < 2 || said[0] != bondMark {
		return maximum
	}
	promise, n := binary.Uvarint(said[1:])
	if n != len(said)-1 || promise == 0 || promise > uint64(maximum) {
		return maximum
	}
	return time.Duration(promise)
}
