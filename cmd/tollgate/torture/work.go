package torture

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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
				r.violate("%v", err)
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

// judge settles what a customer's histories leave open, and checks them.
func (r *run) judge(ctx context.Context, c *customer) {
	for _, k := range c.counters {
		for _, what := range []kind{takeBack, amend, record} { // in this order: the first make room
			for _, u := range k.doubts(what) {
				if !r.resolve(ctx, k, u, what) {
					return
				}
			}
		}
	}
	for _, k := range c.counters {
		r.checkHistory(k)
	}
}

// judgeClient is the client that judge appears as in histories.
const judgeClient = workers

// resolve sends an event of unknown fate again, or takes it back or amends it again, until the
// answer is definite.
func (r *run) resolve(ctx context.Context, k *counter, u *usage, what kind) bool {
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	call := r.clock()
	answer, err := r.any.Do(ctx, u.request(what))
	out, ok := outcomes[what][answer.Status]
	switch {
	case err != nil && ctx.Err() == context.DeadlineExceeded:
		r.violate("the fate of %s could not be learnt in %s: %v", u.name, recovery, err)
		return false
	case err != nil:
		return false
	case !ok:
		r.violate("%d to the event %s: %s", answer.Status, u.name, answer.Body)
		return false
	}
	r.tally(out)
	k.add(judgeClient, u.input(what), call, output{outcome: out, node: "any"}, r.clock())
	return true
}

// checkTime bounds the search for an order that explains one history.
const checkTime = 60 * time.Second

// checkHistory looks for an order of what was done to a counter that explains every answer.
func (r *run) checkHistory(k *counter) {
	history := settle(k.history)
	m := model(k.feature)
	result := porcupine.CheckOperationsTimeout(m, history, checkTime)
	if result == porcupine.Ok {
		r.counters.Add(1)
		k.mu.Lock()
		k.history = nil
		k.mu.Unlock()
		return
	}
	file := filepath.Join(r.Dir, k.customer+"-"+k.feature.key+".html")
	_, info := porcupine.CheckOperationsVerbose(m, history, checkTime)
	if err := porcupine.VisualizePath(m, info, file); err != nil {
		file = err.Error()
	}
	if _, err := os.Stat(file); err == nil {
		file = "see " + file
	}
	r.violate("no order explains what was seen of %s %s (%s): %s",
		k.customer, k.feature.key, result, file)
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
