package server

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"tollgate/engine/fair"
	"tollgate/server/ascii"
)

// Exchange is one request and its answer. It is pooled: a handler must not keep it, nor anything
// that it handed out.
type Exchange struct {
	Ctx *fasthttp.RequestCtx
	// Route is the row that matched; nil when none did.
	Route *Route
	// Caller is whom the request's key speaks for; nil where TableConfig.NewCaller is.
	Caller Caller
	// Actor is who is recorded for what an operator changes; empty is the admin key.
	Actor string
	// Body is the whole body, within the route's limit.
	Body []byte
	// Out is the answer being written.
	Out JSON

	table *Table
	own   Caller // Caller of requests
	shape Shape
	media string
	// coding is how the body is compressed; other is the buffer of its other form, and of the
	// answer's.
	coding coding
	other  []byte
	protection
	consumed bool
	misspelt bool // a path parameter does not decode
	status   int
	admission
	raw       [maxParams][]byte
	params    [maxParams][]byte
	decoded   []byte
	requestID [maxRequestID]byte
	idLength  int
	// calls reports whether it is a Call's; fault is how it was refused then.
	calls bool
	fault *Fault
	// showing reports whether TableConfig.Show is at it.
	showing bool
}

// Caller is whom a request's key speaks for, as an API knows it.
type Caller interface {
	// Reset forgets who it was.
	Reset()
	// Flow is whose requests these are; 0 is none.
	Flow() fair.Flow
}

// admission is what an exchange takes up while it is carried out.
type admission struct {
	// began is when the request came, where fasthttp does not say so.
	began   time.Time
	awaited bool   // its client was told to send the body
	trace   *Trace // nil: it is not traced
	// held is what it holds of the gate's bytes, items of its items; entered reports whether it
	// holds a place.
	held, items int64
	entered     bool
	// flow is whose they are; turns is how many it has.
	flow  fair.Flow
	turns int
}

// Called reports whether another part of this process asks: see Call.
func (x *Exchange) Called() bool { return x.calls }

// MaxActor bounds a name in the record of changes, in bytes.
const MaxActor = 512

// AdminKey is the name in the record of changes of a caller with the admin key.
const AdminKey = "admin-key"

// By is who is recorded for what the request changes: the operator in whose name another part of
// this process calls, or the holder of the admin key. It is empty for a program's own key, whose
// requests are not administration. A name that is too long for a record is cut.
func (x *Exchange) By() string {
	switch {
	case x.Actor != "":
		return strings.ToValidUTF8(x.Actor[:min(len(x.Actor), MaxActor)], "")
	case x.Route != nil && x.Route.Access == AccessOperator:
		return AdminKey
	}
	return ""
}

// What an exchange keeps of its buffers between requests.
const (
	keepBody = 64 << 10
	keepOut  = 64 << 10
)

// largeBodies are the buffers of bodies beyond keepBody: few requests at a time need one.
var largeBodies = sync.Pool{New: func() any { return new([]byte) }}

// emptied is an empty buffer with room for n bytes: the one that there is, or another.
func emptied(have []byte, n int) []byte {
	switch {
	case cap(have) >= n:
		return have[:0]
	case n <= keepBody:
		return make([]byte, 0, n)
	}
	if large := *largeBodies.Get().(*[]byte); cap(large) >= n {
		return large[:0]
	}
	return make([]byte, 0, n)
}

// letGo keeps a small buffer for the exchange's next request, and lends a large one to others.
func letGo(b []byte) []byte {
	if cap(b) <= keepBody {
		return b
	}
	large := b[:0] // b itself would be on the heap for every small one, too
	largeBodies.Put(&large)
	return nil
}

func (x *Exchange) begin(ctx *fasthttp.RequestCtx) {
	if x.Ctx, x.Route, x.Caller = ctx, nil, x.own; x.own != nil {
		x.own.Reset()
	}
	x.Body, x.Out, x.decoded = x.Body[:0], x.Out[:0], x.decoded[:0]
	x.params, x.coding = [maxParams][]byte{}, codingNone
	x.media, x.consumed, x.misspelt, x.awaited, x.status = "", false, false, false, 0
	x.began, x.trace = time.Time{}, nil
	x.Actor = ""
	x.protection = protection{policy: defaultPolicy, caching: noStore}
	x.calls, x.fault, x.showing = false, nil, false
	x.name(ctx.Request.Header.PeekBytes(requestIDHeader))
}

// answered refuses a request that nothing has answered.
func (x *Exchange) answered() {
	if x.status == 0 {
		x.Refuse(FaultInternal)
	}
}

// end hands the answer to fasthttp, which copies it.
func (x *Exchange) end() {
	h := &x.Ctx.Response.Header
	h.SetCanonical(requestIDHeader, x.RequestID())
	x.Ctx.Response.SetStatusCode(x.status)
	if len(x.Out) > 0 {
		h.SetContentType("application/json")
		x.Ctx.Response.SetBody(x.Out)
	}
	if !x.calls {
		x.compress()
		x.protect(x.Ctx)
	}
	x.Body, x.other = letGo(x.Body), letGo(x.other)
	if cap(x.Out) > keepOut {
		x.Out = nil
	}
	x.Ctx = nil
}

// RequestID names the exchange in the answer's X-Request-Id and in logs: the client's name for it,
// where that is one, else one of ours.
func (x *Exchange) RequestID() []byte { return x.requestID[:x.idLength] }

// Media is the media type of the body, one of the route's; empty when there is no body.
func (x *Exchange) Media() string { return x.media }

// Param is the i-th parameter of the path, percent-decoded once; nil where the path has fewer.
func (x *Exchange) Param(i int) []byte { return x.params[i] }

func (x *Exchange) decodeParams(count int) bool {
	for i := range count {
		from := len(x.decoded)
		var ok bool
		if x.decoded, ok = AppendUnescaped(x.decoded, x.raw[i]); !ok {
			return false
		}
		x.params[i] = x.decoded[from:len(x.decoded):len(x.decoded)]
	}
	return true
}

// Begin starts a success with data, and returns where to write the data's value.
func (x *Exchange) Begin() *JSON {
	x.Out = append(x.Out[:0], `{"success":true,"data":`...)
	return &x.Out
}

// End finishes what Begin started. As whatever answers it returns no fault: handlers end with it.
func (x *Exchange) End(status int) *Fault {
	x.Out = append(x.Out, '}')
	return x.Status(status)
}

// Succeed answers a success without data.
func (x *Exchange) Succeed(status int) *Fault {
	x.Out = append(x.Out[:0], `{"success":true}`...)
	return x.Status(status)
}

// Bare answers a body without an envelope, of a media type of its own.
func (x *Exchange) Bare(status int, media string, body []byte) *Fault {
	x.Out = x.Out[:0]
	x.Ctx.Response.Header.SetContentType(media)
	x.Ctx.Response.SetBody(body)
	return x.Status(status)
}

// Answer is what a handler has answered; its status is 0 where that is nothing.
func (x *Exchange) Answer() (status int, body []byte) { return x.status, x.Out }

// Status notes that the handler wrote the response itself.
func (x *Exchange) Status(status int) *Fault {
	x.status = status
	return nil
}

// Refuse answers a fault, in the shape of the path's API.
func (x *Exchange) Refuse(fault *Fault) {
	x.Ctx.Response.ResetBody()
	f := *fault
	if code := x.table.config.Codes[f.Code]; code != "" {
		f.Code = code
	}
	if status := x.table.config.Statuses[f.Code]; status != 0 {
		f.Status = status
	}
	if x.Ctx.IsGet() || x.Ctx.IsHead() {
		f.ofRead()
	}
	x.status = f.Status
	if x.calls {
		kept := f
		x.fault = &kept
	}
	if f.RetryAfter > 0 {
		x.Ctx.Response.Header.SetBytesV("Retry-After", appendRetryAfter(nil, &f))
	}
	if show := x.table.config.Show; show != nil && !x.showing {
		x.showing = true // a page that cannot be shown is refused like any other
		shown := show(x, &f)
		x.showing = false
		if shown {
			return
		}
	}
	x.Out = AppendFault(x.Out[:0], x.shape, &f, x.RequestID())
	if f.Status == fasthttp.StatusUnauthorized {
		challenge := x.table.config.Challenge
		challenge = cmp.Or(challenge, "Bearer")
		x.Ctx.Response.Header.Set("WWW-Authenticate", challenge)
	}
}

// BeginBare starts an answer without an envelope and returns where to write it.
func (x *Exchange) BeginBare() *JSON {
	x.Out = x.Out[:0]
	return &x.Out
}

// EndBare finishes what BeginBare started.
func (x *Exchange) EndBare(status int) *Fault { return x.Status(status) }

// maxRequestID is the length of a request's name in bytes.
const maxRequestID = 128

// name takes the name that the client, or a proxy before us, gave the request, or makes one.
func (x *Exchange) name(given []byte) {
	if isRequestID(given) {
		x.idLength = copy(x.requestID[:], given)
		return
	}
	x.idLength = len(appendRequestID(x.requestID[:0]))
}

// isRequestID reports whether a client's name for a request may stand in answers and logs: 1 to 128
// visible ASCII characters. A secret that strays into the header is not repeated.
func isRequestID(id []byte) bool {
	return ascii.Visible(id, maxRequestID) && (bytes.IndexByte(id, '_') < 0 || !holdsSecret(id))
}

// holdsSecret reports whether a text contains what begins one of our secrets, or a webhook's.
func holdsSecret(text []byte) bool {
	for _, prefix := range [...]string{
		KeyPrefixLive, KeyPrefixSandbox, KeyPrefixAdmin, KeyPrefixCustomerLive,
		KeyPrefixCustomerSandbox, KeyPrefixWorkspace, KeyPrefixClaim, KeyPrefixSession, "whsec_",
	} {
		if bytes.Contains(text, []byte(prefix)) {
			return true
		}
	}
	return false
}

// requestIDHeader is in the form that SetCanonical takes as it is.
var requestIDHeader = []byte("X-Request-Id")

var (
	processID = mintProcessID()
	requests  atomic.Uint64
)

func mintProcessID() (id [4]byte) {
	rand.Read(id[:]) // never fails
	return id
}

// appendRequestID appends a request's name: req_, the process's random number, a counter.
func appendRequestID(dst []byte) []byte {
	var id [12]byte
	copy(id[:], processID[:])
	binary.BigEndian.PutUint64(id[4:], requests.Add(1))
	dst = append(dst, "req_"...)
	for _, b := range id {
		dst = append(dst, hexDigits[b>>4], hexDigits[b&15])
	}
	return dst
}
