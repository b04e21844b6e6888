package load

import (
	"fmt"
	"sync/atomic"
)

// Scenarios that vary checks and single events.
const (
	// ScenarioSimulate asks whether three units more would be allowed.
	ScenarioSimulate Scenario = "simulate"
	// ScenarioMixed asks for decisions 19 times in 20, and records an event the twentieth time.
	ScenarioMixed Scenario = "mixed"
	// ScenarioHot records every event for one customer.
	ScenarioHot Scenario = "hot-customer"
	// ScenarioRepeats sends every event over every connection: one of them counts, whichever is
	// first, and all others have to be told that they repeat it.
	ScenarioRepeats Scenario = "duplicate-storm"
)

// checksInTwenty of twenty requests of ScenarioMixed are checks.
const checksInTwenty = 19

// mixed returns what makes a request of ScenarioMixed.
func (w *worker) mixed(number int) func() (uint64, error) {
	check, event := w.checkTemplate(), w.events(w.eventTemplate(number, 1, false))
	return func() (uint64, error) {
		if w.random.IntN(20) < checksInTwenty {
			return w.check(check)
		}
		return event()
	}
}

// maxRepeated bounds the keys of ScenarioRepeats: who counted which is kept, a bit for each.
const maxRepeated = 1 << 24

// claims are the keys of ScenarioRepeats that were answered as counted.
type claims []atomic.Uint64

// claim notes that a key counted, and reports whether it is the first time.
func (c claims) claim(key uint64) bool {
	bit := uint64(1) << (key % 64)
	return c[key/64].Or(bit)&bit == 0
}

// repeats returns what makes a request of ScenarioRepeats: all connections send the same keys, in
// the same order, and each key has one customer.
func (w *worker) repeats() func() (uint64, error) {
	t := w.eventTemplate(0, 1, false)
	w.customers = make([]uint32, 1)
	next := uint64(0)
	return func() (uint64, error) {
		key := next
		if next++; key >= maxRepeated {
			return 0, fmt.Errorf("more than %d keys on one connection: measure for less long", key)
		}
		w.customers[0] = uint32(key % uint64(w.Run.Customers))
		t.setCustomer(0, uint64(w.customers[0]))
		t.setKey(0, key)
		status, body, err := w.do(t.bytes)
		switch {
		case err != nil:
			w.fateUnknown()
			return 0, err
		case status == 409:
			return 1, nil
		case status != 201:
			w.refused.Add(1)
			return 0, fmt.Errorf("event: %d %.200s", status, body)
		case !w.claimed.claim(key):
			return 0, fmt.Errorf("a key counted twice")
		}
		w.acknowledged[w.customers[0]].Add(1)
		return 1, nil
	}
}
