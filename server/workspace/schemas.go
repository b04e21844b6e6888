package workspace

import (
	state "tollgate/engine/workspace"
	"tollgate/server"
)

var text = server.TextSchema(1, 0)

// description is what the published document says in addition to the routes.
func description() server.Description {
	return server.Description{
		Title: "Agent-Task Workspace API", Version: "1.0.0", OpenAPI: "3.1.0", Key: "KEY",
		About: "Checks whether an agent can complete a task in a product. POST /v1/signup gives a key; " +
			"errors carry a stable code in error. " + server.CompressionAbout,
		Schemas: map[string]*server.Schema{
			"Limits":          server.AnswerSchema[localLimits](),
			"PaymentRequired": paymentSchema(),
			"Flow": server.AnswerSchema[state.FlowView](server.Must("access", accessSchema()),
				server.May("verification", verificationSchema()),
				server.May("credential", credentialSchema())),
			"Quote":        quoteSchema(),
			"Run":          server.AnswerSchema[state.RunView](),
			"Purchase":     server.AnswerSchema[state.PurchaseView](),
			"Issue":        server.AnswerSchema[state.IssueView](),
			"Notification": server.AnswerSchema[state.NotificationView](),
			"Billing":      server.AnswerSchema[billingAnswer](server.May("usage", server.FreeObject())),
			"Agent":        server.AnswerSchema[state.Agent](),
			"Charge":       server.AnswerSchema[state.RunCharge](),
		},
		Fault: &server.Schema{Type: "object", Free: true, Properties: []server.Property{
			server.Must("error", text), server.Must("message", text), server.Must("request_id", text),
		}},
	}
}

func verificationSchema() *server.Schema {
	return server.AnswerSchema[flowVerification](
		server.Explained("url", "what this service calls, without credentials, or with the "+
			"key that the agent obtained where the flow has credential; redirects are not followed"),
		server.Explained("status", "the status of the right answer; any 2xx where it is left out"),
		server.Explained("contains", "a text that the right "+
			"answer contains; {run_id} stands for the run's id, here and in task. Optional with "+
			"credential: the difference between the real key and none, or a wrong one, is the proof"))
}

// The bodies of a new flow and of a change, in which null takes away what is there.
var (
	newFlow = server.RequestSchema[flowRequest](server.Must("access", accessSchema()),
		server.May("verification", verificationSchema()),
		server.May("credential", credentialSchema()), server.May("schedule", scheduleBody()))
	changedFlow = server.ChangeSchema[flowRequest](server.May("access", accessSchema()),
		server.May("verification", server.OrNull(verificationSchema())),
		server.May("credential", server.OrNull(credentialSchema())),
		server.May("schedule", scheduleBody()))
)

func accessSchema() *server.Schema {
	return server.EnumSchema("public", "test_account").Explain("public: the agent signs up, or " +
		"needs no account. test_account: it signs in with the test credentials that the owner stores for the " +
		"host (PUT /v1/test-access/{host})")
}

func credentialSchema() *server.Schema {
	return server.EnumSchema("bearer", "token", "x-api-key").Explain("the agent is to obtain a " +
		"key, and the verification sends it: Authorization: Bearer KEY, Authorization: Token KEY, or " +
		"X-API-Key: KEY. No key and two wrong keys must be refused there. The owner confirms once " +
		"that an agent may sign up (POST /v1/flows/{flow_id}/confirm-signup)")
}

func quoteSchema() *server.Schema {
	return server.AnswerSchema[quote](server.May("reason", unreadySchema()),
		server.Must("scope", server.FreeObject()),
		server.Must("preflight.noKey", server.OrNull(calledSchema())),
		server.Must("preflight.wrongKey", server.OrNull(calledSchema())))
}

func calledSchema() *server.Schema {
	return server.EnumSchema("refused", "unclear", "accepted", "unknown").Explain(
		"refused: 401 or 403; of wrong keys: both got 401 or 403. unclear: another answer than the " +
			"right one; a run can pass only if the real key is accepted. accepted: the right answer. " +
			"unknown: none, 429 or 5xx; of wrong keys: to either.")
}

// askingSchema is the flow whose start asked for a purchase.
func askingSchema() *server.Schema {
	return server.Object(server.Must("id", text), server.Must("name", text), server.Must("url", text),
		server.Must("task", text), server.Must("version", server.IntegerSchema),
		server.Must("confirmsSignup", server.BoolSchema))
}
