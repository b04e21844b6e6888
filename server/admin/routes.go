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
	return []server.Route{
		{
			Method: "POST", Path: accountsPath, Operation: "createAccount",
			Summary: "Create an account with a live and a sandbox environment",
			Access:  server.AccessOperator, Handle: a.accounts.createAccount,
			Params: []server.Param{server.RequestKey},
			Body:   server.Object(server.Must("name", text(1, 64))),
			Responses: []server.Response{{
				Status: 201, About: "Created", Data: server.AnswerSchema[madeAccount](),
			}},
		},
		{
			Method: "GET", Path: accountsPath, Operation: "listAccounts", Summary: "All accounts",
			Access: server.AccessOperator, Handle: a.accounts.listAccounts,
			Responses: answers(server.ArrayOf(server.AnswerSchema[billing.AccountView]())),
		},
		{
			Method: "GET", Path: accountsPath + "/{account}", Operation: "showAccount",
			Summary: "What an account holds, in both environments together, and how much it may hold",
			Access:  server.AccessOperator, Handle: a.accounts.showAccount, Params: accountParams,
			Responses: answers(server.Object(
				server.Must("name", text(1, 64)), server.Must("holds", holdingsSchema()),
			)),
		},
		{
			Method: "POST", Path: environment + "/keys", Operation: "createKey",
			Summary: "Create an API key, which only this answer shows",
			Access:  server.AccessOperator, Handle: a.accounts.createKey,
			Params: environmentAnd(server.RequestKey),
			Body: server.Object(
				server.Must("scope", server.EnumSchema("full", "read", "customer")),
				server.May("label", text(0, maxLabel)), server.May("customer", text(1, maxID)),
			),
			Responses: []server.Response{{
				Status: 201, About: "Created", Data: server.AnswerSchema[madeKey](),
			}},
		},
		{
			Method: "GET", Path: environment + "/keys", Operation: "listKeys",
			Summary: "The environment's API keys, revoked ones too, without the keys themselves",
			Access:  server.AccessOperator, Handle: a.accounts.listKeys, Params: environmentParams,
			Responses: answers(server.ArrayOf(server.AnswerSchema[billing.KeyView]())),
		},
		{
			Method: "DELETE", Path: environment + "/keys/{id}", Operation: "revokeKey",
			Summary: "End an API key for good", Access: server.AccessOperator, Handle: a.accounts.revokeKey,
			Params: environmentAnd(path("id", server.UUIDSchema, "")), Responses: nothing("Revoked"),
		},
		{
			Method: "PUT", Path: environment + "/catalog", Operation: "applyCatalog",
			Summary: "Make the catalog say what the document says, all or nothing",
			Access:  server.AccessOperator, Handle: a.catalogs.putCatalog, Limit: catalogLimit,
			Media: []string{"application/json", "application/yaml", "application/x-yaml", "text/yaml"},
			Params: environmentAnd(
				inQuery("dryRun", server.EnumSchema("true", "false"), "true changes nothing"),
				inQuery("prune", server.EnumSchema("true", "false"), "archives what is not named"),
			),
			Body: server.RefTo("CatalogDocument"),
			Responses: answers(server.Object(server.Must("changes",
				server.ArrayOf(server.AnswerSchema[billing.CatalogChange]())))),
		},
		{
			Method: "GET", Path: environment + "/catalog", Operation: "showCatalog",
			Summary: "The catalog as a document that, applied, changes nothing",
			Access:  server.AccessOperator, Handle: a.catalogs.getCatalog, Params: environmentParams,
			Responses: answers(server.RefTo("Catalog")),
		},
		{
			Method: "GET", Path: Prefix + "/cluster", Operation: "showCluster",
			Summary: "What this node knows of its cluster",
			Access:  server.AccessOperator, Handle: a.nodeTools.cluster,
			Responses: answers(server.FreeObject()),
		},
		{
			Method: "GET", Path: Prefix + "/node", Operation: "showNode",
			Summary: "How this node itself is: build, limits, disk (measured for up to a second), " +
				"memory, certificates, and the settings that all nodes share",
			Access: server.AccessOperator, Handle: a.nodeTools.node,
			Responses: answers(server.FreeObject()),
		},
		{
			Method: "GET", Path: Prefix + "/openapi.json", Operation: "describe",
			Summary: "This document", Access: server.AccessOpen, Handle: a.describe,
			Responses: []server.Response{{
				Status: 200, About: "OpenAPI", Data: server.FreeObject(), Bare: true,
			}},
		},
	}
}

// plainRoutes are the rows that other programs know by their paths; they are not in the document.
func (a *API) plainRoutes() []server.Route {
	return []server.Route{
		{Method: "GET", Path: "/metrics", Operation: "metrics", Handle: a.nodeTools.measure},
		{Method: "GET", Path: "/healthz", Operation: "healthz", Handle: a.nodeTools.healthy},
		{Method: "GET", Path: "/readyz", Operation: "readyz", Handle: a.nodeTools.ready},
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

// describe is GET /openapi.json.
func (a *API) describe(x *server.Exchange) { x.Bare(200, "application/json", a.document) }
