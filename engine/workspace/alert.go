package workspace

import (
	"slices"
	"strconv"

	"tollgate/engine"
	"tollgate/engine/machine"
)

// Bounds of what an owner sets, in bytes.
const (
	MaxAlertEmail  = 254
	MaxAlertURL    = 2048
	MaxAlertSecret = 255 // as it is sealed
	// MaxAlertTests is how many test alerts a workspace sends in a UTC day.
	MaxAlertTests = 10
	// AlertOverlapMS is how long a secret that was replaced signs beside the new one.
	AlertOverlapMS = dayMS
)

// alert is what a flow's owner wants to hear of its watch, and what was sent of it.
type alert struct {
	Workspace uint32 `wire:"1"`
	Flow      uint32 `wire:"2"`
	On        bool   `wire:"3"`
	// Email and URL are where to; empty is nowhere.
	Email string `wire:"4"`
	URL   string `wire:"5"`
	// Secret signs webhooks, and so does Previous until PreviousUntil; sealed by the server.
	Secret        []byte `wire:"6"`
	Previous      []byte `wire:"7"`
	PreviousUntil int64  `wire:"8"`
	RotatedAt     int64  `wire:"9"`
	// GoneAt is when the webhook's endpoint said that it is gone: it is sent nothing until it is
	// set again, or alerts are turned on again.
	GoneAt int64 `wire:"10"`
	// Made counts deliveries, those that are not kept any more too.
	Made uint64 `wire:"11"`
	// Deliveries are the newest, oldest first.
	Deliveries []delivery `wire:"12"`
	// Unconfirmed: whoever has the e-mail address has not said yet that alerts may go there. Link
	// is the SHA-256 of the secret by which they are asked, until LinkUntil; zero is none.
	Unconfirmed bool     `wire:"13"`
	Link        [32]byte `wire:"14"`
	LinkUntil   int64    `wire:"15"`
}

// bytes is what an alert takes of its workspace's room.
func (a *alert) bytes() int {
	n := alertRowBytes + len(a.Email) + len(a.URL) + len(a.Secret) + len(a.Previous)
	for i := range a.Deliveries {
		n += a.Deliveries[i].bytes()
	}
	return n
}

// reaches reports whether a channel leads somewhere.
func (a *alert) reaches(c Channel) bool {
	if c == ChannelEmail {
		return a.Email != ""
	}
	return a.URL != "" && a.GoneAt == 0
}

// alertWrite changes an alert, what it takes of its workspace's room, and whether it waits. Its
// deliveries are the change's own copy: a snapshot may hold the row as it was.
func (x *notices) alertWrite(t *machine.Turn, row uint32, change func(a *alert)) {
	a := x.alerts.Write(row)
	bytes := a.bytes()
	a.Deliveries = slices.Clone(a.Deliveries)
	change(a)
	x.rooms.hold(a.Workspace, a.bytes()-bytes)
	x.alerting.note(row, a.sendable())
	t.Fold(uint64(row)<<32 | a.Made)
}

// SetAlerts sets what a flow's owner wants to hear; what it has no word about stays. It is for a
// person: who may, is the server's to know. Again it is the same success again.
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
	row, refused := x.alertable(c.Workspace, c.Flow)
	if refused != engine.OutcomeDone {
		return refused
	}
	if !c.valid() {
		return engine.OutcomeAlertsInvalid
	}
	before := alert{Workspace: c.Workspace, Flow: row}
	if at := x.flows.Read(row).Alert; at != 0 {
		before = *x.alerts.Read(at)
	}
	after := c.over(before)
	if after.On && !after.reaches(ChannelEmail) && !after.reaches(ChannelWebhook) {
		return engine.OutcomeAlertsOff
	}
	more := after.bytes()
	if x.flows.Read(row).Alert != 0 {
		more -= before.bytes()
	}
	if full := x.room(t, c.Workspace, more); full != engine.OutcomeDone {
		return full
	}

	at := x.flows.Read(row).Alert
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

// Why deliveries end that nobody has tried to the last.
const (
	reasonOff     = "turned off before it was sent"
	reasonOffLate = "turned off while it was being sent"
	reasonGone    = "the endpoint is gone (410)"
)

// drop ends what waits for a channel that leads nowhere any more, or that nobody wants to hear. A
// mail that somebody has begun to send may arrive all the same: what its sender says still counts.
func (a *alert) drop(reason string, stamp int64) {
	for i := range a.Deliveries {
		d := &a.Deliveries[i]
		if d.Status != DeliveryWaiting || (a.On || d.Kind == AlertTest) && a.reaches(d.Channel) {
			continue
		}
		if d.BegunAt != 0 {
			d.end(DeliveryUnknown, reasonOffLate, stamp)
		} else {
			d.end(DeliveryFailed, reason, stamp)
		}
	}
}

// alertable finds a flow that can have alerts.
func (x *notices) alertable(workspace uint32, flow [16]byte) (row uint32, refused engine.Outcome) {
	w, ok := x.workspace(workspace)
	if row = x.flowRow(workspace, flow); !ok || row == 0 {
		return 0, engine.OutcomeRecordUnknown
	}
	if !w.claimed() {
		return 0, engine.OutcomeAlertsUnclaimed
	}
	return row, engine.OutcomeDone
}

// RotateAlertSecret replaces the secret that a flow's webhooks are signed with; the one before
// signs beside it for a day, the one before that no more. It is for a person.
type RotateAlertSecret struct {
	Workspace uint32   `wire:"1"`
	Flow      [16]byte `wire:"2"`
	Secret    []byte   `wire:"3"` // sealed
}

func (c *RotateAlertSecret) apply(x *notices, t *machine.Turn) engine.Outcome {
	row, refused := x.alertable(c.Workspace, c.Flow)
	if refused != engine.OutcomeDone {
		return refused
	}
	at := x.flows.Read(row).Alert
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
	row, refused := x.alertable(c.Workspace, c.Flow)
	if refused != engine.OutcomeDone {
		return refused
	}
	at := x.flows.Read(row).Alert
	if at == 0 || !x.alerts.Read(at).reaches(ChannelEmail) &&
		!x.alerts.Read(at).reaches(ChannelWebhook) {
		return engine.OutcomeAlertsOff
	}
	w, _ := x.workspace(c.Workspace)
	if w.Ledger.roll(t.Stamp); w.Ledger.AlertTests >= MaxAlertTests {
		t.Answer(&RetryReply{Limit: MaxAlertTests, ResetsAt: nextDay(t.Stamp)})
		return engine.OutcomeAlertTestLimit
	}
	w.Ledger.AlertTests++
	*x.workspaces.Write(c.Workspace) = w
	x.send(t, at, &delivery{Kind: AlertTest})
	return engine.OutcomeDone
}

// alertOf tells a flow's owner what its watch has come to by a run, where they want to hear it.
func (x *notices) alertOf(t *machine.Turn, kind AlertKind, r *run, text *RunText) {
	at := x.flows.Read(r.Flow).Alert
	if at == 0 || !x.alerts.Read(at).On {
		return
	}
	x.send(t, at, &delivery{
		Kind: kind, Run: r.ID, Outcome: r.Outcome, Step: cutText(text.Step, maxAlertWord),
		Code: cutText(text.Code, maxAlertWord), Why: cutText(text.Reason, maxAlertWhy),
	})
}

// send queues a delivery for each channel that leads somewhere. What it says of the flow is what it
// says now: each attempt says the same.
func (x *notices) send(t *machine.Turn, at uint32, made *delivery) {
	made.Flow = x.document(x.alerts.Read(at).Flow).Name
	x.alertWrite(t, at, func(a *alert) {
		for _, channel := range [...]Channel{ChannelEmail, ChannelWebhook} {
			if !a.reaches(channel) {
				continue
			}
			a.Made++
			d := *made
			d.ID = derivedID(x.flows.Read(a.Flow).ID, labelAlert, a.Made, t.Stamp)
			d.Number, d.Channel, d.Status = a.Made, channel, DeliveryWaiting
			d.CreatedAt, d.NextAt = t.Stamp, t.Stamp
			a.keep(d)
		}
	})
}

// keep adds a delivery; beyond MaxDeliveries the oldest that has ended goes, or the oldest.
func (a *alert) keep(d delivery) {
	if len(a.Deliveries) >= MaxDeliveries {
		at := max(0, slices.IndexFunc(a.Deliveries, func(d delivery) bool {
			return d.Status != DeliveryWaiting
		}))
		a.Deliveries = slices.Delete(a.Deliveries, at, at+1)
	}
	a.Deliveries = append(a.Deliveries, d)
}

// forgetAlert lets go of a flow's alerts: where they went, and what was sent.
func (x *notices) forgetAlert(t *machine.Turn, flow uint32) {
	if at := x.flows.Read(flow).Alert; at != 0 {
		x.alertWrite(t, at, func(a *alert) {
			*a = alert{Workspace: a.Workspace, Flow: a.Flow, Made: a.Made}
		})
	}
}

// alertValues are what operators change of a flow's alerts, for the record of an act; flow 0 has
// none.
func (x *notices) alertValues(flow uint32) []ActChange {
	var a alert
	if flow != 0 && x.flows.Read(flow).Alert != 0 {
		a = *x.alerts.Read(x.flows.Read(flow).Alert)
	}
	rotated := ""
	if a.RotatedAt != 0 {
		rotated = strconv.FormatInt(a.RotatedAt, 10)
	}
	return []ActChange{
		{Name: "alertsOn", After: strconv.FormatBool(a.On)},
		{Name: "alertsEmail", After: a.Email},
		{Name: "alertsWebhook", After: a.URL},
		{Name: "alertsSecretRotatedAt", After: rotated},
	}
}
