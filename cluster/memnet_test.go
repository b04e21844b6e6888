package cluster

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// memNetwork is a network in memory whose links a test can cut. It runs under synctest.
type memNetwork struct {
	mu        sync.Mutex
	cond      *sync.Cond
	listeners map[string]*memListener
	cut       map[[2]string]bool
	refused   map[[2]string]bool       // see hangUp
	dialed    map[[2]string][]*memConn // the accepting ends, by who dialled whom
}

func newMemNetwork() *memNetwork {
	n := &memNetwork{
		listeners: make(map[string]*memListener), cut: make(map[[2]string]bool),
		refused: make(map[[2]string]bool), dialed: make(map[[2]string][]*memConn),
	}
	n.cond = sync.NewCond(&n.mu)
	return n
}

// host is the network as the node at one address sees it.
type host struct {
	net     *memNetwork
	address string
}

func (n *memNetwork) host(address string) Network { return host{n, address} }

// cutLink stops data from one node to another. What was sent before still arrives; what is sent
// afterwards waits until the link is mended, as it does in TCP.
func (n *memNetwork) cutLink(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[[2]string{from, to}] = true
}

// isolate cuts a node off from all others, both ways.
func (n *memNetwork) isolate(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for other := range n.listeners {
		if other != address {
			n.cut[[2]string{address, other}], n.cut[[2]string{other, address}] = true, true
		}
	}
}

// hangUp ends the connections between two nodes, and refuses new ones, as one of them sees it. The
// other is cut off and told nothing: something between the two does that.
func (n *memNetwork) hangUp(address, seenBy string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, pair := range [][2]string{{address, seenBy}, {seenBy, address}} {
		n.cut[pair] = true
		for _, c := range n.dialed[pair] {
			if c.from != seenBy {
				c = c.peer
			}
			c.hungUp = true
		}
	}
	n.refused[[2]string{seenBy, address}] = true
	n.cond.Broadcast()
}

// mend restores every link.
func (n *memNetwork) mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
	clear(n.refused)
	n.cond.Broadcast()
}

// hold keeps what one node has sent, and will send, over the connections that it dialled to another
// so far: it arrives when release is called, closed or not. New connections are as ever.
func (n *memNetwork) hold(from, to string) (release func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	held := append([]*memConn(nil), n.dialed[[2]string{from, to}]...)
	set := func(on bool) {
		for _, c := range held {
			c.held = on
		}
	}
	set(true)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		set(false)
		n.cond.Broadcast()
	}
}

func (h host) Listen(address string) (net.Listener, error) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if h.net.listeners[address] != nil {
		return nil, errors.New("address in use")
	}
	l := &memListener{
		host: h, address: address, arrivals: make(chan net.Conn), closed: make(chan struct{}),
	}
	h.net.listeners[address] = l
	return l, nil
}

func (h host) Dial(address string, timeout time.Duration) (net.Conn, error) {
	n := h.net
	n.mu.Lock()
	l := n.listeners[address]
	cut := n.cut[[2]string{h.address, address}] || n.cut[[2]string{address, h.address}]
	refused := n.refused[[2]string{h.address, address}]
	n.mu.Unlock()
	late := time.After(timeout)
	if refused {
		l = nil
	} else if cut {
		<-late
		return nil, os.ErrDeadlineExceeded
	}
	if l == nil {
		return nil, errors.New("connection refused")
	}
	here, there := n.pair(h.address, address)
	n.mu.Lock()
	n.dialed[[2]string{h.address, address}] = append(n.dialed[[2]string{h.address, address}], there)
	n.mu.Unlock()
	select {
	case l.arrivals <- there:
		return here, nil
	case <-l.closed:
		return nil, errors.Join(errors.New("connection refused"), here.Close(), there.Close())
	case <-late:
		return nil, errors.Join(os.ErrDeadlineExceeded, here.Close(), there.Close())
	}
}

type memListener struct {
	host     host
	address  string
	arrivals chan net.Conn
	closed   chan struct{}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.arrivals:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.host.net.mu.Lock()
	defer l.host.net.mu.Unlock()
	delete(l.host.net.listeners, l.address)
	close(l.closed)
	return nil
}

func (l *memListener) Addr() net.Addr { return serverAddr(l.address) }

// memConn is one end of a connection. All its state is guarded by the network's lock.
type memConn struct {
	net      *memNetwork
	from, to string
	peer     *memConn
	in       []byte // arrived, not read
	closed   bool
	held     bool // what has arrived cannot be read yet
	hungUp   bool // the other end has ended it, as this one sees it
	readBy   time.Time
	writeBy  time.Time
}

// memBuffer is how much may be under way to a reader.
const memBuffer = 256 << 10

func (n *memNetwork) pair(from, to string) (here, there *memConn) {
	here = &memConn{net: n, from: from, to: to}
	there = &memConn{net: n, from: to, to: from}
	here.peer, there.peer = there, here
	return here, there
}

func (c *memConn) Read(p []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	for len(c.in) == 0 || c.held {
		switch {
		case c.closed:
			return 0, net.ErrClosed
		case expired(c.readBy):
			return 0, os.ErrDeadlineExceeded
		case c.hungUp:
			return 0, io.EOF
		case !c.held && c.peer.closed && !c.net.cut[[2]string{c.to, c.from}]:
			return 0, io.EOF
		}
		c.net.cond.Wait()
	}
	k := copy(p, c.in)
	c.in = c.in[k:]
	c.net.cond.Broadcast()
	return k, nil
}

func (c *memConn) Write(p []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	sent := 0
	for sent < len(p) {
		switch {
		case c.closed:
			return sent, net.ErrClosed
		case expired(c.writeBy):
			return sent, os.ErrDeadlineExceeded
		case c.hungUp:
			return sent, io.ErrClosedPipe
		case c.peer.closed && !c.net.cut[[2]string{c.from, c.to}]:
			return sent, io.ErrClosedPipe
		case c.net.cut[[2]string{c.from, c.to}] || len(c.peer.in) >= memBuffer:
			c.net.cond.Wait()
			continue
		}
		k := min(len(p)-sent, memBuffer-len(c.peer.in))
		c.peer.in = append(c.peer.in, p[sent:sent+k]...)
		sent += k
		c.net.cond.Broadcast()
	}
	return sent, nil
}

func expired(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

func (c *memConn) Close() error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.closed = true
	c.net.cond.Broadcast()
	return nil
}

func (c *memConn) wakeAt(t time.Time) {
	if !t.IsZero() {
		time.AfterFunc(time.Until(t)+1, func() {
			c.net.mu.Lock()
			defer c.net.mu.Unlock()
			c.net.cond.Broadcast()
		})
	}
}

func (c *memConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *memConn) SetReadDeadline(t time.Time) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.readBy = t
	c.wakeAt(t)
	return nil
}

func (c *memConn) SetWriteDeadline(t time.Time) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.writeBy = t
	c.wakeAt(t)
	return nil
}

func (c *memConn) LocalAddr() net.Addr  { return serverAddr(c.from) }
func (c *memConn) RemoteAddr() net.Addr { return serverAddr(c.to) }
