package admin_test

import (
	"testing"

	"github.com/stretchr/testify/require"

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
