package workspaceapi

import (
	"tollgate/engine/workspace"
	"tollgate/server"
)

// Scopes that routes ask for: any of them.
const (
	read       = workspace.ScopeRead
	write      = workspace.ScopeWrite
	run        = workspace.ScopeRun
	writeOrRun = workspace.ScopeWrite | workspace.ScopeRun
	anyScope   = workspace.ScopesAll
)

// row makes a route; scopes 0 is open to everybody.
func row(method, path, operation, about string, scopes workspace.Scopes,
	handle func(*server.Exchange) *server.Fault, more ...func(*server.Route),
) server.Route {
	r := server.Route{
		Method: method, Path: path, Operation: operation, Summary: about, Limit: bodyLimit,
		Access: server.AccessOpen,
	}
	if scopes != 0 {
		r.Access, r.Scopes = server.AccessScope, uint32(scopes)
		if method == "GET" {
			r.Params = append(r.Params, server.ConsistencyParam())
		}
	}
	r.Params = append(r.Params, server.PathParams(path, pathParams)...)
	for _, add := range more {
		add(&r)
	}
	if r.SignedIn {
		handle = ofSessions(r.Agents, handle)
	}
	r.Handle = server.Refusing(handle)
	return r
}

// pathParams are the parameters in the paths of this API.
var pathParams = func() map[string]server.Param {
	id := server.Param{Schema: server.TextSchema(1, 64)}
	return map[string]server.Param{
		"id": id, "flow_id": id, "run_id": id, "token": id, "purchase": id,
		"host": {
			Schema: server.TextSchema(1, 300),
			About:  "as flows' urls have it, with its port where it has one",
		},
	}
}()

// agents states that the session of an agent may call a route. It is the list of what it may: what
// a route does not state needs a person.
func agents(r *server.Route) { r.Agents = true }

// signedIn states that only a session calls a route, anywhere that it does so though it works in no
// workspace yet.
func signedIn(r *server.Route) { r.SignedIn = true }

func anywhere(r *server.Route) { r.SignedIn, r.NoWorkspace = true, true }

// ofSessions refuses what a key may not decide.
func ofSessions(
	agents bool, handle func(*server.Exchange) *server.Fault,
) func(*server.Exchange) *server.Fault {
	return func(x *server.Exchange) *server.Fault {
		if person(x) || agents && tenant(x).Agent {
			return handle(x)
		}
		return no("person_required")
	}
}

// takes states a route's body.
func takes(properties ...server.Property) func(*server.Route) {
	return func(r *server.Route) { r.Body = server.Object(properties...) }
}

// reads states a route's body, as a struct's tags do.
func reads(body *server.Schema) func(*server.Route) {
	return func(r *server.Route) { r.Body = body }
}

// current states that a route never answers from the node's own memory alone, or needs none of it.
func current(r *server.Route) { r.Params = r.Params[1:] }

// gives states a route's answer.
func gives(status int, about string, properties ...server.Property) func(*server.Route) {
	return func(r *server.Route) {
		r.Responses = append(r.Responses, server.Response{
			Status: status, About: about, Data: server.Object(properties...), Bare: true,
		})
	}
}

// keyed states the header Idempotency-Key.
func keyed(r *server.Route) {
	r.Params = append(r.Params, server.Param{
		In: "header", Name: "Idempotency-Key", Required: true, Schema: server.TextSchema(8, 128),
		About: "the same key and request within 30 days: the same record",
	})
}

// listed states the parameters and the answer of a list.
func listed(name, schema string) func(*server.Route) {
	return func(r *server.Route) {
		r.Params = append(r.Params,
			server.Param{In: "query", Name: "limit", Schema: server.IntSchema(1, 100), About: "100"},
			server.Param{
				In: "query", Name: "cursor", Schema: server.TextSchema(1, 64),
				About: "next_cursor of the page before",
			})
		gives(200, "newest first", server.Must(name, server.ArrayOf(server.RefTo(schema))),
			server.Must("next_cursor", server.OrNull(server.TextSchema(1, 64))))(r)
	}
}

// plainText states an answer that is a text.
func plainText(r *server.Route) {
	r.Responses = []server.Response{{
		Status: 200, About: "text", Data: server.TextSchema(1, 0), Bare: true,
		Media: "text/plain; charset=utf-8",
	}}
}

// freeOf states an answer of another JSON media type.
func freeOf(media string) func(*server.Route) {
	return func(r *server.Route) {
		free(200, media)(r)
		r.Responses[0].Media = media
	}
}

func free(status int, about string) func(*server.Route) {
	return func(r *server.Route) {
		r.Responses = []server.Response{{
			Status: status, About: about, Data: server.FreeObject(), Bare: true,
		}}
	}
}

// of is the handler of what is about the record that the path names.
func of(
	mark string, handle func(x *server.Exchange, id [16]byte) *server.Fault,
) func(*server.Exchange) *server.Fault {
	return func(x *server.Exchange) *server.Fault {
		id, ok := parseID(mark, string(x.Param(0)))
		if !ok {
			return no("invalid_id")
		}
		return handle(x, id)
	}
}

// alone is of for a request whose body has no fields.
func alone(
	mark string, handle func(x *server.Exchange, id [16]byte) *server.Fault,
) func(*server.Exchange) *server.Fault {
	return of(mark, func(x *server.Exchange, id [16]byte) *server.Fault {
		if fault := fieldless(x); fault != nil {
			return fault
		}
		return handle(x, id)
	})
}
