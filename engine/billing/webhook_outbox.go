package billing

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"tollgate/engine"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// Bounds of the outbox.
const (
	// MaxPendingDeliveries is how many messages wait for one endpoint; a further one is skipped,
	// and counted. Closing a period for 100,000 subscriptions whose invoices nobody has paid makes
	// four for each.
	MaxPendingDeliveries = 500_000
	// MaxPending is how many messages wait in a group. An endpoint takes no more than what is left
	// of it, so however many endpoints are dead, there is room for the others.
	MaxPending = 2_000_000
	// MaxFinishedDeliveries is how many of an endpoint's finished deliveries its log keeps; fewer,
	// but minFinished, when a group's logs together come near MaxFinished.
	MaxFinishedDeliveries = 10_000
	// MaxFinished is how many finished deliveries the logs of a group keep, but for minFinished of
	// each endpoint.
	MaxFinished = 1_000_000
	minFinished = 100
	// WebhookRetentionMS is how long, in log time, a message is worth delivering and its delivery
	// is kept in the log: 7 days.
	WebhookRetentionMS = 7 * dayMS
	// WebhookPatienceMS is how long an endpoint may fail without a success before it is disabled.
	WebhookPatienceMS = 5 * dayMS
)

// outbox holds the webhook endpoints, the messages that wait for them, and the log of those that
// were delivered or given up. Apply writes it; whoever else reads it holds mu.
type outbox struct {
	mu         sync.RWMutex
	endpoints  *page.Table[webhookEndpoint]
	texts      *page.Table[rows.Text] // row = endpoint row: endpointText
	deliveries *page.Table[delivery]
	messages   *page.Table[rows.Text] // row = delivery row: deliveryText
	outboxLists

	// queues are of endpoints for which something waits; places are where deliveries stand in
	// their queue's heap. No state: rebuilt at restore.
	queues map[uint32]*endpointQueue
	places rows.Chunks[uint32]
}

// outboxLists are the outbox's counts and lists of free rows.
type outboxLists struct {
	sequence     uint64 `wire:"1"` // deliveries so far
	pending      uint32 `wire:"2"`
	finished     uint32 `wire:"5"` // deliveries of all endpoints
	freeEndpoint uint32 `wire:"3"`
	freeDelivery uint32 `wire:"4"`
}

// endpointQueue orders what waits for one endpoint. Messages about one customer wait for each
// other: only the first of a chain is in the heap.
type endpointQueue struct {
	heads  rows.Dues           // by the log time of their next attempt
	chains map[uint32][]uint32 // customer → pending deliveries, oldest first
}

// open makes the tables.
func (o *outbox) open(store *page.Store) {
	o.endpoints = page.NewTable(store, tableWebhookEndpoints, webhookEndpointCodec)
	o.texts = page.NewTable(store, tableWebhookTexts, rows.TextCodec)
	o.deliveries = page.NewTable(store, tableDeliveries, deliveryCodec)
	o.messages = page.NewTable(store, tableDeliveryTexts, rows.TextCodec)
	o.queues = map[uint32]*endpointQueue{}
}

// endpointNamed finds an environment and an endpoint of it; nil and 0 when there is none.
func (t *turn) endpointNamed(env uint32, id *[16]byte) (e *environment, row uint32) {
	if e = t.environment(env); e != nil {
		row = t.outbox.endpointIn(e, id)
	}
	return e, row
}

// unknownEndpoint says which of the two it is that endpointNamed has not found.
func unknownEndpoint(e *environment) engine.Outcome {
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	return engine.OutcomeWebhookUnknown
}

// endpointIn finds an endpoint of an environment; 0 when there is none.
func (o *outbox) endpointIn(e *environment, id *[16]byte) uint32 {
	for _, row := range e.hooks {
		if o.endpoints.Read(row).id == *id {
			return row
		}
	}
	return 0
}

// text is an endpoint's cold part.
func (o *outbox) text(row uint32) (words endpointText) {
	decodeText(o.texts.Read(row).Data, &words)
	return words
}

// setText replaces an endpoint's cold part.
func (o *outbox) setText(row uint32, words *endpointText) {
	o.texts.Write(row).Data = string(wire.Encode(nil, words))
}

// takeEndpoint returns a free row for an endpoint.
func (o *outbox) takeEndpoint() (row uint32) {
	if row = o.freeEndpoint; row != 0 {
		o.freeEndpoint = o.endpoints.Read(row).nextFree
		return row
	}
	row, _ = o.endpoints.Append()
	o.texts.Append()
	return row
}

// dropEndpoint frees an endpoint and, all at once, its deliveries.
func (o *outbox) dropEndpoint(row uint32) {
	ep := o.endpoints.Read(row)
	if ep.first != 0 {
		o.deliveries.Write(ep.last).next = o.freeDelivery
		o.freeDelivery = ep.first
	}
	o.pending -= ep.pending
	o.finished -= ep.finished
	if q := o.queues[row]; q != nil {
		for i := range q.heads.Heap.N {
			*o.places.At(int(q.heads.Heap.At(i).Row)) = 0
		}
		delete(o.queues, row)
	}
	*o.endpoints.Write(row) = webhookEndpoint{nextFree: o.freeEndpoint}
	o.texts.Write(row).Data = ""
	o.freeEndpoint = row
}

// enqueue adds a message to what waits for an endpoint; a full queue skips it.
func (o *outbox) enqueue(row uint32, d *delivery, encoded []byte) {
	ep := o.endpoints.Write(row)
	if o.full(ep) {
		ep.skipped++
		return
	}
	at := o.takeDelivery()
	o.sequence++
	d.sequence, d.endpoint, d.state, d.previous = o.sequence, row, deliveryPending, ep.last
	*o.deliveries.Write(at) = *d
	o.messages.Write(at).Data = string(encoded)
	if ep.last == 0 {
		ep.first = at
	} else {
		o.deliveries.Write(ep.last).next = at
	}
	ep.last = at
	ep.pending++
	o.pending++
	o.chain(at)
}

// full reports whether an endpoint takes no more messages.
func (o *outbox) full(ep *webhookEndpoint) bool {
	return ep.pending >= min(MaxPendingDeliveries, MaxPending-o.pending)
}

func (o *outbox) takeDelivery() (row uint32) {
	if row = o.freeDelivery; row != 0 {
		o.freeDelivery = o.deliveries.Read(row).next
		return row
	}
	row, _ = o.deliveries.Append()
	o.messages.Append()
	return row
}

// chain puts a pending delivery behind what waits for the same endpoint and customer.
func (o *outbox) chain(row uint32) {
	d := o.deliveries.Read(row)
	q := o.queues[d.endpoint]
	if q == nil {
		q = &endpointQueue{chains: map[uint32][]uint32{}}
		o.queues[d.endpoint] = q
	}
	waiting := append(q.chains[d.customer], row)
	q.chains[d.customer] = waiting
	if len(waiting) == 1 {
		q.heads.Set(&o.places, row, d.nextAt)
	}
}

// unchain takes the first of a chain out, and lets the next one come forward.
func (o *outbox) unchain(row uint32) {
	d := o.deliveries.Read(row)
	q := o.queues[d.endpoint]
	q.heads.Set(&o.places, row, rows.Never)
	rest := q.chains[d.customer][1:]
	if len(rest) > 0 {
		q.chains[d.customer] = rest
		q.heads.Set(&o.places, rest[0], o.deliveries.Read(rest[0]).nextAt)
		return
	}
	if delete(q.chains, d.customer); len(q.chains) == 0 {
		delete(o.queues, d.endpoint)
	}
}

// leads reports whether a pending delivery is the first of its chain.
func (o *outbox) leads(row uint32) bool {
	d := o.deliveries.Read(row)
	q := o.queues[d.endpoint]
	return q != nil && len(q.chains[d.customer]) > 0 && q.chains[d.customer][0] == row
}

// hurried bounds how many messages hurry touches.
const hurried = 2_000

// hurry lets what waits for an endpoint be tried at once, unless it is too much for one command.
func (o *outbox) hurry(row uint32, stamp int64) {
	q := o.queues[row]
	if q == nil || q.heads.Heap.N > hurried {
		return
	}
	heads := make([]rows.Due, q.heads.Heap.N)
	for i := range heads {
		heads[i] = q.heads.At(i)
	}
	for _, d := range heads {
		if d.At > stamp {
			o.deliveries.Write(d.Row).nextAt = stamp
			q.heads.Set(&o.places, d.Row, stamp)
		}
	}
}

// finishedAtOnce is how many old entries of an endpoint's log one that is new drops.
const finishedAtOnce = 4

// finish ends a pending delivery and keeps it in its endpoint's log.
func (o *outbox) finish(row uint32, state deliveryState, stamp int64) {
	o.unchain(row)
	d := o.deliveries.Write(row)
	ep := o.endpoints.Write(d.endpoint)
	ep.pending--
	ep.finished++
	o.pending--
	o.finished++
	d.state, d.finishedAt = state, stamp
	if state == deliveryDelivered {
		ep.delivered++
	} else {
		ep.failed++
	}
	if !d.listed {
		d.listed, d.nextFinished = true, 0
		if ep.lastFinished == 0 {
			ep.firstFinished = row
		} else {
			o.deliveries.Write(ep.lastFinished).nextFinished = row
		}
		ep.lastFinished = row
	}
	for range finishedAtOnce {
		first := ep.firstFinished
		if first == 0 || first == row || ep.finished <= o.logged() &&
			o.deliveries.Read(first).finishedAt > stamp-WebhookRetentionMS {
			return
		}
		o.forget(ep, first)
	}
}

// logged is how many finished deliveries an endpoint's log keeps now.
func (o *outbox) logged() uint32 {
	left := uint32(MaxFinished) - min(MaxFinished, o.finished)
	return min(MaxFinishedDeliveries, max(minFinished, left))
}

// forget takes the first of an endpoint's finished deliveries out of its log. One that waits again,
// because it was asked for once more, is listed again when it is done.
func (o *outbox) forget(ep *webhookEndpoint, row uint32) {
	d := o.deliveries.Write(row)
	if ep.firstFinished = d.nextFinished; ep.firstFinished == 0 {
		ep.lastFinished = 0
	}
	d.listed, d.nextFinished = false, 0
	if d.state == deliveryPending {
		return
	}
	if d.previous == 0 {
		ep.first = d.next
	} else {
		o.deliveries.Write(d.previous).next = d.next
	}
	if d.next == 0 {
		ep.last = d.previous
	} else {
		o.deliveries.Write(d.next).previous = d.previous
	}
	ep.finished--
	o.finished--
	*o.deliveries.Write(row) = delivery{next: o.freeDelivery}
	o.messages.Write(row).Data = ""
	o.freeDelivery = row
}

// reindexOutbox rebuilds what is not state, after a restore.
func (s *state) reindexOutbox() {
	o := &s.outbox
	for row := uint32(1); row <= o.endpoints.Len(); row++ {
		ep := o.endpoints.Read(row)
		e := s.environment(ep.env)
		if e == nil {
			continue // free
		}
		e.hooks = append(e.hooks, row)
		// Messages that were asked for once more wait behind younger ones.
		var waiting []uint32
		for at := ep.first; at != 0; at = o.deliveries.Read(at).next {
			if o.deliveries.Read(at).state == deliveryPending {
				waiting = append(waiting, at)
			}
		}
		slices.SortStableFunc(waiting, func(a, b uint32) int {
			return cmp.Compare(o.deliveries.Read(a).turn, o.deliveries.Read(b).turn)
		})
		for _, at := range waiting {
			o.chain(at)
		}
	}
	for _, e := range s.environments.All() {
		e.wanted.Store(uint32(o.wantedBy(e)))
	}
}

// outboxConsistent checks, after a restore, that rows lead to rows that exist, that lists end, and
// that texts decode.
func (s *state) outboxConsistent() error {
	o := &s.outbox
	endpoints, deliveries := o.endpoints.Len(), o.deliveries.Len()
	if o.texts.Len() != endpoints || o.messages.Len() != deliveries ||
		o.freeEndpoint > endpoints || o.freeDelivery > deliveries {
		return fmt.Errorf("%w: tables of different length", ErrSnapshot)
	}
	pending, finished, perEnvironment := uint32(0), uint32(0), map[uint32]int{}
	for row := uint32(1); row <= endpoints; row++ {
		ep := o.endpoints.Read(row)
		if max(ep.first, ep.last, ep.firstFinished, ep.lastFinished) > deliveries ||
			ep.nextFree > endpoints || ep.env != 0 && s.environment(ep.env) == nil {
			return fmt.Errorf("%w: webhook endpoint %d leads nowhere", ErrSnapshot, row)
		}
		if wire.Decode([]byte(o.texts.Read(row).Data), new(endpointText)) != nil {
			return fmt.Errorf("%w: webhook endpoint %d has no text", ErrSnapshot, row)
		}
		if perEnvironment[ep.env]++; ep.env != 0 && perEnvironment[ep.env] > MaxWebhookEndpoints {
			return fmt.Errorf("%w: environment %d has too many endpoints", ErrSnapshot, ep.env)
		}
		pending, finished = pending+ep.pending, finished+ep.finished
	}
	if pending != o.pending || finished != o.finished || pending > MaxPending {
		return fmt.Errorf("%w: the outbox holds another number of deliveries", ErrSnapshot)
	}
	for row := uint32(1); row <= deliveries; row++ {
		d := o.deliveries.Read(row)
		if max(d.previous, d.next, d.nextFinished) > deliveries || d.endpoint > endpoints {
			return fmt.Errorf("%w: delivery %d leads nowhere", ErrSnapshot, row)
		}
	}
	return o.listsEnd(s.customers.Len())
}

// listsEnd checks that each endpoint's lists hold what it says, that lists of free rows end, and
// that no delivery is in two of them.
func (o *outbox) listsEnd(customers uint32) error {
	seen := make([]bool, o.deliveries.Len()+1)
	visit := func(at uint32) bool {
		if seen[at] {
			return false
		}
		seen[at] = true
		return true
	}
	for row := uint32(1); row <= o.endpoints.Len(); row++ {
		ep := o.endpoints.Read(row)
		var counts [4]uint32
		last := uint32(0)
		for at := ep.first; at != 0; at = o.deliveries.Read(at).next {
			d := o.deliveries.Read(at)
			if !visit(at) || d.endpoint != row || d.previous != last || d.state == 0 || d.state > 3 {
				return fmt.Errorf("%w: the list of webhook endpoint %d", ErrSnapshot, row)
			}
			if d.customer == 0 || d.customer > customers ||
				wire.Decode([]byte(o.messages.Read(at).Data), new(deliveryText)) != nil {
				return fmt.Errorf("%w: delivery %d has no message", ErrSnapshot, at)
			}
			counts[d.state]++
			last = at
		}
		if last != ep.last || counts[deliveryPending] != ep.pending ||
			counts[deliveryDelivered]+counts[deliveryFailed] != ep.finished {
			return fmt.Errorf("%w: the counts of webhook endpoint %d", ErrSnapshot, row)
		}
		listed, end := uint32(0), uint32(0)
		for at := ep.firstFinished; at != 0; at = o.deliveries.Read(at).nextFinished {
			d := o.deliveries.Read(at)
			if listed++; listed > ep.pending+ep.finished || d.endpoint != row || !d.listed {
				return fmt.Errorf("%w: the log of webhook endpoint %d", ErrSnapshot, row)
			}
			end = at
		}
		if end != ep.lastFinished {
			return fmt.Errorf("%w: the log of webhook endpoint %d does not end", ErrSnapshot, row)
		}
	}
	for at := o.freeDelivery; at != 0; at = o.deliveries.Read(at).next {
		if !visit(at) {
			return fmt.Errorf("%w: the list of free deliveries", ErrSnapshot)
		}
	}
	count := uint32(0)
	for at := o.freeEndpoint; at != 0; at = o.endpoints.Read(at).nextFree {
		if count++; count > o.endpoints.Len() || o.endpoints.Read(at).env != 0 {
			return fmt.Errorf("%w: the list of free webhook endpoints", ErrSnapshot)
		}
	}
	return nil
}
