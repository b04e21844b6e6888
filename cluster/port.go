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
// 1 to 3 were the same without a greeting.
const (
	streamRaftBilling   byte = 5
	streamRaftWorkspace byte = 6
	streamLink          byte = 7
	// streamIdentified precedes the identity of a cluster that has one, and then one of those above.
	streamIdentified byte = 4
)

const (
	// greetTimeout is how long a new connection may take for its handshake and first byte.
	greetTimeout = 5 * time.Second
	// dialTimeout bounds connecting: a peer that is there answers a local network at once.
	dialTimeout = time.Second
	// maxGreeters bounds connections that have not said yet what they are.
	maxGreeters = 128
)

var (
	errPortClosed = errors.New("cluster: the port is closed")
	errForeign    = errors.New(
		"cluster: that node is of another cluster, or of the time before a restore")
)

// foreignEvery is how many connections of foreign nodes are logged as one line: such nodes retry.
const foreignEvery = 1000

// port is the one listening address of a node: it tells connections apart by their first byte,
// wraps both directions in TLS when configured, and knows every connection, so that Close ends
// them all and no goroutine of raft's transport stays behind.
type port struct {
	network  Network
	listener net.Listener
	tls      *tls.Config
	node     string
	identity []byte // of the cluster; empty if it has none
	log      *slog.Logger
	greeter  greeter
	detours  map[string]string // by a member's id: the address that is dialled in place of its own
	streams  map[byte]chan net.Conn
	greeting chan struct{} // one token per connection whose first byte has not arrived
	closing  chan struct{}
	wg       sync.WaitGroup
	// foreign counts the connections of other clusters' nodes.
	foreign atomic.Uint64

	mu     sync.Mutex
	conns  map[*portConn]struct{}
	closed bool
}

func openPort(c *Config, d greeter) (*port, error) {
	l, err := c.Network.Listen(c.Listen)
	if err != nil {
		return nil, fmt.Errorf("cluster: listen for other nodes: %w", err)
	}
	identity, err := hex.DecodeString(c.Cluster)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	p := &port{
		network: c.Network, listener: l, tls: c.TLS, node: c.NodeID, identity: identity, log: c.Log,
		greeter: d, detours: c.Dial,
		streams: map[byte]chan net.Conn{
			streamRaftBilling: make(chan net.Conn), streamRaftWorkspace: make(chan net.Conn),
			streamLink: make(chan net.Conn),
		},
		greeting: make(chan struct{}, maxGreeters),
		closing:  make(chan struct{}),
		conns:    make(map[*portConn]struct{}),
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

// greet does the handshake, reads the first byte and hands the connection to its handler.
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
	if errors.Is(err, errForeign) {
		err = errors.Join(err, p.turnAway(conn))
	}
	if err != nil {
		p.discard(conn, err)
		return
	}
	stream, ok := p.streams[first]
	if !ok {
		p.discard(conn, fmt.Errorf("unknown stream %d", first))
		return
	}
	if err := p.admit(conn, first); err != nil {
		p.discard(conn, err)
		return
	}
	select {
	case stream <- conn:
	case <-p.closing:
		p.discard(conn, errPortClosed)
	}
}

// readGreeting reads the start of a connection: the cluster's identity, if it has one, and what the
// connection carries. A node of another cluster, or of the time before a restore, gets nothing: its
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
		return 0, errForeign
	}
	return first[0], nil
}

// turnAway tells a node of another cluster that this one exists. Without that answer a node with an
// empty folder could not tell a foreign node's refusal from an address where nothing runs, and
// would begin a second cluster. The greeting is read first: a connection that is closed with unread
// bytes is reset, and a reset can overtake the answer.
func (p *port) turnAway(conn net.Conn) error {
	if _, err := takeGreeting(conn); err != nil {
		return err
	}
	return sendGreeting(conn, greeting{
		Node: p.node, Cluster: hex.EncodeToString(p.identity), Refused: refusedForeign,
		Why: errForeign.Error(),
	})
}

// hello is what readGreeting reads.
func (p *port) hello(stream byte) []byte {
	if len(p.identity) == 0 {
		return []byte{stream}
	}
	return append(append([]byte{streamIdentified}, p.identity...), stream)
}

// admit exchanges greetings with a node that has dialled.
func (p *port) admit(conn *portConn, stream byte) error {
	from, err := takeGreeting(conn)
	if err != nil {
		return err
	}
	answer := p.greeter.answer(stream, from)
	if err := sendGreeting(conn, answer); err != nil {
		return err
	}
	if answer.Refused != "" {
		return fmt.Errorf("%s: %s", answer.Refused, answer.Why)
	}
	p.mu.Lock()
	conn.stream, conn.from = stream, &from
	p.mu.Unlock()
	return conn.SetDeadline(time.Time{})
}

// expel closes incoming connections of nodes that are not admitted any more.
func (p *port) expel(unwelcome func(stream byte, from greeting) bool) {
	p.mu.Lock()
	var gone []*portConn
	for c := range p.conns {
		if c.from != nil && unwelcome(c.stream, *c.from) {
			gone = append(gone, c)
		}
	}
	p.mu.Unlock()
	for _, c := range gone {
		p.discard(c, errors.New("the members have changed"))
	}
}

func (p *port) discard(conn *portConn, why error) {
	switch {
	case errors.Is(why, errPortClosed):
	case errors.Is(why, errForeign) && p.foreign.Add(1)%foreignEvery == 1:
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

// dial connects to the node with a member's address, directly or by its detour, and sends what the
// connection carries.
func (p *port) dial(address string, stream byte, timeout time.Duration) (net.Conn, error) {
	conn, _, err := p.visit(address, stream, timeout)
	return conn, err
}

// visit is dial; it also returns the other end's greeting.
func (p *port) visit(
	address string, stream byte, timeout time.Duration,
) (net.Conn, greeting, error) {
	timeout = min(timeout, dialTimeout)
	address, disk := split(address)
	own := p.greeter.introduce(address)
	if disk != "" {
		own.WantDisk = disk // of a member that was removed since, the list has none
	}
	target := address
	if detour, ok := p.detours[own.WantNode]; ok {
		target = detour
	}
	raw, err := p.network.Dial(target, timeout)
	if err != nil {
		return nil, greeting{}, err
	}
	conn, err := p.track(raw)
	if err != nil {
		return nil, greeting{}, err
	}
	answer, err := p.introduce(conn, address, stream, own)
	if err == nil {
		err = p.greeter.meet(address, answer)
	}
	if err != nil {
		return nil, answer, errors.Join(err, conn.Close())
	}
	return conn, answer, nil
}

// introduce does the handshake and exchanges greetings.
func (p *port) introduce(
	conn *portConn, address string, stream byte, own greeting,
) (answer greeting, err error) {
	if err := conn.SetDeadline(time.Now().Add(greetTimeout)); err != nil {
		return answer, err
	}
	if p.tls != nil {
		if err := p.secure(conn, address); err != nil {
			return answer, err
		}
	}
	if _, err := conn.Write(p.hello(stream)); err != nil {
		return answer, err
	}
	if err := sendGreeting(conn, own); err != nil {
		return answer, err
	}
	if answer, err = takeGreeting(conn); err != nil {
		return answer, err
	}
	return answer, conn.SetDeadline(time.Time{})
}

// secure does the dialling end's handshake.
func (p *port) secure(conn *portConn, address string) error {
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
	return nil
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
	// from is the node that dialled, and what for; nil if this node did. The port's lock guards them.
	from   *greeting
	stream byte
	once   sync.Once
	err    error
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
			conn = t.NetConn() // TLS's close_notify would wait for a peer that may be gone
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
