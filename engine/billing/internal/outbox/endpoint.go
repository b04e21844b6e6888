package outbox

import (
	"unicode/utf8"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/rows"
)

// WebhookOverlapMS is how long a replaced secret continues to sign together with its successor.
const WebhookOverlapMS = accounts.DayMS

// ValidEndpoint reports whether an endpoint's address, description and events are within their
// bounds.
func ValidEndpoint(url, about string, events WebhookEvents) bool {
	return url != "" && len(url) <= accounts.MaxWebhookURL && utf8.ValidString(url) &&
		rows.Plain(about, 0, accounts.MaxWebhookAbout) && events&^allWebhookEvents == 0
}

// Fields of an endpoint that UpdateWebhookEndpoint may set, as bits of Set.
const (
	WebhookURL uint8 = 1 << iota
	WebhookEventSet
	WebhookAbout
	WebhookEnabled
)

// Enable turns an endpoint on or off.
func (ep *WebhookEndpoint) Enable(on bool, stamp int64) {
	switch {
	case on:
		ep.Off, ep.DisabledAt, ep.FailingSince = WebhookOn, 0, 0
	case ep.Off == WebhookOn:
		ep.Off, ep.DisabledAt = WebhookOffByOwner, stamp
	}
}

// WebhookOff is why an endpoint is disabled. Numbers are never reused.
//
//schema:enum
type WebhookOff uint8

const (
	// WebhookOn: it is enabled.
	WebhookOn WebhookOff = 0
	// WebhookOffByOwner: its owner disabled it.
	WebhookOffByOwner WebhookOff = 1 // disabled
	// WebhookOffGone: it answered 410.
	WebhookOffGone WebhookOff = 2 // gone
	// WebhookOffFailing: no attempt succeeded for WebhookPatienceMS.
	WebhookOffFailing WebhookOff = 3 // failing
)

// WebhookEndpoint is the record of an endpoint; its texts are the text of the same row. Env 0: the
// row is free.
//
//schema:row
type WebhookEndpoint struct {
	ID                                                      [16]byte
	CreatedAt, ModifiedAt, DisabledAt, FailingSince, SentAt int64
	// Born is the sequence of the newest delivery at the endpoint's creation.
	Delivered, Failed, Skipped, Born                        uint64
	Env, First, Last, FirstFinished, LastFinished, NextFree uint32
	Pending, Finished                                       uint32
	Events                                                  WebhookEvents
	Off                                                     WebhookOff
}

// EndpointText is the cold part of an endpoint.
type EndpointText struct {
	URL           string `wire:"1"`
	About         string `wire:"2"`
	Secret        []byte `wire:"3"`
	Previous      []byte `wire:"4"` // sealed
	PreviousUntil int64  `wire:"5"` // log time
}

// Listen updates the events that an environment's endpoints want, all together.
func (t *Emitter) Listen(e *accounts.Environment) { e.Wanted.Store(uint32(t.Outbox.WantedBy(e))) }

// WantedBy returns the events that an environment's enabled endpoints want.
func (o *Outbox) WantedBy(e *accounts.Environment) (set WebhookEvents) {
	for _, row := range e.Hooks {
		ep := o.Endpoints.Read(row)
		if ep.Off != WebhookOn {
			continue
		}
		if ep.Events == 0 {
			return allWebhookEvents
		}
		set |= ep.Events
	}
	return set
}

// WebhookEndpointView is one endpoint.
type WebhookEndpointView struct {
	ID         [16]byte      `json:"id"`
	URL        string        `json:"url" rule:"min=1,max=2048"`
	About      string        `json:"description" rule:"max=500"`
	Events     WebhookEvents // 0: all
	Off        WebhookOff    `json:"disabledReason,omitzero" as:"text" rule:"oneof=disabled|gone|failing"`
	DisabledAt int64         `json:"disabledAt,omitzero" as:"time"`
	// Secret and Previous are sealed; Previous signs until PreviousUntil, in log time.
	Secret, Previous []byte
	PreviousUntil    int64 `json:"previousSecretUntil,omitzero" as:"time"`
	// Pending messages wait. Skipped ones were never queued, because the queue was full.
	Pending   uint32 `json:"pending"`
	Delivered uint64 `json:"delivered"`
	Failed    uint64 `json:"failed"`
	Skipped   uint64 `json:"skipped"`
	// FailingSince is when the first attempt failed since the last success. Log time; 0: never.
	FailingSince int64 `json:"failingSince,omitzero" as:"time"`
	// SentAt is when the newest attempt was made. Log time; 0: never.
	SentAt     int64 `json:"lastAttemptAt,omitzero" as:"time"`
	CreatedAt  int64 `json:"createdAt" as:"time"`
	ModifiedAt int64 `json:"modifiedAt" as:"time"`
}

// EndpointView requires the lock.
func (o *Outbox) EndpointView(row uint32) WebhookEndpointView {
	ep, words := o.Endpoints.Read(row), o.Text(row)
	return WebhookEndpointView{
		ID: ep.ID, URL: words.URL, About: words.About, Events: ep.Events, Off: ep.Off,
		CreatedAt: ep.CreatedAt, ModifiedAt: ep.ModifiedAt, DisabledAt: ep.DisabledAt,
		FailingSince: ep.FailingSince, SentAt: ep.SentAt,
		Pending: ep.Pending, Delivered: ep.Delivered, Failed: ep.Failed, Skipped: ep.Skipped,
		Secret: words.Secret, Previous: words.Previous, PreviousUntil: words.PreviousUntil,
	}
}
