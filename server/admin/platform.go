package admin

import (
	"net/url"
	"strings"

	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
)

// platformRoutes are the rows about what surrounds billing: customers' data, origins, the record of
// admin changes.
func (a *API) platformRoutes() []server.Route {
	origins := server.AnswerSchema[originsAnswer]()
	return []server.Route{
		{
			Method: "DELETE", Path: environment + "/customers/{customer}", Operation: "removeCustomer",
			Summary: "Archive a customer, or erase its personal data",
			Access:  server.AccessOperator, Handle: a.accounts.removeCustomer,
			Params: environmentAnd(
				path("customer", text(1, maxID), "externalClientCustomerId"),
				inQuery("erase", server.EnumSchema("true", "false"), "true erases"),
			),
			Responses: nothing("Done, or it was before"),
		},
		{
			Method: "PUT", Path: environment + "/origins", Operation: "setOrigins",
			Summary: "List the web origins that may use customer keys",
			Access:  server.AccessOperator, Handle: a.accounts.putOrigins, Params: environmentParams,
			Body: origins, Responses: nothing("Set"),
		},
		{
			Method: "GET", Path: environment + "/origins", Operation: "listOrigins",
			Summary: "The web origins that may use customer keys",
			Access:  server.AccessOperator, Handle: a.accounts.listOrigins, Params: environmentParams,
			Responses: answers(origins),
		},
		{
			Method: "GET", Path: environment + "/margin", Operation: "showMargin",
			Summary: "Revenue of invoices, cost of usage, and their difference",
			Access:  server.AccessOperator, Handle: a.invoices.margin,
			Params: environmentAnd(
				must(inQuery("from", server.TimeSchema, "earliest instant")),
				must(inQuery("to", server.TimeSchema, "instants before this")),
				must(inQuery("by", server.EnumSchema("customer", "feature", "plan"), "")),
			),
			Responses: answers(server.Object(
				server.Must("rows", server.ArrayOf(server.RefTo("MarginRow"))))),
		},
		{
			Method: "GET", Path: Prefix + "/audit", Operation: "listChanges",
			Summary: "Every admin change, newest first",
			Access:  server.AccessOperator, Handle: a.accounts.listChanges,
			Params: []server.Param{
				inQuery("limit", server.IntSchema(1, maxChanges), "100 when absent"),
				inQuery("cursor", text(1, maxChangeCursor), "nextCursor of the page before"),
			},
			Responses: answers(pageSchema("changes", "Change", maxChangeCursor)),
		},
	}
}

// removeCustomer is DELETE …/customers/{customer}: with erase=true it erases the customer's
// personal data, without it archives the customer.
func (a *accounts) removeCustomer(x *server.Exchange) {
	erase, fault := switchParam(x, "erase")
	if fault != nil {
		x.Refuse(fault)
		return
	}
	id, ok := pathCustomer(x)
	if !ok {
		return
	}
	kind := billing.KindArchiveCustomer
	if erase {
		kind = billing.KindEraseCustomer
	}
	a.carryOut(x, kind, func(env uint32) wire.Fielder {
		if erase {
			return &billing.EraseCustomer{Env: env, ExternalID: id, Actor: x.By()}
		}
		return &billing.ArchiveCustomer{Env: env, ExternalID: id, Actor: x.By()}
	})
}

// putOrigins is PUT …/origins.
func (a *accounts) putOrigins(x *server.Exchange) {
	origins := []string{}
	var w walk
	fault := body(x, &w, map[string]reader{"origins": w.array(func(t *tree, place string) {
		var origin string
		w.text(&origin)(t, place)
		if len(w.problems) == 0 && !validOrigin(origin) {
			w.problem(place, server.FieldFormat, "must be an origin such as https://shop.example, in lower case")
		}
		origins = append(origins, origin)
	})}, "origins")
	if fault == nil && len(origins) > billing.MaxOrigins {
		w.problem("origins", server.FieldTooLong, "must be at most %d", billing.MaxOrigins)
		fault = w.fault()
	}
	if fault != nil {
		x.Refuse(fault)
		return
	}
	a.carryOut(x, billing.KindSetOrigins, func(env uint32) wire.Fielder {
		return &billing.SetOrigins{Env: env, Origins: origins, Actor: x.By()}
	})
}

// validOrigin reports whether text is what browsers send as Origin.
func validOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" &&
		len(text) <= 253+len("https://:65535") && text == u.Scheme+"://"+u.Host &&
		text == strings.ToLower(text)
}

// originsAnswer is the web origins that may use customer keys.
//
//schema:answer admin Origins
type originsAnswer struct {
	Origins []string `json:"origins" rule:"min=1"`
}

// listOrigins is GET …/origins.
func (a *accounts) listOrigins(x *server.Exchange) {
	a.environment(x, func(env uint32) *server.Fault {
		return server.One(x, 200, &originsAnswer{a.machine.Origins(env)}, writeOrigins)
	})
}
