package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	api "tollgate/sdk/go"
)

// until runs a command concurrently with the test; stop interrupts it and returns what it printed.
func (s *shell) until(run func() (string, int)) (stop func() string) {
	type result struct {
		out  string
		code int
	}
	ended := make(chan result, 1)
	go func() {
		out, code := run()
		ended <- result{out, code}
	}()
	return func() string {
		require.NoError(s.t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
		r := <-ended
		require.Zero(s.t, r.code, r.out)
		return r.out
	}
}

// TestListenTakesWebhooksHere: signed as the cluster signs, once each, and nothing stays behind.
func TestListenTakesWebhooksHere(t *testing.T) {
	s := newShell(t)
	type message struct {
		header http.Header
		body   []byte
	}
	came := make(chan message, 10)
	mine := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			came <- message{r.Header, body}
		}
	}))
	defer mine.Close()
	stderr, done := captureStderr(t)
	stop := s.until(func() (string, int) {
		return s.run("listen", mine.URL, "--event", "subscription.created")
	})
	require.Eventually(t, func() bool {
		return strings.Contains(stderr(), "Press Ctrl-C")
	}, 5*time.Second, 10*time.Millisecond)
	s.client("POST", "subscriptions", map[string]any{
		"planId": "llm-team", "customerReferenceId": "ada",
	}, nil)
	got := <-came
	s.client("POST", "customers", map[string]any{
		"externalClientCustomerId": "bob", "firstName": "Bob", "lastName": "Moog", "email": "bob@example.com",
	}, nil)
	s.client("POST", "subscriptions", map[string]any{
		"planId": "llm-team", "customerReferenceId": "bob",
	}, nil)
	<-came                        // read with the first one in the list
	<-time.After(2 * time.Second) // a round or more
	out := stop()
	done()
	require.Contains(t, out, "subscription.created")
	require.Contains(t, out, "200 OK")
	_, secret, _ := strings.Cut(stderr(), "Signing secret: ")
	secret, _, _ = strings.Cut(secret, "\n")
	hook, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	require.NoError(t, hook.Verify(got.body, got.header))
	require.Empty(t, came)
	require.NotContains(t, s.ok("webhooks", "list"), "listen.invalid", "it took its endpoint along")

	for _, to := range []string{"https://localhost:1/", "http://shop.example/", "localhost:1", ":"} {
		_, code := s.run("listen", to)
		require.Equal(t, 1, code, to)
	}
}

// TestTailPrintsEventsAsTheyAreRecorded, each once; with a key that may read one customer alone,
// too.
func TestTailPrintsEventsAsTheyAreRecorded(t *testing.T) {
	s := newShell(t)
	s.use(1200)
	hers := strings.TrimSpace(s.ok("keys", "create", "--customer", "ada"))
	want := []string{"k"}
	for later, key := range map[string]string{"later": s.clientArgs[3], "hers": hers} {
		stop := s.until(func() (string, int) {
			return alone("events", "tail", "ada", "--kind", "usage", "--json", "--url", s.clientArgs[1],
				"--key", key)
		})
		s.client("POST", "events", map[string]any{
			"eventIdempotencyKey": later, "eventName": "output-tokens", "customerReferenceId": "ada",
			"usageUnits": 5, "occurredAt": time.Now().UTC().Format(time.RFC3339),
		}, nil)
		want = append(want, later)
		<-time.After(2500 * time.Millisecond) // two rounds or more
		var keys []string
		for line := range strings.Lines(stop()) {
			var e api.Event
			require.NoError(t, json.Unmarshal([]byte(line), &e))
			keys = append(keys, e.EventIdempotencyKey)
		}
		require.ElementsMatch(t, want, keys)
	}
	// Those of all customers, with whose they are; an event that occurred long ago is followed, too.
	stop := s.until(func() (string, int) {
		return alone(append([]string{"events", "tail", "--kind", "usage", "--json"}, s.clientArgs...)...)
	})
	s.client("POST", "customers", map[string]any{
		"externalClientCustomerId": "bob", "firstName": "Bob", "lastName": "Moog", "email": "bob@example.com",
	}, nil)
	<-time.After(1500 * time.Millisecond) // a round or more
	for key, customer := range map[string]string{"old": "ada", "other": "bob"} {
		s.client("POST", "events", map[string]any{
			"eventIdempotencyKey": key, "eventName": "output-tokens", "customerReferenceId": customer,
			"occurredAt": time.Now().UTC().Add(-time.Hour).Format(time.RFC3339),
		}, nil)
	}
	<-time.After(2500 * time.Millisecond) // two rounds or more
	var all []string
	for line := range strings.Lines(stop()) {
		var e api.Event
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		all = append(all, e.CustomerReferenceID+" "+e.EventIdempotencyKey)
	}
	require.ElementsMatch(t, []string{"ada k", "ada later", "ada hers", "ada old", "bob other"}, all)
	_, code := alone(append([]string{"events", "tail", "nobody"}, s.clientArgs...)...)
	require.Equal(t, 1, code)
}
