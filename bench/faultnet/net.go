// Package faultnet stands between the nodes of a cluster that a test runs: one TCP proxy for each
// ordered pair of nodes, so that a link can be cut both ways or one way, held up, or broken,
// without any privilege. A node is led through the proxies by its setting `dial`.
package faultnet

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Net is the network between some nodes. It is safe for concurrent use.
type Net struct {
	mu      sync.Mutex
	changed *sync.Cond
	held    map[route]bool
	refused map[route]bool
	proxies map[route]net.Listener
	real    map[string]string
	pairs   map[*pair]struct{}
	carried map[route]int64
	delay   time.Duration // one way
	closed  bool
	err     error // the first trouble in closing a connection
	wg      sync.WaitGroup
}

// route is the way from one node to another.
type route struct{ from, to string }

// pair is one connection of a node to another, in two pieces with the proxy between them. Fields
// are guarded by Net.mu.
type pair struct {
	route
	ends   [2]net.Conn // the dialling node's, the other's; the second is nil until it is connected
	closed bool
}

// Open begins to listen on 127.0.0.1, once for each ordered pair of the nodes. nodes says by name
// at which address each of them listens for the others; no node needs to listen there yet.
func Open(nodes map[string]string) (*Net, error) {
	n := &Net{
		held: make(map[route]bool), refused: make(map[route]bool),
		proxies: make(map[route]net.Listener), real: nodes,
		pairs: make(map[*pair]struct{}), carried: make(map[route]int64),
	}
	n.changed = sync.NewCond(&n.mu)
	for from := range nodes {
		for to := range nodes {
			if from == to {
				continue
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, errors.Join(fmt.Errorf("faultnet: %w", err), n.Close())
			}
			way := route{from, to}
			n.proxies[way] = listener
			n.wg.Go(func() { n.accept(way, listener) })
		}
	}
	return n, nil
}

// Host is the address at which nodes reach the opener of the network.
func (n *Net) Host() string { return "127.0.0.1" }

// Dial is the value of the setting `dial` of a node: where it reaches each other node.
func (n *Net) Dial(from string) map[string]string {
	addresses := make(map[string]string)
	for way, listener := range n.proxies {
		if way.from == from {
			addresses[way.to] = listener.Addr().String()
		}
	}
	return addresses
}

// Hold stops data from one node to another, in either one's connections. Data waits until the link
// is mended, as TCP waits after lost packets, and arrives late then.
func (n *Net) Hold(from, to string) { n.set(n.held, from, to) }

// Refuse breaks the connections that one node has opened to another, and refuses new ones.
func (n *Net) Refuse(from, to string) {
	n.set(n.refused, from, to)
	n.Break(from, to)
}

func (n *Net) set(states map[route]bool, from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	states[route{from, to}] = true
}

// Isolate holds every link of a node, both ways.
func (n *Net) Isolate(id string) {
	for other := range n.real {
		if other != id {
			n.Hold(id, other)
			n.Hold(other, id)
		}
	}
}

// Unplug breaks every link of a node, both ways, and refuses new connections.
func (n *Net) Unplug(id string) {
	for other := range n.real {
		if other != id {
			n.Refuse(id, other)
			n.Refuse(other, id)
		}
	}
}

// Break ends the connections that one node has opened to another, with what is under way in them.
// New ones are let through.
func (n *Net) Break(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := range n.pairs {
		if p.route == (route{from, to}) {
			n.end(p)
		}
	}
}

// Enter changes nothing: the nodes are in one network, with the proxies between them.
func (n *Net) Enter(string) error { return nil }

// Mend restores every link. What was held is delivered now.
func (n *Net) Mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.held)
	clear(n.refused)
	n.changed.Broadcast()
}

// Carried is how many bytes went from one node to another so far.
func (n *Net) Carried(from, to string) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.carried[route{from, to}]
}

// Close stops listening and ends every connection.
func (n *Net) Close() error {
	n.mu.Lock()
	n.closed = true
	var problems []error
	for _, listener := range n.proxies {
		problems = append(problems, listener.Close())
	}
	for p := range n.pairs {
		n.end(p)
	}
	n.changed.Broadcast()
	n.mu.Unlock()
	n.wg.Wait()
	return errors.Join(append(problems, n.err)...)
}

func (n *Net) accept(way route, listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(10 * time.Millisecond) // out of descriptors: some will be closed
			continue
		}
		p := &pair{route: way, ends: [2]net.Conn{conn}}
		n.mu.Lock()
		n.pairs[p] = struct{}{}
		if n.closed || n.refused[way] {
			n.end(p)
		}
		n.wg.Go(func() { n.carry(p) })
		n.mu.Unlock()
	}
}

// dialTimeout bounds the proxy's own connecting, on this machine.
const dialTimeout = time.Second

// carry connects the other end, once data may pass, and moves bytes until either end closes.
func (n *Net) carry(p *pair) {
	if !n.await(p, p.route) || !n.await(p, route{p.to, p.from}) {
		return
	}
	there, err := net.DialTimeout("tcp", n.real[p.to], dialTimeout)
	n.mu.Lock()
	if err != nil || p.closed {
		if err == nil {
			n.note(there.Close())
		}
		n.end(p)
		n.mu.Unlock()
		return
	}
	p.ends[1] = there
	n.mu.Unlock()
	n.wg.Go(func() { n.pump(p, route{p.to, p.from}, p.ends[0], there) })
	n.pump(p, p.route, there, p.ends[0])
}

// pump moves bytes one way. The end of the data is news, too: it waits while the link is held.
func (n *Net) pump(p *pair, way route, to, from net.Conn) {
	var source io.Reader = from
	n.mu.Lock()
	delay := n.delay
	n.mu.Unlock()
	if delay > 0 {
		slow := n.delayed(from, delay)
		defer slow.close()
		source = slow
	}
	buffer := make([]byte, 64<<10)
	for {
		k, err := source.Read(buffer)
		if !n.await(p, way) {
			return
		}
		if err == nil {
			_, err = to.Write(buffer[:k])
		}
		n.mu.Lock()
		n.carried[way] += int64(k)
		if err != nil {
			n.end(p)
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
	}
}

// await returns when data may pass; false when the connection has ended.
func (n *Net) await(p *pair, way route) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for !p.closed && n.held[way] {
		n.changed.Wait()
	}
	return !p.closed
}

// end closes both ends; the caller holds the lock.
func (n *Net) end(p *pair) {
	if p.closed {
		return
	}
	p.closed = true
	delete(n.pairs, p)
	for _, conn := range p.ends {
		if conn != nil {
			n.note(conn.Close())
		}
	}
	n.changed.Broadcast()
}

// note keeps the first error for Close to tell; the caller holds the lock.
func (n *Net) note(err error) {
	if n.err == nil {
		n.err = err
	}
}
