package server

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
)

// Access is what a request must prove to reach a route.
type Access uint8

const (
	// AccessOpen: no key. A key that is sent is not looked at.
	AccessOpen Access = iota
	// AccessRead: a key of any scope but customer.
	AccessRead
	// AccessFull: a key with the scope full.
	AccessFull
	// AccessOperator: the admin key.
	AccessOperator
	// AccessCustomer: a key of any scope; a customer key for its own customer only, which is the
	// path's first parameter, or named in the body and compared by the handler.
	AccessCustomer
	// AccessScope: a workspace key with one of the route's Scopes.
	AccessScope
)

// Route is one row of an API's route table. Router, 405 with Allow, authentication, body limit,
// media types, metric label and OpenAPI document all come from it.
type Route struct {
	Method string
	// Path has literal segments and {parameters}; a parameter is one non-empty segment.
	Path string
	// Operation is the operationId, and the label in metrics.
	Operation string
	Summary   string
	// About explains the operation, in Markdown; Tag is the part of the API that it belongs to.
	About, Tag string
	Examples   []Example
	Access     Access
	// Scopes are what AccessScope asks for: any of these bits, which the API gives their meaning.
	Scopes uint32
	// Agents reports whether the session of an agent may call it: those that do not say so need a
	// person.
	Agents bool
	// NoWorkspace reports whether a session may call it that works in no workspace yet.
	NoWorkspace bool
	// SignedIn reports whether only a session calls it.
	SignedIn bool
	// Limit bounds the body in bytes; 0 is DefaultBodyLimit.
	Limit int
	// Media are the body's media types; empty is application/json.
	Media  []string
	Params []Param
	Body   *Schema
	// Bodies are the schemas of those media types whose body is not Body.
	Bodies map[string]*Schema
	// BodyOptional reports whether a request without a body is as good as one with an empty object.
	BodyOptional bool
	Responses    []Response
	Handle       func(*Exchange)

	number int
	names  []string
	query  []string // the parameters of the query
}

// Parameters is the number of parameters in the path.
func (r *Route) Parameters() int { return len(r.names) }

// Parameter is the name of the i-th parameter in the path.
func (r *Route) Parameter(i int) string { return r.names[i] }

// Number is the route's place in its table, from 0.
func (r *Route) Number() int { return r.number }

// Param describes a parameter in the path, the query or a header.
type Param struct {
	In       string // path, query, header
	Name     string
	Required bool
	Schema   *Schema
	About    string
}

// Response describes one answer of a route. Answers that the table itself gives (401, 403, 413 …)
// need no row.
type Response struct {
	Status int
	About  string
	// Data is the schema of data; nil when there is none. Of a Bare response it is the whole body.
	Data *Schema
	Bare bool
	// Paged reports whether the answer may have nextCursor next to data.
	Paged bool
	// Media is the answer's media type; empty is application/json.
	Media string
	// Codes are those of the refusals of this status.
	Codes []string
}

// Bodiless makes the rows that describe no body refuse one that says something; check judges a body
// that is there. What a GET sends is not looked at.
func Bodiless(routes []Route, check func(*Exchange) *Fault) {
	for i := range routes {
		handle := routes[i].Handle
		if routes[i].Body != nil || routes[i].Method == "GET" {
			continue
		}
		routes[i].Handle = func(x *Exchange) {
			if len(x.Body) > 0 {
				if fault := check(x); fault != nil {
					x.Refuse(fault)
					return
				}
			}
			handle(x)
		}
	}
}

// DefaultBodyLimit is the size of a request body in bytes unless the route says otherwise (1 MiB).
const DefaultBodyLimit = 1 << 20

// maxParams bounds the parameters of one path.
const maxParams = 4

// node is one segment of the paths of a table.
type node struct {
	literal  string
	children []*node // literals
	param    *node
	routes   []*Route
	allow    string
}

// match finds the node of a raw path, whose segments are compared byte for byte; parameters are
// stored still encoded. A literal is preferred to a parameter.
func (n *node) match(path []byte, params *[maxParams][]byte, count int) (*node, int) {
	if len(path) == 0 {
		if len(n.routes) == 0 {
			return nil, 0
		}
		return n, count
	}
	path = path[1:]
	end := bytes.IndexByte(path, '/')
	if end < 0 {
		end = len(path)
	}
	for _, child := range n.children {
		if string(path[:end]) == child.literal {
			if found, c := child.match(path[end:], params, count); found != nil {
				return found, c
			}
		}
	}
	if n.param == nil || end == 0 {
		return nil, 0
	}
	params[count] = path[:end]
	return n.param.match(path[end:], params, count+1)
}

func (n *node) route(method []byte) *Route {
	for _, r := range n.routes {
		if string(method) == r.Method {
			return r
		}
	}
	return nil
}

// routeOfHead is the route that answers HEAD: that of GET, whose answer then leaves without a body.
func (n *node) routeOfHead(method []byte) *Route {
	if string(method) != "HEAD" {
		return nil
	}
	return n.route([]byte("GET"))
}

// insert adds a route below the root n; head reports whether HEAD is answered where GET is.
func (n *node) insert(r *Route, head bool) error {
	if !strings.HasPrefix(r.Path, "/") {
		return fmt.Errorf("server: path %q does not begin with a slash", r.Path)
	}
	for _, segment := range strings.Split(r.Path[1:], "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			r.names = append(r.names, strings.TrimSuffix(name, "}"))
			if n.param == nil {
				n.param = &node{}
			}
			n = n.param
			continue
		}
		n = n.child(segment)
	}
	if len(r.names) > maxParams {
		return fmt.Errorf("server: %s has more than %d parameters", r.Path, maxParams)
	}
	if n.route([]byte(r.Method)) != nil {
		return fmt.Errorf("server: %s %s is in the table twice", r.Method, r.Path)
	}
	n.routes = append(n.routes, r)
	methods := make([]string, 0, len(n.routes))
	for _, route := range n.routes {
		methods = append(methods, route.Method)
		if head && route.Method == "GET" {
			methods = append(methods, "HEAD")
		}
	}
	sort.Strings(methods)
	n.allow = strings.Join(methods, ", ")
	return nil
}

func (n *node) child(literal string) *node {
	for _, c := range n.children {
		if c.literal == literal {
			return c
		}
	}
	c := &node{literal: literal}
	n.children = append(n.children, c)
	return c
}

// targetPath is the raw path of a request target: in origin form all before the query, in absolute
// form (http://host/path) what follows the authority, which RFC 9112 requires servers to take.
func targetPath(target []byte) []byte {
	if len(target) > 0 && target[0] != '/' {
		if i := bytes.Index(target, []byte("://")); i > 0 && bytes.IndexByte(target[:i], '/') < 0 {
			target = target[i+3:]
			i := bytes.IndexByte(target, '/')
			if i < 0 {
				return []byte("/")
			}
			target = target[i:]
		}
	}
	if i := bytes.IndexAny(target, "?#"); i >= 0 {
		target = target[:i]
	}
	return target
}

// AppendUnescaped percent-decodes text, once; '+' stays what it is.
func AppendUnescaped(dst, text []byte) ([]byte, bool) {
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			dst = append(dst, text[i])
			continue
		}
		if i+2 >= len(text) {
			return dst, false
		}
		high, low := hexValue(text[i+1]), hexValue(text[i+2])
		if high < 0 || low < 0 {
			return dst, false
		}
		dst = append(dst, byte(high<<4|low))
		i += 2
	}
	return dst, true
}
