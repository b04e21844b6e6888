package tracing

import (
	"strconv"
	"time"
)

// The messages of OTLP in JSON (opentelemetry-proto 1, trace/v1/trace.proto): ids are hex, 64-bit
// numbers are texts.

type message struct {
	ResourceSpans []resourceSpans `json:"resourceSpans"`
}

type resourceSpans struct {
	Resource   resource     `json:"resource"`
	ScopeSpans []scopeSpans `json:"scopeSpans"`
}

type resource struct {
	Attributes []attribute `json:"attributes"`
}

type scopeSpans struct {
	Scope scope  `json:"scope"`
	Spans []span `json:"spans"`
}

type scope struct {
	Name string `json:"name"`
}

type span struct {
	TraceID      string      `json:"traceId"`
	SpanID       string      `json:"spanId"`
	ParentSpanID string      `json:"parentSpanId,omitempty"`
	Name         string      `json:"name"`
	Kind         int         `json:"kind"`
	Start        string      `json:"startTimeUnixNano"`
	End          string      `json:"endTimeUnixNano"`
	Attributes   []attribute `json:"attributes,omitempty"`
	Status       *status     `json:"status,omitempty"`
}

const (
	kindInternal = 1
	kindServer   = 2
	statusError  = 2
)

type status struct {
	Code int `json:"code"`
}

type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

type value struct {
	String *string `json:"stringValue,omitempty"`
	Int    *string `json:"intValue,omitempty"`
}

func text(key, s string) attribute { return attribute{key, value{String: &s}} }

func number(key string, n int) attribute {
	s := strconv.Itoa(n)
	return attribute{key, value{Int: &s}}
}

func nanos(at time.Time) string { return strconv.FormatInt(at.UnixNano(), 10) }

// message is what a collector gets.
func (e *Exporter) message(spans []span) message {
	from := resource{Attributes: []attribute{
		text("service.name", "tollgate"), text("service.version", e.config.Version),
		text("service.instance.id", e.config.Node),
	}}
	return message{ResourceSpans: []resourceSpans{{
		Resource: from, ScopeSpans: []scopeSpans{{Scope: scope{Name: "tollgate"}, Spans: spans}},
	}}}
}
