package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/server"
)

// listen serves handler on loopback within limits.
func listen(t *testing.T, limits server.Limits, handler fasthttp.RequestHandler) string {
	t.Helper()
	return serve(t, limits, handler).Addr().String()
}

func serve(t *testing.T, limits server.Limits, handler fasthttp.RequestHandler) *server.Server {
	t.Helper()
	s, err := server.Listen("127.0.0.1:0", handler, limits)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx))
	})
	return s
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(30*time.Second)))
	return c
}

// slowest is how much later than it should a busy machine may do something.
const slowest = 10 * time.Second

// short are limits of which each is told from the others by how long it lasts.
func short() server.Limits {
	return server.Limits{
		Connections: 100, PerAddress: 50,
		Header: 400 * time.Millisecond, Body: 1200 * time.Millisecond,
		Idle: 800 * time.Millisecond, Write: 700 * time.Millisecond,
	}
}

func hello(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("hello") }

// drip sends text a byte at a time until the peer has closed, and returns what it answered and when
// it had.
func drip(t *testing.T, c net.Conn, text string) (answer string, closed time.Time) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		pace := time.NewTicker(20 * time.Millisecond)
		defer pace.Stop()
		for i := range text {
			if _, err := c.Write([]byte{text[i]}); err != nil {
				return
			}
			<-pace.C
		}
	}()
	all, err := io.ReadAll(c)
	closed = time.Now()
	if err != nil {
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.NotContains(t, err.Error(), "timeout", "the server never closed")
	}
	require.NoError(t, c.Close())
	<-done
	return string(all), closed
}

// TestSlowSendersAreClosed: a request has a time to arrive in, and bytes that trickle in do not
// lengthen it (what is known as slowloris).
func TestSlowSendersAreClosed(t *testing.T) {
	limits := short()
	handler := func(ctx *fasthttp.RequestCtx) {
		if _, err := io.Copy(io.Discard, ctx.RequestBodyStream()); err != nil {
			ctx.SetStatusCode(408)
			ctx.SetConnectionClose()
		}
	}
	address := listen(t, limits, handler)
	const head = "POST /api/v1/client/x HTTP/1.1\r\nHost: x\r\n"
	body := strings.Repeat("x", 4000)
	for name, row := range map[string]struct {
		at      string // sent at once
		text    string // dripped
		bound   time.Duration
		answers bool
	}{
		"request line": {"", "GET /" + strings.Repeat("x", 4000), limits.Header, true},
		"headers":      {head, strings.Repeat("X-Slow: 1\r\n", 400), limits.Header, true},
		"small body":   {head + "Content-Length: 4000\r\n\r\n", body, limits.Header, true},
		"large body":   {head + "Content-Length: 70000\r\n\r\n", body, limits.Body, true},
		"chunks": {
			head + "Transfer-Encoding: chunked\r\n\r\n", strings.Repeat("1\r\nx\r\n", 700),
			limits.Body, true,
		},
		"nothing": {"", "", limits.Header, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now() // the server's clock begins later
			c := dial(t, address)
			_, err := c.Write([]byte(row.at))
			require.NoError(t, err)
			answer, closed := drip(t, c, row.text)
			took := closed.Sub(began)
			if row.answers {
				require.True(t, strings.HasPrefix(answer, "HTTP/1.1 408 "), "%q", answer)
			}
			require.GreaterOrEqual(t, took, row.bound)
			require.Less(t, took, row.bound+slowest, "lingering included")
		})
	}
}

// TestIdleConnectionsAreClosed: a connection that was used may wait longer for its next request
// than a new one for its first, and then ends without a word.
func TestIdleConnectionsAreClosed(t *testing.T) {
	limits := short()
	c := dial(t, listen(t, limits, hello))
	r := bufio.NewReader(c)
	var began time.Time
	for range 2 {
		began = time.Now() // the server's clock begins later
		_, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
		require.NoError(t, err)
		response, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		require.Equal(t, 200, response.StatusCode)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
	}
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.GreaterOrEqual(t, time.Since(began), limits.Idle)
	require.Less(t, time.Since(began), limits.Idle+slowest)
}

// TestSlowReadersAreClosed: who asks for much and reads nothing is cut off.
func TestSlowReadersAreClosed(t *testing.T) {
	limits := short()
	left := make(chan time.Time, 1)
	large := make([]byte, 64<<20)
	address := listen(t, limits, func(ctx *fasthttp.RequestCtx) { ctx.SetBody(large) })
	began := time.Now() // the server's clock begins later
	c := dial(t, address)
	_, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	require.NoError(t, err)
	go func() {
		// A write to a connection that the peer has closed fails before long.
		pace := time.NewTicker(20 * time.Millisecond)
		defer pace.Stop()
		for { // the deadline of dial ends it
			if _, err := c.Write([]byte("x")); err != nil {
				break
			}
			<-pace.C
		}
		left <- time.Now()
	}()
	closed := <-left
	require.GreaterOrEqual(t, closed.Sub(began), limits.Write)
	require.Less(t, closed.Sub(began), limits.Write+slowest)
}

// TestHalfClosedConnections: a client that has sent its request and closed its side is answered;
// one that closed it before it was done is told so; neither holds its place.
func TestHalfClosedConnections(t *testing.T) {
	limits := short()
	limits.Connections = 1
	address := listen(t, limits, hello)
	for name, row := range map[string]struct {
		text   string
		status string
	}{
		"whole":    {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 "},
		"headers":  {"GET / HTTP/1.1\r\nHo", "HTTP/1.1 400 "},
		"no bytes": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var text []byte
			require.Eventually(t, func() bool { // the place of the one before may be taken yet
				c := dial(t, address)
				_, err := c.Write([]byte(row.text))
				require.NoError(t, err)
				require.NoError(t, c.(*net.TCPConn).CloseWrite())
				text, err = io.ReadAll(c)
				return err == nil && !strings.HasPrefix(string(text), "HTTP/1.1 503 ")
			}, slowest, 20*time.Millisecond)
			require.True(t, strings.HasPrefix(string(text), row.status), "%q", text)
			if row.status == "" {
				require.Empty(t, text)
			}
		})
	}
}

// TestAnAddressHasSoManyConnections: beyond PerAddress the next is refused in words, although
// Connections has room, and a place that is left is taken again.
func TestAnAddressHasSoManyConnections(t *testing.T) {
	limits := short()
	limits.PerAddress, limits.Header = 3, 5*time.Second
	s := serve(t, limits, hello)
	address := s.Addr().String()
	ask := func(c net.Conn) string {
		_, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
		if err != nil {
			return err.Error()
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil {
			return err.Error()
		}
		return line
	}
	var held []net.Conn
	for range limits.PerAddress {
		c := dial(t, address)
		require.Contains(t, ask(c), " 200 ")
		held = append(held, c)
	}
	refused, err := io.ReadAll(dial(t, address))
	require.NoError(t, err)
	require.Contains(t, string(refused), "HTTP/1.1 503 ")
	require.Contains(t, string(refused), "too_many_connections")
	require.Contains(t, string(refused), "Retry-After: 1")
	open, count := s.Connections()
	require.Equal(t, limits.PerAddress, open)
	require.EqualValues(t, 1, count)
	require.NoError(t, held[0].Close())
	require.Eventually(t, func() bool {
		return strings.Contains(ask(dial(t, address)), " 200 ")
	}, slowest, 20*time.Millisecond)
}

// TestHeadersAreBounded: 16 KiB of headers at most, however they are divided.
func TestHeadersAreBounded(t *testing.T) {
	address := listen(t, short(), hello)
	for name, headers := range map[string]string{
		"one large":  "X: " + strings.Repeat("x", 17<<10) + "\r\n",
		"many small": strings.Repeat("X-Y: z\r\n", 17<<10/8),
	} {
		c := dial(t, address)
		_, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\n%s\r\n", headers)
		require.NoError(t, err)
		text, err := io.ReadAll(c)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), "HTTP/1.1 431 "), "%s: %q", name, text)
	}
	c := dial(t, address)
	_, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("x", 15<<10))
	require.NoError(t, err)
	line, err := bufio.NewReader(c).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, " 200 ")
}
