package torture

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"tollgate/cluster"
	api "tollgate/sdk/go"
)

// paddedEvent is the next event of a flood.
func (l *load) paddedEvent() []byte {
	n := l.padded.Add(1)
	return fmt.Appendf(nil, `{"eventIdempotencyKey":"padding-%d","eventName":"calls",`+
		`"customerReferenceId":%q,"occurredAt":%q%s}`, n, paddedCustomer, l.occurredAt, longMeta())
}

// auditor compares what the nodes hold in the end with what the clients saw.
type auditor struct {
	*load
	ledger   *ledger
	spender  *spender
	buyer    *buyer
	mu       sync.Mutex
	invoices []string // that there are in the end
}

// lookBack sees what is left when all is mended: once as it is, and once more after every process
// was killed and started from its disk.
func (a *auditor) lookBack(ctx context.Context) error {
	a.phase("mended: looking back")
	a.fleet.inbox.answers.Store(true)
	err := errors.Join(a.ledger.settle(ctx), a.spender.settle(ctx), a.buyer.settle(ctx))
	if err != nil {
		return err
	}
	for _, again := range []bool{false, true} {
		if again {
			if err := a.spender.sendAgain(ctx); err != nil {
				return err
			}
			a.phase("starting all from their disks")
			for _, p := range a.fleet.nodes {
				if err := a.fleet.kill(p); err != nil {
					return err
				}
			}
			if err := a.fleet.heal(); err != nil {
				return err
			}
		}
		well, cancel := context.WithTimeout(ctx, recovery)
		err := a.fleet.awaitReady(well)
		if err == nil {
			err = a.compareStates(well)
		}
		cancel()
		if err != nil {
			return err
		}
		err = inParallel(a.fleet.nodes, fleetSize, func(i int, p *process) error {
			return errors.Join(a.inspect(ctx, p.id, a.clients[i]), a.ledger.inspect(ctx, p),
				a.spender.inspect(ctx, p.id, a.clients[i]), a.buyer.inspect(ctx, p))
		})
		if err != nil {
			return err
		}
	}
	if err := a.countKeysOnDisk(ctx); err != nil {
		return err
	}
	a.phase("sending everything again")
	if err := a.sendAllAgain(ctx); err != nil {
		return err
	}
	a.phase("closing all periods")
	if err := a.closePeriods(ctx); err != nil {
		return err
	}
	err = inParallel(a.fleet.nodes, fleetSize, func(i int, p *process) error {
		return a.spender.inspectLast(ctx, p.id, a.clients[i])
	})
	if err != nil {
		return err
	}
	if err := a.inspectInbox(ctx); err != nil {
		return err
	}
	well, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	return a.compareStates(well)
}

// inParallel does something with each of a list, some at a time.
func inParallel[T any](list []T, atATime int, do func(i int, x T) error) error {
	problems := make([]error, len(list))
	var next atomic.Int64
	var group sync.WaitGroup
	for range atATime {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(list); i = int(next.Add(1)) - 1 {
				problems[i] = do(i, list[i])
			}
		})
	}
	group.Wait()
	return errors.Join(problems...)
}

// compareStates waits until all nodes have applied the same entries, and compares their states.
func (a *auditor) compareStates(ctx context.Context) error {
	for {
		index, hash, same := uint64(0), "", true
		for i, p := range a.fleet.nodes {
			s, err := a.fleet.status(ctx, p)
			if err != nil || len(s.Groups) == 0 {
				same = false
				break
			}
			g := s.Groups[cluster.ShardBilling]
			if i == 0 {
				index, hash = g.StateIndex, g.StateHash
			}
			same = same && index == g.StateIndex
			if same && hash != g.StateHash {
				a.violate(byStates, "%s and %s differ after entry %d: state %s and %s",
					a.fleet.nodes[0].id, p.id, index, hash, g.StateHash)
				return nil
			}
		}
		if same {
			return nil
		}
		if !pause(ctx, 50*time.Millisecond) {
			return errors.New("torture: the nodes do not come to the same entry")
		}
	}
}

// inspect compares, at one node, every counter, pool and list of events with what is known.
func (a *auditor) inspect(ctx context.Context, node string, client *api.Client) error {
	for _, c := range a.customers {
		if c == nil {
			continue
		}
		sums, err := a.inspectEvents(ctx, node, client, c)
		if err != nil {
			return err
		}
		for i, k := range c.counters {
			got, err := client.Check(ctx, c.name, k.feature.key)
			if err != nil {
				return err
			}
			used := got.Usage.Used.String()
			switch {
			case used != strconv.Itoa(sums[i]):
				a.violate(byCounters, "%s says %s of %s are used by %s, and its events add up to %d",
					node, used, k.feature.key, c.name, sums[i])
			case k.limit > 0 && sums[i] > k.limit:
				a.violate(byCounters, "%s: %d of %s are used by %s, past the limit of %d",
					node, sums[i], k.feature.key, c.name, k.limit)
			}
		}
		p, err := a.pool(ctx, client, c.name)
		if err != nil {
			return err
		}
		if !p.conserved() || p.TotalConsumed != tokenWeight*sums[tokens] {
			a.violate(byCredits, "%s: credits of %s: %+v, and %d tokens are used", node, c.name, p,
				sums[tokens])
		}
	}
	return nil
}

// inspectEvents lists a customer's usage events: what was acknowledged is there, once, and nothing
// that was not sent. It returns the units of each counter.
func (a *auditor) inspectEvents(ctx context.Context, node string, client *api.Client, c *customer,
) (sums [len(features)]int, err error) {
	listed, err := listEvents(ctx, client, c.name)
	if err != nil {
		return sums, err
	}
	for i, k := range c.counters {
		for _, u := range k.usages() {
			n, gone := listed[u.name].times, listed[u.name].voided
			delete(listed, u.name)
			if n == 1 && !gone {
				sums[i] += u.left()
			}
			switch {
			case n == 1 && gone != u.voided:
				a.violate(byListings, "%s lists the event %s as taken back: %t, and it should be %t", node,
					u.name, gone, u.voided)
			case n > 1:
				a.violate(byListings, "%s lists the event %s %d times", node, u.name, n)
			case u.counted && n == 0:
				a.violate(byListings, "%s does not list the event %s, which was acknowledged", node, u.name)
			case !u.counted && n == 1:
				a.violate(byListings, "%s lists the event %s, which was refused for good", node, u.name)
			}
		}
	}
	for name := range listed {
		a.violate(byListings, "%s lists the event %s, which was never sent", node, name)
	}
	return sums, nil
}

// listing is how an event is listed: how often, and whether as taken back.
type listing struct {
	times  int
	voided bool
}

// listEvents lists a customer's usage events by key.
func listEvents(ctx context.Context, client *api.Client, customer string,
) (map[string]listing, error) {
	found := make(map[string]listing)
	filter := url.Values{"kind": {"usage"}, "limit": {"1000"}}
	for e, err := range client.Events(ctx, customer, filter) {
		if err != nil {
			return nil, fmt.Errorf("torture: list events: %w", err)
		}
		key := e.EventIdempotencyKey
		found[key] = listing{found[key].times + 1, !e.VoidedAt.IsZero()}
	}
	return found, nil
}

// again is how many events are sent again in one request.
const again = 2000

// sendAllAgain repeats every event that was counted: each is a duplicate.
func (a *auditor) sendAllAgain(ctx context.Context) error {
	var bodies [][]byte
	var names []string
	flush := func() error {
		err := a.sendBatch(ctx, bodies, names, http.StatusConflict)
		bodies, names = bodies[:0], names[:0]
		return err
	}
	for _, c := range a.customers {
		if c == nil {
			continue
		}
		for _, k := range c.counters {
			for _, u := range k.usages() {
				if u.counted {
					bodies, names = append(bodies, u.body), append(names, u.name)
				}
			}
		}
		if len(bodies) >= again {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return a.sendBallast(ctx, http.StatusConflict)
}
