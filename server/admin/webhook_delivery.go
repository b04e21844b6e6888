package admin

import (
	"strconv"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/billingview"
)

// Pages of deliveries.
const (
	defaultDeliveries = 50
	mostDeliveries    = 500
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
				inQuery("limit", server.IntSchema(1, mostDeliveries), "50 when absent"),
				inQuery("cursor", text(1, 20), "nextCursor of the page before")),
			Responses: answers(server.Object(
				server.Must("deliveries", server.ArrayOf(server.RefTo("WebhookDelivery"))),
				server.May("nextCursor", text(1, 20)),
			)),
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

func deliverySchema() *server.Schema {
	return server.Object(
		server.Must("id", text(1, 64)),
		server.Must("type", server.EnumSchema(billing.WebhookEventNames()...)),
		server.Must("status", server.EnumSchema(deliveryStatuses...)),
		server.Must("attempts", server.IntegerSchema),
		server.Must("log", server.ArrayOf(server.Object(
			server.Must("at", server.TimeSchema),
			server.Must("outcome", text(1, 0)),
			server.May("status", server.IntegerSchema),
			server.May("reason", text(1, 0)),
			server.Must("tookMs", server.IntegerSchema),
		))),
		server.May("payload", server.FreeObject()),
		server.Must("createdAt", server.TimeSchema),
		server.May("nextAttemptAt", server.TimeSchema),
		server.May("finishedAt", server.TimeSchema),
	)
}

func writeDelivery(data *server.JSON, v *billing.DeliveryView, payload bool) {
	data.Open('{')
	data.Text("id", billing.MessageName(v.ID))
	data.Text("type", v.Message.Type.String())
	data.Text("status", v.Status)
	data.Uint("attempts", uint64(v.Attempts))
	data.Array("log")
	for i := range v.Log {
		at := &v.Log[i]
		data.Open('{')
		data.Time("at", at.At)
		data.Text("outcome", at.Outcome.String())
		if at.Status != 0 {
			data.Uint("status", uint64(at.Status))
		}
		data.TextIf("reason", at.Reason)
		data.Uint("tookMs", uint64(at.TookMS))
		data.Close('}')
	}
	data.Close(']')
	if payload {
		data.Name("payload")
		billingview.WriteWebhook(data, &v.Message)
	}
	data.Time("createdAt", v.CreatedAt)
	data.Time("nextAttemptAt", v.NextAt)
	data.Time("finishedAt", v.FinishedAt)
	data.Close('}')
}

// listDeliveries is GET …/deliveries.
func (h *hooks) listDeliveries(x *server.Exchange) {
	id, ok := pathUUID(x, 2, "the endpoint's id")
	if !ok {
		return
	}
	var w walk
	q := billing.DeliveryQuery{Endpoint: id, Status: string(x.Ctx.QueryArgs().Peek("status"))}
	q.Limit, q.Before = pageOf(x, &w, defaultDeliveries, mostDeliveries)
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
		page, next, ok := h.machine.WebhookDeliveries(&q)
		if !ok {
			return server.FaultOf(engine.OutcomeWebhookUnknown)
		}
		data := x.Begin()
		data.Open('{')
		data.Array("deliveries")
		for i := range page {
			writeDelivery(data, &page[i], false)
		}
		data.Close(']')
		if next != 0 {
			data.Text("nextCursor", strconv.FormatUint(next, 10))
		}
		data.Close('}')
		x.End(200)
		return nil
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
		writeDelivery(x.Begin(), &v, true)
		x.End(200)
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
	result := h.propose(x, billing.KindResendWebhook, wire.Encode(nil, &billing.ResendWebhook{
		Env: env, Endpoint: endpoint, Row: v.Row, Sequence: v.Sequence, Actor: x.By(),
	}))
	if result.Outcome != engine.OutcomeDone {
		x.Refuse(server.FaultOf(result.Outcome))
		return
	}
	h.read(x, func() *server.Fault {
		now, found := h.machine.WebhookDelivery(env, endpoint, v.ID)
		if !found {
			return server.FaultOf(engine.OutcomeDeliveryUnknown)
		}
		writeDelivery(x.Begin(), &now, false)
		x.End(200)
		return nil
	})
}
