package cluster

import (
	"context"
	"net"
	"time"
)

// Network opens connections between nodes. The default is TCP; tests put one in its place that
// they can cut.
type Network interface {
	// Listen announces a local address, host:port.
	Listen(address string) (net.Listener, error)
	// Dial connects to an address within the timeout.
	Dial(address string, timeout time.Duration) (net.Conn, error)
}

// tcp is the Network of the operating system. Unanswered data ends a connection after 5 s, so
// that a peer whose machine vanished is noticed.
type tcp struct{}

var keepAlive = net.KeepAliveConfig{
	Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 5,
}

func (tcp) Listen(address string) (net.Listener, error) {
	l := net.ListenConfig{KeepAliveConfig: keepAlive}
	return l.Listen(context.Background(), "tcp", address)
}

func (tcp) Dial(address string, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout, KeepAliveConfig: keepAlive}
	return d.Dial("tcp", address)
}
