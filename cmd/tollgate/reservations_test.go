package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/demo"
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
		"reserve", "ada", "output-tokens", "1200", "--reservation-key", "call-1", "--ttl", "60",
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
	out = done("reserve", "ada", "output-tokens", "5", "--reservation-key", "call-2", "--dry-run")
	s.holds(out, "Reservation", "none: a dry run")
	out = done("reserve", "ada", "output-tokens", "5", "--reservation-key", "call-2")
	second := strings.Fields(out)[1]
	s.holds(done("release", second), "State", "released")
	s.holds(done("show", second), "State", "released")
	require.NotContains(t, done("list", "ada", "--state", "open"), second)
	_, _, code := s.asClient("reservations", "reserve", "ada", "output-tokens", "x",
		"--reservation-key", "k")
	require.Equal(t, 2, code)
}
