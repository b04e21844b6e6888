package workspaceapi

import (
	"tollgate/engine/workspace"
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
			"Flow": server.AnswerSchema[workspace.FlowView](server.Must("access", accessSchema()),
				server.May("verification", verificationSchema()),
				server.May("credential", credentialSchema())),
			"Quote":        quoteSchema(),
			"Run":          server.AnswerSchema[workspace.RunView](),
			"Purchase":     server.AnswerSchema[workspace.PurchaseView](),
			"Issue":        server.AnswerSchema[workspace.IssueView](),
			"Notification": server.AnswerSchema[workspace.NotificationView](),
			"Billing":      server.AnswerSchema[billingAnswer](server.May("usage", server.FreeObject())),
			"Agent":        server.AnswerSchema[workspace.Agent](),
			"Charge":       server.AnswerSchema[workspace.RunCharge](),
		},
		Fault: &server.Schema{Type: "object", Free: true, Properties: []server.Property{
			server.Must("error", text), server.Must("message", text), server.Must("request_id", text),
		}},
	}
}

// flowVerification is the call that proves that a flow's task was done.
//
//schema:described workspaceapi FlowVerification
type flowVerification struct {
	URL string `json:"url" rule:"required,min=1"`
	// Status is that of the right answer; any 2xx where it is left out.
	Status uint32 `json:"status,omitzero" rule:"min=100,max=599"`
	// Contains is a text that the right answer contains.
	Contains string `json:"contains,omitzero" rule:"max=500"`
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

// quote is what a flow's next run would cost and do, and whether it could begin now.
//
//schema:answer workspaceapi Quote
type quote struct {
	Fingerprint string `json:"fingerprint" rule:"min=1"`
	Ready       bool   `json:"executionAvailable"`
	// Unready is the reason for which it could not.
	Unready    workspace.Unready `json:"reason,omitzero"`
	Agent      *workspace.Agent  `json:"agent" rule:"null" ref:"Agent"`
	PriceCents uint32            `json:"priceCents"`
	Credits    uint32            `json:"credits"`
	// Charge is what would pay for it: none where nothing could, or has to.
	Charge string `json:"charge" rule:"oneof=free|paid|none"`
	// Hosts are those that it may reach.
	Hosts  []string  `json:"scope.hosts"`
	Limits runLimits `json:"scope.limits"`
	// NoKey and WrongKey are what the verification answered without a key, and with a wrong one: null
	// where the agent obtains none.
	NoKey       string `json:"preflight.noKey" rule:"null"`
	WrongKey    string `json:"preflight.wrongKey" rule:"null"`
	Note        string `json:"preflight.note,omitzero" rule:"min=1"`
	AlreadyTrue bool   `json:"preflight.alreadyTrue"`
	CheckedAt   int64  `json:"preflight.checkedAt" rule:"null" as:"time"`
	ExpiresAt   int64  `json:"expiresAt" as:"time"`
}

// runLimits are how long a run may take, and how long it waits for a person.
//
//schema:answer workspaceapi RunLimits
type runLimits struct {
	WallSeconds  uint64 `json:"wallSeconds"`
	HumanSeconds uint64 `json:"humanSeconds"`
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

// billingAnswer is what a workspace may spend, and has.
//
//schema:answer workspaceapi Billing
type billingAnswer struct {
	Paused   bool   `json:"paused"`
	CapCents uint32 `json:"capCents"`
	// Usage is that of this month; nil where payments are off.
	Usage *monthUsage `json:"usage,omitzero"`
}

// monthUsage is what a workspace has used of a month.
//
//schema:answer workspaceapi MonthUsage
type monthUsage struct {
	RunsUsed       uint32      `json:"runsUsed"`
	FreeRunsUsed   uint32      `json:"freeRunsUsed"`
	PaidRunsUsed   uint32      `json:"paidRunsUsed"`
	RunsReturned   uint32      `json:"runsReturned"`
	RunsLeft       uint32      `json:"runsLeft"`
	SpentCents     uint32      `json:"spentCents"`
	CapCents       uint32      `json:"capCents"`
	RemainingCents uint32      `json:"remainingCents"`
	ResetsAt       int64       `json:"resetsAt" as:"time"`
	RecentRuns     []recentRun `json:"recentRuns"` // hosted, the newest first
}

// recentRun is what came of a run, and what it cost.
//
//schema:answer workspaceapi RecentRun
type recentRun struct {
	ID        [16]byte             `json:"id" id:"markRun"`
	Status    workspace.RunStatus  `json:"status"`
	Outcome   workspace.RunOutcome `json:"outcome" rule:"null" as:"text"`
	Charge    workspace.RunCharge  `json:"charge" ref:"Charge"`
	CreatedAt int64                `json:"createdAt" as:"time"`
}

// localLimits are those of the runs that the older local tool reports.
//
//schema:answer workspaceapi Limits
type localLimits struct {
	Limited   bool   `json:"limited"`
	Window    string `json:"window" rule:"min=1"`
	Limit     uint32 `json:"limit"`
	Used      uint32 `json:"used"`
	Remaining uint32 `json:"remaining"`
	ResetsAt  int64  `json:"resetsAt" as:"time"`
}
