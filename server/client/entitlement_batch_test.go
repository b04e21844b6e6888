package client_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server"
	"tollgate/server/client"
)

// TestABatchAnswersAsSingleChecksDo: each request of it, in their order, and each leaves an audit
// event.
func TestABatchAnswersAsSingleChecksDo(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.call("POST", "events", event("k", `,"usageUnits":4`)).is(201, "")
	bodies := []string{
		`{"customerReferenceId":"nobody","featureKey":"tokens"}`,
		`{"customerReferenceId":"acme","featureKey":"nothing"}`,
		`{"customerReferenceId":"acme","featureKey":"tokens","context":{"flowId":"f"}}`,
		`{"customerReferenceId":"acme","featureKey":"tokens","track":{"usageUnits":7}}`,
		`{"customerReferenceId":"acme","featureKey":"seats","track":{}}`,
	}
	var single []any
	for range 40 {
		for _, body := range bodies {
			single = append(single, n.call("POST", "entitlements", body).is(200, "").data())
		}
	}
	n.eventually(func() bool { return n.audited() == uint64(len(single)) })
	all := strings.Repeat(strings.Join(bodies, ",")+",", 40)
	together := n.call("POST", "entitlements/batch", "["+all[:len(all)-1]+"]").is(200, "").data().([]any)
	require.Len(t, together, len(single))
	for i := range single {
		for _, answer := range []any{single[i], together[i]} {
			delete(answer.(map[string]any)["meta"].(map[string]any)["reason"].(map[string]any), "logIndex")
		}
		require.Equal(t, single[i], together[i])
	}
	n.eventually(func() bool { return n.audited() == uint64(2*len(single)) })
	require.Empty(t, n.call("POST", "entitlements/batch", "[]").is(200, "").data())
}

func TestBatchesOfChecksThatAreRefused(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.customer("other")
	const one = `{"customerReferenceId":"acme","featureKey":"tokens"}`
	for _, row := range []struct {
		body   string
		status int
		code   string
	}{
		{one, 400, "malformed_json"},
		{"", 400, "malformed_json"},
		{"[" + one, 400, "malformed_json"},
		{"[" + one + "]x", 400, "malformed_json"},
		{"[" + one + ",1]", 400, "validation_failed"},
		{"[" + one + `,{"customerReferenceId":"acme"}]`, 400, "validation_failed"},
		{"[" + strings.Repeat(one+",", 1000) + one + "]", 413, "body_too_large"},
	} {
		n.call("POST", "entitlements/batch", row.body).is(row.status, row.code)
	}
	a := n.call("POST", "entitlements/batch", "["+one+`,{"customerReferenceId":"acme"}]`)
	require.Contains(t, string(a.raw), `"field":"[1].featureKey"`)
	require.Contains(t, string(a.raw), "Item [1]: ")
	a = n.call("POST", "entitlements/batch", "["+one+`,{"featureKey":"a","featureKey":"b"}]`).
		is(400, "malformed_json")
	require.Equal(t, "Item [1]: byte 71: a name that the object has already", a.fault()["detail"])
	a = n.call("POST", "entitlements/batch", "["+one+",[]]").is(400, "validation_failed")
	require.Contains(t, string(a.raw), `"field":"[1]"`)
	a = n.call("POST", "entitlements/batch", "["+one+" "+one+"]").is(400, "malformed_json")
	require.Equal(t, "byte 54: unexpected character", a.fault()["detail"])
	require.Len(t, n.call("POST", "entitlements/batch",
		"["+strings.Repeat(one+",", 999)+one+"]").is(200, "").data(), 1000)

	key := n.customerKey("acme")
	send := func(body string) answer { return n.send("POST", "entitlements/batch", body, key, nil) }
	send("["+one+"]").is(200, "")
	for _, other := range []string{"other", "nobody"} {
		send(fmt.Sprintf(`[%s,{"customerReferenceId":%q,"featureKey":"tokens"}]`, one, other)).
			is(403, "access_denied")
	}
}

// TestABatchOfChecksIsItems: each check of it counts against the rate limit.
func TestABatchOfChecksIsItems(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	n := start(t, func(c *client.Config) {
		c.RateLimit = server.RateLimit{Items: 5, Window: 30 * time.Second}
		c.Now = func() time.Time { return now }
	})
	n.customer("acme")
	const three = `[{"customerReferenceId":"acme","featureKey":"seats"},` +
		`{"customerReferenceId":"acme","featureKey":"seats"},{"customerReferenceId":"acme","featureKey":"seats"}]`
	a := n.call("POST", "entitlements/batch", three).is(200, "")
	require.Contains(t, a.header.Get("RateLimit"), `"items";r=2;`)
	n.call("POST", "entitlements/batch", three).is(429, "rate_limited")
}

// TestABatchOfChecksIsCommitted: in strict mode all of its audit events are committed before the
// answer.
func TestABatchOfChecksIsCommitted(t *testing.T) {
	n := start(t, func(c *client.Config) { c.AuditMode = client.AuditCommitted })
	n.customer("acme")
	const one = `{"customerReferenceId":"acme","featureKey":"seats"}`
	n.call("POST", "entitlements/batch", "["+strings.Repeat(one+",", 99)+one+"]").is(200, "")
	require.EqualValues(t, 100, n.audited())
	name := strings.Repeat("n", 128)
	long := fmt.Sprintf(`{"customerReferenceId":%q,"featureKey":%q}`, name, name)
	n.call("POST", "entitlements/batch", "["+strings.Repeat(long+",", 999)+long+"]").is(200, "")
	require.EqualValues(t, 1100, n.audited(), "of several blocks")
}
