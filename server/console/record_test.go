package console_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/client"
	"tollgate/server/console"
)

// recorded is a row of the record of changes.
type recorded struct {
	At, Actor, Action, Account, Workspace, Environment, Subject string

	Before, After map[string]string
}

// recorder goes through writing routes and looks for their records.
type recorder struct {
	*browser
	// names are the values of path parameters.
	names map[string]string
	seen  map[string]bool
}

// rows is how many changes are recorded, and the newest.
func (r *recorder) rows() (n int, newest recorded) {
	r.t.Helper()
	list := r.changes(r.t, 1000)
	if len(list) > 0 {
		newest = list[0]
	}
	return len(list), newest
}

// one does something by a route, which must leave one record, of this actor.
func (r *recorder) one(route, actor string, do func()) recorded {
	r.t.Helper()
	r.seen[route] = true
	before, _ := r.rows()
	do()
	after, newest := r.rows()
	require.Equal(r.t, before+1, after, "%s leaves no record, or several", route)
	require.Equal(r.t, actor, newest.Actor, route)
	at, err := time.Parse(time.RFC3339, newest.At)
	require.NoError(r.t, err, route)
	require.Less(r.t, time.Since(at).Abs(), 400*24*time.Hour, route)
	require.NotEmpty(r.t, newest.Action, route)
	require.Positive(r.t, len(newest.Before)+len(newest.After), "%s: before and after", route)
	return newest
}

// reserve holds a call for a customer, and returns the reservation's id.
func (n *node) reserve(customer, key string) string {
	n.t.Helper()
	id := [16]byte([]byte(fmt.Sprintf("%-16s", key)))
	n.Do(n.t, billing.KindReserve, &billing.Reserve{
		Env: n.environment(), ID: id, Key: id, KeyText: key, Customer: customer, TTLMS: 600_000,
		Items: []billing.ReserveItem{{FeatureKey: "calls", Units: decimal.FromInt(1)}},
	})
	return string(server.AppendUUID(nil, id))
}

// form sends a form of a page.
func (r *recorder) form(on, path string, pairs ...string) {
	r.t.Helper()
	on, path = filled(on, r.names), filled(path, r.names)
	r.one("POST "+path, "admin-key", func() {
		p := r.sendSurely(path, r.fill(on, fields(pairs...)))
		require.Contains(r.t, []int{200, 303}, p.status, p.body)
	})
}

// call carries a row of an API out in an operator's name, as a page does.
func (r *recorder) call(
	t *server.Table, operation, body string, path ...string,
) (data map[string]any) {
	r.t.Helper()
	route, known := t.Operation(operation)
	require.True(r.t, known, operation)
	r.one(route.Method+" "+route.Path, "olga@example.com", func() {
		data = r.ask(t, operation, body, path...)
	})
	return data
}

// ask is call without a look at the record.
func (r *recorder) ask(t *server.Table, operation, body string, path ...string) map[string]any {
	r.t.Helper()
	if t == r.admin {
		for i := range path {
			path[i] = filled(path[i], r.names)
		}
	}
	reply := t.Call(server.Call{
		Operation: operation, Path: path, Body: []byte(body), Actor: "olga@example.com",
		Caller: &client.Caller{
			Account: "demo", Env: r.environment(), Environment: billing.EnvironmentSandbox,
			Scope: billing.ScopeFull,
		},
	})
	require.Nil(r.t, reply.Fault, operation)
	var answer struct{ Data json.RawMessage }
	require.NoError(r.t, json.Unmarshal(reply.Body, &answer))
	var data map[string]any
	_ = json.Unmarshal(answer.Data, &data) // a list, or nothing
	return data
}

// TestEveryWriteIsRecorded: each form of the pages and each writing row of both APIs that an
// operator carries out leaves its row in the record of changes: who, when, before, after. A new
// route fails this test until it is here. A form that carries out a tool for owners of workspaces
// by its name is recorded by the tool: TestEveryToolIsRecorded in package workspace has them.
func TestEveryWriteIsRecorded(t *testing.T) {
	n := start(t)
	r := &recorder{browser: n.signedIn(), names: map[string]string{}, seen: map[string]bool{}}
	r.pagesAreRecorded()
	r.adminIsRecorded()
	r.clientIsRecorded()
	r.workspacesAreRecorded()

	// Rows that change no data, or are a program's own request.
	r.seen["POST /console/sign-out"], r.seen["POST /console/backup"] = true, true
	r.seen["POST /api/v1/client/entitlements"] = true
	r.seen["POST /api/v1/client/entitlements/batch"] = true
	// The cluster keeps its members, and then notes the change: TestMembersAreChangedAndRecorded.
	for _, path := range []string{"", "/{member}/promote", "/{member}/lead"} {
		r.seen["POST /api/v1/admin/cluster/members"+path] = true
	}
	r.seen["DELETE /api/v1/admin/cluster/members/{member}"] = true
	check := func(route, name string) {
		tool, known := n.admin.Operation(name)
		if !r.seen[route] && !(known && strings.Contains(tool.Path, "/workspaces/")) {
			t.Error("not in this test: " + route)
		}
	}
	for _, row := range n.pages.Rows() {
		if row.Method != "GET" {
			check(row.Method+" "+filled(row.Path, r.names), row.Name)
		}
	}
	for _, c := range r.changes(t, 1000) {
		_, known := console.SentenceOf(&api.AdminChange{Action: c.Action})
		require.True(t, known || c.Workspace != "", "%s has no sentence", c.Action)
	}
	for _, table := range []*server.Table{n.admin, n.programs} {
		for _, route := range table.Routes() {
			if route.Method != "GET" && route.Access != server.AccessOpen {
				check(route.Method+" "+route.Path, route.Operation)
			}
		}
	}
}

func (r *recorder) pagesAreRecorded() {
	const at = "/console/accounts/demo/sandbox"
	r.names["{account}"], r.names["{environment}"] = "demo", "sandbox"
	r.form("/console", "/console/accounts", "name", "demo")
	r.form(at+"/catalog", at+"/catalog", "document", catalog+strings.ReplaceAll(
		catalog[strings.Index(catalog, "  - key: team"):], "team", "large"), "action", "apply")
	r.form(at+"/customers", at+"/customers", "id", "anna", "first", "Anna", "last", "B",
		"email", "a@b.example")
	r.names["{customer}"] = "anna"
	anna := at + "/customers/anna"
	r.form(anna, anna+"/subscriptions", "plan", "team")
	r.form(anna, anna+"/usage", "feature", "calls", "units", "3")
	r.names["{invoice}"] = r.newestInvoice()
	invoice := at + "/invoices/" + r.names["{invoice}"]
	r.form(invoice, invoice+"/paid")
	r.form(anna, anna+"/subscriptions", "plan", "large")
	void := at + "/invoices/" + r.newestInvoice()
	r.form(void, void+"/void")
	r.seen["POST "+invoice+"/void"] = true // of another invoice
	r.form(anna, anna+"/pools", "name", "prepaid")
	pool := r.firstLink(anna, at+"/pools/[0-9a-f-]+")
	r.names["{pool}"] = strings.TrimPrefix(pool, at+"/pools/")
	r.form(pool, pool+"/grantCredits", "amount", "5")
	r.form(pool, pool+"/deductCredits", "amount", "2")
	r.form(pool, pool+"/freezePool")
	r.form(pool, pool+"/unfreezePool")
	r.ask(r.admin, "setPaymentProvider", `{"provider":"sandbox"}`, "{account}", "{environment}")
	r.form(pool, pool+"/top-up", "below", "1", "credits", "10", "price", "2", "cap", "4", "card", "x")
	r.form(pool, pool+"/top-up/stop")
	r.form(pool, pool+"/low-balance", "lowBalance", "1")
	in := []string{"{account}", "{environment}"}
	r.ask(r.admin, "setTopUp", `{"below":90,"amount":1,"price":1,"monthlyCap":4,"paymentMethod":"x"}`,
		append(in, r.names["{pool}"])...)
	purchase := r.ask(r.admin, "showTopUp", "", append(in, r.names["{pool}"])...)["purchase"].(string)
	r.ask(r.admin, "setPaymentProvider", `{"provider":"none","forgetPrevious":true}`, in...)
	r.form(pool, pool+"/top-up/end", "purchase", purchase)
	r.ask(r.programs, "putBudget", `{"name":"Above"}`, "org")
	r.ask(r.programs, "putBudget", `{"name":"Team"}`, "team")
	r.names["{budget}"], r.names["{reservation}"] = "team", r.reserve("anna", "page")
	team := at + "/budgets/team"
	r.form(at+"/budgets", at+"/new-budget", "key", "made", "name", "Made", "limits0_of", "price",
		"limits0_limit", "40", "limits0_window", "day")
	r.form(team, team+"/change", "name", "A team")
	r.form(team, team+"/freeze")
	r.form(team, team+"/unfreeze")
	r.form(team, team+"/move", "parent", "org")
	r.form(team, team+"/archive")
	r.form(anna, anna+"/reservations", "feature", "calls", "usageUnits", "1", "hold", "10")
	r.form(at+"/reservations/{reservation}", at+"/reservations/{reservation}/settle",
		"units.calls", "0.5", "final", "no")
	r.form(anna, at+"/reservations/{reservation}/extend")
	r.form(anna, at+"/reservations/{reservation}/release")
	id := string(server.AppendUUID(nil, r.Machine.Subscriptions(r.row("anna"))[1].ID))
	r.form(anna, anna+"/change", "subscription", id, "plan", "team", "type", "DOWNGRADE")
	r.form(anna, anna+"/details", "first", "Anna", "last", "B", "email", "a@b.example", "phone", "1")
	r.form(anna, anna+"/stay", "subscription", id)
	r.form(anna, anna+"/cancel", "subscription", id, "mode", "END_OF_PERIOD")
	r.form(anna, anna+"/keep", "subscription", id)
	r.form(anna, anna+"/cancel", "subscription", id, "mode", "IMMEDIATE")
	r.form(at+"/keys", at+"/keys", "scope", "full", "label", "ci")
	r.names["{id}"] = string(server.AppendUUID(nil, r.Machine.Keys(r.environment())[0].ID))
	r.form(at+"/keys", at+"/keys/{id}/budget", "budget", "org")
	r.form(at+"/keys", at+"/keys/{id}/roll", "overlapHours", "1")
	r.form(at+"/keys", at+"/keys/{id}/revoke")
	r.form(at+"/webhooks", at+"/webhooks", "url", "https://shop.example/hook")
	hook := r.firstLink(at+"/webhooks", at+"/webhooks/[0-9a-f-]+")
	r.names["{endpoint}"] = strings.TrimPrefix(hook, at+"/webhooks/")
	r.form(hook, hook+"/rotate")
	r.form(hook, hook+"/enable", "enabled", "false")
	r.form(hook, hook+"/enable", "enabled", "true")
	r.ask(r.programs, "createCustomer",
		`{"externalClientCustomerId":"hooked","firstName":"H","lastName":"K","email":"h@k.example"}`)
	r.ask(r.programs, "createSubscription", `{"planId":"team","customerReferenceId":"hooked"}`)
	r.form(hook, hook+"/resend", "message", r.sentMessage(r.names["{endpoint}"]))
	r.sentMessage(r.names["{endpoint}"])
	r.form(hook, hook+"/resend-many", "from", "2020-01-01", "all", "true")
	r.form(hook, hook+"/test")
	r.form(hook, hook+"/delete")
	r.form(at+"/settings", at+"/settings/seller", "name", "Demo Ltd", "address", "1 Main St, Oslo")
	r.form(at+"/settings", at+"/settings/terms", "paymentTermDays", "8", "settleMinutes", "0")
	r.form(at+"/settings", at+"/settings/origins", "origins", "https://a.example")
	r.form(at+"/settings", at+"/settings/portal", "colour", "#17645a")
	r.form(anna, anna+"/portal-link", "minutes", "60")
	r.form(anna, anna+"/portal-revoke")
	occurred := r.now().UTC().Format(time.RFC3339)
	r.ask(r.programs, "ingestEvent", `{"eventIdempotencyKey":"wrong","eventName":"calls",`+
		`"customerReferenceId":"anna","usageUnits":4,"occurredAt":"`+occurred+`"}`)
	event := anna + "/events?key=wrong&at=" + occurred
	r.form(event, anna+"/events/amend", "key", "wrong", "at", occurred, "units", "2")
	r.form(event, anna+"/events/void", "key", "wrong", "at", occurred)
	r.ask(r.programs, "createCustomer",
		`{"externalClientCustomerId":"bea","firstName":"B","lastName":"A","email":"b@a.example"}`)
	bea := at + "/customers/bea"
	r.form(bea, bea+"/archive")
	r.form(bea, bea+"/erase")
	r.seen["POST "+anna+"/archive"], r.seen["POST "+anna+"/erase"] = true, true // of another
	r.form(at+"/clock", at+"/clock", "to", r.now().Add(24*time.Hour).Format(time.RFC3339))
}

func (r *recorder) adminIsRecorded() {
	in := []string{"{account}", "{environment}"}
	below := func(more ...string) []string { return append(append([]string{}, in...), more...) }
	call := func(operation, body string, more ...string) map[string]any {
		r.t.Helper()
		return r.call(r.admin, operation, body, below(more...)...)
	}
	r.call(r.admin, "createAccount", `{"name":"second"}`)
	key := call("createKey", `{"scope":"read"}`)["id"].(string)
	r.ask(r.programs, "putBudget", `{"name":"Keys"}`, "keys")
	call("bindKey", `{"budget":"keys"}`, key)
	call("rollKey", `{"overlapHours":1}`, key)
	call("revokeKey", "", key)
	call("applyCatalog", `{"features":[{"key":"extra","name":"Extra"}]}`)
	call("setOrigins", `{"origins":["https://shop.example"]}`)
	call("setPaymentTerms", `{"paymentTermDays":9}`)
	call("setSeller", `{"name":"Demo Ltd"}`)
	call("setPortal", `{"accentColour":"#004080"}`)
	call("createPortalLink", `{"expiresInMinutes":60}`, "anna")
	call("revokePortalLinks", "", "anna")
	call("setPaymentProvider", `{"provider":"sandbox"}`)
	call("advanceClock", `{"advanceTo":"`+r.now().Add(48*time.Hour).UTC().Format(time.RFC3339)+`"}`)
	pool := call("createPool", `{"name":"second"}`, "anna")["id"].(string)
	granted := call("grantCredits", `{"amount":5}`, pool)["id"].(string)
	call("deductCredits", `{"amount":1}`, pool)
	call("setTopUp", `{"below":1,"amount":10,"price":2,"monthlyCap":4,"paymentMethod":"x"}`, pool)
	r.ask(r.admin, "deductCredits", `{"amount":3.5}`, below(pool)...) // which asks for a purchase
	purchase := r.ask(r.admin, "showTopUp", "", below(pool)...)["purchase"].(string)
	call("setPaymentProvider", `{"provider":"none","forgetPrevious":true}`)
	call("endTopUp", `{"purchase":"`+purchase+`","notPaid":true}`, pool)
	call("setPaymentProvider", `{"provider":"sandbox"}`)
	call("stopTopUp", "", pool)
	call("setLowBalance", `{"lowBalance":3}`, pool)
	call("freezePool", "", pool)
	call("unfreezePool", "", pool)
	call("reverseTransaction", "", granted)
	call("archivePool", "", pool)
	held := r.reserve("anna", "operator")
	call("extendReservation", `{"ttlSeconds":900}`, held)
	call("settleReservation", `{"usageUnits":0.5,"final":false}`, held)
	call("releaseReservation", "", held)
	r.ask(r.programs, "createSubscription", `{"planId":"large","customerReferenceId":"anna"}`)
	call("voidInvoice", "", r.newestInvoice())
	hook := call("createWebhookEndpoint", `{"url":"https://shop.example/a"}`)["id"].(string)
	call("updateWebhookEndpoint", `{"description":"books"}`, hook)
	call("rotateWebhookSecret", "", hook)
	r.ask(r.programs, "createSubscription", `{"planId":"large","customerReferenceId":"anna"}`)
	call("resendWebhook", "", hook, r.sentMessage(hook))
	r.sentMessage(hook)
	call("resendWebhooks", `{"from":"2020-01-01T00:00:00Z","status":"all"}`, hook)
	call("testWebhook", "", hook)
	call("deleteWebhookEndpoint", "", hook)
	r.ask(r.programs, "createCustomer",
		`{"externalClientCustomerId":"carl","firstName":"C","lastName":"D","email":"c@d.example"}`)
	call("removeCustomer", "", "carl")
}

func (r *recorder) clientIsRecorded() {
	call := func(operation, body string, path ...string) map[string]any {
		r.t.Helper()
		return r.call(r.programs, operation, body, path...)
	}
	call("createCustomer",
		`{"externalClientCustomerId":"bob","firstName":"B","lastName":"C","email":"b@c.example"}`)
	change := r.one("PATCH /api/v1/client/customers/{externalClientCustomerId}", "olga@example.com",
		func() { r.ask(r.programs, "updateCustomer", `{"email":"new@c.example"}`, "bob") })
	require.Equal(r.t, map[string]string{"email": "changed"}, change.After, "and not its value")
	call("createPortalLink", `{}`, "bob")
	call("revokePortalLinks", "", "bob")
	made := call("createSubscription", `{"planId":"team","customerReferenceId":"bob"}`)
	s := made["subscription"].(map[string]any)["id"].(string)
	invoice := made["invoice"].(map[string]any)["id"].(string)
	held := call("reserve", `{"reservationKey":"bob's","customerReferenceId":"bob",`+
		`"featureKey":"calls","usageUnits":1}`)["id"].(string)
	call("extendReservation", `{"ttlSeconds":900}`, held)
	call("settleReservation", `{"usageUnits":0.5,"final":false}`, held)
	call("releaseReservation", "", held)
	call("putBudget", `{"name":"Bob's","customerReferenceId":"bob"}`, "bob")
	call("putBudget", `{"name":"Above"}`, "above")
	call("moveBudget", `{"parent":"above"}`, "bob")
	call("freezeBudget", "", "above")
	call("unfreezeBudget", "", "above")
	call("createCheckoutSession", "", invoice)
	call("markInvoicePaid", "", invoice)
	call("changeSubscriptionPlan", `{"changeToPlanId":"large","changeType":"DOWNGRADE"}`, s)
	call("cancelScheduledPlanChange", "", s)
	call("changeSubscriptionPlan", `{"changeToPlanId":"large","changeType":"UPGRADE"}`, s)
	call("cancelSubscription", "", s)
	call("revertScheduledCancellation", "", s)
	now := string(server.AppendTime(nil,
		r.Machine.EnvironmentNow(r.environment(), r.now().UnixMilli())))
	event := `{"eventIdempotencyKey":"NAME","eventName":"calls","customerReferenceId":"bob",` +
		`"usageUnits":2,"occurredAt":"` + now + `"}`
	call("ingestEvent", strings.ReplaceAll(event, "NAME", "k-1"))
	call("ingestEventBatch", "["+strings.ReplaceAll(event, "NAME", "k-2")+"]")
	call("amendEvent", `{"usageUnits":1}`, "k-1")
	call("voidEvent", "", "k-1")
	r.ask(r.programs, "createCustomer",
		`{"externalClientCustomerId":"dora","firstName":"D","lastName":"E","email":"d@e.example"}`)
	call("archiveCustomer", "", "dora")
	call("archiveBudget", "", "above")
	pool := r.ask(r.admin, "createPool", `{"name":"Bob's"}`, "{account}", "{environment}", "bob")
	r.ask(r.admin, "grantCredits", `{"amount":5}`, "{account}", "{environment}", pool["id"].(string))
	call("setTopUp", `{"below":1,"amount":10,"price":2,"monthlyCap":4,"paymentMethod":"x"}`,
		pool["id"].(string))
	call("stopTopUp", "", pool["id"].(string))
}

func (r *recorder) workspacesAreRecorded() {
	r.node.tenants.Do(r.t, workspace.KindSignUp, &workspace.SignUp{
		ID: [16]byte{1}, KeyID: [16]byte{2}, KeyHash: [32]byte{3}, ClaimHash: [32]byte{4},
	})
	at := r.firstLink("/console/workspaces", `/console/workspaces/[^"?]+`)
	r.form(at, at+"/claim", "owner", "person@example.com")
	r.form(at, at+"/credits", "amount", "5")
	r.form(at, at+"/cap", "cents", "700")
	r.form(at, at+"/pause", "paused", "true")
}

// newestInvoice is the id of anna's last issued invoice.
func (r *recorder) newestInvoice() string {
	list := r.Machine.Invoices(r.environment(), r.row("anna"))
	return string(server.AppendUUID(nil, list[len(list)-1].ID))
}

// sentMessage is a message of the endpoint that was delivered, so that it can be sent again.
func (r *recorder) sentMessage(endpoint string) string {
	due := r.Machine.DueWebhooks(r.now().AddDate(1, 0, 0).UnixMilli(), 1,
		func([16]byte) int { return 1 }, func(uint64) bool { return false })
	require.Len(r.t, due, 1)
	command := billing.RecordDelivery{
		Env: due[0].Env, Endpoint: due[0].Endpoint.ID, Row: due[0].Delivery.Row,
		Sequence: due[0].Delivery.Sequence, Attempt: due[0].Delivery.Attempts + 1,
		Outcome: billing.AttemptDelivered, Status: 200,
	}
	var results [1]engine.Result
	r.Propose(time.Time{}, []engine.Record{{
		Kind: billing.KindRecordDelivery, Payload: wire.Encode(nil, &command),
	}}, results[:])
	require.Equal(r.t, engine.OutcomeDone, results[0].Outcome)
	data := r.ask(r.admin, "listWebhookDeliveries", "", "{account}", "{environment}", endpoint)
	list := data["deliveries"].([]any)
	return list[len(list)-1].(map[string]any)["id"].(string)
}

// TestTheRecordHasPagesOfBothGroups: operators' changes for owners of workspaces are among the
// others, newest first, whatever the size of a page.
func TestTheRecordHasPagesOfBothGroups(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	n.tenants.Do(t, workspace.KindSignUp, &workspace.SignUp{
		ID: [16]byte{1}, KeyID: [16]byte{2}, KeyHash: [32]byte{3}, ClaimHash: [32]byte{4},
	})
	at := b.firstLink("/console/workspaces", `/console/workspaces/[^"?]+`)
	b.submit("/console", "/console/accounts", fields("name", "a"))
	b.submit(at, at+"/claim", fields("owner", "person@example.com"))
	n.tenants.Later(time.Second)
	b.submit(at, at+"/credits", fields("amount", "5"))
	b.submit("/console", "/console/accounts", fields("name", "b"))
	whole := n.changes(t, 1000)
	require.Len(t, whole, 4)
	for size := 1; size < 5; size++ {
		require.Equal(t, whole, n.changes(t, size))
	}
	b.get("/console/changes").is(200, "workspace.claim", "/console/workspaces/", "account.created")
}

// changes lists the record page by page.
func (n *node) changes(t testing.TB, size int) (all []recorded) {
	t.Helper()
	for cursor := ""; ; {
		query := url.Values{"limit": {strconv.Itoa(size)}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		reply := n.admin.Call(server.Call{Operation: "listChanges", Query: query})
		require.Nil(t, reply.Fault)
		var page struct {
			Data struct {
				Changes    []recorded
				NextCursor string
			}
		}
		require.NoError(t, json.Unmarshal(reply.Body, &page))
		require.LessOrEqual(t, len(page.Data.Changes), size)
		all = append(all, page.Data.Changes...)
		if cursor = page.Data.NextCursor; cursor == "" {
			return all
		}
	}
}
