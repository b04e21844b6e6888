package tracing

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/server"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID  = "00f067aa0ba902b7"
)

func TestParse(t *testing.T) {
	given := parent{traceID, spanID, true}
	for header, want := range map[string]parent{
		"00-" + traceID + "-" + spanID + "-01":       given,
		"00-" + traceID + "-" + spanID + "-00":       {traceID, spanID, false},
		"cc-" + traceID + "-" + spanID + "-03-later": given,
	} {
		got, ok := parse(header)
		require.True(t, ok, header)
		require.Equal(t, want, got, header)
	}
	for _, header := range []string{
		"", "00", "00-" + traceID + "-" + spanID + "-01-more", "ff-" + traceID + "-" + spanID + "-01",
		"00-" + strings.ToUpper(traceID) + "-" + spanID + "-01",
		"00-" + strings.Repeat("0", 32) + "-" + spanID + "-01",
		"00-" + traceID + "-" + strings.Repeat("0", 16) + "-01",
		"00_" + traceID + "-" + spanID + "-01", "cc-" + traceID + "-" + spanID + "-01later",
	} {
		_, ok := parse(header)
		require.False(t, ok, header)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("00-" + traceID + "-" + spanID + "-01")
	f.Fuzz(func(t *testing.T, header string) {
		if p, ok := parse(header); ok {
			require.Len(t, p.trace, 32)
			require.Len(t, p.span, 16)
		}
	})
}

// collector keeps what it is sent.
type collector struct {
	mu     sync.Mutex
	status int
	spans  []span
	header http.Header
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var m message
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, &m); err != nil {
		panic(err)
	}
	c.header = r.Header
	for _, from := range m.ResourceSpans {
		for _, s := range from.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
	w.WriteHeader(c.status)
}

// exporting is an exporter to a collector, and a table of two routes that it traces.
func exporting(t *testing.T, c *collector, ratio float64) (*Exporter, *server.Table) {
	t.Helper()
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	e := New(Config{
		URL: s.URL + "/v1/traces", Ratio: ratio, Authorization: "Bearer KEY", Node: "node1",
		Version: "1", Client: s.Client(), Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(e.Close)
	table, err := server.NewTable([]server.Route{{
		Method: "GET", Path: "/api/v1/client/things/{thing}", Operation: "getThing",
		Access: server.AccessOpen, Handle: func(x *server.Exchange) {
			x.Step("read").End()
			if string(x.Param(0)) == "broken" {
				x.Refuse(server.FaultInternal)
				return
			}
			x.Succeed(200)
		},
	}}, server.TableConfig{Tracer: e.Of("client")})
	require.NoError(t, err)
	return e, table
}

func ask(table *server.Table, thing, traceparent string) {
	var ctx fasthttp.RequestCtx
	ctx.Init(&fasthttp.Request{}, nil, nil)
	ctx.Request.SetRequestURI("/api/v1/client/things/" + thing)
	if traceparent != "" {
		ctx.Request.Header.Set("traceparent", traceparent)
	}
	table.Serve(&ctx)
}

// TestRequestsAreTraced: as parts of their callers' traces, with their steps, and those alone that
// are to be.
func TestRequestsAreTraced(t *testing.T) {
	c := &collector{status: 200}
	e, table := exporting(t, c, 0)
	ask(table, "a", "")
	ask(table, "b", "00-"+traceID+"-"+spanID+"-00")
	ask(table, "c", "00-"+traceID+"-"+spanID+"-01")
	ask(table, "broken", "00-"+traceID+"-"+spanID+"-01")
	e.Close()
	require.Equal(t, Counts{Sent: 4}, e.Counts())
	require.Equal(t, "Bearer KEY", c.header.Get("Authorization"))
	require.Len(t, c.spans, 4)
	whole, read := c.spans[0], c.spans[1]
	require.Equal(t, []string{traceID, spanID, "getThing"},
		[]string{whole.TraceID, whole.ParentSpanID, whole.Name})
	require.Equal(t, []string{traceID, whole.SpanID, "read"},
		[]string{read.TraceID, read.ParentSpanID, read.Name})
	require.LessOrEqual(t, whole.Start, whole.End)
	require.LessOrEqual(t, whole.Start, read.Start)
	require.Nil(t, whole.Status)
	said := map[string]string{}
	for _, a := range whole.Attributes {
		switch {
		case a.Value.String != nil:
			said[a.Key] = *a.Value.String
		default:
			said[a.Key] = *a.Value.Int
		}
	}
	require.NotEmpty(t, said["tollgate.request_id"])
	delete(said, "tollgate.request_id")
	require.Equal(t, map[string]string{
		"tollgate.api": "client", "http.request.method": "GET",
		"http.route": "/api/v1/client/things/{thing}", "http.response.status_code": "200",
	}, said)
	require.Equal(t, statusError, c.spans[2].Status.Code)
}

// TestAPartIsTraced: each with a trace of its own.
func TestAPartIsTraced(t *testing.T) {
	c := &collector{status: 202}
	e, table := exporting(t, c, 0.5)
	for range 100 {
		ask(table, "a", "")
	}
	e.Close()
	traces := map[string]int{}
	for _, s := range c.spans {
		require.Len(t, s.TraceID, 32)
		require.Len(t, s.SpanID, 16)
		traces[s.TraceID]++
	}
	require.Greater(t, len(traces), 10)
	require.Less(t, len(traces), 90)
	require.Equal(t, 2*len(traces), len(c.spans))
}

// answering is a collector in process.
type answering func(*http.Request) (*http.Response, error)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// exportingTo is an exporter to such a collector, which logs to w.
func exportingTo(c answering, w io.Writer) *Exporter {
	return New(Config{
		URL: "https://user:SECRET@collector.example:4318/v1/traces?api-key=SECRET", Ratio: 1,
		Client: &http.Client{Transport: c}, Log: slog.New(slog.NewTextHandler(w, nil)),
	})
}

// traced is told of n requests without steps.
func (e *Exporter) traced(n int) {
	var ctx fasthttp.RequestCtx
	for range n {
		e.Of("client").Traced(&server.Exchange{Ctx: &ctx}, &server.Trace{})
	}
}

// TestTracesAreBounded: of a caller who has everything traced a thousand are at once, and what a
// collector refuses is counted as lost.
func TestTracesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := exportingTo(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 503, Body: http.NoBody}, nil
		}, io.Discard)
		defer e.Close()
		chosen := 0
		for range 10 * maxRate {
			if e.Of("client").Chooses(nil) {
				chosen++
			}
		}
		require.Equal(t, maxRate, chosen)
		e.mu.Lock()
		e.waiting = make([]span, maxWaiting)
		e.mu.Unlock()
		e.traced(1)
		require.EqualValues(t, 1, e.Counts().Lost)
		e.Close()
		require.Equal(t, Counts{Lost: maxWaiting + 1}, e.Counts())
	})
}

// TestAStopWaitsLittleForACollector that does not answer, however much is to be sent.
func TestAStopWaitsLittleForACollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := exportingTo(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, io.Discard)
		e.traced(maxTogether)
		synctest.Wait() // it is sent
		e.mu.Lock()
		e.waiting = make([]span, maxWaiting)
		e.mu.Unlock()
		began := time.Now()
		e.Close()
		require.LessOrEqual(t, time.Since(began), closeTimeout)
		require.Equal(t, Counts{Lost: maxWaiting + maxTogether}, e.Counts())
	})
}

// TestLogsNameACollectorWithoutItsKeys.
func TestLogsNameACollectorWithoutItsKeys(t *testing.T) {
	var said bytes.Buffer
	e := exportingTo(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("there is no route")
	}, &said)
	e.traced(1)
	e.Close()
	require.Contains(t, said.String(),
		`collector=https://collector.example:4318 error="there is no route"`)
	require.NotContains(t, said.String(), "SECRET")
	e.config.URL = "https://collector.example/%zz?api-key=SECRET"
	require.NotContains(t, e.send(nil).Error(), "SECRET")
}
