package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	tollgate "tollgate/sdk/go"
)

func sdk(t *testing.T, address, key string) *tollgate.Client {
	c, err := tollgate.New([]string{address}, key, 2)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// TestSDKSpeaksTheClientAPI: the structs of sdk/go, most of them generated, carry what the API
// takes and answers.
func TestSDKSpeaksTheClientAPI(t *testing.T) {
	n := start(t)
	c, ctx := sdk(t, n.addr, n.sandbox), t.Context()
	id, err := c.CreateCustomer(ctx, tollgate.CustomerRequest{
		ExternalClientCustomerID: "ada/1", FirstName: "Ada", LastName: "Lovelace",
		Email: "ada@example.com", PhoneNumber: "+44 1",
	})
	require.NoError(t, err)
	require.Equal(t, "ada/1", id)

	days := 30
	made, err := c.CreateSubscription(ctx, tollgate.SubscriptionRequest{
		PlanID: "team", CustomerReferenceID: id, GracePeriod: &days,
	})
	require.NoError(t, err)
	require.Equal(t, json.Number("20"), made.Invoice.Amount)
	require.Equal(t, 30, made.Subscription.GracePeriodDays)
	require.Equal(t, "tokens", made.Subscription.Plan.Features[0].Key)

	require.NoError(t, c.ChangeCustomer(ctx, id, tollgate.CustomerChange{
		LastName: tollgate.Set("King"), PhoneNumber: tollgate.Clear[string](),
	}))
	customer, err := c.Customer(ctx, id)
	require.NoError(t, err)
	require.Equal(t, "Ada King", customer.FirstName+" "+customer.LastName)
	require.Empty(t, customer.PhoneNumber)
	require.Equal(t, made.Subscription.ID, customer.Subscriptions[0].ID)

	require.NoError(t, c.CancelSubscription(ctx, made.Subscription.ID, "END_OF_PERIOD"))
	s, err := c.Subscription(ctx, made.Subscription.ID)
	require.NoError(t, err)
	require.Equal(t, "END_OF_PERIOD", s.CancelMode)
	require.Equal(t, s.CurrentPeriodEnd, s.CancelEffectiveAt)
	plans, err := c.Plans(ctx)
	require.NoError(t, err)
	require.Equal(t, json.Number("20"), plans[0].PriceAmount)

	_, err = c.CreateSubscription(ctx, tollgate.SubscriptionRequest{PlanID: "team"})
	var refused *tollgate.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "validation_failed", refused.Code)
	require.Equal(t, "customerReferenceId", refused.Fields[0].Field)
	require.NotEmpty(t, refused.RequestID)
}

// TestSDKGoesThroughPages: iterators ask for page after page, and stop when the caller does.
func TestSDKGoesThroughPages(t *testing.T) {
	n := start(t)
	c, ctx := sdk(t, n.addr, n.sandbox), t.Context()
	id, err := c.CreateCustomer(ctx, tollgate.CustomerRequest{
		FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
	})
	require.NoError(t, err)
	made, err := c.CreateSubscription(ctx, tollgate.SubscriptionRequest{
		PlanID: "team", CustomerReferenceID: id,
	})
	require.NoError(t, err)
	for i := range 5 {
		sent, err := c.RecordEvent(ctx, tollgate.EventRequest{
			EventName: "tokens", FeatureKey: "tokens", CustomerReferenceID: id,
			OccurredAt: made.Subscription.CreatedAt, UsageUnits: "4",
		})
		require.NoError(t, err)
		require.Equal(t, i >= 2, sent.LimitExceeded, "the limit is 10, and %d events counted 4 each", i+1)
	}
	keys := map[string]bool{}
	for event, err := range c.Events(ctx, id, url.Values{"limit": {"2"}}) {
		require.NoError(t, err)
		keys[event.EventIdempotencyKey] = true
		require.Equal(t, json.Number("4"), event.UsageUnits)
	}
	require.Len(t, keys, 5)
	count := 0
	for range c.Events(ctx, id, url.Values{"limit": {"2"}}) {
		if count++; count == 3 {
			break
		}
	}
	require.Equal(t, 3, count)
	for invoice, err := range c.Invoices(ctx, id, nil) {
		require.NoError(t, err)
		require.Equal(t, made.Invoice.ID, invoice.ID)
	}
	for _, err := range c.Invoices(ctx, "nobody", nil) {
		require.True(t, tollgate.IsStatus(err, 404), "%v", err)
	}
}

// TestSDKKnowsDecisions: its structs of the answers that the server writes by hand have all fields
// of
// these.
func TestSDKKnowsDecisions(t *testing.T) {
	n := start(t)
	c, ctx := sdk(t, n.addr, n.sandbox), t.Context()
	id, err := c.CreateCustomer(ctx, tollgate.CustomerRequest{
		FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
	})
	require.NoError(t, err)
	made, err := c.CreateSubscription(ctx, tollgate.SubscriptionRequest{
		PlanID: "team", CustomerReferenceID: id,
	})
	require.NoError(t, err)
	whole := func(method, path string, body, v any) {
		t.Helper()
		text, err := json.Marshal(body)
		require.NoError(t, err)
		answer, err := c.Do(ctx, tollgate.Request{
			Method: method, Path: "/api/v1/client" + path, Body: text,
		})
		require.NoError(t, err)
		d := json.NewDecoder(bytes.NewReader(answer.Payload()))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(v), "%s", answer.Body)
	}
	event := tollgate.EventRequest{
		EventIdempotencyKey: "one", EventName: "tokens", FeatureKey: "tokens", CustomerReferenceID: id,
		OccurredAt: made.Subscription.CreatedAt, UsageUnits: "12",
	}
	var batch tollgate.BatchResult
	whole("POST", "/events/batch", []tollgate.EventRequest{event, event, {}}, &batch)
	require.Equal(t, []int{1, 1, 1}, []int{batch.Accepted, batch.Duplicates, batch.Rejected})
	require.Equal(t, []int{200, 409, 400}, []int{
		batch.Results[0].Status, batch.Results[1].Status, batch.Results[2].Status,
	})
	require.NotEmpty(t, batch.Results[2].Message)

	d, err := c.Check(ctx, id, "tokens")
	require.NoError(t, err)
	require.False(t, d.IsAllowed)
	require.Equal(t, "limit_reached", d.Meta.Reason.Code)
	require.Equal(t, tollgate.Counter{Used: "12", Limit: "10", Remaining: "0", Held: "0"}, d.Usage)
	require.Nil(t, d.Simulation)
	var again tollgate.Decision
	whole("POST", "/entitlements", map[string]any{
		"customerReferenceId": id, "featureKey": "tokens", "track": map[string]any{"usageUnits": 3},
	}, &again)
	require.True(t, again.Simulation.WouldExceedLimit)
	require.Equal(t, json.Number("15"), again.Simulation.ProjectedUsage)
	all, err := c.Entitlements(ctx, id)
	require.NoError(t, err)
	require.Equal(t, d.Usage, all[0].Usage)
	var same []tollgate.Entitlement
	whole("GET", "/entitlements/"+id, nil, &same)
	require.Equal(t, all, same)
}

// lossy carries each request out, and loses the first answer to every POST.
type lossy struct {
	to   http.Handler
	mu   sync.Mutex
	keys map[string]int
}

func (l *lossy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	key := r.Header.Get("Idempotency-Key")
	l.keys[key]++
	first := l.keys[key] == 1
	l.mu.Unlock()
	if first && r.Method == "POST" {
		l.to.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	l.to.ServeHTTP(w, r)
}

// seen counts the requests by their idempotency key.
func (l *lossy) seen() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.keys)
}

// lossyTo is a client of a node that loses answers.
func lossyTo(t *testing.T, n *node) (*lossy, *tollgate.Client) {
	to, err := url.Parse("http://" + n.addr)
	require.NoError(t, err)
	proxy := &lossy{to: httputil.NewSingleHostReverseProxy(to), keys: map[string]int{}}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	return proxy, sdk(t, strings.TrimPrefix(front.URL, "http://"), n.sandbox)
}

// TestSDKRepeatsWithTheSameKey: a change whose answer was lost is repeated with its idempotency
// key, and takes effect once.
func TestSDKRepeatsWithTheSameKey(t *testing.T) {
	n := start(t)
	proxy, c := lossyTo(t, n)
	id, err := c.CreateCustomer(t.Context(), tollgate.CustomerRequest{
		FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
	})
	require.NoError(t, err)
	ctx := tollgate.WithIdempotencyKey(t.Context(), "subscribe-ada")
	made, err := c.CreateSubscription(ctx, tollgate.SubscriptionRequest{
		PlanID: "team", CustomerReferenceID: id,
	})
	require.NoError(t, err)
	all, err := c.Subscriptions(t.Context(), id)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, made.Subscription.ID, all[0].ID)
	require.Equal(t, 2, proxy.seen()["subscribe-ada"])

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Customer(canceled, id)
	require.True(t, errors.Is(err, context.Canceled), fmt.Sprint(err))
}
