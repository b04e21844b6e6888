package workspaceapi

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/workspace"
	"tollgate/server"
)

// TestSourcesOfSignups: an IPv4 address is one caller however it is written, an IPv6 network of 64
// bits is one, whatever the port; their networks are those of 24, and of 56 and 48 bits.
func TestSourcesOfSignups(t *testing.T) {
	of := func(text string) (c workspace.SignUp) {
		addr, err := net.ResolveTCPAddr("tcp", text)
		require.NoError(t, err)
		c.Source, c.Wider, c.Network = server.Sources(addr.AddrPort().Addr())
		return c
	}
	for _, same := range [][2]string{
		{"192.0.2.1:1000", "192.0.2.1:2000"},
		{"192.0.2.1:1", "[::ffff:192.0.2.1]:1"},
		{"[2001:db8::1]:1", "[2001:db8::ffff:ffff:ffff:ffff]:2"},
	} {
		require.Equal(t, of(same[0]), of(same[1]), same)
	}
	for other, same := range map[[2]string][3]bool{ // source, wider, network
		{"192.0.2.1:1", "192.0.2.2:1"}:                  {false, true, true},
		{"192.0.2.1:1", "192.0.3.1:1"}:                  {false, true, false},
		{"[2001:db8::1]:1", "[2001:db8:0:1::1]:1"}:      {false, true, true},
		{"[2001:db8::1]:1", "[2001:db8:0:100::1]:1"}:    {false, false, true},
		{"[2001:db8::1]:1", "[2001:db8:1::1]:1"}:        {false, false, false},
		{"[2001:db8::1]:1", "192.0.2.1:1"}:              {false, false, false},
		{"[2001:db8::1]:1", "[2001:db8:0:0:1::1]:8000"}: {true, true, true},
	} {
		a, b := of(other[0]), of(other[1])
		require.Equal(t, same, [3]bool{
			a.Source == b.Source, a.Wider == b.Wider, a.Network == b.Network,
		}, other)
	}
	require.Equal(t, "192.0.2.0/24", networkText(of("192.0.2.1:1").Network))
	require.Equal(t, "2001:db8:7::/48", networkText(of("[2001:db8:7:8::1]:1").Network))
	require.Empty(t, networkText([16]byte{}))
}

// TestSecretsAreNotCached: what is shown once stays in no cache, and an approval link goes out to
// no other site.
func TestSecretsAreNotCached(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	shown := n.send("POST", "/v1/signup", `{"label":"x"}`, "", nil).is(201, "")
	asked := c.keyed("/v1/purchases", "buy-three", `{"runs":3}`).is(402, "payment_required")
	id := asked.at("purchase", "id").(string)
	renewed := c.call("POST", "/v1/purchases/"+id+"/approval-link", "").is(200, "")
	link := strings.TrimPrefix(renewed.at("approval_url").(string), publicURL)
	page := n.send("GET", link, "", "", nil).is(200, "")
	for name, a := range map[string]answer{
		"key": shown, "402": asked, "new link": renewed, "page": page,
	} {
		require.Equal(t, "no-store", a.header.Get("Cache-Control"), name)
	}
	require.Equal(t, "no-referrer", page.header.Get("Referrer-Policy"))
}
