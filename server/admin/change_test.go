package admin_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
)

// TestChangesAreSelected: by account, environment, actor, subject and customer, page by page, also
// where a page looks at changes that were not asked for alone.
func TestChangesAreSelected(t *testing.T) {
	n := start(t)
	key := n.furnish()
	n.call("POST", "accounts", `{"name":"other"}`).is(201, "")
	made := func(path, body string) string {
		return n.call("POST", sandbox+path, body).is(201, "").data()["id"].(string)
	}
	pool := made("customers/ada/pools", `{"name":"Tokens"}`)
	n.call("POST", sandbox+"pools/"+pool+"/grants", `{"amount":5}`).is(201, "")
	for i := range 20 {
		n.call("PUT", "accounts/other/environments/live/origins",
			fmt.Sprintf(`{"origins":["https://o%d.example"]}`, i)).is(200, "")
	}
	list := func(query string) (actions []string) {
		t.Helper()
		for cursor, pages := "", 0; ; pages++ {
			require.Less(t, pages, 60)
			data := n.call("GET", "audit?"+query+cursor, "").is(200, "").data()
			for _, c := range data["changes"].([]any) {
				actions = append(actions, c.(map[string]any)["action"].(string))
			}
			next, more := data["nextCursor"].(string)
			if !more {
				return actions
			}
			cursor = "&cursor=" + next
		}
	}
	n.post(key, "/customers", `{"externalClientCustomerId":"bob","firstName":"Bob","lastName":"B",`+
		`"email":"bob@example.com"}`).is(201, "")
	n.subscribe(key)
	env, _ := n.Machine.Environment("demo", billing.EnvironmentSandbox)
	for _, customer := range []string{"ada", "bob"} {
		other := map[string]string{"ada": "bob", "bob": "ada"}[customer] // names its budget
		n.Do(t, billing.KindPutBudget, &billing.PutBudget{
			Env: env, Key: other, Name: "B", Customer: customer, Actor: "ops",
		})
		n.Do(t, billing.KindFreezeBudget, &billing.FreezeBudget{
			Env: env, Key: other, Frozen: true, Actor: "ops",
		})
		id := made("keys", `{"scope":"customer","customer":"`+customer+`"}`)
		n.call("PUT", sandbox+"keys/"+id+"/budget", `{"budget":"bob"}`).is(200, "")
		made("keys/"+id+"/roll", `{"overlapHours":0}`)
	}
	n.Do(t, billing.KindFreezeBudget, &billing.FreezeBudget{Env: env, Key: "bob", Actor: "ops"})
	held := n.post(key, "/reservations", `{"reservationKey":"r","featureKey":"tokens","usageUnits":1,`+
		`"customerReferenceId":"ada"}`).is(201, "").data()["id"].(string)
	n.call("POST", sandbox+"reservations/"+held+"/extend", `{"ttlSeconds":900}`).is(200, "")
	n.call("POST", sandbox+"reservations/"+held+"/release", "").is(200, "")
	made("customers/bob/pools", `{"name":"Tokens"}`)

	operators := list("actor=admin-key")
	require.Len(t, list(""), len(operators)+len(list("actor=ops"))+len(list("actor=engine")))
	require.Len(t, list("actor=ops"), 5)
	require.Len(t, list("account=other"), 21, "its creation, too")
	require.Len(t, list("account=other&environment=live"), 20)
	require.Empty(t, list("account=other&environment=sandbox"))
	require.Equal(t, []string{"credits.granted", "pool.created"},
		list("subject="+pool+"&environment=sandbox&limit=1"))
	require.Equal(t, []string{"pool.created"},
		list("account=demo&environment=sandbox&customer=bob")[:1])
	for _, size := range []string{"", "&scan=1", "&scan=3&limit=2", "&limit=1"} {
		require.Equal(t, []string{
			"reservation.released", "reservation.extended", "budget.changed", "key.ended", "key.rolled",
			"key.bound", "key.created", "budget.changed", "budget.created", "credits.granted",
			"pool.created",
		}, list("account=demo&environment=sandbox&customer=ada"+size), size)
		require.Equal(t, operators, list("actor=admin-key"+size), size)
	}
	require.Empty(t, list("actor=nobody"))
	n.call("GET", "audit?account=nothing", "").is(404, "account_not_found")
	n.call("GET", "audit?account=demo&environment=live&customer=ada", "").is(404, "customer_not_found")
	n.call("GET", "audit?customer=ada", "").is(400, "validation_failed")
	n.call("GET", "audit?environment=moon", "").is(400, "validation_failed")
	n.call("GET", "audit?scan=0", "").is(400, "validation_failed")
}
