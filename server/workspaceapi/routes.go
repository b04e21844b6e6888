package workspaceapi

import (
	"tollgate/engine/workspace"
	"tollgate/server"
)

// routes is the route table of the workspace API: one row per operation.
func (a *API) routes() []server.Route {
	rows := a.openRoutes()
	rows = append(rows, a.flowRoutes()...)
	rows = append(rows, a.Runs.inspectionRoutes()...)
	rows = append(rows, a.runRoutes()...)
	rows = append(rows, a.moneyRoutes()...)
	rows = append(append(rows, a.Purchases.approvalRows()...), a.Members.sessionRoutes()...)
	rows = append(append(rows, a.Flows.accessRoutes()...), a.tenantRoutes()...)
	rows = append(rows, a.searchRoutes()...)
	for i := range rows {
		describeErrors(&rows[i])
	}
	return rows
}

func (a *API) openRoutes() []server.Route {
	return []server.Route{
		row("POST", "/v1/signup", "signUp", "Create a workspace and a key, without a person", 0,
			a.Members.signUp, reads(server.RequestSchema[signupRequest](server.May("scopes",
				server.ArrayOf(server.EnumSchema("read", "write", "run"))))),
			gives(201, "Created; key and claimCode are shown once",
				server.AnswerSchema[signedUp]().Properties...)),
		row("POST", "/v1/feedback", "sendFeedback", "Report that an agent cannot continue", 0, a.feedback,
			takes(server.Must("message", server.TextSchema(1, maxFeedback)),
				server.May("path", server.TextSchema(0, 500)),
				server.May("status", server.IntSchema(100, 599))),
			gives(202, "Received", server.Must("received", server.BoolSchema))),
		row("GET", "/", "showHome", "What this is", 0, a.home, func(r *server.Route) {
			plainText(r)
			r.Responses[0].Media = "text/html; charset=utf-8"
		}),
		row("GET", "/v1/routes", "listRoutes", "All routes", 0, a.bare("application/json", &a.listing),
			free(200, "routes")),
		row("GET", "/v1/schema", "describeInspection",
			"The inspection document svc/interface@1, field by field, and as a JSON Schema", 0,
			a.bare("application/json", &a.inspection), gives(200, "The description",
				server.Must("version", text), server.Must("fields", server.ArrayOf(server.FreeObject())),
				server.Must("jsonSchema", server.FreeObject()))),
		row("GET", "/openapi.json", "describeWorkspace", "This document (OpenAPI 3.1)", 0,
			a.describe, free(200, "OpenAPI")),
		row("GET", "/.well-known/oauth-protected-resource", "describeResource",
			"What the API is, its scopes and endpoints", 0, a.resource, free(200, "RFC 9728")),
		row("GET", "/.well-known/api-catalog", "listAPIs", "The APIs of this host", 0, a.catalog,
			freeOf("application/linkset+json")),
		row("GET", "/auth.md", "explainAuth", "How to get a key", 0, a.page1(authText), plainText),
		row("GET", "/llms.txt", "explain", "What this is, for agents", 0, a.page1(llmsText), plainText),
		row("GET", "/robots.txt", "robots", "What may be crawled", 0, a.page1(robotsText), plainText),
	}
}

func (a *API) flowRoutes() []server.Route {
	one := server.Must("flow", server.RefTo("Flow"))
	return []server.Route{
		row("GET", "/v1/flows", "listFlows", "Saved tests",
			read, a.Flows.listFlows, agents, listed("flows", "Flow")),
		row("POST", "/v1/flows", "createFlow", "Save a test; starts nothing", write, a.Flows.createFlow,
			agents, reads(newFlow), gives(201, "Saved", one)),
		row("GET", "/v1/flows/{flow_id}", "getFlow", "One saved test", read,
			of(markFlow, a.Flows.getFlow), agents, gives(200, "The flow", one)),
		row("PATCH", "/v1/flows/{flow_id}", "changeFlow",
			"Change a test: a new version, unless only its name changes",
			write, of(markFlow, a.Flows.changeFlow), agents, reads(changedFlow),
			gives(200, "The flow", one)),
		row("DELETE", "/v1/flows/{flow_id}", "archiveFlow", "Archive a test; its runs stay", write,
			of(markFlow, a.Flows.archiveFlow), agents,
			gives(200, "Archived", server.Must("archived", server.BoolSchema))),
		row("GET", "/v1/flows/{flow_id}/quote", "getQuote", "What a run costs and needs", read,
			of(markFlow, a.Flows.getQuote), agents, current,
			gives(200, "The quote", server.Must("quote", server.RefTo("Quote")))),
		row("POST", "/v1/flows/{flow_id}/run", "startRun", "Start a hosted run", run,
			of(markFlow, a.Runs.startRun), agents, keyed, reads(server.RequestSchema[startRequest]()),
			gives(202, "Queued, or the run of this key", server.Must("run", server.RefTo("Run")))),
		row("POST", "/v1/flows/{flow_id}/confirm-signup", "confirmSignup",
			"Confirm that an agent may sign up: a person", anyScope, of(markFlow, a.Flows.confirmSignup),
			gives(200, "Confirmed for this version of the flow", one)),
		row("GET", "/v1/flows/{flow_id}/alerts", "getAlerts", "The alert watch", read,
			of(markFlow, a.Alerts.getAlerts), agents,
			gives(200, "The watch, and the newest 20 deliveries", alertsProperties(false)...)),
		row("PATCH", "/v1/flows/{flow_id}/alerts", "changeAlerts", "Set alerts: a person", anyScope,
			a.Alerts.forOwner(a.Alerts.changeAlerts), takes(alertsForm().Properties...),
			gives(200, "Set; a signing secret that was made is shown once", secretly()...)),
		row("POST", "/v1/flows/{flow_id}/alerts/secret", "rotateAlertSecret",
			"Replace the signing secret; the one before signs alongside it for 24 hours: a person", anyScope,
			a.Alerts.forOwner(a.Alerts.rotateAlertSecret), gives(200, "Shown once", secretly()...)),
		row("POST", "/v1/flows/{flow_id}/alerts/test", "testAlert",
			"Send a test alert to wherever alerts go, 10 a UTC day: a person", anyScope,
			a.Alerts.forOwner(a.Alerts.testAlert), gives(200, "Queued", alertsProperties(true)...)),
	}
}

func (a *API) runRoutes() []server.Route {
	one, document := server.Must("run", server.RefTo("Run")), server.OrNull(server.FreeObject())
	return []server.Route{
		row("GET", "/v1/runs", "listRuns", "All runs",
			read, a.Runs.listRuns, agents, listed("runs", "Run")),
		row("GET", "/v1/runs/{run_id}", "getRun", "One run, and the document of one that has one", read,
			of(markRun, a.Runs.getRun), agents, gives(200, "The run", one,
				server.May("inspection", document), server.May("comparison", comparisonSchema()),
				server.May("journey", server.OrNull(journeySchema())))),
		row("POST", "/v1/runs/{run_id}/resume", "resumeRun", "Go on with a run that waits for a person",
			run, of(markRun, a.Runs.resumeRun), agents, reads(server.RequestSchema[resumeRequest]()),
			gives(202, "Queued again", one)),
		row("POST", "/v1/runs/{run_id}/cancel", "cancelRun", "Cancel a hosted run", writeOrRun,
			a.Runs.cancel(workspace.RunHosted), agents, gives(200, "Cancelled", one)),
		row("POST", "/v1/run-requests", "requestRun", "Save a usability request; no charge", write,
			a.Runs.requestRun, agents, takes(server.Must("flowId", text), server.May("url", text)),
			gives(201, "Saved", one)),
		row("POST", "/v1/run-requests/{id}/cancel", "cancelRunRequest", "Cancel a usability request",
			write, a.Runs.cancel(workspace.RunRequest), agents, gives(200, "Cancelled", one)),
		row("POST", "/v1/local-runs", "startLocalRun", "Report a run of the older local tool", run,
			a.Members.startLocal, agents,
			gives(201, "Counted", one, server.Must("limits", server.RefTo("Limits")))),
		row("POST", "/v1/local-runs/{id}/finish", "finishLocalRun", "Report what a local run came to",
			run, of(markRun, a.Members.finishLocal), agents,
			takes(server.Must("outcome", server.EnumSchema("passed", "blocked", "inconclusive"))),
			gives(200, "Noted", one, server.Must("limits", server.RefTo("Limits")))),
	}
}

func (a *API) moneyRoutes() []server.Route {
	one := server.Must("purchase", server.RefTo("Purchase"))
	charging := server.Must("charging", server.BoolSchema)
	billing := gives(200, "Set", server.Must("billing", server.RefTo("Billing")))
	return []server.Route{
		row("POST", "/v1/purchases", "buyRuns", "Buy hosted runs with the saved card",
			run, a.Purchases.buy, agents, keyed,
			reads(server.RequestSchema[workspace.RequestPurchase]()),
			gives(200, "Ended without a charge", one), gives(201, "Paid", one),
			gives(202, "Being charged", one, charging)),
		row("GET", "/v1/purchases", "listPurchases", "Purchases", read, a.Purchases.listPurchases, agents,
			listed("purchases", "Purchase")),
		row("GET", "/v1/purchases/{id}", "getPurchase", "One purchase", read,
			of(markPurchase, a.Purchases.getPurchase), agents, gives(200, "The purchase", one)),
		row("POST", "/v1/purchases/{id}/approval-link", "renewApprovalLink", "A new approval link", run,
			alone(markPurchase, a.Purchases.renewLink), agents, gives(200, "The old link stops working",
				server.Must("approval_url", text), server.Must("poll_url", text), one)),
		row("POST", "/v1/purchases/{id}/cancel", "cancelPurchase", "Cancel a waiting purchase",
			writeOrRun, alone(markPurchase, a.Purchases.cancelPurchase), agents,
			gives(200, "Cancelled", one)),
		row("POST", "/v1/billing/pause", "pausePurchases", "Every purchase then needs the owner",
			writeOrRun, a.Purchases.pause, agents, takes(server.Must("paused", server.BoolSchema)), billing),
		row("POST", "/v1/billing/cap", "lowerCap", "Lower the monthly spending cap",
			writeOrRun, a.Purchases.setCap, agents,
			takes(server.Must("capCents", server.IntSchema(0, 20_000))), billing),
	}
}

func (a *API) tenantRoutes() []server.Route {
	return []server.Route{
		row("GET", "/v1/account", "getAccount", "Workspace, credits, usage", read, a.Members.getAccount,
			agents, gives(200, "The account", server.Must("workspace", server.FreeObject()),
				server.Must("credits", server.Object(server.Must("balance", server.IntegerSchema),
					server.Must("reserved", server.IntegerSchema))),
				server.Must("transactions", server.ArrayOf(server.FreeObject())),
				server.Must("billing", server.RefTo("Billing")))),
		row("GET", "/v1/execution", "getExecution", "What can run flows", read, a.Members.getExecution,
			agents, gives(200, "Execution", server.Must("execution", server.FreeObject()))),
		row("GET", "/v1/issues", "listIssues", "What stops agents", read, a.Members.listIssues, agents,
			listed("issues", "Issue")),
		row("PATCH", "/v1/issues/{id}", "changeIssue", "Say that an issue is fixed", write,
			of(markIssue, a.Members.changeIssue), agents,
			takes(server.Must("status", server.EnumSchema("fix_ready")),
				server.Must("note", server.TextSchema(1, maxNote))),
			gives(200, "The issue", server.Must("issue", server.RefTo("Issue")))),
		row("GET", "/v1/notifications", "listNotifications", "Updates", read, a.Members.listNotifications,
			agents, listed("notifications", "Notification")),
		row("POST", "/v1/notifications/{id}/read", "readNotification", "Mark an update read", write,
			alone(markNotification, a.Members.readNotification), agents,
			gives(200, "Read", server.Must("notification", server.RefTo("Notification")))),
		row("POST", "/v1/keys/self/revoke", "revokeKey", "Revoke the key that asks", anyScope,
			a.Members.revokeSelf, gives(200, "Revoked", server.Must("revoked", server.BoolSchema))),
	}
}
