package server

import (
	"net/url"
	"runtime/debug"
	"strings"

	"github.com/valyala/fasthttp"
)

// Call is a request that another part of this process makes of a table, without a socket: the same
// handler reads the same texts, proposes the same command and writes the same answer. The caller
// has checked that it may.
type Call struct {
	Operation string
	// Path are the parameters of the row's path, in its order, as they are (not percent-encoded).
	Path  []string
	Query url.Values
	// Body is the whole body, of the media type Media (the row's first when empty).
	Body  []byte
	Media string
	// OnceKey is the Idempotency-Key; empty for none.
	OnceKey string
	// Caller is whom the rows answer, of the table's own type.
	Caller Caller
	// Actor is who is recorded for what changes; empty is the key's own name.
	Actor string
	// Stale reads this node's own memory, as X-Read-Consistency asks for.
	Stale bool
}

// Reply is the answer to a Call.
type Reply struct {
	Status int
	// Fault says why there was none; nil of a success.
	Fault *Fault
	// Body is the answer's, with its envelope where it has one.
	Body []byte
}

// Operation finds a row by its name, also one that Call alone carries out.
func (t *Table) Operation(name string) (*Route, bool) {
	for _, rows := range [][]*Route{t.routes, t.internal} {
		for _, r := range rows {
			if r.Operation == name {
				return r, true
			}
		}
	}
	return nil, false
}

// Call carries a row out. A row that does not exist, or is called with the wrong number of
// parameters, is a fault of the program and answers 500.
func (t *Table) Call(c Call) (reply Reply) {
	route, known := t.Operation(c.Operation)
	if !known || len(c.Path) != len(route.names) {
		t.config.Log.Error("no such call", "operation", c.Operation, "parameters", len(c.Path))
		return Reply{Status: FaultInternal.Status, Fault: FaultInternal}
	}
	if len(c.Body) > route.Limit {
		fault := sizeFault(route.Limit)
		return Reply{Status: fault.Status, Fault: fault}
	}
	var ctx fasthttp.RequestCtx
	ctx.Init(&fasthttp.Request{}, nil, nil)
	ctx.Request.Header.SetMethod(route.Method)
	ctx.Request.SetRequestURI(c.target(route))
	if c.OnceKey != "" {
		ctx.Request.Header.Set("Idempotency-Key", c.OnceKey)
	}
	if c.Stale {
		ctx.Request.Header.Set(consistencyHeader, consistencyStale)
	}
	x := t.pool.Get().(*Exchange)
	x.begin(&ctx)
	x.calls, x.shape, x.Route, x.consumed = true, ShapeOf([]byte(route.Path)), route, true
	if x.Actor = c.Actor; c.Caller != nil {
		x.Caller = c.Caller
	}
	for i, value := range c.Path {
		x.params[i] = []byte(value)
	}
	x.Body = append(x.Body, c.Body...)
	if len(c.Body) > 0 {
		if x.media = c.Media; x.media == "" {
			x.media = route.Media[0]
		}
	}
	defer func() {
		if cause := recover(); cause != nil {
			t.config.Log.Error("a call panicked", "operation", c.Operation, "cause", cause,
				"stack", string(debug.Stack()))
			reply = Reply{Status: FaultInternal.Status, Fault: FaultInternal}
		}
	}()
	route.Handle(x)
	x.answered()
	reply.Fault = x.fault
	x.end() // not after a panic: the exchange is then let go as it is
	reply.Status = ctx.Response.StatusCode()
	reply.Body = append([]byte(nil), ctx.Response.Body()...)
	t.pool.Put(x)
	return reply
}

// target is what the request line would say, which repeatable requests are compared by.
func (c *Call) target(route *Route) string {
	segments := strings.Split(route.Path, "/")
	n := 0
	for i, segment := range segments {
		if strings.HasPrefix(segment, "{") {
			segments[i] = url.PathEscape(c.Path[n])
			n++
		}
	}
	target := strings.Join(segments, "/")
	if len(c.Query) > 0 {
		target += "?" + c.Query.Encode()
	}
	return target
}
