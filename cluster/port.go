package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// The first byte of a connection says what it carries. Numbers are never reused.
const (
	streamRaftBilling   byte = 1
	streamRaftWorkspace byte = 2
	streamLink          byte = 3
	// streamIdentified precedes the identity of a cluster that has one, and then one of those above.
	streamIdentified byte = 4
)

const (
	// greetTimeout is how long a new connection may take for its handshake and first byte.
	greetTimeout = 5 * time.Second
	// dialTimeout bounds connecting: a peer that is there answers a local network at once.
	dialTimeout = time.Second
	// maxGreeting bounds connections that have not said yet what they are.
	maxGreeting = 128
)

var (
	errPortClosed = errors.New("cluster: the port is closed")
	errStranger   = errors.New(
		"cluster: that node is of another cluster, or of the time before a restore")
)

// strangerEvery is how many connections of strangers make one line of the log: they come back.
const strangerEvery = 1000

// port is the one listening address of a node: it tells connections apart by their first byte,
// wraps both directions in TLS when configured, and knows every connection, so that Close ends
// them all and no goroutine of raft's transport stays behind.
type port struct {
	network  Network
	listener net.Listener
	tls      *tls.Config
	identity []byte // of the cluster; empty where it has none
	log      *slog.Logger
	detours  map[string]string // a member's address to the one dialled in its place
	streams  map[byte]chan net.Conn
	greeting chan struct{} // one token per connection that has not said what it is
	closing  chan struct{}
	wg       sync.WaitGroup
	// strangers counts the connections of other clusters' nodes.
	strangers atomic.Uint64

	mu     sync.Mutex
	conns  map[*portConn]struct{}
	closed bool
}

func openPort(c *Config) (*port, error) {
	l, err := c.Network.Listen(c.Listen)
	if err != nil {
		return nil, fmt.Errorf("cluster: listen for other nodes: %w", err)
	}
	identity, err := hex.DecodeString(c.Cluster)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	p := &port{
		network: c.Network, listener: l, tls: c.TLS, identity: identity, log: c.Log,
		detours: make(map[string]string),
		streams: map[byte]chan net.Conn{
			streamRaftBilling: make(chan net.Conn), streamRaftWorkspace: make(chan net.Conn),
			streamLink: make(chan net.Conn),
		},
		greeting: make(chan struct{}, maxGreeting),
		closing:  make(chan struct{}),
		conns:    make(map[*portConn]struct{}),
	}
	for _, m := range c.Members {
		if address, ok := c.Dial[m.ID]; ok {
			p.detours[m.Raft] = address
		}
	}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is the address that is listened on.
func (p *port) Addr() net.Addr { return p.listener.Addr() }

func (p *port) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			select {
			case <-p.closing:
				return
			case <-time.After(50 * time.Millisecond): // out of descriptors, most likely
				p.log.Warn("cannot accept a connection of another node", "error", err)
				continue
			}
		}
		tracked, err := p.track(conn)
		if err != nil {
			return
		}
		select {
		case p.greeting <- struct{}{}:
			p.wg.Go(func() { p.greet(tracked) })
		default:
			p.discard(tracked, errors.New("too many connections that say nothing"))
		}
	}
}

// greet does the handshake, reads the first byte and hands the connection to whom it belongs.
func (p *port) greet(conn *portConn) {
	defer func() { <-p.greeting }()
	if err := conn.SetDeadline(time.Now().Add(greetTimeout)); err != nil {
		p.discard(conn, err)
		return
	}
	if p.tls != nil {
		secure := tls.Server(conn.Conn, p.serverTLS())
		if err := secure.Handshake(); err != nil {
			p.discard(conn, fmt.Errorf("handshake: %w", err))
			return
		}
		conn.secure(secure)
	}
	first, err := p.readGreeting(conn)
	if err != nil {
		p.discard(conn, err)
		return
	}
	stream, ok := p.streams[first]
	if !ok {
		p.discard(conn, fmt.Errorf("unknown stream %d", first))
		return
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		p.discard(conn, err)
		return
	}
	select {
	case stream <- conn:
	case <-p.closing:
		p.discard(conn, errPortClosed)
	}
}

// readGreeting reads what a connection says first: the cluster's identity, where it has one, and
// what it carries. A node of another cluster, or of the time before a restore, gets nothing: its
// log may be longer than this cluster's, and would replace it.
func (p *port) readGreeting(conn net.Conn) (stream byte, err error) {
	said := make([]byte, 0, identityBytes)
	var first [1]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil {
		return 0, err
	}
	if first[0] == streamIdentified {
		said = said[:identityBytes]
		if _, err := io.ReadFull(conn, said); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(conn, first[:]); err != nil {
			return 0, err
		}
	}
	if !bytes.Equal(said, p.identity) {
		return 0, errStranger
	}
	return first[0], nil
}

// hello is what readGreeting reads.
func (p *port) hello(stream byte) []byte {
	if len(p.identity) == 0 {
		return []byte{stream}
	}
	return append(append([]byte{streamIdentified}, p.identity...), stream)
}

func (p *port) discard(conn *portConn, why error) {
	switch {
	case errors.Is(why, errPortClosed):
	case errors.Is(why, errStranger) && p.strangers.Add(1)%strangerEvery == 1:
		p.log.Warn("connection refused", "from", conn.RemoteAddr(), "error", why)
	default:
		p.log.Debug("connection refused", "from", conn.RemoteAddr(), "error", why)
	}
	if err := conn.Close(); err != nil {
		p.log.Debug("close a refused connection", "error", err)
	}
}

func (p *port) serverTLS() *tls.Config {
	t := p.tls.Clone()
	t.ClientAuth = tls.RequireAndVerifyClientCert
	t.MinVersion = tls.VersionTLS13
	return t
}

// dial connects to the node with a member's address, directly or by its detour, and says what the
// connection carries.
func (p *port) dial(address string, stream byte, timeout time.Duration) (net.Conn, error) {
	timeout = min(timeout, dialTimeout)
	target := address
	if detour, ok := p.detours[address]; ok {
		target = detour
	}
	raw, err := p.network.Dial(target, timeout)
	if err != nil {
		return nil, err
	}
	conn, err := p.track(raw)
	if err != nil {
		return nil, err
	}
	if err := p.introduce(conn, address, stream); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func (p *port) introduce(conn *portConn, address string, stream byte) error {
	if err := conn.SetDeadline(time.Now().Add(greetTimeout)); err != nil {
		return err
	}
	if p.tls != nil {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		t := p.tls.Clone()
		t.ServerName, t.MinVersion = host, tls.VersionTLS13
		secure := tls.Client(conn.Conn, t)
		ctx, cancel := context.WithTimeout(context.Background(), greetTimeout)
		defer cancel()
		if err := secure.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("cluster: handshake with %s: %w", address, err)
		}
		conn.secure(secure)
	}
	if _, err := conn.Write(p.hello(stream)); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

func (p *port) track(raw net.Conn) (*portConn, error) {
	conn := &portConn{Conn: raw, port: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.Join(errPortClosed, raw.Close())
	}
	p.conns[conn] = struct{}{}
	return conn, nil
}

// Close stops listening and ends every connection, in both directions.
func (p *port) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	conns := make([]*portConn, 0, len(p.conns))
	for c := range p.conns {
		conns = append(conns, c)
	}
	p.mu.Unlock()
	close(p.closing)
	err := p.listener.Close()
	for _, c := range conns {
		if cerr := c.Close(); cerr != nil {
			p.log.Debug("close a connection", "error", cerr)
		}
	}
	p.wg.Wait()
	return err
}

// portConn is a connection that its port knows. Conn is the TLS connection once there is one.
type portConn struct {
	net.Conn
	port *port
	once sync.Once
	err  error
}

func (c *portConn) secure(t *tls.Conn) {
	c.port.mu.Lock()
	defer c.port.mu.Unlock()
	c.Conn = t
}

// Close ends the connection; later calls answer what the first one did.
func (c *portConn) Close() error {
	c.once.Do(func() {
		c.port.mu.Lock()
		delete(c.port.conns, c)
		conn := c.Conn
		c.port.mu.Unlock()
		if t, ok := conn.(*tls.Conn); ok {
			conn = t.NetConn() // a polite goodbye would wait for a peer that may be gone
		}
		c.err = conn.Close()
	})
	return c.err
}

// layer is what one stream of the port looks like to raft.NetworkTransport: a raft.StreamLayer.
type layer struct {
	port   *port
	stream byte
	// self is the address under which the other nodes know this one. Raft compares it with the
	// addresses of its configuration, so it must not be the wildcard that is listened on.
	self raft.ServerAddress
	// closing ends this layer's Accept alone; the port goes on.
	closing chan struct{}
	once    sync.Once
}

var _ raft.StreamLayer = (*layer)(nil)

func (p *port) layer(stream byte, self string) *layer {
	return &layer{
		port: p, stream: stream, self: raft.ServerAddress(self), closing: make(chan struct{}),
	}
}

// Accept waits for the next connection of this stream.
func (l *layer) Accept() (net.Conn, error) {
	select {
	case conn := <-l.port.streams[l.stream]:
		return conn, nil
	case <-l.closing:
		return nil, errPortClosed
	case <-l.port.closing:
		return nil, errPortClosed
	}
}

// Close ends Accept.
func (l *layer) Close() error {
	l.once.Do(func() { close(l.closing) })
	return nil
}

// Addr is the address under which the other nodes know this one.
func (l *layer) Addr() net.Addr { return serverAddr(l.self) }

// Dial connects to the same stream of another node.
func (l *layer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return l.port.dial(string(address), l.stream, timeout)
}

type serverAddr string

func (serverAddr) Network() string  { return "tcp" }
func (a serverAddr) String() string { return string(a) }
