package admin_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestChangesAreSelected: by account, environment, actor, subject and customer, page by page, also
// where a page looks at changes that were not asked for alone.
func TestChangesAreSelected(t *testing.T) {
	n := start(t)
	n.furnish()
	n.call("POST", "accounts", `{"name":"other"}`).is(201, "")
	pool := n.call("POST", sandbox+"customers/ada/pools", `{"name":"Tokens"}`).is(201, "").data()["id"].(string)
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
	all := list("")
	require.Len(t, list("account=other"), 21, "its creation, too")
	require.Len(t, list("account=other&environment=live"), 20)
	require.Empty(t, list("account=other&environment=sandbox"))
	require.Equal(t, []string{"credits.granted"}, list("subject=" + pool + "&environment=sandbox&limit=1")[:1])
	for _, size := range []string{"", "&scan=1", "&scan=3&limit=2", "&limit=1"} {
		require.Equal(t, []string{"credits.granted", "pool.created"},
			list("account=demo&environment=sandbox&customer=ada" + size)[:2], size)
		require.Equal(t, all, list("actor=admin-key"+size), size)
	}
	require.Empty(t, list("actor=nobody"))
	n.call("GET", "audit?account=nothing", "").is(404, "account_not_found")
	n.call("GET", "audit?account=demo&environment=live&customer=ada", "").is(404, "customer_not_found")
	n.call("GET", "audit?customer=ada", "").is(400, "validation_failed")
	n.call("GET", "audit?environment=moon", "").is(400, "validation_failed")
	n.call("GET", "audit?scan=0", "").is(400, "validation_failed")
}
