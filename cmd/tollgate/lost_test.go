package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/demo"
	api "tollgate/sdk/go"
)

// lossy carries all requests out. While it loses, the answer to every other one that may change
// something does not arrive, as where a connection is cut.
type lossy struct {
	to     http.Handler
	loses  *atomic.Bool
	writes atomic.Int32
}

func (l *lossy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.loses.Load() && r.Method != "GET" && l.writes.Add(1)%2 == 1 {
		l.to.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	l.to.ServeHTTP(w, r)
}

// losing puts a connection that loses answers before both APIs of a shell.
func (s *shell) losing(loses *atomic.Bool) {
	front := func(address string) string {
		to, err := url.Parse("http://" + address)
		require.NoError(s.t, err)
		server := httptest.NewServer(
			&lossy{to: httputil.NewSingleHostReverseProxy(to), loses: loses})
		s.t.Cleanup(server.Close)
		return strings.TrimPrefix(server.URL, "http://")
	}
	s.args[1], s.clientArgs[1] = front(s.args[1]), front(s.clientArgs[1])
}

// connect is a client of one of the two APIs, by the arguments of its commands.
func (s *shell) connect(args []string) *api.Client {
	c, err := api.New(args[1:2], args[3], 1)
	require.NoError(s.t, err)
	c.Patience = time.Minute
	s.t.Cleanup(c.Close)
	return c
}

// plumbing are the methods of a client that send what they are given, or nothing.
var plumbing = []string{
	"Close", "Do", "Operations", "Pause", "Retries", "Stream", "Trust", "Try",
}

// TestWhatHasLostItsAnswerIsDoneOnce: each method of the Go client succeeds where answers are lost,
// and leaves what it leaves where none are.
func TestWhatHasLostItsAnswerIsDoneOnce(t *testing.T) {
	var loses atomic.Bool
	plain := walkClient(t, &loses)
	loses.Store(true)
	require.Equal(t, plain, walkClient(t, &loses))
}

// walkClient calls every method of the Go client, and returns what they have left.
func walkClient(t *testing.T, loses *atomic.Bool) (left []string) {
	s := newShell(t)
	s.losing(loses)
	c, admin := s.connect(s.clientArgs), s.connect(s.args)
	o, ctx := admin.Operations("demo", "sandbox"), t.Context()
	called := map[string]bool{}
	does := func(name string, err error) {
		t.Helper()
		require.NoError(t, err, name)
		called[name] = true
	}
	walkCustomers(t, c, does)
	walkBudgets(t, c, o, does)
	walkReservations(t, c, o, does)
	const sandbox = "/api/v1/admin/accounts/demo/environments/sandbox/"
	pool, err := o.CreatePool(ctx, "ada", api.PoolRequest{Name: "credits"})
	does("Operations.CreatePool", err)
	for range 2 {
		_, err = o.GrantCredits(ctx, pool.ID, api.GrantRequest{Amount: "5"})
		does("Operations.GrantCredits", err)
	}
	all, err := o.Pools(ctx, "ada")
	does("Operations.Pools", err)
	require.Equal(t, json.Number("10"), all[0].Balance)
	_, err = admin.Call(ctx, "POST", sandbox+"pools/"+pool.ID+"/deductions",
		map[string]int{"amount": 1}, nil)
	does("Call", err)
	_, err = o.CreateKey(ctx, api.KeyRequest{Scope: "read"})
	does("Operations.CreateKey", err)
	for range 2 {
		hook, err := o.CreateWebhook(ctx, api.WebhookRequest{URL: "https://hooks.example/x"})
		does("Operations.CreateWebhook", err)
		require.NotEmpty(t, hook.Secret)
	}
	hooks, err := o.Webhooks(ctx)
	does("Operations.Webhooks", err)
	require.Len(t, hooks, 2)
	does("Operations.DeleteWebhook", o.DeleteWebhook(ctx, hooks[0].ID))
	_, err = c.CreatePortalLink(ctx, "ada", api.PortalLinkRequest{})
	does("CreatePortalLink", err)
	does("RevokePortalLinks", c.RevokePortalLinks(ctx, "ada"))
	_, err = admin.Call(ctx, "PUT", sandbox+"payment-provider",
		map[string]string{"provider": "sandbox"}, nil)
	require.NoError(t, err)
	does("SetTopUp", c.SetTopUp(ctx, pool.ID, api.TopUpRequest{
		Below: "1", Amount: "10", Price: "5", MonthlyCap: "20", PaymentMethod: "card",
	}))
	_, err = c.TopUp(ctx, pool.ID)
	does("TopUp", err)
	does("StopTopUp", c.StopTopUp(ctx, pool.ID))

	for of, before := range map[reflect.Type]string{
		reflect.TypeFor[*api.Client](): "", reflect.TypeFor[api.Operations](): "Operations.",
	} {
		for i := range of.NumMethod() {
			name := before + of.Method(i).Name
			require.True(t, called[name] || slices.Contains(plumbing, name), "%s is not called", name)
		}
	}
	for _, path := range []string{
		"customers/ada", "customers/bob", "customers/ada/subscriptions?status=all", "events?kind=usage",
		"events?kind=void", "events?kind=amend",
		"reservations?customerReferenceId=ada", "budgets", "billing/invoices/ada",
	} {
		left = append(left, seen(t, c, "/api/v1/client/"+path))
	}
	for _, path := range []string{
		sandbox + "keys", sandbox + "customers/ada/pools", sandbox + "pools/" + pool.ID + "/transactions",
		sandbox + "webhook-endpoints", "/api/v1/admin/audit",
	} {
		left = append(left, seen(t, admin, path))
	}
	return left
}

// drawn is what differs between two clusters that were asked for the same: ids, times, keys, places
// in the log.
var drawn = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[0-9:.]+Z|` +
	`(sk|ck)_test_\w+|"logIndex":\d+|[A-Z2-7]{26}|"id":"[0-9-]+"|"newestCursor":"\w+"|"number":\d+`)

// revoked is the record of a revocation of links: what takes no key is recorded as often as it was
// carried out, though the second time does nothing.
var revoked = regexp.MustCompile(
	`\{…,[^{}]*"portal.links-revoked"[^{}]*\{[^{}]*\}[^{}]*\{[^{}]*\}\},`)

// seen is the answer to a GET, without what differs by chance.
func seen(t *testing.T, c *api.Client, path string) string {
	answer, err := c.Do(t.Context(), api.Request{Method: "GET", Path: path})
	require.NoError(t, err)
	require.Equal(t, 200, answer.Status, path)
	return revoked.ReplaceAllString(drawn.ReplaceAllString(path+string(answer.Payload()), "…"), "")
}

func walkCustomers(t *testing.T, c *api.Client, does func(string, error)) {
	ctx := t.Context()
	id, err := c.CreateCustomer(ctx, api.CustomerRequest{
		FirstName: "Bob", LastName: "B", Email: "bob@example.com", ExternalClientCustomerID: "bob",
	})
	does("CreateCustomer", err)
	does("ChangeCustomer", c.ChangeCustomer(ctx, id, api.CustomerChange{LastName: api.Set("Builder")}))
	_, err = c.Customer(ctx, id)
	does("Customer", err)
	plans, err := c.Plans(ctx)
	does("Plans", err)
	require.NotEmpty(t, plans)
	made, err := c.CreateSubscription(ctx, api.SubscriptionRequest{
		PlanID: demo.ReplayPlan, CustomerReferenceID: id,
	})
	does("CreateSubscription", err)
	_, err = c.Subscription(ctx, made.Subscription.ID)
	does("Subscription", err)
	adas, err := c.Subscriptions(ctx, "ada")
	require.NoError(t, err)
	does("ChangePlan", c.ChangePlan(ctx, adas[0].ID, api.PlanChangeRequest{
		ChangeToPlanID: "starter", ChangeType: "DOWNGRADE",
	}))
	all, err := c.Subscriptions(ctx, id)
	does("Subscriptions", err)
	require.Len(t, all, 1)
	does("CancelSubscription", c.CancelSubscription(ctx, all[0].ID, "END_OF_PERIOD"))
	for _, err = range c.Invoices(ctx, id, nil) {
		does("Invoices", err)
	}

	at := time.Now().Add(-time.Second)
	event := func(key string) api.EventRequest {
		return api.EventRequest{
			EventIdempotencyKey: key, EventName: "output-tokens", CustomerReferenceID: "ada",
			UsageUnits: "3", OccurredAt: at,
		}
	}
	for _, key := range []string{"", "e1", "e2"} {
		sent, err := c.RecordEvent(ctx, event(key))
		does("RecordEvent", err)
		require.NotEmpty(t, sent.Key)
	}
	sent, err := c.RecordEvent(ctx, event("e1"))
	require.NoError(t, err)
	require.Equal(t, api.Recorded{Key: "e1", Before: true}, sent)
	other := event("e1")
	other.UsageUnits = "4"
	_, err = c.RecordEvent(ctx, other)
	var refused *api.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "key_reused", refused.Code, "another event has the key")
	batch, err := c.RecordEvents(ctx, []api.EventRequest{event("e3"), event("e4")})
	does("RecordEvents", err)
	require.Equal(t, 2, batch.Accepted+batch.Duplicates)
	_, err = c.PreviewCorrection(ctx, "e1", "2")
	does("PreviewCorrection", err)
	does("AmendEvent", c.AmendEvent(ctx, "e1", api.EventAmendment{UsageUnits: "2"}))
	does("VoidEvent", c.VoidEvent(ctx, "e2", api.EventVoid{Reason: "a test"}))
	for _, err = range c.Events(ctx, "ada", nil) {
		does("Events", err)
	}
	_, err = c.Usage(ctx, "ada", nil)
	does("Usage", err)
	_, err = c.Check(ctx, "ada", "output-tokens")
	does("Check", err)
	_, err = c.Entitlements(ctx, "ada")
	does("Entitlements", err)
	gone, err := c.CreateCustomer(ctx, api.CustomerRequest{
		FirstName: "Cy", LastName: "C", Email: "cy@example.com",
	})
	require.NoError(t, err)
	does("ArchiveCustomer", c.ArchiveCustomer(ctx, gone))
}

func walkBudgets(t *testing.T, c *api.Client, o api.Operations, does func(string, error)) {
	ctx := t.Context()
	for _, key := range []string{"top", "team", "gone"} {
		_, err := c.PutBudget(ctx, key, api.BudgetRequest{
			Name: key, Limits: []api.BudgetLimitRequest{{Of: "price", Limit: "100", Window: "month"}},
		})
		does("PutBudget", err)
	}
	for _, v := range []struct {
		name string
		call func(context.Context, string) (api.Budget, error)
	}{
		{"Budget", c.Budget}, {"FreezeBudget", c.FreezeBudget}, {"UnfreezeBudget", c.UnfreezeBudget},
	} {
		_, err := v.call(ctx, "team")
		does(v.name, err)
	}
	_, err := c.MoveBudget(ctx, "team", "top")
	does("MoveBudget", err)
	_, err = c.BudgetWindows(ctx, "team")
	does("BudgetWindows", err)
	_, err = c.ArchiveBudget(ctx, "gone")
	does("ArchiveBudget", err)
	for _, err = range c.Budgets(ctx, "") {
		does("Budgets", err)
	}
	keys, err := o.Keys(ctx)
	does("Operations.Keys", err)
	does("Operations.BindKey", o.BindKey(ctx, keys[0].ID, "top"))
	does("Operations.BindKey", o.BindKey(ctx, keys[0].ID, ""))
}

func walkReservations(t *testing.T, c *api.Client, o api.Operations, does func(string, error)) {
	ctx := t.Context()
	for i, v := range []struct {
		where  string
		extend func(context.Context, string, api.ReservationExtension) (api.Reservation, error)
		settle func(context.Context, string, api.ReservationSettlement) (api.Reservation, error)
		end    func(context.Context, string) (api.Reservation, error)
	}{
		{"", c.ExtendReservation, c.SettleReservation, c.ReleaseReservation},
		{"Operations.", o.ExtendReservation, o.SettleReservation, o.ReleaseReservation},
	} {
		var ids [2]string
		for n := range ids {
			held, err := c.Reserve(ctx, api.ReservationRequest{
				ReservationKey: fmt.Sprint("r", i, n), CustomerReferenceID: "ada",
				ReservedItem: api.ReservedItem{FeatureKey: "output-tokens", UsageUnits: "5"},
			})
			does("Reserve", err)
			ids[n] = held.ID
		}
		_, err := v.extend(ctx, ids[0], api.ReservationExtension{UsageUnits: "7"})
		does(v.where+"ExtendReservation", err)
		_, err = v.settle(ctx, ids[0], api.ReservationSettlement{
			ReservedItem: api.ReservedItem{UsageUnits: "6"},
		})
		does(v.where+"SettleReservation", err)
		_, err = v.end(ctx, ids[1])
		does(v.where+"ReleaseReservation", err)
	}
	_, err := c.Reservation(ctx, "none")
	require.Error(t, err)
	for v, err := range c.Reservations(ctx, "ada", "") {
		does("Reservations", err)
		_, err = c.Reservation(ctx, v.ID)
		does("Reservation", err)
	}
}

// TestCommandsThatLostTheirAnswerAreDoneOnce: of keys create, webhooks create, rotate and delete,
// and events send.
func TestCommandsThatLostTheirAnswerAreDoneOnce(t *testing.T) {
	s := newShell(t)
	var before, after []api.Key
	s.json(&before, "keys", "list")
	var loses atomic.Bool
	loses.Store(true)
	s.losing(&loses)
	key := strings.TrimSpace(s.ok("keys", "create"))
	s.json(&after, "keys", "list")
	require.Len(t, after, len(before)+1)
	s.clientArgs[3] = key
	_, err := s.connect(s.clientArgs).Plans(t.Context())
	require.NoError(t, err, "it is the key that was made")

	require.Contains(t, s.ok("webhooks", "create", "https://hooks.example/a"), "whsec_")
	var hooks []api.WebhookEndpoint
	s.json(&hooks, "webhooks", "list")
	require.Len(t, hooks, 1)
	require.Contains(t, s.ok("webhooks", "rotate", hooks[0].ID), "whsec_")
	require.Equal(t, 1, strings.Count(s.ok("audit"), "webhook-endpoint.secret-rotated"))
	require.Contains(t, s.ok("webhooks", "delete", hooks[0].ID), "Removed "+hooks[0].ID)
	loses.Store(false)
	_, refused := s.run("webhooks", "delete", hooks[0].ID)
	require.NotZero(t, refused, "no answer was lost: it was not there")
	loses.Store(true)

	for _, more := range [][]string{nil, {"--event-key", "once"}} {
		out, said, code := s.asClient(append([]string{"events", "send", "ada", "output-tokens", "7"},
			more...)...)
		require.Zero(t, code, said)
		require.Contains(t, out, "It counts once.")
	}
	var events []api.Event
	out, said, code := s.asClient("events", "list", "ada", "--json")
	require.Zero(t, code, said)
	require.NoError(t, json.Unmarshal([]byte(out), &events))
	require.Len(t, events, 2)
}
