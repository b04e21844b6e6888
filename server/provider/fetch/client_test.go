package fetch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/provider/fetch"
)

func zipped(t *testing.T, plain []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(plain)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestARequestArrivesAsItIs(t *testing.T) {
	host := serve(t, reachable, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("X-Seen", fmt.Sprint(r.Method, " ", r.URL, " ", r.Header.Get("X-Api-Key"),
			" ", r.Header.Get("User-Agent"), " ", r.Header.Get("Referer"), r.Header.Get("Cookie")))
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(body)
	})
	answer, err := newClient(t, nil, host).Do(t.Context(), &fetch.Request{
		Method: "POST", URL: "http://" + host + "/a?b=c#d", Body: []byte("payload"),
		Header: http.Header{"x-api-key": {"k"}},
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusTeapot, answer.Status)
	require.Equal(t, "POST /a?b=c k Tollgate", answer.Header.Get("X-Seen"))
	require.Equal(t, "payload", string(answer.Body))
	require.Equal(t, "http://"+host+"/a?b=c", answer.URL)
}

func TestBodiesAreBounded(t *testing.T) {
	const limit = 10_000
	endless := func(w http.ResponseWriter, r *http.Request, chunk []byte) {
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	bomb := zipped(t, make([]byte, 8<<20))
	// A gzip stream whose blocks hold nothing: endless on the wire, empty when decoded.
	hollow := append([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3},
		bytes.Repeat([]byte{0, 0, 0, 0xff, 0xff}, 4000)...)
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		rule    fetch.Rule
		size    int
	}{
		"at the limit": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, limit))
		}, "", limit},
		"announced": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10001")
			_, _ = w.Write(make([]byte, limit+1))
		}, fetch.RuleBody, 0},
		"one more, chunked": {func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			_, _ = w.Write(make([]byte, limit+1))
		}, fetch.RuleBody, 0},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			endless(w, r, make([]byte, 4096))
		}, fetch.RuleBody, 0},
		"gzip at the limit": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zipped(t, make([]byte, limit)))
		}, "", limit},
		"gzip bomb": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb)
		}, fetch.RuleBody, 0},
		"hollow gzip": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(hollow)
		}, fetch.RuleBody, 0},
		"endless members": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			endless(w, r, zipped(t, nil))
		}, fetch.RuleBody, 0},
		"unasked encoding": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = io.WriteString(w, "x")
		}, fetch.RuleEncoding, 0},
		"twice encoded": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip, gzip")
			_, _ = w.Write(zipped(t, zipped(t, nil)))
		}, fetch.RuleEncoding, 0},
		"damaged gzip": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(append(zipped(t, nil)[:10], "\xff\xff\xff\xff"...))
		}, fetch.RuleEncoding, 0},
		"no gzip": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "plain text it is")
		}, fetch.RuleEncoding, 0},
		"empty gzip": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(http.StatusNoContent)
		}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			host := serve(t, reachable, test.handler)
			client := newClient(t, func(c *fetch.Config) { c.BodyLimit = limit }, host)
			answer, err := get(t, client, "http://"+host)
			if test.rule == "" {
				require.NoError(t, err)
				require.Len(t, answer.Body, test.size)
				return
			}
			refusal := refusalOf(t, err)
			require.Equal(t, test.rule, refusal.Rule)
			require.False(t, refusal.Local())
			status, _ := fetch.Status(err)
			require.Equal(t, http.StatusOK, status)
		})
	}
}

func TestABombIsNotInflated(t *testing.T) {
	bomb := zipped(t, make([]byte, 16<<20))
	host := serve(t, reachable, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb)
	})
	client := newClient(t, func(c *fetch.Config) { c.BodyLimit = 100_000 }, host)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := get(t, client, "http://"+host)
	runtime.ReadMemStats(&after)
	require.Equal(t, fetch.RuleBody, refusalOf(t, err).Rule)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
}

func TestHeadersAreBounded(t *testing.T) {
	var sent atomic.Int64
	host := serveRaw(t, func(conn net.Conn) {
		_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
		for err == nil {
			var n int
			n, err = io.WriteString(conn, "X-Bomb: "+strings.Repeat("a", 1000)+"\r\n")
			sent.Add(int64(n))
		}
	})
	_, err := get(t, newClient(t, nil, host), "http://"+host)
	require.Equal(t, fetch.RuleHeaders, refusalOf(t, err).Rule)
}

func TestSlowAnswersEnd(t *testing.T) {
	drip := func(conn net.Conn, text string) {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			if _, err := conn.Write([]byte{text[i%len(text)]}); err != nil {
				return
			}
			<-tick.C
		}
	}
	for name, talk := range map[string]func(net.Conn){
		"silence": func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) },
		"headers": func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-A: ")
			drip(conn, "a")
		},
		"body": func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
			drip(conn, "a")
		},
		"hints": func(conn net.Conn) { drip(conn, "HTTP/1.1 103 Early Hints\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			host := serveRaw(t, talk)
			client := newClient(t, func(c *fetch.Config) { c.Timeout = 150 * time.Millisecond }, host)
			_, err := get(t, client, "http://"+host)
			require.Equal(t, fetch.RuleTime, refusalOf(t, err).Rule)
		})
	}
}

func TestWhatIsNoRefusal(t *testing.T) {
	garbage := serveRaw(t, func(conn net.Conn) { _, _ = io.WriteString(conn, "SSH-2.0-x\r\n\r\n") })
	cut := serveRaw(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
	})
	plain := serve(t, reachable, func(http.ResponseWriter, *http.Request) {})
	listener, err := net.Listen("tcp", reachable+":0")
	require.NoError(t, err)
	closed := listener.Addr().String()
	require.NoError(t, listener.Close())
	client := newClient(t, nil, garbage, cut, plain, closed)
	for _, url := range []string{
		"http://" + garbage, "http://" + cut, "http://" + closed, "https://" + plain + "/?key=secret",
	} {
		_, err := get(t, client, url)
		var failure *fetch.Failure
		require.ErrorAs(t, err, &failure, url)
		require.NotContains(t, err.Error(), "secret")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = client.Do(ctx, &fetch.Request{URL: "http://" + plain})
	require.ErrorIs(t, err, context.Canceled)
	_, err = client.Do(t.Context(), &fetch.Request{URL: "http://" + plain, Redirects: 6})
	require.Error(t, err)
	require.False(t, errors.As(err, new(*fetch.Refusal)))
}

func TestABudgetEnds(t *testing.T) {
	var now, most atomic.Int32
	arrived := make(chan struct{}, 10)
	release := make(chan struct{})
	host := serve(t, reachable, func(http.ResponseWriter, *http.Request) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		arrived <- struct{}{}
		<-release
		now.Add(-1)
	})
	client := newClient(t, nil, host)
	budget := fetch.NewBudget(5, 2, time.Minute)
	results := make(chan error)
	for range 8 {
		go func() {
			_, err := client.Do(t.Context(), &fetch.Request{URL: "http://" + host, Budget: budget})
			results <- err
		}()
	}
	<-arrived
	<-arrived
	require.Equal(t, 3, budget.Left())
	close(release)
	refused := 0
	for range 8 {
		if err := <-results; err != nil {
			require.Equal(t, fetch.RuleBudget, refusalOf(t, err).Rule)
			refused++
		}
	}
	require.Equal(t, 3, refused)
	require.LessOrEqual(t, most.Load(), int32(2))
	require.Zero(t, budget.Left())

	slow := serveRaw(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	client = newClient(t, nil, slow)
	short := fetch.NewBudget(5, 2, 100*time.Millisecond)
	for _, rule := range []fetch.Rule{fetch.RuleTime, fetch.RuleBudget} {
		_, err := client.Do(t.Context(), &fetch.Request{URL: "http://" + slow, Budget: short})
		require.Equal(t, rule, refusalOf(t, err).Rule)
	}
}
