package server

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// TestClientAddress: only what a configured proxy has added counts.
func TestClientAddress(t *testing.T) {
	proxies := []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"),
	}
	for _, row := range []struct {
		from      string
		forwarded []string
		want      string
	}{
		{"203.0.113.9", nil, "203.0.113.9"},
		{"203.0.113.9", []string{"198.51.100.1"}, "203.0.113.9"},
		{"10.0.0.1", nil, "10.0.0.1"},
		{"10.0.0.1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"::ffff:10.0.0.1", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"10.0.0.1", []string{"6.6.6.6, 198.51.100.1"}, "198.51.100.1"},
		{"10.0.0.1", []string{"6.6.6.6", "198.51.100.1"}, "198.51.100.1"},
		{"10.0.0.1", []string{"6.6.6.6, 198.51.100.1 , 10.2.0.1"}, "198.51.100.1"},
		{"10.0.0.1", []string{"6.6.6.6, 198.51.100.1", "10.2.0.1"}, "198.51.100.1"},
		{"10.0.0.1", []string{"10.3.0.1"}, "10.3.0.1"},
		{"10.0.0.1", []string{"198.51.100.1:4711"}, "198.51.100.1"},
		{"fd00::1", []string{"[2001:db8::7]:4711"}, "2001:db8::7"},
		{"fd00::1", []string{"2001:db8::7"}, "2001:db8::7"},
		{"10.0.0.1", []string{"6.6.6.6, unknown"}, "10.0.0.1"},
		{"10.0.0.1", []string{"6.6.6.6, "}, "10.0.0.1"},
		{"10.0.0.1", []string{""}, "10.0.0.1"},
	} {
		var ctx fasthttp.RequestCtx
		for _, line := range row.forwarded {
			ctx.Request.Header.Add("X-Forwarded-For", line)
		}
		ctx.SetRemoteAddr(&net.TCPAddr{IP: net.ParseIP(row.from), Port: 1})
		require.Equal(t, row.want, ClientAddress(&ctx, proxies).String(), "%v", row)
		require.Equal(t, netip.MustParseAddr(row.from).Unmap(), ClientAddress(&ctx, nil), "no proxies")
	}
}
