package fetch_test

import (
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/provider/fetch"
)

// web is one server under many names, and one that must never be reached.
type web struct {
	port   string
	client *fetch.Client
	// last is the header of the last request that /end got.
	last http.Header
}

func newWeb(t *testing.T) *web {
	t.Helper()
	w := &web{}
	inside := serve(t, private, func(http.ResponseWriter, *http.Request) {
		t.Error("the private server was reached")
	})
	hostPort := serve(t, reachable, func(out http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/to":
			status, err := strconv.Atoi(r.URL.Query().Get("status"))
			if err != nil {
				status = http.StatusFound
			}
			out.Header().Set("Location", r.URL.Query().Get("location"))
			out.WriteHeader(status)
		case strings.HasPrefix(r.URL.Path, "/chain/"):
			left, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/chain/"))
			if err != nil || left == 0 {
				_, _ = io.WriteString(out, "end")
				return
			}
			http.Redirect(out, r, "/chain/"+strconv.Itoa(left-1), http.StatusMovedPermanently)
		case r.URL.Path == "/inside":
			http.Redirect(out, r, "http://"+inside+"/", http.StatusFound)
		default:
			w.last = r.Header.Clone()
			_, _ = io.WriteString(out, "end")
		}
	})
	_, port, err := net.SplitHostPort(hostPort)
	require.NoError(t, err)
	w.port = port
	resolver := (&names{answer: func(name string, _ int) []string {
		if strings.HasPrefix(name, "private.") {
			return []string{private}
		}
		return []string{reachable}
	}}).resolver(t)
	w.client = newClient(t, func(c *fetch.Config) { c.Resolver = resolver }, hostPort, inside,
		"shop.example.co.uk:"+port, "www.shop.example.co.uk:"+port, "other.co.uk:"+port,
		"private.shop.example.co.uk:"+port, "a.github.io:"+port, "b.github.io:"+port)
	return w
}

func (w *web) at(host, path string) string { return "http://" + host + ":" + w.port + path }

func TestRedirectsAreAnswersUnlessAskedFor(t *testing.T) {
	w := newWeb(t)
	answer, err := get(t, w.client, w.at(reachable, "/inside"))
	require.NoError(t, err)
	require.Equal(t, http.StatusFound, answer.Status)
	require.NotEmpty(t, answer.Header.Get("Location"))
}

func TestRedirectsAreFollowedByHand(t *testing.T) {
	w := newWeb(t)
	follow := func(url string, redirects int) (*fetch.Response, error) {
		return w.client.Do(t.Context(), &fetch.Request{URL: url, Redirects: redirects})
	}
	answer, err := follow(w.at(reachable, "/chain/5"), 5)
	require.NoError(t, err)
	require.Equal(t, 5, answer.Redirects)
	require.Equal(t, w.at(reachable, "/chain/0"), answer.URL)
	require.Equal(t, "end", string(answer.Body))

	_, err = follow(w.at(reachable, "/chain/6"), 5)
	require.Equal(t, fetch.RuleRedirectCount, refusalOf(t, err).Rule)

	from := "shop.example.co.uk"
	for _, test := range []struct {
		from, location string
		rule           fetch.Rule
	}{
		{from, "/end", ""},
		{from, w.at("www."+from, "/end"), ""},
		{from, w.at("other.co.uk", "/end"), fetch.RuleRedirectTarget},
		{from, w.at(reachable, "/end"), fetch.RuleRedirectTarget},
		{reachable, w.at(from, "/end"), fetch.RuleRedirectTarget},
		{"a.github.io", w.at("b.github.io", "/end"), fetch.RuleRedirectTarget},
		{from, w.at("private."+from, "/end"), fetch.RuleAddress},
		{from, "http://www." + from + ":8080/", fetch.RulePort},
		{from, "http://user@www." + from + "/", fetch.RuleUserinfo},
		{from, "ftp://www." + from + "/", fetch.RuleURL},
		{from, "javascript:alert(1)", fetch.RuleURL},
		{from, "http://2130706433/", fetch.RuleHost},
		{from, "//127.0.0.1/", fetch.RuleRedirectTarget},
		{private[:8] + "2", "http://" + private + "/", fetch.RuleRedirectTarget},
		{from, "http://%zz/", fetch.RuleURL},
	} {
		_, err := follow(w.at(test.from, "/to?location="+url.QueryEscape(test.location)), 5)
		if test.rule == "" {
			require.NoError(t, err, test.location)
			continue
		}
		require.Equal(t, test.rule, refusalOf(t, err).Rule, test.location)
	}
	_, err = w.client.Do(t.Context(), &fetch.Request{
		Method: "POST", URL: w.at(reachable, "/chain/1"), Redirects: 1,
	})
	require.Equal(t, fetch.RuleRedirectMethod, refusalOf(t, err).Rule)
}

func TestHTTPSIsVerifiedAndNotLeft(t *testing.T) {
	var plain string
	server := httptest.NewUnstartedServer(http.HandlerFunc(
		func(out http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/down" {
				http.Redirect(out, r, "http://example.com:"+plain+"/", http.StatusFound)
			}
		}))
	require.NoError(t, server.Listener.Close())
	listener, err := net.Listen("tcp", reachable+":0")
	require.NoError(t, err)
	server.Listener = listener
	server.StartTLS()
	t.Cleanup(server.Close)
	_, secure, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	_, plain, err = net.SplitHostPort(serve(t, reachable,
		func(out http.ResponseWriter, r *http.Request) {
			http.Redirect(out, r, "https://example.com:"+secure+"/", http.StatusFound)
		}))
	require.NoError(t, err)
	resolver := (&names{answer: func(string, int) []string { return []string{reachable} }}).resolver(t)
	trusting := func(c *fetch.Config) {
		c.Resolver = resolver
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AddCert(server.Certificate())
	}
	hosts := []string{"example.com:" + secure, "example.com:" + plain, "example.org:" + secure}
	client := newClient(t, trusting, hosts...)
	follow := func(url string) (*fetch.Response, error) {
		return client.Do(t.Context(), &fetch.Request{URL: url, Redirects: 5})
	}
	answer, err := follow("http://example.com:" + plain + "/")
	require.NoError(t, err)
	require.Equal(t, "https://example.com:"+secure+"/", answer.URL)
	_, err = follow("https://example.com:" + secure + "/down")
	require.Equal(t, fetch.RuleRedirectTarget, refusalOf(t, err).Rule)

	for _, test := range []struct {
		change func(*fetch.Config)
		host   string
	}{
		{func(c *fetch.Config) { c.Resolver, c.RootCAs = resolver, x509.NewCertPool() }, "example.com"},
		{trusting, "example.org"},
	} {
		_, err = get(t, newClient(t, test.change, hosts...), "https://"+test.host+":"+secure+"/")
		var failure *fetch.Failure
		require.ErrorAs(t, err, &failure, "a certificate that does not prove the name")
	}
}

func TestEveryHopCountsOnTheBudget(t *testing.T) {
	w := newWeb(t)
	budget := fetch.NewBudget(3, 1, fetch.BudgetTime)
	_, err := w.client.Do(t.Context(), &fetch.Request{
		URL: w.at(reachable, "/chain/5"), Redirects: 5, Budget: budget,
	})
	require.Equal(t, fetch.RuleBudget, refusalOf(t, err).Rule)
	require.Zero(t, budget.Left())
}

func TestCredentialsStayWithTheirHost(t *testing.T) {
	w := newWeb(t)
	secret := http.Header{
		"Authorization": {"Bearer s"}, "X-Api-Key": {"s"}, "Cookie": {"s"}, "X-Anything": {"s"},
		"Accept": {"text/markdown"},
	}
	for location, kept := range map[string]bool{
		"/end": true, w.at("www.shop.example.co.uk", "/end"): false,
	} {
		_, err := w.client.Do(t.Context(), &fetch.Request{
			URL: w.at("shop.example.co.uk", "/to?location=") + location, Redirects: 1, Header: secret,
		})
		require.NoError(t, err)
		require.Equal(t, "text/markdown", w.last.Get("Accept"))
		require.Equal(t, "Tollgate", w.last.Get("User-Agent"))
		for _, name := range []string{"Authorization", "X-Api-Key", "Cookie", "X-Anything"} {
			require.Equal(t, kept, w.last.Get(name) != "", "%s to %s", name, location)
		}
	}
}

// TestNextIsWhereDoWouldGo: callers that count each hop as a request get the same rules.
func TestNextIsWhereDoWouldGo(t *testing.T) {
	for _, c := range []struct {
		from, to string
		status   int
		want     string
		rule     fetch.Rule
	}{
		{"https://a.example/x", "/y?z#f", 302, "https://a.example/y?z", ""},
		{"http://a.example/", "https://www.a.example/", 301, "https://www.a.example/", ""},
		{"https://a.example/", "https://b.example/", 301, "", fetch.RuleRedirectTarget},
		{"https://a.example/", "http://a.example/", 301, "", fetch.RuleRedirectTarget},
		{"https://a.example/", "ftp://a.example/", 301, "", fetch.RuleURL},
		{"https://a.example/", "https://u:p@a.example/", 308, "", fetch.RuleUserinfo},
		{"https://a.example/", "/y", 200, "", ""},
		{"https://a.example/", "", 301, "", ""},
	} {
		next, err := fetch.Next(&fetch.Response{
			URL: c.from, Status: c.status, Header: http.Header{"Location": {c.to}},
		})
		require.Equal(t, c.want, next, c.to)
		if c.rule == "" {
			require.NoError(t, err, c.to)
		} else {
			require.Equal(t, c.rule, refusalOf(t, err).Rule, c.to)
		}
	}
	require.True(t, fetch.SameSite("https://docs.a.example/", "http://a.example:8080/x"))
	require.False(t, fetch.SameSite("https://a.example/", "https://b.example/"))
	require.False(t, fetch.SameSite("https://a.example/", "mailto:x@a.example"))
}
