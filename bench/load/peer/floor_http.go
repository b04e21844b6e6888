package peer

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"tollgate/bench/limits/desk"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/ascii"
	"tollgate/server/form"
)

// Bounds of the floor's requests, those of nodes.
const (
	floorRequests   = 10_000 // under way
	floorTurns      = 8      // of large bodies
	floorTurnBytes  = 8 << 10
	floorBodyBytes  = 64 << 10
	floorBatchBytes = 8 << 20
	floorBatchItems = 10_000
)

// floorAccount is whom a key speaks for.
type floorAccount struct {
	underWay         atomic.Int64
	requests, events atomic.Uint64
}

// Routes of the floor.
const (
	floorCheck = iota
	floorSimulate
	floorOne
	floorMany
	floorCreate
	floorSubscribe
	floorSyncs
	floorNone
	floorRoutes
)

// floorSeconds are the upper bounds of a histogram's buckets.
var floorSeconds = [...]time.Duration{
	250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond,
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second,
	2500 * time.Millisecond, 5 * time.Second,
}

// floorMetric is of a route.
type floorMetric struct {
	took    [len(floorSeconds) + 1]atomic.Uint64
	sum     atomic.Int64
	answers [6]atomic.Uint64 // by the first digit
}

func (m *floorMetric) observe(status int, took time.Duration) {
	at := 0
	for at < len(floorSeconds) && took > floorSeconds[at] {
		at++
	}
	m.took[at].Add(1)
	m.sum.Add(int64(took))
	m.answers[min(status/100, len(m.answers)-1)].Add(1)
}

// floorDesk answers clients.
type floorDesk struct {
	leader   *floorLeader
	answers  *Front
	accounts map[[sha256.Size]byte]*floorAccount
	metrics  [floorRoutes]floorMetric
	requests atomic.Uint64
	turns    chan struct{}
	pool     sync.Pool

	check, simulate [][]byte // the answers, cut where the count stands
}

func newFloorDesk(f *Front, l *floorLeader) *floorDesk {
	d := &floorDesk{
		leader: l, answers: f, accounts: map[[sha256.Size]byte]*floorAccount{},
		turns: make(chan struct{}, floorTurns),
		check: aroundCounts(f.Answers.Check.Body), simulate: aroundCounts(f.Answers.Simulate.Body),
	}
	d.pool.New = func() any { return new(floorRequest) }
	d.accounts[[sha256.Size]byte(f.KeyHash)] = new(floorAccount)
	return d
}

// floorRequest is the memory of a request.
type floorRequest struct {
	ctx     *fasthttp.RequestCtx
	account *floorAccount
	body    []byte
	records []byte
	usage   billing.RecordUsage
	audit   billing.AuditCheck
}

// names of headers that protect an answer, as nodes set them.
var floorHeaders = [...][2][]byte{
	{[]byte("X-Content-Type-Options"), []byte("nosniff")},
	{[]byte("X-Frame-Options"), []byte("DENY")},
	{[]byte("Content-Security-Policy"), []byte("default-src 'none'; base-uri 'none'; " +
		"form-action 'none'; frame-ancestors 'none'")},
	{[]byte("Cache-Control"), []byte("no-store")},
}

var (
	requestIDHeader = []byte("X-Request-Id")
	jsonType        = []byte("application/json")
)

func (d *floorDesk) handle(ctx *fasthttp.RequestCtx) {
	r := d.pool.Get().(*floorRequest)
	r.ctx, r.account = ctx, nil
	route := floorRoute(ctx)
	status := d.serve(r, route)
	h := &ctx.Response.Header
	h.SetStatusCode(status)
	d.name(ctx)
	for i := range floorHeaders {
		h.SetCanonical(floorHeaders[i][0], floorHeaders[i][1])
	}
	h.SetContentTypeBytes(jsonType)
	d.metrics[route].observe(status, time.Since(ctx.Time()))
	if r.account != nil {
		r.account.underWay.Add(-1)
	}
	r.ctx = nil
	d.pool.Put(r)
}

// name gives the answer the client's name for the request, or a number.
func (d *floorDesk) name(ctx *fasthttp.RequestCtx) {
	given := ctx.Request.Header.PeekBytes(requestIDHeader)
	if ascii.Visible(given, floorText) && bytes.IndexByte(given, '_') < 0 {
		ctx.Response.Header.SetCanonical(requestIDHeader, given)
		return
	}
	var id [28]byte
	copy(id[:], "req_01234567")
	number := d.requests.Add(1)
	for i := range 16 {
		id[27-i] = "0123456789abcdef"[number>>(4*i)&15]
	}
	ctx.Response.Header.SetCanonical(requestIDHeader, id[:])
}

// floorRoute finds the route by method and path.
func floorRoute(ctx *fasthttp.RequestCtx) int {
	path, get := ctx.Request.Header.RequestURI(), ctx.IsGet()
	switch {
	case get && bytes.HasPrefix(path, checkPath):
		return floorCheck
	case get && bytes.Equal(path, syncsPath):
		return floorSyncs
	case !ctx.IsPost():
		return floorNone
	case bytes.Equal(path, eventPath):
		return floorOne
	case bytes.Equal(path, batchPath):
		return floorMany
	case bytes.Equal(path, simulatePath):
		return floorSimulate
	case bytes.Equal(path, createPath):
		return floorCreate
	case bytes.Equal(path, subscribe):
		return floorSubscribe
	}
	return floorNone
}

// serve carries a request out, and returns the answer's status.
func (d *floorDesk) serve(r *floorRequest, route int) int {
	switch route {
	case floorNone:
		return fasthttp.StatusNotFound
	case floorSyncs:
		r.ctx.Response.AppendBodyString(fmt.Sprintf(`{"leader":%d}`, d.leader.log.syncs.Load()))
		return fasthttp.StatusOK
	}
	_, hash, ok := server.HashedKey(r.ctx)
	account := d.accounts[hash]
	if !ok || account == nil {
		return fasthttp.StatusUnauthorized
	}
	account.requests.Add(1)
	r.account = account
	if account.underWay.Add(1) > floorRequests {
		return fasthttp.StatusServiceUnavailable
	}
	if route == floorCheck {
		path := r.ctx.Request.Header.RequestURI()[len(checkPath):]
		name, feature, _ := bytes.Cut(path, []byte("/"))
		if bytes.IndexByte(feature, '/') >= 0 || bytes.ContainsAny(path, "%?#") {
			return fasthttp.StatusNotFound
		}
		return d.decide(r, name, feature, d.check)
	}
	most := floorBodyBytes
	if route == floorMany {
		most = floorBatchBytes
	}
	if status := r.read(most); status != 0 {
		return status
	}
	switch route {
	case floorOne:
		return d.record(r)
	case floorMany:
		return d.batch(r)
	case floorSimulate:
		name, _ := field(r.body, []byte(`"customerReferenceId":"`))
		feature, _ := field(r.body, []byte(`"featureKey":"`))
		return d.decide(r, name, feature, d.simulate)
	case floorCreate:
		name, _ := field(r.body, []byte(`"externalClientCustomerId":"`))
		if len(name) == 0 || len(name) > desk.MaxName {
			return fasthttp.StatusBadRequest
		}
		d.leader.propose(endRecord(append(beginRecord(nil, floorCustomer), name...), 0), 0)
	}
	return fasthttp.StatusCreated
}

// read reads the body; 0 is none of the statuses of a refusal.
func (r *floorRequest) read(most int) (status int) {
	h := &r.ctx.Request.Header
	length, stream := h.ContentLength(), r.ctx.RequestBodyStream()
	switch {
	case length < 0 || stream == nil:
		return fasthttp.StatusLengthRequired
	case length > most:
		return fasthttp.StatusRequestEntityTooLarge
	case !bytes.Equal(h.ContentType(), jsonType):
		return fasthttp.StatusUnsupportedMediaType
	}
	if cap(r.body) < length {
		r.body = make([]byte, length)
	}
	r.body = r.body[:length]
	if _, err := io.ReadFull(stream, r.body); err != nil {
		return fasthttp.StatusBadRequest
	}
	return 0
}

// decide answers a check under the lease, and notes it for the audit. parts is the answer around
// the counts.
func (d *floorDesk) decide(r *floorRequest, name, feature []byte, parts [][]byte) int {
	for _, text := range [...][]byte{name, feature} {
		if _, ok := form.CheckText(text, 1, floorText); !ok {
			return fasthttp.StatusBadRequest
		}
	}
	// Who leads when a request has come may answer it: no other leader has acknowledged anything
	// before.
	now := r.ctx.Time()
	if !d.leader.leads(now.Sub(d.leader.began)) {
		return fasthttp.StatusServiceUnavailable
	}
	decision := d.leader.desk.Check(name, feature, now.UnixMilli())
	r.audit = billing.AuditCheck{
		Env: 1, CustomerRow: decision.Row, FeatureNumber: decision.Feature,
		Reason: billing.ReasonAllowed, At: now.UnixMilli(),
	}
	if !decision.Allowed {
		r.audit.Reason, r.audit.CustomerText, r.audit.FeatureText = billing.ReasonLimitReached, name,
			feature
	}
	d.leader.audit(&r.audit)
	if decision.Row == 0 {
		return fasthttp.StatusInternalServerError // the harness made all that it asks of
	}
	var room [48]byte
	used := decision.Used.AppendTo(room[:0])
	for i, part := range parts {
		if i > 0 {
			r.ctx.Response.AppendBody(used)
		}
		r.ctx.Response.AppendBody(part)
	}
	return fasthttp.StatusOK
}

func (d *floorDesk) record(r *floorRequest) int {
	rest, ok := readUsage(r.body, &r.usage)
	if !ok || len(unblank(rest)) > 0 {
		return fasthttp.StatusBadRequest
	}
	r.records = endRecord(r.usage.Seal(beginRecord(r.records[:0], floorEvent)), 0)
	outcomes, ok := d.leader.propose(r.records, 1)
	if !ok {
		return fasthttp.StatusServiceUnavailable
	}
	a := &d.answers.Answers.Event
	switch outcomes[0] {
	case desk.Counted, desk.LimitReached:
		r.account.events.Add(1)
	case desk.Repeated:
		a = &d.answers.Answers.Duplicate
	default:
		return fasthttp.StatusUnprocessableEntity
	}
	r.ctx.Response.SetBody(a.Body)
	return a.Status
}

func (d *floorDesk) batch(r *floorRequest) int {
	if len(r.body) > floorTurnBytes {
		d.turns <- struct{}{}
		defer func() { <-d.turns }()
	}
	body, ok := unblank(r.body), true
	r.records = r.records[:0]
	events := 0
	for len(body) > 0 && body[0] == "[,"[min(events, 1)] && events < floorBatchItems {
		at := len(r.records)
		if body, ok = readUsage(body[1:], &r.usage); !ok {
			return fasthttp.StatusBadRequest
		}
		r.records = endRecord(r.usage.Seal(beginRecord(r.records, floorEvent)), at)
		body = unblank(body)
		events++
	}
	if len(body) != 1 || body[0] != ']' || events == 0 {
		return fasthttp.StatusBadRequest
	}
	outcomes, ok := d.leader.propose(r.records, events)
	if !ok {
		return fasthttp.StatusServiceUnavailable
	}
	fresh := make([]bool, events)
	for i, outcome := range outcomes {
		if fresh[i] = outcome == desk.Counted || outcome == desk.LimitReached; !fresh[i] &&
			outcome != desk.Repeated {
			return fasthttp.StatusUnprocessableEntity
		}
	}
	r.account.events.Add(uint64(events))
	r.ctx.Response.SetBodyRaw(batchAnswer(fresh))
	return fasthttp.StatusOK
}
