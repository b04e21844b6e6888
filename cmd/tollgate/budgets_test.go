package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	api "tollgate/sdk/go"
)

func TestBudgetsFromTheCommandLine(t *testing.T) {
	s := newShell(t)
	done := func(args ...string) string {
		t.Helper()
		out, said, code := s.asClient(args...)
		require.Zero(t, code, said)
		return out
	}
	done("budgets", "put", "team", "--name", "Team", "--limit", "price USD 40 day at=50,100",
		"--limit", "cost 9 lifetime soft")
	out := done("budgets", "put", "ada", "--name", "Ada", "--parent", "team", "--customer",
		"ada", "--limit", "units output-tokens 1000 month zone=Europe/Berlin")
	s.holds(out, "Bound by", "ada: 1,000 of 1,000 left")
	s.holds(out, "units of output-tokens, month", "0", "0", "1,000", "1,000", "hard")
	s.holds(done("budgets", "list"), "team", "Team", "–", "ACTIVE", "1", "40 of 40 USD")
	s.holds(done("budgets", "list", "--parent", "team"), "ada", "Ada", "ada", "ACTIVE", "0")
	s.holds(done("budgets", "freeze", "team"), "Status", "FROZEN")
	s.holds(done("budgets", "unfreeze", "team"), "Status", "ACTIVE")
	s.holds(done("budgets", "move", "ada"), "Below", "none")
	s.holds(done("budgets", "show", "ada"), "Customer", "ada")
	s.holds(done("budgets", "windows", "ada"), "LIMIT", "SINCE", "UNTIL", "USED", "OF")
	s.holds(done("budgets", "archive", "ada"), "Status", "ARCHIVED")

	made := s.ok("keys", "create", "--label", "agent")
	require.NotEmpty(t, made)
	var keys []api.Key
	s.json(&keys, "keys", "list")
	id := keys[len(keys)-1].ID
	require.Contains(t, s.ok("keys", "bind", id, "team"), "Bound "+id+" to team")
	s.holds(s.ok("keys", "list"), "agent", "team")
	s.json(&keys, "keys", "list")
	require.Equal(t, "team", keys[len(keys)-1].Budget)
	_, code := s.run("keys", "bind", id, "nobody")
	require.Equal(t, 1, code)
	require.Contains(t, s.ok("keys", "unbind", id), "Unbound "+id)
	s.holds(s.ok("keys", "list"), "agent", "–")
	for _, limit := range []string{"money 1 day", "price USD", "price USD x day", "cost 1 day hard"} {
		_, _, code := s.asClient("budgets", "put", "x", "--name", "X", "--limit", limit)
		require.Equal(t, 2, code, limit)
	}
}
