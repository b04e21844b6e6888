package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/local"
)

// TestASupportBundleHoldsNoSecret: of configurations, also where a log quotes it, and no key.
func TestASupportBundleHoldsNoSecret(t *testing.T) {
	s := newShell(t)
	t.Chdir(t.TempDir())
	settings := config.Default()
	settings.AdminKeyHash, settings.SecretsKey = strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	settings.SignIn.Persons.ClientSecret = "client-secret-1"
	settings.Workspaces.Stripe.SecretKey = "rk_live_2"
	settings.Workspaces.Stripe.WebhookSecret = "hook-secret-3"
	settings.Workspaces.Commands = []config.AgentCommand{{
		Name: "x", Command: []string{"/usr/bin/agent", "--token", "agent-secret-4"},
	}}
	text, err := settings.YAML()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("node.yaml", text, 0o600))
	require.NoError(t, os.WriteFile("broken.yaml", []byte("secretsKey: [broken-secret-5"), 0o600))
	misspelt := "secretKeys:\n  - misspelt-secret-6\n"
	require.NoError(t, os.WriteFile("misspelt.yaml", []byte(misspelt), 0o600))
	require.NoError(t, os.WriteFile("node.log", []byte("first\n"+strings.Repeat("x", 5<<20)+
		"\nlevel=WARN msg=\"hook-secret-3 was refused\" key=sk_live_abcDEF123 Authorization: Bearer xyz789\n"+
		"broken-secret-5 and misspelt-secret-6 were refused\n"+
		"the last line\n"), 0o600))

	odd := config.Default() // quoted, and cut by the end of a log
	odd.SecretsKey = strings.Repeat("ef", 32)
	odd.Workspaces.Stripe.WebhookSecret = `p&ss"w\x`
	text, err = odd.YAML()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("odd.yaml", text, 0o600))
	cut := `{"a":"p\u0026ss\"w\\x"} {"b":"p&ss\"w\\x"}` + "\n"
	cut = strings.Repeat("ef", 32) + "\n" + cut
	cut += strings.Repeat("x", 4<<20-len(cut)+32) + "\n"
	require.NoError(t, os.WriteFile("cut.log", []byte(cut), 0o600))

	out, code := s.run("support", "b.tar.gz", "--config", "odd.yaml", "--log", "cut.log",
		"--config", "node.yaml", "--config", "broken.yaml", "--config", "misspelt.yaml",
		"--log", "node.log", "--log", "missing.log")
	require.Zero(t, code, out)
	require.Contains(t, out, "Wrote b.tar.gz. Not everything could be collected: see problems.txt (")
	info, err := os.Stat("b.tar.gz")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	files := bundleOf(t, "b.tar.gz")
	whole := ""
	for name, text := range files {
		whole += name + text
	}
	for _, secret := range []string{
		settings.AdminKeyHash, settings.SecretsKey, "client-secret-1", "rk_live_2", "hook-secret-3",
		"agent-secret-4", `w\\x`, "efefef", "broken-secret-5", "misspelt-secret-6", "sk_live_abcDEF123", "xyz789", s.args[3],
	} {
		require.False(t, strings.Contains(whole, secret), secret)
	}
	require.Contains(t, files["config-2.yaml"], "clientSecret: (left out)")
	require.Contains(t, files["config-2.yaml"], "/usr/bin/agent")
	require.True(t, strings.HasSuffix(files["log-2.txt"], "the last line\n"))
	require.NotContains(t, files["log-2.txt"], "first", "the end of a log is taken")
	require.Contains(t, files["version.txt"], "tollgate ")
	require.Contains(t, files["doctor.txt"], "fail, ")
	require.Contains(t, files["node-1-status.json"], `"status"`)
	require.Contains(t, files["node-1-metrics.txt"], "tollgate_")
	require.Contains(t, files["problems.txt"], "missing.log")
	require.Contains(t, files["problems.txt"], "broken.yaml")

	_, code = s.run("support", "b.tar.gz")
	require.Equal(t, 1, code, "it exists already")
	require.Equal(t, files, bundleOf(t, "b.tar.gz"))
	out, code = alone("support", "none.tar.gz", "--data", t.TempDir())
	require.Zero(t, code, out)
	require.Contains(t, bundleOf(t, "none.tar.gz")["problems.txt"], "dev.json does not exist")
	_, code = alone("support", filepath.Join("no", "folder", "b.tar.gz"))
	require.Equal(t, 1, code)
}

// TestASupportBundleIsInterrupted: while it waits for a log that does not end.
func TestASupportBundleIsInterrupted(t *testing.T) {
	t.Chdir(t.TempDir())
	in, out, err := os.Pipe()
	require.NoError(t, err)
	defer in.Close()
	defer out.Close()
	old := os.Stdin
	os.Stdin = in
	defer func() { os.Stdin = old }()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	c := local.SupportCommand{Log: []string{"-"}, File: "b.tar.gz"}
	c.Data = t.TempDir()
	require.ErrorIs(t, c.Run(ctx, io.Discard), context.DeadlineExceeded)
	require.NoFileExists(t, "b.tar.gz")
}

func bundleOf(t *testing.T, name string) map[string]string {
	t.Helper()
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	files := map[string]string{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		text, err := io.ReadAll(archive)
		require.NoError(t, err)
		files[filepath.Base(header.Name)] = string(text)
	}
}
