package torture

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// judge looks for an order that explains what clients saw of each counter.
type judge struct {
	*load
	still     atomic.Bool // nothing that a client sent is on its way any more
	mu        sync.Mutex
	unsettled []*customer // judged, with something open
	undecided []*counter  // whose histories the search did not get through
}

// judge settles what a customer's histories leave open, and checks those of which nothing is open
// any more. A customer with others is among the unsettled, until nothing is on its way.
func (j *judge) judge(ctx context.Context, c *customer) {
	still, open := j.still.Load(), false
	for _, k := range c.counters {
		if !k.clear(still, func(u *usage, what kind) (outcome, bool) {
			return j.resolve(ctx, k, u, what)
		}) {
			return
		}
		switch {
		case k.doubtful() > 0:
			open = true
		case len(k.history) > 0:
			j.checkHistory(k, checkTime)
		}
	}
	if open {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.unsettled = append(j.unsettled, c)
	}
}

// onItsWay is longer than anything can be on its way that clients sent to nodes that are well: a
// correction waits for a read, and then for the log.
const onItsWay = 8 * time.Second

// judgeRest settles what was left open as long as something might be on its way, and checks it.
func (j *judge) judgeRest(ctx context.Context) error {
	if !pause(ctx, onItsWay) {
		return ctx.Err()
	}
	j.still.Store(true)
	rest := j.unsettled
	j.unsettled = nil
	j.Say("%d of %d customers have histories that were open until now", len(rest), len(j.customers))
	return inParallel(rest, judges, func(_ int, c *customer) error {
		j.judge(ctx, c)
		return nil
	})
}

// resolve sends an event of unknown fate again, or takes it back or amends it again, until the
// answer is definite.
func (j *judge) resolve(
	ctx context.Context, k *counter, u *usage, what kind,
) (out outcome, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	call := j.clock()
	answer, err := j.any.Do(ctx, u.request(what))
	out, ok = outcomes[what][answer.Status]
	switch {
	case err != nil && ctx.Err() == context.DeadlineExceeded:
		j.violate(byAnswers, "the fate of %s could not be learnt in %s: %v", u.name, recovery, err)
		return out, false
	case err != nil:
		return out, false
	case !ok:
		j.violate(byAnswers, "%d to the event %s: %s", answer.Status, u.name, answer.Body)
		return out, false
	}
	j.tally(out)
	k.add(judgeClient, u.input(what), call, output{outcome: out, node: "any"}, j.clock())
	return out, true
}

const (
	// checkTime bounds the search for an order that explains one history.
	checkTime = 60 * time.Second
	// restTime bounds all second searches together, when the nodes have nothing to do any more.
	restTime = 3 * time.Minute
)

// checkHistory looks for an order of what was done to a counter that explains every answer. A
// search that ends before it knows has found nothing wrong: it is made once more at the end of the
// run.
func (j *judge) checkHistory(k *counter, limit time.Duration) {
	history := settle(k.history)
	m := model(k.feature)
	result := porcupine.CheckOperationsTimeout(m, history, limit)
	j.mu.Lock()
	j.undecided = slices.DeleteFunc(j.undecided, func(u *counter) bool { return u == k })
	if result == porcupine.Unknown {
		j.undecided = append(j.undecided, k)
	}
	j.mu.Unlock()
	switch result {
	case porcupine.Ok:
		j.counters.Add(1)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.history = nil
		return
	case porcupine.Unknown:
		j.Say("not decided in %s: %s %s, %d operations", limit, k.customer, k.feature.key, len(history))
		return
	}
	file := filepath.Join(j.Dir, k.customer+"-"+k.feature.key+".html")
	_, info := porcupine.CheckOperationsVerbose(m, history, limit)
	if err := porcupine.VisualizePath(m, info, file); err != nil {
		file = err.Error()
	}
	if _, err := os.Stat(file); err == nil {
		file = "see " + file
	}
	j.violate(byHistories, "no order explains what was seen of %s %s: %s", k.customer, k.feature.key,
		file)
}

// decideRest searches once more through the histories that were not decided while nodes and clients
// took the processors, as long as restTime lasts.
func (j *judge) decideRest() {
	until := time.Now().Add(restTime)
	j.mu.Lock()
	rest := slices.Clone(j.undecided)
	j.mu.Unlock()
	// No history is an error: it is decided, or undecided again.
	_ = inParallel(rest, judges, func(_ int, k *counter) error {
		j.checkHistory(k, max(time.Millisecond, min(checkTime, time.Until(until))))
		return nil
	})
}
