package admin_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCustomersAreListed: newest first, page by page, each environment its own.
func TestCustomersAreListed(t *testing.T) {
	n := start(t)
	n.call("POST", "accounts", `{"name":"demo"}`).is(201, "")
	keys := map[string]string{}
	for _, environment := range []string{"live", "sandbox"} {
		keys[environment] = n.call("POST", "accounts/demo/environments/"+environment+"/keys",
			`{"scope":"full"}`).is(201, "").data()["key"].(string)
	}
	for i := range 7 {
		for environment, key := range keys {
			n.send("POST", "/api/v1/client/customers", fmt.Sprintf(`{"externalClientCustomerId":`+
				`"%s-%d","firstName":"A","lastName":"B","email":"a@b.example"}`, environment, i),
				key, "application/json").is(201, "")
		}
	}
	const list = "accounts/demo/environments/sandbox/customers?limit=3"
	var seen []string
	page := n.call("GET", list, "").is(200, "").data()
	for {
		for _, c := range page["customers"].([]any) {
			seen = append(seen, c.(map[string]any)["externalClientCustomerId"].(string))
		}
		cursor, more := page["nextCursor"].(string)
		if !more {
			break
		}
		page = n.call("GET", list+"&cursor="+cursor, "").is(200, "").data()
	}
	require.Equal(t, []string{
		"sandbox-6", "sandbox-5", "sandbox-4", "sandbox-3", "sandbox-2", "sandbox-1", "sandbox-0",
	}, seen)
	n.call("GET", list+"&cursor=x", "").is(400, "validation_failed")
	n.call("GET", "accounts/demo/environments/sandbox/customers?limit=1001", "").
		is(400, "validation_failed")
}
