package workspace

import (
	"slices"
	"unicode/utf8"

	"tollgate/engine"
	"tollgate/engine/machine"
)

// MaxDeliveries is how many deliveries of a flow's alerts are kept; those that wait stay longest.
const MaxDeliveries = 20

// Bounds of what a delivery says, in bytes, and of the wait before its next attempt.
const (
	maxAlertWord   = 120
	maxAlertWhy    = 500
	maxAlertReason = 200
	maxAlertWaitMS = 2 * dayMS
	deliveryBytes  = 160
	alertRowBytes  = 200
)

// AlertKind is what an alert says.
type AlertKind uint8

// The kinds of alerts.
const (
	AlertFailing   AlertKind = 1 // it stopped passing
	AlertRecovered AlertKind = 2
	AlertTest      AlertKind = 3
)

// String is the kind's name in the API.
func (k AlertKind) String() string { return [...]string{"", "failing", "recovered", "test"}[k] }

// Channel is the way that an alert goes.
type Channel uint8

// The channels.
const (
	ChannelEmail   Channel = 1
	ChannelWebhook Channel = 2
)

// String is the channel's name in the API.
func (c Channel) String() string { return [...]string{"", "email", "webhook"}[c] }

// DeliveryStatus is how far a delivery has come.
type DeliveryStatus uint8

// The statuses.
const (
	DeliveryWaiting   DeliveryStatus = 1
	DeliveryDelivered DeliveryStatus = 2
	DeliveryFailed    DeliveryStatus = 3
	// DeliveryUnknown: it may have arrived, and is not sent again.
	DeliveryUnknown DeliveryStatus = 4
)

// String is the status's name in the API.
func (s DeliveryStatus) String() string {
	return [...]string{"", "waiting", "delivered", "failed", "unknown"}[s]
}

// delivery is one alert on its way to one place.
type delivery struct {
	ID [16]byte `wire:"1"`
	// Number counts the flow's deliveries, from 1.
	Number  uint64         `wire:"19"`
	Kind    AlertKind      `wire:"2"`
	Channel Channel        `wire:"3"`
	Status  DeliveryStatus `wire:"4"`
	// Attempts counts those that were made, or begun.
	Attempts  uint32 `wire:"5"`
	CreatedAt int64  `wire:"6"`
	NextAt    int64  `wire:"7"`
	EndedAt   int64  `wire:"8"`
	// Sender is the process that begins the attempt of this number, since BegunAt: nobody else may
	// make it. BegunAt is 0 between attempts.
	Sender  [16]byte `wire:"9"`
	BegunAt int64    `wire:"10"`
	// Code is the answer to the newest attempt, 0 is none; Reason says what is wrong with it.
	Answer uint32 `wire:"11"`
	Reason string `wire:"12"`
	// What it says: of the run that the watch went by, and of the flow as it was called then.
	Run     [16]byte   `wire:"13"`
	Outcome RunOutcome `wire:"14"`
	Flow    string     `wire:"15"`
	Step    string     `wire:"16"`
	Code    string     `wire:"17"`
	Why     string     `wire:"18"`
}

func (d *delivery) bytes() int {
	return deliveryBytes + len(d.Reason) + len(d.Flow) + len(d.Step) + len(d.Code) + len(d.Why)
}

// consistent reports whether what is read from a snapshot has names.
func (d *delivery) consistent() bool {
	return d.Kind >= AlertFailing && d.Kind <= AlertTest && d.Channel >= ChannelEmail &&
		d.Channel <= ChannelWebhook && d.Status >= DeliveryWaiting && d.Status <= DeliveryUnknown &&
		d.Outcome <= OutcomeInconclusive
}

func (d *delivery) end(status DeliveryStatus, reason string, stamp int64) {
	d.Status, d.Reason, d.EndedAt, d.NextAt, d.BegunAt = status, reason, stamp, 0, 0
}

// cutText shortens a text to so many bytes, between characters.
func cutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// waiting are the rows of a table for which something is to be done, lower rows first. It is no
// state: it follows from the table.
type waiting []uint32

// behind are those of higher rows.
func (w waiting) behind(row uint32) []uint32 {
	at, _ := slices.BinarySearch(w, row+1)
	return w[at:]
}

func (w *waiting) note(row uint32, waits bool) {
	at, found := slices.BinarySearch(*w, row)
	switch {
	case waits && !found:
		*w = slices.Insert(*w, at, row)
	case found && !waits:
		*w = slices.Delete(*w, at, at+1)
	}
}

// deliveryOf finds a delivery of an alert, by its place among them; -1 when there is none.
func (x *notices) deliveryOf(row uint32, number uint64) int {
	if row == 0 || row > x.alerts.Len() {
		return -1
	}
	return slices.IndexFunc(x.alerts.Read(row).Deliveries, func(d delivery) bool {
		return d.Number == number
	})
}

// BeginAlert reports whether a process is about to make an attempt that nobody may make twice,
// since what it sends has no receiver that knows repetitions: a mail. The same process may say so
// again; any other one is fenced.
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
	// AlertLost: nobody knows whether it arrived.
	AlertLost AlertResult = 5
)

// NoteAlert says what came of an attempt. Of an attempt that is not the newest it is
// OutcomeFenced; the same again is the same success again.
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
		// Whoever sent it is late, and knows better.
	case d.Attempts == c.Attempt && d.repeats(c):
		return engine.OutcomeDone
	default:
		return engine.OutcomeFenced
	}
	x.alertWrite(t, c.Alert, func(a *alert) { a.conclude(at, c, t.Stamp) })
	return engine.OutcomeDone
}

// repeats reports whether a word about the newest attempt was heard already.
func (d *delivery) repeats(c *NoteAlert) bool {
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

// DeliveryView is one alert on its way to one place.
type DeliveryView struct {
	ID                         [16]byte
	Number                     uint64
	Kind                       AlertKind
	Channel                    Channel
	Status                     DeliveryStatus
	Attempts                   uint32
	CreatedAt, NextAt, EndedAt int64 // 0 is none
	// Sender has begun the newest attempt at BegunAt and has not said what came of it; 0 is none.
	Sender  [16]byte
	BegunAt int64
	Answer  uint32
	Reason  string
	// Run is zero in a test.
	Run                   [16]byte
	Outcome               RunOutcome
	Flow, Step, Code, Why string
}

// AlertsView is what a flow's owner wants to hear, and what was sent.
type AlertsView struct {
	On                       bool
	Email, URL               string
	GoneAt                   int64 // since when the webhook is off because it said that it is gone
	Secret, Previous         []byte
	PreviousUntil, RotatedAt int64
	Deliveries               []DeliveryView // newest first
	// Unconfirmed: nothing is mailed until whoever has the address says that it may be; a link that
	// asks works until LinkUntil.
	Unconfirmed bool
	LinkUntil   int64
}

func (a *alert) view() AlertsView {
	v := AlertsView{
		On: a.On, Email: a.Email, URL: a.URL, GoneAt: a.GoneAt, Secret: a.Secret,
		Previous: a.Previous, PreviousUntil: a.PreviousUntil, RotatedAt: a.RotatedAt,
		Unconfirmed: a.Unconfirmed, LinkUntil: a.LinkUntil,
	}
	for i := len(a.Deliveries) - 1; i >= 0; i-- {
		v.Deliveries = append(v.Deliveries, DeliveryView(a.Deliveries[i]))
	}
	return v
}

// Alerts finds a flow of a workspace, and what its alerts are; set reports whether somebody ever
// set them.
func (m *Machine) Alerts(workspace uint32, flow [16]byte) (f FlowView, v AlertsView, set, ok bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	row := s.flowRow(workspace, flow)
	if row == 0 {
		return f, v, false, false
	}
	at := s.flows.Read(row).Alert
	if at == 0 {
		return s.flowView(row), v, false, true
	}
	return s.flowView(row), s.alerts.Read(at).view(), true, true
}

// DueAlert is an alert that is to be sent, and all that is needed for it.
type DueAlert struct {
	DeliveryView
	// Alert is the number of the flow's alerts.
	Alert             uint32
	FlowID, Workspace [16]byte
	Label, Email, URL string
	Secret, Previous  []byte
	PreviousUntil     int64
	Watch             WatchState
}

// mostDueLooked is how many flows' alerts one DueAlerts looks at: commands wait meanwhile, and
// where many receivers fail, many alerts wait that are not due.
const mostDueLooked = 5000

// DueAlerts are alerts to be sent at an instant of log time, behind the one of number after; 0
// begins. Of each flow and channel it is the oldest, since they are sent in order. At most about
// most are answered, and few looked at; next is where to go on, 0 when that was all.
func (m *Machine) DueAlerts(now int64, after uint32, most int) (due []DueAlert, next uint32) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for looked, row := range s.alerting.behind(after) {
		if len(due) >= most || looked >= mostDueLooked {
			return due, after
		}
		after = row
		a := s.alerts.Read(row)
		for _, channel := range [...]Channel{ChannelEmail, ChannelWebhook} {
			i := slices.IndexFunc(a.Deliveries, func(d delivery) bool {
				return d.Channel == channel && d.Status == DeliveryWaiting && !a.held(&d)
			})
			if i < 0 || a.Deliveries[i].NextAt > now {
				continue
			}
			w, f := s.workspaces.Read(a.Workspace), s.flows.Read(a.Flow)
			due = append(due, DueAlert{
				DeliveryView: DeliveryView(a.Deliveries[i]), Alert: row, FlowID: f.ID, Workspace: w.ID,
				Label: w.Label, Email: a.Email, URL: a.URL, Secret: a.Secret, Previous: a.Previous,
				PreviousUntil: a.PreviousUntil, Watch: f.Watch,
			})
		}
	}
	return due, 0
}
