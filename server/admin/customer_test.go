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

	// Those with the largest amount first: of two plans, the dearer one's subscribers.
	const at = "accounts/demo/environments/sandbox/"
	n.call("PUT", at+"catalog", `{"features":[],"plans":[`+
		`{"key":"small","name":"S","priceAmount":5,"currency":"USD","intervalMonths":1,"features":[]},`+
		`{"key":"large","name":"L","priceAmount":600,"currency":"USD","intervalMonths":12,"features":[]}]}`).
		is(200, "")
	for customer, plan := range map[string]string{"sandbox-1": "small", "sandbox-4": "large", "sandbox-2": "small"} {
		n.send("POST", "/api/v1/client/subscriptions", `{"customerReferenceId":"`+customer+`","planId":"`+plan+`"}`,
			keys["sandbox"], "application/json").is(201, "")
	}
	names := func(query string) (list []string, next string) {
		data := n.call("GET", at+"customers?"+query, "").is(200, "").data()
		for _, c := range data["customers"].([]any) {
			list = append(list, c.(map[string]any)["externalClientCustomerId"].(string))
		}
		next, _ = data["nextCursor"].(string)
		return list, next
	}
	for _, sort := range []string{"owed", "monthlyRecurring", "monthlyRecurring&currency=USD"} {
		list, next := names("limit=2&sort=" + sort)
		require.Equal(t, []string{"sandbox-4", "sandbox-1"}, list)
		list, next = names("limit=2&sort=" + sort + "&cursor=" + next)
		require.Equal(t, []string{"sandbox-2"}, list)
		require.Empty(t, next)
	}
	late, _ := names("sort=pastDue")
	require.Empty(t, late, "all is due, nothing past due")
	found, next := names("sort=owed&find=box-2")
	require.Equal(t, []string{"sandbox-2"}, found)
	require.Empty(t, next)
	found, next = names("sort=owed&find=BOX&limit=2")
	require.Equal(t, []string{"sandbox-4", "sandbox-1"}, found)
	found, next = names("sort=owed&find=BOX&limit=2&cursor=" + next)
	require.Equal(t, []string{"sandbox-2"}, found)
	require.Empty(t, next)
	n.call("GET", at+"customers?sort=owed&limit=10000", "").is(200, "")
	n.call("GET", at+"customers?sort=owed&limit=10001", "").is(400, "validation_failed")
	found, _ = names("sort=owed&currency=EUR")
	require.Empty(t, found)
	for _, wrong := range []string{"sort=name", "sort=owed&cursor=10000", "sort=owed&currency=EURO"} {
		n.call("GET", at+"customers?"+wrong, "").is(400, "validation_failed")
	}
}
