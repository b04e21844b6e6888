package admin_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/admin"
	"tollgate/server/client"
)

const sandbox = "accounts/demo/environments/sandbox/"

// furnish makes an account with a catalog, a key and a customer.
func (n *node) furnish() (key string) {
	n.call("POST", "accounts", `{"name":"demo"}`).is(201, "")
	key = n.call("POST", sandbox+"keys", `{"scope":"full"}`).is(201, "").data()["key"].(string)
	n.send("PUT", sandbox+"catalog", catalogYAML, n.key, "application/yaml").is(200, "")
	n.send("POST", client.Prefix+"/customers", `{"externalClientCustomerId":"ada","firstName":"Ada",`+
		`"lastName":"Lovelace","email":"ada@example.com"}`, key, "application/json").is(201, "")
	return key
}

func TestCustomerKeysAreMadeForACustomer(t *testing.T) {
	n := start(t)
	n.furnish()
	n.call("POST", sandbox+"keys", `{"scope":"customer"}`).is(400, "validation_failed")
	n.call("POST", sandbox+"keys", `{"scope":"read","customer":"ada"}`).is(400, "validation_failed")
	n.call("POST", sandbox+"keys", `{"scope":"customer","customer":"nobody"}`).
		is(404, "customer_not_found")
	key := n.call("POST", sandbox+"keys", `{"scope":"customer","customer":"ada"}`).is(201, "").
		data()["key"].(string)
	require.Contains(t, key, "ck_test_")
	n.send("GET", client.Prefix+"/customers/ada", "", key, "").is(200, "")
	n.send("GET", client.Prefix+"/plans", "", key, "").is(403, "access_denied")
	list := n.call("GET", sandbox+"keys", "").list()
	require.Equal(t, "ada", list[1].(map[string]any)["customer"])
	require.Equal(t, "customer", list[1].(map[string]any)["scope"])
}

func TestOrigins(t *testing.T) {
	n := start(t)
	n.furnish()
	for _, bad := range []string{
		`"shop.example"`, `"https://shop.example/"`, `"https://Shop.example"`, `"ftp://x"`, `"null"`, `7`,
		`"https://u@shop.example"`,
	} {
		n.call("PUT", sandbox+"origins", `{"origins":[`+bad+`]}`).is(400, "validation_failed")
	}
	n.call("PUT", sandbox+"origins", `{"origins":["https://shop.example","http://127.0.0.1:3000"]}`).
		is(200, "")
	require.Equal(t, []any{"https://shop.example", "http://127.0.0.1:3000"},
		n.call("GET", sandbox+"origins", "").is(200, "").data()["origins"])
	n.call("PUT", "accounts/nobody/environments/live/origins", `{"origins":[]}`).
		is(404, "account_not_found")
}

func TestErasure(t *testing.T) {
	n := start(t)
	key := n.furnish()
	n.call("DELETE", sandbox+"customers/nobody?erase=true", "").is(404, "customer_not_found")
	n.call("DELETE", sandbox+"customers/ada?erase=yes", "").is(400, "validation_failed")
	n.call("DELETE", sandbox+"customers/ada?erase=true", "").is(200, "")
	n.call("DELETE", sandbox+"customers/ada?erase=true", "").is(200, "")
	a := n.send("GET", client.Prefix+"/customers/ada", "", key, "").is(200, "")
	require.Equal(t, "erased", a.data()["lastName"])
	require.Equal(t, "erased@erased.invalid", a.data()["email"])
	require.NotContains(t, a.raw, "Lovelace")
	n.call("DELETE", sandbox+"customers/ada", "").is(200, "")
	require.NotContains(t, n.call("GET", "audit", "").raw, "Lovelace")
}

func TestEveryAdminChangeIsListed(t *testing.T) {
	n := start(t)
	n.furnish()
	a := n.call("GET", "audit?limit=2", "").is(200, "")
	changes := a.data()["changes"].([]any)
	require.Len(t, changes, 2)
	newest := changes[0].(map[string]any)
	require.Equal(t, "catalog.applied", newest["action"])
	require.Equal(t, "demo", newest["account"])
	require.Equal(t, "sandbox", newest["environment"])
	require.Equal(t, "admin-key", newest["actor"])
	require.NotEmpty(t, newest["at"])
	require.Equal(t, "created", newest["after"].(map[string]any)["plan team"])
	made := changes[1].(map[string]any)
	require.Equal(t, map[string]any{}, made["before"])
	require.Equal(t, "full", made["after"].(map[string]any)["scope"])
	next := a.data()["nextCursor"].(string)
	a = n.call("GET", "audit?limit=2&cursor="+next, "").is(200, "")
	require.Equal(t, "account.created", a.data()["changes"].([]any)[0].(map[string]any)["action"])
	require.Nil(t, a.data()["nextCursor"])
	n.call("GET", "audit?limit=0&cursor=x", "").is(400, "validation_failed")
	n.send("GET", "/api/v1/admin/audit", "", "", "").is(401, "invalid_key")
}

// TestAccountsAndKeysAreMadeOnce: with an Idempotency-Key a repeat answers what the first request
// made, the key included; another request with it is refused; each environment has its own.
func TestAccountsAndKeysAreMadeOnce(t *testing.T) {
	n := start(t)
	for _, bad := range []string{"a b", strings.Repeat("k", 256)} {
		n.once("accounts", bad, `{"name":"demo"}`).is(400, "validation_failed")
		n.once(sandbox+"keys", bad, `{"scope":"full"}`).is(400, "validation_failed")
	}
	made := n.once("accounts", "k", `{"name":"demo"}`).is(201, "")
	require.Equal(t, made.body, n.once("accounts", "k", `{"name":"demo"}`).is(201, "").body)
	n.once("accounts", "k", `{"name":"other"}`).is(409, "idempotency_key_reused")
	n.once("accounts", "k2", `{"name":"demo"}`).is(409, "account_exists")
	require.Len(t, n.call("GET", "accounts", "").list(), 1)

	n.once(sandbox+"keys", "a b", `{"scope":"full"}`).is(400, "validation_failed")
	key := n.once(sandbox+"keys", "k", `{"scope":"full","label":"ci"}`).is(201, "")
	require.Equal(t, key.body, n.once(sandbox+"keys", "k", `{"scope":"full","label":"ci"}`).
		is(201, "").body)
	n.once(sandbox+"keys", "k", `{"scope":"read","label":"ci"}`).is(409, "idempotency_key_reused")
	require.Len(t, n.call("GET", sandbox+"keys", "").list(), 1)
	text := key.data()["key"].(string)
	require.Equal(t, text[:len("sk_test_")+4], key.data()["hint"])
	n.send("GET", client.Prefix+"/plans", "", text, "").is(200, "")
	live := n.once("accounts/demo/environments/live/keys", "k", `{"scope":"full","label":"ci"}`).
		is(201, "").data()["key"].(string)
	others := map[string]bool{text[8:]: true, live[8:]: true}
	for _, once := range []string{"k3", "", ""} {
		header := http.Header{}
		if once != "" {
			header.Set("Idempotency-Key", once)
		}
		a := n.sendWith(header, "POST", admin.Prefix+"/"+sandbox+"keys", `{"scope":"full"}`, n.key,
			"application/json").is(201, "")
		others[a.data()["key"].(string)[8:]] = true
	}
	require.Len(t, others, 5, "no two are the same")

	// A revoked key stays revoked, and its answer what it was.
	n.call("DELETE", sandbox+"keys/"+key.data()["id"].(string), "").is(200, "")
	require.Equal(t, key.body, n.once(sandbox+"keys", "k", `{"scope":"full","label":"ci"}`).
		is(201, "").body)
	n.send("GET", client.Prefix+"/plans", "", text, "").is(401, "")
}

// TestAKeyIsNotShownAgainByAnotherSecret: a node whose secret was changed makes no other key of it.
func TestAKeyIsNotShownAgainByAnotherSecret(t *testing.T) {
	n := start(t)
	n.call("POST", "accounts", `{"name":"demo"}`).is(201, "")
	n.once(sandbox+"keys", "k", `{"scope":"full"}`).is(201, "")
	before := n.addr
	n.serveAdmin(admin.NewMetrics(), [32]byte{2}, time.Minute)
	n.once(sandbox+"keys", "k", `{"scope":"full"}`).is(409, "key_not_shown")
	require.Len(t, n.call("GET", sandbox+"keys", "").list(), 1)
	n.addr = before
	n.once(sandbox+"keys", "k", `{"scope":"full"}`).is(201, "")
}

// TestWhatTakesNoBodyRefusesOne: a field that nobody reads is a mistake that somebody made.
func TestWhatTakesNoBodyRefusesOne(t *testing.T) {
	n := start(t)
	n.furnish()
	names := regexp.MustCompile(`\{[a-z]+\}`)
	checked := 0
	for path, item := range n.describe().Paths.Map() {
		for method, operation := range item.Operations() {
			if operation.RequestBody != nil || method == "GET" {
				continue
			}
			checked++
			path := strings.Replace(path, "{account}", "demo", 1)
			path = strings.Replace(path, "{environment}", "sandbox", 1)
			path = strings.TrimPrefix(names.ReplaceAllString(path, unknownID), admin.Prefix+"/")
			for _, body := range []string{`{"dryRun":true}`, `[]`, `{"a":1,"a":2}`} {
				n.call(method, path, body).is(400, "")
			}
			n.call(method, path, `{"dryRun":true}`).is(400, "validation_failed")
			require.Equal(t, n.call(method, path, "").status, n.call(method, path, `{}`).status, path)
		}
	}
	require.Greater(t, checked, 5)
}
