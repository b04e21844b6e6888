package outbox

import (
	"tollgate/engine/billing/internal/accounts"
)

// deliveryState is the state of a delivery. Numbers are never reused; 0 is a free row.
type deliveryState uint8

const (
	DeliveryPending   deliveryState = 1
	DeliveryDelivered deliveryState = 2
	DeliveryFailed    deliveryState = 3
)

// AttemptOutcome is the result of one attempt. Numbers are never reused.
//
//schema:enum
type AttemptOutcome uint8

const (
	// AttemptDelivered: the endpoint accepted the message.
	AttemptDelivered AttemptOutcome = 1 // delivered
	// AttemptRetry: it did not; the message may be sent again.
	AttemptRetry AttemptOutcome = 2 // retry
	// AttemptGone: the endpoint is gone, and gets disabled. The message waits.
	AttemptGone AttemptOutcome = 3 // gone
	// AttemptBlocked: our own guard blocked it. The message may be sent again.
	AttemptBlocked AttemptOutcome = 4 // blocked
	// AttemptExpired: no attempt was made because the message is too old.
	AttemptExpired AttemptOutcome = 5 // expired
)

// Bounds of an attempt.
const (
	MaxAttemptReason = 200 // bytes
	KeptAttempts     = 10  // the newest of a delivery
	MaxRetryMS       = 2 * accounts.DayMS
)

// Holds reports whether a row is the delivery of that number to an endpoint.
func (o *Outbox) Holds(endpoint, row uint32, sequence uint64) bool {
	if row == 0 || row > o.Deliveries.Len() {
		return false
	}
	d := o.Deliveries.Read(row)
	// A free row may still have a delivery of a deleted endpoint.
	return d.Endpoint == endpoint && d.Sequence == sequence && d.State != 0 &&
		sequence > o.Endpoints.Read(endpoint).Born
}

// Delivery is the record of one message on its way to one endpoint; the message is the text of the
// same row. All times are log time.
//
//schema:row
type Delivery struct {
	ID                 [16]byte // of the message: the same for all endpoints
	Sequence           uint64   // among all deliveries, in the order in which they were made
	Turn               uint64   // orders the waiting: the sequence, or a later one after a resend
	CreatedAt          int64
	QueuedAt           int64 // created, or resent
	NextAt             int64 // when the next attempt may be made
	FinishedAt         int64
	Endpoint, Customer uint32
	Previous, Next     uint32 // in the endpoint's list, by sequence; next also links free rows
	NextFinished       uint32 // of the endpoint's log
	Attempts, Round    uint32 // in all, and since it was queued
	Event              accounts.WebhookEvent
	State              deliveryState
	Listed             bool // it is in the endpoint's log
}

// DeliveryText is the cold part of a delivery.
type DeliveryText struct {
	Message  WebhookMessage `wire:"1"`
	Attempts []Attempt      `wire:"2"` // the newest, oldest first
}

// Attempt is one attempt to deliver a message. At is log time.
//
//schema:answer admin WebhookAttempt
type Attempt struct {
	At      int64          `wire:"1" json:"at" as:"time"`
	Outcome AttemptOutcome `wire:"2" json:"outcome" as:"text"`
	Status  uint32         `wire:"3" json:"status,omitzero"` // HTTP; 0: no answer
	Reason  string         `wire:"4" json:"reason,omitzero" rule:"min=1"`
	TookMS  uint32         `wire:"5" json:"tookMs"`
	// Kept is the number of the endpoint's answer; 0: there is none. Answer is its text, where a
	// delivery is asked for by itself and it is still kept.
	Kept   uint64 `wire:"6"`
	Answer string `json:"answer,omitzero" rule:"min=1"`
}
