package server

import (
	"net"
	"net/netip"
	"strings"

	"github.com/valyala/fasthttp"
)

// ClientAddress is the address that a request comes from: the connection's, or, where that is one
// of the proxies, the newest in X-Forwarded-For that is none of them. Each proxy adds the address
// that it was called from at the end, so that what a client has put there itself is never reached.
// What is no address ends the way back: the proxy that was there is the answer.
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
	for _, network := range networks {
		if network.Contains(at) {
			return true
		}
	}
	return false
}
