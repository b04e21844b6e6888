package server

import "strings"

// Row makes a route from what every row of a table states; more adds what only some do. A handler
// returns the refusal of its request, or has answered it.
func Row(method, path, operation, summary string, access Access, handle func(*Exchange) *Fault,
	more ...func(*Route),
) Route {
	r := Route{
		Method: method, Path: path, Operation: operation, Summary: summary, Access: access,
		Handle: Refusing(handle),
	}
	for _, add := range more {
		add(&r)
	}
	return r
}

// Refusing answers what a handler returns.
func Refusing(handle func(*Exchange) *Fault) func(*Exchange) {
	return func(x *Exchange) {
		if fault := handle(x); fault != nil {
			x.Refuse(fault)
		}
	}
}

// Takes states a route's body.
func Takes(body *Schema) func(*Route) { return func(r *Route) { r.Body = body } }

// MayTake states a body that may be left out.
func MayTake(body *Schema) func(*Route) {
	return func(r *Route) { r.Body, r.BodyOptional = body, true }
}

// Asks states parameters.
func Asks(params ...Param) func(*Route) {
	return func(r *Route) { r.Params = append(r.Params, params...) }
}

// Gives states an answer; data is nil if it has none.
func Gives(status int, about string, data *Schema) func(*Route) {
	return func(r *Route) {
		r.Responses = append(r.Responses, Response{Status: status, About: about, Data: data})
	}
}

// InQuery is a parameter in the query.
func InQuery(name string, s *Schema, about string) Param {
	return Param{In: "query", Name: name, Schema: s, About: about}
}

// PathParams are the parameters in a path; known describes each name once.
func PathParams(path string, known map[string]Param) (params []Param) {
	for segment := range strings.SplitSeq(path, "/") {
		if name, found := strings.CutPrefix(segment, "{"); found {
			name = strings.TrimSuffix(name, "}")
			p := known[name]
			p.In, p.Name, p.Required = "path", name, true
			params = append(params, p)
		}
	}
	return params
}

// DescribePaths states the parameters in the paths of routes, before their others.
func DescribePaths(routes []Route, known map[string]Param) {
	for i := range routes {
		routes[i].Params = append(PathParams(routes[i].Path, known), routes[i].Params...)
	}
}
