package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/demo"
)

// asClient runs a command line that goes through the client API.
func (s *shell) asClient(args ...string) (out, said string, code int) {
	s.t.Helper()
	stderr, done := captureStderr(s.t)
	out, code = alone(append(args, s.clientArgs...)...)
	done()
	return out, stderr(), code
}

// TestACustomersFirstDay: created, subscribed, checked, metered, and denied at its limit.
func TestACustomersFirstDay(t *testing.T) {
	s := newShell(t)
	done := func(args ...string) string {
		t.Helper()
		out, said, code := s.asClient(args...)
		require.Zero(t, code, said)
		return out
	}
	refused := func(code int, why string, args ...string) {
		t.Helper()
		_, said, ended := s.asClient(args...)
		require.Equal(t, code, ended, args)
		require.Contains(t, said, why)
	}
	create := []string{
		"customers", "create", "globex", "--first-name", "Hank", "--last-name", "Scorpio",
		"--email", "hank@globex.example",
	}
	s.holds(done(create...), "Name", "Hank Scorpio", "E-mail", "hank@globex.example")
	require.Regexp(t, `API key test: tollgate, \S+ +customer\.created`, s.ok("audit"))
	refused(1, "exists already: Nothing was changed.", create...)
	refused(2, "missing flags: --email", "customers", "create", "x")
	s.holds(done("subscribe", "globex", demo.ReplayPlan), "State", "active")
	refused(1, "Plan not found: Nothing was changed.", "subscribe", "globex", "nonsense")
	s.holds(done("customers", "show", "globex"), "PLAN", "STATE")
	for _, sort := range []string{"owed", "monthlyRecurring"} {
		require.Contains(t, s.ok("customers", "list", "--sort", sort, "--currency", "USD"), "globex")
		require.NotContains(t, s.ok("customers", "list", "--sort", sort, "--currency", "EUR"), "globex")
	}

	check := func(more ...string) string {
		return done(append([]string{"check", "globex", "output-tokens"}, more...)...)
	}
	require.Equal(t, "Decision  allowed\nUsed      0 of 5,000, 5,000 left\n", check())
	s.holds(check("6000"), "Decision", "denied", "Reason", "The requested usage would exceed")
	s.holds(check("6000"), "6,000 more", "do not fit: 6,000 in all", "Cost", "0.09")
	refused(2, `"abc" is not a number such as 1200`, "check", "globex", "output-tokens", "abc")

	send := []string{"events", "send", "globex", "output-tokens", "5000", "--event-key", "k-1"}
	out := done(send...)
	require.Contains(t, out, "Recorded 5,000 of output-tokens for globex at ")
	require.Contains(t, out, "The limit of this feature is reached")
	refused(1, "409", send...)
	s.holds(check(), "Decision", "denied")
	refused(5, "denied", "check", "globex", "output-tokens", "--exit-code")
	refused(5, "denied", "check", "globex", "output-tokens", "--exit-code", "--json")
	out = s.ok("customers", "denied", "--reason", "limit_reached")
	for until := time.Now().Add(5 * time.Second); !strings.Contains(out, "globex") &&
		time.Now().Before(until); { // checks are recorded after their answer
		out = s.ok("customers", "denied", "--reason", "limit_reached")
	}
	s.holds(out, "CUSTOMER", "REASON", "CHECKS", "globex", "limit_reached")
	out = done("events", "list", "--limit=50")
	s.holds(out, "OCCURRED", "KIND", "FEATURE OR NAME", "UNITS", "KEY OR ANSWER", "CUSTOMER")
	s.holds(out, "usage", "output-tokens", "5,000", "k-1", "globex")
	s.holds(done("events", "list", "globex", "--denied"), "check", "output-tokens",
		"limit_reached: 5,000 used of 5,000")
	require.Equal(t, "No such event.\n", done("events", "list", "--kind=void"))
	require.Contains(t, done("events", "list", "--limit=1"), "There are more: raise --limit.")
	done("check", "globex", "input-tokens", "--exit-code")
	var sent struct {
		Key string `json:"eventIdempotencyKey"`
	}
	_, said, code := s.asClient("events", "send", "globex", "output-tokns")
	require.Zero(t, code)
	require.Contains(t, said, "Warning: no feature has the name output-tokns, so the event is not billed.")
	_, said, code = s.asClient("events", "send", "globex", "output-tokens", "1")
	require.Zero(t, code)
	require.Empty(t, said)
	refused(2, "negative numbers are not accepted; to take usage back, void or amend the event", "events", "send", "globex", "x", "-5")
	_, said, code = s.asClient("customers", "create", "initech", "--first-name", "B", "--last-name", "L",
		"--email", "b@initech.example")
	require.Zero(t, code, said)
	_, said, code = s.asClient("events", "send", "initech", "output-tokens")
	require.Zero(t, code)
	require.Contains(t, said, "no subscription of initech has the feature output-tokens, so the event is "+
		"not billed")
	text := done("events", "send", "globex", "output-token", "--meta", `{"model":"large"}`, "--json")
	require.NoError(t, json.Unmarshal([]byte(text), &sent))
	require.NotEmpty(t, sent.Key)
	refused(1, "--meta {x is not JSON", "events", "send", "globex", "x", "--meta", "{x")
	refused(1, "--at noon is not a time", "events", "send", "globex", "x", "--at", "noon")
	s.holds(s.ok("events", "unmatched"), "NAME", "EVENTS", "FIRST", "LAST", "output-token", "1")
	require.Equal(t, "Every event so far matched a feature.\n", s.ok("events", "unmatched", "--env", "live"))
}

// TestWhatMayHaveBeenDoneIsRepeatedWithItsKey: of a node that is gone before it answers.
func TestWhatMayHaveBeenDoneIsRepeatedWithItsKey(t *testing.T) {
	keys := map[string]bool{}
	sent := regexp.MustCompile(`"eventIdempotencyKey":"(\w+)"`)
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		if key := sent.FindSubmatch(body); key != nil {
			keys[string(key[1])] = true
		} else {
			keys[r.Header.Get("Idempotency-Key")] = true
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer node.Close()
	for _, c := range []struct{ flag, args string }{
		{"--event-key", "events send ada calls --at 2026-03-01T00:00:00Z"},
		{"--idempotency-key", "subscribe ada plan"},
	} {
		again := regexp.MustCompile("repeat it with " + c.flag + ` (\w+), which counts once`)
		clear(keys)
		for _, more := range []string{"", " " + c.flag + " mine"} {
			stderr, done := captureStderr(t)
			_, code := alone(strings.Fields(c.args + more + " --url " + node.URL + " --key k")...)
			done()
			require.Equal(t, 1, code)
			said := again.FindStringSubmatch(stderr())
			require.NotNil(t, said, stderr())
			require.Contains(t, keys, said[1])
		}
		require.Len(t, keys, 2)
		require.Contains(t, keys, "mine")
	}
}

// TestMistypedWordsAreAnsweredWithTheNearest: of commands and of flags, in help, too.
func TestMistypedWordsAreAnsweredWithTheNearest(t *testing.T) {
	for want, args := range map[string][]string{
		`did you mean "customers"?`: {"custmers"},
		`did you mean "list"?`:      {"customers", "lst"},
		`did you mean "--limit"?`:   {"customers", "list", "--lmit", "3"},
		"-5 is negative: void or":   {"events", "send", "ada", "calls", "--", "-5"},
		`did you mean "catalog"?`:   {"help", "catalgo"},
	} {
		stderr, done := captureStderr(t)
		_, code := alone(args...)
		done()
		require.Equal(t, 2, code)
		require.Contains(t, stderr(), want)
	}
}
