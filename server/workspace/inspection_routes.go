package workspace

import (
	state "tollgate/engine/workspace"
	"tollgate/server"
)

// inspectionRoutes are the routes that read what products publish.
func (s *Runs) inspectionRoutes() []server.Route {
	one := server.Must("run", server.RefTo("Run"))
	about, flow := server.May("url", text), server.May("flowId", text)
	return []server.Route{
		row("POST", "/v1/interface", "inspectProduct", "Read what a product publishes; no agent runs",
			write, s.examine(state.RunInspection), agents, mayBeKeyed, takes(about, flow),
			gives(200, "The run and its document, which GET /v1/schema describes", one,
				server.Must("inspection", server.OrNull(server.FreeObject())),
				server.Must("comparison", comparisonSchema()))),
		row("POST", "/v1/evaluate", "evaluateTask",
			"Say from what a product publishes how far an agent would come with a task; no agent runs",
			write, s.examine(state.RunAssessment), agents, mayBeKeyed,
			takes(about, server.May("task", server.TextSchema(1, maxTask)), flow), gives(200,
				"The run and its stages", one, server.Must("journey", server.OrNull(journeySchema())))),
		row("GET", "/v1/runs/{run_id}/suggested-test", "suggestTest",
			"A call that would make a verification", read, of(markRun, s.suggestTest), agents,
			gives(200, "The call, or why there is none: no_openapi, no_get_without_parameters, "+
				"no_operation_with_key, no_supported_credential, no_server_of_this_site, not_completed",
				server.Must("suggestedTest", server.OrNull(suggestionSchema())),
				server.Must("reason", server.OrNull(text)))),
	}
}

// mayBeKeyed states the header Idempotency-Key where it may be left out.
func mayBeKeyed(r *server.Route) {
	keyed(r)
	r.Params[len(r.Params)-1].Required = false
}

// comparisonSchema is what is another verdict than the time before.
func comparisonSchema() *server.Schema {
	return server.OrNull(server.AnswerSchema[state.InspectionView]())
}

func evidenceSchema() *server.Schema {
	return server.ArrayOf(server.Object(server.Must("obs", text), server.Must("quote", text)))
}

func suggestionSchema() *server.Schema {
	return server.Object(server.Must("operation", text), server.Must("method", text),
		server.Must("url", text), server.Must("status", server.IntSchema(100, 599)),
		server.Must("credential", server.EnumSchema("bearer", "x-api-key")),
		server.Must("evidence", evidenceSchema()))
}

// journeySchema is the document svc/journey@1.
func journeySchema() *server.Schema {
	stage := server.Object(
		server.Must("stage", server.EnumSchema("discover", "understand", "choose_interface",
			"acquire_credential", "authenticate", "execute", "recover")),
		server.Must("status", server.EnumSchema("success", "failed", "unknown", "needs_input",
			"not_run")),
		server.Must("reason", text), server.Must("rule", text),
		server.Must("basedOn", server.ArrayOf(text)))
	return server.Object(server.Must("schema", server.EnumSchema("svc/journey@1")),
		server.Must("generator", server.FreeObject()), server.Must("target", server.FreeObject()),
		server.Must("task", text), server.Must("startedAt", server.TimeSchema),
		server.Must("finishedAt", server.TimeSchema),
		server.Must("interface", server.OrNull(text)),
		server.Must("stages", server.ArrayOf(stage)),
		server.Must("observations", server.ArrayOf(server.FreeObject())),
		server.Must("limits", server.ArrayOf(server.FreeObject())))
}
