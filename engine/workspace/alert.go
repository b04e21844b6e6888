package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
)

// SetAlerts changes the alerts of a flow; settings that it does not name stay as they are. It is
// for a person; the server decides who that is. Repeating it succeeds and changes nothing.
type SetAlerts struct {
	Workspace uint32   `wire:"1"`
	Flow      [16]byte `wire:"2"`
	HasEmail  bool     `wire:"3"`
	HasURL    bool     `wire:"4"`
	HasOn     bool     `wire:"5"`
	Email     string   `wire:"6"`
	URL       string   `wire:"7"` // empty is none
	On        bool     `wire:"8"`
	// Secret is what webhooks are signed with, sealed, where there is no secret yet; never empty
	// with a URL.
	Secret []byte `wire:"9"`
	// unvouched: a person sets it, and has not signed in with that address; an act finds that out.
	unvouched bool
}

func (c *SetAlerts) valid() bool {
	return len(c.Email) <= MaxAlertEmail && len(c.URL) <= MaxAlertURL &&
		len(c.Secret) <= MaxAlertSecret && (c.URL == "" || len(c.Secret) > 0)
}

func (c *SetAlerts) apply(x *notices, t *machine.Turn) engine.Outcome {
	row, at, refused := x.alertable(c.Workspace, c.Flow)
	if refused != engine.OutcomeDone {
		return refused
	}
	if !c.valid() {
		return engine.OutcomeAlertsInvalid
	}
	before := alert{Workspace: c.Workspace, Flow: row}
	if at != 0 {
		before = *x.alerts.Read(at)
	}
	after := c.over(before)
	if after.On && !after.reaches(ChannelEmail) && !after.reaches(ChannelWebhook) {
		return engine.OutcomeAlertsOff
	}
	more := after.bytes()
	if at != 0 {
		more -= before.bytes()
	}
	if full := x.room(t, c.Workspace, more); full != engine.OutcomeDone {
		return full
	}

	if at == 0 {
		at, _ = x.alerts.Append()
		*x.alerts.Write(at) = alert{Workspace: c.Workspace, Flow: row}
		x.rooms.hold(c.Workspace, alertRowBytes)
		x.flows.Write(row).Alert = at
	}
	x.alertWrite(t, at, func(a *alert) {
		kept := a.Deliveries
		*a = after
		a.Deliveries = kept
		a.drop(reasonOff, t.Stamp)
	})
	return engine.OutcomeDone
}

// over is what an alert is with a command's settings.
func (c *SetAlerts) over(a alert) alert {
	if c.HasEmail {
		a.mailTo(c.Email, !c.unvouched)
	}
	if c.HasURL {
		if a.GoneAt = 0; c.URL == "" {
			a.Secret, a.Previous, a.PreviousUntil, a.RotatedAt = nil, nil, 0, 0
		} else if len(a.Secret) == 0 {
			a.Secret = c.Secret
		}
		a.URL = c.URL
	}
	if c.HasOn {
		if a.On = c.On; c.On {
			a.GoneAt = 0
		}
	}
	return a
}

// RotateAlertSecret replaces the secret that signs a flow's webhooks. The previous secret also
// signs for a day; the one before that no longer does. It is for a person.
type RotateAlertSecret struct {
	Workspace uint32   `wire:"1"`
	Flow      [16]byte `wire:"2"`
	Secret    []byte   `wire:"3"` // sealed
}

func (c *RotateAlertSecret) apply(x *notices, t *machine.Turn) engine.Outcome {
	_, at, refused := x.alertable(c.Workspace, c.Flow)
	if refused != engine.OutcomeDone {
		return refused
	}
	switch {
	case at == 0 || x.alerts.Read(at).URL == "":
		return engine.OutcomeAlertsOff
	case len(c.Secret) == 0 || len(c.Secret) > MaxAlertSecret:
		return engine.OutcomeAlertsInvalid
	}
	more := len(c.Secret) - len(x.alerts.Read(at).Previous)
	if full := x.room(t, c.Workspace, more); full != engine.OutcomeDone {
		return full
	}
	x.alertWrite(t, at, func(a *alert) {
		a.Previous, a.PreviousUntil = a.Secret, t.Stamp+AlertOverlapMS
		a.Secret, a.RotatedAt = c.Secret, t.Stamp
	})
	return engine.OutcomeDone
}

// SendTestAlert sends a test to wherever a flow's alerts go, whether they are on or not. It is for
// a person.
type SendTestAlert struct {
	Workspace uint32   `wire:"1"`
	Flow      [16]byte `wire:"2"`
}

func (c *SendTestAlert) apply(x *notices, t *machine.Turn) engine.Outcome {
	_, at, refused := x.alertable(c.Workspace, c.Flow)
	if refused != engine.OutcomeDone {
		return refused
	}
	if at == 0 || !x.alerts.Read(at).reaches(ChannelEmail) &&
		!x.alerts.Read(at).reaches(ChannelWebhook) {
		return engine.OutcomeAlertsOff
	}
	w, _ := x.workspace(c.Workspace)
	if w.Ledger.roll(t.Stamp); w.Ledger.AlertTests >= MaxAlertTests {
		t.Answer(&RetryReply{Limit: MaxAlertTests, ResetsAt: DayEnd(t.Stamp)})
		return engine.OutcomeAlertTestLimit
	}
	w.Ledger.AlertTests++
	*x.workspaces.Write(c.Workspace) = w
	x.send(t, at, &DeliveryView{Kind: AlertTest})
	return engine.OutcomeDone
}
