package client_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
)

// TestSearch: a search sees what was just written, and nothing of another environment.
func TestSearch(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.customer("globex")
	n.call("POST", "events", event("request-1", "")).is(201, "")
	found := func(q string) (ids []string) {
		begin := time.Now()
		a := n.call("GET", "search?q="+url.QueryEscape(q), "").is(200, "")
		require.Less(t, time.Since(begin), time.Second)
		require.Equal(t, true, a.data("complete"))
		for _, r := range a.data("results").([]any) {
			ids = append(ids, r.(map[string]any)["kind"].(string)+" "+r.(map[string]any)["id"].(string))
		}
		return ids
	}
	require.Equal(t, []string{"customer acme"}, found("ACM"))
	n.call("PATCH", "customers/globex", `{"lastName":"Acmeson"}`).is(200, "")
	require.Equal(t, []string{"customer acme", "customer globex"}, found("acm"))
	require.Equal(t, []string{"event request-1"}, found("request-1"))
	require.Len(t, found("1"), 1, "the invoice")
	for _, nothing := range []string{"%", "%25", strings.Repeat("x", 10_000), "' or 1=1", "999999999999999999999"} {
		require.Empty(t, found(nothing), "%.20q", nothing)
	}

	n.Do(t, billing.KindCreateKey, &billing.CreateKey{
		Env: n.env, ID: [16]byte{9}, Hash: [32]byte{9}, Scope: billing.ScopeRead, Label: "zeppelin",
	})
	require.Equal(t, []string{"key 09000000-0000-0000-0000-000000000000"}, found("zep"))
	require.Empty(t, found("sk_"), "a key is found by its label alone")
	require.Empty(t, n.send("GET", "search?q=zep", "", n.read, nil).is(200, "").data("results"))
	require.Empty(t, n.send("GET", "search?q=zep", "", n.live, nil).is(200, "").data("results"))
	n.call("GET", "search", "").is(400, "validation_failed")
	n.call("GET", "search?q=a&limit=101", "").is(400, "validation_failed")
	require.Len(t, n.call("GET", "search?q=acm&limit=1", "").is(200, "").data("results"), 1)
	require.Empty(t, n.send("GET", "search?q=acme", "", n.live, nil).is(200, "").data("results"))
	n.send("GET", "search?q=acme", "", n.read, nil).is(200, "")
	n.send("GET", "search?q=acme", "", n.customerKey("acme"), nil).is(403, "access_denied")
}
