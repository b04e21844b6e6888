package admin

import "tollgate/server"

const (
	accounts     = Prefix + "/accounts"
	environment  = accounts + "/{account}/environments/{environment}"
	catalogLimit = server.DefaultBodyLimit
)

// routes is the route table of the operations listener.
func (a *API) routes() []server.Route {
	yaml := []string{"application/json", "application/yaml", "application/x-yaml", "text/yaml"}
	return []server.Route{
		{
			Method: "POST", Path: accounts, Operation: "createAccount",
			Access: server.AccessOperator, Handle: a.createAccount,
		},
		{
			Method: "GET", Path: accounts, Operation: "listAccounts",
			Access: server.AccessOperator, Handle: a.listAccounts,
		},
		{
			Method: "POST", Path: environment + "/keys", Operation: "createKey",
			Access: server.AccessOperator, Handle: a.createKey,
		},
		{
			Method: "GET", Path: environment + "/keys", Operation: "listKeys",
			Access: server.AccessOperator, Handle: a.listKeys,
		},
		{
			Method: "DELETE", Path: environment + "/keys/{id}", Operation: "revokeKey",
			Access: server.AccessOperator, Handle: a.revokeKey,
		},
		{
			Method: "PUT", Path: environment + "/catalog", Operation: "applyCatalog",
			Access: server.AccessOperator, Handle: a.putCatalog, Media: yaml, Limit: catalogLimit,
		},
		{
			Method: "GET", Path: environment + "/catalog", Operation: "showCatalog",
			Access: server.AccessOperator, Handle: a.getCatalog,
		},
		{
			Method: "GET", Path: Prefix + "/cluster", Operation: "showCluster",
			Access: server.AccessOperator, Handle: a.cluster,
		},
		{Method: "GET", Path: "/metrics", Operation: "metrics", Handle: a.measure},
		{Method: "GET", Path: "/healthz", Operation: "healthz", Handle: a.healthy},
		{Method: "GET", Path: "/readyz", Operation: "readyz", Handle: a.ready},
		{
			Method: "GET", Path: "/debug/pprof", Operation: "profiles",
			Access: server.AccessOperator, Handle: a.profile,
		},
		{
			Method: "GET", Path: "/debug/pprof/{profile}", Operation: "profile",
			Access: server.AccessOperator, Handle: a.profile,
		},
	}
}
