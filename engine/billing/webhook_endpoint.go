package billing

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"tollgate/engine"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/page"
)

// Bounds of webhook endpoints.
const (
	// MaxWebhookEndpoints is how many endpoints one environment has.
	MaxWebhookEndpoints = 16
	maxWebhookURL       = 2048 // bytes
	maxWebhookAbout     = 500  // characters
	maxSealedSecret     = 512  // bytes
)

// WebhookOverlapMS is how long a secret that was replaced goes on signing beside its successor.
const WebhookOverlapMS = dayMS

// CreateWebhookEndpoint adds an endpoint to an environment. One of this ID is the same success
// again.
type CreateWebhookEndpoint struct {
	Env    uint32        `wire:"1"`
	ID     [16]byte      `wire:"2"`
	URL    string        `wire:"3"` // checked by the server
	Events WebhookEvents `wire:"4"` // 0: all
	About  string        `wire:"5"` // ≤ 500 characters
	Secret []byte        `wire:"6"` // sealed
	Actor  string        `wire:"7"`
}

func (c *CreateWebhookEndpoint) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	if t.outbox.endpointIn(e, &c.ID) != 0 {
		return engine.OutcomeDone
	}
	if !validEndpoint(c.URL, c.About, c.Events) || len(c.Secret) > maxSealedSecret {
		return engine.OutcomeWebhookInvalid
	}
	if len(e.hooks) >= MaxWebhookEndpoints {
		return engine.OutcomeWebhookLimit
	}
	if o := t.takesEndpoint(e); o != engine.OutcomeDone {
		return o
	}

	o := &t.outbox
	o.mu.Lock()
	row := o.takeEndpoint()
	*o.endpoints.Write(row) = webhookEndpoint{
		id: c.ID, env: c.Env, events: c.Events, createdAt: t.Stamp, modifiedAt: t.Stamp,
		born: o.sequence,
	}
	o.setText(row, &endpointText{URL: c.URL, About: c.About, Secret: c.Secret})
	at, _ := slices.BinarySearch(e.hooks, row)
	e.hooks = slices.Insert(e.hooks, at, row)
	o.mu.Unlock()
	t.listen(e)
	t.Fold(uint64(row))
	t.note(change{
		Env: c.Env, Actor: c.Actor, Action: "webhook-endpoint.created", Subject: uuidText(c.ID),
		Values: []FieldChange{
			{"url", "", c.URL},
			{"events", "", strings.Join(c.Events.Names(), " ")},
			{"description", "", c.About},
		},
	})
	return engine.OutcomeDone
}

// validEndpoint reports whether an endpoint's address, words and events are within their bounds.
func validEndpoint(url, about string, events WebhookEvents) bool {
	return url != "" && len(url) <= maxWebhookURL && utf8.ValidString(url) &&
		plain(about, 0, maxWebhookAbout) && events&^allWebhookEvents == 0
}

// Fields of an endpoint that UpdateWebhookEndpoint may set, as bits of Set.
const (
	WebhookURL uint8 = 1 << iota
	WebhookEventSet
	WebhookAbout
	WebhookEnabled
)

// UpdateWebhookEndpoint changes what Set names of an endpoint. Enabling one that was disabled sends
// it what waits for it; while it is disabled nothing is added.
type UpdateWebhookEndpoint struct {
	Env     uint32        `wire:"1"`
	ID      [16]byte      `wire:"2"`
	Set     uint8         `wire:"3"`
	URL     string        `wire:"4"`
	Events  WebhookEvents `wire:"5"`
	About   string        `wire:"6"`
	Enabled bool          `wire:"7"`
	Actor   string        `wire:"8"`
}

func (c *UpdateWebhookEndpoint) apply(t *turn) engine.Outcome {
	e, row := t.endpointNamed(c.Env, &c.ID)
	if row == 0 {
		return unknownEndpoint(e)
	}
	o := &t.outbox
	was, words := *o.endpoints.Read(row), o.text(row)
	ep, old := was, words
	if c.Set&WebhookURL != 0 {
		words.URL = c.URL
	}
	if c.Set&WebhookEventSet != 0 {
		ep.events = c.Events
	}
	if c.Set&WebhookAbout != 0 {
		words.About = c.About
	}
	if c.Set&WebhookEnabled != 0 {
		ep.enable(c.Enabled, t.Stamp)
	}
	if !validEndpoint(words.URL, words.About, ep.events) {
		return engine.OutcomeWebhookInvalid
	}
	if ep == was && words.URL == old.URL && words.About == old.About {
		return engine.OutcomeDone // sent again
	}

	ep.modifiedAt = t.Stamp
	o.mu.Lock()
	*o.endpoints.Write(row) = ep
	o.setText(row, &words)
	if was.off != WebhookOn && ep.off == WebhookOn {
		o.hurry(row, t.Stamp)
	}
	o.mu.Unlock()
	t.listen(e)
	t.Fold(uint64(row)<<8 | uint64(ep.off))
	t.note(change{
		Env: c.Env, Actor: c.Actor, Action: "webhook-endpoint.changed", Subject: uuidText(c.ID),
		Values: []FieldChange{
			{"url", old.URL, words.URL},
			{"events", strings.Join(was.events.Names(), " "), strings.Join(ep.events.Names(), " ")},
			{"description", old.About, words.About},
			{"disabled", was.off.String(), ep.off.String()},
		},
	})
	return engine.OutcomeDone
}

// enable turns an endpoint on or off.
func (ep *webhookEndpoint) enable(on bool, stamp int64) {
	switch {
	case on:
		ep.off, ep.disabledAt, ep.failingSince = WebhookOn, 0, 0
	case ep.off == WebhookOn:
		ep.off, ep.disabledAt = WebhookOffByOwner, stamp
	}
}

// DeleteWebhookEndpoint removes an endpoint with everything that waits for it, and its log. One
// that is not there is the same success again.
type DeleteWebhookEndpoint struct {
	Env   uint32   `wire:"1"`
	ID    [16]byte `wire:"2"`
	Actor string   `wire:"3"`
}

func (c *DeleteWebhookEndpoint) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	row := t.outbox.endpointIn(e, &c.ID)
	if row == 0 {
		return engine.OutcomeDone
	}

	o := &t.outbox
	o.mu.Lock()
	url := o.text(row).URL
	o.dropEndpoint(row)
	at, _ := slices.BinarySearch(e.hooks, row)
	e.hooks = slices.Delete(e.hooks, at, at+1)
	o.mu.Unlock()
	t.listen(e)
	t.Fold(uint64(row))
	t.note(change{
		Env: c.Env, Actor: c.Actor, Action: "webhook-endpoint.deleted", Subject: uuidText(c.ID),
		Values: []FieldChange{{"url", url, ""}},
	})
	return engine.OutcomeDone
}

// RotateWebhookSecret gives an endpoint another secret; the one before signs for 24 hours more. The
// same sealed secret is the same success again.
type RotateWebhookSecret struct {
	Env    uint32   `wire:"1"`
	ID     [16]byte `wire:"2"`
	Secret []byte   `wire:"3"` // sealed
	Actor  string   `wire:"4"`
}

func (c *RotateWebhookSecret) apply(t *turn) engine.Outcome {
	e, row := t.endpointNamed(c.Env, &c.ID)
	if row == 0 {
		return unknownEndpoint(e)
	}
	if len(c.Secret) == 0 || len(c.Secret) > maxSealedSecret {
		return engine.OutcomeWebhookInvalid
	}
	o := &t.outbox
	words := o.text(row)
	if slices.Equal(words.Secret, c.Secret) {
		return engine.OutcomeDone
	}

	words.Previous, words.PreviousUntil = words.Secret, t.Stamp+WebhookOverlapMS
	words.Secret = c.Secret
	o.mu.Lock()
	o.endpoints.Write(row).modifiedAt = t.Stamp
	o.setText(row, &words)
	o.mu.Unlock()
	t.Fold(uint64(row))
	t.note(change{
		Env: c.Env, Actor: c.Actor, Action: "webhook-endpoint.secret-rotated",
		Subject: uuidText(c.ID), Values: []FieldChange{{"secret", "set", "replaced"}},
	})
	return engine.OutcomeDone
}

// WebhookOff says why an endpoint is disabled. Numbers are never reused.
type WebhookOff uint8

const (
	// WebhookOn: it is not.
	WebhookOn WebhookOff = 0
	// WebhookOffByOwner: somebody disabled it.
	WebhookOffByOwner WebhookOff = 1
	// WebhookOffGone: it answered 410.
	WebhookOffGone WebhookOff = 2
	// WebhookOffFailing: for WebhookPatienceMS no attempt succeeded.
	WebhookOffFailing WebhookOff = 3
)

// String is the reason's name in the admin API; empty of an endpoint that is on.
func (w WebhookOff) String() string {
	names := [...]string{"", "disabled", "gone", "failing"}
	if int(w) < len(names) {
		return names[w]
	}
	return ""
}

// webhookEndpoint is the record of an endpoint; its texts are the text of the same row. env 0: the
// row is free.
type webhookEndpoint struct {
	id                                                      [16]byte
	createdAt, modifiedAt, disabledAt, failingSince, sentAt int64
	// born is the sequence of the newest delivery when it was made.
	delivered, failed, skipped, born                        uint64
	env, first, last, firstFinished, lastFinished, nextFree uint32
	pending, finished                                       uint32
	events                                                  WebhookEvents
	off                                                     WebhookOff
}

var webhookEndpointCodec = page.Codec[webhookEndpoint]{
	Append: func(dst []byte, e *webhookEndpoint) []byte {
		dst = append(dst, e.id[:]...)
		dst = rows.AppendI64(rows.AppendI64(rows.AppendI64(dst, e.createdAt), e.modifiedAt), e.disabledAt)
		dst = rows.AppendI64(rows.AppendI64(dst, e.failingSince), e.sentAt)
		dst = rows.AppendI64(rows.AppendI64(dst, int64(e.delivered)), int64(e.failed))
		dst = rows.AppendI64(rows.AppendI64(dst, int64(e.skipped)), int64(e.born))
		dst = rows.AppendU32(rows.AppendU32(rows.AppendU32(dst, e.env), e.first), e.last)
		dst = rows.AppendU32(rows.AppendU32(dst, e.firstFinished), e.lastFinished)
		dst = rows.AppendU32(rows.AppendU32(rows.AppendU32(dst, e.nextFree), e.pending), e.finished)
		return append(rows.AppendU32(dst, uint32(e.events)), byte(e.off))
	},
	Read: func(src []byte, e *webhookEndpoint) ([]byte, error) {
		r := rows.Reader{Rest: src}
		e.id = r.ID()
		e.createdAt, e.modifiedAt, e.disabledAt = r.I64(), r.I64(), r.I64()
		e.failingSince, e.sentAt = r.I64(), r.I64()
		e.delivered, e.failed, e.skipped, e.born = r.U64(), r.U64(), r.U64(), r.U64()
		e.env, e.first, e.last = r.U32(), r.U32(), r.U32()
		e.firstFinished, e.lastFinished = r.U32(), r.U32()
		e.nextFree, e.pending, e.finished = r.U32(), r.U32(), r.U32()
		e.events, e.off = WebhookEvents(r.U32()), WebhookOff(r.U8())
		return r.Rest, r.Err
	},
}

// endpointText is the cold part of an endpoint.
type endpointText struct {
	URL           string `wire:"1"`
	About         string `wire:"2"`
	Secret        []byte `wire:"3"`
	Previous      []byte `wire:"4"` // sealed
	PreviousUntil int64  `wire:"5"` // log time
}

// listen works out what an environment's endpoints want to hear, all together.
func (t *teller) listen(e *environment) { e.wanted.Store(uint32(t.outbox.wantedBy(e))) }

// wantedBy is what the endpoints of an environment that are on want to hear.
func (o *outbox) wantedBy(e *environment) (set WebhookEvents) {
	for _, row := range e.hooks {
		ep := o.endpoints.Read(row)
		if ep.off != WebhookOn {
			continue
		}
		if ep.events == 0 {
			return allWebhookEvents
		}
		set |= ep.events
	}
	return set
}

// WebhookEndpointView is one endpoint.
type WebhookEndpointView struct {
	ID         [16]byte
	URL, About string
	Events     WebhookEvents // 0: all
	Off        WebhookOff
	// FailingSince is when the first attempt failed after which none succeeded; SentAt when the
	// newest attempt was made. Log time; 0: never.
	CreatedAt, ModifiedAt, DisabledAt, FailingSince, SentAt int64
	// Pending messages wait. Skipped ones were never queued: the queue was full.
	Pending                    uint32
	Delivered, Failed, Skipped uint64
	// Secret and Previous are sealed; Previous signs until PreviousUntil, in log time.
	Secret, Previous []byte
	PreviousUntil    int64
}

// endpointView must be called under the lock.
func (o *outbox) endpointView(row uint32) WebhookEndpointView {
	ep, words := o.endpoints.Read(row), o.text(row)
	return WebhookEndpointView{
		ID: ep.id, URL: words.URL, About: words.About, Events: ep.events, Off: ep.off,
		CreatedAt: ep.createdAt, ModifiedAt: ep.modifiedAt, DisabledAt: ep.disabledAt,
		FailingSince: ep.failingSince, SentAt: ep.sentAt,
		Pending: ep.pending, Delivered: ep.delivered, Failed: ep.failed, Skipped: ep.skipped,
		Secret: words.Secret, Previous: words.Previous, PreviousUntil: words.PreviousUntil,
	}
}

// WebhookEndpoints lists an environment's endpoints, oldest first.
func (m *Machine) WebhookEndpoints(env uint32) []WebhookEndpointView {
	s := m.state.Load()
	views := []WebhookEndpointView{}
	e := s.environment(env)
	if e == nil {
		return views
	}
	s.outbox.mu.RLock()
	defer s.outbox.mu.RUnlock()
	for _, row := range e.hooks {
		views = append(views, s.outbox.endpointView(row))
	}
	slices.SortStableFunc(views, func(a, b WebhookEndpointView) int {
		return cmp.Compare(a.CreatedAt, b.CreatedAt)
	})
	return views
}

// WebhookEndpoint finds an endpoint of an environment.
func (m *Machine) WebhookEndpoint(env uint32, id [16]byte) (WebhookEndpointView, bool) {
	s := m.state.Load()
	e := s.environment(env)
	if e == nil {
		return WebhookEndpointView{}, false
	}
	s.outbox.mu.RLock()
	defer s.outbox.mu.RUnlock()
	row := s.outbox.endpointIn(e, &id)
	if row == 0 {
		return WebhookEndpointView{}, false
	}
	return s.outbox.endpointView(row), true
}
