package workspaceapi

import (
	"cmp"
	"fmt"

	"tollgate/engine"
	"tollgate/engine/workspace"
	"tollgate/server"
)

// requestErrors are those of the document's table of errors that no command comes to.
var requestErrors = []*server.Fault{
	server.NewFault(400, "credentials_not_allowed",
		"A password or key does not belong in a flow or run request."),
	server.NewFault(400, "flow_url_mismatch",
		"The flow is about another url than the one supplied."),
	server.NewFault(400, "invalid_access", "access is public or test_account."),
	server.NewFault(400, "invalid_id", "Invalid identifier."),
	server.NewFault(400, "invalid_json", "The body must be one JSON object."),
	server.NewFault(400, "invalid_note", "note must have 1 to 2000 characters."),
	server.NewFault(400, "invalid_quote", "fingerprint must be one that a quote gave."),
	server.NewFault(400, "invalid_request_key",
		"Send the header Idempotency-Key: 8 to 128 visible ASCII characters."),
	server.NewFault(400, "invalid_status", "An issue can only be moved to fix_ready."),
	server.NewFault(400, "invalid_url",
		"url must be a public http or https address without credentials."),
	server.NewFault(400, "request_aborted", "The connection closed before the body arrived."),
	server.NewFault(400, "unexpected_field", "Unknown field in the body."),
	server.NewFault(401, "invalid_key", "The API key is missing, malformed, unknown or revoked."),
	server.NewFault(403, "origin_not_allowed",
		"Changes come from the configured origin (header Origin) alone. Nothing was changed."),
	server.NewFault(403, "insufficient_scope", "The key lacks the needed scope."),
	server.NewFault(404, "account_not_found", "There is no such account."),
	server.NewFault(502, "target_unreachable",
		"The product answered nothing that can be read. Nothing was saved or charged."),
	server.NewFault(503, "authentication_not_configured",
		"Sign-in is not configured on this deployment.").Retry(server.RetryOperator),
	server.NewFault(503, "hosting_not_configured",
		"Payment is not configured on this deployment. Nothing was charged.").Retry(server.RetryOperator),
}

// errorTable is the document's table of errors, by code. What a code says by itself is what the
// first outcome that has it says.
var errorTable = func() map[string]*server.Fault {
	all := make(map[string]*server.Fault)
	add := func(f *server.Fault) {
		if all[f.Code] == nil {
			all[f.Code] = f
		}
	}
	for _, f := range requestErrors {
		add(f)
	}
	for o := range 256 {
		if f := server.WorkspaceFault(engine.Outcome(o)); f != nil {
			add(f)
		}
	}
	return all
}()

// tableCodes are what the document calls the refusals of the route table itself.
var tableCodes = map[string]string{
	"body_too_large": "request_too_large", "malformed_request": "request_aborted",
	"request_timeout": "request_aborted", "unavailable": "workspace_busy",
	"validation_failed": "invalid_id", "malformed_encoding": "invalid_json",
}

// no is a refusal.
func no(code string) *server.Fault { return waiting(errorTable[code]) }

// refusalOf is the refusal of a command. What no command should come to is not known.
func refusalOf(o engine.Outcome) *server.Fault {
	return waiting(cmp.Or(server.WorkspaceFault(o), errorTable["outcome_unknown"]))
}

// waiting is a copy of a refusal that says when to come again, where only time mends it.
func waiting(f *server.Fault) *server.Fault {
	switch again := *f; {
	case f.RetryAfter > 0 || f.Status != 429 && f.Status != 503:
		return &again
	case f.Status == 429:
		return again.Retry(limitRetry)
	default:
		return again.Retry(1)
	}
}

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
func full(r *server.Fault, reply *workspace.FullReply) {
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
