package outbox

import (
	"time"

	"tollgate/server/provider/webhook"
)

// Slots are deliveries at a time. Endpoints that fail or are slow share slots of their own, so that
// however many there are, and however long they take, the others find theirs free.
const (
	quickSlots = 128
	slowSlots  = 32
	// quickEach is the number of concurrent deliveries to a quick endpoint. One that fails, is
	// slow, or is not known yet gets one.
	quickEach = 16
	// slowAfter is the duration of an attempt from which an endpoint counts as slow.
	slowAfter = 2 * time.Second
)

// slots counts free slots.
type slots struct{ quick, slow int }

// take takes a slot for an endpoint, released by ++; nil when none is free.
func (s *slots) take(p *pace) *int {
	free := &s.quick
	if p.lags() {
		free = &s.slow
	}
	if *free == 0 {
		return nil
	}
	*free--
	return free
}

// pace is this process's knowledge about an endpoint. It is not state: another leader learns it
// anew, one attempt at a time.
type pace struct {
	flying   int
	proven   bool // its newest attempt succeeded
	slow     bool
	failures int // in a row
	resume   time.Time
}

// lags reports whether the endpoint uses the slots of those that fail or are slow.
func (p *pace) lags() bool { return p.slow || p.failures > 0 }

// room is the number of additional deliveries that an endpoint may get. A nil pace is an unknown
// endpoint.
func (p *pace) room(s *slots, now time.Time) int {
	switch {
	case p == nil:
		return min(1, s.quick)
	case p.lags():
		if now.Before(p.resume) {
			return 0
		}
		return min(1-p.flying, s.slow)
	case p.proven:
		return min(quickEach-p.flying, s.quick)
	}
	return min(1-p.flying, s.quick)
}

// learn takes an attempt's result into account. A failure pauses the endpoint: its other messages
// would fail, too, and every attempt is an entry in the log.
func (p *pace) learn(r *webhook.Result, schedule webhook.Schedule, now time.Time) {
	p.slow = r.Took >= slowAfter
	if r.Outcome == webhook.Delivered {
		p.proven, p.failures = true, 0
		return
	}
	p.proven = false
	if now.Before(p.resume) && p.failures > 0 {
		return // several failed together
	}
	// From the schedule's first wait, doubled each time, to its second: 5 s to 5 min.
	pause := schedule[0] << min(p.failures, 10)
	p.failures++
	p.resume = now.Add(min(pause, schedule[1]))
}
