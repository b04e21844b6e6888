package workspaceapi

import (
	"net/http"
	"slices"
	"strings"

	"tollgate/engine/workspace"
	"tollgate/server"
)

// operationErrors are the codes that an operation answers in addition to those of all its kind: see
// codesOf.
var operationErrors = map[string]string{
	"signIn":         "authentication_not_configured",
	"signInPerson":   "authentication_not_configured",
	"signUp":         "signup_unavailable signup_rate_limited workspace_busy outcome_unknown",
	"showApproval":   "workspace_busy",
	"createFlow":     flowErrors,
	"changeFlow":     flowErrors,
	"archiveFlow":    "flow_busy",
	"getQuote":       "runner_busy",
	"confirmSignup":  "invalid_flow_options quote_changed",
	"changeAlerts":   "alerts_claim_required alerts_off invalid_url hosting_not_configured",
	"testAlert":      "alerts_claim_required alerts_off alert_test_limit",
	"inspectProduct": inspectionErrors,
	"evaluateTask":   inspectionErrors,
	"suggestTest":    "wrong_run_type",
	"startRun": "credentials_not_allowed invalid_quote quote_changed execution_unavailable " +
		"flow_busy run_limit_reached payment_required insufficient_credits free_capacity_exhausted runner_busy " +
		"hosting_not_configured",
	"resumeRun": "credentials_not_allowed cannot_resume resume_unavailable wrong_run_type " +
		"runner_busy",
	"cancelRun": "cannot_cancel wrong_run_type",
	"requestRun": "credentials_not_allowed invalid_id flow_url_mismatch invalid_url " +
		"run_limit_reached",
	"cancelRunRequest": "cannot_cancel wrong_run_type",
	"startLocalRun":    "run_limit_reached",
	"finishLocalRun":   "wrong_run_type cannot_cancel",
	"buyRuns":          "payment_required hosting_not_configured",
	"renewApprovalLink": "approval_link_limit checkout_completed purchase_closed " +
		"hosting_not_configured",
	"cancelPurchase": "cancel_limit checkout_completed purchase_closed",
	"decideApproval": "checkout_completed purchase_closed hosting_not_configured workspace_busy " +
		"outcome_unknown",
	"changeIssue":       "invalid_note invalid_status invalid_issue_status",
	"setTestAccess":     "test_access_limit invalid_url",
	"openWorkspace":     "workspace_limit signup_rate_limited",
	"answerLink":        "link_answered",
	"rotateAlertSecret": "alerts_claim_required alerts_off",
}

const (
	flowErrors = "credentials_not_allowed invalid_access invalid_flow_options invalid_url flow_busy " +
		"schedule_unavailable schedule_limit"
	inspectionErrors = "credentials_not_allowed invalid_id invalid_url flow_url_mismatch " +
		"insufficient_credits run_limit_reached target_unreachable runner_busy"
)

// codesOf are the codes of the errors that a route is described with.
func codesOf(r *server.Route) []string {
	all := strings.Fields(operationErrors[r.Operation])
	add := func(codes ...string) { all = append(all, codes...) }
	writes := r.Method != http.MethodGet
	if r.Access == server.AccessScope {
		add("invalid_key", "sign_in_required", "insufficient_scope", "person_required", "not_found",
			"workspace_busy")
		if writes {
			add("origin_not_allowed", "act_limit", "outcome_unknown", "workspace_full")
		}
	}
	if writes {
		add("invalid_json", "invalid_field", "unexpected_field", "request_aborted", "request_too_large")
	}
	if strings.Contains(r.Path, "{") {
		add("invalid_id", "not_found")
	}
	for _, p := range r.Params {
		switch {
		case p.In == "query":
			add("invalid_field")
		case p.Name == "Idempotency-Key":
			add("invalid_request_key", "idempotency_conflict")
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// describeErrors states the errors of a route: each status with its codes, and what each means.
func describeErrors(r *server.Route) {
	if r.Access == server.AccessOpen && r.Method == http.MethodGet &&
		!strings.Contains(r.Path, "{") && operationErrors[r.Operation] == "" {
		return // a document of ours
	}
	byStatus := map[int][]string{}
	for _, code := range codesOf(r) {
		status := statusOf(code)
		byStatus[status] = append(byStatus[status], code)
	}
	for status, codes := range byStatus {
		var about strings.Builder
		for i, code := range codes {
			if i > 0 {
				about.WriteString("\n")
			}
			about.WriteString(code + ": " + meaningOf(code))
		}
		r.Responses = append(r.Responses, server.Response{
			Status: status, About: about.String(), Data: faultOf(status, codes), Bare: true,
			Codes: codes,
		})
	}
	slices.SortStableFunc(r.Responses, func(a, b server.Response) int { return a.Status - b.Status })
}

// tooLarge is what the document calls a body of more than 32 KB.
const tooLarge = "request_too_large"

func statusOf(code string) int {
	if code == tooLarge {
		return http.StatusRequestEntityTooLarge
	}
	return errorTable[code].Status
}

func meaningOf(code string) string {
	if code == tooLarge {
		return "The body has more than 32,768 bytes. Nothing was changed."
	}
	return errorTable[code].Message
}

// faultOf is the schema of the errors of a status.
func faultOf(status int, codes []string) *server.Schema {
	if status == http.StatusPaymentRequired {
		return server.RefTo("PaymentRequired")
	}
	properties := []server.Property{
		server.Must("error", server.EnumSchema(codes...)), server.Must("message", text),
		server.Must("request_id", text),
	}
	has := func(any ...string) bool {
		return slices.ContainsFunc(any, func(code string) bool { return slices.Contains(codes, code) })
	}
	switch {
	case has("invalid_field", "unexpected_field"):
		properties = append(properties, server.May("field", text.Explain("the field that is wrong")))
	case has("insufficient_scope"):
		properties = append(properties, server.May("scope", text.Explain("the scope that is needed")))
	case has("execution_unavailable", "schedule_unavailable"):
		properties = append(properties, server.May("reason", unreadySchema()))
	}
	if status == http.StatusTooManyRequests {
		properties = append(properties, server.May("limit", server.IntegerSchema),
			server.May("resetsAt", server.TimeSchema),
			server.May("contact", server.TextSchema(0, 0).Explain("where to ask for more")))
	}
	return &server.Schema{Type: "object", Free: true, Properties: properties}
}

// unreadySchema are the reasons for which no agent can run a flow.
func unreadySchema() *server.Schema {
	var reasons []string
	for reason := workspace.UnreadyNoAgent; reason <= workspace.UnreadyTestAccessMissing; reason++ {
		reasons = append(reasons, reason.String())
	}
	return server.EnumSchema(reasons...).Explain(
		"no_agent: the flow's agent is not configured. verification_missing: the flow has none. " +
			"verification_open: without a key, or with a wrong one, its verification gave the right " +
			"answer or none. signup_not_confirmed: its owner has not said that an agent may sign up " +
			"there. test_access_missing: no test credentials are stored for its host.")
}

// paymentSchema is the body of 402.
func paymentSchema() *server.Schema {
	return &server.Schema{Type: "object", Free: true, Properties: []server.Property{
		server.Must("error", server.EnumSchema("payment_required", "insufficient_credits")),
		server.Must("message", text), server.Must("request_id", text),
		server.May("next_action", server.EnumSchema("approve", "purchase", "wait").Explain(
			"approve: send approval_url to the owner, poll poll_url until the purchase has succeeded. "+
				"purchase: POST /v1/purchases, the saved card pays. wait: poll poll_url. Then repeat the "+
				"start with the same Idempotency-Key.")),
		server.May("approval_url", server.OrNull(text).Explain(
			"where the owner approves; null where an earlier link still works")),
		server.May("poll_url", server.OrNull(text).Explain("GET it to see how the purchase stands")),
		server.May("reason", text.Explain("why the owner is needed, such as agent_session")),
		server.May("purchase", server.OrNull(server.RefTo("Purchase"))),
		server.May("required", server.IntegerSchema.Explain("of insufficient_credits: what it costs")),
		server.May("balance", server.IntegerSchema.Explain("of insufficient_credits: what is left")),
	}}
}
