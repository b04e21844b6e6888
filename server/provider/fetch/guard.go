package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// guard decides what may be dialled.
type guard struct {
	guardian *ssrf.Guardian
	// ports holds the host:port pairs that are allowed in addition to ports 80 and 443, hosts those
	// of which every port is.
	ports, hosts map[string]bool
	own          *own
	dialer       net.Dialer
}

func newGuard(c *Config) (*guard, error) {
	var v4, v6 []netip.Prefix
	for _, p := range c.AllowPrivate {
		if !p.IsValid() {
			return nil, errors.New("fetch: AllowPrivate holds a prefix that is none")
		}
		if p.Addr().Is4In6() {
			if p.Bits() < 96 {
				return nil, fmt.Errorf("fetch: AllowPrivate %s is wider than IPv4", p)
			}
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	g := &guard{
		// Ports are judged together with the host, in dial.
		guardian: ssrf.New(ssrf.WithAnyPort(),
			ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...)),
		ports: make(map[string]bool, len(c.AllowHosts)),
		hosts: map[string]bool{},
	}
	for _, hostPort := range c.AllowHosts {
		host, port, err := net.SplitHostPort(hostPort)
		if err != nil {
			return nil, fmt.Errorf("fetch: AllowHosts %q is not host:port: %w", hostPort, err)
		}
		every := port == "*"
		if every {
			port = "80"
		}
		t, err := parseTarget("http://" + net.JoinHostPort(host, port))
		if err != nil || port == "" {
			return nil, fmt.Errorf("fetch: AllowHosts %q is not host:port", hostPort)
		}
		if every {
			g.hosts[t.host] = true
		} else {
			g.ports[t.hostPort()] = true
		}
	}
	var err error
	if g.own, err = newOwn(c, slices.Concat(v4, v6)); err != nil {
		return nil, err
	}
	g.dialer = net.Dialer{
		Timeout:  c.Timeout,
		Resolver: c.Resolver,
		Control:  g.control,
		// No probes: connections live for seconds.
		KeepAlive: -1,
		// Both families are tried, each address is judged by control.
		FallbackDelay: 300 * time.Millisecond,
	}
	return g, nil
}

// check applies the rules that need no network, the address rule included where the host is an
// address.
func (g *guard) check(t *target, named uint16) error {
	if !g.portAllowed(t.host, t.port, named) {
		return &Refusal{
			Rule: RulePort, Host: t.hostPort(),
			Detail: "only ports 80 and 443, those that the configuration names, and a flow's own",
		}
	}
	if t.addr.IsValid() {
		if err := g.guardian.SafeAddr(t.addr); err != nil {
			return refusedAddress(t.hostPort(), t.addr)
		}
	}
	if g.own.saysSo(t.host, t.port) || t.addr.IsValid() && g.own.holds(t.addr, t.port) {
		return refusedOwn(t.hostPort())
	}
	return nil
}

func (g *guard) portAllowed(host string, port, named uint16) bool {
	return port == 80 || port == 443 || port == named && PortNamed(port) || g.hosts[host] ||
		g.ports[net.JoinHostPort(host, strconv.Itoa(int(port)))]
}

// control runs after the name was resolved, on the very address that connect(2) is about to get:
// whatever a resolver answers the second time cannot matter.
func (g *guard) control(network, address string, conn syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return &Refusal{Rule: RuleAddress, Detail: "not an address"}
	}
	if err = g.guardian.Safe(network, address, conn); err != nil {
		return refusedAddress("", at.Addr())
	}
	if g.own.holds(at.Addr().Unmap(), at.Port()) {
		return refusedOwn("")
	}
	return nil
}

func refusedOwn(host string) *Refusal {
	return &Refusal{
		Rule: RuleOwn, Host: host,
		Detail: "it belongs to this service, or to the machine that it runs on",
	}
}

func refusedAddress(host string, addr netip.Addr) *Refusal {
	return &Refusal{
		Rule: RuleAddress, Host: host,
		Detail: addr.String() + " is not a public address, and the configuration does not name it",
	}
}

// dial is the transport's only way out.
func (g *guard) dial(ctx context.Context, network, hostPort string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, &Refusal{Rule: RuleHost, Detail: "not host:port"}
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || !g.portAllowed(strings.ToLower(host), uint16(port), portOf(ctx)) {
		return nil, &Refusal{Rule: RulePort, Host: hostPort, Detail: "the port is not allowed"}
	}
	g.own.refresh(ctx)
	return g.dialer.DialContext(ctx, network, hostPort)
}
