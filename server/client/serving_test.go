package client_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/client"
)

// tape is a connection without a socket: it plays one request left times, each when the answer to
// the one before it was written, and then ends.
type tape struct {
	net.TCPConn // for its addresses
	left        int
	next        func() []byte
	rest        []byte
	answer      []byte // the newest
	ended       chan struct{}
}

func (p *tape) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		if p.left == 0 {
			return 0, io.EOF
		}
		p.left--
		p.rest = p.next()
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (p *tape) Write(b []byte) (int, error) {
	p.answer = append(p.answer[:0], b...)
	return len(b), nil
}

func (p *tape) Close() error {
	close(p.ended)
	return nil
}

func (*tape) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*tape) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*tape) SetDeadline(time.Time) error      { return nil }
func (*tape) SetReadDeadline(time.Time) error  { return nil }
func (*tape) SetWriteDeadline(time.Time) error { return nil }

// player is a listener whose one connection is a tape.
type player struct {
	tapes  chan *tape
	closed chan struct{}
}

func newPlayer() *player { return &player{make(chan *tape), make(chan struct{})} }

func (p *player) Accept() (net.Conn, error) {
	select {
	case t := <-p.tapes:
		return t, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *player) Close() error {
	close(p.closed)
	return nil
}

func (*player) Addr() net.Addr { return &net.TCPAddr{} }

// play sends n requests over a connection and returns the last answer.
func (p *player) play(n int, next func() []byte) []byte {
	t := &tape{left: n, next: next, ended: make(chan struct{})}
	p.tapes <- t
	<-t.ended
	return t.answer
}

// settles is a proposer that applies no usage event: what it leaves out is the cluster's part.
type settles struct{ server.Proposer }

func (s settles) Propose(
	deadline time.Time, records []engine.Record, results []engine.Result,
) {
	if records[0].Kind != billing.KindRecordUsage {
		s.Proposer.Propose(deadline, records, results)
		return
	}
	for i := range results {
		results[i] = engine.Result{Outcome: engine.OutcomeDone}
	}
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkServing measures what a request costs this process, the kernel's part excluded:
// fasthttp, the route table, the handler, and for a check the decision; an event is not proposed.
// bare is a handler of fasthttp that gives the same answer and does nothing else.
func BenchmarkServing(b *testing.B) {
	n := start(b, func(c *client.Config) { c.Proposer = settles{c.Proposer} })
	n.customer("acme")
	e := n.numbered()
	check := n.prepare("GET", "entitlements/acme/tokens", "")
	for _, row := range []struct {
		name   string
		status int
		next   func() []byte
	}{
		{"check", 200, func() []byte { return check }},
		{"event", 201, e.advance},
	} {
		var answer []byte
		measure := func(name string, p *player) {
			b.Run(row.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				answer = p.play(1, row.next)
				require.Contains(b, string(answer), fmt.Sprint("HTTP/1.1 ", row.status))
				b.ResetTimer()
				before := processorTime(b)
				p.play(b.N, row.next)
				used := processorTime(b) - before
				b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "cpu-ns/request")
			})
		}
		p := newPlayer()
		s := server.Serve(p, n.api.Handler(), server.DefaultLimits())
		measure("api", p)
		require.NoError(b, s.Shutdown(b.Context()))
		_, body, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
		body = bytes.Clone(body)
		p = newPlayer()
		bare := &fasthttp.Server{NoDefaultServerHeader: true, Handler: func(ctx *fasthttp.RequestCtx) {
			ctx.SetStatusCode(row.status)
			ctx.SetContentType("application/json")
			ctx.Response.Header.Set("X-Request-Id", "req_0123456789abcdef01234567")
			ctx.SetBody(body)
		}}
		go func() { _ = bare.Serve(p) }()
		measure("bare", p)
		require.NoError(b, p.Close())
	}
}
