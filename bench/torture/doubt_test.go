package torture

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// world is a product as it should be, some of whose clients see no answer: what they asked for may
// have happened, may happen later, or never.
type world struct {
	counter
	state
	now  int64
	late []input // what is on its way
}

func newWorld(limit int) *world {
	return &world{counter: counter{feature: feature{key: "seats", limit: limit}}}
}

func (w *world) event(units, to int) *usage {
	u := &usage{key: len(w.counter.keys), units: units, to: to}
	w.counter.keys = append(w.counter.keys, u)
	return u
}

// carryOut does what was asked for, and says what the answer would be.
func (w *world) carryOut(in input) (out outcome) {
	known, taken := w.state.keys.has(in.key), w.voided.has(in.key)
	fits := w.limit == 0 || w.used+in.units <= w.limit
	switch {
	case in.kind == record && known:
		return duplicate
	case in.kind == record && !fits:
		return overLimit
	case in.kind == record:
		w.state = w.with(in)
		if w.limit > 0 && w.used >= w.limit {
			return atLimit
		}
		return counted
	case !known:
		return absent
	case in.kind == takeBack:
		w.state = w.without(in)
		return voided
	case taken:
		return gone
	}
	if ok, after := w.state.amend(w.feature, in); ok {
		w.state = after
		return amended
	}
	return overLimit
}

// ask is an operation that is answered.
func (w *world) ask(client int, u *usage, what kind) outcome {
	call := w.tick()
	out := w.carryOut(u.input(what))
	w.add(client, u.input(what), call, output{outcome: out}, w.tick())
	return out
}

// lose is an operation whose answer nobody sees; where it is on its way it happens at arrive.
func (w *world) lose(u *usage, what kind, onItsWay bool) {
	w.add(0, u.input(what), w.tick(), output{outcome: unknown}, never)
	if onItsWay {
		w.late = append(w.late, u.input(what))
	}
}

// arrive lets what is on its way happen.
func (w *world) arrive(i int) {
	in := w.late[i]
	w.late = append(w.late[:i:i], w.late[i+1:]...)
	w.carryOut(in)
	w.tick()
}

func (w *world) tick() int64 { w.now++; return w.now }

func (w *world) judged(u *usage, what kind) (outcome, bool) {
	return w.ask(judgeClient, u, what), true
}

// agrees compares what is known with what is so.
func (w *world) agrees(t require.TestingT) {
	sum := 0
	for _, u := range w.counter.keys {
		require.Equal(t, w.state.keys.has(u.key), u.counted, "event %d is counted", u.key)
		require.Equal(t, w.voided.has(u.key), u.voided, "event %d is taken back", u.key)
		sum += u.left()
	}
	require.Equal(t, w.used, sum)
	require.True(t, porcupine.CheckOperations(model(w.feature), settle(w.history)))
}

// An event whose recording got no answer is taken back, without an answer either. That is on its
// way still when the judge finds no such event, and records it.
func TestAVoidThatIsLateIsKnown(t *testing.T) {
	w := newWorld(0)
	u := w.event(2, 1)
	w.lose(u, record, false)
	w.lose(u, takeBack, true)
	require.True(t, w.clear(false, func(u *usage, what kind) (outcome, bool) {
		if len(w.history) == 4 { // the judge has been told of no event, and recorded it
			w.arrive(0)
		}
		return w.judged(u, what)
	}))
	require.Zero(t, w.doubtful())
	require.True(t, u.voided)
	w.agrees(t)
}

// What is too much to count is counted later, where another event makes room before that. So it is
// an open question, as long as that may be on its way.
func TestAnEventThatIsLateIsNotRefusedForGood(t *testing.T) {
	for _, makesRoom := range []kind{takeBack, amend} {
		w := newWorld(3)
		first, second := w.event(3, 1), w.event(2, 3)
		w.lose(first, record, false)
		w.lose(first, makesRoom, true)
		w.lose(second, record, true)
		require.Equal(t, atLimit, w.carryOut(first.input(record)))
		require.Equal(t, overLimit, w.ask(judgeClient, second, record))
		w.refused(second, record, overLimit, false)
		require.True(t, second.doubtful)
		w.arrive(0)
		w.arrive(0)
		require.True(t, w.clear(false, w.judged))
		require.Zero(t, w.doubtful())
		require.True(t, second.counted)
		w.agrees(t)
	}
}

// Whatever is on its way, and whenever it comes: what is taken for known is so in the end, and
// once nothing is on its way, everything is known.
func TestWhatIsSettledStaysSo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.SampledFrom([]int{0, 3, 5}).Draw(t, "limit"))
		for range rapid.IntRange(1, 3).Draw(t, "events") {
			units := rapid.IntRange(1, 3).Draw(t, "units")
			w.event(units, (units+rapid.IntRange(1, 3).Draw(t, "more"))%4)
		}
		arrivals := func() {
			for len(w.late) > 0 && rapid.Bool().Draw(t, "one more comes") {
				w.arrive(rapid.IntRange(0, len(w.late)-1).Draw(t, "which"))
			}
		}
		for range rapid.IntRange(1, 2).Draw(t, "rounds") {
			for _, u := range w.counter.keys {
				for _, what := range []kind{record, takeBack, amend} {
					switch rapid.IntRange(0, 3).Draw(t, "fate") {
					case 0:
						w.ask(0, u, what)
					case 1, 2:
						w.lose(u, what, true)
					}
					arrivals()
				}
			}
		}
		ask := func(u *usage, what kind) (outcome, bool) {
			arrivals()
			return w.judged(u, what)
		}
		require.True(t, w.clear(false, ask))
		for len(w.late) > 0 {
			w.arrive(rapid.IntRange(0, len(w.late)-1).Draw(t, "which"))
		}
		if w.doubtful() > 0 {
			require.True(t, w.clear(true, ask))
		}
		require.Zero(t, w.doubtful())
		w.agrees(t)
	})
}
