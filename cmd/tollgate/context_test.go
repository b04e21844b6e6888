package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/devdata"
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

	refused(`unknown context "none"; known: prod, dev`, "keys", "list", "--context", "none")
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

// TestWhichClusterACommandGoesTo: flags, then --context, then the environment, then the context in
// use, then dev.json; and no key goes to another one's addresses.
func TestWhichClusterACommandGoesTo(t *testing.T) {
	contextsOf(t)
	prod, atProd := standIn(t)
	staging, atStaging := standIn(t)
	local, atLocal := standIn(t)
	for _, args := range [][]string{
		{"prod", "--ops", prod, "--admin-key", "prods", "--account", "acme", "--env", "live"},
		{"keyless", "--ops", prod},
		{"homeless", "--admin-key", "kept", "--key", "kept"},
	} {
		_, code := alone(append([]string{"context", "set"}, args...)...)
		require.Zero(t, code)
	}
	require.NoError(t, os.Mkdir(".tollgate", 0o700))
	require.NoError(t, devdata.Folder(".tollgate").Save(devdata.Running{
		Keys:  devdata.Keys{AdminKey: "devs", SandboxKey: "sk_test_dev", LiveKey: "sk_live_dev"},
		Nodes: []devdata.Node{{ID: "node1", Ops: local, HTTP: local}},
	}))
	const sandbox, live = " /api/v1/admin/accounts/demo/environments/sandbox/keys",
		" /api/v1/admin/accounts/acme/environments/live/keys"
	const list = "subscriptions list ada"
	for _, c := range []struct {
		env, use, args string
		at             *[]string
		want           string // who is asked for what with which key, or the refusal
	}{
		{"", "", "keys list", atLocal, "devs" + sandbox},
		{"", "prod", "keys list", atProd, "prods" + live},
		{"TOLLGATE_OPS=S TOLLGATE_ADMIN_KEY=k", "prod", "keys list", atStaging, "k" + sandbox},
		{"TOLLGATE_OPS=S TOLLGATE_ADMIN_KEY=k", "", "keys list --context prod", atProd, "prods" + live},
		{"TOLLGATE_ADMIN_KEY=k", "", "keys list --context prod", atProd, "prods" + live},
		{"TOLLGATE_ADMIN_KEY=k", "prod", "keys list", atProd, "prods" + live},
		{"TOLLGATE_ADMIN_KEY=k", "", "keys list --context keyless", atProd, "k" + sandbox},
		{"TOLLGATE_OPS=S TOLLGATE_ADMIN_KEY=k", "prod", "keys list --data .tollgate", atLocal, "devs" + sandbox},
		{"TOLLGATE_OPS=S TOLLGATE_ADMIN_KEY=k", "prod", "keys list --context dev", atLocal, "devs" + sandbox},
		{"TOLLGATE_CONTEXT=prod", "", "keys list --ops S --admin-key k", atStaging, "k" + sandbox},
		{"", "prod", "keys list --ops L", atLocal, "devs" + sandbox},
		{"", "", list + " --key sk_live_a", atLocal, "sk_live_a"},
		{"", "", list, atLocal, "sk_test_dev"},
		{"", "", list + " --env live", atLocal, "sk_live_dev"},
		{"", "", list + " --url http://L", atLocal, "sk_test_dev"},

		{"", "", "keys list --context prod --ops S", nil, "name two clusters"},
		{"", "", "keys list --context prod --data .", nil, "name two clusters"},
		{"", "", "keys list --context keyless", nil, "whose key goes to its own nodes only"},
		{"", "", "keys list --ops S", nil, "whose key goes to its own nodes only"},
		{"", "", "keys list --context homeless", nil, "context homeless has no --ops"},
		{"", "homeless", list, nil, "context homeless has no --url"},
		{"", "prod", "ready --context homeless", nil, "context homeless has no --ops"},
		{"", "", list + " --key sk_live_a --env sandbox", nil, "sk_live_… is a key of the other environment"},
		{"", "", list + " --key ck_test_a --env live", nil, "ck_test_… is a key of the other environment"},
		{"", "", "events send ada calls --key sk_live_a --env sandbox", nil, "nothing was sent"},
		{"", "prod", "ready", atProd, ""},
		{"", "prod", "replay --generate 1 --no-plan --patience 1s", atLocal, "sk_test_dev"},
	} {
		t.Run(c.env+" "+c.use+" "+c.args, func(t *testing.T) {
			where := strings.NewReplacer("=S", "="+staging, " S", " "+staging, " L", " "+local, "//L", "//"+local)
			for _, set := range strings.Fields(where.Replace(c.env)) {
				name, value, _ := strings.Cut(set, "=")
				t.Setenv(name, value)
			}
			_, code := alone("context", "use", cmp.Or(c.use, "dev"))
			require.Zero(t, code)
			*atProd, *atStaging, *atLocal = nil, nil, nil
			stderr, done := captureStderr(t)
			alone(strings.Fields(where.Replace(c.args))...)
			done()
			if c.at == nil {
				require.Contains(t, stderr(), c.want)
				require.Empty(t, slices.Concat(*atProd, *atStaging, *atLocal))
				return
			}
			require.NotEmpty(t, *c.at, stderr())
			require.Contains(t, (*c.at)[0], "Bearer "+c.want)
			require.Len(t, slices.Concat(*atProd, *atStaging, *atLocal), len(*c.at))
		})
	}
	_, code := alone("context", "use", "dev")
	require.Zero(t, code)
	require.NoError(t, devdata.Folder(".tollgate").Save(devdata.Running{
		Nodes: []devdata.Node{{ID: "node1", Ops: "10.0.0.1:9080", HTTP: "10.0.0.1:8080"}},
	}))
	for _, args := range []string{"keys list --admin-key k", list + " --key k"} {
		stderr, done := captureStderr(t)
		_, code := alone(strings.Fields(args)...)
		done()
		require.Equal(t, 1, code)
		require.Contains(t, stderr(), "is not on this machine", "a dev.json of somebody else's repository")
	}
}

// TestContextsAreReadWhereTheyCount: services have no home, and what is given needs no file.
func TestContextsAreReadWhereTheyCount(t *testing.T) {
	file := contextsOf(t)
	node, asked := standIn(t)
	_, code := alone("context", "set", "prod", "--ops", node)
	require.Zero(t, code)
	require.NoError(t, os.Chmod(file, 0o644))
	given := []string{"keys", "list", "--ops", node, "--admin-key", "k", "--account", "a"}
	_, code = alone(given...)
	require.Zero(t, code)
	t.Setenv("HOME", "")
	t.Setenv("XDG_CONFIG_HOME", "")
	_, code = alone(given...)
	require.Zero(t, code)
	stderr, done := captureStderr(t)
	_, code = alone("keys", "list")
	done()
	require.Equal(t, 1, code)
	require.Contains(t, stderr(), "dev.json does not exist")
	stderr, done = captureStderr(t)
	_, code = alone("keys", "list", "--context", "prod")
	done()
	require.Equal(t, 1, code)
	require.Contains(t, stderr(), `unknown context "prod"`)
	require.Len(t, *asked, 2)
}

// TestContextsAreSetAtOnce: none that was set is lost.
func TestContextsAreSetAtOnce(t *testing.T) {
	file := contextsOf(t)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte(`{"contexts":null}`), 0o600))
	var all sync.WaitGroup
	codes := make([]int, 8)
	for i := range codes {
		all.Go(func() {
			_, codes[i] = alone("context", "set", fmt.Sprintf("c%d", i), "--account", "acme")
		})
	}
	all.Wait()
	require.Equal(t, make([]int, 8), codes)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 8, strings.Count(string(text), "acme"))
}

// TestAContextIsSetWhole: with keys from a pipe and the authority's file.
func TestAContextIsSetWhole(t *testing.T) {
	file := contextsOf(t)
	set := func(input string, args ...string) (said string, code int) {
		t.Helper()
		pipe := filepath.Join(t.TempDir(), "input")
		require.NoError(t, os.WriteFile(pipe, []byte(input), 0o600))
		in, err := os.Open(pipe)
		require.NoError(t, err)
		defer in.Close()
		old := os.Stdin
		os.Stdin = in
		defer func() { os.Stdin = old }()
		stderr, done := captureStderr(t)
		_, code = alone(append([]string{"context", "set", "prod"}, args...)...)
		done()
		return stderr(), code
	}
	require.NoError(t, os.WriteFile("ca.pem", nil, 0o600))
	_, code := set("a\nb\n", "--admin-key", "-", "--key", "-", "--ca", "ca.pem")
	require.Zero(t, code)
	where, err := filepath.Abs("ca.pem")
	require.NoError(t, err)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for name, value := range map[string]string{"adminKey": "a", "key": "b", "ca": where} {
		require.Contains(t, string(text), `"`+name+`": "`+value+`"`)
	}
	for _, input := range []string{"", "\n"} {
		said, code := set(input, "--key", "-")
		require.Equal(t, 1, code)
		require.Contains(t, said, "nothing was changed")
	}
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(text), string(after))
}
