package admin

import (
	"tollgate/engine/billing"
	"tollgate/server"
)

const (
	accountsPath = Prefix + "/accounts"
	environment  = accountsPath + "/{account}/environments/{environment}"
	catalogLimit = server.DefaultBodyLimit
)

// routes are the rows about accounts, keys, catalogs, and the node itself.
func (a *API) routes() []server.Route {
	document := row("GET", Prefix+"/openapi.json", "describe", "This document", a.describe)
	document.Access, document.Responses = server.AccessOpen, []server.Response{{
		Status: 200, About: "OpenAPI", Data: server.FreeObject(), Bare: true,
	}}
	return []server.Route{
		row("POST", accountsPath, "createAccount",
			"Create an account with a live and a sandbox environment", a.accounts.createAccount, keyed,
			server.Takes(server.Object(server.Must("name", text(1, 64)))),
			server.Gives(201, "Created", server.AnswerSchema[madeAccount]())),
		row("GET", accountsPath, "listAccounts", "All accounts", a.accounts.listAccounts,
			answers(server.ArrayOf(server.AnswerSchema[billing.AccountView]()))),
		row("GET", accountsPath+"/{account}", "showAccount",
			"What an account uses of its limits, in both environments together",
			a.accounts.showAccount, answers(server.AnswerSchema[accountAnswer]())),
		row("POST", environment+"/keys", "createKey", "Create an API key, which only this answer shows",
			a.accounts.createKey, keyed, server.Takes(server.DocumentSchema[keyRequest]()),
			server.Gives(201, "Created", server.AnswerSchema[madeKey]())),
		row("GET", environment+"/keys", "listKeys",
			"The environment's API keys, including revoked ones, without the keys themselves",
			a.within(a.accounts.listKeys),
			answers(server.ArrayOf(server.AnswerSchema[billing.UsedKeyView]()))),
		row("POST", environment+"/keys/{id}/roll", "rollKey",
			"Replace an API key with a new one; the old one keeps working for a while", of(a.accounts.rollKey), keyed,
			server.Takes(server.Object(server.May("overlapHours", server.IntSchema(0, maxOverlapHours)))),
			server.Gives(201, "Created", server.AnswerSchema[madeKey]())),
		row("DELETE", environment+"/keys/{id}", "revokeKey", "Revoke an API key for good",
			of(a.accounts.revokeKey), nothing("Revoked")),
		row("PUT", environment+"/catalog", "applyCatalog",
			"Apply a document to the catalog, all or nothing", a.catalogs.putCatalog,
			func(r *server.Route) {
				r.Limit = catalogLimit
				r.Media = []string{
					"application/json", "application/yaml", "application/x-yaml", "text/yaml",
				}
			},
			server.Asks(
				server.InQuery("dryRun", server.EnumSchema("true", "false"), "true changes nothing"),
				server.InQuery("prune", server.EnumSchema("true", "false"), "archives what is not named")),
			server.Takes(server.RefTo("CatalogDocument")),
			answers(server.Object(server.Must("changes",
				server.ArrayOf(server.AnswerSchema[billing.CatalogChange]()))))),
		row("GET", environment+"/catalog", "showCatalog",
			"The catalog as a document that can be applied again", a.within(a.catalogs.getCatalog),
			answers(server.RefTo("Catalog"))),
		row("GET", Prefix+"/cluster", "showCluster", "What this node knows of its cluster",
			a.nodeTools.cluster, answers(server.FreeObject())),
		row("GET", Prefix+"/node", "showNode",
			"How this node itself is: build, limits, disk (measured for up to a second), memory, "+
				"certificates, and the settings that all nodes share", a.nodeTools.node,
			answers(server.FreeObject())),
		document,
	}
}

// row makes a route for holders of the admin key.
func row(method, path, operation, summary string, handle func(*server.Exchange) *server.Fault,
	more ...func(*server.Route),
) server.Route {
	return server.Row(method, path, operation, summary, server.AccessOperator, handle, more...)
}

// keyed states the header Idempotency-Key.
func keyed(r *server.Route) { r.Params = append(r.Params, server.RequestKey) }

// pages states the parameters and the answer of a list that is read page by page.
func pages(name, noun string, maximum int, standard string, maxCursor int) func(*server.Route) {
	return func(r *server.Route) {
		server.Asks(server.InQuery("limit", server.IntSchema(1, maximum), standard+" when absent"),
			server.InQuery("cursor", text(1, maxCursor), "nextCursor of the page before"))(r)
		answers(server.Object(server.Must(name, server.ArrayOf(server.RefTo(noun))),
			server.May("nextCursor", text(1, maxCursor))))(r)
	}
}

func answers(data *server.Schema) func(*server.Route) { return server.Gives(200, "OK", data) }

// nothing is a success without data.
func nothing(about string) func(*server.Route) { return server.Gives(200, about, nil) }

// pathParams are the parameters in the paths of this API.
var pathParams = map[string]server.Param{
	"account":     {Schema: text(1, 64), About: "the account's name"},
	"budget":      {Schema: text(1, maxID), About: "the key that its caller gave it"},
	"customer":    {Schema: text(1, maxID), About: "externalClientCustomerId"},
	"endpoint":    {Schema: server.UUIDSchema},
	"environment": {Schema: server.EnumSchema("live", "sandbox")},
	"id":          {Schema: server.UUIDSchema},
	"invoice":     {Schema: server.UUIDSchema},
	"member":      {Schema: text(1, maxMember), About: "the node's name"},
	"message":     {Schema: text(1, 64), About: "its webhook-id"},
	"plan":        {Schema: text(1, maxID), About: "its key or id"},
	"pool":        {Schema: server.UUIDSchema},
	"reservation": {Schema: server.UUIDSchema},
	"transaction": {Schema: server.UUIDSchema},
}

// plainRoutes are the rows that other programs know by their paths; they are not in the document.
func (a *API) plainRoutes() []server.Route {
	return []server.Route{
		{Method: "GET", Path: "/metrics", Operation: "metrics", Handle: a.nodeTools.measure},
		{Method: "GET", Path: "/healthz", Operation: "healthz", Handle: a.nodeTools.healthy},
		{Method: "GET", Path: "/readyz", Operation: "readyz", Handle: a.nodeTools.ready},
		{Method: "GET", Path: "/leader", Operation: "leader", Handle: a.nodeTools.leader},
		{
			Method: "GET", Path: "/debug/pprof", Operation: "profiles",
			Access: server.AccessOperator, Handle: a.nodeTools.profile,
		},
		{
			Method: "GET", Path: "/debug/pprof/{profile}", Operation: "profile",
			Access: server.AccessOperator, Handle: a.nodeTools.profile,
		},
	}
}

func (a *API) describe(x *server.Exchange) *server.Fault {
	return a.document.Answer(x)
}
