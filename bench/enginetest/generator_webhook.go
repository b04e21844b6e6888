package enginetest

import (
	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/billing"
)

// webhook makes one of the commands around webhooks, over two endpoints.
func (g *generator) webhook() engine.Record {
	env, id := g.env(), hookID(g.pick("hook", "one", "two"))
	events := sample[billing.WebhookEvents](g.t, "events", 0, 0, 1<<1, 1<<3|1<<13, 1<<30)
	row := rapid.Uint32Range(0, 8).Draw(g.t, "row")
	sequence := uint64(row) + sample[uint64](g.t, "sequence", 0, 0, 0, 1, 5)
	switch g.pick("webhook", "create", "update", "delete", "delivery", "resend") {
	case "create":
		return record(billing.KindCreateWebhookEndpoint, &billing.CreateWebhookEndpoint{
			Env: env, ID: id, URL: g.pick("url", "https://a.example", "https://b.example", ""),
			Events: events, Secret: []byte{1}, Actor: "admin",
		})
	case "update":
		return record(billing.KindUpdateWebhookEndpoint, &billing.UpdateWebhookEndpoint{
			Env: env, ID: id, Set: rapid.Uint8Range(0, 15).Draw(g.t, "set"),
			URL: "https://c.example", Events: events, About: "about",
			Enabled: rapid.Bool().Draw(g.t, "enabled"),
		})
	case "delete":
		if rapid.IntRange(0, 2).Draw(g.t, "deletes") > 0 {
			return record(billing.KindRotateWebhookSecret, &billing.RotateWebhookSecret{
				Env: env, ID: id, Secret: []byte(g.pick("secret", "x", "y", "")),
			})
		}
		return record(billing.KindDeleteWebhookEndpoint,
			&billing.DeleteWebhookEndpoint{Env: env, ID: id})
	case "delivery":
		return record(billing.KindRecordDelivery, &billing.RecordDelivery{
			Env: Sandbox, Endpoint: id, Row: row, Sequence: sequence,
			Attempt: rapid.Uint32Range(1, 3).Draw(g.t, "attempt"),
			Outcome: sample[billing.AttemptOutcome](g.t, "outcome", 1, 1, 1, 2, 2, 3, 4, 5, 6),
			Status:  500, Reason: "why", RetryMS: rapid.Int64Range(0, 1).Draw(g.t, "retry") * 5000,
		})
	}
	return record(billing.KindResendWebhook, &billing.ResendWebhook{
		Env: Sandbox, Endpoint: id, Row: row, Sequence: sequence,
	})
}
