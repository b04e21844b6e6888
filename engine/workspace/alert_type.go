package workspace

import "slices"

// Bounds of what an owner sets, in bytes.
const (
	MaxAlertEmail  = 254
	MaxAlertURL    = 2048
	MaxAlertSecret = 255 // as it is sealed
	// MaxAlertTests is how many test alerts a workspace sends in a UTC day.
	MaxAlertTests = 10
	// AlertOverlapMS is how long a replaced secret goes on signing together with the new one.
	AlertOverlapMS = dayMS
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

// AlertKind is what an alert says. AlertFailing: the flow stopped passing.
//
//schema:enum
type AlertKind uint8

// The kinds of alerts.
const (
	AlertFailing   AlertKind = 1 // failing
	AlertRecovered AlertKind = 2 // recovered
	AlertTest      AlertKind = 3 // test
)

// Channel is the way that an alert goes.
//
//schema:enum
type Channel uint8

// The channels.
const (
	ChannelEmail   Channel = 1 // email
	ChannelWebhook Channel = 2 // webhook
)

// DeliveryStatus is how far a delivery has come.
//
//schema:enum
type DeliveryStatus uint8

// The statuses.
const (
	DeliveryWaiting   DeliveryStatus = 1 // waiting
	DeliveryDelivered DeliveryStatus = 2 // delivered
	DeliveryFailed    DeliveryStatus = 3 // failed
	// DeliveryUnknown: it may have arrived, and is not sent again.
	DeliveryUnknown DeliveryStatus = 4 // unknown
	// DeliveryUnconfirmed: it waits for its address to be confirmed. No row says so, only views do.
	DeliveryUnconfirmed DeliveryStatus = 5 // unconfirmed
)

// DeliveryView is one alert on its way to one place. The row of a flow's alerts holds them as
// queries show them.
//
//schema:answer workspaceapi Delivery
type DeliveryView struct {
	ID [16]byte `wire:"1" json:"id" id:"markAlert"`
	// Number counts the flow's deliveries, from 1.
	Number  uint64         `wire:"19"`
	Kind    AlertKind      `wire:"2" json:"kind"`
	Channel Channel        `wire:"3" json:"channel"`
	Status  DeliveryStatus `wire:"4" json:"status" rule:"oneof=waiting|unconfirmed|delivered|failed|unknown"`
	// Attempts counts those that were made, or begun.
	Attempts  uint32 `wire:"5" json:"attempts"`
	CreatedAt int64  `wire:"6" json:"createdAt" as:"time"`
	NextAt    int64  `wire:"7" json:"nextAttemptAt" as:"time" if:"Retries()"`
	EndedAt   int64  `wire:"8" json:"finishedAt,omitzero" as:"time"`
	// Sender is the only process that may make the attempt of this number, which it began at BegunAt.
	// BegunAt is 0 between attempts.
	Sender  [16]byte `wire:"9"`
	BegunAt int64    `wire:"10"`
	// Answer is the status that answered the newest attempt, 0 is none; Reason says what is wrong
	// with it.
	Answer uint32 `wire:"11" json:"answer,omitzero" in:"after=attempts"`
	Reason string `wire:"12" json:"reason,omitzero" in:"after=answer" rule:"min=1"`
	// Run is the run that changed the watch; it is zero in a test. The rest is of that run, and of
	// the flow as it was called then.
	Run     [16]byte   `wire:"13" json:"runId,omitzero" in:"after=reason" id:"markRun"`
	Outcome RunOutcome `wire:"14"`
	Flow    string     `wire:"15"`
	Step    string     `wire:"16"`
	Code    string     `wire:"17"`
	Why     string     `wire:"18"`
}

// Retries reports whether another attempt follows one that has ended.
func (d *DeliveryView) Retries() bool { return d.NextAt != 0 && d.Attempts > 0 && d.BegunAt == 0 }

func (d *DeliveryView) bytes() int {
	return deliveryBytes + len(d.Reason) + len(d.Flow) + len(d.Step) + len(d.Code) + len(d.Why)
}

// consistent reports whether what is read from a snapshot has names.
func (d *DeliveryView) consistent() bool {
	return d.Kind >= AlertFailing && d.Kind <= AlertTest && d.Channel >= ChannelEmail &&
		d.Channel <= ChannelWebhook && d.Status >= DeliveryWaiting && d.Status <= DeliveryUnknown &&
		d.Outcome <= OutcomeInconclusive
}

func (d *DeliveryView) end(status DeliveryStatus, reason string, stamp int64) {
	d.Status, d.Reason, d.EndedAt, d.NextAt, d.BegunAt = status, reason, stamp, 0, 0
}

// alert holds the notifications that a flow's owner wants about its watch, and those sent.
type alert struct {
	alertFacts
	Workspace uint32 `wire:"1"`
	Flow      uint32 `wire:"2"`
	// Made counts deliveries, including those that are no longer kept.
	Made uint64 `wire:"11"`
	// Deliveries are the newest, oldest first.
	Deliveries []DeliveryView `wire:"12"`
	// Link is the SHA-256 of the secret in the link that asks the owner of the e-mail address; zero
	// is none.
	Link [32]byte `wire:"14"`
}

// alertFacts are the fields that the row of a flow's alerts and its view have in common.
//
//schema:part
type alertFacts struct {
	On bool `wire:"3" json:"on"`
	// Email is where alerts are mailed; empty is nowhere.
	Email string `wire:"4" json:"email,omitzero" rule:"min=1"`
	// URL is the webhook's address; empty is none.
	URL string `wire:"5" json:"webhookUrl,omitzero" rule:"min=1"`
	// GoneAt is when the webhook's endpoint answered that it is gone. Nothing is sent to it until
	// the address is set again, or alerts are turned on again.
	GoneAt    int64 `wire:"10" json:"webhookGoneAt,omitzero" as:"time"`
	RotatedAt int64 `wire:"9" json:"secretRotatedAt,omitzero" as:"time"`
	// PreviousUntil is when the secret before the present one stops signing.
	PreviousUntil int64 `wire:"8" json:"previousSecretUntil,omitzero" as:"time"`
	// Secret and Previous are sealed by the server.
	Secret   []byte `wire:"6"`
	Previous []byte `wire:"7"`
	// Unconfirmed reports whether the owner of the e-mail address has not agreed to alerts yet. The
	// link that asks for it works until LinkUntil.
	Unconfirmed bool  `wire:"13"`
	LinkUntil   int64 `wire:"15"`
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

// keep adds a delivery; beyond MaxDeliveries the oldest that has ended goes, or the oldest.
func (a *alert) keep(d DeliveryView) {
	if len(a.Deliveries) >= MaxDeliveries {
		at := max(0, slices.IndexFunc(a.Deliveries, func(d DeliveryView) bool {
			return d.Status != DeliveryWaiting
		}))
		a.Deliveries = slices.Delete(a.Deliveries, at, at+1)
	}
	a.Deliveries = append(a.Deliveries, d)
}

// Reasons of deliveries that end before their last attempt.
const (
	reasonOff     = "turned off before it was sent"
	reasonOffLate = "turned off while it was being sent"
	reasonGone    = "the endpoint is gone (410)"
)

// drop ends the deliveries to a channel that has no destination any more or was turned off. A mail
// whose sending has begun may still arrive: its sender's report still counts.
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

// held reports whether a delivery waits for its address to be confirmed.
func (a *alert) held(d *DeliveryView) bool {
	return a.Unconfirmed && d.Channel == ChannelEmail && d.Status == DeliveryWaiting
}

// mailTo sets where mails go. An address that is confirmed stays so, and so does one whose owner is
// still asked; another one is asked first, unless somebody vouches for it.
func (a *alert) mailTo(email string, vouched bool) {
	if vouched = vouched || email == ""; email != a.Email || vouched {
		a.Unconfirmed, a.Link, a.LinkUntil = !vouched, [32]byte{}, 0
	}
	a.Email = email
}

// sendable reports whether something can be sent now, or later by itself.
func (a *alert) sendable() bool {
	return slices.ContainsFunc(a.Deliveries, func(d DeliveryView) bool {
		return d.Status == DeliveryWaiting && !a.held(&d)
	})
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
