package runner

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tollgate/server/provider/fetch"
)

// What one run may do through its proxy.
const (
	maxTunnels   = 16
	maxProxied   = 64 << 20 // bytes, both ways together
	maxRequested = 2 << 20  // bytes of one plain request
	proxyUser    = "run"
)

// proxy is the way out of one run: an HTTP proxy on loopback that takes requests with its own
// password alone, goes to the hosts of the run and nowhere else, and dials by the guarded client,
// so that an allowed name cannot lead to a private address either.
type proxy struct {
	allowed  map[string]bool // host:port
	password string
	web      *fetch.Client
	server   *http.Server
	listener net.Listener
	forward  *http.Transport
	served   chan error
	slots    chan struct{}
	left     atomic.Int64 // bytes
	// reached reports whether a host of the run has sent something.
	reached atomic.Bool

	mu      sync.Mutex
	tunnels map[net.Conn]bool // nil after close
}

// openProxy serves a proxy for a run until close.
func openProxy(web *fetch.Client, hosts []string) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &proxy{
		allowed: map[string]bool{}, password: rand.Text(), web: web, listener: listener,
		served: make(chan error, 1), slots: make(chan struct{}, maxTunnels),
		tunnels: map[net.Conn]bool{},
	}
	p.left.Store(maxProxied)
	for _, host := range hosts {
		if _, _, err := net.SplitHostPort(host); err == nil {
			p.allowed[strings.ToLower(host)] = true
			continue
		}
		host = strings.ToLower(strings.Trim(host, "[]"))
		p.allowed[net.JoinHostPort(host, "80")] = true
		p.allowed[net.JoinHostPort(host, "443")] = true
	}
	p.forward = &http.Transport{
		Proxy: nil, DisableCompression: true, DialContext: p.dial, MaxIdleConns: 4,
		IdleConnTimeout: 15 * time.Second, ResponseHeaderTimeout: fetch.MaxTime,
		MaxResponseHeaderBytes: fetch.MaxHeaders,
	}
	p.server = &http.Server{
		Handler: p, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10,
	}
	go func() { p.served <- p.server.Serve(listener) }()
	return p, nil
}

// url is the proxy's address, with its password.
func (p *proxy) url() string {
	return "http://" + proxyUser + ":" + p.password + "@" + p.listener.Addr().String()
}

// close ends the proxy, and every connection through it.
func (p *proxy) close() error {
	err := p.server.Close()
	p.mu.Lock()
	for conn := range p.tunnels {
		err = errors.Join(err, ignoreClosed(conn.Close()))
	}
	p.tunnels = nil
	p.mu.Unlock()
	p.forward.CloseIdleConnections()
	if served := <-p.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// dial goes to a host of the run.
func (p *proxy) dial(ctx context.Context, _, hostPort string) (net.Conn, error) {
	if !p.allowed[strings.ToLower(hostPort)] {
		return nil, fmt.Errorf("proxy: %s is not of this run", hostPort)
	}
	conn, err := p.web.Dial(ctx, hostPort)
	if err != nil {
		return nil, err
	}
	return &metered{conn, &p.left, &p.reached}, nil
}

// metered is a connection whose bytes count.
type metered struct {
	net.Conn
	left    *atomic.Int64
	reached *atomic.Bool
}

var errSpent = errors.New("proxy: the run has moved as much as a run may")

func (m *metered) Read(b []byte) (n int, err error) {
	if n, err = m.Conn.Read(b); n > 0 {
		m.reached.Store(true)
	}
	return n, m.spend(n, err)
}

func (m *metered) Write(b []byte) (n int, err error) {
	n, err = m.Conn.Write(b)
	return n, m.spend(n, err)
}

func (m *metered) spend(n int, err error) error {
	if m.left.Add(-int64(n)) < 0 {
		return errSpent
	}
	return err
}

// ServeHTTP answers CONNECT and plain requests with an absolute address.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !p.authorized(r) {
		w.Header().Set("Proxy-Authenticate", `Basic realm="run"`)
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	default:
		own(w, http.StatusServiceUnavailable, "connection_limit_reached")
		return
	}
	if r.Method == http.MethodConnect {
		p.tunnel(w, r)
		return
	}
	p.pass(w, r)
}

func (p *proxy) authorized(r *http.Request) bool {
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(proxyUser+":"+p.password))
	got := r.Header.Get("Proxy-Authorization")
	return subtle.ConstantTimeCompare([]byte(want), []byte(got)) == 1
}

// hopHeaders belong to one connection and are not passed on, nor is what only a proxy says.
var hopHeaders = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", proxyStatus,
}

// proxyStatus is the header (RFC 9209) by which a run tells our answers from its product's, which
// cannot say so: it is taken off what is passed on.
const proxyStatus = "Proxy-Status"

// own answers in the proxy's own name, by an error type of RFC 9209.
func own(w http.ResponseWriter, status int, kind string) {
	w.Header().Set(proxyStatus, "tollgate; error="+kind)
	w.WriteHeader(status)
}

// pass sends a plain request on, and its answer back.
func (p *proxy) pass(w http.ResponseWriter, r *http.Request) {
	if r.URL.Scheme != "http" || r.URL.Host == "" || r.URL.User != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	out := r.Clone(r.Context())
	out.RequestURI, out.Body = "", http.MaxBytesReader(w, r.Body, maxRequested)
	for _, name := range hopHeaders {
		out.Header.Del(name)
	}
	answer, err := p.forward.RoundTrip(out)
	if err != nil {
		p.refuse(w, err)
		return
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	for _, name := range hopHeaders {
		w.Header().Del(name)
	}
	w.WriteHeader(answer.StatusCode)
	// Where the other side, or what a run may move, ends in the middle, the agent sees it end.
	if _, err = io.Copy(w, answer.Body); errors.Join(err, answer.Body.Close()) != nil {
		panic(http.ErrAbortHandler)
	}
}

// refuse reports whether nothing could be reached, and never why: that would tell of our network.
func (p *proxy) refuse(w http.ResponseWriter, err error) {
	if refusal := (*fetch.Refusal)(nil); errors.As(err, &refusal) ||
		strings.Contains(err.Error(), "is not of this run") {
		own(w, http.StatusForbidden, "http_request_denied")
		return
	}
	own(w, http.StatusBadGateway, "destination_unavailable")
}

// tunnel connects the agent with a host of the run.
func (p *proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), fetch.MaxTime)
	far, err := p.dial(ctx, "tcp", r.Host)
	cancel()
	if err != nil {
		p.refuse(w, err)
		return
	}
	near, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		p.drop(far)
		return
	}
	defer p.drop(near)
	defer p.drop(far)
	if !p.keep(near) || !p.keep(far) {
		return
	}
	if _, err = io.WriteString(near, "HTTP/1.1 200 Connected\r\n\r\n"); err != nil {
		return
	}
	done := make(chan struct{}, 2)
	relay := func(to io.Writer, from io.Reader) {
		if _, err := io.Copy(to, from); err != nil {
			p.drop(far)
			p.drop(near)
		}
		done <- struct{}{}
	}
	go relay(far, buffered)
	go relay(near, far)
	<-done
	p.drop(far)
	p.drop(near)
	<-done
}

// keep notes a connection, so that close ends it; false when the proxy is closed already.
func (p *proxy) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tunnels == nil {
		return false
	}
	p.tunnels[conn] = true
	return true
}

// drop closes a connection. One that is closed already is not an error.
func (p *proxy) drop(conn net.Conn) {
	p.mu.Lock()
	delete(p.tunnels, conn)
	p.mu.Unlock()
	if err := conn.Close(); err != nil {
		return
	}
}
