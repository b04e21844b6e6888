package admin

import (
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
)

// Pages of deliveries.
const (
	defaultDeliveries = 50
	maxDeliveries     = 500
)

var deliveryStatuses = []string{"pending", "delivered", "failed"}

// deliveryRoutes are the rows about messages on their way to an endpoint.
func (h *hooks) deliveryRoutes() []server.Route {
	endpoint := path("endpoint", server.UUIDSchema, "")
	one := environmentAnd(endpoint, path("message", text(1, 64), "its webhook-id"))
	const deliveries = endpoints + "/{endpoint}/deliveries"
	return []server.Route{
		{
			Method: "GET", Path: deliveries, Operation: "listWebhookDeliveries",
			Summary: "What was sent to an endpoint and what waits, newest first",
			Access:  server.AccessOperator, Handle: h.listDeliveries,
			Params: environmentAnd(endpoint,
				inQuery("status", server.EnumSchema(deliveryStatuses...), "all when absent"),
				inQuery("limit", server.IntSchema(1, maxDeliveries), "50 when absent"),
				inQuery("cursor", text(1, 20), "nextCursor of the page before")),
			Responses: answers(pageSchema("deliveries", "WebhookDelivery", 20)),
		},
		{
			Method: "GET", Path: deliveries + "/{message}", Operation: "showWebhookDelivery",
			Summary: "One delivery with its payload", Access: server.AccessOperator,
			Handle: h.getDelivery, Params: one,
			Responses: answers(server.RefTo("WebhookDelivery")),
		},
		{
			Method: "POST", Path: deliveries + "/{message}/resend", Operation: "resendWebhook",
			Summary: "Send a message once more, with the same webhook-id",
			Access:  server.AccessOperator, Handle: h.resend, Params: one,
			Responses: answers(server.RefTo("WebhookDelivery")),
		},
	}
}

// deliveryAnswer is a message on its way to an endpoint.
//
//schema:answer admin WebhookDelivery
type deliveryAnswer struct {
	ID       string            `json:"id" rule:"min=1,max=64"`
	Type     string            `json:"type"`
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
		ID: billing.MessageName(v.ID), Type: v.Message.Type.String(), Status: v.Status,
		Attempts: v.Attempts, Log: v.Log, CreatedAt: v.CreatedAt, NextAt: v.NextAt,
		FinishedAt: v.FinishedAt,
	}
}

// listDeliveries is GET …/deliveries.
func (h *hooks) listDeliveries(x *server.Exchange) {
	id, ok := pathUUID(x, 2, "the endpoint's id")
	if !ok {
		return
	}
	var w walk
	q := billing.DeliveryQuery{Endpoint: id, Status: string(x.Ctx.QueryArgs().Peek("status"))}
	q.Limit, q.Before = pageOf(x, &w, defaultDeliveries, maxDeliveries)
	known := q.Status == ""
	for _, status := range deliveryStatuses {
		known = known || q.Status == status
	}
	if !known {
		w.problem("status", server.FieldNotAllowed, "must be one of %v", deliveryStatuses)
	}
	if fault := w.fault(); fault != nil {
		x.Refuse(fault)
		return
	}
	h.environment(x, func(env uint32) *server.Fault {
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

// deliveryNamed finds the delivery that the path names; what cannot be found is answered.
func (h *hooks) deliveryNamed(x *server.Exchange) (
	env uint32, endpoint [16]byte, v billing.DeliveryView, ok bool,
) {
	if endpoint, ok = pathUUID(x, 2, "the endpoint's id"); !ok {
		return 0, endpoint, v, false
	}
	id, ok := billing.ParseMessageName(string(x.Param(3)))
	if !ok {
		x.Refuse(server.FieldFault("message", server.FieldFormat,
			"must be the webhook-id of a message"))
		return 0, endpoint, v, false
	}
	h.environment(x, func(number uint32) *server.Fault {
		env = number
		if _, found := h.machine.WebhookEndpoint(env, endpoint); !found {
			return server.FaultOf(engine.OutcomeWebhookUnknown)
		}
		if v, ok = h.machine.WebhookDelivery(env, endpoint, id); !ok {
			return server.FaultOf(engine.OutcomeDeliveryUnknown)
		}
		return nil
	})
	return env, endpoint, v, !x.Answered()
}

// getDelivery is GET …/deliveries/{message}.
func (h *hooks) getDelivery(x *server.Exchange) {
	if _, _, v, ok := h.deliveryNamed(x); ok {
		made := deliveryOf(&v)
		made.Payload = &v.Message
		server.One(x, 200, &made, writeWebhookDelivery)
	}
}

// resend is POST …/deliveries/{message}/resend.
func (h *hooks) resend(x *server.Exchange) {
	if !noFields(x) {
		return
	}
	env, endpoint, v, ok := h.deliveryNamed(x)
	if !ok {
		return
	}
	if !h.done(x, billing.KindResendWebhook, &billing.ResendWebhook{
		Env: env, Endpoint: endpoint, Row: v.Row, Sequence: v.Sequence, Actor: x.By(),
	}) {
		return
	}
	h.read(x, func() *server.Fault {
		now, found := h.machine.WebhookDelivery(env, endpoint, v.ID)
		if !found {
			return server.FaultOf(engine.OutcomeDeliveryUnknown)
		}
		return server.One(x, 200, new(deliveryOf(&now)), writeWebhookDelivery)
	})
}
