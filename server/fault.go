package server

import (
	"bytes"
	"strconv"
	"strings"
)

// Fault is a refused request. Its texts say what happened, that nothing was changed (of a read they
// do not), and what to do; none repeats a secret.
type Fault struct {
	Status int
	// Code is the machine-readable name, additive in the client API and the "error" of the
	// workspace API's shape.
	Code    string
	Message string
	Detail  string
	// RetryAfter is in seconds; 0 sends no header.
	RetryAfter int
	// Fields are the fields that a validation error is about.
	Fields []FieldError
	// More adds members to the error; nil adds none.
	More func(*JSON)
}

// NewFault makes a fault without a detail.
func NewFault(status int, code, message string) *Fault {
	return &Fault{Status: status, Code: code, Message: message}
}

// With returns the fault with a detail.
func (f *Fault) With(detail string) *Fault {
	with := *f
	with.Detail = detail
	return &with
}

// Saying returns the fault with another message.
func (f *Fault) Saying(message string) *Fault {
	saying := *f
	saying.Message = message
	return &saying
}

// Adding returns the fault with members that more writes.
func (f *Fault) Adding(more func(*JSON)) *Fault {
	adding := *f
	adding.More = more
	return &adding
}

// Retry returns the fault with when to come again, in seconds.
func (f *Fault) Retry(after int) *Fault {
	retry := *f
	retry.RetryAfter = after
	return &retry
}

// ofRead makes it the fault of a request that could change nothing: it does not say so.
func (f *Fault) ofRead() {
	const unchanged = "Nothing was changed."
	for _, text := range []*string{&f.Message, &f.Detail} {
		if strings.Contains(*text, unchanged) {
			*text = strings.TrimSpace(strings.ReplaceAll(
				strings.ReplaceAll(*text, unchanged+" ", ""), unchanged, ""))
		}
	}
}

// Faults that do not come from a command's outcome. No code changes them: see With.
var (
	FaultNotFound = NewFault(404, "not_found", "There is nothing at this path").With(
		"Paths are matched exactly: no redirects, no trailing slash.")
	FaultMethod = NewFault(405, "method_not_allowed", "This path does not take this method").With(
		"The Allow header names the methods that it takes.")
	FaultKey = NewFault(401, "invalid_key", "Invalid or missing API key")
	// FaultScope is the same whether the thing asked for exists or not.
	FaultScope = NewFault(403, "access_denied", "Access denied")
	FaultSize  = NewFault(413, "body_too_large", "The request body is too large").With(
		"Nothing was changed. Send less in one request.")
	FaultMedia  = NewFault(415, "unsupported_media_type", "Unsupported media type")
	FaultJSON   = NewFault(400, "malformed_json", "Malformed JSON")
	FaultFields = NewFault(400, "validation_failed", "Validation failed")
	// FaultConsistency: no node could vouch that this node's memory is up to date.
	FaultConsistency = NewFault(503, "unavailable", "No quorum can be reached").With(
		"Repeat the request, or read with X-Read-Consistency: stale.").Retry(1)
	FaultInternal = NewFault(500, "internal_error", "The request could not be carried out").With(
		"The failure was recorded under this answer's X-Request-Id.")
	faultHeaders = NewFault(431, "headers_too_large", "The request headers are too large").With(
		"At most 16 KiB are read.")
	faultSlow = NewFault(408, "request_timeout", "The request did not arrive in time").With(
		"Nothing was changed. Repeat it with the same key.")
	faultMalformed = NewFault(400, "malformed_request", "Malformed HTTP/1.1 request")
	// fasthttp mixes trailers with the headers: one could then say what no check has seen.
	faultTrailers = NewFault(400, "malformed_request", "Trailers are not taken").With(
		"Nothing was changed. Send what they say among the headers.")
	faultConnections = NewFault(503, "too_many_connections", "Too many connections are open").With(
		"Nothing was changed. Close some, or keep them open and reuse them.").Retry(1)
)

// Shape is the form that an API gives to its errors.
type Shape uint8

const (
	// ShapeWorkspace is {"error": code, "message", "request_id"}: everything outside the APIs below.
	ShapeWorkspace Shape = iota
	// ShapeEnvelope is {"success": false, "error": {"message", "detail"?, "code", "requestId",
	// "fields"?}}.
	ShapeEnvelope
)

var envelopePrefixes = [][]byte{[]byte("/api/v1/client"), []byte("/api/v1/admin")}

// ShapeOf is the shape of errors at a path.
func ShapeOf(path []byte) Shape {
	for _, prefix := range envelopePrefixes {
		if bytes.HasPrefix(path, prefix) && (len(path) == len(prefix) || path[len(prefix)] == '/') {
			return ShapeEnvelope
		}
	}
	return ShapeWorkspace
}

// AppendFault appends a fault's body.
func AppendFault(dst []byte, shape Shape, f *Fault, requestID []byte) []byte {
	j := JSON(dst)
	j.Open('{')
	if shape == ShapeWorkspace {
		j.Text("error", f.Code)
		j.Text("message", f.Message)
		j.Bytes("request_id", requestID)
		if f.More != nil {
			f.More(&j)
		}
		j.Close('}')
		return j
	}
	j.Bool("success", false)
	j.Object("error")
	j.Text("message", f.Message)
	j.TextIf("detail", f.Detail)
	j.Text("code", f.Code)
	j.Bytes("requestId", requestID)
	appendFields(&j, f.Fields)
	if f.More != nil {
		f.More(&j)
	}
	j.Close('}')
	j.Close('}')
	return j
}

func appendRetryAfter(dst []byte, f *Fault) []byte {
	return strconv.AppendInt(dst, int64(f.RetryAfter), 10)
}
