package fetch

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatIsOursIsNotReached: a listener of this service is reached neither by its address nor by
// any name, though the configuration opens its network; what else is there, is.
func TestWhatIsOursIsNotReached(t *testing.T) {
	answer := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	ours, product := httptest.NewServer(answer), httptest.NewServer(answer)
	defer ours.Close()
	defer product.Close()
	port := strings.TrimPrefix(ours.URL, "http://127.0.0.1")
	for name, pair := range map[string]string{
		"by address": "127.0.0.1" + port, "of every address": port, "of every address 4": "0.0.0.0" + port,
		"of every address 6": "[::]" + port, "by name": "LocalHost" + port,
	} {
		client, err := New(Config{
			AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
			AllowHosts:   []string{"127.0.0.1:*", "localhost:*"}, OwnNames: []string{"Tollgate.example"},
			Own: func() []string { return []string{"no pair", "x:y", pair} },
		})
		require.NoError(t, err)
		defer client.Close()
		for _, url := range []string{ours.URL, "http://localhost" + port, "http://LOCALHOST." + port} {
			_, err = client.Do(t.Context(), &Request{URL: url})
			var no *Refusal
			require.ErrorAs(t, err, &no, "%s: %s", name, url)
			require.Equal(t, RuleOwn, no.Rule, name)
			require.True(t, no.Local())
			_, err = client.Dial(t.Context(), strings.TrimPrefix(url, "http://"))
			require.ErrorAs(t, err, &no, name)
		}
		require.Error(t, client.Check("https://tollgate.example/"), name)
		require.NoError(t, client.Check("https://other.example/"), name)
		require.NoError(t, client.Check(product.URL))
		_, err = client.Do(t.Context(), &Request{URL: product.URL})
		require.NoError(t, err, name)
	}
	_, err := New(Config{OwnNames: []string{"a b"}})
	require.ErrorContains(t, err, "OwnNames")
}

// TestOwnAddresses: of an address of this machine, or of another node, no port is reached, unless
// the configuration opens it; and none of this machine's where its interfaces cannot be listed.
func TestOwnAddresses(t *testing.T) {
	const machine, node, other = "8.8.8.8", "2606:4700::1111", "1.1.1.1"
	opened := []netip.Prefix(nil)
	holds := func(addr string, port uint16) bool {
		o, err := newOwn(&Config{Own: func() []string { return []string{"[" + node + "]:7080", ":8080"} }}, opened)
		require.NoError(t, err)
		o.machine = func() ([]net.Addr, error) {
			return []net.Addr{&net.IPNet{IP: net.ParseIP(machine), Mask: net.CIDRMask(24, 32)}}, nil
		}
		return o.holds(netip.MustParseAddr(addr), port)
	}
	for _, addr := range []string{machine, node} {
		for _, port := range []uint16{80, 6379, 7080, 8080} {
			require.True(t, holds(addr, port), addr)
		}
	}
	require.False(t, holds(other, 7080))
	require.False(t, holds(other, 8080))
	opened = []netip.Prefix{netip.MustParsePrefix("8.8.8.0/24"), netip.MustParsePrefix("2606::/16")}
	require.False(t, holds(machine, 80))
	require.True(t, holds(machine, 8080))
	require.False(t, holds(node, 80))
	require.True(t, holds(node, 7080))

	unknown, err := newOwn(&Config{}, nil)
	require.NoError(t, err)
	unknown.machine = func() ([]net.Addr, error) { return nil, net.UnknownNetworkError("none") }
	require.True(t, unknown.holds(netip.MustParseAddr(other), 80))
}
