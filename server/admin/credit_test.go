package admin_test

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
)

// pool makes a pool of the customer ada and returns its path below the environment.
func (n *node) pool(fields string) (path string) {
	n.t.Helper()
	a := n.call("POST", sandbox+"customers/ada/pools", `{"name":"tokens"`+fields+`}`).is(201, "")
	return sandbox + "pools/" + a.data()["id"].(string)
}

// once sends a request with an Idempotency-Key.
func (n *node) once(path, key, body string) answer {
	n.t.Helper()
	return n.sendWith(http.Header{"Idempotency-Key": {key}}, "POST", path, body, n.key,
		"application/json")
}

func TestCreditsAreGrantedDeductedAndReversed(t *testing.T) {
	n := start(t)
	n.furnish()
	path := n.pool(`,"denomination":"tokens","currency":"EUR","hardLimit":true,` +
		`"rolloverPolicy":"CAPPED","rolloverCap":"50.5","priority":-3,"metadata":{"b":1,"a":2}`)
	pool := n.call("GET", path, "").is(200, "").data()
	require.Equal(t, "DEPLETED", pool["status"], "a hard limit, and nothing in it")
	require.Equal(t, []any{"tokens", "EUR", 50.5, -3.0, map[string]any{"a": 2.0, "b": 1.0}}, []any{
		pool["denomination"], pool["currency"], pool["rolloverCap"], pool["priority"], pool["metadata"],
	})
	until := n.clock().AddDate(0, 0, 30).Format("2006-01-02T15:04:05.000Z")
	grant := n.call("POST", path+"/grants", `{"type":"PURCHASED","amount":100,"priority":2,`+
		`"expiresAt":"`+until+`","note":"order 7"}`).is(201, "").data()
	require.Equal(t, []any{"GRANT", "PURCHASED", 100.0, 100.0, "order 7", until}, []any{
		grant["kind"], grant["grantType"], grant["amount"], grant["balance"], grant["note"],
		grant["expiresAt"],
	})
	n.call("POST", path+"/grants", `{"amount":"20.5"}`).is(201, "")
	grants := n.call("GET", path+"/grants", "").is(200, "").list()
	require.Equal(t, "MANUAL", grants[0].(map[string]any)["type"], "priority 0 burns before 2")
	deduction := n.call("POST", path+"/deductions", `{"amount":30.25,"note":"refund abuse"}`).
		is(201, "").data()
	require.Equal(t, 90.25, deduction["balance"])
	n.call("POST", path+"/deductions", `{"amount":90.26}`).is(402, "credits_empty")

	reverse := sandbox + "transactions/" + deduction["id"].(string) + "/reverse"
	reversal := n.call("POST", reverse, `{"note":"was right"}`).is(201, "").data()
	require.Equal(t, []any{"REVERSAL", deduction["id"], 120.5}, []any{
		reversal["kind"], reversal["reverses"], reversal["balance"],
	})
	n.call("POST", reverse, "").is(400, "transaction_final")
	n.call("POST", sandbox+"transactions/"+grant["id"].(string)+"/reverse", "").is(201, "")

	page := n.call("GET", path+"/transactions?limit=2", "").is(200, "").data()
	require.Len(t, page["transactions"], 2)
	rest := n.call("GET", path+"/transactions?limit=3&cursor="+page["nextCursor"].(string), "").data()
	require.Len(t, rest["transactions"], 3)
	require.NotContains(t, rest, "nextCursor")
	proved := n.call("GET", sandbox+"invoices/verify", "").is(200, "").data()
	require.EqualValues(t, 1, proved["pools"])
	require.Empty(t, proved["differences"])
	pool = n.call("GET", path, "").data()
	require.Equal(t, pool["balance"], pool["totalGranted"].(float64)-pool["totalConsumed"].(float64)-
		pool["totalExpired"].(float64)-pool["totalReversed"].(float64))
	require.Equal(t, 20.5, pool["balance"])
}

func TestPoolsAreFrozenAndArchived(t *testing.T) {
	n := start(t)
	n.furnish()
	path := n.pool("")
	status := func() any { return n.call("GET", path, "").is(200, "").data()["status"] }
	n.call("POST", path+"/freeze", "").is(200, "")
	n.call("POST", path+"/freeze", "").is(200, "")
	require.Equal(t, "FROZEN", status())
	n.call("POST", path+"/deductions", `{"amount":1}`).is(400, "pool_frozen")
	n.call("POST", path+"/grants", `{"amount":1}`).is(201, "")
	n.call("POST", path+"/unfreeze", "{}").is(200, "")
	n.call("POST", path+"/deductions", `{"amount":1}`).is(201, "")
	n.call("POST", path+"/deductions", `{"amount":5}`).is(201, "")
	require.Equal(t, -5.0, n.call("GET", path, "").data()["balance"], "without a hard limit")
	n.call("POST", path+"/archive", "").is(200, "")
	n.call("POST", path+"/archive", "").is(200, "")
	require.Equal(t, "ARCHIVED", status())
	for _, refused := range []string{"/unfreeze", "/freeze"} {
		n.call("POST", path+refused, "").is(400, "pool_archived")
	}
	n.call("POST", path+"/grants", `{"amount":1}`).is(400, "pool_archived")
	n.call("POST", path+"/deductions", `{"amount":1}`).is(400, "pool_archived")
	require.Len(t, n.call("GET", sandbox+"customers/ada/pools", "").is(200, "").list(), 1)
	actions := n.call("GET", "audit", "").raw
	for _, action := range []string{
		"pool.created", "pool.changed", "credits.granted", "credits.deducted",
	} {
		require.Contains(t, actions, `"`+action+`"`)
	}
}

func TestRepeatedCreditRequestsCountOnce(t *testing.T) {
	n := start(t)
	n.furnish()
	const pools = sandbox + "customers/ada/pools"
	first := n.once(pools, "p", `{"name":"tokens","metadata":{"b":1,"a":2}}`).is(201, "").data()
	again := n.once(pools, "p", `{"name":"tokens","metadata":{"a":2,"b":1}}`).is(201, "").data()
	require.Equal(t, first["id"], again["id"])
	n.once(pools, "p", `{"name":"other"}`).is(409, "idempotency_key_reused")
	require.Len(t, n.call("GET", pools, "").list(), 1)
	path := sandbox + "pools/" + first["id"].(string)
	other := n.pool("")
	grant := n.once(path+"/grants", "k", `{"amount":5}`).is(201, "").data()
	require.Equal(t, grant, n.once(path+"/grants", "k", `{"amount":5.0}`).is(201, "").data())
	n.once(path+"/grants", "k", `{"amount":6}`).is(409, "idempotency_key_reused")
	n.once(other+"/grants", "k", `{"amount":5}`).is(409, "idempotency_key_reused")
	n.once(path+"/deductions", "k", `{"amount":2}`).is(201, "")
	n.once(path+"/deductions", "k", `{"amount":2}`).is(201, "")
	reverse := sandbox + "transactions/" + grant["id"].(string) + "/reverse"
	n.once(reverse, "k", "").is(201, "")
	n.once(reverse, "k", "").is(201, "")
	n.once(reverse, "k", `{"note":"x"}`).is(409, "idempotency_key_reused")
	n.once(reverse, "k2", "").is(400, "transaction_final")
	pool := n.call("GET", path, "").data()
	require.Equal(t, []any{5.0, 2.0, 3.0, 0.0}, []any{
		pool["totalGranted"], pool["totalConsumed"], pool["totalReversed"], pool["balance"],
	}, "each counted once")
	for _, bad := range []string{"a b", strings.Repeat("k", 256)} {
		n.once(path+"/grants", bad, `{"amount":5}`).is(400, "validation_failed")
	}
}

// accountID is the id of the account demo.
func accountID(n *node) string {
	n.t.Helper()
	for _, account := range n.call("GET", "accounts", "").is(200, "").list() {
		if account := account.(map[string]any); account["name"] == "demo" {
			return account["id"].(string)
		}
	}
	n.t.Fatal("the account demo is not listed")
	return ""
}

// TestARepeatedCreditRequestIsTheFirstAnswer: status and body, though what it made has since
// changed.
func TestARepeatedCreditRequestIsTheFirstAnswer(t *testing.T) {
	n := start(t)
	n.furnish()
	const pools = sandbox + "customers/ada/pools"
	var made []func() answer
	first := func(path, key, body string) map[string]any {
		a := n.once(path, key, body).is(201, "")
		require.Empty(t, a.header.Get("Idempotency-Replayed"))
		byID := strings.Replace(path, "/demo/", "/"+accountID(n)+"/", 1)
		for _, again := range []string{path, byID} {
			made = append(made, func() answer {
				repeat := n.once(again, key, body).is(201, "")
				require.Equal(t, a.raw, repeat.raw)
				return repeat
			})
		}
		return a.data()
	}
	pool := sandbox + "pools/" + first(pools, "k", `{"name":"tokens"}`)["id"].(string)
	grant := first(pool+"/grants", "k", `{"amount":5,"note":"gift"}`)
	deduction := first(pool+"/deductions", "k", `{"amount":2}`)
	first(sandbox+"transactions/"+deduction["id"].(string)+"/reverse", "k", "")
	n.call("POST", sandbox+"transactions/"+grant["id"].(string)+"/reverse", "").is(201, "")
	n.call("POST", pool+"/archive", "").is(200, "")
	for _, again := range made {
		require.Equal(t, "true", again().header.Get("Idempotency-Replayed"))
	}
	require.Len(t, n.call("GET", pool+"/transactions", "").data()["transactions"], 4)

	// Erasing the customer forgets the answers, which have what was noted of it.
	env, _ := n.Machine.Environment("demo", billing.EnvironmentSandbox)
	n.Do(t, billing.KindEraseCustomer, &billing.EraseCustomer{Env: env, ExternalID: "ada"})
	again := n.once(pool+"/grants", "k", `{"amount":5,"note":"gift"}`).is(201, "").data()
	require.Equal(t, []any{grant["id"], true}, []any{again["id"], again["reversed"]})
}

// age deducts one unit so often that no earlier transaction of the pool is left in memory. It
// proposes what the API would, without a thousand requests.
func (n *node) age(pool string) {
	n.t.Helper()
	id, ok := server.ParseUUID(path.Base(pool))
	require.True(n.t, ok)
	env, _ := n.Machine.Environment("demo", billing.EnvironmentSandbox)
	for range billing.MaxTransactions + 64 {
		index, _ := n.Machine.StateHash()
		n.Do(n.t, billing.KindDeductCredits, &billing.DeductCredits{
			Env: env, ID: enginetest.ID(fmt.Sprint("after ", index)), Pool: id,
			Amount: decimal.FromInt(1),
		})
	}
}

// TestAnOldGrantIsNotGrantedAgain: by its key, however much has moved in the pool since then.
func TestAnOldGrantIsNotGrantedAgain(t *testing.T) {
	n := start(t)
	n.furnish()
	path := n.pool("")
	const body = `{"amount":5000,"type":"PURCHASED","note":"order 7"}`
	first := n.once(path+"/grants", "k", body).is(201, "").data()
	n.age(path)
	require.Equal(t, first, n.once(path+"/grants", "k", body).is(201, "").data())
	n.Stamp.Store(n.clock().Add(25 * time.Hour).UnixMilli())
	again := n.once(path+"/grants", "k", body).is(201, "").data()
	require.NotContains(t, again, "balance", "of then, which nothing keeps after a day")
	delete(first, "balance")
	require.Equal(t, first, again)
	n.once(path+"/grants", "k", strings.Replace(body, "7", "8", 1)).is(409, "idempotency_key_reused")
	require.Equal(t, 5000.0, n.call("GET", path, "").data()["totalGranted"])
}

// TestAnOldDeductionIsReversedOnce: though it has left memory, and its reversal has, too.
func TestAnOldDeductionIsReversedOnce(t *testing.T) {
	n := start(t)
	n.furnish()
	path := n.pool("")
	n.call("POST", path+"/grants", `{"amount":5000}`).is(201, "")
	const body = `{"amount":30,"note":"order 7"}`
	deduct := func(key, body string) answer { return n.once(path+"/deductions", key, body) }
	first := deduct("k", body).is(201, "").data()
	reverse := sandbox + "transactions/" + first["id"].(string) + "/reverse"
	balance := func() float64 { return n.call("GET", path, "").data()["balance"].(float64) }
	n.age(path)
	require.Equal(t, first, deduct("k", body).is(201, "").data(), "a repeat, which takes nothing")
	deduct("k", strings.Replace(body, "7", "8", 1)).is(409, "idempotency_key_reused")
	before := balance()
	made := n.once(reverse, "r", `{"note":"mistake"}`).is(201, "").data()
	require.Equal(t, before+30, balance())
	require.Equal(t, first["id"], made["reverses"])
	n.once(reverse, "r2", "").is(400, "transaction_final")
	n.age(path)
	require.Equal(t, made, n.once(reverse, "r", `{"note":"mistake"}`).is(201, "").data())
	n.once(reverse, "r", "").is(409, "idempotency_key_reused")
	n.once(reverse, "r2", "").is(400, "transaction_final")
	require.Equal(t, before+30-1064, balance())
	require.Equal(t, first, deduct("k", body).is(201, "").data())
	n.Stamp.Store(n.clock().Add(25 * time.Hour).UnixMilli())
	first["reversed"] = true
	require.Equal(t, first, deduct("k", body).is(201, "").data(), "as it is after a day")
	require.Equal(t, made, n.once(reverse, "r", `{"note":"mistake"}`).is(201, "").data())
	live := strings.Replace(reverse, "sandbox", "live", 1)
	n.call("POST", live, "").is(404, "transaction_not_found")
}

func TestWhatCreditsRefuse(t *testing.T) {
	n := start(t)
	n.furnish()
	path := n.pool("")
	const pools = sandbox + "customers/ada/pools"
	past := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	for _, row := range []struct{ path, body, detail string }{
		{pools, `{}`, "name is required"},
		{pools, `{"name":""}`, "name must not be empty"},
		{pools, `{"name":"` + strings.Repeat("é", 129) + `"}`, "128 characters"},
		{pools, `{"name":"a\nb"}`, "control"},
		{pools, `{"name":"a","colour":1}`, `unknown field "colour"`},
		{pools, `{"name":"a","denomination":"` + strings.Repeat("d", 65) + `"}`, "denomination"},
		{pools, `{"name":"a","currency":"XXQ"}`, "ISO 4217"},
		{pools, `{"name":"a","hardLimit":"yes"}`, "hardLimit must be a boolean, not a string"},
		{pools, `{"name":"a","rolloverPolicy":"SOME"}`, "rolloverPolicy must be NONE, FULL or CAPPED"},
		{pools, `{"name":"a","rolloverPolicy":"CAPPED"}`, "rolloverCap belongs"},
		{pools, `{"name":"a","rolloverCap":1}`, "rolloverCap belongs"},
		{pools, `{"name":"a","rolloverPolicy":"CAPPED","rolloverCap":-1}`, "negative"},
		{pools, `{"name":"a","priority":1.5}`, "priority must be a whole number"},
		{pools, `{"name":"a","priority":1000001}`, "priority"},
		{pools, `{"name":"a","metadata":[]}`, "metadata must be an object"},
		{pools, `{"name":"a","metadata":{"x":"` + strings.Repeat("y", 8190) + `"}}`, "8192"},
		{path + "/grants", `{}`, "amount is required"},
		{path + "/grants", `{"amount":0}`, "amount must be greater than 0"},
		{path + "/grants", `{"amount":-1}`, "amount must be greater than 0"},
		{path + "/grants", `{"amount":1e25}`, "10^24"},
		{path + "/grants", `{"amount":1,"type":"GIFT"}`, "type must be "},
		{path + "/grants", `{"amount":1,"expiresAt":"soon"}`, "RFC 3339"},
		{path + "/grants", `{"amount":1,"expiresAt":"` + past + `"}`, "ahead"},
		{path + "/grants", `{"amount":1,"expiresAt":"1970-01-01T00:00:00Z"}`, "ahead"},
		{path + "/grants", `{"amount":1,"note":"` + strings.Repeat("n", 501) + `"}`, "500"},
		{path + "/deductions", `{"amount":0}`, "greater than 0"},
		{path + "/deductions", `{"amount":1,"type":"MANUAL"}`, `unknown field "type"`},
		{path + "/freeze", `{"why":1}`, `unknown field "why"`},
		{sandbox + "transactions/" + unknownID + "/reverse", `{"note":7}`, "note must be a string"},
		{sandbox + "pools/x/grants", `{"amount":1}`, "UUID"},
		{sandbox + "pools/x/freeze", "", "UUID"},
		{sandbox + "transactions/x/reverse", "", "UUID"},
	} {
		require.Contains(t, n.call("POST", row.path, row.body).is(400, "validation_failed").detail(),
			row.detail, row.body)
	}
	n.call("POST", sandbox+"customers/nobody/pools", `{"name":"a"}`).is(404, "customer_not_found")
	n.call("GET", sandbox+"customers/nobody/pools", "").is(404, "customer_not_found")
	for _, unknown := range []string{"", "/grants", "/transactions"} {
		n.call("GET", sandbox+"pools/"+unknownID+unknown, "").is(404, "pool_not_found")
		n.call("GET", sandbox+"pools/x"+unknown, "").is(400, "validation_failed")
		n.call("GET", strings.Replace(path, "sandbox", "live", 1)+unknown, "").is(404, "pool_not_found")
	}
	n.call("GET", path+"/transactions?limit=1001&cursor=x", "").is(400, "validation_failed")
	for _, change := range []string{"freeze", "unfreeze", "archive"} {
		n.call("POST", sandbox+"pools/"+unknownID+"/"+change, "").is(404, "pool_not_found")
	}
	n.call("POST", sandbox+"pools/"+unknownID+"/grants", `{"amount":1}`).is(404, "pool_not_found")
	n.call("POST", sandbox+"transactions/"+unknownID+"/reverse", "").is(404, "transaction_not_found")
	n.call("POST", path+"/grants", `{"amount":999999999999999999999999}`).is(201, "")
	n.call("POST", path+"/grants", `{"amount":999999999999999999999999}`).is(400, "overflow")
	require.Len(t, n.call("GET", pools, "").list(), 1, "nothing was changed")
}

const creditCatalog = `
features:
  - {key: tokens, name: Tokens}
plans:
  - key: team
    name: Team
    priceAmount: 20
    currency: USD
    intervalMonths: 1
    creditAllocations:
      - {pool: tokens, amount: "1000", expiresAfterDays: 30, rolloverPolicy: CAPPED, rolloverCap: 100}
      - {pool: extra, denomination: points, currency: EUR, amount: 5.5,
         priority: -1, hardLimit: true}
    features:
      - key: tokens
        pricingType: usage_based
        pricing: {pricePerUnit: 1, credits: {pool: tokens, weight: 0.5}}
`

func TestCatalogsSayWhatCreditsPlansGrant(t *testing.T) {
	n := start(t)
	key := n.furnish()
	const path = sandbox + "catalog"
	put := func(document, query string) answer {
		return n.send("PUT", path+query, document, n.key, "application/yaml")
	}
	changed := func(a answer) any { return a.is(200, "").data()["changes"] }
	without := strings.Replace(creditCatalog, ", credits: {pool: tokens, weight: 0.5}", "", 1)
	require.NotEmpty(t, changed(put(creditCatalog, "")))
	require.Empty(t, changed(put(creditCatalog, "")))
	team := []any{map[string]any{"kind": "plan", "key": "team", "action": "updated"}}
	for _, other := range []string{
		without, strings.Replace(creditCatalog, `"1000"`, "1001", 1),
		strings.Replace(creditCatalog, "weight: 0.5", "weight: 2", 1),
		strings.Replace(creditCatalog, "priority: -1", "priority: 1", 1),
	} {
		require.Equal(t, team, changed(put(other, "?dryRun=true")), "a diff shows it")
	}
	back := n.call("GET", path, "").is(200, "")
	plan := back.data()["plans"].([]any)[0].(map[string]any)
	require.Equal(t, []any{
		map[string]any{
			"pool": "tokens", "denomination": "credits", "currency": "USD", "amount": 1000.0,
			"priority": 0.0, "expiresAfterDays": 30.0, "rolloverPolicy": "CAPPED", "rolloverCap": 100.0,
			"hardLimit": false,
		},
		map[string]any{
			"pool": "extra", "denomination": "points", "currency": "EUR", "amount": 5.5,
			"priority": -1.0, "rolloverPolicy": "NONE", "hardLimit": true,
		},
	}, plan["creditAllocations"])
	document := strings.TrimSuffix(strings.TrimPrefix(back.raw, `{"success":true,"data":`), "}")
	require.Empty(t, changed(n.call("PUT", path+"?prune=true", document)), document)

	n.subscribe(key)
	pools := n.call("GET", sandbox+"customers/ada/pools", "").is(200, "").list()
	require.Len(t, pools, 2)
	require.Equal(t, 1000.0, pools[0].(map[string]any)["balance"])
	n.use(key, "k1", `,"usageUnits":100`).is(201, "")
	pools = n.call("GET", sandbox+"customers/ada/pools", "").list()
	require.Equal(t, 950.0, pools[0].(map[string]any)["balance"], "100 × 0.5")
	for text, detail := range map[string]string{
		`weight: 0.5`: "",
		`weight: 0`:   "weight must be greater than 0",
		`weight: -1`:  "weight must be greater than 0",
		`weigth: 1`:   `credits."weigth"`,
	} {
		a := put(strings.Replace(creditCatalog, "weight: 0.5", text, 1), "?dryRun=true")
		if detail == "" {
			a.is(200, "")
			continue
		}
		require.Contains(t, a.is(400, "validation_failed").detail(), detail)
	}
	for from, to := range map[string]string{
		`pool: tokens, weight: 0.5`: `weight: 1`, `priority: -1`: `priority: high`,
		`hardLimit: true`: `hardLimit: 1`, `expiresAfterDays: 30`: `expiresAfterDays: -1`,
	} {
		put(strings.Replace(creditCatalog, from, to, 1), "").is(400, "validation_failed")
	}
	for from, to := range map[string]string{
		`amount: "1000"`: `amount: 0`, `rolloverCap: 100`: `hardLimit: true`,
		`pool: extra`:   `pool: tokens`,
		`currency: EUR`: `currency: NONE`, `rolloverPolicy: CAPPED`: `rolloverPolicy: HALF`,
	} {
		a := put(strings.Replace(creditCatalog, from, to, 1), "").is(400, "catalog_invalid")
		require.Contains(t, a.detail(), "plans[0].creditAllocations")
	}
}
