package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThePortalFromTheCommandLine(t *testing.T) {
	s := newShell(t)
	require.Contains(t, s.ok("portal", "link", "ada", "--minutes", "5"), "/portal/")
	_, code := s.run("portal", "link", "ada", "--minutes", "4")
	require.Equal(t, 1, code)
	_, code = s.run("portal", "link", "nobody")
	require.Equal(t, 1, code)
	require.Contains(t, s.ok("portal", "revoke", "ada"), "All links of ada have ended.")

	s.holds(s.ok("portal", "show"), "Colour", "standard", "Logo", "none")
	logo := filepath.Join(t.TempDir(), "logo.png")
	require.NoError(t, os.WriteFile(logo, []byte("\x89PNG\r\n\x1a\n"), 0o600))
	s.ok("portal", "set", "--colour", "#004080", "--logo", logo)
	s.holds(s.ok("portal", "show"), "Colour", "#004080", "Logo", "set")
	s.ok("portal", "set", "--colour", "#004081")
	s.holds(s.ok("portal", "show"), "Colour", "#004081", "Logo", "set")
	s.ok("portal", "set", "--colour", "#004082", "--standard")
	s.holds(s.ok("portal", "show"), "Colour", "#004082", "Logo", "none")
	_, code = s.run("portal", "set", "--logo", filepath.Join(t.TempDir(), "none.png"))
	require.NotZero(t, code)
}
