package billing

import (
	"cmp"
	"strconv"
	"unicode/utf8"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/outbox"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/uuid"
	"tollgate/engine/wire"
)

// RecordDelivery records one attempt to deliver a message: number Attempt, from 1. It changes
// nothing if that is not the next attempt, or if the message is not the first of its customer's:
// then it was recorded before. RetryMS is the wait before the next attempt; 0 gives the message up.
type RecordDelivery struct {
	Env      uint32                `wire:"1"`
	Endpoint [16]byte              `wire:"2"`
	Row      uint32                `wire:"3"` // the delivery's row
	Sequence uint64                `wire:"4"` // the delivery's number
	Attempt  uint32                `wire:"5"`
	Outcome  outbox.AttemptOutcome `wire:"6"`
	Status   uint32                `wire:"7"` // HTTP; 0: no answer
	Reason   string                `wire:"8"` // ≤ 200 bytes
	TookMS   uint32                `wire:"9"`
	RetryMS  int64                 `wire:"10"`
	// Answer is the beginning of what the endpoint answered, ≤ outbox.MaxAnswer bytes of text.
	Answer string `wire:"11"`
}

func (c *RecordDelivery) apply(t *turn) engine.Outcome {
	e, row := t.endpointNamed(c.Env, &c.Endpoint)
	if row == 0 {
		return outbox.UnknownEndpoint(e)
	}
	o := &t.outbox
	if !o.Holds(row, c.Row, c.Sequence) {
		return engine.OutcomeDeliveryUnknown
	}
	if c.Outcome < outbox.AttemptDelivered || c.Outcome > outbox.AttemptExpired || c.RetryMS < 0 ||
		c.RetryMS > outbox.MaxRetryMS || len(c.Reason) > outbox.MaxAttemptReason ||
		!utf8.ValidString(c.Reason) || len(c.Answer) > outbox.MaxAnswer || !utf8.ValidString(c.Answer) {
		return engine.OutcomeWebhookInvalid
	}
	d := o.Deliveries.Read(c.Row)
	if d.State != outbox.DeliveryPending || c.Attempt != d.Attempts+1 || !o.Leads(c.Row) {
		return engine.OutcomeDone
	}

	t.Spend(8)
	o.Mu.Lock()
	c.attempted(o, t.Stamp)
	c.settle(t, o, row)
	o.Mu.Unlock()
	t.Listen(e)
	t.Fold(uint64(c.Row)<<32 | uint64(c.Attempt)<<8 | uint64(c.Outcome))
	return engine.OutcomeDone
}

// attempted adds the attempt to the delivery.
func (c *RecordDelivery) attempted(o *outbox.Outbox, stamp int64) {
	d := o.Deliveries.Write(c.Row)
	d.Attempts++
	d.Round++
	var words outbox.DeliveryText
	rows.DecodeText(o.Messages.Read(c.Row).Data, &words)
	made := outbox.Attempt{
		At: stamp, Outcome: c.Outcome, Status: c.Status, Reason: c.Reason, TookMS: c.TookMS,
	}
	if c.Answer != "" {
		made.Kept = o.KeepAnswer(c.Answer)
	}
	words.Attempts = append(words.Attempts, made)
	if n := len(words.Attempts); n > outbox.KeptAttempts {
		words.Attempts = words.Attempts[n-outbox.KeptAttempts:]
	}
	o.Messages.Write(c.Row).Data = string(wire.Encode(nil, &words))
}

// settle decides the next state of the delivery and of its endpoint.
func (c *RecordDelivery) settle(t *turn, o *outbox.Outbox, row uint32) {
	ep := o.Endpoints.Write(row)
	if c.Outcome == outbox.AttemptExpired {
		o.Finish(c.Row, outbox.DeliveryFailed, t.Stamp)
		return
	}
	ep.SentAt = t.Stamp
	if c.Outcome == outbox.AttemptDelivered {
		ep.FailingSince = 0
		o.Finish(c.Row, outbox.DeliveryDelivered, t.Stamp)
		return
	}
	if o.Deliveries.Read(c.Row).Event == accounts.WebhookTest {
		o.Finish(c.Row, outbox.DeliveryFailed, t.Stamp) // a test is its answer, and nothing waits for it
		return
	}
	ep.FailingSince = cmp.Or(ep.FailingSince, t.Stamp)
	switch {
	case ep.Off != outbox.WebhookOn:
	case c.Outcome == outbox.AttemptGone:
		ep.Off, ep.DisabledAt = outbox.WebhookOffGone, t.Stamp
	case t.Stamp-ep.FailingSince >= outbox.WebhookPatienceMS:
		ep.Off, ep.DisabledAt = outbox.WebhookOffFailing, t.Stamp
	}
	d := o.Deliveries.Write(c.Row)
	if c.RetryMS == 0 || t.Stamp-d.QueuedAt >= outbox.WebhookRetentionMS {
		o.Finish(c.Row, outbox.DeliveryFailed, t.Stamp)
		return
	}
	d.NextAt = t.Stamp + c.RetryMS
	o.Queues[row].Heads.Set(&o.Places, c.Row, d.NextAt)
}

// ResendWebhook sends a delivered or failed message again, behind its customer's waiting messages.
// A waiting message is tried at once.
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
		return outbox.UnknownEndpoint(e)
	}
	o := &t.outbox
	if !o.Holds(row, c.Row, c.Sequence) {
		return engine.OutcomeDeliveryUnknown
	}
	ep := o.Endpoints.Read(row)
	was := *o.Deliveries.Read(c.Row)
	waits := was.State == outbox.DeliveryPending
	if ep.Off != outbox.WebhookOn {
		return engine.OutcomeWebhookDisabled
	}
	if !waits && o.Full(ep) {
		return engine.OutcomeWebhookLimit
	}
	if waits && was.Round == 0 && was.NextAt <= t.Stamp {
		return engine.OutcomeDone // it waits only for its turn
	}

	o.Mu.Lock()
	if waits {
		d := o.Deliveries.Write(c.Row)
		d.Round, d.NextAt, d.QueuedAt = 0, t.Stamp, t.Stamp
		if o.Leads(c.Row) {
			o.Queues[row].Heads.Set(&o.Places, c.Row, d.NextAt)
		}
	} else {
		o.Requeue(c.Row, t.Stamp)
	}
	id := was.ID
	o.Mu.Unlock()
	t.Fold(uint64(c.Row))
	t.NoteChange(c.Env, c.Actor, "webhook.resent", uuid.Text(c.Endpoint),
		accounts.Given("message", MessageName(id)))
	return engine.OutcomeDone
}

// MaxResent bounds the deliveries of one ResendWebhooks.
const MaxResent = 500

// DeliveryName names a delivery of an endpoint.
type DeliveryName struct {
	Row      uint32 `wire:"1"`
	Sequence uint64 `wire:"2"`
}

// ResendWebhooks sends finished deliveries of an endpoint again, in their order. Those that wait
// already, and those that its log no longer has, are left out; so are those that a full queue does
// not take.
type ResendWebhooks struct {
	Env        uint32         `wire:"1"`
	Endpoint   [16]byte       `wire:"2"`
	Deliveries []DeliveryName `wire:"3"` // ≤ MaxResent
	Actor      string         `wire:"4"`
}

func (c *ResendWebhooks) apply(t *turn) engine.Outcome {
	e, row := t.endpointNamed(c.Env, &c.Endpoint)
	if row == 0 {
		return outbox.UnknownEndpoint(e)
	}
	o := &t.outbox
	switch ep := o.Endpoints.Read(row); {
	case len(c.Deliveries) > MaxResent:
		return engine.OutcomeTooLarge
	case ep.Off != outbox.WebhookOn:
		return engine.OutcomeWebhookDisabled
	case o.Full(ep):
		return engine.OutcomeWebhookLimit
	}

	t.Spend(4 * len(c.Deliveries))
	count := 0
	o.Mu.Lock()
	for _, d := range c.Deliveries {
		if !o.Holds(row, d.Row, d.Sequence) || o.Deliveries.Read(d.Row).State == outbox.DeliveryPending ||
			o.Full(o.Endpoints.Read(row)) {
			continue
		}
		o.Requeue(d.Row, t.Stamp)
		count++
	}
	o.Mu.Unlock()
	if count > 0 {
		t.Fold(uint64(count)<<32 | uint64(o.Sequence))
		t.NoteChange(c.Env, c.Actor, "webhook.many-resent", uuid.Text(c.Endpoint),
			accounts.Given("messages", strconv.Itoa(count)))
	}
	return engine.OutcomeDone
}

// TestWebhook sends a message to an endpoint that says nothing but that it is a test.
type TestWebhook struct {
	Env      uint32   `wire:"1"`
	Endpoint [16]byte `wire:"2"`
	Actor    string   `wire:"3"`
}

func (c *TestWebhook) apply(t *turn) engine.Outcome {
	e, row := t.endpointNamed(c.Env, &c.Endpoint)
	if row == 0 {
		return outbox.UnknownEndpoint(e)
	}
	switch ep := t.outbox.Endpoints.Read(row); {
	case ep.Off != outbox.WebhookOn:
		return engine.OutcomeWebhookDisabled
	case t.outbox.Full(ep):
		return engine.OutcomeWebhookLimit
	}

	t.Send([]uint32{row}, 0, &outbox.WebhookMessage{
		Type: accounts.WebhookTest, At: e.Now(t.Stamp),
	})
	t.NoteChange(c.Env, c.Actor, "webhook.tested", uuid.Text(c.Endpoint),
		accounts.Given("tested", "true"))
	return engine.OutcomeDone
}
