package runner

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/provider/fetch"
)

// way is a proxy to one product, and the requests that reached the product and another server.
type way struct {
	*proxy
	t              *testing.T
	product        *httptest.Server
	reached, other atomic.Int32
	elsewhere      *httptest.Server
	said           string // of the newest answer, what the proxy says of itself
}

func newWay(t *testing.T, secure bool) *way {
	w := &way{t: t}
	answer := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.reached.Add(1)
		require.Empty(t, r.Header.Get("Proxy-Authorization"), "the password stays at the proxy")
		rw.Header().Set("Proxy-Status", "tollgate; error=http_request_denied")
		if r.URL.Path == "/large" {
			if _, err := io.WriteString(rw, strings.Repeat("x", 5000)); err != nil {
				return // it was cut off, as it should be
			}
			return
		}
		_, err := io.WriteString(rw, "hello")
		require.NoError(t, err)
	})
	if w.product = httptest.NewUnstartedServer(answer); secure {
		w.product.StartTLS()
	} else {
		w.product.Start()
	}
	t.Cleanup(w.product.Close)
	w.elsewhere = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		w.other.Add(1)
	}))
	t.Cleanup(w.elsewhere.Close)
	client, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		AllowHosts:   []string{"127.0.0.1:*"},
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	hosts := []string{w.product.Listener.Addr().String(), "10.0.0.1", "localhost:1"}
	w.proxy, err = openProxy(client, hosts)
	require.NoError(t, err)
	t.Cleanup(func() {
		if w.proxy != nil {
			require.NoError(t, w.close())
		}
	})
	return w
}

// get fetches an address through the proxy, as programs do that were given it.
func (w *way) get(through, address string) (status int, body string) {
	w.t.Helper()
	by, err := url.Parse(through)
	require.NoError(w.t, err)
	roots := x509.NewCertPool()
	if w.product.Certificate() != nil {
		roots.AddCert(w.product.Certificate())
	}
	transport := &http.Transport{
		Proxy: http.ProxyURL(by), TLSClientConfig: &tls.Config{RootCAs: roots},
	}
	defer transport.CloseIdleConnections()
	w.said = ""
	client := http.Client{Transport: transport, Timeout: 20 * time.Second}
	answer, err := client.Get(address)
	if err != nil {
		return 0, err.Error()
	}
	w.said = answer.Header.Get("Proxy-Status")
	text, err := io.ReadAll(answer.Body)
	require.NoError(w.t, answer.Body.Close())
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(text)
}

// TestARunsProxy: plain and through a tunnel, to the hosts of the run and nowhere else, for who has
// its password, and not to a private address by an allowed name.
func TestARunsProxy(t *testing.T) {
	for _, secure := range []bool{false, true} {
		w := newWay(t, secure)
		_, body := w.get(w.url(), strings.Replace(w.elsewhere.URL, "http:", "https:", 1))
		require.False(t, w.proxy.reached.Load(), body)
		status, body := w.get(w.url(), w.product.URL+"/")
		require.Equal(t, []any{200, "hello"}, []any{status, body})
		if !secure {
			require.Empty(t, w.said, "a product does not answer in the proxy's name")
		}
		require.True(t, w.proxy.reached.Load())
		require.EqualValues(t, 1, w.reached.Load())

		scheme := strings.SplitAfter(w.product.URL, "//")[0]
		for address, want := range map[string]string{
			strings.Replace(w.elsewhere.URL, "http://", scheme, 1): "Forbidden",
			scheme + "10.0.0.1/":                                    "Forbidden",
			scheme + "localhost:1/":                                 "Forbidden",
			scheme + "169.254.169.254/":                             "Forbidden",
			strings.Replace(w.product.URL, "127.0.0.1", "127.1", 1): "Forbidden",
		} {
			status, body = w.get(w.url(), address)
			if secure {
				require.Contains(t, body, want, address) // the client says why there is no tunnel
			} else {
				require.Equal(t, 403, status, address)
				require.Equal(t, "tollgate; error=http_request_denied", w.said)
			}
		}
		without := "http://" + w.listener.Addr().String()
		for _, through := range []string{without, strings.Replace(w.url(), "run:", "run:x", 1)} {
			status, body = w.get(through, w.product.URL+"/")
			require.True(t, status == 407 || strings.Contains(body, "Proxy Authentication Required"), body)
		}
		require.EqualValues(t, 1, w.reached.Load())
		require.Zero(t, w.other.Load())
	}
}

// TestARunsProxyIsBounded: by bytes, by connections, and by the run's end.
func TestARunsProxyIsBounded(t *testing.T) {
	for _, secure := range []bool{false, true} {
		w := newWay(t, secure)
		w.left.Store(4000)
		status, body := w.get(w.url(), w.product.URL+"/large")
		require.Zero(t, status, "it is cut off: %s", body)

		w = newWay(t, secure)
		for range maxTunnels {
			w.slots <- struct{}{}
		}
		status, body = w.get(w.url(), w.product.URL+"/")
		require.True(t, status == 503 || strings.Contains(body, "Service Unavailable"), body)
	}
	w := newWay(t, false)
	conn, err := net.Dial("tcp", w.listener.Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	host := w.product.Listener.Addr().String()
	request, err := http.NewRequest("CONNECT", "http://"+host, nil)
	require.NoError(t, err)
	request.SetBasicAuth("run", w.password)
	_, err = io.WriteString(conn, "CONNECT "+host+" HTTP/1.1\r\nHost: "+host+"\r\nProxy-Authorization: "+
		request.Header.Get("Authorization")+"\r\n\r\n")
	require.NoError(t, err)
	buffer := make([]byte, 100)
	n, err := conn.Read(buffer)
	require.NoError(t, err)
	require.Contains(t, string(buffer[:n]), "200 Connected")
	require.NoError(t, w.close())
	_, err = conn.Read(buffer)
	require.Error(t, err, "nothing goes through after the run")
	w.proxy = nil
}

// TestExecAgentsGetAProxy, in their environment, and it ends with them.
func TestExecAgentsGetAProxy(t *testing.T) {
	w := newWay(t, false)
	agent := script(`read l; echo '{"type":"event","text":"'$https_proxy'"}'; echo '{"type":"done"}'`)
	agent.Web = w.web
	var told string
	task := Task{URL: w.product.URL, Hosts: []string{w.product.Listener.Addr().String()}}
	_, err := agent.Run(context.Background(), task, func(e Event) { told = e.Text })
	require.NoError(t, err)
	require.Regexp(t, `^http://run:[A-Z0-9]{20,}@127\.0\.0\.1:\d+$`, told)
	by, err := url.Parse(told)
	require.NoError(t, err)
	_, err = net.Dial("tcp", by.Host)
	require.Error(t, err)
}

// TestHostsHaveOneSpelling: a client asks for a name as it is in DNS, whatever its URL says.
func TestHostsHaveOneSpelling(t *testing.T) {
	p, err := openProxy(nil, []string{
		fetch.HostOf("https://Bücher.example/"), fetch.HostOf("http://[2001:db8::1]:8080"),
	})
	require.NoError(t, err)
	require.NoError(t, p.close())
	require.Equal(t, map[string]bool{
		"xn--bcher-kva.example:80": true, "xn--bcher-kva.example:443": true, "[2001:db8::1]:8080": true,
	}, p.allowed)
}
