package torture

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"tollgate/cluster"
)

// create makes the next customer.
func (r *run) create(ctx context.Context) (*customer, error) {
	r.mu.Lock()
	name := fmt.Sprintf("c%d", len(r.customers))
	r.customers = append(r.customers, nil)
	place := len(r.customers) - 1
	r.mu.Unlock()
	c, err := create(ctx, r.any, name, operations)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.customers[place] = c
	return c, nil
}

// makeCustomers keeps some customers ready.
func (r *run) makeCustomers(ctx context.Context) {
	for ctx.Err() == nil {
		c, err := r.create(ctx)
		if err != nil {
			if ctx.Err() == nil {
				r.violate(byAnswers, "%v", err)
			}
			return
		}
		select {
		case r.fresh <- c:
		case <-ctx.Done():
		}
	}
}

// replace puts a fresh customer in the place of one that is left in peace.
func (r *run) replace(ctx context.Context, place int, old *customer) {
	r.replacing.Lock()
	defer r.replacing.Unlock()
	if r.active[place].Load() != old {
		return
	}
	select {
	case c := <-r.fresh:
		r.active[place].Store(c)
	case <-ctx.Done():
	}
}

// judge settles what a customer's histories leave open, and checks those of which nothing is open
// any more. A customer with others is among the unsettled, until nothing is on its way.
func (r *run) judge(ctx context.Context, c *customer) {
	still, open := r.still.Load(), false
	for _, k := range c.counters {
		if !k.clear(still, func(u *usage, what kind) (outcome, bool) {
			return r.resolve(ctx, k, u, what)
		}) {
			return
		}
		switch {
		case k.doubtful() > 0:
			open = true
		case len(k.history) > 0:
			r.checkHistory(k, checkTime)
		}
	}
	if open {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.unsettled = append(r.unsettled, c)
	}
}

// onItsWay is longer than anything can be on its way that clients sent to nodes that are well: a
// correction waits for a read, and then for the log.
const onItsWay = 8 * time.Second

// judgeRest settles what was left open as long as something might be on its way, and checks it.
func (r *run) judgeRest(ctx context.Context) error {
	if !pause(ctx, onItsWay) {
		return ctx.Err()
	}
	r.still.Store(true)
	rest := r.unsettled
	r.unsettled = nil
	r.Say("%d of %d customers have histories that were open until now", len(rest), len(r.customers))
	return inParallel(rest, judges, func(_ int, c *customer) error {
		r.judge(ctx, c)
		return nil
	})
}

// resolve sends an event of unknown fate again, or takes it back or amends it again, until the
// answer is definite.
func (r *run) resolve(
	ctx context.Context, k *counter, u *usage, what kind,
) (out outcome, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	call := r.clock()
	answer, err := r.any.Do(ctx, u.request(what))
	out, ok = outcomes[what][answer.Status]
	switch {
	case err != nil && ctx.Err() == context.DeadlineExceeded:
		r.violate(byAnswers, "the fate of %s could not be learnt in %s: %v", u.name, recovery, err)
		return out, false
	case err != nil:
		return out, false
	case !ok:
		r.violate(byAnswers, "%d to the event %s: %s", answer.Status, u.name, answer.Body)
		return out, false
	}
	r.tally(out)
	k.add(judgeClient, u.input(what), call, output{outcome: out, node: "any"}, r.clock())
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
func (r *run) checkHistory(k *counter, limit time.Duration) {
	history := settle(k.history)
	m := model(k.feature)
	result := porcupine.CheckOperationsTimeout(m, history, limit)
	r.mu.Lock()
	r.undecided = slices.DeleteFunc(r.undecided, func(u *counter) bool { return u == k })
	if result == porcupine.Unknown {
		r.undecided = append(r.undecided, k)
	}
	r.mu.Unlock()
	switch result {
	case porcupine.Ok:
		r.counters.Add(1)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.history = nil
		return
	case porcupine.Unknown:
		r.Say("not decided in %s: %s %s, %d operations", limit, k.customer, k.feature.key, len(history))
		return
	}
	file := filepath.Join(r.Dir, k.customer+"-"+k.feature.key+".html")
	_, info := porcupine.CheckOperationsVerbose(m, history, limit)
	if err := porcupine.VisualizePath(m, info, file); err != nil {
		file = err.Error()
	}
	if _, err := os.Stat(file); err == nil {
		file = "see " + file
	}
	r.violate(byHistories, "no order explains what was seen of %s %s: %s", k.customer, k.feature.key,
		file)
}

// decideRest searches once more through the histories that were not decided while nodes and clients
// took the processors, as long as restTime lasts.
func (r *run) decideRest() {
	until := time.Now().Add(restTime)
	r.mu.Lock()
	rest := slices.Clone(r.undecided)
	r.mu.Unlock()
	// No history is an error: it is decided, or undecided again.
	_ = inParallel(rest, judges, func(_ int, k *counter) error {
		r.checkHistory(k, max(time.Millisecond, min(checkTime, time.Until(until))))
		return nil
	})
}

// followEvery is how often a node is asked whether it leads.
const followEvery = 100 * time.Millisecond

// follow watches who leads.
func (r *run) follow(ctx context.Context, p *process) {
	for pause(ctx, followEvery) {
		s, err := r.fleet.status(ctx, p)
		if err != nil || len(s.Groups) == 0 {
			continue
		}
		g := s.Groups[cluster.ShardBilling]
		if g.Role != "leader" || !g.Lease {
			continue
		}
		r.mu.Lock()
		r.terms[g.Term] = true
		r.mu.Unlock()
		r.leader.Store(&s.NodeID)
	}
}
