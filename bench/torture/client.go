package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	api "tollgate/sdk/go"
)

// timeouts are how long clients wait for an answer: some give up early, so that they are there
// again while a node is paused, others see late answers.
var timeouts = [...]time.Duration{
	300 * time.Millisecond, 700 * time.Millisecond, 2 * time.Second, 7 * time.Second,
}

const (
	eventsPath = "/api/v1/client/events"
	checksPath = "/api/v1/client/entitlements/"
)

// work is one client: it does one operation after the other, at any node, until ctx ends.
func (l *load) work(ctx context.Context, id int, random *rand.Rand) {
	for ctx.Err() == nil {
		place := random.IntN(len(l.active))
		c := l.active[place].Load()
		if !c.take() {
			l.replace(ctx, place, c)
			continue
		}
		l.operate(ctx, id, random, c)
		if c.give() {
			l.retired <- c
		}
	}
}

// operate does one operation.
func (l *load) operate(ctx context.Context, id int, random *rand.Rand, c *customer) {
	node := l.fleet.place(random)
	ctx, cancel := context.WithTimeout(ctx, timeouts[random.IntN(len(timeouts))])
	defer cancel()
	k := c.counters[random.IntN(len(c.counters))]
	switch dice := random.IntN(100); {
	case dice < 45:
		if u := l.newUsage(k, 1+random.IntN(3), 1+random.IntN(3)); u != nil {
			l.send(ctx, id, node, k, u, record)
			return
		}
		l.look(ctx, id, node, k)
	case dice < 60:
		if u := k.oldUsage(random); u != nil {
			l.send(ctx, id, node, k, u, record)
		}
	case dice < 64:
		if u := k.oldUsage(random); u != nil {
			l.send(ctx, id, node, k, u, takeBack)
		}
	case dice < 69:
		if u := k.oldUsage(random); u != nil {
			l.send(ctx, id, node, k, u, amend)
		}
	case dice < 90:
		l.look(ctx, id, node, k)
	case dice < 95:
		l.lookAtCredits(ctx, id, node, c)
	default:
		l.lookStale(ctx, node, k)
	}
}

// maxOpen is how many events of a counter may be open at a time: the search for an order that
// explains a history grows with the number of their subsets.
const maxOpen = 6

// newUsage makes a usage event that was never sent; nil when the counter has seen enough of them,
// or too many are open. An amendment gives it another quantity, which is never two: what becomes of
// attempts of unknown fate does not depend on their order.
func (l *load) newUsage(k *counter, units, more int) *usage {
	k.mu.Lock()
	defer k.mu.Unlock()
	open := 0
	for _, u := range k.keys {
		if u.open() {
			open++
		}
	}
	if len(k.keys) == maxKeys || open >= maxOpen {
		return nil
	}
	u := &usage{key: len(k.keys), units: units, to: (units + more) % 4, sending: 1}
	u.name = fmt.Sprintf("%s-%s-%d", k.customer, k.feature.key, u.key)
	meta := ""
	if u.key%wordy == 0 {
		meta = longMeta()
	}
	u.body = fmt.Appendf(nil, `{"eventIdempotencyKey":%q,"eventName":%q,"customerReferenceId":%q,`+
		`"usageUnits":%d,"occurredAt":%q%s}`,
		u.name, k.feature.key, k.customer, units, l.occurredAt, meta)
	k.keys = append(k.keys, u)
	return u
}

// oldUsage is an event that was sent before, or is being sent, and certainly an open one where
// there are too many.
func (k *counter) oldUsage(random *rand.Rand) *usage {
	k.mu.Lock()
	defer k.mu.Unlock()
	var choice []*usage
	open := 0
	for _, u := range k.keys {
		if u.open() {
			open++
			choice = append(choice, u)
		}
	}
	if open < maxOpen {
		choice = k.keys
	}
	if len(choice) == 0 {
		return nil
	}
	u := choice[random.IntN(len(choice))]
	u.sending++
	return u
}

// sent ends an attempt.
func (k *counter) sent(u *usage) {
	k.mu.Lock()
	defer k.mu.Unlock()
	u.sending--
}

func (u *usage) request(k kind) api.Request {
	switch k {
	case takeBack:
		return api.Request{Method: "POST", Path: eventsPath + "/" + u.name + "/void"}
	case amend:
		return api.Request{
			Method: "POST", Path: eventsPath + "/" + u.name + "/amend",
			Body: fmt.Appendf(nil, `{"usageUnits":%d}`, u.to),
		}
	}
	return api.Request{Method: "POST", Path: eventsPath, Body: u.body}
}

// send makes one attempt.
func (l *load) send(ctx context.Context, id, node int, k *counter, u *usage, what kind) {
	defer k.sent(u)
	in := u.input(what)
	out := output{outcome: unknown, node: nodeID(node)}
	call := l.clock()
	answer, err := l.clients[node].Try(ctx, u.request(what))
	end := l.clock()
	switch {
	case err != nil:
		end = never
	case answer.Status == 503 && !strings.Contains(string(answer.Body), `"outcome_unknown"`):
		l.refused.Add(1)
		return // certainly nothing happened
	case answer.Status == 503:
		end = never
	default:
		var ok bool
		if out.outcome, ok = outcomes[what][answer.Status]; !ok {
			l.violate(byAnswers, "%s answered %d to the event %s: %s", out.node, answer.Status, u.name,
				answer.Body)
			return
		}
	}
	l.tally(out.outcome)
	k.add(id, in, call, out, end)
}

// input is a kind of operation on the event.
func (u *usage) input(what kind) input {
	return input{kind: what, key: u.key, units: u.units, to: u.to}
}

// outcomes say what a status means, of an event, of taking it back and of amending it.
var outcomes = [...]map[int]outcome{
	record:   {201: counted, 200: atLimit, 409: duplicate, 402: overLimit},
	takeBack: {200: voided, 404: absent},
	amend:    {200: amended, 400: gone, 402: overLimit, 404: absent},
}

// look makes a linearizable check. One that is refused says nothing.
func (l *load) look(ctx context.Context, id, node int, k *counter) {
	call := l.clock()
	got, ok := l.check(ctx, node, k, nil)
	if !ok {
		return
	}
	used, err := strconv.Atoi(got.Usage.Used.String())
	if err != nil {
		l.violate(byAnswers, "a check of %s says used %q", k.customer, got.Usage.Used)
		return
	}
	out := output{outcome: read, used: used, allowed: got.IsAllowed, node: nodeID(node)}
	l.countRead(out.node)
	k.add(id, input{kind: look}, call, out, l.clock())
}

func (l *load) check(ctx context.Context, node int, k *counter, header map[string]string,
) (got api.Decision, ok bool) {
	answer, err := l.clients[node].Try(ctx, api.Request{
		Method: "GET", Path: checksPath + k.customer + "/" + k.feature.key, Header: header,
	})
	if err != nil || answer.Status == 503 {
		return got, false
	}
	if err = answer.Data(&got); err != nil {
		l.violate(byAnswers, "a check of %s at %s: %v", k.customer, nodeID(node), err)
		return got, false
	}
	return got, true
}

// countRead counts a linearizable read that another node than the leader answered.
func (l *load) countRead(node string) {
	l.reads.Add(1)
	if leader := l.fleet.leader.Load(); leader != nil && *leader != "" && *leader != node {
		l.followerReads.Add(1)
	}
}

// lookStale makes a stale read: it may be old, but not from the future.
func (l *load) lookStale(ctx context.Context, node int, k *counter) {
	got, ok := l.check(ctx, node, k, map[string]string{"X-Read-Consistency": "stale"})
	if !ok {
		return
	}
	sum := 0
	for _, u := range k.usages() {
		sum += max(u.units, u.to)
	}
	if used, err := strconv.Atoi(got.Usage.Used.String()); err == nil && used > sum {
		l.violate(byStaleReads, "a stale read of %s %s says %d are used, and %d were ever sent",
			k.customer, k.feature.key, used, sum)
	}
	l.staleReads.Add(1)
}

// pool is a customer's credit pool as the API shows it.
type pool struct {
	Balance, Held, TotalGranted, TotalConsumed, TotalExpired, TotalReversed int
}

var errPools = errors.New("torture: want one credit pool")

func (l *load) pool(ctx context.Context, client *api.Client, name string) (pool, error) {
	answer, err := client.Try(ctx, api.Request{
		Method: "GET", Path: "/api/v1/client/customers/" + name,
	})
	if err != nil {
		return pool{}, err
	}
	var got struct {
		CreditPools []pool `json:"creditPools"`
	}
	if err = answer.Data(&got); err != nil {
		return pool{}, err
	}
	if len(got.CreditPools) != 1 {
		return pool{}, errPools
	}
	return got.CreditPools[0], nil
}

// lookAtCredits reads a pool, which says how many tokens are used, too.
func (l *load) lookAtCredits(ctx context.Context, id, node int, c *customer) {
	call := l.clock()
	p, err := l.pool(ctx, l.clients[node], c.name)
	end := l.clock()
	var refused *api.Error
	switch {
	case errors.As(err, &refused) && refused.Status != 503 || errors.Is(err, errPools):
		l.violate(byAnswers, "getCustomer %s: %v", c.name, err)
		return
	case err != nil:
		return
	}
	k := c.counters[tokens]
	out := output{
		outcome: read, used: p.TotalConsumed / tokenWeight, node: nodeID(node),
		allowed: p.Balance > 0,
	}
	if !p.conserved() {
		l.violate(byCredits, "credits of %s do not add up: %+v", c.name, p)
	}
	l.countRead(out.node)
	k.add(id, input{kind: look}, call, out, end)
}

// conserved reports whether no credits came from nowhere or vanished.
func (p pool) conserved() bool {
	return p.TotalGranted == poolCredits && p.TotalConsumed%tokenWeight == 0 && p.Balance >= 0 &&
		p.TotalGranted-p.TotalConsumed-p.TotalExpired-p.TotalReversed == p.Balance
}
