package workspaceapi

import (
	"context"
	"encoding/hex"
	"time"

	"tollgate/engine"
	"tollgate/engine/workspace"
	"tollgate/server/leader"
	"tollgate/server/provider/mail"
	"tollgate/server/provider/webhook"
)

// How alerts are sent.
const (
	// alertsEvery is how often the state is asked what is due, alertSlots how many deliveries of
	// each channel are under way at a time, alertBatch how many are looked at in a round.
	alertsEvery = 200 * time.Millisecond
	alertSlots  = 8
	alertBatch  = 100
	// mailTimeout bounds one mail; mailFate is how long a process that has begun one may be silent
	// before its fate counts as unknown.
	mailTimeout = time.Minute
	mailFate    = 2 * time.Minute
	// alertLife is how old an alert may be and still be news.
	alertLife = 24 * time.Hour
	// noteAgain is the pause before the log is told again what came of an attempt.
	noteAgain = time.Second
)

// alertsPurpose derives the key under which the signing secrets of alerts are sealed.
const alertsPurpose = "tollgate alert secrets"

// alertSender sends the alerts that wait in the state, on the node that leads. What it remembers is
// only what it has under way: a new leader goes on from the state.
type alertSender struct {
	*Alerts
	// process is this one: a mail that another one has begun is not this one's to send.
	process      [16]byte
	mails, hooks leader.Slots
	after        uint32
}

// delivery names a delivery of a flow's alerts.
type delivery struct {
	alert  uint32
	number uint64
}

// DeliverAlerts sends alerts while this node leads, until ctx ends, and returns once nothing is
// under way any more.
func (a *Alerts) DeliverAlerts(ctx context.Context, leads func() (uint64, bool)) {
	s := &alertSender{Alerts: a, process: mint(), mails: alertSlots, hooks: alertSlots}
	loop := leader.Loop[delivery, *workspace.DueAlert]{
		Leads: leads, Every: alertsEvery, Now: a.clock, Due: s.due, Take: s.take,
		Do: func(ctx context.Context, _ delivery, d *workspace.DueAlert, _ int) (time.Duration,
			bool,
		) {
			s.deliver(ctx, d)
			return noteAgain, false // what was noted may reach this node's memory a moment later
		},
	}
	loop.Run(ctx)
}

// due offers what is to be sent, but for mails that another process has begun a moment ago: that
// one notes what becomes of them.
func (s *alertSender) due(_ func(delivery) bool, offer func(delivery, *workspace.DueAlert)) {
	var due []workspace.DueAlert
	due, s.after = s.machine.DueAlerts(s.now(), s.after, alertBatch)
	for i := range due {
		d := &due[i]
		if d.BegunAt == 0 || d.Sender == s.process || s.now() >= d.BegunAt+mailFate.Milliseconds() {
			offer(delivery{d.Alert, d.Number}, d)
		}
	}
}

func (s *alertSender) take(d *workspace.DueAlert) (land func(), ok bool) {
	if d.Channel == workspace.ChannelWebhook {
		return s.hooks.Take()
	}
	return s.mails.Take()
}

// deliver makes one attempt, and brings what came of it into the log.
func (s *alertSender) deliver(ctx context.Context, d *workspace.DueAlert) {
	note := &workspace.NoteAlert{Alert: d.Alert, Number: d.Number, Attempt: d.Attempts + 1}
	old := s.now()-d.CreatedAt > alertLife.Milliseconds()
	if d.Channel == workspace.ChannelWebhook {
		if old {
			note.Result, note.Reason = workspace.AlertRefused, reasonOld
		} else if !s.post(ctx, d, note) {
			return // broken off: the next leader sends it again
		}
		s.note(ctx, note)
		return
	}
	if d.BegunAt != 0 {
		note.Attempt = d.Attempts
	}
	if d.BegunAt != 0 && d.Sender != s.process {
		note.Result, note.Reason = workspace.AlertLost,
			"the node that sent it was not heard of again"
		s.note(ctx, note)
		return
	}
	// From here on no other node sends it, whatever becomes of this one.
	begun := s.propose(0, workspace.KindBeginAlert, &workspace.BeginAlert{
		Alert: d.Alert, Number: d.Number, Sender: s.process, Attempt: note.Attempt,
	})
	if begun.Outcome != engine.OutcomeDone {
		return
	}
	if old {
		note.Result, note.Reason = workspace.AlertRefused, reasonOld
	} else {
		s.mail(ctx, d, note)
	}
	s.note(ctx, note)
}

const reasonOld = "it was not sent within a day"

// post sends a webhook; false when the attempt was broken off.
func (s *alertSender) post(
	ctx context.Context, d *workspace.DueAlert, note *workspace.NoteAlert,
) bool {
	a := s.Alerts
	if a.hooks == nil {
		note.Result, note.Reason = workspace.AlertRefused, "this server sends no webhooks"
		return true
	}
	secrets, err := a.alertSecrets(d)
	if err != nil {
		note.Result, note.Reason = workspace.AlertRefused,
			"its signing secret cannot be read: rotate it"
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
	note.Answer, note.Reason = uint32(result.Status), cut(result.Reason, maxAlertReason)
	switch result.Outcome {
	case webhook.Delivered:
		note.Result = workspace.AlertDelivered
	case webhook.Gone:
		note.Result = workspace.AlertGone
	default:
		note.Result = workspace.AlertRetry
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
func (s *alertSender) mail(ctx context.Context, d *workspace.DueAlert, note *workspace.NoteAlert) {
	a := s.Alerts
	if a.mail == nil {
		note.Result, note.Reason = workspace.AlertRefused, "this server sends no mail"
		return
	}
	sending, cancel := context.WithTimeout(ctx, mailTimeout)
	defer cancel()
	result := a.mail.Send(sending, a.alertMail(d))
	note.Answer, note.Reason = uint32(max(0, result.Status)), cut(result.Reason, maxAlertReason)
	switch result.Outcome {
	case mail.Delivered:
		note.Result = workspace.AlertDelivered
	case mail.Refused:
		note.Result = workspace.AlertRefused
	case mail.Unknown:
		note.Result = workspace.AlertLost
	default:
		note.Result = workspace.AlertRetry
		note.WaitMS = alertWait(note.Attempt, idText(markAlert, d.ID), 0)
	}
}

// note brings what came of an attempt into the log, however long that takes: until it is there this
// node does not make another. A node that stops says it once.
func (s *alertSender) note(ctx context.Context, note *workspace.NoteAlert) {
	for {
		switch r := s.propose(0, workspace.KindNoteAlert, note); r.Outcome {
		case engine.OutcomeUnavailable, engine.OutcomeOverloaded, engine.OutcomeUnknown,
			engine.OutcomeDiskLow, engine.OutcomeDeferred, engine.OutcomeUpgrading:
		case engine.OutcomeDone, engine.OutcomeFenced, engine.OutcomeRecordUnknown:
			return
		default:
			s.log.Error("what came of an alert is not noted", "outcome", r.Outcome)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(noteAgain):
		}
	}
}

// maxAlertReason is in bytes.
const maxAlertReason = 200

// alertPlace is what a flow's signing secrets are sealed for.
func alertPlace(flow [16]byte) string { return "alerts of " + hex.EncodeToString(flow[:]) }

// mintAlertSecret makes a signing secret: sealed for the log, and as its owner is shown it, once.
func (a *Alerts) mintAlertSecret(flow [16]byte) (sealed []byte, shown string) {
	shown = webhook.MintSecret().Reveal()
	return a.vault.Seal(0, alertPlace(flow), shown), shown
}

// alertSecrets opens what a flow's webhooks are signed with. One before that does not open is left
// out.
func (a *Alerts) alertSecrets(d *workspace.DueAlert) (s webhook.Secrets, err error) {
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
