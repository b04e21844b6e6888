package billing

import (
	"cmp"
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/outbox"
	"tollgate/engine/uuid"
)

// CreateWebhookEndpoint adds an endpoint to an environment. Repeating the ID is the same success.
type CreateWebhookEndpoint struct {
	Env    uint32               `wire:"1"`
	ID     [16]byte             `wire:"2"`
	URL    string               `wire:"3"` // checked by the server
	Events outbox.WebhookEvents `wire:"4"` // 0: all
	About  string               `wire:"5"` // ≤ 500 characters
	Secret []byte               `wire:"6"` // sealed
	Actor  string               `wire:"7"`
}

func (c *CreateWebhookEndpoint) apply(t *turn, e *accounts.Environment) engine.Outcome {
	if t.outbox.EndpointIn(e, &c.ID) != 0 {
		return engine.OutcomeDone
	}
	if !outbox.ValidEndpoint(c.URL, c.About, c.Events) || len(c.Secret) > accounts.MaxSealedSecret {
		return engine.OutcomeWebhookInvalid
	}
	if len(e.Hooks) >= accounts.MaxWebhookEndpoints {
		return engine.OutcomeWebhookLimit
	}
	if o := t.TakesEndpoint(e); o != engine.OutcomeDone {
		return o
	}

	o := &t.outbox
	o.Mu.Lock()
	row := o.TakeEndpoint()
	*o.Endpoints.Write(row) = outbox.WebhookEndpoint{
		ID: c.ID, Env: c.Env, Events: c.Events, CreatedAt: t.Stamp, ModifiedAt: t.Stamp,
		Born: o.Sequence,
	}
	o.SetText(row, &outbox.EndpointText{URL: c.URL, About: c.About, Secret: c.Secret})
	at, _ := slices.BinarySearch(e.Hooks, row)
	e.Hooks = slices.Insert(e.Hooks, at, row)
	o.Mu.Unlock()
	t.Listen(e)
	t.Fold(uint64(row))
	t.NoteChange(c.Env, c.Actor, "webhook-endpoint.created", uuid.Text(c.ID),
		accounts.Given("url", c.URL), accounts.Given("events", c.Events.String()),
		accounts.Given("description", c.About))
	return engine.OutcomeDone
}

// UpdateWebhookEndpoint changes the fields of an endpoint that Set names. A disabled endpoint gets
// no new messages; enabling it sends the waiting ones.
type UpdateWebhookEndpoint struct {
	Env     uint32               `wire:"1"`
	ID      [16]byte             `wire:"2"`
	Set     uint8                `wire:"3"`
	URL     string               `wire:"4"`
	Events  outbox.WebhookEvents `wire:"5"`
	About   string               `wire:"6"`
	Enabled bool                 `wire:"7"`
	Actor   string               `wire:"8"`
}

func (c *UpdateWebhookEndpoint) apply(t *turn) engine.Outcome {
	e, row := t.endpointNamed(c.Env, &c.ID)
	if row == 0 {
		return outbox.UnknownEndpoint(e)
	}
	o := &t.outbox
	was, words := *o.Endpoints.Read(row), o.Text(row)
	ep, old := was, words
	if c.Set&outbox.WebhookURL != 0 {
		words.URL = c.URL
	}
	if c.Set&outbox.WebhookEventSet != 0 {
		ep.Events = c.Events
	}
	if c.Set&outbox.WebhookAbout != 0 {
		words.About = c.About
	}
	if c.Set&outbox.WebhookEnabled != 0 {
		ep.Enable(c.Enabled, t.Stamp)
	}
	if !outbox.ValidEndpoint(words.URL, words.About, ep.Events) {
		return engine.OutcomeWebhookInvalid
	}
	if ep == was && words.URL == old.URL && words.About == old.About {
		return engine.OutcomeDone // sent again
	}

	ep.ModifiedAt = t.Stamp
	o.Mu.Lock()
	*o.Endpoints.Write(row) = ep
	o.SetText(row, &words)
	if was.Off != outbox.WebhookOn && ep.Off == outbox.WebhookOn {
		o.Hurry(row, t.Stamp)
	}
	o.Mu.Unlock()
	t.Listen(e)
	t.Fold(uint64(row)<<8 | uint64(ep.Off))
	t.NoteChange(c.Env, c.Actor, "webhook-endpoint.changed", uuid.Text(c.ID),
		accounts.Changed("url", old.URL, words.URL),
		accounts.Changed("events", was.Events.String(), ep.Events.String()),
		accounts.Changed("description", old.About, words.About),
		accounts.Changed("disabled", was.Off.String(), ep.Off.String()))
	return engine.OutcomeDone
}

// DeleteWebhookEndpoint removes an endpoint with its waiting messages and its log. Deleting a
// missing one is the same success.
type DeleteWebhookEndpoint struct {
	Env   uint32   `wire:"1"`
	ID    [16]byte `wire:"2"`
	Actor string   `wire:"3"`
}

func (c *DeleteWebhookEndpoint) apply(t *turn, e *accounts.Environment) engine.Outcome {
	row := t.outbox.EndpointIn(e, &c.ID)
	if row == 0 {
		return engine.OutcomeDone
	}

	o := &t.outbox
	o.Mu.Lock()
	url := o.Text(row).URL
	o.DropEndpoint(row)
	at, _ := slices.BinarySearch(e.Hooks, row)
	e.Hooks = slices.Delete(e.Hooks, at, at+1)
	o.Mu.Unlock()
	t.Listen(e)
	t.Fold(uint64(row))
	t.NoteChange(c.Env, c.Actor, "webhook-endpoint.deleted", uuid.Text(c.ID),
		accounts.Changed("url", url, ""))
	return engine.OutcomeDone
}

// RotateWebhookSecret gives an endpoint another secret; the old one signs for 24 more hours.
// Repeating the sealed secret is the same success.
type RotateWebhookSecret struct {
	Env    uint32   `wire:"1"`
	ID     [16]byte `wire:"2"`
	Secret []byte   `wire:"3"` // sealed
	Actor  string   `wire:"4"`
}

func (c *RotateWebhookSecret) apply(t *turn) engine.Outcome {
	e, row := t.endpointNamed(c.Env, &c.ID)
	if row == 0 {
		return outbox.UnknownEndpoint(e)
	}
	if len(c.Secret) == 0 || len(c.Secret) > accounts.MaxSealedSecret {
		return engine.OutcomeWebhookInvalid
	}
	o := &t.outbox
	words := o.Text(row)
	if slices.Equal(words.Secret, c.Secret) {
		return engine.OutcomeDone
	}

	words.Previous, words.PreviousUntil = words.Secret, t.Stamp+outbox.WebhookOverlapMS
	words.Secret = c.Secret
	o.Mu.Lock()
	o.Endpoints.Write(row).ModifiedAt = t.Stamp
	o.SetText(row, &words)
	o.Mu.Unlock()
	t.Fold(uint64(row))
	t.NoteChange(c.Env, c.Actor, "webhook-endpoint.secret-rotated", uuid.Text(c.ID),
		accounts.Changed("secret", "set", "replaced"))
	return engine.OutcomeDone
}

// WebhookEndpoints lists an environment's endpoints, oldest first.
func (m *accountReader) WebhookEndpoints(env uint32) []outbox.WebhookEndpointView {
	s := m.state.Load()
	views := []outbox.WebhookEndpointView{}
	e := s.Environment(env)
	if e == nil {
		return views
	}
	s.outbox.Mu.RLock()
	defer s.outbox.Mu.RUnlock()
	for _, row := range e.Hooks {
		views = append(views, s.outbox.EndpointView(row))
	}
	slices.SortStableFunc(views, func(a, b outbox.WebhookEndpointView) int {
		return cmp.Compare(a.CreatedAt, b.CreatedAt)
	})
	return views
}

// WebhookEndpoint finds an endpoint of an environment.
func (m *accountReader) WebhookEndpoint(
	env uint32, id [16]byte,
) (outbox.WebhookEndpointView, bool) {
	s := m.state.Load()
	e := s.Environment(env)
	if e == nil {
		return outbox.WebhookEndpointView{}, false
	}
	s.outbox.Mu.RLock()
	defer s.outbox.Mu.RUnlock()
	row := s.outbox.EndpointIn(e, &id)
	if row == 0 {
		return outbox.WebhookEndpointView{}, false
	}
	return s.outbox.EndpointView(row), true
}
