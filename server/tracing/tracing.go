// Package tracing sends the traces of requests to a collector of OpenTelemetry: OTLP over HTTP, as
// JSON. It owns which requests are traced, the spans, and their way out. It does not own what a
// request does: the route table tells of it (server.Tracer).
package tracing

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"tollgate/server"
)

const (
	// maxWaiting bounds the traces that wait to be sent, maxTogether those of one message; sendEvery
	// is how long the first of them waits.
	maxWaiting  = 4096
	maxTogether = 512
	sendEvery   = 2 * time.Second
	sendTimeout = 10 * time.Second
	// closeTimeout bounds what is sent of them at a stop.
	closeTimeout = 2 * time.Second
	// maxRate bounds the traces of a second: callers choose, too, and need no key for it.
	maxRate = 1000
)

// Config says where traces go, and of which requests.
type Config struct {
	// URL is the collector's, with its path: http://127.0.0.1:4318/v1/traces.
	URL string
	// Ratio of the requests without a traceparent header is traced, from 0 to 1. Of those with one
	// all whose caller traces them are.
	Ratio float64
	// Authorization is that header of what is sent; empty: none.
	Authorization string
	// Node and Version name what sends them.
	Node, Version string
	Client        *http.Client
	Log           *slog.Logger
}

// Exporter sends traces until Close. Safe for concurrent use.
type Exporter struct {
	config  Config
	bound   *rate.Limiter
	failing rate.Sometimes

	mu      sync.Mutex
	waiting []span
	full    chan struct{}
	counts  Counts

	// sending ends closeTimeout after stop.
	sending context.Context
	giveUp  context.CancelFunc
	stop    chan struct{}
	stopped sync.Once
	running sync.WaitGroup
}

// Counts are how many spans an exporter has sent, and how many it has lost.
type Counts struct{ Sent, Lost uint64 }

// New makes an exporter and starts it.
func New(c Config) *Exporter {
	e := &Exporter{
		config: c, bound: rate.NewLimiter(maxRate, maxRate),
		failing: rate.Sometimes{Interval: time.Minute},
		full:    make(chan struct{}, 1), stop: make(chan struct{}),
	}
	e.sending, e.giveUp = context.WithCancel(context.Background())
	e.running.Go(e.run)
	return e
}

// Close sends what waits, for two seconds at most, and stops.
func (e *Exporter) Close() {
	e.stopped.Do(func() {
		close(e.stop)
		time.AfterFunc(closeTimeout, e.giveUp)
	})
	e.running.Wait()
}

// Counts are what was sent and lost so far.
func (e *Exporter) Counts() Counts {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.counts
}

// Of is the tracer of one API.
func (e *Exporter) Of(api string) server.Tracer { return tracer{e, api} }

type tracer struct {
	*Exporter
	api string
}

// Chooses implements server.Tracer.
func (e tracer) Chooses(header []byte) bool {
	if p, ok := parse(string(header)); ok {
		return p.traced && e.bound.Allow()
	}
	ratio := e.config.Ratio
	return ratio > 0 && (ratio >= 1 || rand.Float64() < ratio) && e.bound.Allow()
}

// Traced implements server.Tracer.
func (e tracer) Traced(x *server.Exchange, t *server.Trace) {
	spans := e.spansOf(x, t)
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting)+len(spans) > maxWaiting {
		e.counts.Lost += uint64(len(spans))
		return
	}
	e.waiting = append(e.waiting, spans...)
	if len(e.waiting) >= maxTogether {
		select {
		case e.full <- struct{}{}:
		default:
		}
	}
}

// parent is what a traceparent header says, as W3C Trace Context has it.
type parent struct {
	trace, span string
	traced      bool
}

func parse(header string) (p parent, ok bool) {
	const whole = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	if len(header) < whole || header[2] != '-' || header[35] != '-' || header[52] != '-' ||
		len(header) > whole && (header[:2] == "00" || header[whole] != '-') {
		return p, false
	}
	version, flags := header[:2], header[53:55]
	p.trace, p.span = header[3:35], header[36:52]
	for _, digits := range []string{version, p.trace, p.span, flags} {
		if !lowerHex(digits) {
			return p, false
		}
	}
	bits, err := hex.DecodeString(flags)
	p.traced = err == nil && bits[0]&1 == 1
	return p, version != "ff" && !zeros(p.trace) && !zeros(p.span)
}

func lowerHex(text string) bool {
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func zeros(text string) bool {
	for _, c := range []byte(text) {
		if c != '0' {
			return false
		}
	}
	return true
}

func newID(bytes int) string {
	id := make([]byte, 0, 16)
	for len(id) < bytes {
		n := rand.Uint64() | 1 // never all zeros
		for range 8 {
			id, n = append(id, byte(n)), n>>8
		}
	}
	return hex.EncodeToString(id[:bytes])
}

// spansOf is the span of a request, and those of its steps.
func (e tracer) spansOf(x *server.Exchange, t *server.Trace) []span {
	from, given := parse(t.Parent)
	if !given {
		from.trace = newID(16)
	}
	name, route := "none", ""
	if x.Route != nil {
		name, route = x.Route.Operation, x.Route.Path
	}
	whole := span{
		TraceID: from.trace, SpanID: newID(8), ParentSpanID: from.span, Name: name, Kind: kindServer,
		Start: nanos(t.Began), End: nanos(t.Began.Add(t.Took)),
		Attributes: []attribute{
			text("tollgate.api", e.api), text("http.request.method", string(x.Ctx.Method())),
			text("http.route", route), number("http.response.status_code", t.Status),
			text("tollgate.request_id", string(x.RequestID())),
		},
	}
	if t.Status >= 500 {
		whole.Status = &status{Code: statusError}
	}
	spans := append(make([]span, 0, 1+len(t.Steps)), whole)
	for _, s := range t.Steps {
		spans = append(spans, span{
			TraceID: from.trace, SpanID: newID(8), ParentSpanID: whole.SpanID, Name: s.Name,
			Kind: kindInternal, Start: nanos(s.Began), End: nanos(s.Began.Add(s.Took)),
		})
	}
	return spans
}

// run sends what waits, every two seconds, and where a message is full.
func (e *Exporter) run() {
	ticker := time.NewTicker(sendEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-e.full:
		case <-e.stop:
			e.sendAll()
			return
		}
		e.sendAll()
	}
}

// sendAll sends what waits. What a collector does not take is lost: traces are not worth memory.
func (e *Exporter) sendAll() {
	for {
		e.mu.Lock()
		some := e.waiting[:min(len(e.waiting), maxTogether)]
		e.waiting = e.waiting[len(some):]
		e.mu.Unlock()
		if len(some) == 0 {
			return
		}
		err := e.send(some)
		e.mu.Lock()
		if err == nil {
			e.counts.Sent += uint64(len(some))
		} else {
			e.counts.Lost += uint64(len(some))
		}
		e.mu.Unlock()
		if err != nil {
			e.failing.Do(func() {
				e.config.Log.Warn("traces are not sent", "collector", e.collector(), "error", err)
			})
		}
	}
}

// collector is where spans go, as logs may name it: keys may be in the rest of the address.
func (e *Exporter) collector() string {
	u, err := url.Parse(e.config.URL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// unaddressed is an error without the address that net/http repeats in it.
func unaddressed(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

func (e *Exporter) send(spans []span) error {
	body, err := json.Marshal(e.message(spans))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(e.sending, sendTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "POST", e.config.URL, bytes.NewReader(body))
	if err != nil {
		return unaddressed(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if e.config.Authorization != "" {
		request.Header.Set("Authorization", e.config.Authorization)
	}
	answer, err := e.config.Client.Do(request)
	if err != nil {
		return unaddressed(err)
	}
	defer answer.Body.Close()
	if _, err = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)); err != nil {
		return err
	}
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answers %s", answer.Status)
	}
	return nil
}
