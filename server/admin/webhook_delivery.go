package admin

import (
	"math"
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billinglog"
	"tollgate/server/form"
)

// Pages of deliveries.
const (
	defaultDeliveries = 50
	maxDeliveries     = 500
)

var deliveryStatuses = []string{"pending", "delivered", "failed"}

// deliveryRoutes are the rows about messages on their way to an endpoint.
func (h *hooks) deliveryRoutes() []server.Route {
	const deliveries = endpoints + "/{endpoint}/deliveries"
	return []server.Route{
		row("GET", deliveries, "listWebhookDeliveries",
			"What was sent to an endpoint and what waits, newest first", of(h.listDeliveries),
			server.Asks(server.InQuery("status", server.EnumSchema(deliveryStatuses...), "all when absent"),
				server.InQuery("customer", text(1, maxID), "only messages about this customer"),
				server.InQuery("scan", server.IntSchema(1, billing.MaxScannedDeliveries),
					"how many messages the page looks at: it may be short, or empty, and have a next one; "+
						"20,000 when absent")),
			pages("deliveries", "WebhookDelivery", maxDeliveries, "50", 20)),
		row("GET", deliveries+"/{message}", "showWebhookDelivery", "One delivery with its payload",
			of(h.getDelivery), answers(server.RefTo("WebhookDelivery"))),
		row("POST", deliveries+"/{message}/resend", "resendWebhook",
			"Resend a message, with the same webhook-id", of(h.resend),
			answers(server.RefTo("WebhookDelivery"))),
		row("POST", endpoints+"/{endpoint}/resend", "resendWebhooks",
			"Resend the messages of a period, oldest first", h.resendMany, keyed,
			server.Takes(server.Object(server.Must("from", server.TimeSchema),
				server.May("to", server.TimeSchema),
				server.May("status", server.EnumSchema(resentStatuses...)))),
			answers(server.Object(server.Must("resent", server.IntegerSchema)))),
		row("POST", endpoints+"/{endpoint}/test", "testWebhook",
			"Send a test message, whichever events the endpoint asks for", of(h.test), keyed,
			answers(server.RefTo("WebhookDelivery"))),
	}
}

// deliveryAnswer is a message on its way to an endpoint.
//
//schema:answer admin WebhookDelivery
type deliveryAnswer struct {
	ID   string `json:"id" rule:"min=1,max=64"`
	Type string `json:"type"`
	// OccurredAt is when it happened, on the environment's clock; the other instants are log time.
	OccurredAt int64 `json:"occurredAt" as:"time"`
	// Customer is whom it is about.
	Customer string            `json:"customerReferenceId,omitzero" rule:"min=1"`
	Status   string            `json:"status" rule:"oneof=pending|delivered|failed"`
	Attempts uint32            `json:"attempts"`
	Log      []billing.Attempt `json:"log"`
	// Payload is the message's body, where one delivery is asked for.
	Payload    *billing.WebhookMessage `json:"payload,omitzero" as:"object" with:"billingview.WriteWebhook"`
	CreatedAt  int64                   `json:"createdAt" as:"time"`
	NextAt     int64                   `json:"nextAttemptAt,omitzero" as:"time"`
	FinishedAt int64                   `json:"finishedAt,omitzero" as:"time"`
}

func deliveryOf(v *billing.DeliveryView) deliveryAnswer {
	return deliveryAnswer{
		ID: billing.MessageName(v.ID), Type: v.Message.Type.String(),
		OccurredAt: v.Message.At, Customer: v.Message.Customer, Status: v.Status,
		Attempts: v.Attempts, Log: v.Log, CreatedAt: v.CreatedAt, NextAt: v.NextAt,
		FinishedAt: v.FinishedAt,
	}
}

func (h *hooks) listDeliveries(x *server.Exchange, id [16]byte) *server.Fault {
	var w walk
	q := billing.DeliveryQuery{Endpoint: id, Status: string(x.Ctx.QueryArgs().Peek("status"))}
	q.Limit, q.Before = pageOf(x, &w, defaultDeliveries, maxDeliveries)
	w.when(q.Status != "" && !slices.Contains(deliveryStatuses, q.Status), "status",
		server.FieldNotAllowed, "%s", form.NotAllowed(deliveryStatuses...).Text)
	customer := w.query(x, "customer", maxID)
	q.Scan = scanOf(x, &w, billing.MaxScannedDeliveries, billing.MaxScannedDeliveries)
	if fault := w.fault(); fault != nil {
		return fault
	}
	return h.environment(x, func(env uint32) *server.Fault {
		if customer != "" {
			found, known := h.machine.Customer(env, customer)
			if !known {
				return server.FaultOf(engine.OutcomeCustomerUnknown)
			}
			q.Customer = found.Row
		}
		q.Env = env
		views, next, ok := h.machine.WebhookDeliveries(&q)
		if !ok {
			return server.FaultOf(engine.OutcomeWebhookUnknown)
		}
		var some []deliveryAnswer
		for i := range views {
			some = append(some, deliveryOf(&views[i]))
		}
		return server.Page(x, "deliveries", some, writeWebhookDelivery, cursorAt(next))
	})
}

// delivery finds the delivery that the path names.
func (h *hooks) delivery(x *server.Exchange, endpoint [16]byte) (
	env uint32, v billing.DeliveryView, fault *server.Fault,
) {
	id, ok := billing.ParseMessageName(string(x.Param(3)))
	if !ok {
		return 0, v, server.FieldFault("message", server.FieldFormat,
			"must be the webhook-id of a message")
	}
	fault = h.environment(x, func(number uint32) *server.Fault {
		env = number
		if _, found := h.machine.WebhookEndpoint(env, endpoint); !found {
			return server.FaultOf(engine.OutcomeWebhookUnknown)
		}
		if v, ok = h.machine.WebhookDelivery(env, endpoint, id); !ok {
			return server.FaultOf(engine.OutcomeDeliveryUnknown)
		}
		return nil
	})
	return env, v, fault
}

func (h *hooks) getDelivery(x *server.Exchange, endpoint [16]byte) *server.Fault {
	_, v, fault := h.delivery(x, endpoint)
	if fault != nil {
		return fault
	}
	made := deliveryOf(&v)
	made.Payload = &v.Message
	return server.One(x, 200, &made, writeWebhookDelivery)
}

func (h *hooks) resend(x *server.Exchange, endpoint [16]byte) *server.Fault {
	env, v, fault := h.delivery(x, endpoint)
	if fault == nil {
		fault = h.done(x, billing.KindResendWebhook, &billing.ResendWebhook{
			Env: env, Endpoint: endpoint, Row: v.Row, Sequence: v.Sequence, Actor: x.By(),
		})
	}
	if fault != nil {
		return fault
	}
	return h.read(x, func() *server.Fault {
		now, found := h.machine.WebhookDelivery(env, endpoint, v.ID)
		if !found {
			return server.FaultOf(engine.OutcomeDeliveryUnknown)
		}
		return server.One(x, 200, new(deliveryOf(&now)), writeWebhookDelivery)
	})
}

// resentStatuses select what resendWebhooks sends.
var resentStatuses = []string{"failed", "delivered", "all"}

// resendMany is POST …/webhook-endpoints/{endpoint}/resend. The endpoint's log bounds what it
// sends.
func (h *hooks) resendMany(x *server.Exchange) *server.Fault {
	var w walk
	from, to, status := int64(0), int64(math.MaxInt64), "failed"
	given := false
	instant := func(dst *int64) reader {
		return func(t *tree, place string) {
			var text string
			w.plain(&text, 1, maxInstant)(t, place)
			ms, ok := server.ParseInstant([]byte(text))
			w.wrong(!ok, place, form.NotTime)
			*dst = ms
		}
	}
	fault := body(x, &w, map[string]reader{
		"from": func(t *tree, place string) {
			given = true
			instant(&from)(t, place)
		},
		"to": instant(&to), "status": w.word(&status, resentStatuses...),
	})
	if fault == nil {
		w.wrong(!given, "from", form.Required)
		w.when(given && from >= to, "from", server.FieldConflict, "must be before to")
		fault = w.fault()
	}
	if fault != nil {
		return fault
	}
	return of(func(x *server.Exchange, id [16]byte) *server.Fault {
		var env uint32
		var list []billing.DeliveryName
		fault := h.environment(x, func(number uint32) *server.Fault {
			env = number
			var ok bool
			if list, ok = h.machine.FinishedDeliveries(env, id, from, to, status); !ok {
				return server.FaultOf(engine.OutcomeWebhookUnknown)
			}
			return nil
		})
		if fault != nil {
			return fault
		}
		c := billing.ResendWebhooks{
			Env: env, Endpoint: id, Deliveries: list[:min(len(list), billing.MaxResent)], Actor: x.By(),
		}
		// The first command has the key, also where the repeated request finds nothing to send.
		first, replayed, fault := h.singly(x, env, billing.KindResendWebhooks, &c)
		if fault != nil || replayed {
			return fault
		}
		if first.Repeated {
			return faultResending
		}
		for some := range slices.Chunk(list[len(c.Deliveries):], billing.MaxResent) {
			c.Deliveries = some
			if fault = h.done(x, billing.KindResendWebhooks, &c); fault != nil {
				return fault
			}
		}
		fault = x.Object(200, func(data *server.JSON) { data.Uint("resent", uint64(len(list))) })
		if fault != nil {
			return fault
		}
		return billinglog.KeepAnswer(x, h.onceCommand(x, env, 0, nil), 0)
	})(x)
}

// faultResending answers a repeated request where the first one has no answer (yet).
var faultResending = server.FaultOf(engine.OutcomeUnknown).With(
	"A request with this Idempotency-Key has begun to send messages again, and has no answer yet. " +
		"Nothing was sent now. If that request has ended without an answer, look at the endpoint's " +
		"deliveries, and send what is left with another key.")

// maxInstant is the length of an instant in a body.
const maxInstant = 64

// test is POST …/webhook-endpoints/{endpoint}/test.
func (h *hooks) test(x *server.Exchange, endpoint [16]byte) *server.Fault {
	env, fault := h.locate(x)
	if fault != nil {
		return fault
	}
	_, replayed, fault := h.singly(x, env, billing.KindTestWebhook, &billing.TestWebhook{
		Env: env, Endpoint: endpoint, Actor: x.By(),
	})
	if fault != nil || replayed {
		return fault
	}
	fault = h.read(x, func() *server.Fault {
		views, _, _ := h.machine.WebhookDeliveries(&billing.DeliveryQuery{
			Env: env, Endpoint: endpoint, Limit: defaultDeliveries,
		})
		for i := range views {
			if views[i].Message.Type == billing.WebhookTest {
				return server.One(x, 200, new(deliveryOf(&views[i])), writeWebhookDelivery)
			}
		}
		return server.FaultOf(engine.OutcomeDeliveryUnknown)
	})
	if fault != nil {
		return fault
	}
	return billinglog.KeepAnswer(x, h.onceCommand(x, env, 0, nil), 0)
}
