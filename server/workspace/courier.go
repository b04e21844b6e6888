package workspace

import (
	"context"
	"encoding/hex"
	"sync"
	"time"

	"tollgate/engine"
	state "tollgate/engine/workspace"
	"tollgate/server/provider/mail"
	"tollgate/server/provider/webhook"
)

// How alerts are sent.
const (
	// courierEvery is how often the state is asked what is due, courierSlots how many deliveries of
	// each channel are under way at a time, courierBatch how many are looked at in a round.
	courierEvery = 200 * time.Millisecond
	courierSlots = 8
	courierBatch = 100
	// mailTimeout bounds one mail; mailFate is how long a process that has begun one may be silent
	// before nobody expects to hear what became of it.
	mailTimeout = time.Minute
	mailFate    = 2 * time.Minute
	// alertLife is how old an alert may be and still be news.
	alertLife = 24 * time.Hour
	// noteAgain is the pause before the log is told again what came of an attempt.
	noteAgain = time.Second
)

// alertsPurpose derives the key under which the signing secrets of alerts are sealed.
const alertsPurpose = "tollgate alert secrets"

// courier sends the alerts that wait in the state, on the node that leads. What it remembers is
// only what it has under way: a new leader goes on from the state.
type courier struct {
	alerts *Alerts
	// sender is this process: a mail that another one has begun is not this one's to send.
	sender [16]byte
	mails  chan struct{}
	hooks  chan struct{}
	busy   sync.WaitGroup
	after  uint32

	mu sync.Mutex
	// flights are deliveries that are under way, or ended a moment ago: until when to let them be,
	// zero while they are under way.
	flights map[flight]time.Time
}

// flight is a delivery of a flow's alerts.
type flight struct {
	alert  uint32
	number uint64
}

// DeliverAlerts sends alerts while leads says so, until ctx ends, and returns once nothing is under
// way any more.
func (a *Alerts) DeliverAlerts(ctx context.Context, leads func() bool) {
	c := &courier{
		alerts: a, sender: mint(), mails: make(chan struct{}, courierSlots),
		hooks: make(chan struct{}, courierSlots), flights: map[flight]time.Time{},
	}
	defer c.busy.Wait()
	tick := time.NewTicker(courierEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if leads() {
			c.round(ctx)
		}
	}
}

// round begins what can begin now.
func (c *courier) round(ctx context.Context) {
	now := c.alerts.clock()
	due, next := c.alerts.machine.DueAlerts(c.alerts.now(), c.after, courierBatch)
	c.after = next
	for i := range due {
		d := &due[i]
		slots := c.mails
		if d.Channel == state.ChannelWebhook {
			slots = c.hooks
		}
		if !c.take(d, now, slots) {
			continue
		}
		c.busy.Go(func() {
			defer func() { <-slots }()
			c.deliver(ctx, d)
			// What was noted may reach this node's memory a moment later.
			c.mu.Lock()
			c.flights[flight{d.Alert, d.Number}] = c.alerts.clock().Add(noteAgain)
			c.mu.Unlock()
		})
	}
	c.forget(now)
}

// take claims a delivery and a slot for it; false where it is under way, somebody else's, or there
// is not a slot.
func (c *courier) take(d *state.DueAlert, now time.Time, slots chan struct{}) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := flight{d.Alert, d.Number}
	if until, known := c.flights[key]; known && (until.IsZero() || now.Before(until)) {
		return false
	}
	if d.BegunAt != 0 && d.Sender != c.sender && c.alerts.now() < d.BegunAt+mailFate.Milliseconds() {
		return false // whoever has begun it says what became of it
	}
	select {
	case slots <- struct{}{}:
		c.flights[key] = time.Time{}
		return true
	default:
		return false
	}
}

// forget drops what is remembered of deliveries that ended a while ago.
func (c *courier) forget(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, until := range c.flights {
		if !until.IsZero() && now.After(until) {
			delete(c.flights, key)
		}
	}
}

// deliver makes one attempt, and brings what came of it into the log.
func (c *courier) deliver(ctx context.Context, d *state.DueAlert) {
	note := &state.NoteAlert{Alert: d.Alert, Number: d.Number, Attempt: d.Attempts + 1}
	old := c.alerts.now()-d.CreatedAt > alertLife.Milliseconds()
	if d.Channel == state.ChannelWebhook {
		if old {
			note.Result, note.Reason = state.AlertRefused, reasonOld
		} else if !c.post(ctx, d, note) {
			return // broken off: the next leader sends it again
		}
		c.note(ctx, note)
		return
	}
	if d.BegunAt != 0 {
		note.Attempt = d.Attempts
	}
	if d.BegunAt != 0 && d.Sender != c.sender {
		note.Result, note.Reason = state.AlertLost, "the node that sent it was not heard of again"
		c.note(ctx, note)
		return
	}
	// From here on nobody else sends it, whatever becomes of this node.
	begun := c.alerts.propose(0, state.KindBeginAlert, &state.BeginAlert{
		Alert: d.Alert, Number: d.Number, Sender: c.sender, Attempt: note.Attempt,
	})
	if begun.Outcome != engine.OutcomeDone {
		return
	}
	if old {
		note.Result, note.Reason = state.AlertRefused, reasonOld
	} else {
		c.mail(ctx, d, note)
	}
	c.note(ctx, note)
}

const reasonOld = "it was not sent within a day"

// post sends a webhook; false when the attempt was broken off.
func (c *courier) post(ctx context.Context, d *state.DueAlert, note *state.NoteAlert) bool {
	a := c.alerts
	if a.hooks == nil {
		note.Result, note.Reason = state.AlertRefused, "this server sends no webhooks"
		return true
	}
	secrets, err := a.alertSecrets(d)
	if err != nil {
		note.Result, note.Reason = state.AlertRefused, "its signing secret cannot be read: rotate it"
		return true
	}
	name := idText(markAlert, d.ID)
	result, err := a.hooks.Deliver(ctx, webhook.Endpoint{URL: d.URL, Secrets: secrets},
		webhook.Message{ID: name, Body: alertBody(d)})
	if err != nil {
		if ctx.Err() == nil {
			a.log.Error("an alert cannot be signed", "alert", name, "error", err)
		}
		return false
	}
	note.Answer, note.Reason = uint32(result.Status), cut(result.Reason, longestAlertReason)
	switch result.Outcome {
	case webhook.Delivered:
		note.Result = state.AlertDelivered
	case webhook.Gone:
		note.Result = state.AlertGone
	default:
		note.Result = state.AlertRetry
		note.WaitMS = alertWait(note.Attempt, name, result.RetryAfter)
	}
	if result.Detail != "" {
		a.log.Info("an alert's webhook did not arrive", "alert", name, "detail", result.Detail)
	}
	return true
}

// alertWait is the pause after an attempt that failed, in milliseconds; 0 when it was the last.
func alertWait(attempt uint32, name string, asked time.Duration) int64 {
	wait, again := webhook.Brief.Next(int(attempt), name, asked)
	if !again {
		return 0
	}
	return max(1, wait.Milliseconds())
}

// mail sends a mail. One that is under way when the node stops is waited for: the mail server takes
// it or not within mailTimeout.
func (c *courier) mail(ctx context.Context, d *state.DueAlert, note *state.NoteAlert) {
	a := c.alerts
	if a.mail == nil {
		note.Result, note.Reason = state.AlertRefused, "this server sends no mail"
		return
	}
	sending, cancel := context.WithTimeout(ctx, mailTimeout)
	defer cancel()
	result := a.mail.Send(sending, a.alertMail(d))
	note.Answer, note.Reason = uint32(max(0, result.Status)), cut(result.Reason, longestAlertReason)
	switch result.Outcome {
	case mail.Delivered:
		note.Result = state.AlertDelivered
	case mail.Refused:
		note.Result = state.AlertRefused
	case mail.Unknown:
		note.Result = state.AlertLost
	default:
		note.Result = state.AlertRetry
		note.WaitMS = alertWait(note.Attempt, idText(markAlert, d.ID), 0)
	}
}

// note brings what came of an attempt into the log, however long that takes: until it is there this
// node does not make another. A node that stops says it once.
func (c *courier) note(ctx context.Context, note *state.NoteAlert) {
	for {
		switch r := c.alerts.propose(0, state.KindNoteAlert, note); r.Outcome {
		case engine.OutcomeUnavailable, engine.OutcomeOverloaded, engine.OutcomeUnknown,
			engine.OutcomeDiskLow, engine.OutcomeDeferred, engine.OutcomeUpgrading:
		case engine.OutcomeDone, engine.OutcomeFenced, engine.OutcomeRecordUnknown:
			return
		default:
			c.alerts.log.Error("what came of an alert is not noted", "outcome", r.Outcome)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(noteAgain):
		}
	}
}

// longestAlertReason is in bytes.
const longestAlertReason = 200

// alertPlace is what a flow's signing secrets are sealed for.
func alertPlace(flow [16]byte) string { return "alerts of " + hex.EncodeToString(flow[:]) }

// mintAlertSecret makes a signing secret: sealed for the log, and as its owner is shown it, once.
func (a *Alerts) mintAlertSecret(flow [16]byte) (sealed []byte, shown string, err error) {
	shown = webhook.MintSecret().Reveal()
	sealed, err = a.vault.Seal(0, alertPlace(flow), shown)
	return sealed, shown, err
}

// alertSecrets opens what a flow's webhooks are signed with. One before that does not open is left
// out.
func (a *Alerts) alertSecrets(d *state.DueAlert) (s webhook.Secrets, err error) {
	open := func(sealed []byte) (webhook.Secret, error) {
		text, err := a.vault.Open(0, alertPlace(d.FlowID), sealed)
		if err != nil {
			return webhook.Secret{}, err
		}
		return webhook.ParseSecret(text)
	}
	if s.Current, err = open(d.Secret); err != nil || len(d.Previous) == 0 {
		return s, err
	}
	before, err := open(d.Previous)
	if err != nil {
		a.log.Warn("an alert's secret that was replaced does not open",
			"flow", idText(markFlow, d.FlowID))
		return s, nil
	}
	s.Previous, s.PreviousUntil = before, time.UnixMilli(d.PreviousUntil)
	return s, nil
}
