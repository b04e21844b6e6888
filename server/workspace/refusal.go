package workspace

import (
	"fmt"

	"tollgate/engine"
	state "tollgate/engine/workspace"
	"tollgate/server"
)

// errorTable is the document's table: code → status and what it tells a person.
var errorTable = map[string]struct {
	status  int
	message string
}{
	"credentials_not_allowed": {400, "A password or key does not belong in a flow or run request."},
	"flow_url_mismatch":       {400, "The flow is about another url than the one supplied."},
	"invalid_access":          {400, "access is public or test_account."},
	"invalid_field":           {400, "A field is missing, empty, of the wrong type or too long."},
	"invalid_flow_options":    {400, "These options do not go together."},
	"invalid_id":              {400, "Invalid identifier."},
	"invalid_json":            {400, "The body must be one JSON object."},
	"invalid_note":            {400, "note must have 1 to 2000 characters."},
	"invalid_quote":           {400, "fingerprint must be one that a quote gave."},
	"invalid_request_key":     {400, "Send the header Idempotency-Key: 8 to 128 visible ASCII characters."},
	"invalid_status":          {400, "An issue can only be moved to fix_ready."},
	"invalid_url":             {400, "url must be a public http or https address without credentials."},
	"request_aborted":         {400, "The connection closed before the body arrived."},
	"unexpected_field":        {400, "Unknown field in the body."},
	"invalid_key":             {401, "The API key is missing, malformed, unknown or revoked."},
	"sign_in_required":        {401, "Sign in again."},
	"insufficient_credits":    {402, "The credits do not cover it. Nothing was started; the setup is saved."},
	"payment_required":        {402, "No hosted run is left, or the purchase needs its owner. Nothing was started."},
	"act_limit":               {429, "Daily change limit reached. Nothing was changed."},
	"origin_not_allowed":      {403, "Changes come from the configured origin (header Origin) alone. Nothing was changed."},
	"workspace_limit":         {409, "Your limit of workspaces is reached. Nothing was changed."},
	"link_answered":           {409, "This request was answered otherwise already. Nothing was changed."},
	"insufficient_scope":      {403, "The key lacks the needed scope."},
	"person_required":         {403, "Only a person may decide this."},
	"account_not_found":       {404, "There is no such account."},
	"not_found":               {404, "There is no such route or record in this workspace."},
	"alerts_off": {409, "No alert destination is set. Set an email, or a webhookUrl, or on: false; where " +
		"the webhook was gone, on: true tries it again. Nothing was changed."},
	"alert_test_limit":      {429, "The test alerts of this workspace and UTC day are used. Nothing was sent."},
	"alerts_claim_required": {409, "An unclaimed workspace cannot have alerts."},
	"cannot_cancel":         {409, "The run has finished, or cannot be cancelled."},
	"cannot_resume":         {409, "Only a run that waits for a person can go on."},
	"checkout_completed":    {409, "The purchase is paid, or its payment is under way. Nothing was changed."},
	"purchase_closed":       {409, "The purchase awaits no approval any more."},
	"execution_unavailable": {409, "No agent can run this flow now. The quote says why."},
	"flow_busy":             {409, "The flow has a run that has not finished."},
	"idempotency_conflict":  {409, "This Idempotency-Key was used for another request."},
	"schedule_unavailable": {409, "No agent can run this flow now, so it cannot have a schedule. The quote says " +
		"why. Nothing was changed."},
	"schedule_limit": {409, "The limit of flows with a schedule is reached (100). Take one " +
		"away (schedule: null), or archive its flow. Nothing was changed."},
	"test_access_limit": {409, "The limit of hosts with test credentials is reached (50). Remove " +
		"those of one (DELETE /v1/test-access/{host}). Nothing was changed."},
	"invalid_issue_status":          {409, "Only an open issue can be marked ready."},
	"quote_changed":                 {409, "The flow or a price has changed. Read a fresh quote."},
	"resume_unavailable":            {409, "The flow cannot go on in its present setup."},
	"wrong_run_type":                {409, "This route is not for this kind of run."},
	"approval_link_limit":           {429, "A purchase gets 5 new links. The newest one works."},
	"cancel_limit":                  {429, "At most 10 purchases are cancelled in a UTC day."},
	"run_limit_reached":             {429, "The runs of the day are used. Nothing was started."},
	"signup_rate_limited":           {429, "Too many workspaces were made from this address or its network in an hour."},
	"target_unreachable":            {502, "The product answered nothing that can be read. Nothing was saved or charged."},
	"authentication_not_configured": {503, "Sign-in is not configured on this deployment."},
	"free_capacity_exhausted":       {503, "Today's free runs of all workspaces are used. Retry after midnight UTC."},
	"hosting_not_configured":        {503, "Payment is not configured on this deployment. Nothing was charged."},
	"runner_busy":                   {503, "The limit of waiting runs and preflights is reached. The flow is saved."},
	"signup_unavailable":            {503, "Agents cannot sign up on this deployment."},
	"workspace_busy":                {503, "Nothing happened. Repeat the request."},
	"outcome_unknown": {503, "It is not known whether this was carried out. Repeat it with the same key: " +
		"it cannot take effect twice."},
	"workspace_full": {400, "The workspace's storage limit is reached. Nothing was saved. Archive " +
		"flows, or let a person claim the workspace: then it may hold more."},
}

// tableCodes are what the document calls the refusals of the route table itself.
var tableCodes = map[string]string{
	"body_too_large": "request_too_large", "malformed_request": "request_aborted",
	"request_timeout": "request_aborted", "unavailable": "workspace_busy",
	"validation_failed": "invalid_id", "malformed_encoding": "invalid_json",
}

// outcomeCodes are the document's codes of outcomes that have another name there.
var outcomeCodes = map[engine.Outcome]string{
	engine.OutcomeUnavailable:      "workspace_busy",
	engine.OutcomeOverloaded:       "workspace_busy",
	engine.OutcomeShareFull:        "workspace_busy",
	engine.OutcomeMemoryLow:        "workspace_busy",
	engine.OutcomeDiskLow:          "workspace_busy",
	engine.OutcomeKeysFull:         "workspace_busy",
	engine.OutcomeUpgrading:        "workspace_busy",
	engine.OutcomeTooLarge:         "invalid_field",
	engine.OutcomeRequestKeyReused: "idempotency_conflict",
	engine.OutcomeRecordUnknown:    "not_found",
	engine.OutcomeIDsContradict:    "not_found", // a form's id that is another's
	engine.OutcomeSignupOff:        "signup_unavailable",
	engine.OutcomeSignupLimited:    "signup_rate_limited",
	engine.OutcomeNetworkFull:      "signup_rate_limited",
	engine.OutcomeRunLimit:         "run_limit_reached",
	engine.OutcomeCreditsShort:     "insufficient_credits",
	engine.OutcomeFreeCapacity:     "free_capacity_exhausted",
	engine.OutcomeLinkLimit:        "approval_link_limit",
	engine.OutcomeIssueStatus:      "invalid_issue_status",
	engine.OutcomeCreditsInvalid:   "invalid_field",
	engine.OutcomeSessionUnknown:   "sign_in_required",
	engine.OutcomeOwnedLimit:       "workspace_limit",
	engine.OutcomeAlertsUnclaimed:  "alerts_claim_required",
	engine.OutcomeAlertsInvalid:    "invalid_field",
	engine.OutcomeFlowOptions:      "invalid_flow_options",
}

// codeOf is the document's code of an outcome; it has none of what no command of ours comes to.
func codeOf(o engine.Outcome) (code string, known bool) {
	if code, known = outcomeCodes[o]; !known {
		code = o.String()
		_, known = errorTable[code]
	}
	return code, known
}

// no is a refusal.
func no(code string) *server.Fault {
	row := errorTable[code]
	f := server.NewFault(row.status, code, row.message)
	switch {
	case code == "authentication_not_configured", code == "hosting_not_configured",
		code == "signup_unavailable":
		f.RetryAfter = operatorRetry
	case row.status == 503:
		f.RetryAfter = 1
	case row.status == 429:
		f.RetryAfter = limitRetry
	}
	return f
}

// operatorRetry is Retry-After where only an operator changes anything, in seconds: who obeys it
// does not ask forever.
const operatorRetry = 3600

// limitRetry is Retry-After of a limit that says nothing else, in seconds.
const limitRetry = 60

// badField is a refusal that names its field.
func badField(code, field string) *server.Fault {
	f := no(code)
	f.Fields = []server.FieldError{{Field: field}}
	f.More = func(j *server.JSON) { j.Text("field", field) }
	return f
}

// fieldOf is the field that a refusal names; empty where it names none.
func fieldOf(f *server.Fault) string {
	if len(f.Fields) == 0 {
		return ""
	}
	return f.Fields[0].Field
}

// full says what a workspace holds that may hold no more.
func full(r *server.Fault, reply *state.FullReply) {
	switch {
	case reply.Limit > 0:
		r.More = func(j *server.JSON) {
			j.Uint("usedBytes", reply.Used)
			j.Uint("limitBytes", reply.Limit)
		}
	case reply.MaxRecords > 0:
		r.Message = fmt.Sprintf("The workspace has %d records of this kind, archived ones included, and "+
			"may have %d. Nothing was saved. One that a person has claimed may have more.", reply.Records,
			reply.MaxRecords)
	}
}
