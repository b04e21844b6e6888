package billing

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/outbox"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/wire"
)

// endpointNamed finds an environment and an endpoint of it; nil and 0 if there is none.
func (t *turn) endpointNamed(env uint32, id *[16]byte) (e *accounts.Environment, row uint32) {
	if e = t.Environment(env); e != nil {
		row = t.outbox.EndpointIn(e, id)
	}
	return e, row
}

// reindexOutbox rebuilds what is not state, after a restore.
func (s *state) reindexOutbox() {
	o := &s.outbox
	for row, ep := range o.Endpoints.All() {
		e := s.Environment(ep.Env)
		if e == nil {
			continue // free
		}
		e.Hooks = append(e.Hooks, row)
		// Resent messages wait behind younger ones.
		var waiting []uint32
		for at := ep.First; at != 0; at = o.Deliveries.Read(at).Next {
			if o.Deliveries.Read(at).State == outbox.DeliveryPending {
				waiting = append(waiting, at)
			}
		}
		slices.SortStableFunc(waiting, func(a, b uint32) int {
			return cmp.Compare(o.Deliveries.Read(a).Turn, o.Deliveries.Read(b).Turn)
		})
		for _, at := range waiting {
			o.Chain(at)
		}
	}
	for _, e := range s.Environments.All() {
		e.Wanted.Store(uint32(o.WantedBy(e)))
	}
}

// outboxConsistent checks, after a restore, that rows refer to existing rows, that lists end, and
// that texts decode.
func (s *state) outboxConsistent() error {
	o := &s.outbox
	endpoints, deliveries := o.Endpoints.Len(), o.Deliveries.Len()
	if o.Texts.Len() != endpoints || o.Messages.Len() != deliveries ||
		o.FreeEndpoint > endpoints || o.FreeDelivery > deliveries {
		return fmt.Errorf("%w: tables of different length", rows.ErrSnapshot)
	}
	pending, finished, perEnvironment := uint32(0), uint32(0), map[uint32]int{}
	for row, ep := range o.Endpoints.All() {
		if max(ep.First, ep.Last, ep.FirstFinished, ep.LastFinished) > deliveries ||
			ep.NextFree > endpoints || ep.Env != 0 && s.Environment(ep.Env) == nil {
			return fmt.Errorf("%w: webhook endpoint %d leads nowhere", rows.ErrSnapshot, row)
		}
		if wire.Decode([]byte(o.Texts.Read(row).Data), new(outbox.EndpointText)) != nil {
			return fmt.Errorf("%w: webhook endpoint %d has no text", rows.ErrSnapshot, row)
		}
		perEnvironment[ep.Env]++
		if ep.Env != 0 && perEnvironment[ep.Env] > accounts.MaxWebhookEndpoints {
			return fmt.Errorf("%w: environment %d has too many endpoints", rows.ErrSnapshot, ep.Env)
		}
		pending, finished = pending+ep.Pending, finished+ep.Finished
	}
	if pending != o.Pending || finished != o.Finished || pending > outbox.MaxPending {
		return fmt.Errorf("%w: the outbox holds another number of deliveries", rows.ErrSnapshot)
	}
	for row, d := range o.Deliveries.All() {
		if max(d.Previous, d.Next, d.NextFinished) > deliveries || d.Endpoint > endpoints {
			return fmt.Errorf("%w: delivery %d leads nowhere", rows.ErrSnapshot, row)
		}
	}
	return o.ListsEnd(s.Customers.Len())
}

// messagePrefix begins the names of messages.
const messagePrefix = "msg_"

// MessageName formats a message's name on the wire and in the admin API.
func MessageName(id [16]byte) string { return messagePrefix + hex.EncodeToString(id[:]) }

// ParseMessageName parses MessageName's result.
func ParseMessageName(name string) (id [16]byte, ok bool) {
	digits, ok := strings.CutPrefix(name, messagePrefix)
	if !ok || len(digits) != 2*len(id) || strings.ToLower(digits) != digits {
		return id, false
	}
	n, err := hex.Decode(id[:], []byte(digits))
	return id, err == nil && n == len(id)
}

// DeliveryView is one message on its way to one endpoint.
type DeliveryView struct {
	// Row and Sequence name the delivery to RecordDelivery and ResendWebhook.
	Row      uint32
	Sequence uint64
	// Message is what is sent; ID is its name in every attempt, see MessageName.
	ID      [16]byte
	Message outbox.WebhookMessage
	// Status is pending, delivered or failed.
	Status string
	// Attempts counts all attempts, Round those since the last resend; Log has the newest.
	Attempts, Round uint32
	Log             []outbox.Attempt
	// QueuedAt is when it was made or resent; NextAt when it may be tried again, while it is
	// pending. Log time.
	CreatedAt, QueuedAt, NextAt, FinishedAt int64
}

var deliveryStates = [...]string{
	outbox.DeliveryPending: "pending", outbox.DeliveryDelivered: "delivered",
	outbox.DeliveryFailed: "failed",
}

// deliveryView requires the lock.
func deliveryView(o *outbox.Outbox, row uint32) DeliveryView {
	d := o.Deliveries.Read(row)
	var words outbox.DeliveryText
	rows.DecodeText(o.Messages.Read(row).Data, &words)
	v := DeliveryView{
		Row: row, Sequence: d.Sequence, ID: d.ID, Message: words.Message,
		Status: deliveryStates[d.State], Attempts: d.Attempts, Round: d.Round, Log: words.Attempts,
		CreatedAt: d.CreatedAt, QueuedAt: d.QueuedAt, FinishedAt: d.FinishedAt,
	}
	if d.State == outbox.DeliveryPending {
		v.NextAt = d.NextAt
	}
	return v
}

// DeliveryQuery asks for a page of an endpoint's deliveries.
type DeliveryQuery struct {
	Env      uint32
	Endpoint [16]byte
	// Status is pending, delivered or failed; empty: all.
	Status string
	// Customer is the row of the customer whom the messages are about; 0: all.
	Customer uint32
	// Scan is how many deliveries the page examines; 0: MaxScannedDeliveries.
	Scan int
	// Before is the sequence of the last delivery of the previous page; 0 begins at the newest.
	Before uint64
	Limit  int
}

// MaxScannedDeliveries bounds the deliveries that one page examines.
const MaxScannedDeliveries = 20_000

// WebhookDeliveries lists a page of an endpoint's deliveries, newest first. next is the Before of
// the following page; 0 ends the list. A page may be shorter than its limit and have a next.
func (m *accountReader) WebhookDeliveries(
	q *DeliveryQuery,
) (page []DeliveryView, next uint64, ok bool) {
	s := m.state.Load()
	o := &s.outbox
	e := s.Environment(q.Env)
	if e == nil {
		return nil, 0, false
	}
	o.Mu.RLock()
	defer o.Mu.RUnlock()
	endpoint := o.EndpointIn(e, &q.Endpoint)
	if endpoint == 0 {
		return nil, 0, false
	}
	page = []DeliveryView{}
	looked := 0
	for row := o.Endpoints.Read(endpoint).Last; row != 0; row = o.Deliveries.Read(row).Previous {
		d := o.Deliveries.Read(row)
		if q.Before != 0 && d.Sequence >= q.Before {
			continue
		}
		if len(page) == q.Limit || looked == cmp.Or(q.Scan, MaxScannedDeliveries) {
			return page, o.Deliveries.Read(d.Next).Sequence, true
		}
		looked++
		if (q.Status == "" || deliveryStates[d.State] == q.Status) &&
			(q.Customer == 0 || d.Customer == q.Customer) {
			page = append(page, deliveryView(o, row))
		}
	}
	return page, 0, true
}

// FinishedDeliveries names the deliveries in an endpoint's log that were made in [from, to), in log
// time, and are not waiting: all, or the failed or the delivered ones; the oldest first. False if
// there is no such endpoint.
func (m *accountReader) FinishedDeliveries(
	env uint32, endpoint [16]byte, from, to int64, status string,
) (list []DeliveryName, ok bool) {
	s := m.state.Load()
	o := &s.outbox
	e := s.Environment(env)
	if e == nil {
		return nil, false
	}
	o.Mu.RLock()
	defer o.Mu.RUnlock()
	at := o.EndpointIn(e, &endpoint)
	if at == 0 {
		return nil, false
	}
	for row := o.Endpoints.Read(at).FirstFinished; row != 0; {
		d := o.Deliveries.Read(row)
		if d.State != outbox.DeliveryPending && (status == "all" || status == deliveryStates[d.State]) &&
			from <= d.CreatedAt && d.CreatedAt < to {
			list = append(list, DeliveryName{Row: row, Sequence: d.Sequence})
		}
		row = d.NextFinished
	}
	slices.SortFunc(list, func(a, b DeliveryName) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return list, true
}

// WebhookDelivery finds the delivery of a message to an endpoint, with what the endpoint answered.
func (m *accountReader) WebhookDelivery(env uint32, endpoint, id [16]byte) (DeliveryView, bool) {
	s := m.state.Load()
	o := &s.outbox
	e := s.Environment(env)
	if e == nil {
		return DeliveryView{}, false
	}
	o.Mu.RLock()
	defer o.Mu.RUnlock()
	at := o.EndpointIn(e, &endpoint)
	if at == 0 {
		return DeliveryView{}, false
	}
	for row := o.Endpoints.Read(at).Last; row != 0; row = o.Deliveries.Read(row).Previous {
		if o.Deliveries.Read(row).ID == id {
			v := deliveryView(o, row)
			for i := range v.Log {
				v.Log[i].Answer = o.AnswerOf(v.Log[i].Kept)
			}
			return v, true
		}
	}
	return DeliveryView{}, false
}

// DueDelivery is a message that may be sent now, and its endpoint.
type DueDelivery struct {
	Env      uint32
	Endpoint outbox.WebhookEndpointView
	Delivery DeliveryView
}

// DueWebhooks lists at most limit messages that may be sent at a log time: the first message of
// each customer whose next attempt is due, of enabled endpoints. room returns how many an endpoint
// may get, busy which deliveries to skip.
func (m *accountReader) DueWebhooks(
	now int64, limit int, room func(endpoint [16]byte) int, busy func(sequence uint64) bool,
) (due []DueDelivery) {
	s := m.state.Load()
	o := &s.outbox
	o.Mu.RLock()
	defer o.Mu.RUnlock()
	// any order: if there is not room for all, each gets its turn.
	for row, q := range o.Queues {
		ep := o.Endpoints.Read(row)
		if ep.Off != outbox.WebhookOn || q.Heads.First().At > now {
			continue
		}
		left := min(room(ep.ID), limit-len(due))
		q.Heads.Soonest(now, func(at uint32) bool {
			if left <= 0 {
				return false
			}
			if !busy(o.Deliveries.Read(at).Sequence) {
				left--
				due = append(due, DueDelivery{ep.Env, o.EndpointView(row), deliveryView(o, at)})
			}
			return true
		})
	}
	return due
}

// OutboxStats counts what the outbox holds.
type OutboxStats struct {
	Endpoints, Disabled, Pending, Finished uint64
	// Skipped messages were never queued, since the creation of the present endpoints.
	Skipped uint64
}

// Outbox counts what the outbox holds, for metrics.
func (m *accountReader) Outbox() (n OutboxStats) {
	o := &m.state.Load().outbox
	o.Mu.RLock()
	defer o.Mu.RUnlock()
	for _, ep := range o.Endpoints.All() {
		if ep.Env == 0 {
			continue
		}
		n.Endpoints++
		if ep.Off != outbox.WebhookOn {
			n.Disabled++
		}
		n.Pending += uint64(ep.Pending)
		n.Finished += uint64(ep.Finished)
		n.Skipped += ep.Skipped
	}
	return n
}
