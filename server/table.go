package server

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/time/rate"
)

// Table routes requests by one route table and keeps the order of checks: path, method, key, scope,
// size, media type, then the handler.
type Table struct {
	root   node
	routes []*Route
	// internal are the rows of TableConfig.Internal.
	internal []*Route
	pool     sync.Pool
	config   TableConfig
	// failures lets one failed request a second into the log.
	failures rate.Sometimes
}

// TableConfig is what a table needs in addition to its routes.
type TableConfig struct {
	// Authenticate proves who is asking, which it notes in x.Caller, and that the route is allowed
	// to them; nil when so. It is not called for AccessOpen.
	Authenticate func(x *Exchange) *Fault
	// NewCaller makes the Caller of an exchange, which is pooled with it; nil where an API tells no
	// callers apart.
	NewCaller func() Caller
	// Unannounced may refuse a body of so many more bytes than its headers announced: of chunks, or
	// compressed. May be nil.
	Unannounced func(x *Exchange, bytes int) *Fault
	// Observe is told of every answer. route is nil where none matched.
	Observe func(route *Route, status int, took time.Duration)
	// Tracer chooses requests and is told where their time went. May be nil.
	Tracer Tracer
	// Preflight answers a browser's OPTIONS request on a path that exists; false leaves it to 405.
	// May be nil.
	Preflight func(x *Exchange) bool
	// Codes gives faults of the table another code, for an API whose document names them otherwise.
	Codes map[string]string
	// Statuses gives them another status, by the code that they have by then.
	Statuses map[string]int
	// Show answers a refusal in its own way, as a page; false leaves it to the path's shape. It
	// must not panic, nor refuse. May be nil.
	Show func(x *Exchange, f *Fault) bool
	// Challenge is the WWW-Authenticate of a 401; "Bearer" when empty.
	Challenge string
	// Head answers HEAD where there is a GET, with the same headers.
	Head bool
	// KnownQuery refuses query parameters that a route of an API with an envelope does not state,
	// and empty ones.
	KnownQuery bool
	// Gate bounds what requests hold together; nil means no bound. Tables of one listener share it.
	Gate *Gate
	// Internal are rows that Call alone carries out: no request reaches them, and no document has
	// them.
	Internal []Route
	// AnyMedia takes every body for what the route expects, whatever its media type says.
	AnyMedia bool
	Log      *slog.Logger
}

// NewTable makes a table; a route that appears more than once or has no handler is an error.
func NewTable(routes []Route, config TableConfig) (*Table, error) {
	config.Log = cmp.Or(config.Log, slog.Default())
	t := &Table{config: config, failures: rate.Sometimes{Interval: time.Second}}
	t.pool.New = func() any {
		x := &Exchange{table: t}
		if config.NewCaller != nil {
			x.own = config.NewCaller()
		}
		return x
	}
	var err error
	if t.routes, err = t.root.insertAll(routes, config.Head); err != nil {
		return nil, err
	}
	var unreachable node
	t.internal, err = unreachable.insertAll(config.Internal, false)
	return t, err
}

// insertAll completes rows and inserts them.
func (n *node) insertAll(routes []Route, head bool) (inserted []*Route, err error) {
	for i := range routes {
		r := &routes[i]
		r.number = i
		if r.Handle == nil || r.Operation == "" {
			return nil, fmt.Errorf("server: %s %s lacks a handler or an operation", r.Method, r.Path)
		}
		r.Limit = cmp.Or(r.Limit, DefaultBodyLimit)
		if len(r.Media) == 0 {
			r.Media = []string{"application/json"}
		}
		for _, p := range r.Params {
			if p.In == "query" {
				r.query = append(r.query, p.Name)
			}
		}
		if err := n.insert(r, head); err != nil {
			return nil, err
		}
		inserted = append(inserted, r)
	}
	return inserted, nil
}

// Routes are the table's rows, in order.
func (t *Table) Routes() []*Route { return t.routes }

// expectation is what Serve leaves in a request's user values while its client waits to be told to
// send the body: the exchange that has passed every check that comes before the body.
type expectation struct{ admitted *Exchange }

// expectationKey is the user value's key.
type expectationKey struct{}

// Serve answers one request. Where its client expects 100-continue it is called twice: before the
// body, when it answers what is refused without it, and with the body.
func (t *Table) Serve(ctx *fasthttp.RequestCtx) {
	waiting, expects := ctx.UserValue(expectationKey{}).(*expectation)
	if expects && waiting.admitted != nil {
		x := waiting.admitted
		x.awaited, x.began = false, time.Time{}
		defer t.finish(x)
		t.carryOut(x)
		return
	}
	x := t.pool.Get().(*Exchange)
	x.begin(ctx)
	if expects {
		x.began = time.Now() // fasthttp has not timed the request yet
	}
	t.trace(x)
	defer t.finish(x)
	admitted := t.admitted(x)
	switch {
	case admitted && expects:
		x.awaited, waiting.admitted = true, x
	case admitted:
		t.carryOut(x)
	case expects:
		closeAfterAnswer(ctx)
	}
}

// Knows reports whether some route of the table has this request's path, whatever its method.
func (t *Table) Knows(ctx *fasthttp.RequestCtx) bool {
	var params [maxParams][]byte
	path := targetPath(ctx.Request.Header.RequestURI())
	if len(path) == 0 || path[0] != '/' {
		return false
	}
	found, _ := t.root.match(path, &params, 0)
	return found != nil
}

// finish sends what the exchange holds, also after a panic, and returns its memory. It leaves an
// exchange alone whose body is still to come.
func (t *Table) finish(x *Exchange) {
	if x.awaited {
		return
	}
	if cause := recover(); cause != nil {
		t.config.Log.Error("a request handler panicked", "request_id", string(x.RequestID()),
			"cause", cause, "stack", string(debug.Stack()))
		x.status = 0
	}
	x.answered()
	if !x.consumed && !x.drain() {
		closeAfterAnswer(x.Ctx)
	}
	began := x.began
	if began.IsZero() {
		began = x.Ctx.Time()
	}
	took := time.Since(began)
	if t.config.Observe != nil {
		t.config.Observe(x.Route, x.status, took)
	}
	t.log(x, took)
	t.traced(x, began, took)
	x.release()
	x.end()
	t.pool.Put(x)
}

// log notes an exchange: those that failed here (5xx) once a second at most, every one at level
// debug. Names of customers and the like are not in it: the request's own name finds them.
func (t *Table) log(x *Exchange, took time.Duration) {
	failed := false
	if x.status >= fasthttp.StatusInternalServerError {
		t.failures.Do(func() { failed = true })
	}
	level := slog.LevelDebug
	if failed {
		level = slog.LevelWarn
	}
	if !t.config.Log.Enabled(x.Ctx, level) {
		return
	}
	operation := "none"
	if x.Route != nil {
		operation = x.Route.Operation
	}
	t.config.Log.Log(x.Ctx, level, "request", "request_id", string(x.RequestID()),
		"operation", operation, "status", x.status, "took", took)
}

// admitted makes the checks that need no body: path, method, key, scope, announced size, coding. It
// answers what does not pass them.
func (t *Table) admitted(x *Exchange) bool {
	path := targetPath(x.Ctx.Request.Header.RequestURI())
	x.shape = ShapeOf(path)
	if len(path) == 0 || path[0] != '/' {
		x.Refuse(FaultNotFound)
		return false
	}
	found, count := t.root.match(path, &x.raw, 0)
	if found == nil {
		x.Refuse(FaultNotFound)
		return false
	}
	method := x.Ctx.Request.Header.Method()
	x.Route = found.route(method)
	if x.Route == nil && t.config.Head {
		x.Route = found.routeOfHead(method)
	}
	if x.Route == nil {
		if t.config.Preflight != nil && x.Ctx.IsOptions() && t.config.Preflight(x) {
			return false
		}
		x.Ctx.Response.Header.Set("Allow", found.allow)
		x.Refuse(FaultMethod)
		return false
	}
	x.misspelt = !x.decodeParams(count)
	if x.Route.Access != AccessOpen {
		if fault := t.config.Authenticate(x); fault != nil {
			x.Refuse(fault)
			return false
		}
	}
	fault := x.readCoding()
	if x.Ctx.Request.Header.ContentLength() > x.bodyLimit() {
		fault = sizeFault(x.Route.Limit)
	}
	if fault != nil {
		x.Refuse(fault)
		return false
	}
	return true
}

// carryOut reads the body of a request that was admitted, checks its form and calls its handler.
func (t *Table) carryOut(x *Exchange) {
	fault := x.readBody()
	if fault == nil {
		fault = x.decodeBody()
	}
	if fault == nil {
		fault = x.checkMedia()
	}
	if fault == nil && x.misspelt {
		fault = FieldFault("path", FieldFormat, "has a parameter that is not percent-encoded correctly")
	}
	if fault == nil {
		fault = x.checkQuery()
	}
	if limited := x.unannounced(); fault == nil { // the bytes of a refused body count, too
		fault = limited
	}
	if fault != nil {
		x.Refuse(fault)
		return
	}
	if fault = x.enter(); fault != nil {
		x.Refuse(fault)
		return
	}
	x.Route.Handle(x)
}

// readBody reads the whole body, as it was sent, within its limit.
func (x *Exchange) readBody() *Fault {
	stream := x.Ctx.RequestBodyStream()
	length := x.Ctx.Request.Header.ContentLength()
	if stream == nil || length == 0 {
		x.consumed = true
		return nil
	}
	limit := x.bodyLimit()
	room := length
	if length < 0 {
		room = 4096
	}
	if fault := x.hold(room); fault != nil {
		return fault
	}
	x.Body = emptied(x.Body, room)
	if length > 0 {
		n, err := io.ReadFull(stream, x.Body[:length])
		x.Body = x.Body[:n]
		return x.bodyRead(err)
	}
	headers := x.Ctx.Request.Header.Len()
	for {
		if len(x.Body) == cap(x.Body) {
			if fault := x.hold(2 * cap(x.Body)); fault != nil {
				return fault
			}
			x.Body = append(x.Body, 0)[:len(x.Body)]
		}
		n, err := stream.Read(x.Body[len(x.Body):cap(x.Body)])
		x.Body = x.Body[:len(x.Body)+n]
		switch {
		case len(x.Body) > limit:
			return sizeFault(x.Route.Limit)
		case errors.Is(err, io.EOF) && x.Ctx.Request.Header.Len() != headers:
			x.consumed = true
			return faultTrailers
		case errors.Is(err, io.EOF):
			return x.bodyRead(nil)
		case err != nil:
			return x.bodyRead(err)
		}
	}
}

func (x *Exchange) bodyRead(err error) *Fault {
	if err == nil {
		x.consumed = true
		return nil
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return faultSlow
	}
	return faultMalformed.With("The body ended before the length that the headers announce.")
}

// unannounced asks about the bytes of the body that Authenticate could not know of.
func (x *Exchange) unannounced() *Fault {
	more := len(x.Body) - max(0, x.Ctx.Request.Header.ContentLength())
	if more <= 0 || x.table.config.Unannounced == nil {
		return nil
	}
	return x.table.config.Unannounced(x, more)
}

func sizeFault(limit int) *Fault {
	return FaultSize.With(
		"Nothing was changed. At most " + strconv.Itoa(limit) + " bytes are taken here.")
}

// checkMedia refuses a body of another media type than the route takes. Parameters are ignored but
// for a charset, which must be UTF-8.
func (x *Exchange) checkMedia() *Fault {
	if len(x.Body) == 0 || x.table.config.AnyMedia {
		return nil
	}
	header := x.Ctx.Request.Header.ContentType()
	name, params, _ := bytes.Cut(header, []byte{';'})
	name = bytes.TrimSpace(name)
	for _, media := range x.Route.Media {
		if len(name) == len(media) && bytes.EqualFold(name, []byte(media)) {
			if charset := bytes.ToLower(params); bytes.Contains(charset, []byte("charset=")) &&
				!bytes.Contains(charset, []byte("utf-8")) {
				break
			}
			x.media = media
			return nil
		}
	}
	return FaultMedia.With("Send Content-Type: " + x.Route.Media[0] + ", in UTF-8.")
}

// drainLimit is what is still read of a refused request's body to keep the connection.
const drainLimit = 64 << 10

// drain reads what is left of a small body whose request was refused before it was read.
func (x *Exchange) drain() bool {
	stream := x.Ctx.RequestBodyStream()
	length := x.Ctx.Request.Header.ContentLength()
	if stream == nil || length == 0 {
		return true
	}
	if length < 0 || length > drainLimit {
		return false
	}
	if cap(x.Body) < 4096 {
		x.Body = make([]byte, 0, 4096)
	}
	for {
		_, err := stream.Read(x.Body[:cap(x.Body)])
		if errors.Is(err, io.EOF) {
			return true
		}
		if err != nil {
			return false
		}
	}
}
