package verify

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/provider/fetch"
)

// serve starts a product on loopback, and a verifier that may reach it.
func serve(t *testing.T, handler http.HandlerFunc) (*Verifier, string) {
	t.Helper()
	product := httptest.NewServer(handler)
	t.Cleanup(product.Close)
	client, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		AllowHosts:   []string{strings.TrimPrefix(product.URL, "http://")},
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return &Verifier{Fetch: client, Pause: time.Millisecond}, product.URL + "/me"
}

const goodKey = "sk_real_0123456789"

// product answers status to callers without the real key.
func product(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+goodKey {
			w.Header().Set("Location", "/login")
			w.WriteHeader(status)
			return
		}
		w.Write([]byte(`{"account":"ok"}`))
	}
}

func TestKeysAreProvedByTheDifference(t *testing.T) {
	var count atomic.Int32
	first := func(w http.ResponseWriter, r *http.Request) { // the first two answers are 503 and 429
		switch count.Add(1) {
		case 1:
			w.WriteHeader(503)
		case 3:
			w.WriteHeader(429)
		default:
			product(401)(w, r)
		}
	}
	elsewhere := func(w http.ResponseWriter, r *http.Request) { // the right key finds nothing there
		if r.Header.Get("Authorization") == "Bearer "+goodKey {
			http.NotFound(w, r)
			return
		}
		product(401)(w, r)
	}
	for name, row := range map[string]struct {
		handler http.HandlerFunc
		key     string
		outcome Outcome
		code    string
	}{
		"good":                {product(401), goodKey, Passed, ""},
		"403":                 {product(403), goodKey, Passed, ""},
		"400 without a key":   {product(400), goodKey, Passed, ""},
		"404 without a key":   {product(404), goodKey, Passed, ""},
		"login redirect":      {product(302), goodKey, Passed, ""},
		"one retry":           {first, goodKey, Passed, ""},
		"no key":              {product(401), "", Inconclusive, NoCredential},
		"no key, open":        {product(200), "", Inconclusive, "answers_without_key"},
		"no key, any key":     {anyKey, "", Inconclusive, "answers_wrong_key"},
		"no key, always 500":  {product(500), "", Inconclusive, "verification_unavailable"},
		"a made-up key":       {product(401), "sk_real_000", Blocked, "key_refused"},
		"400 to a made-up":    {product(400), "sk_real_000", Inconclusive, "verification_unclear"},
		"404 to a made-up":    {product(404), "sk_real_000", Inconclusive, "verification_unclear"},
		"404 to everybody":    {http.NotFound, goodKey, Inconclusive, "verification_unclear"},
		"400 without any key": {product(400), "", Inconclusive, "verification_unclear"},
		"it knows the key":    {elsewhere, goodKey, Blocked, "verification_failed"},
		"open":                {product(200), goodKey, Inconclusive, "answers_without_key"},
		"always 500":          {product(500), goodKey, Inconclusive, "verification_unavailable"},
		"always 429":          {product(429), goodKey, Inconclusive, "verification_unavailable"},
		"any key will do":     {anyKey, goodKey, Inconclusive, "answers_wrong_key"},
		"cached for everyone": {cached(), goodKey, Inconclusive, "answers_without_key"},
	} {
		t.Run(name, func(t *testing.T) {
			v, url := serve(t, row.handler)
			d := v.Decide(context.Background(), Check{URL: url, Credential: "bearer"}, row.key)
			require.Equal(t, row.outcome, d.Outcome, "%+v", d)
			require.Equal(t, row.code, d.Code)
			for _, call := range d.Calls {
				refused := call.Answer == Refused || call.Answer == Soft && row.outcome == Passed
				require.Equal(t, refused, d.Refused(call), "%+v", call)
			}
			if d.Code == NoCredential {
				require.Equal(t, []Call{
					{Case: "none", Status: 401, Answer: Refused},
					{Case: "wrong", Status: 401, Answer: Refused},
					{Case: "wrong", Status: 401, Answer: Refused},
				}, d.Calls)
			}
			if row.outcome == Passed {
				require.Len(t, d.Calls, MaxCalls)
				for i, name := range []string{"none", "wrong", "wrong", "real", "none"} {
					require.Equal(t, name, d.Calls[i].Case)
				}
			}
		})
	}
}

// TestWithoutARealKeyTwoWrongOnesAreTried: random digits, and a token. A different answer to the
// second proves nothing, but its acceptance does.
func TestWithoutARealKeyTwoWrongOnesAreTried(t *testing.T) {
	for status, code := range map[int]string{
		200: "answers_wrong_key", 401: NoCredential, 400: NoCredential, 503: NoCredential,
	} {
		v, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.Header.Get("Authorization"), ".") {
				w.WriteHeader(status)
				return
			}
			w.WriteHeader(http.StatusUnauthorized)
		})
		d := v.Decide(t.Context(), Check{URL: url, Credential: "bearer"}, "")
		require.Equal(t, []any{Inconclusive, code}, []any{d.Outcome, d.Code}, "%d", status)
		require.Len(t, d.Calls, 3)
		require.Equal(t, "wrong", d.Calls[2].Case)
		require.Equal(t, status, d.Calls[2].Status)
	}
}

func anyKey(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") == "" {
		w.WriteHeader(401)
	}
}

// cached answers everybody with what the first good key got.
func cached() http.HandlerFunc {
	var hit atomic.Bool
	return func(w http.ResponseWriter, r *http.Request) {
		if hit.Load() {
			w.Header().Set("Age", "3")
			return
		}
		if r.Header.Get("Authorization") == "Bearer "+goodKey {
			hit.Store(true)
			return
		}
		w.WriteHeader(401)
	}
}

// TestHowKeysAreSent, by one verifier whose client has connections open to the product.
func TestHowKeysAreSent(t *testing.T) {
	var mu sync.Mutex
	connections := map[string]bool{}
	var want [2]string
	v, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		require.False(t, connections[r.RemoteAddr], "own connections")
		connections[r.RemoteAddr] = true
		if r.Header.Get(want[0]) != want[1] {
			w.WriteHeader(401)
		}
	})
	_, err := v.Fetch.Do(t.Context(), &fetch.Request{URL: url})
	require.NoError(t, err)
	for credential, header := range map[string][2]string{
		"bearer": {"Authorization", "Bearer " + goodKey}, "token": {"Authorization", "Token " + goodKey},
		"x-api-key": {"X-Api-Key", goodKey},
	} {
		mu.Lock()
		want = header
		mu.Unlock()
		d := v.Decide(context.Background(), Check{URL: url, Credential: credential}, goodKey)
		require.Equal(t, Passed, d.Outcome, credential)
	}
	require.Len(t, connections, 1+3*5)
}

func TestPlain(t *testing.T) {
	v, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		require.Empty(t, r.Header.Get("Authorization"))
		if r.URL.Path == "/login" {
			w.Write([]byte("done run_1"))
			return
		}
		if r.URL.Query().Has("away") {
			http.Redirect(w, r, "/login", http.StatusFound)
			return
		}
		w.Write([]byte("done run_1"))
	})
	decide := func(c Check) Verdict { return v.Decide(context.Background(), c, "") }
	good := Check{URL: url, Status: 200, Contains: "done {run_id}", RunID: "run_1"}
	require.Equal(t, Passed, decide(good).Outcome)
	require.True(t, v.Preflight(context.Background(), good).AlreadyTrue)
	other := good
	other.RunID = "run_2"
	require.Equal(t, Blocked, decide(other).Outcome)
	other = good
	other.Status = 201
	require.Equal(t, "verification_failed", decide(other).Code)
	other = good
	other.URL += "?away"
	require.Equal(t, Blocked, decide(other).Outcome, "redirects are not followed")
	other.URL = "http://10.0.0.1/"
	require.Equal(t, Inconclusive, decide(other).Outcome)
}

func TestPreflight(t *testing.T) {
	for status, want := range map[int]Preflight{
		401: {NoKey: Refused, WrongKey: Refused}, 404: {NoKey: Soft, WrongKey: Soft},
		200: {NoKey: Accepted, WrongKey: Accepted}, 503: {},
	} {
		v, url := serve(t, product(status))
		p := v.Preflight(context.Background(), Check{URL: url, Credential: "bearer"})
		require.Equal(t, want, p, "%d", status)
	}
}

// TestVerificationsHaveTheirOwnConnections: not one that an agent has used by the same client, nor
// each other's.
func TestVerificationsHaveTheirOwnConnections(t *testing.T) {
	var mu sync.Mutex
	var from []string
	v, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		from = append(from, r.RemoteAddr)
		mu.Unlock()
		product(401)(w, r)
	})
	for range 2 { // an agent's
		_, err := v.Fetch.Do(t.Context(), &fetch.Request{URL: url})
		require.NoError(t, err)
	}
	require.Equal(t, Passed, v.Decide(t.Context(), Check{URL: url, Credential: "bearer"}, goodKey).Outcome)
	_, err := v.Fetch.Do(t.Context(), &fetch.Request{URL: url})
	require.NoError(t, err)
	require.Len(t, from, 8)
	require.Equal(t, from[0], from[1], "an agent's connection is used again")
	require.NotContains(t, from[2:7], from[0])
	slices.Sort(from[2:7])
	require.Len(t, slices.Compact(from[2:7]), 5)
}
