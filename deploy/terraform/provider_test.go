package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	api "tollgate/sdk/go"
)

const patient = 2 * time.Minute // for a start of a second on a quiet machine

// node is a development cluster of one node, which all tests of the package use.
type node struct {
	Account    string `json:"account"`
	AdminKey   string `json:"adminKey"`
	SandboxKey string `json:"sandboxKey"`
	Nodes      []struct {
		HTTP, Ops string
	} `json:"nodes"`
}

var (
	begin   sync.Once
	running *node
	process *exec.Cmd
	folder  string             // its program and its data
	stop    context.CancelFunc = func() {}
)

// TestMain ends the cluster after the last test, and removes its files. Tests see no key of whoever
// runs them.
func TestMain(m *testing.M) {
	for _, name := range []string{"OPS", "ADMIN_KEY", "URL", "KEY", "CA"} {
		_ = os.Unsetenv("TOLLGATE_" + name)
	}
	code := m.Run()
	if process != nil && process.Process != nil {
		_ = process.Process.Signal(syscall.SIGINT)
		_ = process.Wait()
	}
	stop()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

func start(t *testing.T) *node {
	t.Helper()
	begin.Do(func() {
		var err error
		folder, err = os.MkdirTemp("", "terraform-*")
		require.NoError(t, err)
		binary := filepath.Join(folder, "tollgate")
		build := exec.Command("go", "build", "-o", binary, "./cmd/tollgate")
		build.Dir = "../.."
		printed, err := build.CombinedOutput()
		require.NoError(t, err, string(printed))
		data := filepath.Join(folder, "data")
		process = exec.CommandContext(beforeTimeout(t), binary, "dev", "--nodes", "1",
			"--no-sample-product", "--identity-port", "-1", "--data", data, "--http-port", free(t), "--ops-port", free(t),
			"--raft-port", free(t))
		process.Cancel = func() error { return process.Process.Signal(syscall.SIGINT) }
		process.WaitDelay = grace
		require.NoError(t, process.Start())
		require.Eventually(t, func() bool {
			text, err := os.ReadFile(filepath.Join(data, "dev.json"))
			var n node
			if err != nil || json.Unmarshal(text, &n) != nil {
				return false
			}
			running = &n
			return true
		}, patient, 20*time.Millisecond)
	})
	require.NotNil(t, running, "the cluster did not start, see the other test")
	return running
}

// grace is how long before the tests time out the cluster is ended: after that nothing would.
const grace = 20 * time.Second

// beforeTimeout ends with TestMain, or a little before the tests time out.
func beforeTimeout(t *testing.T) context.Context {
	ctx := context.Background()
	if end, limited := t.Deadline(); limited {
		ctx, stop = context.WithDeadline(ctx, end.Add(-grace))
	}
	return ctx
}

func free(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

// settings are those of the provider for the sandbox.
func (n *node) settings() block {
	return block{
		"ops": []any{n.Nodes[0].Ops}, "admin_key": n.AdminKey, "url": []any{n.Nodes[0].HTTP},
		"key": n.SandboxKey, "account": n.Account, "environment": "sandbox",
	}
}

// client is somebody else's way to the cluster.
func (n *node) client(t *testing.T, address, key string) *api.Client {
	c, err := api.New([]string{address}, key, 1)
	require.NoError(t, err)
	c.Patience = patience
	t.Cleanup(c.Close)
	return c
}

func (n *node) path() string {
	return "/api/v1/admin/accounts/" + n.Account + "/environments/sandbox"
}

const features = `
features:
  - {key: tf-calls, name: Calls}
  - {key: tf-pages, name: %s}
plans:
  - key: tf-basic
    name: Basic
    priceAmount: "20.00"
    currency: USD
    intervalMonths: 1
    features:
      - {key: tf-calls, pricingType: usage_based, pricing: {pricePerUnit: "0.01"}}
`

// TestACatalogIsKept: made, changed, changed by somebody else, imported, archived.
func TestACatalogIsKept(t *testing.T) {
	n := start(t)
	c := newCore(t, n.settings())
	const kind = "tollgate_catalog"
	config := block{"document": fmt.Sprintf(features, "Pages")}
	state := c.apply(kind, nil, config)
	require.Equal(t, n.Account+"/sandbox", state["id"])
	config["document"] = fmt.Sprintf(features, "Sites")
	state = c.apply(kind, state, config)

	_, say := c.try(kind, state, block{"document": "features:\n  - {key: tf-calls, colour: red}\n"})
	require.Contains(t, say, "nothing of it was changed")
	require.Contains(t, say, "colour")
	c.unchanged(kind, state, config)

	admin := n.client(t, n.Nodes[0].Ops, n.AdminKey)
	_, err := admin.Call(t.Context(), "PUT", n.path()+"/catalog", map[string]any{
		"features": []any{map[string]any{"key": "tf-pages", "name": "Changed by hand"}},
	}, nil)
	require.NoError(t, err)
	read := c.read(kind, state)
	require.Contains(t, read["document"], "Changed by hand", "drift is seen")
	planned, _, _, say := c.plan(kind, read, config)
	require.Empty(t, say)
	require.NotEqual(t, read, planned)
	state = c.apply(kind, read, config)

	brought := c.bring(kind, n.Account+"/sandbox")
	require.Contains(t, brought["document"], `"tf-basic"`)
	c.unchanged(kind, brought, block{"document": brought["document"]})

	gone, say := c.try(kind, state, nil)
	require.Empty(t, say)
	require.Nil(t, gone)
	require.Contains(t, c.warned, "The catalog stays")
	config["prune"] = true
	state = c.apply(kind, nil, config)
	_, say = c.try(kind, state, nil)
	require.Empty(t, say)
	require.Contains(t, c.warned, "The catalog is archived")
	a, err := admin.Call(t.Context(), "GET", n.path()+"/catalog", nil, nil)
	require.NoError(t, err)
	require.Contains(t, string(a.Payload()), `"ARCHIVED"`)
}

// TestABudgetIsKept: made, changed, moved, frozen, changed by somebody else, imported, archived.
func TestABudgetIsKept(t *testing.T) {
	n := start(t)
	c := newCore(t, n.settings())
	const kind = "tollgate_budget"
	top := c.apply(kind, nil, block{"key": "tf-top", "name": "Top"})
	config := block{"key": "tf-team", "name": "Team", "limits": []any{
		block{"of": "price", "limit": "250.00", "window": "month"},
		block{
			"of": "price", "limit": "1000", "window": "day", "time_zone": "Europe/Berlin", "mode": "soft",
			"currency": "EUR", "thresholds": []any{80, 100},
		},
	}}
	state := c.apply(kind, nil, config)
	config["name"], config["frozen"] = "A team", true
	state = c.apply(kind, state, config)
	config["parent"], config["frozen"] = "tf-top", false
	state = c.apply(kind, state, config)
	delete(config, "limits")
	state = c.apply(kind, state, config)

	_, say := c.try(kind, nil, config)
	require.Contains(t, say, "import it if it exists")
	_, say = c.try(kind, nil, block{
		"key": "tf-wrong", "name": "X",
		"limits": []any{block{"of": "units", "limit": "1", "window": "day"}},
	})
	require.Contains(t, say, "featureKey is required of a limit of units")
	require.NotContains(t, say, "import it")
	_, replaces, _, say := c.plan(kind, state, block{"key": "tf-other", "name": "Team"})
	require.Empty(t, say)
	require.True(t, replaces)
	config["customer"] = "tf-own"
	_, replaces, _, say = c.plan(kind, state, config)
	require.Empty(t, say)
	require.False(t, replaces, "it would be archived, and could not be made again")

	client := n.client(t, n.Nodes[0].HTTP, n.SandboxKey)
	_, err := client.CreateCustomer(t.Context(), api.CustomerRequest{
		ExternalClientCustomerID: "tf-own", FirstName: "Ada", LastName: "Own", Email: "own@acme.example",
	})
	require.NoError(t, err)
	state = c.apply(kind, state, config)
	config["customer"] = "" // as a variable may be that is not set
	state = c.apply(kind, state, config)
	delete(config, "customer")
	state = c.apply(kind, state, config)
	_, err = client.PutBudget(t.Context(), "tf-team", api.BudgetRequest{
		Name: "By hand", Limits: []api.BudgetLimitRequest{{Of: "price", Limit: "7", Window: "hour"}},
	})
	require.NoError(t, err)
	read := c.read(kind, state)
	require.Equal(t, "By hand", read["name"], "drift is seen")
	require.Len(t, read["limits"], 1)
	state = c.apply(kind, read, config)

	brought := c.bring(kind, "tf-team")
	require.Equal(t, state, brought)
	_, say = c.try(kind, state, nil)
	require.Empty(t, say)
	require.Contains(t, c.warned, "the key stays taken")
	require.Nil(t, c.read(kind, state), "an archived one is none")
	_, say = c.try(kind, top, nil)
	require.Empty(t, say)
}

// TestEmptyTextsAreNone: an optional text that is "", as a variable's may be, is as one left out, and
// stays "" in the state.
func TestEmptyTextsAreNone(t *testing.T) {
	c := newCore(t, start(t).settings())
	const kind = "tollgate_budget"
	config := block{"key": "tf-empty", "name": "Empty", "parent": "", "customer": "", "limits": []any{
		block{
			"of": "price", "limit": "5", "window": "day", "feature": "", "currency": "", "time_zone": "",
			"mode": "",
		},
	}}
	state := c.apply(kind, nil, config)
	config["name"] = "Still empty"
	_, say := c.try(kind, c.apply(kind, state, config), nil)
	require.Empty(t, say)
}

// TestABudgetThatWasNotFrozenIsNotInTheState: Terraform would replace it, and so archive it.
func TestABudgetThatWasNotFrozenIsNotInTheState(t *testing.T) {
	n := start(t)
	at, err := url.Parse("http://" + strings.TrimPrefix(n.Nodes[0].HTTP, "http://"))
	require.NoError(t, err)
	through := httputil.NewSingleHostReverseProxy(at)
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/freeze") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		through.ServeHTTP(w, r)
	}))
	defer refusing.Close()
	settings := n.settings()
	settings["url"] = []any{refusing.URL}
	const kind = "tollgate_budget"
	config := block{"key": "tf-cold", "name": "Cold", "frozen": true}
	state, say := newCore(t, settings).try(kind, nil, config)
	require.Contains(t, say, "The budget was created, and is not frozen: Import it as tf-cold")
	require.Nil(t, state)
	c := newCore(t, n.settings())
	state = c.apply(kind, c.bring(kind, "tf-cold"), config)
	require.Equal(t, true, state["frozen"])
}

// TestAWebhookEndpointIsKept: made, changed, changed by somebody else, imported, removed.
func TestAWebhookEndpointIsKept(t *testing.T) {
	n := start(t)
	c := newCore(t, n.settings())
	const kind = "tollgate_webhook_endpoint"
	config := block{"url": "https://hooks.example.com/tollgate"}
	state := c.apply(kind, nil, config)
	require.Contains(t, state["secret"], "whsec_")
	require.Empty(t, state["events"], "which is all of them")
	secret := state["secret"]
	config["description"], config["enabled"] = "of the tests", false
	config["events"] = []any{"invoice.due", "invoice.paid"}
	state = c.apply(kind, state, config)
	require.Equal(t, secret, state["secret"], "it is not shown again, and is kept")
	require.Equal(t, []string{"secret"}, c.sensitive(c.schema.ResourceSchemas[kind]))

	admin := n.client(t, n.Nodes[0].Ops, n.AdminKey)
	at := n.path() + "/webhook-endpoints/" + state["id"].(string)
	_, err := admin.Call(t.Context(), "PATCH", at, map[string]any{"description": "by hand"}, nil)
	require.NoError(t, err)
	read := c.read(kind, state)
	require.Equal(t, "by hand", read["description"], "drift is seen")
	state = c.apply(kind, read, config)

	brought := c.bring(kind, state["id"].(string))
	delete(state, "secret")
	require.Equal(t, state, brought, "the secret is shown once")
	_, say := c.try(kind, brought, nil)
	require.Empty(t, say)
	require.Nil(t, c.read(kind, state))
	disabled := c.apply(kind, nil, block{"url": "https://hooks.example.com/off", "enabled": false})
	require.NoError(t, remove(t.Context(), admin, n.path()+"/webhook-endpoints/"+disabled["id"].(string)))
	require.Nil(t, c.read(kind, disabled), "somebody removed it")
}

func remove(ctx context.Context, c *api.Client, at string) error {
	_, err := c.Call(ctx, "DELETE", at, nil, nil)
	return err
}

func TestACustomerIsLookedUp(t *testing.T) {
	n := start(t)
	c := newCore(t, n.settings())
	client := n.client(t, n.Nodes[0].HTTP, n.SandboxKey)
	_, err := client.CreateCustomer(t.Context(), api.CustomerRequest{
		ExternalClientCustomerID: "tf-acme", FirstName: "Ada", LastName: "Acme", Email: "ada@acme.example",
	})
	require.NoError(t, err)
	found, say := c.look("tollgate_customer", block{"external_id": "tf-acme"})
	require.Empty(t, say)
	require.Len(t, found["id"], 36)
	delete(found, "id")
	require.Equal(t, block{
		"external_id": "tf-acme", "first_name": "Ada", "last_name": "Acme",
		"email": "ada@acme.example", "archived": false, "plans": []any{},
	}, found)
	_, say = c.look("tollgate_customer", block{"external_id": "tf-nobody"})
	require.Contains(t, say, "The customer cannot be read")
}

// TestTheProviderSaysWhatIsMissing: keys, wrong ones too, and the wrong environment.
func TestTheProviderSaysWhatIsMissing(t *testing.T) {
	n := start(t)
	with := func(change block) block {
		s := n.settings()
		for name, value := range change {
			if s[name] = value; value == nil {
				delete(s, name)
			}
		}
		return s
	}
	for what, c := range map[string]struct {
		settings block
		kind     string
		config   block
		say      string
	}{
		"no admin key": {
			with(block{"admin_key": nil}), "tollgate_catalog",
			block{"document": "{}"},
			"The provider has no admin key",
		},
		"no key": {
			with(block{"key": nil}), "tollgate_budget",
			block{"key": "k", "name": "n"},
			"The provider has no API key",
		},
		"a wrong admin key": {
			with(block{"admin_key": "wrong"}), "tollgate_catalog",
			block{"document": "{}"},
			"Is the key that of this cluster",
		},
		"a wrong key": {
			with(block{"key": "sk_test_wrong"}), "tollgate_budget",
			block{"key": "k", "name": "n"},
			"Is the key that of this cluster",
		},
		"another account": {
			with(block{"account": "nobody"}), "tollgate_catalog", block{"document": "{}"}, "404",
		},
	} {
		_, say := newCore(t, c.settings).try(c.kind, nil, c.config)
		require.Contains(t, say, c.say, what)
	}
	for _, c := range []struct {
		change block
		say    string
	}{
		{block{"environment": "staging"}, "want live or sandbox"},
		{block{"ops": []any{"http://"}}, "is not a node address"},
		{block{"ca": "no certificate"}, "certificate"},
	} {
		_, say := tryCore(t, with(c.change))
		require.Contains(t, say, c.say)
	}
	t.Setenv("TOLLGATE_ADMIN_KEY", n.AdminKey)
	t.Setenv("TOLLGATE_OPS", n.Nodes[0].Ops)
	c := newCore(t, with(block{"admin_key": nil, "ops": nil}))
	require.NotEmpty(t, c.bring("tollgate_catalog", n.Account+"/sandbox")["document"])
	require.ElementsMatch(t, []string{"admin_key", "key"}, c.sensitive(c.schema.Provider))
}
