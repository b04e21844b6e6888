package admin_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"
	"github.com/stretchr/testify/require"

	"tollgate/server"
)

// bodies are what routes that name a record need to be taken, by operation.
var bodies = map[string]string{
	"bindKey": `{"budget":"team"}`, "extendReservation": `{"ttlSeconds":900}`,
	"settleReservation": `{"usageUnits":1}`,
	"rollKey":           `{"overlapHours":1}`,
	"grantCredits":      `{"amount":1}`, "deductCredits": `{"amount":1}`, "createPool": `{"name":"x"}`,
	"setLowBalance":         `{"lowBalance":1}`,
	"setTopUp":              `{"below":1,"amount":1,"price":1,"monthlyCap":1,"paymentMethod":"x"}`,
	"endTopUp":              `{"purchase":"018f6b2c-7d1e-7000-8000-000000000001","notPaid":true}`,
	"resendWebhooks":        `{"from":"2020-01-01T00:00:00Z"}`,
	"updateWebhookEndpoint": `{"description":"x"}`, "createPortalLink": `{"expiresInMinutes":60}`,
}

var inBraces = regexp.MustCompile(`\{(\w+)\}`)

// operations calls each for every operation of the published document, in no order.
func (n *node) operations(each func(method, path, operation string)) (count int) {
	for path, item := range n.describe().Paths.Map() {
		for method, operation := range item.Operations() {
			each(method, path, operation.OperationID)
			count++
		}
	}
	return count
}

// TestNoKeyButTheAdminKeyOperates: every route of the operations listener that asks for the admin
// key refuses every other key, and none.
func TestNoKeyButTheAdminKeyOperates(t *testing.T) {
	n := start(t)
	n.furnish()
	keys := map[string]string{"none": "", "the admin key's hash": strings.Repeat("0", 64)}
	for _, prefix := range []string{
		server.KeyPrefixAdmin, server.KeyPrefixWorkspace, server.KeyPrefixCustomerSandbox,
	} {
		keys[prefix] = server.MintKey(prefix)
	}
	for _, scope := range []string{`"full"`, `"read"`, `"customer","customer":"ada"`} {
		keys[scope] = n.call("POST", sandbox+"keys", `{"scope":`+scope+`}`).
			is(201, "").data()["key"].(string)
	}
	refuse := func(method, path string) {
		for whose, key := range keys {
			a := n.send(method, path, "", key, "")
			require.Equal(t, http.StatusUnauthorized, a.status, "%s %s with %s", method, path, whose)
		}
	}
	count := n.operations(func(method, path, operation string) {
		if operation != "describe" {
			refuse(method, inBraces.ReplaceAllString(path, "x"))
		}
	})
	require.Greater(t, count, 30)
	refuse("GET", "/debug/pprof")
	refuse("GET", "/debug/pprof/heap")
}

// everything makes a record of each kind in demo's sandbox and returns their ids by the names that
// paths have for them.
func (n *node) everything(key string) map[string]string {
	n.t.Helper()
	id := func(method, path, body string) string {
		n.t.Helper()
		return n.call(method, path, body).is(201, "").data()["id"].(string)
	}
	ids := map[string]string{"customer": "ada"}
	ids["endpoint"] = id("POST", hooksPath, `{"url":"http://`+n.stripe.Addr().String()+`/hook"}`)
	ids["id"] = id("POST", sandbox+"keys", `{"scope":"read"}`)
	ids["pool"] = id("POST", sandbox+"customers/ada/pools", `{"name":"tokens"}`)
	ids["transaction"] = id("POST", sandbox+"pools/"+ids["pool"]+"/grants", `{"amount":1}`)
	n.call("PUT", sandbox+"payment-provider", `{"provider":"sandbox"}`).is(200, "")
	n.call("PUT", sandbox+"pools/"+ids["pool"]+"/top-up", bodies["setTopUp"]).is(200, "")
	ids["invoice"] = n.subscribe(key)["id"].(string)
	sent := n.call("GET", hooksPath+"/"+ids["endpoint"]+"/deliveries", "").is(200, "").data()
	held := n.send("POST", "/api/v1/client/reservations", `{"reservationKey":"r","featureKey":"tokens",`+
		`"usageUnits":1,"customerReferenceId":"ada"}`, key, "application/json").is(201, "").data()
	ids["reservation"] = held["id"].(string)
	n.send("PUT", "/api/v1/client/budgets/team", `{"name":"Team","limits":[{"of":"cost","limit":1,`+
		`"window":"day"}]}`, key, "application/json").is(200, "")
	ids["budget"], ids["plan"] = "team", "team"
	ids["message"] = sent["deliveries"].([]any)[0].(map[string]any)["id"].(string)
	return ids
}

// TestRecordsAreTheirEnvironments: a record is found below its own account and environment only.
// Below another one it is answered as one that exists nowhere.
func TestRecordsAreTheirEnvironments(t *testing.T) {
	n := start(t)
	ids := n.everything(n.furnish())
	n.call("POST", "accounts", `{"name":"rival"}`).is(201, "")
	asked := 0
	var own, last []func() // their own account's requests, and of those the ones that end a record
	n.operations(func(method, path, operation string) {
		if !strings.Contains(path, "{environment}") || len(inBraces.FindAllString(path, -1)) < 3 {
			return
		}
		asked++
		at := func(environment string, name func(string) string) answer {
			_, rest, _ := strings.Cut(path, "/{environment}/")
			rest = inBraces.ReplaceAllStringFunc(rest, func(s string) string {
				return name(strings.Trim(s, "{}"))
			})
			return n.call(method, "accounts/"+environment+"/"+rest, bodies[operation])
		}
		theirs := func(name string) string {
			require.NotEmpty(t, ids[name], "no %s was made for %s", name, operation)
			return ids[name]
		}
		nobodys := func(name string) string {
			switch name {
			case "customer":
				return "nobody"
			case "message": // of an endpoint that does not exist
				return ids[name]
			}
			return uuid.Must(uuid.NewV4()).String()
		}
		for _, environment := range []string{"rival/environments/sandbox", "demo/environments/live"} {
			where := fmt.Sprintf("%s below %s", operation, environment)
			got, want := at(environment, theirs), at(environment, nobodys)
			require.Equal(t, want.status, got.status, "%s: %s", where, got.raw)
			delete(want.body["error"].(map[string]any), "requestId")
			delete(got.body["error"].(map[string]any), "requestId")
			require.Equal(t, want.body["error"], got.body["error"], where)
			if operation != "removeCustomer" { // which there need not be
				require.Equal(t, http.StatusNotFound, got.status, "%s: %s", where, got.raw)
			}
		}
		control := func() {
			a := at("demo/environments/sandbox", theirs)
			require.NotEqual(t, http.StatusNotFound, a.status, "%s: %s", operation, a.raw)
		}
		if method == http.MethodDelete {
			last = append(last, control)
		} else {
			own = append(own, control)
		}
	})
	for _, control := range append(own, last...) {
		control()
	}
	require.Greater(t, asked, 15)
}
