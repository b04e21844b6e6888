package torture

import (
	"fmt"
	"math"

	"github.com/anishathalye/porcupine"
)

// kind is what an operation does.
type kind uint8

const (
	record   kind = iota // a usage event
	look                 // a linearizable read of what is used
	takeBack             // a usage event is voided
	amend                // a usage event gets another quantity, always the same one
)

// outcome is what came back.
type outcome uint8

const (
	counted   outcome = iota // 201
	atLimit                  // 200: counted, and the limit is reached
	duplicate                // 409
	overLimit                // 402
	unknown                  // no answer, or one that reports an unknown outcome
	read                     // a read that was answered
	voided                   // 200: the event is taken back, now or before
	absent                   // 404: there is no such event
	amended                  // 200: the event has the other quantity, now or before
	gone                     // 400: the event is taken back, and not amended
)

var outcomeNames = [...]string{
	"counted", "counted, limit reached", "duplicate", "over the limit",
	"unknown", "read", "voided", "absent", "amended", "gone",
}

// maxKeys is how many keys one counter sees: the model keeps them as bits.
const maxKeys = 256

// input is what a client asked of one counter.
type input struct {
	kind  kind
	key   int // which of the counter's keys
	units int
	to    int // what the event is amended to, if ever
}

// output is what it learned.
type output struct {
	outcome outcome
	used    int
	allowed bool
	node    string
}

// bits is a set of keys.
type bits [maxKeys / 64]uint64

func (b *bits) has(key int) bool { return b[key/64]>>(key%64)&1 == 1 }
func (b *bits) add(key int)      { b[key/64] |= 1 << (key % 64) }

// state is a counter as the model has it: what is used, which keys were counted, and which of those
// were amended, and taken back.
type state struct {
	used                  int
	keys, amended, voided bits
}

func (s state) with(in input) state {
	s.used += in.units
	s.keys.add(in.key)
	return s
}

func (s state) without(in input) state {
	if s.keys.has(in.key) && !s.voided.has(in.key) {
		s.used -= s.has(in)
		s.voided.add(in.key)
	}
	return s
}

// has is the quantity of an event that was counted.
func (s state) has(in input) int {
	if s.amended.has(in.key) {
		return in.to
	}
	return in.units
}

// amend gives an event its other quantity, where that fits.
func (s state) amend(f feature, in input) (ok bool, after state) {
	after = s
	after.used += in.to - s.has(in)
	after.amended.add(in.key)
	if f.limit > 0 && after.used > max(s.used, f.limit) {
		return false, s
	}
	return true, after
}

// model says how one counter of a feature behaves when one operation follows the other.
func model(f feature) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(before, in, out any) (bool, any) {
			ok, after := step(f, before.(state), in.(input), out.(output))
			return ok, after
		},
		Hash: func(s any) uint64 {
			v := s.(state)
			h := uint64(v.used)
			for i := range v.keys {
				h = (h*0x9e3779b97f4a7c15+v.keys[i])*0x9e3779b97f4a7c15 + v.voided[i]
				h = h*0x9e3779b97f4a7c15 + v.amended[i]
			}
			return h
		},
		DescribeOperation: func(in, out any) string { return describe(in.(input), out.(output)) },
		DescribeState:     func(s any) string { return fmt.Sprint(s.(state).used) },
	}
}

func step(f feature, s state, in input, out output) (bool, state) {
	if in.kind == look {
		return out.used == s.used && out.allowed == (f.limit == 0 || s.used < f.limit), s
	}
	fits := f.limit == 0 || s.used+in.units <= f.limit
	known := s.keys.has(in.key)
	if in.kind == takeBack {
		return out.outcome == unknown || known == (out.outcome == voided), s.without(in)
	}
	if in.kind == amend {
		return stepAmend(f, s, in, out)
	}
	switch out.outcome {
	case counted, atLimit:
		if known || !fits {
			return false, s
		}
		after := s.with(in)
		reached := f.limit > 0 && !f.credits && after.used >= f.limit
		return (out.outcome == atLimit) == reached, after
	case duplicate:
		return known, s
	case overLimit:
		return !known && !fits, s
	default: // unknown: it took effect if it could; last of all where it did not
		if known || !fits {
			return true, s
		}
		return true, s.with(in)
	}
}

// stepAmend is step for an amendment. Of unknown fate, it took effect if it could.
func stepAmend(f feature, s state, in input, out output) (bool, state) {
	known, taken := s.keys.has(in.key), s.voided.has(in.key)
	fits, after := false, s
	if known && !taken {
		fits, after = s.amend(f, in)
	}
	switch out.outcome {
	case amended:
		return fits, after
	case overLimit:
		return known && !taken && !fits, s
	case gone:
		return taken, s
	case absent:
		return !known, s
	default:
		return true, after
	}
}

func describe(in input, out output) string {
	if in.kind == look {
		return fmt.Sprintf("%s: used? → %d, allowed %t", out.node, out.used, out.allowed)
	}
	if in.kind == takeBack {
		return fmt.Sprintf("%s: void key %d → %s", out.node, in.key, outcomeNames[out.outcome])
	}
	if in.kind == amend {
		return fmt.Sprintf("%s: amend key %d, %d to %d → %s", out.node, in.key, in.units, in.to,
			outcomeNames[out.outcome])
	}
	return fmt.Sprintf("%s: key %d, %d units → %s", out.node, in.key, in.units,
		outcomeNames[out.outcome])
}

// never is the end of an operation whose answer no client saw.
const never = math.MaxInt64

// attempt is what a client may have tried more than once.
type attempt struct {
	kind kind
	key  int
}

// settle bounds what the history of one counter leaves open. Where a key was seen to be counted,
// its attempts of unknown fate took effect before that, or not at all: they become one attempt,
// since no more than one of them did. Where a key is known not to be counted, they had no effect.
// The same goes for taking it back, and for amending it; of an event that was taken back no client
// learns whether it was amended before: that took effect until then, or not at all.
func settle(history []porcupine.Operation) []porcupine.Operation {
	seen := make(map[attempt]int64) // to the first moment at which it was known to have happened
	for _, op := range history {
		switch op.Output.(output).outcome {
		case counted, atLimit, duplicate, voided, amended:
			in := op.Input.(input)
			a := attempt{in.kind, in.key}
			if at, ok := seen[a]; !ok || op.Return < at {
				seen[a] = op.Return
			}
		}
	}
	kept := history[:0:0]
	first := make(map[attempt]int) // to the place of its attempt of unknown fate
	for _, op := range history {
		if op.Output.(output).outcome == unknown {
			in := op.Input.(input)
			a := attempt{in.kind, in.key}
			at, ok := seen[a]
			if !ok && in.kind == amend {
				at, ok = seen[attempt{takeBack, in.key}]
			}
			if !ok || op.Call > at {
				continue
			}
			if place, again := first[a]; again {
				kept[place].Call = min(kept[place].Call, op.Call)
				continue
			}
			op.Return = at
			first[a] = len(kept)
		}
		kept = append(kept, op)
	}
	return kept
}
