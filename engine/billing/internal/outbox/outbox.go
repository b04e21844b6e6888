// Package outbox has webhook endpoints, and the messages that wait for them or were delivered. It
// knows no commands.
package outbox

import (
	"encoding/binary"
	"fmt"
	"sync"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// Bounds of the outbox.
const (
	// MaxPendingDeliveries bounds the messages that wait for one endpoint; further ones are skipped
	// and counted. A period's end of 100,000 subscriptions with unpaid invoices makes four messages
	// each.
	MaxPendingDeliveries = 500_000
	// MaxPending bounds the messages that wait in a group. An endpoint takes at most what is left
	// of it, so dead endpoints leave room for the others.
	MaxPending = 2_000_000
	// MaxFinishedDeliveries is how many finished deliveries an endpoint's log keeps; fewer, but at
	// least minFinished, when all logs of a group come near MaxFinished.
	MaxFinishedDeliveries = 10_000
	// MaxFinished bounds the finished deliveries in all logs of a group, except for minFinished of
	// each endpoint.
	MaxFinished = 1_000_000
	minFinished = 100
	// MaxAnswer bounds what is kept of an endpoint's answer, in bytes, and KeptAnswers how many
	// answers of all endpoints are kept: the newest.
	MaxAnswer   = 1 << 10
	KeptAnswers = 8192
	// WebhookRetentionMS is how long, in log time, a message may be delivered and its delivery is
	// kept in the log: 7 days.
	WebhookRetentionMS = 7 * accounts.DayMS
	// WebhookPatienceMS is how long an endpoint may fail without a success before it is disabled.
	WebhookPatienceMS = 5 * accounts.DayMS
)

// Outbox has the webhook endpoints, the messages that wait for them, and the log of those that were
// delivered or given up. Apply writes it; other readers hold Mu.
type Outbox struct {
	Mu         sync.RWMutex
	Endpoints  *page.Table[WebhookEndpoint]
	Texts      *page.Table[rows.Text] // row = endpoint row: EndpointText
	Deliveries *page.Table[Delivery]
	Messages   *page.Table[rows.Text] // row = delivery row: DeliveryText
	// Answers is a ring of answers to attempts: the number of each, and its text.
	Answers *page.Table[rows.Text]
	OutboxLists

	// Queues has the endpoints with waiting messages, places the deliveries' places in their
	// queue's heap. They are not state: restore rebuilds them.
	Queues map[uint32]*endpointQueue
	Places rows.Chunks[uint32]
}

// OutboxLists are the outbox's counts and lists of free rows.
type OutboxLists struct {
	Sequence     uint64 `wire:"1"` // deliveries so far
	Pending      uint32 `wire:"2"`
	Finished     uint32 `wire:"5"` // deliveries of all endpoints
	FreeEndpoint uint32 `wire:"3"`
	FreeDelivery uint32 `wire:"4"`
	Answered     uint64 `wire:"6"` // answers that were kept so far
}

// endpointQueue orders the messages for one endpoint. Messages about one customer wait for each
// other: only the first of a chain is in the heap.
type endpointQueue struct {
	Heads  rows.Dues           // by the log time of their next attempt
	chains map[uint32][]uint32 // customer → pending deliveries, oldest first
}

// Open makes the tables.
func (o *Outbox) Open(store *page.Store) {
	o.Endpoints = page.NewTable(store, accounts.TableWebhookEndpoints, WebhookEndpointCodec)
	o.Texts = page.NewTable(store, accounts.TableWebhookTexts, rows.TextCodec)
	o.Deliveries = page.NewTable(store, accounts.TableDeliveries, DeliveryCodec)
	o.Messages = page.NewTable(store, accounts.TableDeliveryTexts, rows.TextCodec)
	o.Answers = page.NewTable(store, accounts.TableWebhookAnswers, rows.TextCodec)
	o.Queues = map[uint32]*endpointQueue{}
}

// answerHead is the length of the number before the text of an answer.
const answerHead = 8

// KeepAnswer keeps the text of an answer in place of the oldest, and returns its number.
func (o *Outbox) KeepAnswer(text string) (number uint64) {
	at := uint32(o.Answered%KeptAnswers) + 1
	o.Answered++
	if at > o.Answers.Len() {
		o.Answers.Append()
	}
	head := binary.LittleEndian.AppendUint64(nil, o.Answered)
	o.Answers.Write(at).Data = string(head) + text
	return o.Answered
}

// AnswerOf returns the text of an answer; empty where it is no longer kept. It requires the lock.
func (o *Outbox) AnswerOf(number uint64) string {
	at := uint32((number-1)%KeptAnswers) + 1
	if number == 0 || at > o.Answers.Len() {
		return ""
	}
	data := o.Answers.Read(at).Data
	if len(data) < answerHead || binary.LittleEndian.Uint64([]byte(data)) != number {
		return ""
	}
	return data[answerHead:]
}

// UnknownEndpoint returns the refusal for an endpoint that endpointNamed did not find.
func UnknownEndpoint(e *accounts.Environment) engine.Outcome {
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	return engine.OutcomeWebhookUnknown
}

// EndpointIn finds an endpoint of an environment; 0 if there is none.
func (o *Outbox) EndpointIn(e *accounts.Environment, id *[16]byte) uint32 {
	for _, row := range e.Hooks {
		if o.Endpoints.Read(row).ID == *id {
			return row
		}
	}
	return 0
}

// Text returns an endpoint's cold part.
func (o *Outbox) Text(row uint32) (words EndpointText) {
	rows.DecodeText(o.Texts.Read(row).Data, &words)
	return words
}

// SetText replaces an endpoint's cold part.
func (o *Outbox) SetText(row uint32, words *EndpointText) {
	o.Texts.Write(row).Data = string(wire.Encode(nil, words))
}

// TakeEndpoint returns a free row for an endpoint.
func (o *Outbox) TakeEndpoint() (row uint32) {
	if row = o.FreeEndpoint; row != 0 {
		o.FreeEndpoint = o.Endpoints.Read(row).NextFree
		return row
	}
	row, _ = o.Endpoints.Append()
	o.Texts.Append()
	return row
}

// DropEndpoint frees an endpoint and all its deliveries.
func (o *Outbox) DropEndpoint(row uint32) {
	ep := o.Endpoints.Read(row)
	if ep.First != 0 {
		o.Deliveries.Write(ep.Last).Next = o.FreeDelivery
		o.FreeDelivery = ep.First
	}
	o.Pending -= ep.Pending
	o.Finished -= ep.Finished
	if q := o.Queues[row]; q != nil {
		for i := range q.Heads.Heap.N {
			*o.Places.At(int(q.Heads.Heap.At(i).Row)) = 0
		}
		delete(o.Queues, row)
	}
	*o.Endpoints.Write(row) = WebhookEndpoint{NextFree: o.FreeEndpoint}
	o.Texts.Write(row).Data = ""
	o.FreeEndpoint = row
}

// Enqueue queues a message for an endpoint; a full queue skips it.
func (o *Outbox) Enqueue(row uint32, d *Delivery, encoded []byte) {
	ep := o.Endpoints.Write(row)
	if o.Full(ep) {
		ep.Skipped++
		return
	}
	at := o.takeDelivery()
	o.Sequence++
	d.Sequence, d.Endpoint, d.State, d.Previous = o.Sequence, row, DeliveryPending, ep.Last
	*o.Deliveries.Write(at) = *d
	o.Messages.Write(at).Data = string(encoded)
	if ep.Last == 0 {
		ep.First = at
	} else {
		o.Deliveries.Write(ep.Last).Next = at
	}
	ep.Last = at
	ep.Pending++
	o.Pending++
	o.Chain(at)
}

// Full reports whether an endpoint takes no more messages.
func (o *Outbox) Full(ep *WebhookEndpoint) bool {
	return ep.Pending >= min(MaxPendingDeliveries, MaxPending-o.Pending)
}

func (o *Outbox) takeDelivery() (row uint32) {
	if row = o.FreeDelivery; row != 0 {
		o.FreeDelivery = o.Deliveries.Read(row).Next
		return row
	}
	row, _ = o.Deliveries.Append()
	o.Messages.Append()
	return row
}

// Requeue makes a finished delivery wait again, behind its customer's waiting ones.
func (o *Outbox) Requeue(row uint32, stamp int64) {
	d := o.Deliveries.Write(row)
	o.Sequence++
	d.Round, d.NextAt, d.QueuedAt, d.FinishedAt = 0, stamp, stamp, 0
	d.State, d.Turn = DeliveryPending, o.Sequence
	ep := o.Endpoints.Write(d.Endpoint)
	ep.Pending++
	ep.Finished--
	o.Pending++
	o.Finished--
	o.Chain(row)
}

// Chain adds a pending delivery behind those of the same endpoint and customer.
func (o *Outbox) Chain(row uint32) {
	d := o.Deliveries.Read(row)
	q := o.Queues[d.Endpoint]
	if q == nil {
		q = &endpointQueue{chains: map[uint32][]uint32{}}
		o.Queues[d.Endpoint] = q
	}
	waiting := append(q.chains[d.Customer], row)
	q.chains[d.Customer] = waiting
	if len(waiting) == 1 {
		q.Heads.Set(&o.Places, row, d.NextAt)
	}
}

// unchain removes the first of a chain and queues the next one.
func (o *Outbox) unchain(row uint32) {
	d := o.Deliveries.Read(row)
	q := o.Queues[d.Endpoint]
	q.Heads.Set(&o.Places, row, rows.Never)
	rest := q.chains[d.Customer][1:]
	if len(rest) > 0 {
		q.chains[d.Customer] = rest
		q.Heads.Set(&o.Places, rest[0], o.Deliveries.Read(rest[0]).NextAt)
		return
	}
	if delete(q.chains, d.Customer); len(q.chains) == 0 {
		delete(o.Queues, d.Endpoint)
	}
}

// Leads reports whether a pending delivery is the first of its chain.
func (o *Outbox) Leads(row uint32) bool {
	d := o.Deliveries.Read(row)
	q := o.Queues[d.Endpoint]
	return q != nil && len(q.chains[d.Customer]) > 0 && q.chains[d.Customer][0] == row
}

// hurried bounds the messages that Hurry moves.
const hurried = 2_000

// Hurry makes the messages that wait for an endpoint due at once, unless there are too many for one
// command.
func (o *Outbox) Hurry(row uint32, stamp int64) {
	q := o.Queues[row]
	if q == nil || q.Heads.Heap.N > hurried {
		return
	}
	heads := make([]rows.Due, q.Heads.Heap.N)
	for i := range heads {
		heads[i] = q.Heads.At(i)
	}
	for _, d := range heads {
		if d.At > stamp {
			o.Deliveries.Write(d.Row).NextAt = stamp
			q.Heads.Set(&o.Places, d.Row, stamp)
		}
	}
}

// finishedAtOnce is how many old entries of an endpoint's log a new one drops.
const finishedAtOnce = 4

// Finish ends a pending delivery and keeps it in its endpoint's log.
func (o *Outbox) Finish(row uint32, state deliveryState, stamp int64) {
	o.unchain(row)
	d := o.Deliveries.Write(row)
	ep := o.Endpoints.Write(d.Endpoint)
	ep.Pending--
	ep.Finished++
	o.Pending--
	o.Finished++
	d.State, d.FinishedAt = state, stamp
	if state == DeliveryDelivered {
		ep.Delivered++
	} else {
		ep.Failed++
	}
	if !d.Listed {
		d.Listed, d.NextFinished = true, 0
		if ep.LastFinished == 0 {
			ep.FirstFinished = row
		} else {
			o.Deliveries.Write(ep.LastFinished).NextFinished = row
		}
		ep.LastFinished = row
	}
	for range finishedAtOnce {
		// The log keeps fewer where all logs together are almost full.
		kept := min(MaxFinishedDeliveries, max(minFinished, MaxFinished-min(MaxFinished, o.Finished)))
		first := ep.FirstFinished
		if first == 0 || first == row || ep.Finished <= kept &&
			o.Deliveries.Read(first).FinishedAt > stamp-WebhookRetentionMS {
			return
		}
		o.forget(ep, first)
	}
}

// forget removes the first of an endpoint's finished deliveries from its log. One that waits again
// after a resend is listed again when it finishes.
func (o *Outbox) forget(ep *WebhookEndpoint, row uint32) {
	d := o.Deliveries.Write(row)
	if ep.FirstFinished = d.NextFinished; ep.FirstFinished == 0 {
		ep.LastFinished = 0
	}
	d.Listed, d.NextFinished = false, 0
	if d.State == DeliveryPending {
		return
	}
	if d.Previous == 0 {
		ep.First = d.Next
	} else {
		o.Deliveries.Write(d.Previous).Next = d.Next
	}
	if d.Next == 0 {
		ep.Last = d.Previous
	} else {
		o.Deliveries.Write(d.Next).Previous = d.Previous
	}
	ep.Finished--
	o.Finished--
	*o.Deliveries.Write(row) = Delivery{Next: o.FreeDelivery}
	o.Messages.Write(row).Data = ""
	o.FreeDelivery = row
}

// ListsEnd checks that each endpoint's lists have the stated length, that lists of free rows end,
// and that no delivery is in two of them.
func (o *Outbox) ListsEnd(customers uint32) error {
	seen := make([]bool, o.Deliveries.Len()+1)
	visit := func(at uint32) bool {
		if seen[at] {
			return false
		}
		seen[at] = true
		return true
	}
	for row, ep := range o.Endpoints.All() {
		var counts [4]uint32
		last := uint32(0)
		for at := ep.First; at != 0; at = o.Deliveries.Read(at).Next {
			d := o.Deliveries.Read(at)
			if !visit(at) || d.Endpoint != row || d.Previous != last || d.State == 0 || d.State > 3 {
				return fmt.Errorf("%w: the list of webhook endpoint %d", rows.ErrSnapshot, row)
			}
			if d.Customer == 0 && d.Event != accounts.WebhookTest || d.Customer > customers ||
				wire.Decode([]byte(o.Messages.Read(at).Data), new(DeliveryText)) != nil {
				return fmt.Errorf("%w: delivery %d has no message", rows.ErrSnapshot, at)
			}
			counts[d.State]++
			last = at
		}
		if last != ep.Last || counts[DeliveryPending] != ep.Pending ||
			counts[DeliveryDelivered]+counts[DeliveryFailed] != ep.Finished {
			return fmt.Errorf("%w: the counts of webhook endpoint %d", rows.ErrSnapshot, row)
		}
		listed, end := uint32(0), uint32(0)
		for at := ep.FirstFinished; at != 0; at = o.Deliveries.Read(at).NextFinished {
			d := o.Deliveries.Read(at)
			if listed++; listed > ep.Pending+ep.Finished || d.Endpoint != row || !d.Listed {
				return fmt.Errorf("%w: the log of webhook endpoint %d", rows.ErrSnapshot, row)
			}
			end = at
		}
		if end != ep.LastFinished {
			return fmt.Errorf("%w: the log of webhook endpoint %d does not end", rows.ErrSnapshot, row)
		}
	}
	for at := o.FreeDelivery; at != 0; at = o.Deliveries.Read(at).Next {
		if !visit(at) {
			return fmt.Errorf("%w: the list of free deliveries", rows.ErrSnapshot)
		}
	}
	count := uint32(0)
	for at := o.FreeEndpoint; at != 0; at = o.Endpoints.Read(at).NextFree {
		if count++; count > o.Endpoints.Len() || o.Endpoints.Read(at).Env != 0 {
			return fmt.Errorf("%w: the list of free webhook endpoints", rows.ErrSnapshot)
		}
	}
	return nil
}
