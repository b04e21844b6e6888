package billing

import (
	"encoding/hex"
	"strings"
)

// messagePrefix is what names of messages begin with.
const messagePrefix = "msg_"

// MessageName is a message's name on the wire and in the admin API.
func MessageName(id [16]byte) string { return messagePrefix + hex.EncodeToString(id[:]) }

// ParseMessageName reads what MessageName wrote.
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
	Message WebhookMessage
	// Status is pending, delivered or failed.
	Status string
	// Attempts is how many were made, Round how many since it was last asked for; Log has the newest.
	Attempts, Round uint32
	Log             []Attempt
	// QueuedAt is when it was made, or asked for once more; NextAt when it may be tried again,
	// while it is pending. Log time.
	CreatedAt, QueuedAt, NextAt, FinishedAt int64
}

var deliveryStates = [...]string{
	deliveryPending: "pending", deliveryDelivered: "delivered", deliveryFailed: "failed",
}

// deliveryView must be called under the lock.
func deliveryView(o *outbox, row uint32) DeliveryView {
	d := o.deliveries.Read(row)
	var words deliveryText
	decodeText(o.messages.Read(row).Data, &words)
	v := DeliveryView{
		Row: row, Sequence: d.sequence, ID: d.id, Message: words.Message,
		Status: deliveryStates[d.state], Attempts: d.attempts, Round: d.round, Log: words.Attempts,
		CreatedAt: d.createdAt, QueuedAt: d.queuedAt, FinishedAt: d.finishedAt,
	}
	if d.state == deliveryPending {
		v.NextAt = d.nextAt
	}
	return v
}

// DeliveryQuery asks for a page of an endpoint's deliveries.
type DeliveryQuery struct {
	Env      uint32
	Endpoint [16]byte
	// Status is pending, delivered or failed; empty: all.
	Status string
	// Before is the sequence of the last delivery of the page before; 0: from the newest on.
	Before uint64
	Limit  int
}

// walkedDeliveries bounds how many deliveries one page looks at.
const walkedDeliveries = 20_000

// WebhookDeliveries lists a page of an endpoint's deliveries, newest first. next is what Before is
// for the following page; 0: there is none. A page may be shorter than its limit and have a next.
func (m *Machine) WebhookDeliveries(q *DeliveryQuery) (page []DeliveryView, next uint64, ok bool) {
	s := m.state.Load()
	o := &s.outbox
	e := s.environment(q.Env)
	if e == nil {
		return nil, 0, false
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	endpoint := o.endpointIn(e, &q.Endpoint)
	if endpoint == 0 {
		return nil, 0, false
	}
	page = []DeliveryView{}
	looked := 0
	for row := o.endpoints.Read(endpoint).last; row != 0; row = o.deliveries.Read(row).previous {
		d := o.deliveries.Read(row)
		if q.Before != 0 && d.sequence >= q.Before {
			continue
		}
		if len(page) == q.Limit || looked == walkedDeliveries {
			return page, o.deliveries.Read(d.next).sequence, true
		}
		looked++
		if q.Status == "" || deliveryStates[d.state] == q.Status {
			page = append(page, deliveryView(o, row))
		}
	}
	return page, 0, true
}

// WebhookDelivery finds the delivery of a message to an endpoint.
func (m *Machine) WebhookDelivery(env uint32, endpoint, id [16]byte) (DeliveryView, bool) {
	s := m.state.Load()
	o := &s.outbox
	e := s.environment(env)
	if e == nil {
		return DeliveryView{}, false
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	at := o.endpointIn(e, &endpoint)
	if at == 0 {
		return DeliveryView{}, false
	}
	for row := o.endpoints.Read(at).last; row != 0; row = o.deliveries.Read(row).previous {
		if o.deliveries.Read(row).id == id {
			return deliveryView(o, row), true
		}
	}
	return DeliveryView{}, false
}

// DueDelivery is a message that may be sent now, and where to.
type DueDelivery struct {
	Env      uint32
	Endpoint WebhookEndpointView
	Delivery DeliveryView
}

// DueWebhooks lists what may be sent at a log time: the first message of each customer whose next
// attempt is due, of endpoints that are on. room says how many an endpoint may get, busy which
// deliveries are left out. In all there are at most limit.
func (m *Machine) DueWebhooks(
	now int64, limit int, room func(endpoint [16]byte) int, busy func(sequence uint64) bool,
) (due []DueDelivery) {
	s := m.state.Load()
	o := &s.outbox
	o.mu.RLock()
	defer o.mu.RUnlock()
	// any order: where there is not room for all, each has its turn.
	for row, q := range o.queues {
		ep := o.endpoints.Read(row)
		if ep.off != WebhookOn || q.heads.First().At > now {
			continue
		}
		left := min(room(ep.id), limit-len(due))
		q.heads.Soonest(now, func(at uint32) bool {
			if left <= 0 {
				return false
			}
			if !busy(o.deliveries.Read(at).sequence) {
				left--
				due = append(due, DueDelivery{ep.env, o.endpointView(row), deliveryView(o, at)})
			}
			return true
		})
	}
	return due
}

// OutboxStats counts what the outbox holds.
type OutboxStats struct {
	Endpoints, Disabled, Pending, Finished uint64
	// Skipped messages were never queued, since the endpoints that exist were made.
	Skipped uint64
}

// Outbox counts what the outbox holds, for metrics.
func (m *Machine) Outbox() (n OutboxStats) {
	o := &m.state.Load().outbox
	o.mu.RLock()
	defer o.mu.RUnlock()
	for row := uint32(1); row <= o.endpoints.Len(); row++ {
		ep := o.endpoints.Read(row)
		if ep.env == 0 {
			continue
		}
		n.Endpoints++
		if ep.off != WebhookOn {
			n.Disabled++
		}
		n.Pending += uint64(ep.pending)
		n.Finished += uint64(ep.finished)
		n.Skipped += ep.skipped
	}
	return n
}
