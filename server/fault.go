package server

import (
	"bytes"
	"strconv"
)

// Fault is a refused request. Its texts say what happened, that nothing was changed, and what to
// do; none repeats a secret.
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
	// More adds members in the workspace API's shape; nil adds none.
	More func(*JSON)
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

// Faults that do not come from a command's outcome. Nobody changes them: see With.
var (
	FaultNotFound = &Fault{
		Status: 404, Code: "not_found", Message: "There is nothing at this path",
		Detail: "Paths are matched exactly: no redirects, no trailing slash.",
	}
	FaultMethod = &Fault{
		Status: 405, Code: "method_not_allowed", Message: "This path does not take this method",
		Detail: "The Allow header names the methods that it takes.",
	}
	FaultKey = &Fault{Status: 401, Code: "invalid_key", Message: "Invalid or missing API key"}
	// FaultScope is the same whether the thing asked for exists or not.
	FaultScope = &Fault{Status: 403, Code: "access_denied", Message: "Access denied"}
	FaultSize  = &Fault{
		Status: 413, Code: "body_too_large", Message: "The request body is too large",
		Detail: "Nothing was changed. Send less in one request.",
	}
	FaultMedia = &Fault{
		Status: 415, Code: "unsupported_media_type", Message: "Unsupported media type",
	}
	FaultJSON   = &Fault{Status: 400, Code: "malformed_json", Message: "Malformed JSON"}
	FaultFields = &Fault{Status: 400, Code: "validation_failed", Message: "Validation failed"}
	// FaultConsistency: no node could vouch that this node's memory is up to date.
	FaultConsistency = &Fault{
		Status: 503, Code: "unavailable", Message: "No quorum can be reached", RetryAfter: 1,
		Detail: "Repeat the request, or read with X-Read-Consistency: stale.",
	}
	FaultInternal = &Fault{
		Status: 500, Code: "internal_error", Message: "The request could not be carried out",
		Detail: "The failure was recorded under this answer's X-Request-Id.",
	}
	faultHeaders = &Fault{
		Status: 431, Code: "headers_too_large", Message: "The request headers are too large",
		Detail: "At most 16 KiB are read.",
	}
	faultSlow = &Fault{
		Status: 408, Code: "request_timeout", Message: "The request did not arrive in time",
		Detail: "Nothing was changed. Repeat it with the same key.",
	}
	faultMalformed = &Fault{
		Status: 400, Code: "malformed_request", Message: "Malformed HTTP/1.1 request",
	}
	// fasthttp mixes trailers with the headers: one could then say what no check has seen.
	faultTrailers = &Fault{
		Status: 400, Code: "malformed_request", Message: "Trailers are not taken",
		Detail: "Nothing was changed. Send what they say among the headers.",
	}
	faultConnections = &Fault{
		Status: 503, Code: "too_many_connections", Message: "Too many connections are open",
		Detail: "Nothing was changed. Close some, or keep them open and reuse them.", RetryAfter: 1,
	}
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
	j.Close('}')
	j.Close('}')
	return j
}

func appendRetryAfter(dst []byte, f *Fault) []byte {
	return strconv.AppendInt(dst, int64(f.RetryAfter), 10)
}
