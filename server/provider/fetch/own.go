package fetch

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The maximum age of the result of Config.Own, and the time limit of looking its names up.
const (
	ownAge    = time.Minute
	ownLookup = 2 * time.Second
)

// own holds the addresses of this service itself, from Config.Own and OwnNames.
type own struct {
	// hosts are names by which nothing is reached.
	hosts map[string]bool
	// say is Config.Own.
	say func() []string
	// opened are networks that the configuration opens.
	opened   []netip.Prefix
	resolver *net.Resolver
	// machine returns the addresses of this machine.
	machine func() ([]net.Addr, error)

	now     atomic.Pointer[listeners]
	looking sync.Mutex // held while names are looked up
	asked   time.Time
}

// listeners are our own, as they were when they were looked up; it does not change.
type listeners struct {
	// pairs are host:port. ports are those of every address of this machine.
	pairs map[string]bool
	ports map[uint16]bool
	// at are addresses with their ports.
	at map[netip.Addr][]uint16
	// found are the addresses of names.
	found map[string][]netip.Addr
}

// newOwn reads this service's own addresses from the configuration.
func newOwn(c *Config, opened []netip.Prefix) (*own, error) {
	o := &own{
		hosts: map[string]bool{}, say: c.Own, opened: opened, resolver: c.Resolver,
		machine: net.InterfaceAddrs,
	}
	if o.say == nil {
		o.say = func() []string { return nil }
	}
	for _, name := range c.OwnNames {
		t, err := parseTarget("http://" + name)
		if err != nil {
			return nil, fmt.Errorf("fetch: OwnNames %q is not a host", name)
		}
		o.hosts[t.host] = true
	}
	o.now.Store(o.read(func(string) []netip.Addr { return nil }))
	return o, nil
}

// read reads our present addresses. A pair that is none is not a listener.
func (o *own) read(lookUp func(name string) []netip.Addr) *listeners {
	l := &listeners{
		pairs: map[string]bool{}, ports: map[uint16]bool{}, at: map[netip.Addr][]uint16{},
		found: map[string][]netip.Addr{},
	}
	for _, pair := range o.say() {
		host, text, err := net.SplitHostPort(strings.ToLower(pair))
		if err != nil {
			continue
		}
		number, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			continue
		}
		port := uint16(number)
		addr, err := netip.ParseAddr(host)
		switch {
		case host == "" || err == nil && addr.IsUnspecified():
			l.ports[port] = true
			continue
		case err == nil:
			l.at[addr.Unmap()] = append(l.at[addr.Unmap()], port)
			continue
		}
		l.pairs[net.JoinHostPort(strings.TrimSuffix(host, "."), text)] = true
		if _, known := l.found[host]; !known {
			l.found[host] = lookUp(host)
		}
		for _, addr := range l.found[host] {
			l.at[addr.Unmap()] = append(l.at[addr.Unmap()], port)
		}
	}
	return l
}

// refresh reads our addresses again after a minute; dials wait for it meanwhile. A name that does
// not resolve keeps its addresses.
func (o *own) refresh(ctx context.Context) {
	o.looking.Lock()
	defer o.looking.Unlock()
	if !o.asked.IsZero() && time.Since(o.asked) < ownAge {
		return
	}
	// A caller that goes away does not leave the others without an answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ownLookup)
	defer cancel()
	before := o.now.Load()
	o.now.Store(o.read(func(name string) []netip.Addr {
		addrs, err := o.resolver.LookupNetIP(ctx, "ip", name)
		if err != nil {
			return before.found[name]
		}
		return addrs
	}))
	o.asked = time.Now()
}

// saysSo reports whether a host and a port are ours by their text.
func (o *own) saysSo(host string, port uint16) bool {
	return o.hosts[host] || o.now.Load().pairs[net.JoinHostPort(host, strconv.Itoa(int(port)))]
}

// holds reports whether an address and a port are ours: those of a listener, and all ports of an
// address of this machine, or of another node, that the configuration does not open.
func (o *own) holds(addr netip.Addr, port uint16) bool {
	now := o.now.Load()
	ports, ours := now.at[addr]
	if slices.Contains(ports, port) {
		return true
	}
	machines := o.isMachines(addr)
	if machines && now.ports[port] {
		return true
	}
	return (ours || machines) &&
		!slices.ContainsFunc(o.opened, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// isMachines reports whether an address is this machine's, or that this is not known.
func (o *own) isMachines(addr netip.Addr) bool {
	if addr.IsLoopback() || addr.IsUnspecified() {
		return true
	}
	addrs, err := o.machine()
	return err != nil || slices.ContainsFunc(addrs, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Unmap() == addr
	})
}
