package admin

import (
	"bytes"
	"encoding/base64"
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/billinglog"
)

const (
	endpoints  = environment + "/webhook-endpoints"
	maxWebhook = 2048 // of an endpoint's URL, in characters
	maxAbout   = 500
)

// webhookRoutes are the rows about webhook endpoints.
func (h *hooks) webhookRoutes() []server.Route {
	one := environmentAnd(path("endpoint", server.UUIDSchema, ""))
	url := text(1, maxWebhook)
	events := server.ArrayOf(server.EnumSchema(billing.WebhookEventNames()...))
	about := server.May("description", text(0, maxAbout))
	return []server.Route{
		{
			Method: "POST", Path: endpoints, Operation: "createWebhookEndpoint",
			Summary: "Add an endpoint; its signing secret is in this answer and nowhere else",
			Access:  server.AccessOperator, Handle: h.createEndpoint,
			Params: environmentAnd(server.RequestKey),
			Body:   server.Object(server.Must("url", url), server.May("events", events), about),
			Responses: []server.Response{{
				Status: 201, About: "Added", Data: server.RefTo("WebhookEndpoint"),
			}},
		},
		{
			Method: "GET", Path: endpoints, Operation: "listWebhookEndpoints",
			Summary: "The endpoints, oldest first", Access: server.AccessOperator,
			Handle: h.listEndpoints, Params: environmentParams,
			Responses: answers(server.ArrayOf(server.RefTo("WebhookEndpoint"))),
		},
		{
			Method: "GET", Path: endpoints + "/{endpoint}", Operation: "showWebhookEndpoint",
			Summary: "One endpoint, and how it does", Access: server.AccessOperator,
			Handle: h.getEndpoint, Params: one,
			Responses: answers(server.RefTo("WebhookEndpoint")),
		},
		{
			Method: "PATCH", Path: endpoints + "/{endpoint}", Operation: "updateWebhookEndpoint",
			Summary: "Change an endpoint; enabled true sends it what waits",
			Access:  server.AccessOperator, Handle: h.patchEndpoint, Params: one,
			Body: server.Object(server.May("url", url), server.May("events", events), about,
				server.May("enabled", server.BoolSchema)),
			Responses: answers(server.RefTo("WebhookEndpoint")),
		},
		{
			Method: "DELETE", Path: endpoints + "/{endpoint}", Operation: "deleteWebhookEndpoint",
			Summary: "Remove an endpoint, what waits for it, and its log",
			Access:  server.AccessOperator, Handle: h.deleteEndpoint, Params: one,
			Responses: nothing("Removed"),
		},
		{
			Method: "POST", Path: endpoints + "/{endpoint}/rotate-secret",
			Operation: "rotateWebhookSecret",
			Summary:   "Make a new secret; the one before signs alongside it for 24 hours",
			Access:    server.AccessOperator, Handle: h.rotateSecret, Params: one,
			Responses: answers(server.RefTo("WebhookEndpoint")),
		},
	}
}

// endpointAnswer is an endpoint as operators see it.
//
//schema:answer admin WebhookEndpoint
type endpointAnswer struct {
	billing.WebhookEndpointView
	Events  []string `json:"events" in:"after=url" rule:"min=1"`
	Enabled bool     `json:"enabled" in:"after=description"`
	// Secret is what messages are signed with; empty but where it was just made.
	Secret string `json:"secret,omitzero" in:"after=disabledAt" rule:"min=1"`
}

func endpointOf(v *billing.WebhookEndpointView, secret string) endpointAnswer {
	return endpointAnswer{*v, v.Events.Names(), v.Off == billing.WebhookOn, secret}
}

// events reads a list of names; the empty list means all.
func (w *walk) events(dst *billing.WebhookEvents) reader {
	return w.array(func(t *tree, place string) {
		var name string
		w.word(&name, billing.WebhookEventNames()...)(t, place)
		set, _ := billing.WebhookEventsOf([]string{name})
		*dst |= set
	})
}

// endpointURL reads an endpoint's URL and checks it by every rule that needs no network.
func (h *hooks) endpointURL(w *walk, dst *string) reader {
	return func(t *tree, place string) {
		before := len(w.problems)
		w.plain(dst, 1, maxWebhook)(t, place)
		if len(w.problems) > before || h.outbox == nil {
			return
		}
		if err := h.outbox.Check(*dst); err != nil {
			w.problem(place, server.FieldNotAllowed, "cannot be sent to: %v", err)
		}
	}
}

// createEndpoint is POST …/webhook-endpoints.
func (h *hooks) createEndpoint(x *server.Exchange) {
	c := billing.CreateWebhookEndpoint{Actor: x.By()}
	var w walk
	fault := body(x, &w, map[string]reader{
		"url": h.endpointURL(&w, &c.URL), "events": w.events(&c.Events),
		"description": w.plain(&c.About, 0, maxAbout),
	})
	if fault == nil && c.URL == "" {
		w.problem("url", server.FieldRequired, "is required")
		fault = w.fault()
	}
	var ok bool
	if c.Env, c.ID, ok = h.onceIn(x, fault); !ok {
		return
	}
	if c.Secret, _, ok = h.mintSecret(x, c.Env, c.ID); !ok {
		return
	}
	result, ok := h.make(x, c.Env, billing.KindCreateWebhookEndpoint, &c)
	switch {
	case !ok: // repeated, or refused
	case result.Outcome != engine.OutcomeDone:
		x.Refuse(server.FaultOf(result.Outcome))
	default:
		h.answerCreated(x, &c)
		billinglog.KeepAnswer(x, h.onceCommand(x, c.Env, 0, nil), 0)
	}
	h.showSecret(x, c.Env, c.ID)
}

// answerCreated answers with the endpoint that a command made, its secret sealed.
func (h *hooks) answerCreated(x *server.Exchange, c *billing.CreateWebhookEndpoint) {
	h.read(x, func() *server.Fault {
		v, ok := h.machine.WebhookEndpoint(c.Env, c.ID)
		if !ok {
			return server.FaultOf(engine.OutcomeWebhookUnknown)
		}
		made := bytes.Equal(v.Secret, c.Secret) // by this request, and not by one of another day
		if !made && v.ModifiedAt == v.CreatedAt &&
			(v.URL != c.URL || v.Events != c.Events || v.About != c.About) {
			return server.FaultOf(engine.OutcomeRequestKeyReused)
		}
		secret := ""
		if made {
			secret = sealedMark + base64.StdEncoding.EncodeToString(v.Secret)
		}
		return server.One(x, 201, new(endpointOf(&v, secret)), writeWebhookEndpoint)
	})
}

// sealedMark begins a secret in an answer that is kept, and that has not been opened yet.
const sealedMark = "sealed:"

// showSecret opens the secret in the answer that x holds. An answer is kept with its secret sealed,
// so that log and snapshots hold it in no other form.
func (h *hooks) showSecret(x *server.Exchange, env uint32, endpoint [16]byte) {
	const begin = `"secret":"` + sealedMark
	at := bytes.Index(x.Out, []byte(begin)) // within a text, quotes are escaped
	if at < 0 {
		return
	}
	text, rest, _ := bytes.Cut(x.Out[at+len(begin):], []byte{'"'})
	sealed, err := base64.StdEncoding.AppendDecode(nil, text)
	var shown string
	if err == nil {
		shown, err = h.outbox.Open(env, endpoint, sealed)
	}
	if err != nil {
		x.Refuse(faultSecretLost)
		return
	}
	x.Out = slices.Concat(x.Out[:at], []byte(`"secret":"`+shown+`"`), rest)
}

// faultSecretLost answers a repeated request whose secret cannot be shown again.
var faultSecretLost = server.NewFault(409, "secret_not_shown",
	"The endpoint was added, and its secret cannot be shown again").With(
	"The node's secretsKey has changed since then. Rotate the endpoint's secret.")

// mintSecret makes a sealed secret; what keeps it from that is answered.
func (h *hooks) mintSecret(x *server.Exchange, env uint32, id [16]byte) (
	sealed []byte, shown string, ok bool,
) {
	if h.outbox == nil {
		x.Refuse(server.FaultInternal)
		return nil, "", false
	}
	sealed, shown, err := h.outbox.Mint(env, id)
	if err != nil {
		h.log.Error("no webhook secret can be made", "error", err)
		x.Refuse(server.FaultInternal)
		return nil, "", false
	}
	return sealed, shown, true
}

// changedEndpoint is the endpoint that a command was about, and how it is answered.
type changedEndpoint struct {
	env uint32
	id  [16]byte
	// secret is shown where sealed is the endpoint's: another request may have made a newer one.
	sealed []byte
	secret string
}

// answerEndpoint carries a command out and answers the endpoint as it is then.
func (h *hooks) answerEndpoint(
	x *server.Exchange, kind engine.Kind, command wire.Fielder, of changedEndpoint,
) {
	if !h.done(x, kind, command) {
		return
	}
	h.read(x, func() *server.Fault {
		v, ok := h.machine.WebhookEndpoint(of.env, of.id)
		if !ok {
			return server.FaultOf(engine.OutcomeWebhookUnknown)
		}
		if !bytes.Equal(v.Secret, of.sealed) {
			of.secret = ""
		}
		return server.One(x, 200, new(endpointOf(&v, of.secret)), writeWebhookEndpoint)
	})
}

// listEndpoints is GET …/webhook-endpoints.
func (h *hooks) listEndpoints(x *server.Exchange) {
	h.environment(x, func(env uint32) *server.Fault {
		var all []endpointAnswer
		for _, v := range h.machine.WebhookEndpoints(env) {
			all = append(all, endpointOf(&v, ""))
		}
		return server.List(x, all, writeWebhookEndpoint)
	})
}

// endpointNamed finds the endpoint that the path names; what cannot be found is answered.
func (h *hooks) endpointNamed(x *server.Exchange) (
	env uint32, v billing.WebhookEndpointView, ok bool,
) {
	id, ok := pathUUID(x, 2, "the endpoint's id")
	if !ok {
		return 0, v, false
	}
	h.environment(x, func(number uint32) *server.Fault {
		env = number
		if v, ok = h.machine.WebhookEndpoint(env, id); !ok {
			return server.FaultOf(engine.OutcomeWebhookUnknown)
		}
		return nil
	})
	return env, v, !x.Answered()
}

// getEndpoint is GET …/webhook-endpoints/{endpoint}.
func (h *hooks) getEndpoint(x *server.Exchange) {
	if _, v, ok := h.endpointNamed(x); ok {
		server.One(x, 200, new(endpointOf(&v, "")), writeWebhookEndpoint)
	}
}

// patchEndpoint is PATCH …/webhook-endpoints/{endpoint}.
func (h *hooks) patchEndpoint(x *server.Exchange) {
	c := billing.UpdateWebhookEndpoint{Actor: x.By()}
	var w walk
	set := func(bit uint8, read reader) reader {
		return func(t *tree, place string) {
			c.Set |= bit
			read(t, place)
		}
	}
	fault := body(x, &w, map[string]reader{
		"url":         set(billing.WebhookURL, h.endpointURL(&w, &c.URL)),
		"events":      set(billing.WebhookEventSet, w.events(&c.Events)),
		"description": set(billing.WebhookAbout, w.plain(&c.About, 0, maxAbout)),
		"enabled":     set(billing.WebhookEnabled, w.flag(&c.Enabled)),
	})
	if fault != nil {
		x.Refuse(fault)
		return
	}
	env, v, ok := h.endpointNamed(x)
	if !ok {
		return
	}
	c.Env, c.ID = env, v.ID
	h.answerEndpoint(x, billing.KindUpdateWebhookEndpoint, &c, changedEndpoint{env: env, id: v.ID})
}

// deleteEndpoint is DELETE …/webhook-endpoints/{endpoint}.
func (h *hooks) deleteEndpoint(x *server.Exchange) {
	if !noFields(x) {
		return
	}
	env, v, ok := h.endpointNamed(x)
	if ok && h.done(x, billing.KindDeleteWebhookEndpoint,
		&billing.DeleteWebhookEndpoint{Env: env, ID: v.ID, Actor: x.By()}) {
		x.Succeed(200)
	}
}

// rotateSecret is POST …/webhook-endpoints/{endpoint}/rotate-secret.
func (h *hooks) rotateSecret(x *server.Exchange) {
	if !noFields(x) {
		return
	}
	env, v, ok := h.endpointNamed(x)
	if !ok {
		return
	}
	sealed, secret, ok := h.mintSecret(x, env, v.ID)
	if !ok {
		return
	}
	h.answerEndpoint(x, billing.KindRotateWebhookSecret, &billing.RotateWebhookSecret{
		Env: env, ID: v.ID, Secret: sealed, Actor: x.By(),
	}, changedEndpoint{env: env, id: v.ID, sealed: sealed, secret: secret})
}
