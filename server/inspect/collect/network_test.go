package collect_test

import (
	"bytes"
	"compress/gzip"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/inspect/collect"
	"tollgate/server/provider/fetch"
)

// inspected collects from a real server through the guarded client. On Linux all of 127/8 is this
// machine; 127.0.0.2 is configured as reachable and 127.0.0.1 is what a private address is.
func inspected(t *testing.T, handler http.HandlerFunc) (*collect.Collection, error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.2:0")
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(handler)
	require.NoError(t, server.Listener.Close())
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	host := listener.Addr().String()
	client, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, AllowHosts: []string{host},
		Timeout: 5 * time.Second,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return collect.Run(t.Context(), collect.Config{Fetcher: client}, "http://"+host+"/", "run_1")
}

func TestNeverMoreThanFourAtATime(t *testing.T) {
	var now, most, requests atomic.Int32
	var once sync.Once
	fifth := make(chan struct{})
	c, err := inspected(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		// Each waits for a fifth beside it, which must not come.
		if n > collect.MaxParallel {
			once.Do(func() { close(fifth) })
		}
		select {
		case <-fifth:
		case <-time.After(20 * time.Millisecond):
		}
		if !strings.HasPrefix(r.UserAgent(), collect.Agent) {
			t.Error(r.UserAgent())
		}
		http.NotFound(w, r)
	})
	require.NoError(t, err)
	require.LessOrEqual(t, most.Load(), int32(collect.MaxParallel))
	require.True(t, c.Find(collect.RoleHome).Absent())
	require.Len(t, c.Observations, int(requests.Load()))
}

// TestHostsThatMeanHarm: each document that cannot be read is an observation that says why, and the
// others are read.
func TestHostsThatMeanHarm(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, err := z.Write(make([]byte, 4<<20))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	c, err := inspected(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			if _, err := w.Write([]byte("<html>Acme</html>")); err != nil {
				panic(err)
			}
		case "/llms.txt": // endless
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		case "/openapi.json": // a bomb
			w.Header().Set("Content-Encoding", "gzip")
			if _, err := w.Write(bomb.Bytes()); err != nil {
				return // the reader may have had enough
			}
		case "/auth.md": // never
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		case "/swagger.json":
			http.Redirect(w, r, "http://127.0.0.1:1/private", http.StatusFound)
		case "/openapi.yaml":
			panic(http.ErrAbortHandler)
		default:
			http.NotFound(w, r)
		}
	})
	require.NoError(t, err)
	found := lines(c)
	for _, want := range []string{
		"llms_txt 200 body ", "openapi 200 body ", "auth_md 0 time ", "openapi 302 redirect_target ",
		"openapi 0 network ",
	} {
		require.Contains(t, found, want)
	}
	require.True(t, c.Find(collect.RoleHome).OK())
}

func TestAPrivateAddressIsNoTarget(t *testing.T) {
	client, err := fetch.New(fetch.Config{AllowHosts: []string{"127.0.0.1:*"}})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	for _, url := range []string{
		"http://127.0.0.1:1/", "http://localhost/", "https://u:p@acme.example/", "ftp://acme.example/",
		"http://2130706433/", "http://[::1]/",
	} {
		_, err = collect.Run(t.Context(), collect.Config{Fetcher: client}, url, "run_1")
		require.ErrorIs(t, err, collect.ErrForbidden, url)
	}
}
