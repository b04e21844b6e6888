package fetch

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestARequestsOwnPort: the one port that a request names is reached, by it and by no other
// request, also where a connection to it is open; ports of other protocols are not.
func TestARequestsOwnPort(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://127.0.0.1:9/", http.StatusFound)
		}
	}))
	defer site.Close()
	client, err := New(Config{AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	require.NoError(t, err)
	defer client.Close()
	u, err := url.Parse(site.URL)
	require.NoError(t, err)
	port := PortIn(u)
	ask := func(path string, port uint16) error {
		_, err := client.Do(t.Context(), &Request{URL: site.URL + path, Port: port, Redirects: 1})
		return err
	}
	refused := func(err error) {
		t.Helper()
		var no *Refusal
		require.ErrorAs(t, err, &no)
		require.Equal(t, RulePort, no.Rule)
	}
	refused(ask("/", 0))
	refused(ask("/", port+1))
	require.NoError(t, ask("/", port))
	refused(ask("/", 0))
	refused(ask("/away", port))
	conn, err := client.Dial(t.Context(), u.Host)
	require.NoError(t, err)
	require.NoError(t, conn.Close())

	require.True(t, slices.IsSorted(unsafePorts))
	for _, unsafe := range []uint16{1, 22, 25, 6000, 6379, 11211} {
		require.False(t, PortNamed(unsafe))
		_, err := client.Do(t.Context(), &Request{
			URL: "http://" + netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), unsafe).String(), Port: unsafe,
		})
		refused(err)
		_, err = client.Dial(t.Context(), netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), unsafe).String())
		refused(err)
	}
	require.True(t, PortNamed(8443))
	_, err = client.guard.dial(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strings.TrimPrefix(u.Host, "127.0.0.1:")))
	refused(err)
}
