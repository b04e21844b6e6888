package workspace

import (
	"slices"

	"tollgate/engine"
	"tollgate/engine/machine"
)

// deliveryOf finds a delivery of an alert, by its place among them; -1 when there is none.
func (x *notices) deliveryOf(row uint32, number uint64) int {
	if row == 0 || row > x.alerts.Len() {
		return -1
	}
	return slices.IndexFunc(x.alerts.Read(row).Deliveries, func(d DeliveryView) bool {
		return d.Number == number
	})
}

// BeginAlert reserves an attempt for one process, because the receiver of a mail cannot tell
// repeated attempts. The same process may repeat the command; any other one is fenced.
type BeginAlert struct {
	Alert  uint32   `wire:"1"` // the number of the flow's alerts, see DueAlert
	Number uint64   `wire:"2"` // the delivery's
	Sender [16]byte `wire:"3"` // drawn by each process
	// Attempt is the attempt's number, from 1.
	Attempt uint32 `wire:"4"`
}

func (c *BeginAlert) apply(x *notices, t *machine.Turn) engine.Outcome {
	at := x.deliveryOf(c.Alert, c.Number)
	if at < 0 {
		return engine.OutcomeRecordUnknown
	}
	switch d := &x.alerts.Read(c.Alert).Deliveries[at]; {
	case d.Status == DeliveryWaiting && d.BegunAt != 0 && d.Sender == c.Sender &&
		d.Attempts == c.Attempt:
		return engine.OutcomeDone
	case d.Status != DeliveryWaiting || d.BegunAt != 0 || d.Attempts+1 != c.Attempt:
		return engine.OutcomeFenced
	}
	x.alertWrite(t, c.Alert, func(a *alert) {
		d := &a.Deliveries[at]
		d.Attempts, d.Sender, d.BegunAt = c.Attempt, c.Sender, t.Stamp
	})
	return engine.OutcomeDone
}

// AlertResult is what came of an attempt.
type AlertResult uint8

// The results.
const (
	AlertDelivered AlertResult = 1
	// AlertRetry: it did not arrive, and may the next time.
	AlertRetry AlertResult = 2
	// AlertGone: the endpoint said that it is gone; it is sent nothing more.
	AlertGone AlertResult = 3
	// AlertRefused: it did not arrive and never will.
	AlertRefused AlertResult = 4
	// AlertLost: it is not known whether it arrived.
	AlertLost AlertResult = 5
)

// NoteAlert records the result of an attempt. For an attempt that is not the newest it is
// OutcomeFenced. Repeating it succeeds and changes nothing.
type NoteAlert struct {
	Alert   uint32      `wire:"1"`
	Number  uint64      `wire:"2"`
	Attempt uint32      `wire:"3"`
	Result  AlertResult `wire:"4"`
	// Answer is the status of HTTP or SMTP, 0 when there was none.
	Answer uint32 `wire:"5"`
	Reason string `wire:"6"` // at most 200 bytes
	// WaitMS is how long to wait before the next attempt, after AlertRetry; 0 is that there is
	// none.
	WaitMS int64 `wire:"7"`
}

func (c *NoteAlert) apply(x *notices, t *machine.Turn) engine.Outcome {
	at := x.deliveryOf(c.Alert, c.Number)
	if at < 0 {
		return engine.OutcomeRecordUnknown
	}
	if c.Result < AlertDelivered || c.Result > AlertLost || len(c.Reason) > maxAlertReason ||
		c.WaitMS < 0 || c.WaitMS > maxAlertWaitMS {
		return engine.OutcomeAlertsInvalid
	}
	switch d := &x.alerts.Read(c.Alert).Deliveries[at]; {
	case d.Status == DeliveryWaiting && d.BegunAt != 0 && d.Attempts == c.Attempt:
	case d.Status == DeliveryWaiting && d.BegunAt == 0 && d.Channel == ChannelWebhook &&
		d.Attempts+1 == c.Attempt:
	case d.Status == DeliveryUnknown && d.Attempts == c.Attempt && c.Result != AlertLost:
		// The sender reports late, and its report is the better one.
	case d.Attempts == c.Attempt && d.repeats(c):
		return engine.OutcomeDone
	default:
		return engine.OutcomeFenced
	}
	x.alertWrite(t, c.Alert, func(a *alert) { a.conclude(at, c, t.Stamp) })
	return engine.OutcomeDone
}

// repeats reports whether the newest attempt has this result already.
func (d *DeliveryView) repeats(c *NoteAlert) bool {
	switch c.Result {
	case AlertDelivered:
		return d.Status == DeliveryDelivered
	case AlertRetry:
		return d.BegunAt == 0 && d.Status != DeliveryDelivered && d.Status != DeliveryUnknown
	case AlertLost:
		return d.Status == DeliveryUnknown
	}
	return d.Status == DeliveryFailed
}

// conclude writes what came of an attempt.
func (a *alert) conclude(at int, c *NoteAlert, stamp int64) {
	d := &a.Deliveries[at]
	late := d.Status == DeliveryUnknown
	d.Attempts, d.Answer, d.BegunAt = c.Attempt, c.Answer, 0
	switch {
	case c.Result == AlertDelivered:
		d.end(DeliveryDelivered, "", stamp)
	case c.Result == AlertRetry && c.WaitMS > 0 && !late:
		d.Reason, d.NextAt = c.Reason, stamp+c.WaitMS
	case c.Result == AlertLost:
		d.end(DeliveryUnknown, c.Reason, stamp)
	default:
		d.end(DeliveryFailed, c.Reason, stamp)
	}
	if c.Result == AlertGone && d.Channel == ChannelWebhook {
		a.GoneAt = stamp
		a.drop(reasonGone, stamp)
	}
}
