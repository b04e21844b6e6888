package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
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

// checkAddresses refuses addresses at which no node can be reached. HTTP and Ops may be empty.
func (m *Member) checkAddresses() error {
	for _, a := range []struct{ use, address string }{
		{"raft", m.Raft}, {"http", m.HTTP}, {"ops", m.Ops},
	} {
		if a.address == "" && a.use != "raft" {
			continue
		}
		host, port, err := net.SplitHostPort(a.address)
		n, bad := strconv.ParseUint(port, 10, 16)
		if err != nil || bad != nil || n == 0 || host == "" || strings.Contains(host, "?") {
			return fmt.Errorf("%s of %s: %q: want host:port, with a port from 1 to 65535", a.use, m.ID,
				a.address)
		}
	}
	return nil
}

// completedBy is the member with the other's HTTP and Ops if it has none.
func (m Member) completedBy(other Member) Member {
	m.HTTP, m.Ops = cmp.Or(m.HTTP, other.HTTP), cmp.Or(m.Ops, other.Ops)
	return m
}

// reachedWith is the member whose listeners at every address of its machine are named by the host
// at which others reach it.
func (m Member) reachedWith(raft string) Member {
	at, _, err := net.SplitHostPort(raft)
	if err != nil {
		return m
	}
	for _, a := range []*string{&m.HTTP, &m.Ops} {
		host, port, err := net.SplitHostPort(*a)
		ip, bad := netip.ParseAddr(host)
		if err == nil && (host == "" || bad == nil && ip.IsUnspecified()) {
			*a = net.JoinHostPort(at, port)
		}
	}
	return m
}

// callKind numbers requests. Numbers are never reused.
type callKind byte

const (
	callClock     callKind = 1 // payload empty; answer: unix milliseconds, 8 bytes
	callReadIndex callKind = 2 // payload: milliseconds to wait, varint; answer: see reader.indexAnswer
	callFrame     callKind = 7 // see frame.go; 3 was a frame without runs
	callSegment   callKind = 4 // payload: part, number; answer: see segment
	callChange    callKind = 5 // payload: a change of the members, see change; answer: changed
	callProgress  callKind = 6 // payload empty; answer: see progressReport
	callAsk       callKind = 8 // payload: a question for the machine; answer: see asker.serve
	callTurn      callKind = 9 // payload empty; answer: turnNone, turnWanted or turnTaken, 1 byte
	answerBit     callKind = 0x80
)
