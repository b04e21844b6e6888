package load

import "fmt"

// ScenarioLimit spends customers' hard limits, one customer after the other, over all connections
// at once: twice as many events are sent for each as the limit allows.
const ScenarioLimit Scenario = "hard-limit"

// maxLimit bounds Config.Limit.
const maxLimit = 1_000_000

// overspent is how many events are sent for one customer, as a multiple of the limit.
const overspent = 2

// spend returns what makes a request of ScenarioLimit. Counted and refused are both answers that
// count for the rate: deciding is the work.
func (w *worker) spend(number int) func() (uint64, error) {
	t := w.eventTemplate(number, 1, false)
	w.customers = make([]uint32, 1)
	next := uint64(0)
	return func() (uint64, error) {
		customer := (w.turn.Add(1) - 1) / (overspent * uint64(w.Limit)) % uint64(w.Run.Customers)
		w.customers[0] = uint32(customer)
		t.setCustomer(0, customer)
		t.setKey(0, next)
		next++
		status, body, err := w.do(t.bytes)
		switch {
		case err != nil:
			w.fateUnknown()
			return 0, err
		case status == 402:
			w.denied[customer].Store(true)
			return 1, nil
		case status != 200 && status != 201:
			w.refused.Add(1)
			return 0, fmt.Errorf("event: %d %.200s", status, body)
		}
		w.acknowledged[customer].Add(1)
		return 1, nil
	}
}

// spentWrongly says what is wrong with how a customer's limit was spent, and nothing when it was
// kept: no unit beyond it counted, and none was refused while it was not reached.
func (r *Run) spentWrongly(n int, used uint64) string {
	if r.Scenario != ScenarioLimit {
		return ""
	}
	limit := uint64(r.Limit)
	most := uint64(r.acknowledged[n].Load()) + uint64(r.unknown[n].Load())
	switch {
	case used > limit:
		return fmt.Sprintf("customer %s: %d counted, beyond the limit of %d", r.customer(n), used, limit)
	case r.denied[n].Load() && most < limit:
		return fmt.Sprintf("customer %s: refused at the limit of %d, but only %d were counted",
			r.customer(n), limit, most)
	}
	return ""
}
