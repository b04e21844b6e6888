package cluster

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// checkAddresses refuses addresses at which nobody can be reached. HTTP and Ops may be empty.
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

// completedBy is the member with the other's HTTP and Ops where it has none.
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
