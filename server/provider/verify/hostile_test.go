package verify

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/provider/fetch"
)

// On Linux all of 127/8 is this machine: the products are at 127.0.0.2, and 127.0.0.1 is what a
// private address is to a server on the internet.
const (
	outside = "127.0.0.2"
	inside  = "127.0.0.1"
)

// listen starts a server on an address, and returns its host:port.
func listen(t *testing.T, address string, handler http.HandlerFunc) string {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(handler)
	require.NoError(t, server.Listener.Close())
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return listener.Addr().String()
}

// reaching is a verifier that may reach public addresses, 127.0.0.2, and these ports.
func reaching(t *testing.T, timeout time.Duration, hosts ...string) *Verifier {
	t.Helper()
	client, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix(outside + "/32")},
		AllowHosts:   hosts, Timeout: timeout,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return &Verifier{Fetch: client, Pause: time.Millisecond}
}

const rightText = "account"

// withKey lets the real key alone through to a handler.
func withKey(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+goodKey {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler(w, r)
	}
}

// TestHostileAnswersProveNothing: what a product answers to the real key begins as the right answer
// does, and costs more than an answer may; without the bound it would pass.
func TestHostileAnswersProveNothing(t *testing.T) {
	var written atomic.Int64
	write := func(w http.ResponseWriter, text []byte) bool {
		n, err := w.Write(text)
		written.Add(int64(n))
		return err == nil
	}
	block := []byte(rightText + strings.Repeat(" ", 64<<10))
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		note   string
		// most is how much of the answer the product gets rid of, in bytes.
		most int64
	}{
		"too long by one": {func(w http.ResponseWriter, _ *http.Request) {
			write(w, []byte(rightText+strings.Repeat(" ", fetch.MaxBody+1-len(rightText))))
		}, "no_answer", 0},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			for write(w, block) {
				continue
			}
		}, "no_answer", 64 << 20},
		"a bomb": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			packed := gzip.NewWriter(w)
			if _, err := packed.Write([]byte(rightText)); err != nil {
				return
			}
			for range 4 * fetch.MaxBody / len(block) {
				if _, err := packed.Write(make([]byte, len(block))); err != nil {
					return
				}
			}
			if packed.Close() != nil {
				return // who asked has gone
			}
		}, "no_answer", 0},
		"slow to begin": {func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}, "no_answer", 0},
		"slow to end": {func(w http.ResponseWriter, r *http.Request) {
			if write(w, []byte(rightText)) {
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		}, "no_answer", 0},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			write(w, []byte(rightText))
		}, "no_answer", 0},
		"another encoding": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			write(w, []byte(rightText))
		}, "no_answer", 0},
		"headers without end": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("a", 2*fetch.MaxHeaders))
			write(w, []byte(rightText))
		}, "no_answer", 0},
	} {
		t.Run(name, func(t *testing.T) {
			written.Store(0)
			host := listen(t, outside, withKey(test.answer))
			timeout := fetch.MaxTime
			if strings.HasPrefix(name, "slow") {
				timeout = 500 * time.Millisecond
			}
			v := reaching(t, timeout, host)
			check := Check{URL: "http://" + host + "/me", Credential: "bearer", Contains: rightText}
			var d Verdict
			// Where this machine is slower than the product, the calls before may come to nothing, too.
			for try := 0; try == 0 || try < 10 && len(d.Calls) < 3; try++ {
				d = v.Decide(t.Context(), check, goodKey)
			}
			require.Equal(t, Inconclusive, d.Outcome, "%+v", d)
			require.Equal(t, "verification_unavailable", d.Code)
			require.Equal(t, "real", d.Calls[len(d.Calls)-1].Case)
			require.Equal(t, test.note, d.Calls[len(d.Calls)-1].Note)
			if test.most > 0 {
				require.Less(t, written.Load(), test.most)
			}
		})
	}
	host := listen(t, outside, withKey(func(w http.ResponseWriter, _ *http.Request) {
		write(w, []byte(rightText+strings.Repeat(" ", fetch.MaxBody-len(rightText))))
	}))
	d := reaching(t, 0, host).Decide(t.Context(),
		Check{URL: "http://" + host + "/me", Credential: "bearer", Contains: rightText}, goodKey)
	require.Equal(t, Passed, d.Outcome, "an answer as long as may be: %+v", d)
}

// TestRedirectsLeadNowhere: neither to a private address, nor to another page of the product that
// would be the right answer; with a key it is not sent on.
func TestRedirectsLeadNowhere(t *testing.T) {
	var reached atomic.Int32
	private := listen(t, inside, func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		if _, err := io.WriteString(w, rightText); err != nil {
			return
		}
	})
	for _, to := range []string{
		"http://" + private + "/", "/right", "http://169.254.169.254/latest/meta-data/", "//" + private,
		"http://[::ffff:127.0.0.1]:80/", "http://2130706433/", "file:///etc/passwd", "",
	} {
		host := listen(t, outside, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/me" {
				reached.Add(1)
				if _, err := io.WriteString(w, rightText); err != nil {
					return
				}
			}
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		v := reaching(t, 0, host, private)
		check := Check{URL: "http://" + host + "/me", Contains: rightText}
		d := v.Decide(t.Context(), check, "")
		require.Equal(t, Blocked, d.Outcome, "%s: %+v", to, d)
		require.Equal(t, "redirect", d.Calls[0].Note)
		require.False(t, v.Preflight(t.Context(), check).AlreadyTrue)
		check.Credential = "bearer"
		d = v.Decide(t.Context(), check, goodKey)
		require.Equal(t, Inconclusive, d.Outcome, "%s: %+v", to, d)
		require.Equal(t, "verification_unclear", d.Code)
		for _, call := range d.Calls {
			require.Equal(t, []any{"redirect", 307, Soft}, []any{call.Note, call.Status, call.Answer})
		}
		require.Equal(t, Preflight{NoKey: Soft, WrongKey: Soft}, v.Preflight(t.Context(), check))
	}
	require.Zero(t, reached.Load(), "a redirect was followed")

	// The verification itself may not name private addresses.
	for _, url := range []string{
		"http://" + private + "/", "http://169.254.169.254/", "http://user:pw@" + outside + "/", "ftp://" + outside,
	} {
		d := reaching(t, 0, private).Decide(t.Context(), Check{URL: url, Contains: rightText}, "")
		require.Equal(t, Inconclusive, d.Outcome, url)
		require.Equal(t, "not_fetched", d.Calls[0].Note)
	}
	require.Zero(t, reached.Load(), "a private address was reached")
}

// TestWhatElseWasSeen: caching headers, redirects, retries and silence are noted with the call, and
// decide nothing alone.
func TestWhatElseWasSeen(t *testing.T) {
	header := func(name, value string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(name, value)
			if _, err := io.WriteString(w, rightText); err != nil {
				return
			}
		}
	}
	var asked atomic.Int32
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		note    string
		outcome Outcome
	}{
		"nothing":      {header("X-Other", "x"), "", Passed},
		"age":          {header("Age", "3"), "cached", Passed},
		"x-cache":      {header("X-Cache", "HIT from edge"), "cached", Passed},
		"any case":     {header("X-Cache", "Hit from cloudfront"), "cached", Passed},
		"cache-status": {header("Cache-Status", `"edge"; hit; ttl=30`), "cached", Passed},
		"cloudflare":   {header("CF-Cache-Status", "HIT"), "cached", Passed},
		"forwarded":    {header("Cache-Status", `"edge"; fwd=miss`), "", Passed},
		"a miss":       {header("X-Cache", "MISS"), "", Passed},
		"redirect":     {http.RedirectHandler("/", http.StatusFound).ServeHTTP, "redirect", Blocked},
		"retried": {func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			header("X-Other", "x")(w, r)
		}, "retried", Passed},
		"silence": {func(w http.ResponseWriter, _ *http.Request) {
			panic(http.ErrAbortHandler)
		}, "no_answer", Inconclusive},
	} {
		t.Run(name, func(t *testing.T) {
			host := listen(t, outside, test.handler)
			d := reaching(t, 0, host).Decide(context.Background(),
				Check{URL: "http://" + host + "/me", Contains: rightText}, "")
			require.Equal(t, test.outcome, d.Outcome, "%+v", d)
			require.Len(t, d.Calls, 1)
			require.Equal(t, test.note, d.Calls[0].Note)
		})
	}
}

// TestARetryIsOne: 429 and 5xx are asked once more and not again, and no other answer is.
func TestARetryIsOne(t *testing.T) {
	for status, want := range map[int]int32{
		200: 1, 204: 1, 302: 1, 400: 1, 401: 1, 404: 1, 429: 2, 500: 2, 503: 2, 599: 2,
	} {
		var asked atomic.Int32
		host := listen(t, outside, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.WriteHeader(status)
		})
		reaching(t, 0, host).Decide(t.Context(), Check{URL: "http://" + host, Contains: "x"}, "")
		require.Equal(t, want, asked.Load(), "%d", status)
	}
}

// TestTheWrongKeyIsAKeyOfItsOwn: it looks like the real one, is not it, and is another each time;
// every call asks caches to stand aside.
func TestTheWrongKeyIsAKeyOfItsOwn(t *testing.T) {
	var sent []string
	host := listen(t, outside, func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Header.Get("X-Api-Key"))
		if r.Header.Get("Cache-Control") != "no-cache" || r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if r.Header.Get("X-Api-Key") != goodKey {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	v := reaching(t, 0, host)
	for range 2 {
		d := v.Decide(t.Context(), Check{URL: "http://" + host, Credential: "x-api-key"}, goodKey)
		require.Equal(t, Passed, d.Outcome, "%+v", d)
	}
	require.Len(t, sent, 10)
	require.NotEqual(t, sent[1], sent[6])
	for i, want := range []string{"", "sk_real_", "sk_real_", goodKey, ""} {
		for _, key := range []string{sent[i], sent[i+5]} {
			require.True(t, strings.HasPrefix(key, want))
			require.Equal(t, i == 3, key == goodKey)
			require.Equal(t, want == "", key == "")
		}
	}
}
