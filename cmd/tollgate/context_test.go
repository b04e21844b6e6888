package main

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// cluster stands for a node, and remembers the keys that it was sent.
func standIn(t *testing.T) (address string, keys *[]string) {
	keys = &[]string{}
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*keys = append(*keys, r.Header.Get("Authorization")+" "+r.URL.Path)
		w.Write([]byte(`{"success":true,"data":[]}`))
	}))
	t.Cleanup(node.Close)
	return node.Listener.Addr().String(), keys
}

// contextsOf points the command line at a folder of contexts of this test's own.
func contextsOf(t *testing.T) (file string) {
	folder := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", folder)
	t.Setenv("HOME", folder)
	t.Chdir(t.TempDir()) // without dev.json
	return filepath.Join(folder, "tollgate", "contexts.json")
}

func TestContextsNameClustersAndKeepTheirKeys(t *testing.T) {
	file := contextsOf(t)
	ours, keys := standIn(t)
	theirs, leaked := standIn(t)
	did := func(args ...string) string {
		t.Helper()
		out, code := alone(args...)
		require.Zero(t, code, args)
		return out
	}
	refused := func(why string, args ...string) {
		t.Helper()
		stderr, done := captureStderr(t)
		out, code := alone(args...)
		done()
		require.Equal(t, 1, code, args)
		require.Contains(t, out+stderr(), why)
	}
	did("context", "set", "prod", "--ops", ours, "--admin-key", "ak_secret", "--url", ours,
		"--key", "sk_secret", "--account", "acme", "--env", "live")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())

	did("catalog", "show", "--context", "prod")
	did("context", "use", "prod")
	did("keys", "list", "--env", "sandbox")
	did("subscriptions", "list", "ada")
	require.Equal(t, []string{
		"Bearer ak_secret /api/v1/admin/accounts/acme/environments/live/catalog",
		"Bearer ak_secret /api/v1/admin/accounts/acme/environments/sandbox/keys",
		"Bearer sk_secret /api/v1/client/customers/ada/subscriptions",
	}, *keys)
	for _, args := range [][]string{{"context", "list"}, {"context", "list", "--json"}} {
		require.NotContains(t, did(args...), "secret")
	}
	require.Regexp(t, `\*\s+prod\s+127.*admin, client\s+acme\s+live`, did("context", "list"))

	// A context's keys go to no other address.
	refused("or a context", "keys", "list", "--ops", theirs)
	refused("or a context", "check", "ada", "x", "--url", theirs)
	refused("or a context", "keys", "list", "--data", t.TempDir())
	t.Setenv("TOLLGATE_OPS", theirs)
	refused("or a context", "keys", "list")
	t.Setenv("TOLLGATE_OPS", "")
	require.Empty(t, *leaked)
	did("keys", "list", "--ops", theirs, "--admin-key", "of-theirs")
	require.Len(t, *leaked, 1)

	refused(`there is no context "none": want prod, dev`, "keys", "list", "--context", "none")
	refused("nothing was changed", "context", "use", "none")
	refused("nothing was changed", "context", "set", "dev", "--ops", ours)
	refused("or a context", "keys", "list", "--context", "dev")
	require.NoError(t, os.Chmod(file, 0o640))
	refused("chmod 600 "+file, "keys", "list")
	require.NoError(t, os.Chmod(file, 0o600))
	require.Contains(t, did("context", "remove", "prod"), "commands go to dev")
	refused("nothing was changed", "context", "remove", "prod")
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	refused(file, "context", "list")
}
