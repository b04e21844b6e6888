package admin_test

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/stretchr/testify/require"

	"tollgate/bench/servertest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/rollup"
	"tollgate/server"
	"tollgate/server/admin"
	"tollgate/server/outbox"
	"tollgate/server/provider/fetch"
)

// unpreviewed asks what changes would cost that are refused.
func (n *node) unpreviewed(key string) {
	n.putCatalog(plans("key: swap, currency: USD", "key: euro, currency: EUR", "key: gone, currency: USD"),
		"").is(200, "")
	n.putCatalog(plans("key: gone, currency: USD, status: ARCHIVED"), "").is(200, "")
	n.post(key, "/customers", `{"externalClientCustomerId":"cy","firstName":"Cy",`+
		`"lastName":"Moog","email":"cy@example.com"}`).is(201, "")
	subscribe := func() answer {
		return n.post(key, "/subscriptions", `{"planId":"swap","customerReferenceId":"cy"}`)
	}
	made := subscribe().is(201, "").data()["subscription"].(map[string]any)
	id := made["id"].(string)
	refused := func(query, code string, status int) {
		n.t.Helper()
		n.call("GET", sandbox+"preview?"+query, "").is(status, code)
	}
	refused("customer=cy&plan=gone", "plan_inactive", 400)
	change := "subscription=" + id + "&changeType=DOWNGRADE&plan="
	refused(change+"swap", "plan_unchanged", 400)
	refused(change+"euro", "currency_differs", 400)
	refused(strings.Replace(change, id, uuid.UUID{1}.String(), 1)+"team", "subscription_not_found", 404)
	cancel := "/subscriptions/cancellation/" + id + "?cancelMode="
	n.post(key, cancel+"END_OF_PERIOD", "").is(200, "")
	refused(change+"team", "cancellation_scheduled", 400)
	n.post(key, cancel+"IMMEDIATE", "").is(200, "")
	refused(change+"team", "subscription_ended", 400)
	for a := subscribe(); a.status != 400; a = subscribe() {
		a.is(201, "")
	}
	refused("customer=cy&plan=swap", "subscription_limit", 400)
}

// unsettled advances the clock while nothing happens that is due.
func (n *node) unsettled(key string) {
	n.post(key, "/customers", `{"externalClientCustomerId":"bob","firstName":"Bob",`+
		`"lastName":"Moog","email":"bob@example.com"}`).is(201, "")
	n.post(key, "/subscriptions", `{"planId":"team","customerReferenceId":"bob"}`).is(201, "")
	n.NoTicks.Store(true)
	defer n.NoTicks.Store(false)
	n.call("POST", sandbox+"clock?waitSeconds=0", `{"advanceTo":"`+
		n.clock().AddDate(0, 0, 80).Format(time.RFC3339)+`"}`).is(503, "clock_settling")
}

// unable asks a node that lacks what some operations need.
func (n *node) unable() {
	n.once(sandbox+"keys", "key-0001", `{"scope":"read"}`).is(201, "")
	hook := `{"url":"http://` + n.stripe.Addr().String() + `/hook"}`
	made := n.once(hooksPath, "hook-0001", hook).is(201, "").data()["id"].(string)
	n.once(hooksPath+"/"+made+"/rotate-secret", "rotate-0001", "").is(200, "")
	n.saves(func(context.Context, io.Writer, bool, int) error { return admin.ErrBackupRunning })
	guarded, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		AllowHosts:   []string{n.stripe.Addr().String()},
	})
	require.NoError(n.t, err)
	n.t.Cleanup(guarded.Close)
	n.outbox, err = outbox.New(outbox.Config{
		Machine: n.Machine, Proposer: n, Fetch: guarded, SealKey: [32]byte{2},
		Leads: func() (uint64, bool) { return 1, false },
	})
	require.NoError(n.t, err)
	n.bare = &admin.Sources{Counts: stillCounting{}}
	n.serveAdmin(admin.NewMetrics(), [32]byte{2}, time.Minute)
	n.once(sandbox+"keys", "key-0001", `{"scope":"read"}`).is(409, "key_not_shown")
	n.once(hooksPath, "hook-0001", hook).is(409, "secret_not_shown")
	n.once(hooksPath+"/"+made+"/rotate-secret", "rotate-0001", "").is(409, "secret_not_shown")
	n.call("GET", "backup", "").is(409, "backup_running")
	n.call("GET", sandbox+"usage?by=day", "").is(503, "still_counting")
	n.call("POST", sandbox+"customers/bob/portal-links", `{}`).is(503, "portal_unavailable")
	n.bare = &admin.Sources{}
	n.serveAdmin(admin.NewMetrics(), [32]byte{2}, time.Minute)
	n.call("GET", sandbox+"usage?by=day", "").is(503, "journal_unavailable")
}

// stillCounting is a Source that has not read the journal yet.
type stillCounting struct{ rollup.Source }

func (stillCounting) Sum(rollup.Query, func(rollup.Cell) error) error { return rollup.ErrCounting }

// TestExamples asks each operation once, is refused in each way that a reader should know, and
// compares both with the examples of the published document.
func TestExamples(t *testing.T) {
	n := start(t)
	document := n.describe()
	n.saves(func(_ context.Context, w io.Writer, _ bool, _ int) error {
		_, err := w.Write([]byte{0xff, 0xfe})
		return err
	})
	recorded := servertest.RecordExamples(t)
	key := n.furnish()
	made := func(path, body string) string {
		return n.call("POST", path, body).is(201, "").data()["id"].(string)
	}
	hook := hooksPath + "/" + made(hooksPath, `{"url":"http://`+n.stripe.Addr().String()+
		`/hook","events":["invoice.created","invoice.paid"],"description":"books"}`)
	spare := sandbox + "keys/" + made(sandbox+"keys", `{"scope":"read","label":"reports"}`)
	pool := sandbox + "pools/" + made(sandbox+"customers/ada/pools", `{"name":"Tokens","hardLimit":true}`)
	poolID, _ := server.ParseUUID(path.Base(pool))
	purchase := uuid.UUID(billing.TopUpID(poolID, 1)).String()
	grant := made(pool+"/grants", `{"amount":250,"note":"welcome"}`)
	subscribed := n.send("POST", "/api/v1/client/subscriptions",
		`{"planId":"team","customerReferenceId":"ada"}`, key, "application/json").is(201, "").data()
	env, _ := n.Machine.Environment("demo", billing.EnvironmentSandbox)
	n.Do(t, billing.KindPutBudget, &billing.PutBudget{
		Env: env, Key: "ada", Name: "Ada", Customer: "ada", Limits: []billing.LimitDocument{{
			Of: billing.MeasurePrice, Limit: decimal.FromInt(40), Window: billing.WindowMonth,
		}},
	})
	invoice := sandbox + "invoices/" + subscribed["invoice"].(map[string]any)["id"].(string)
	held := sandbox + "reservations/" + n.send("POST", "/api/v1/client/reservations",
		`{"reservationKey":"call-1","customerReferenceId":"ada","featureKey":"tokens","usageUnits":500}`,
		key, "application/json").is(201, "").data()["id"].(string)
	n.use(key, "request-1", `,"usageUnits":1200`).is(201, "")
	deliveries := n.call("GET", hook+"/deliveries", "").is(200, "").data()["deliveries"].([]any)
	require.NotEmpty(t, deliveries)
	message := hook + "/deliveries/" + deliveries[0].(map[string]any)["id"].(string)
	const wrongCatalog = `{"features":[{"key":"tokens","name":"Tokens"}],"plans":[{"key":"team",` +
		`"name":"Team","priceAmount":20,"currency":"EUR","intervalMonths":1}]}`
	later := n.clock().AddDate(0, 0, 32).Format(time.RFC3339)
	ask := func(method, path, body string) (int, []byte) {
		a := n.call(method, path, body)
		return a.status, []byte(a.raw)
	}
	servertest.Play(t, []servertest.Exchange{
		{"POST", "accounts", `{"name":"demo"}`, 409, "account_exists"},
		{"GET", "accounts", "", 200, ""},
		{"GET", "accounts/demo", "", 200, ""},
		{"GET", sandbox + "keys", "", 200, ""},
		{"GET", sandbox + "budgets", "", 200, ""},
		{"GET", sandbox + "budgets/ada", "", 200, ""},
		{"PUT", spare + "/budget", `{"budget":"ada"}`, 200, ""},
		{"PUT", spare + "/budget", `{"budget":"nothing"}`, 404, "budget_not_found"},
		{"POST", spare + "/roll", `{"overlapHours":48}`, 201, ""},
		{"POST", spare + "/roll", `{"overlapHours":9999}`, 400, "validation_failed"},
		{"DELETE", spare, "", 200, ""},
		{"PUT", sandbox + "catalog", wrongCatalog, 400, "currency_fixed"},
		{"GET", sandbox + "catalog", "", 200, ""},
		{"GET", sandbox + "preview?customer=ada&plan=team", "", 200, ""},
		{"GET", sandbox + "plans/team/versions", "", 200, ""},
		{"GET", sandbox + "plans/team/subscribers?version=1", "", 200, ""},
		{"GET", sandbox + "plans/none/subscribers", "", 404, "plan_not_found"},
		{"GET", sandbox + "customers?limit=10", "", 200, ""},
		{"GET", sandbox + "unmatched-events", "", 200, ""},
		{"GET", sandbox + "search?q=ada", "", 200, ""},
		{"GET", sandbox + "customers/ada/reservations?state=open", "", 200, ""},
		{"GET", sandbox + "reservations?budget=ada&state=open", "", 200, ""},
		{"GET", sandbox + "reservations?budget=nothing", "", 404, "budget_not_found"},
		{"GET", sandbox + "reservations", "", 400, "validation_failed"},
		{"GET", held, "", 200, ""},
		{"POST", held + "/extend", `{"usageUnits":2,"ttlSeconds":900}`, 200, ""},
		{"POST", held + "/settle", `{"usageUnits":120,"final":false}`, 200, ""},
		{"POST", held + "/release", "", 200, ""},
		{"POST", held + "/extend", `{"ttlSeconds":900}`, 409, "reservation_closed"},
		{"POST", held + "/settle", `{"usageUnits":130}`, 409, "reservation_closed"},
		{"PUT", sandbox + "portal", `{"accentColour":"#17645a"}`, 200, ""},
		{"GET", sandbox + "portal", "", 200, ""},
		{"POST", sandbox + "customers/ada/portal-links", `{"expiresInMinutes":60}`, 201, ""},
		{"DELETE", sandbox + "customers/ada/portal-links", "", 200, ""},
		{"GET", sandbox + "usage?by=day", "", 200, ""},
		{"GET", sandbox + "usage/customers?feature=tokens", "", 200, ""},
		{"GET", sandbox + "checks/denied?reason=limit_reached", "", 200, ""},
		{"GET", sandbox + "margin?by=customer&from=2026-01-01T00:00:00Z&to=2036-01-01T00:00:00Z", "", 200, ""},
		{"PUT", sandbox + "origins", `{"origins":["https://shop.example"]}`, 200, ""},
		{"GET", sandbox + "origins", "", 200, ""},
		{"PUT", sandbox + "seller", `{"name":"Example GmbH","address":"Musterweg 1, 10115 Berlin",` +
			`"email":"billing@example.com","taxId":"DE123456789"}`, 200, ""},
		{"GET", sandbox + "seller", "", 200, ""},
		{"PUT", sandbox + "payment-terms", `{"paymentTermDays":14}`, 200, ""},
		{"GET", sandbox + "payment-terms", "", 200, ""},
		{"PUT", sandbox + "payment-provider", `{"provider":"sandbox"}`, 200, ""},
		{"GET", sandbox + "payment-provider", "", 200, ""},
		{"GET", sandbox + "customers/ada/pools", "", 200, ""},
		{"GET", pool, "", 200, ""},
		{"GET", pool + "/grants", "", 200, ""},
		{"POST", pool + "/deductions", `{"amount":50,"note":"correction"}`, 201, ""},
		{"POST", pool + "/deductions", `{"amount":9999}`, 402, "credits_empty"},
		{"GET", pool + "/transactions?limit=10", "", 200, ""},
		{"POST", sandbox + "transactions/" + grant + "/reverse", "", 201, ""},
		{"POST", sandbox + "transactions/" + grant + "/reverse", `{}`, 400, "transaction_final"},
		{"PUT", pool + "/low-balance", `{"lowBalance":100}`, 200, ""},
		{"PUT", pool + "/low-balance", `{"lowBalance":-1}`, 400, "validation_failed"},
		{"GET", pool + "/top-up", "", 404, "top_up_not_found"},
		{"PUT", pool + "/top-up", `{"below":100,"amount":1000,"price":10,"currency":"USD","monthlyCap":50,` +
			`"cooldownSeconds":3600,"paymentMethod":"cus_4711/pm_0815"}`, 200, ""},
		{"PUT", pool + "/top-up", `{"below":100,"amount":1000,"price":10,"monthlyCap":5,` +
			`"paymentMethod":"cus_4711/pm_0815"}`, 400, "validation_failed"},
		{"GET", pool + "/top-up", "", 200, ""},
		{
			"POST", pool + "/top-up/end", `{"purchase":"` + purchase + `","notPaid":false}`, 400,
			"validation_failed",
		},
		{
			"POST", pool + "/top-up/end", `{"purchase":"` + purchase + `","notPaid":true}`, 409,
			"top_up_charging",
		},
		{"PUT", sandbox + "payment-provider", `{"provider":"none","forgetPrevious":true}`, 200, ""},
		{"POST", pool + "/top-up/end", `{"purchase":"` + purchase + `","notPaid":true}`, 200, ""},
		{"POST", pool + "/top-up/end", `{"purchase":"` + purchase + `","notPaid":true}`, 400, "top_up_over"},
		{"DELETE", pool + "/top-up", "", 200, ""},
		{"POST", pool + "/freeze", "", 200, ""},
		{"POST", pool + "/unfreeze", "", 200, ""},
		{"POST", pool + "/archive", "", 200, ""},
		{"GET", sandbox + "invoices?customer=ada", "", 200, ""},
		{"GET", sandbox + "invoices/search?status=DUE&order=due&limit=10", "", 200, ""},
		{"GET", invoice, "", 200, ""},
		{"GET", invoice + "/explain", "", 200, ""},
		{"GET", sandbox + "invoices/verify?limit=100", "", 200, ""},
		{"GET", invoice + "/payments", "", 200, ""},
		{"GET", invoice + "/void-preview", "", 200, ""},
		{"POST", invoice + "/void", "", 200, ""},
		{"GET", hooksPath, "", 200, ""},
		{"GET", hook, "", 200, ""},
		{"PATCH", hook, `{"description":"ledger"}`, 200, ""},
		{"POST", hook + "/rotate-secret", "", 200, ""},
		{"GET", message, "", 200, ""},
		{"POST", message + "/resend", "", 200, ""},
		{"POST", hook + "/resend", `{"from":"2026-01-15T00:00:00Z","status":"all"}`, 200, ""},
		{"POST", hook + "/test", "", 200, ""},
		{"GET", sandbox + "clock", "", 200, ""},
		{"POST", sandbox + "clock", `{"advanceTo":"` + later + `"}`, 200, ""},
		{"POST", "accounts/demo/environments/live/clock", `{"advanceTo":"` + later + `"}`, 400, "clock_live"},
		{"GET", "cluster", "", 200, ""},
		{"GET", "node", "", 200, ""},
		{"POST", "cluster/members", `{"id":"node4","raft":"10.0.0.4:7080","http":"10.0.0.4:8080",` +
			`"ops":"10.0.0.4:9080"}`, 200, ""},
		{"POST", "cluster/members/node4/promote", "", 409, "members_unchanged"},
		{"POST", "cluster/members/node4/lead", "", 200, ""},
		{"DELETE", "cluster/members/node4", "", 200, ""},
		{"GET", "backup", "", 200, ""},
		{"GET", "audit?account=demo&environment=sandbox&customer=ada&limit=2", "", 200, ""},
		{"GET", "openapi.json", "", 200, ""},
		{"DELETE", hook, "", 200, ""},
		{"DELETE", sandbox + "customers/ada?erase=true", "", 200, ""},
	}, ask)
	n.members.caught = true
	n.call("POST", "cluster/members/node4/promote", "").is(200, "")
	keys := map[string]string{servertest.ReadKey: key, servertest.FullKey: n.key}
	recorded.Refuse(document, func(method, path, body, key string) {
		n.send(method, path, body, keys[key], "application/json")
	})
	const account = `{"name":"more"}`
	n.call("POST", "accounts", account[:9]).is(400, "malformed_json")
	n.call("POST", "accounts", account+strings.Repeat(" ", server.DefaultBodyLimit)).
		is(413, "body_too_large")
	n.putCatalog("plans: [", "").is(400, "malformed_yaml")
	n.send("POST", "accounts", account, n.key, "text/plain").is(415, "unsupported_media_type")
	n.sendWith(http.Header{"Content-Encoding": {"gzip"}}, "POST", "accounts", account, n.key,
		"application/json").is(400, "malformed_encoding")
	recorded.Provoke(document, n.Refuse, func(method, path, body string) {
		n.call(method, path, body)
	})
	n.call("GET", invoice+"/void-preview", "").is(400, "invoice_void")
	n.putCatalog(plans("key: p, currency: XTS"), "").is(400, "catalog_invalid")
	n.Refuse(engine.OutcomeCatalogLimit)
	n.putCatalog(plans("key: p, currency: USD"), "").is(400, "catalog_limit")
	n.Refuse(engine.OutcomeNone)
	n.unpreviewed(key)
	n.unsettled(key)
	n.unable()
	recorded.Compare("examples/operations.json")
	servertest.RequireIllustrated(t, document)
	excused := map[string]string{
		"internal_error":      "a fault of the program, which no request causes",
		"invoice_unexplained": "an invoice whose lines do not add up: a fault of the program",
	}
	servertest.RequireEveryCode(t, document, excused)
	text := []byte(n.call("GET", "openapi.json", "").raw)
	servertest.RequireReference(t, servertest.LoadDocument(t, text), "admin", text)
}
