package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/demo"
	api "tollgate/sdk/go"
)

func TestReservationsFromTheCommandLine(t *testing.T) {
	s := newShell(t)
	s.client("POST", "subscriptions", map[string]any{
		"planId": demo.ReplayPlan, "customerReferenceId": "ada",
	}, nil)
	done := func(args ...string) string {
		t.Helper()
		out, said, code := s.asClient(append([]string{"reservations"}, args...)...)
		require.Zero(t, code, said)
		return out
	}
	reserve := []string{
		"reserve", "ada", "output-tokens=1200", "--reservation-key", "call-1", "--ttl", "60",
	}
	out := done(reserve...)
	s.holds(out, "State", "open")
	s.holds(out, "output-tokens", "granted 1,200, settled 0, held 1,200")
	id := strings.Fields(out)[1]
	require.Equal(t, out[:20], done(reserve...)[:20], "once for its key")
	s.holds(done("settle", id, "700", "--part"), "State", "open")
	s.holds(done("extend", id, "--units", "1500", "--ttl", "120"), "output-tokens",
		"granted 1,500, settled 700, held 800")
	s.holds(done("settle", id, "900", "--event-key", "call-1"), "State", "settled")
	s.holds(done("list", "ada"), id, "call-1", "settled", "output-tokens", "1,500", "900", "0")
	out = done("reserve", "ada", "output-tokens=5", "--reservation-key", "call-2", "--dry-run")
	s.holds(out, "Reservation", "none: a dry run")
	out = done("reserve", "ada", "output-tokens=5", "--reservation-key", "call-2")
	second := strings.Fields(out)[1]
	s.holds(done("release", second), "State", "released")
	s.holds(done("show", second), "State", "released")
	require.NotContains(t, done("list", "ada", "--state", "open"), second)

	// Several features, with what they cost and more; settled as the past has it.
	out = done("reserve", "ada", "output-tokens=50@0.5", "input-tokens=200", "--reservation-key",
		"call-3", "--meta", `{"model":"large"}`)
	s.holds(out, "output-tokens", "granted 50, settled 0, held 50")
	s.holds(out, "input-tokens", "granted 200, settled 0, held 200")
	third := strings.Fields(out)[1]
	var made api.Reservation
	s.client("GET", "reservations/"+third, nil, &made)
	require.Equal(t, "0.5", made.Items[0].CostAmount.String())
	at := time.Now().Add(-time.Minute).UTC().Truncate(time.Second).Format(time.RFC3339)
	out = done("settle", third, "output-tokens=40@0.3", "input-tokens=100", "--at", at, "--meta",
		`{"try":2}`)
	s.holds(out, "State", "settled")
	events, said, code := s.asClient("events", "list", "ada", "--json")
	require.Zero(t, code, said)
	require.Contains(t, events, `{"try":2}`)
	require.Contains(t, events, strings.TrimSuffix(at, "Z"))
	for _, bad := range [][]string{
		{"reserve", "ada", "output-tokens=x", "--reservation-key", "k"},
		{"reserve", "ada", "output-tokens", "--reservation-key", "k"},
		{"reserve", "ada", "output-tokens=1@", "--reservation-key", "k"},
		{"reserve", "ada", "output-tokens=1", "--reservation-key", "k", "--meta", "[1]"},
		{"settle", third, "1", "2"},
		{"settle", third, "1", "--at", "yesterday"},
		{"settle", third},
	} {
		_, _, code := s.asClient(append([]string{"reservations"}, bad...)...)
		require.Equal(t, 2, code, bad)
	}
}
