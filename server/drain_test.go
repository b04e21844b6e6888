package server_test

import (
	"bufio"
	"context"
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

// TestDrain: a server that drains answers what is under way, what comes over connections that were
// kept, and new ones; each answer ends its connection. It says so until it is told to end.
func TestDrain(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	s, err := server.Listen("127.0.0.1:0", func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/slow" {
			close(entered)
			<-release
		}
		hello(ctx)
	}, server.DefaultLimits())
	require.NoError(t, err)
	ask := func(c net.Conn, path string, times int) {
		_, err := c.Write([]byte(strings.Repeat("GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n", times)))
		require.NoError(t, err)
	}
	heard := func(c net.Conn) (closes bool) {
		r := bufio.NewReader(c)
		answer, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Equal(t, "hello", string(body))
		if answer.Close {
			_, err = r.ReadByte()
			require.ErrorIs(t, err, io.EOF, "the connection ends behind the answer")
		}
		return answer.Close
	}
	address := s.Addr().String()
	kept, slow, many := dial(t, address), dial(t, address), dial(t, address)
	ask(kept, "/", 1)
	require.False(t, heard(kept))
	ask(many, "/", 1)
	require.False(t, heard(many))
	ask(slow, "/slow", 1)
	<-entered

	ctx, end := context.WithCancel(t.Context())
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		s.Drain(ctx, time.Minute)
	}()
	require.Eventually(t, func() bool {
		c := dial(t, address)
		ask(c, "/", 1)
		return heard(c)
	}, 10*time.Second, time.Millisecond, "new connections are answered, and ended")
	ask(kept, "/", 1)
	require.True(t, heard(kept), "its next answer is its last")
	ask(many, "/", 2_000)
	require.True(t, heard(many), "requests behind the last answer do not take it away")
	close(release)
	require.True(t, heard(slow), "what was under way is answered")
	end()
	<-drained

	stop, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(t, s.Shutdown(stop))
	_, err = net.Dial("tcp", address)
	require.Error(t, err)
}
