package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/demo"
)

func TestWebhooksFromTheCommandLine(t *testing.T) {
	s := newShell(t)
	secret := s.ok("webhooks", "create", "https://hooks.example/a", "--event", "invoice.due",
		"--description", "books")
	require.True(t, strings.HasPrefix(secret, "whsec_"))
	var all []struct{ ID string }
	s.json(&all, "webhooks", "list")
	require.Len(t, all, 1)
	id := all[0].ID
	s.holds(s.ok("webhooks", "list"), id, "enabled", "0", "0", "0", "0", "invoice.due",
		"https://hooks.example/a")
	require.NotEqual(t, secret, s.ok("webhooks", "rotate", id))

	s.client("POST", "subscriptions", map[string]any{
		"planId": demo.ReplayPlan, "customerReferenceId": "ada",
	}, nil)
	out := s.ok("webhooks", "deliveries", id, "--status", "pending")
	s.holds(out, "invoice.due", "ada", "pending", "0")
	message := out[strings.Index(out, "msg_"):][:len("msg_")+32]
	require.Contains(t, s.ok("webhooks", "show", id, message), `"payload":{"type":"invoice.due"`)
	s.ok("webhooks", "resend", id, message)
	require.Equal(t, "0 messages wait to be sent.\n",
		s.ok("webhooks", "resend-many", id, "--from", "2020-01-01T00:00:00Z"))

	s.holds(s.ok("webhooks", "update", id, "--disable", "--event", "all"), "disabled", "1", "0", "0", "0", "all")
	_, code := s.run("webhooks", "resend", id, message)
	require.Equal(t, 1, code)
	s.holds(s.ok("webhooks", "update", id, "--enable", "--url", "https://hooks.example/b"),
		"enabled", "1", "0", "0", "0", "all", "https://hooks.example/b")
	require.Contains(t, s.ok("webhooks", "delete", id), "Removed")
	s.json(&all, "webhooks", "list")
	require.Empty(t, all)
	_, code = s.run("webhooks", "create", "http://127.0.0.1:9999/")
	require.Equal(t, 1, code)
}
