package server

import (
	"sync"
	"time"

	"tollgate/engine/fair"
)

// turns bounds the requests with large bodies that are carried out at a time. The others wait, each
// flow's in its own lane, and the lanes take turns. Reading thousands of events keeps a core busy
// for milliseconds, and a single event would wait behind all that came before.
type turns struct {
	mu     sync.Mutex
	places *fair.Share
	lanes  fair.Lanes[*waiter]
	// waiting is how many wait, ended how many turns have ended since, rate how many did in each
	// second of the span before.
	waiting, ended int
	since          time.Time
	rate           float64
}

// waiter is a request that waits for its turn.
type waiter struct {
	flow   fair.Flow
	weight int
	turns  int           // how many it wants
	turn   chan struct{} // closed when it has come
	gone   bool
}

// turnsSpan is over what the rate of turns is measured.
const turnsSpan = time.Second

func newTurns(places int) *turns { return &turns{places: fair.NewShare(places)} }

// await waits for turns of a flow; where they do not come in time, it says after how long to ask
// again.
func (t *turns) await(
	f fair.Flow, weight, turns int, patience time.Duration,
) (ok bool, after time.Duration) {
	t.mu.Lock()
	if !t.lanes.Waits(f) && t.places.Take(f, weight, turns) == fair.RoomTaken {
		t.mu.Unlock()
		return true, 0
	}
	w := &waiter{flow: f, weight: weight, turns: turns, turn: make(chan struct{})}
	t.lanes.Push(f, weight, w)
	t.waiting++
	t.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.turn:
		return true, 0
	case <-timer.C:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-w.turn: // it came at the last moment
		return true, 0
	default:
	}
	w.gone = true
	t.waiting--
	after = time.Second
	if t.rate > 0 {
		after = max(after, time.Duration(float64(t.waiting)/t.rate*float64(time.Second)))
	}
	return false, min(after, 30*time.Second)
}

// end gives back turns of a flow.
func (t *turns) end(f fair.Flow, turns int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.places.Give(f, turns)
	t.ended++
	if span := time.Since(t.since); span >= turnsSpan {
		t.rate = float64(t.ended) / span.Seconds()
		t.since, t.ended = time.Now(), 0
	}
	for passed := 0; passed < t.lanes.Len(); {
		took, lanes := false, t.lanes.Len()
		t.lanes.FillOne(1, func(w *waiter, _ int) (int, bool) {
			switch {
			case w.gone:
				return 0, true
			case took || t.places.Take(w.flow, w.weight, w.turns) != fair.RoomTaken:
				return 0, false
			}
			took = true
			t.waiting--
			close(w.turn)
			return 1, true
		})
		switch {
		case took:
			passed = 0
		case t.lanes.Len() == lanes: // else all in that lane had given up: another is first now
			passed++
		}
	}
}
