package server

import (
	"crypto/sha256"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
)

// ClientAddress is the address that a request comes from: the connection's, or, where that is one
// of the proxies, the newest in X-Forwarded-For that is none of them. Each proxy adds the address
// that it was called from at the end, so that what a client has put there itself is never reached.
// What is not an address ends the way back: the proxy that was there is the answer.
func ClientAddress(ctx *fasthttp.RequestCtx, proxies []netip.Prefix) netip.Addr {
	tcp, ok := ctx.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	at := tcp.AddrPort().Addr().Unmap()
	lines := ctx.Request.Header.PeekAll("X-Forwarded-For")
	for i := len(lines) - 1; i >= 0; i-- {
		rest := string(lines[i])
		for more := true; more; {
			if !among(proxies, at) {
				return at
			}
			comma := strings.LastIndexByte(rest, ',')
			before, ok := forwarded(rest[comma+1:])
			if !ok {
				return at
			}
			at, more = before, comma >= 0
			rest = rest[:max(comma, 0)]
		}
	}
	return at
}

// forwarded reads one address of X-Forwarded-For; some proxies write the port too.
func forwarded(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap().WithZone(""), true
	}
	at, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return at.Unmap().WithZone(""), err == nil
}

func among(networks []netip.Prefix, at netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(at) })
}

// Sources are what signups are counted by: hashes of the address (of the /64 of an IPv6 one) and of
// its /56, which only IPv6 has, and the first address of its /48, or of its /24 as IPv6 maps IPv4.
// What is not known is zero.
func Sources(ip netip.Addr) (address, wider, network [16]byte) {
	ip = ip.Unmap()
	address = source(ip, 64)
	bits := 24
	if ip.Is6() {
		bits, wider = 48, source(ip, 56)
	}
	if prefix, err := ip.Prefix(bits); err == nil {
		network = prefix.Addr().As16()
	}
	return address, wider, network
}

// source is a hash of a caller's address; of IPv6 its network of so many bits.
func source(ip netip.Addr, bits int) [16]byte {
	text := ip.String()
	if prefix, err := ip.Prefix(bits); ip.Is6() && err == nil {
		text = prefix.String()
	}
	sum := sha256.Sum256([]byte("signup " + text))
	return [16]byte(sum[:16])
}
