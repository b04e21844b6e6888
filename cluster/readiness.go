package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// readyStaleness is how far behind a follower may be and still be ready.
	readyStaleness = 2 * time.Second
	// readyEvery is how often a node checks its readiness, in addition to requests for it.
	readyEvery = 250 * time.Millisecond
	// diskSilence is how long the disk may take for a change: a tenth of a second is long, and
	// StoreTimeout ends the process.
	diskSilence = 2 * time.Second
)

// patience is how long a cause must last before a node that was ready reports it (after), and how
// long it must be gone before the node is ready again (calm), so a cause that comes and goes counts
// as one that lasts. A cause that is not listed counts at once and ends at once.
var patience = map[Cause]struct{ after, calm time.Duration }{
	// An election takes about a second, on all nodes at the same time: requests wait for it. Were
	// all nodes taken out of a load balancer meanwhile, they would be refused.
	CauseNoLeader: {after: 3 * time.Second, calm: time.Second},
	// A leader that ceases to lead knows for a moment neither.
	CauseNotCaughtUp: {after: time.Second, calm: time.Second},
	// With readyStaleness this is as long as for want of a leader, which comes with it.
	CauseBehind:           {after: time.Second, calm: time.Second},
	CauseClockNotCompared: {after: time.Second, calm: time.Second},
	// These are at a threshold: a value that swings around it is on the wrong side of it.
	CauseClockOff:   {calm: 5 * time.Second},
	CauseDiskLow:    {calm: 5 * time.Second},
	CauseDiskSilent: {calm: 5 * time.Second},
}

// readiness remembers how long each cause has lasted. It reads no clock: callers pass the time.
type readiness struct {
	mu     sync.Mutex
	served bool // it was ready once
	spells []spell
}

// spell is the time during which a cause lasted, without a gap as long as its calm.
type spell struct {
	reason      Reason // as it was last seen
	since, seen int64  // monotonic
}

// judge records the reasons found now and returns those that count. Before a node has been ready
// for the first time everything counts: it is not to be sent requests too early.
func (r *readiness) judge(now int64, found []Reason) []Reason {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.served {
		r.served = len(found) == 0
		return found
	}
	for _, reason := range found {
		i := slices.IndexFunc(r.spells, func(s spell) bool {
			return s.reason.Cause == reason.Cause && s.reason.Group == reason.Group
		})
		if i < 0 {
			i = len(r.spells)
			r.spells = append(r.spells, spell{since: now})
		}
		r.spells[i].reason, r.spells[i].seen = reason, now
	}
	r.spells = slices.DeleteFunc(r.spells, func(s spell) bool {
		return s.seen != now && now-s.seen >= int64(patience[s.reason.Cause].calm)
	})
	slices.SortFunc(r.spells, func(a, b spell) int {
		order := Causes()
		return cmp.Or(
			slices.Index(order, a.reason.Cause)-slices.Index(order, b.reason.Cause),
			cmp.Compare(a.reason.Group, b.reason.Group))
	})
	var counts []Reason
	for _, s := range r.spells {
		if now-s.since < int64(patience[s.reason.Cause].after) {
			continue
		}
		if s.seen != now {
			s.reason.Text += ", until a moment ago"
		}
		counts = append(counts, s.reason)
	}
	return counts
}

// health reports this node's condition.
type health struct {
	*base
	handshaker *handshaker
	peering    *peering
	versions   *versions
	readiness  readiness
}

// reasons are what keeps this node from being ready at this moment.
func (n *health) reasons() []Reason {
	var why []Reason
	add := func(cause Cause, format string, args ...any) {
		why = append(why, Reason{Cause: cause, Text: fmt.Sprintf(format, args...)})
	}
	if cause, text := n.standing(); cause != "" {
		add(cause, "%s", text)
	}
	for _, g := range n.groups {
		why = append(why, g.reasons()...)
	}
	if !n.clocks.sure() {
		add(CauseClockNotCompared, "the clock could not be compared with a majority of the voters'")
	}
	if n.clocks.wrong() {
		add(CauseClockOff, "clock is %d ms away from the median of the nodes' clocks",
			n.clocks.ahead())
	}
	if n.disk.low.Load() {
		add(CauseDiskLow, "%d MiB of disk are free, and %d are to stay: this node should not lead",
			n.disk.free.Load()>>20, n.disk.need>>20)
	}
	if what, waited := n.disk.oldest(); waited > diskSilence {
		add(CauseDiskSilent, "the disk has not answered for %s: %s",
			waited.Round(time.Second/10), what)
	}
	return why
}

// NotReady is why this node should not be sent requests; nil when it may.
func (n *health) NotReady() []Reason { return n.readiness.judge(monotonic(), n.reasons()) }

// watchReadiness records how long reasons last, also between requests, and logs when the node
// becomes ready or stops being ready.
func (n *health) watchReadiness() {
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	ready := false
	for {
		select {
		case <-tick.C:
		case <-n.closing:
			return
		}
		why := n.NotReady()
		if ready == (len(why) == 0) {
			continue
		}
		if ready = !ready; ready {
			n.config.Log.Info("node is ready")
			continue
		}
		n.config.Log.Warn("node is not ready: requests should go to others", "cause", why[0].Cause,
			"reasons", Words(why))
	}
}

// standing returns the cause if this node is not a member, or is about to stop.
func (n *health) standing() (Cause, string) {
	if n.Billing().retired.Load() {
		return CauseStopping, "about to stop"
	}
	p, ok := n.member(n.config.NodeID)
	switch {
	case n.waiting():
		return CauseNotJoined,
			"waits to be joined: run `tollgate cluster join` on a node of the cluster"
	case !ok || p.in != [2]bool{true, true}:
		return CauseRemoved, "was removed from the cluster, or is being removed"
	}
	if err := n.handshaker.notMember.Load(); err != nil {
		return CauseRemoved, (*err).Error() + ": it was removed, or has just been joined"
	}
	return "", ""
}
