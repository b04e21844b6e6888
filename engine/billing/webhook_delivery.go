package billing

import (
	"unicode/utf8"

	"tollgate/engine"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// deliveryState is what became of a delivery. Numbers are never reused; 0 is a free row.
type deliveryState uint8

const (
	deliveryPending   deliveryState = 1
	deliveryDelivered deliveryState = 2
	deliveryFailed    deliveryState = 3
)

// AttemptOutcome says what came of one attempt. Numbers are never reused.
type AttemptOutcome uint8

const (
	// AttemptDelivered: the endpoint has taken the message.
	AttemptDelivered AttemptOutcome = 1
	// AttemptRetry: not yet; the message may be sent again.
	AttemptRetry AttemptOutcome = 2
	// AttemptGone: the endpoint is gone, and is disabled. The message waits.
	AttemptGone AttemptOutcome = 3
	// AttemptBlocked: our own guard did not let it out. The message may be sent again.
	AttemptBlocked AttemptOutcome = 4
	// AttemptExpired: none was made, the message is too old.
	AttemptExpired AttemptOutcome = 5
)

// String is the outcome's name in the admin API.
func (a AttemptOutcome) String() string {
	names := [...]string{"", "delivered", "retry", "gone", "blocked", "expired"}
	if int(a) < len(names) {
		return names[a]
	}
	return ""
}

// Bounds of an attempt.
const (
	maxAttemptReason = 200 // bytes
	keptAttempts     = 10  // the newest of a delivery
	maxRetryMS       = 2 * dayMS
)

// RecordDelivery notes one attempt to deliver a message: the Attempt-th, from 1. Another than the
// next one, or of a message that is not the first of its customer's, was recorded before, and
// changes nothing. RetryMS is the wait before the next attempt; 0 gives the message up.
type RecordDelivery struct {
	Env      uint32         `wire:"1"`
	Endpoint [16]byte       `wire:"2"`
	Row      uint32         `wire:"3"` // where the delivery is
	Sequence uint64         `wire:"4"` // which one it is
	Attempt  uint32         `wire:"5"`
	Outcome  AttemptOutcome `wire:"6"`
	Status   uint32         `wire:"7"` // HTTP; 0: no answer
	Reason   string         `wire:"8"` // ≤ 200 bytes
	TookMS   uint32         `wire:"9"`
	RetryMS  int64          `wire:"10"`
}

func (c *RecordDelivery) apply(t *turn) engine.Outcome {
	e, row := t.endpointNamed(c.Env, &c.Endpoint)
	if row == 0 {
		return unknownEndpoint(e)
	}
	o := &t.outbox
	if !o.holds(row, c.Row, c.Sequence) {
		return engine.OutcomeDeliveryUnknown
	}
	if c.Outcome < AttemptDelivered || c.Outcome > AttemptExpired || c.RetryMS < 0 ||
		c.RetryMS > maxRetryMS || len(c.Reason) > maxAttemptReason || !utf8.ValidString(c.Reason) {
		return engine.OutcomeWebhookInvalid
	}
	d := o.deliveries.Read(c.Row)
	if d.state != deliveryPending || c.Attempt != d.attempts+1 || !o.leads(c.Row) {
		return engine.OutcomeDone
	}

	t.spend(8)
	o.mu.Lock()
	c.attempted(o, t.Stamp)
	c.settle(t, o, row)
	o.mu.Unlock()
	t.listen(e)
	t.Fold(uint64(c.Row)<<32 | uint64(c.Attempt)<<8 | uint64(c.Outcome))
	return engine.OutcomeDone
}

// attempted adds the attempt to the delivery.
func (c *RecordDelivery) attempted(o *outbox, stamp int64) {
	d := o.deliveries.Write(c.Row)
	d.attempts++
	d.round++
	var words deliveryText
	decodeText(o.messages.Read(c.Row).Data, &words)
	words.Attempts = append(words.Attempts, Attempt{
		At: stamp, Outcome: c.Outcome, Status: c.Status, Reason: c.Reason, TookMS: c.TookMS,
	})
	if n := len(words.Attempts); n > keptAttempts {
		words.Attempts = words.Attempts[n-keptAttempts:]
	}
	o.messages.Write(c.Row).Data = string(wire.Encode(nil, &words))
}

// settle decides what becomes of the delivery and of its endpoint.
func (c *RecordDelivery) settle(t *turn, o *outbox, row uint32) {
	ep := o.endpoints.Write(row)
	if c.Outcome == AttemptExpired {
		o.finish(c.Row, deliveryFailed, t.Stamp)
		return
	}
	ep.sentAt = t.Stamp
	if c.Outcome == AttemptDelivered {
		ep.failingSince = 0
		o.finish(c.Row, deliveryDelivered, t.Stamp)
		return
	}
	if ep.failingSince == 0 {
		ep.failingSince = t.Stamp
	}
	switch {
	case ep.off != WebhookOn:
	case c.Outcome == AttemptGone:
		ep.off, ep.disabledAt = WebhookOffGone, t.Stamp
	case t.Stamp-ep.failingSince >= WebhookPatienceMS:
		ep.off, ep.disabledAt = WebhookOffFailing, t.Stamp
	}
	d := o.deliveries.Write(c.Row)
	if c.RetryMS == 0 || t.Stamp-d.queuedAt >= WebhookRetentionMS {
		o.finish(c.Row, deliveryFailed, t.Stamp)
		return
	}
	d.nextAt = t.Stamp + c.RetryMS
	o.queues[row].heads.Set(&o.places, c.Row, d.nextAt)
}

// ResendWebhook sends a message once more that was delivered or given up: it waits behind what
// waits for its customer. One that waits already is tried at once.
type ResendWebhook struct {
	Env      uint32   `wire:"1"`
	Endpoint [16]byte `wire:"2"`
	Row      uint32   `wire:"3"`
	Sequence uint64   `wire:"4"`
	Actor    string   `wire:"5"`
}

func (c *ResendWebhook) apply(t *turn) engine.Outcome {
	e, row := t.endpointNamed(c.Env, &c.Endpoint)
	if row == 0 {
		return unknownEndpoint(e)
	}
	o := &t.outbox
	if !o.holds(row, c.Row, c.Sequence) {
		return engine.OutcomeDeliveryUnknown
	}
	ep := o.endpoints.Read(row)
	was := o.deliveries.Read(c.Row)
	waits := was.state == deliveryPending
	if ep.off != WebhookOn {
		return engine.OutcomeWebhookDisabled
	}
	if !waits && o.full(ep) {
		return engine.OutcomeWebhookLimit
	}
	if waits && was.round == 0 && was.nextAt <= t.Stamp {
		return engine.OutcomeDone // it waits for nothing but its turn
	}

	o.mu.Lock()
	d := o.deliveries.Write(c.Row)
	d.round, d.nextAt, d.queuedAt = 0, t.Stamp, t.Stamp
	if waits {
		if o.leads(c.Row) {
			o.queues[row].heads.Set(&o.places, c.Row, d.nextAt)
		}
	} else {
		o.sequence++
		d.state, d.turn, d.finishedAt = deliveryPending, o.sequence, 0
		ep := o.endpoints.Write(row)
		ep.pending++
		ep.finished--
		o.pending++
		o.finished--
		o.chain(c.Row)
	}
	id := d.id
	o.mu.Unlock()
	t.Fold(uint64(c.Row))
	t.note(change{
		Env: c.Env, Actor: c.Actor, Action: "webhook.resent", Subject: uuidText(c.Endpoint),
		Values: []FieldChange{{"message", "", MessageName(id)}},
	})
	return engine.OutcomeDone
}

// holds reports whether a row is the delivery of that number, of an endpoint.
func (o *outbox) holds(endpoint, row uint32, sequence uint64) bool {
	if row == 0 || row > o.deliveries.Len() {
		return false
	}
	d := o.deliveries.Read(row)
	// A row that is free may still say what it was, of an endpoint that no longer exists.
	return d.endpoint == endpoint && d.sequence == sequence && d.state != 0 &&
		sequence > o.endpoints.Read(endpoint).born
}

// delivery is the record of one message on its way to one endpoint; the message is the text of the
// same row. All times are log time.
type delivery struct {
	id                 [16]byte // of the message: the same for all endpoints
	sequence           uint64   // among all deliveries, in order of their making
	turn               uint64   // orders what waits: the sequence, or a later number when sent again
	createdAt          int64
	queuedAt           int64 // created, or asked for once more
	nextAt             int64 // when the next attempt may be made
	finishedAt         int64
	endpoint, customer uint32
	previous, next     uint32 // of the endpoint's, by sequence; next: of the free ones, too
	nextFinished       uint32 // of the endpoint's log
	attempts, round    uint32 // in all, and since it was queued
	event              WebhookEvent
	state              deliveryState
	listed             bool // it is in the endpoint's log
}

var deliveryCodec = page.Codec[delivery]{
	Append: func(dst []byte, d *delivery) []byte {
		dst = append(dst, d.id[:]...)
		dst = rows.AppendI64(rows.AppendI64(dst, int64(d.sequence)), int64(d.turn))
		dst = rows.AppendI64(rows.AppendI64(dst, d.createdAt), d.queuedAt)
		dst = rows.AppendI64(rows.AppendI64(dst, d.nextAt), d.finishedAt)
		dst = rows.AppendU32(rows.AppendU32(dst, d.endpoint), d.customer)
		dst = rows.AppendU32(rows.AppendU32(rows.AppendU32(dst, d.previous), d.next), d.nextFinished)
		dst = rows.AppendU32(rows.AppendU32(dst, d.attempts), d.round)
		return append(dst, byte(d.event), byte(d.state), flags(d.listed))
	},
	Read: func(src []byte, d *delivery) ([]byte, error) {
		r := rows.Reader{Rest: src}
		d.id = r.ID()
		d.sequence, d.turn = r.U64(), r.U64()
		d.createdAt, d.queuedAt, d.nextAt, d.finishedAt = r.I64(), r.I64(), r.I64(), r.I64()
		d.endpoint, d.customer = r.U32(), r.U32()
		d.previous, d.next, d.nextFinished = r.U32(), r.U32(), r.U32()
		d.attempts, d.round = r.U32(), r.U32()
		d.event, d.state = WebhookEvent(r.U8()), deliveryState(r.U8())
		d.listed = r.U8() != 0
		return r.Rest, r.Err
	},
}

// deliveryText is the cold part of a delivery.
type deliveryText struct {
	Message  WebhookMessage `wire:"1"`
	Attempts []Attempt      `wire:"2"` // the newest, oldest first
}

// Attempt is one attempt to deliver a message. At is log time.
type Attempt struct {
	At      int64          `wire:"1"`
	Outcome AttemptOutcome `wire:"2"`
	Status  uint32         `wire:"3"` // HTTP; 0: no answer
	Reason  string         `wire:"4"`
	TookMS  uint32         `wire:"5"`
}
