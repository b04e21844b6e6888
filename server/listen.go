package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// Limits bounds what clients can make a listener hold.
type Limits struct {
	// Connections is the number of open connections, PerAddress that of one client address (0: no
	// bound of its own).
	Connections, PerAddress int
	// Header is the time within which a request's headers and a small body must arrive, Body that
	// of a large body, Idle how long a connection may wait for its next request, Write how long an
	// answer may take to leave.
	Header, Body, Idle, Write time.Duration
}

// DefaultLimits are the limits of the public listener. One address has a quarter of the
// connections at most, which is enough for a proxy in front and leaves the others theirs.
func DefaultLimits() Limits {
	return Limits{
		Connections: 16_384, PerAddress: 4_096,
		Header: 10 * time.Second, Body: 60 * time.Second,
		Idle: 120 * time.Second, Write: 30 * time.Second,
	}
}

const (
	// headerBytes is the size of a request's headers (16 KiB).
	headerBytes = 16 << 10
	// largeBody is from where on Limits.Body counts instead of Limits.Header.
	largeBody = 64 << 10
)

// Server serves one listener.
type Server struct {
	fast     *fasthttp.Server
	ln       *listener
	done     chan error
	draining atomic.Bool
}

// Serve answers the listener's connections with handler until Shutdown.
func Serve(ln net.Listener, handler fasthttp.RequestHandler, limits Limits) *Server {
	return ServeTLS(ln, handler, limits, nil)
}

// ServeTLS is Serve over TLS; in the clear where secure is nil.
func ServeTLS(
	ln net.Listener, handler fasthttp.RequestHandler, limits Limits, secure *tls.Config,
) *Server {
	s := &Server{ln: newListener(ln, limits, secure), done: make(chan error, 1)}
	handler = s.leaving(framed(handler))
	s.fast = &fasthttp.Server{
		Handler:      handler,
		ErrorHandler: answerBroken,
		ExpectHandler: func(ctx *fasthttp.RequestCtx) int {
			return expect(ctx, handler)
		},
		HeaderReceived: func(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
			return forBody(h, limits)
		},
		// Bodies are read by the route table, after the checks that come before their size. One
		// byte is what fasthttp reads ahead; 0 would select its default of 4 MiB.
		StreamRequestBody:            true,
		MaxRequestBodySize:           1,
		DisablePreParseMultipartForm: true,
		ReadBufferSize:               headerBytes,
		WriteBufferSize:              4 << 10,
		ReadTimeout:                  limits.Header,
		IdleTimeout:                  limits.Idle,
		WriteTimeout:                 limits.Write,
		Concurrency:                  limits.Connections + 64,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		SecureErrorLogMessage:        true,
		CloseOnShutdown:              true,
		Logger:                       fastLog{},
	}
	go func() { s.done <- s.fast.Serve(s.ln) }()
	return s
}

// Listen listens on a TCP address and serves it.
func Listen(addr string, handler fasthttp.RequestHandler, limits Limits) (*Server, error) {
	return ListenTLS(addr, handler, limits, nil)
}

// ListenTLS is Listen over TLS; in the clear where secure is nil.
func ListenTLS(
	addr string, handler fasthttp.RequestHandler, limits Limits, secure *tls.Config,
) (*Server, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("server: listen: %w", err)
	}
	return ServeTLS(ln, handler, limits, secure), nil
}

// Addr is the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.ln.Addr() }

// Connections is how many connections are open, and how many were refused since the beginning
// because there were too many, of all addresses or of one.
func (s *Server) Connections() (open int, refused uint64) {
	s.ln.mu.Lock()
	defer s.ln.mu.Unlock()
	return s.ln.open, s.ln.refused
}

// Shutdown stops listening, waits for the requests under way until ctx ends, and closes.
func (s *Server) Shutdown(ctx context.Context) error {
	// fasthttp knows of the listener only when its goroutine has come that far: a process that is
	// stopped as it starts would wait for it forever.
	err := errors.Join(s.ln.Close(), s.fast.ShutdownWithContext(ctx))
	return errors.Join(err, <-s.done)
}

// expect asks the handler about a request whose client waits for 100-continue before it sends the
// body. The handler answers it now, or leaves word that it may come.
func expect(ctx *fasthttp.RequestCtx, handler fasthttp.RequestHandler) int {
	waiting := &expectation{}
	ctx.SetUserValue(expectationKey{}, waiting)
	handler(ctx)
	if waiting.admitted != nil {
		return fasthttp.StatusContinue
	}
	return ctx.Response.StatusCode()
}

func forBody(h *fasthttp.RequestHeader, limits Limits) fasthttp.RequestConfig {
	if n := h.ContentLength(); n > largeBody || n == -1 {
		return fasthttp.RequestConfig{ReadTimeout: limits.Body}
	}
	return fasthttp.RequestConfig{}
}

// answerBroken answers a request that could not be read, in the shape of the API that it was
// addressed to, as far as its beginning tells.
func answerBroken(ctx *fasthttp.RequestCtx, err error) {
	fault := faultMalformed
	var small *fasthttp.ErrSmallBuffer
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &small):
		fault = faultHeaders
	case errors.As(err, &timeout) && timeout.Timeout():
		fault = faultSlow
	}
	shape := ShapeWorkspace
	if c, ok := ctx.Conn().(*conn); ok {
		shape = ShapeOf(c.path())
		c.linger.Store(true)
	}
	fail(ctx, shape, fault)
}

// Fail answers a request that reaches no table.
func Fail(ctx *fasthttp.RequestCtx, fault *Fault) {
	fail(ctx, ShapeOf(targetPath(ctx.Request.Header.RequestURI())), fault)
}

func fail(ctx *fasthttp.RequestCtx, shape Shape, fault *Fault) {
	id := appendRequestID(nil)
	ctx.Response.Reset()
	ctx.Response.SetStatusCode(fault.Status)
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.Header.SetBytesV("X-Request-Id", id)
	ctx.Response.SetBody(AppendFault(nil, shape, fault, id))
	protection{policy: defaultPolicy, caching: noStore}.protect(ctx)
}

// closeAfterAnswer closes the connection once the answer is written, and lets the client read the
// answer although it has not finished sending.
func closeAfterAnswer(ctx *fasthttp.RequestCtx) {
	ctx.SetConnectionClose()
	if c, ok := ctx.Conn().(*conn); ok {
		c.linger.Store(true)
	}
}

// listener bounds connections, and wraps each.
type listener struct {
	net.Listener
	limits Limits
	secure *tls.Config // nil: in the clear
	once   sync.Once

	mu      sync.Mutex
	open    int
	refused uint64
	per     map[netip.Addr]int
}

func newListener(ln net.Listener, limits Limits, secure *tls.Config) *listener {
	return &listener{Listener: ln, limits: limits, secure: secure, per: make(map[netip.Addr]int)}
}

// Accept returns the next connection that is within the limits; the others are answered and closed.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr := addressOf(c)
		if l.admit(addr) {
			if l.secure != nil {
				c = tls.Server(c, l.secure) // shakes hands as the first request is read
			}
			return &conn{Conn: c, listener: l, addr: addr}, nil
		}
		if l.secure != nil {
			err = c.Close() // words would have to be preceded by a handshake, which costs
		} else {
			err = refuseConnection(c)
		}
		if err != nil {
			slog.Debug("refusing a connection", "error", err)
		}
	}
}

// Close stops accepting; again it does nothing.
func (l *listener) Close() (err error) {
	l.once.Do(func() { err = l.Listener.Close() })
	return err
}

func addressOf(c net.Conn) netip.Addr {
	if tcp, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

func (l *listener) admit(addr netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.limits.Connections ||
		l.limits.PerAddress > 0 && l.per[addr] >= l.limits.PerAddress {
		l.refused++
		return false
	}
	l.open++
	l.per[addr]++
	return true
}

func (l *listener) leave(addr netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.per[addr]--; l.per[addr] <= 0 {
		delete(l.per, addr)
	}
}

// refuseConnection answers before anything was read, so the API that was meant is not known.
func refuseConnection(c net.Conn) error {
	id := appendRequestID(nil)
	body := AppendFault(nil, ShapeWorkspace, faultConnections, id)
	head := fmt.Sprintf("HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\nRetry-After: 1\r\nX-Request-Id: %s\r\nConnection: close\r\n\r\n",
		len(body), id)
	err := c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	if err == nil {
		_, err = c.Write(append([]byte(head), body...))
	}
	return errors.Join(err, c.Close())
}

// conn remembers how the newest request began, so that one that cannot be read is answered in the
// shape of its API, and closes without cutting off an answer.
type conn struct {
	net.Conn
	listener *listener
	addr     netip.Addr
	linger   atomic.Bool
	streams  atomic.Bool // it answers with a stream: see Exchange.Stream
	head     [48]byte
	headLen  int
	once     sync.Once
	ends     lineEnds
	key      hashedKey // the newest
	// reads and writes are its deadlines, of the one goroutine that serves it.
	reads, writes deadline
}

// Read notes the beginning of what begins like a request line. It fails where fasthttp waits for
// the rest of headers that can no longer become well-formed.
func (c *conn) Read(b []byte) (int, error) {
	unread := headerBytes - len(b) // b is what is free of fasthttp's buffer
	if c.ends.broken(unread) {
		return 0, errFraming
	}
	n, err := c.read(b)
	c.ends.note(b[:n], unread == 0)
	if n >= 5 && b[0] >= 'A' && b[0] <= 'Z' {
		c.headLen = copy(c.head[:], b[:n])
	}
	return n, err
}

func (c *conn) path() []byte {
	_, rest, ok := strings.Cut(string(c.head[:c.headLen]), " ")
	if !ok {
		return nil
	}
	target, _, _ := strings.Cut(rest, " ")
	return targetPath([]byte(target))
}

const (
	lingerTime  = time.Second
	lingerBytes = 16 << 20
)

// Close closes the connection. A client that is still sending would get a reset and lose the
// answer; so its sending is read away first, for a second at most.
func (c *conn) Close() error {
	var err error
	c.once.Do(func() {
		if c.linger.Load() {
			c.readAway()
		}
		c.listener.leave(c.addr)
		err = c.Conn.Close()
	})
	return err
}

func (c *conn) readAway() {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.Conn.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	var scratch [4096]byte
	for left := lingerBytes; left > 0; {
		n, err := c.Conn.Read(scratch[:])
		if err != nil {
			return
		}
		left -= n
	}
}

// fastLog brings what fasthttp has to say into the structured log, without its details: they repeat
// lines and values of a request that cannot be read, and one of these may be a key.
type fastLog struct{}

// Printf logs one message: what kind of thing happened, and the kinds of errors.
func (fastLog) Printf(format string, args ...any) {
	var kinds []string
	for _, arg := range args {
		if _, ok := arg.(error); ok {
			kinds = append(kinds, fmt.Sprintf("%T", arg))
		}
	}
	slog.Debug("http", "message", format, "errors", kinds)
}

// Drain lets the clients go before Shutdown, for as long as it is told: everything is answered as
// before, new connections included, and each answer announces that its connection closes. A client
// that asks again within that time loses no request, and one that watches /readyz sends none any
// more. It ends early with ctx. A connection that is used again only later may be closed as its
// request arrives.
func (s *Server) Drain(ctx context.Context, lasts time.Duration) {
	s.draining.Store(true)
	ctx, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	<-ctx.Done()
}

// leaving closes the connection of each answer while the server drains.
func (s *Server) leaving(handler fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		handler(ctx)
		if s.draining.Load() {
			closeAfterAnswer(ctx)
		}
	}
}
