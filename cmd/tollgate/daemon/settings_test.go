package daemon

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cluster"
	"tollgate/cmd/tollgate/config"
	"tollgate/engine/billing"
	"tollgate/engine/fair"
)

// TestSettingsReachWhatTheyGovern: every limit of the configuration is in force in the log, those
// of an account are what clients hear of, weights are the accounts', and the rate limit and the
// sandbox host decide what is answered.
func TestSettingsReachWhatTheyGovern(t *testing.T) {
	limits := config.Limits{
		KeyRetention: 26 * time.Hour, EventWindow: 25 * time.Hour, AuditRetention: 27 * time.Hour,
		KeyMemory: 64, CustomersPerAccount: 2, KeysPerAccount: 3, CatalogPerAccount: 4,
		WebhooksPerAccount: 1, ReservationsPerCustomer: 5, ReservationsPerEnvironment: 6,
		MaxReservation: 7 * time.Hour, ReservationMemory: 3,
	}
	n := startNodesWith(t, 1, func(c *config.Config) {
		c.Limits = limits
		c.Weights = map[string]int{"heavy": 7}
		c.RateLimit = config.RateLimit{Items: 5, Window: time.Hour}
		c.SandboxHost = "sandbox.test"
	})
	one := n.all[0]
	require.Eventually(t, func() bool {
		return one.machine.Limits() == billing.Limits{
			KeyRetentionMS: 26 * 3_600_000, WindowMS: 25 * 3_600_000, AuditRetentionMS: 27 * 3_600_000,
			MaxKeys: one.settings.MaxKeys(), MaxKeysInMemory: one.settings.MaxKeysInMemory(),
			AccountCustomers: 2, AccountKeys: 3, AccountCatalog: 4, AccountEndpoints: 1,
			CustomerHolds: 5, EnvironmentHolds: 6, HoldMS: 7 * 3_600_000,
			MaxReservations: 3 << 20 / config.ReservationBytes,
		}
	}, patience, 20*time.Millisecond, "%+v", one.machine.Limits())

	key := n.account("light", "live")
	for _, refused := range []struct {
		code, path, body string
		taken            int // how often it is accepted
	}{
		{
			"customer_limit", "/api/v1/client/customers",
			`{"firstName":"A","lastName":"B","email":"a@example.com"}`, 2,
		},
		{"key_limit", adminOf("light") + "/keys", `{"scope":"read","label":"x"}`, 2},
		{
			"webhook_endpoint_limit", adminOf("light") + "/webhook-endpoints",
			`{"url":"https://example.com/x"}`, 1,
		},
	} {
		for range refused.taken {
			status, text := n.send("POST", refused.path, key, refused.body)
			require.Equal(t, 201, status, text)
		}
		status, text := n.send("POST", refused.path, key, refused.body)
		require.Equal(t, 400, status, text)
		require.Contains(t, text, `"`+refused.code+`"`)
	}
	features := func(keys string) string {
		return `{"features":[{"key":"` + strings.ReplaceAll(keys, " ", `"},{"key":"`) + `"}]}`
	}
	status, text := n.send("PUT", adminOf("light")+"/catalog", key, features("a b c d"))
	require.Equal(t, 200, status, text)
	status, text = n.send("PUT", adminOf("light")+"/catalog", key, features("e"))
	require.Equal(t, 400, status, text)
	require.Contains(t, text, `"catalog_limit"`)

	n.account("heavy", "live")
	settings, err := one.clusterConfig()
	require.NoError(t, err)
	weights := map[string]int{}
	for flow := range fair.Flow(4) {
		weights[one.machine.AccountOf(flow)] = settings.Weight(cluster.ShardBilling, flow)
	}
	require.Equal(t, map[string]int{"": 1, "light": 1, "heavy": 7}, weights)
	require.Equal(t, 1, settings.Weight(cluster.ShardWorkspace, 2))

	check := "/api/v1/client/entitlements/nobody/a"
	for range 5 {
		status, text = n.send("GET", check, key, "")
		require.Equal(t, 200, status, text)
	}
	status, text = n.send("GET", check, key, "")
	require.Equal(t, 429, status, text)
	status, text = n.send("GET", check, n.account("sand", "sandbox"), "")
	require.Equal(t, 401, status, "a sandbox key is good on sandboxHost only: "+text)
}

// TestANodeWithoutRoomSaysSo: memoryMiB and diskReserveMiB decide what a node refuses, and it goes
// on answering what needs no room.
func TestANodeWithoutRoomSaysSo(t *testing.T) {
	for code, change := range map[string]func(*config.Config){
		"memory_low": func(c *config.Config) { c.Memory = 1 },
		"disk_low":   func(c *config.Config) { c.DiskReserve = 1 << 30 },
	} {
		t.Run(code, func(t *testing.T) {
			n := startNodesWith(t, 1, change)
			require.Eventually(t, func() bool {
				status, text := n.send("POST", "/api/v1/admin/accounts", "", `{"name":"x"}`)
				return status == 503 && strings.Contains(text, `"`+code+`"`)
			}, patience, 20*time.Millisecond)
			status, text := n.get(n.all[0].settings.Ops, "/api/v1/admin/accounts")
			require.Equal(t, 200, status, text)
		})
	}
}

func adminOf(account string) string {
	return "/api/v1/admin/accounts/" + account + "/environments/live"
}

// account makes an account and returns a key of one of its environments.
func (n *nodes) account(name, environment string) (key string) {
	n.t.Helper()
	status, text := n.send("POST", "/api/v1/admin/accounts", "", `{"name":"`+name+`"}`)
	require.Equal(n.t, 201, status, text)
	status, text = n.send("POST", "/api/v1/admin/accounts/"+name+"/environments/"+environment+"/keys",
		"", `{"scope":"full","label":"test"}`)
	require.Equal(n.t, 201, status, text)
	_, key, found := strings.Cut(text, `"key":"`)
	require.True(n.t, found, text)
	key, _, _ = strings.Cut(key, `"`)
	return key
}

// send asks the first node: its client API with a key, its admin API as the operator.
func (n *nodes) send(method, path, key, body string) (int, string) {
	n.t.Helper()
	address := n.all[0].settings.HTTP
	if strings.HasPrefix(path, "/api/v1/admin/") {
		address, key = n.all[0].settings.Ops, n.key
	}
	request, err := http.NewRequest(method, "https://"+address+path, strings.NewReader(body))
	require.NoError(n.t, err)
	request.Header.Set("Authorization", "Bearer "+key)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := n.http.Do(request)
	require.NoError(n.t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(n.t, err)
	require.NoError(n.t, answer.Body.Close())
	return answer.StatusCode, string(text)
}
