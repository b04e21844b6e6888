package admin

import (
	"bytes"
	"encoding/base64"
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billinglog"
	"tollgate/server/form"
)

const (
	endpoints  = environment + "/webhook-endpoints"
	maxWebhook = 2048 // of an endpoint's URL, in characters
	maxAbout   = 500
)

// webhookRoutes are the rows about webhook endpoints.
func (h *hooks) webhookRoutes() []server.Route {
	const one = endpoints + "/{endpoint}"
	url, endpoint := text(1, maxWebhook), server.RefTo("WebhookEndpoint")
	events := server.May("events", server.ArrayOf(server.EnumSchema(billing.WebhookEventNames()...)))
	about := server.May("description", text(0, maxAbout))
	return []server.Route{
		row("POST", endpoints, "createWebhookEndpoint",
			"Add an endpoint; its signing secret is in this answer and nowhere else",
			h.createEndpoint, keyed, server.Takes(server.Object(server.Must("url", url), events, about)),
			server.Gives(201, "Added", endpoint)),
		row("GET", endpoints, "listWebhookEndpoints", "The endpoints, oldest first",
			h.within(h.listEndpoints), answers(server.ArrayOf(endpoint))),
		row("GET", one, "showWebhookEndpoint", "One endpoint, and how it does", of(h.getEndpoint),
			answers(endpoint)),
		row("PATCH", one, "updateWebhookEndpoint",
			"Change an endpoint; enabled true sends it what waits", h.patchEndpoint,
			server.Takes(server.Object(server.May("url", url), events, about,
				server.May("enabled", server.BoolSchema))), answers(endpoint)),
		row("DELETE", one, "deleteWebhookEndpoint", "Remove an endpoint, what waits for it, and its log",
			of(h.deleteEndpoint), nothing("Removed")),
		row("POST", one+"/rotate-secret", "rotateWebhookSecret",
			"Create a new secret; the one before signs alongside it for 24 hours", of(h.rotateSecret),
			keyed, answers(endpoint)),
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

func (h *hooks) createEndpoint(x *server.Exchange) *server.Fault {
	c := billing.CreateWebhookEndpoint{Actor: x.By()}
	var w walk
	fault := body(x, &w, map[string]reader{
		"url": h.endpointURL(&w, &c.URL), "events": w.events(&c.Events),
		"description": w.plain(&c.About, 0, maxAbout),
	})
	if fault == nil && c.URL == "" {
		w.wrong(true, "url", form.Required)
		fault = w.fault()
	}
	if c.Env, c.ID, fault = h.onceIn(x, fault); fault != nil {
		return fault
	}
	if c.Secret, _, fault = h.mintSecret(c.Env, c.ID); fault != nil {
		return fault
	}
	result, replayed, fault := h.make(x, c.Env, billing.KindCreateWebhookEndpoint, &c)
	switch {
	case fault != nil || replayed:
	case result.Outcome != engine.OutcomeDone:
		fault = server.FaultOf(result.Outcome)
	default:
		if fault = h.answerCreated(x, &c); fault == nil {
			fault = billinglog.KeepAnswer(x, h.onceCommand(x, c.Env, 0, nil), 0)
		}
	}
	if fault != nil {
		return fault
	}
	return h.showSecret(x, c.Env, c.ID)
}

// answerCreated answers with the endpoint that a command made, its secret sealed.
func (h *hooks) answerCreated(x *server.Exchange, c *billing.CreateWebhookEndpoint) *server.Fault {
	return h.read(x, func() *server.Fault {
		v, ok := h.machine.WebhookEndpoint(c.Env, c.ID)
		if !ok {
			return server.FaultOf(engine.OutcomeWebhookUnknown)
		}
		made := bytes.Equal(v.Secret, c.Secret) // by this request, and not by one of another day
		if !made && v.ModifiedAt == v.CreatedAt &&
			(v.URL != c.URL || v.Events != c.Events || v.About != c.About) {
			return server.FaultOf(engine.OutcomeRequestKeyReused)
		}
		return answerSealed(x, 201, &v, made)
	})
}

// sealedMark begins a secret in an answer that is kept, and that has not been opened yet.
const sealedMark = "sealed:"

// answerSealed answers with an endpoint and, if this request made it, its secret sealed.
func answerSealed(
	x *server.Exchange, status int, v *billing.WebhookEndpointView, made bool,
) *server.Fault {
	secret := ""
	if made {
		secret = sealedMark + base64.StdEncoding.EncodeToString(v.Secret)
	}
	return server.One(x, status, new(endpointOf(v, secret)), writeWebhookEndpoint)
}

// showSecret opens the secret in the answer that x holds. An answer is kept with its secret sealed,
// so that log and snapshots hold it in no other form.
func (h *hooks) showSecret(x *server.Exchange, env uint32, endpoint [16]byte) *server.Fault {
	const begin = `"secret":"` + sealedMark
	at := bytes.Index(x.Out, []byte(begin)) // within a text, quotes are escaped
	if at < 0 {
		return nil
	}
	text, rest, _ := bytes.Cut(x.Out[at+len(begin):], []byte{'"'})
	sealed, err := base64.StdEncoding.AppendDecode(nil, text)
	var shown string
	if err == nil {
		shown, err = h.outbox.Open(env, endpoint, sealed)
	}
	if err != nil {
		return faultSecretLost
	}
	x.Out = slices.Concat(x.Out[:at], []byte(`"secret":"`+shown+`"`), rest)
	return nil
}

// faultSecretLost answers a repeated request whose secret cannot be shown again.
var faultSecretLost = server.NewFault(409, "secret_not_shown",
	"The secret was made, and cannot be shown again").With("The node's secretsKey has changed since " +
	"then, or a newer secret has replaced it. Where no one has that, rotate the endpoint's secret.")

// mintSecret makes a sealed secret.
func (h *hooks) mintSecret(env uint32, id [16]byte) (
	sealed []byte, shown string, fault *server.Fault,
) {
	if h.outbox == nil {
		return nil, "", server.FaultInternal
	}
	sealed, shown = h.outbox.Mint(env, id)
	return sealed, shown, nil
}

func (h *hooks) listEndpoints(x *server.Exchange, env uint32) *server.Fault {
	var all []endpointAnswer
	for _, v := range h.machine.WebhookEndpoints(env) {
		all = append(all, endpointOf(&v, ""))
	}
	return server.List(x, all, writeWebhookEndpoint)
}

// find finds an endpoint in the environment that the path names.
func (h *hooks) find(x *server.Exchange, id [16]byte) (
	env uint32, v billing.WebhookEndpointView, fault *server.Fault,
) {
	fault = h.environment(x, func(number uint32) *server.Fault {
		var ok bool
		if v, ok = h.machine.WebhookEndpoint(number, id); !ok {
			return server.FaultOf(engine.OutcomeWebhookUnknown)
		}
		env = number
		return nil
	})
	return env, v, fault
}

func (h *hooks) getEndpoint(x *server.Exchange, id [16]byte) *server.Fault {
	_, v, fault := h.find(x, id)
	if fault != nil {
		return fault
	}
	return server.One(x, 200, new(endpointOf(&v, "")), writeWebhookEndpoint)
}

func (h *hooks) patchEndpoint(x *server.Exchange) *server.Fault {
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
		return fault
	}
	return of(func(x *server.Exchange, id [16]byte) (fault *server.Fault) {
		if c.Env, _, fault = h.find(x, id); fault != nil {
			return fault
		}
		c.ID = id
		if fault = h.done(x, billing.KindUpdateWebhookEndpoint, &c); fault != nil {
			return fault
		}
		return h.getEndpoint(x, id)
	})(x)
}

func (h *hooks) deleteEndpoint(x *server.Exchange, id [16]byte) *server.Fault {
	env, _, fault := h.find(x, id)
	if fault == nil {
		fault = h.done(x, billing.KindDeleteWebhookEndpoint,
			&billing.DeleteWebhookEndpoint{Env: env, ID: id, Actor: x.By()})
	}
	if fault != nil {
		return fault
	}
	return x.Succeed(200)
}

func (h *hooks) rotateSecret(x *server.Exchange, id [16]byte) *server.Fault {
	env, _, fault := h.find(x, id)
	if fault != nil {
		return fault
	}
	c := billing.RotateWebhookSecret{Env: env, ID: id, Actor: x.By()}
	if c.Secret, _, fault = h.mintSecret(env, id); fault != nil {
		return fault
	}
	first, replayed, fault := h.singly(x, env, billing.KindRotateWebhookSecret, &c)
	if fault == nil && !replayed {
		if fault = h.answerRotated(x, &c, &first); fault == nil {
			fault = billinglog.KeepAnswer(x, h.onceCommand(x, env, 0, nil), 0)
		}
	}
	if fault != nil {
		return fault
	}
	return h.showSecret(x, env, id)
}

// answerRotated answers with the endpoint as it is, and with the secret that a command gave it, or
// the request that it repeats, whose answer may not be kept yet: another one may have made a newer
// secret.
func (h *hooks) answerRotated(
	x *server.Exchange, c *billing.RotateWebhookSecret, first *billing.OnceReply,
) *server.Fault {
	return h.read(x, func() *server.Fault {
		v, ok := h.machine.WebhookEndpoint(c.Env, c.ID)
		if !ok {
			return server.FaultOf(engine.OutcomeWebhookUnknown)
		}
		made := bytes.Equal(v.Secret, c.Secret)
		if first.Repeated {
			if made = first.First == billing.SecretReceipt(v.Secret); !made {
				return faultSecretLost
			}
		}
		return answerSealed(x, 200, &v, made)
	})
}
