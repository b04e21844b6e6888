package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"tollgate/bench/servertest"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
	"tollgate/server/client"
)

// node is one running API over HTTP.
type node struct {
	*servertest.Cluster
	t      testing.TB
	api    *client.API
	addr   string
	http   *http.Client
	router routers.Router
	// document is the published OpenAPI document.
	document servertest.Document

	sandbox, live, read string // keys
	env                 uint32
}

func start(t testing.TB, change ...func(*client.Config)) *node {
	return startWithin(t, server.DefaultLimits().Header, change...)
}

// startWithin starts a node at which headers and small bodies have to arrive within a time, and
// large bodies within six times as long.
func startWithin(t testing.TB, within time.Duration, change ...func(*client.Config)) *node {
	c := servertest.New()
	n := &node{Cluster: c, t: t, http: &http.Client{Timeout: 20 * time.Second}}
	config := client.Config{
		Machine: c.Machine, Proposer: c, Reader: c, Events: c, Counts: c,
		Keys: c, NodeID: 1, SpoolDir: t.TempDir(),
	}
	for _, f := range change {
		f(&config)
	}
	var err error
	n.api, err = client.New(config)
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	limits := server.DefaultLimits()
	limits.Header, limits.Body = within, 6*within
	limits.Connections, limits.PerAddress = 200, 150
	s := server.Serve(ln, n.api.Handler(), limits)
	n.addr = ln.Addr().String()
	t.Cleanup(func() {
		n.http.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx))
		require.NoError(t, n.api.Close())
	})
	n.furnish()
	n.describe()
	return n
}

// furnish makes the account, its keys and its catalog.
func (n *node) furnish() {
	n.Do(n.t, billing.KindCreateAccount, &billing.CreateAccount{ID: [16]byte{1}, Name: "demo"})
	var ok bool
	n.env, ok = n.Machine.Environment("demo", billing.EnvironmentSandbox)
	require.True(n.t, ok)
	live, ok := n.Machine.Environment("demo", billing.EnvironmentLive)
	require.True(n.t, ok)
	n.sandbox = n.addKey(n.env, server.KeyPrefixSandbox, billing.ScopeFull)
	n.read = n.addKey(n.env, server.KeyPrefixSandbox, billing.ScopeRead)
	n.live = n.addKey(live, server.KeyPrefixLive, billing.ScopeFull)
	number := decimal.MustParse
	n.catalog(&billing.CatalogDocument{
		Features: []billing.FeatureDocument{
			{
				Key: "tokens", Name: "Tokens", Labels: []string{"llm.tokens"}, HasCost: true,
				CostPerUnit: number("0.001"),
			},
			{Key: "calls", Name: "Calls"},
			{Key: "seats", Name: "Seats"},
			{Key: "other", Name: "Other"},
		},
		Plans: []billing.PlanDocument{
			{
				Key: "team", Name: "Team", PriceAmount: number("20"), Currency: "USD", IntervalMonths: 1,
				Features: []billing.PlanFeatureDocument{
					{Key: "tokens", PricingType: "usage_based", Pricing: billing.PricingDocument{
						PricePerUnit: number("0.5"), HasMax: true, MaxUsage: number("10"), UnitLabel: "token",
					}},
					{Key: "calls", PricingType: "usage_based", Pricing: billing.PricingDocument{
						PricePerUnit: number("1"), HasMax: true, MaxUsage: number("3"), LimitMode: "hard",
					}},
					{Key: "seats", PricingType: "included"},
				},
			},
			{
				Key: "draft", Name: "Draft", PriceAmount: number("1"), Currency: "USD", IntervalMonths: 1,
				Status: "DRAFT",
			},
		},
	})
}

func (n *node) catalog(d *billing.CatalogDocument) {
	ids := func(count int, first byte) []byte {
		var all []byte
		for i := range count {
			id := [16]byte{first, byte(i), 9}
			all = append(all, id[:]...)
		}
		return all
	}
	n.Do(n.t, billing.KindApplyCatalog, &billing.ApplyCatalog{
		Env: n.env, Document: *d,
		FeatureIDs: ids(len(d.Features), 0xfe), PlanIDs: ids(len(d.Plans), 0xfd),
	})
}

func (n *node) addKey(env uint32, prefix string, scope billing.Scope) string {
	key := server.MintKey(prefix)
	hash := sha256.Sum256([]byte(key))
	n.Do(n.t, billing.KindCreateKey, &billing.CreateKey{
		Env: env, ID: [16]byte(hash[:16]), Hash: hash, Scope: scope, Hint: key[:12],
	})
	return key
}

// described is what the first node has published: all publish the same.
var described struct {
	sync.Once
	servertest.Document
}

// describe loads the published OpenAPI document, which every later answer is validated against.
func (n *node) describe() {
	described.Do(func() {
		a := n.send("GET", client.Prefix+"/openapi.json", "", "", nil)
		require.Equal(n.t, 200, a.status)
		described.Document = servertest.LoadDocument(n.t, a.raw)
		require.Equal(n.t, "1.0.0", described.Info.Version)
	})
	n.router, n.document = described.Router, described.Document
}

// answer is an HTTP answer.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	raw    []byte
	body   map[string]any
}

// call sends a request with the sandbox key; a path not beginning with '/' is within the API.
func (n *node) call(method, path, body string) answer {
	n.t.Helper()
	return n.send(method, path, body, n.sandbox, nil)
}

func (n *node) send(method, path, body, key string, headers map[string]string) answer {
	n.t.Helper()
	if path[0] != '/' {
		path = client.Prefix + "/" + path
	}
	var reader io.Reader
	if body != "" {
		reader = bytes.NewReader([]byte(body))
	}
	request, err := http.NewRequest(method, "http://"+n.addr+path, reader)
	require.NoError(n.t, err)
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		if name == "Host" {
			request.Host = value
		}
		request.Header.Set(name, value)
	}
	response, err := n.http.Do(request)
	require.NoError(n.t, err)
	a := answer{t: n.t, status: response.StatusCode, header: response.Header}
	a.raw, err = io.ReadAll(response.Body)
	require.NoError(n.t, err)
	require.NoError(n.t, response.Body.Close())
	require.Empty(n.t, response.Header.Get("Server"))
	require.Equal(n.t, "application/json", response.Header.Get("Content-Type"))
	require.NotEmpty(n.t, response.Header.Get("X-Request-Id"))
	require.NoError(n.t, json.Unmarshal(a.raw, &a.body), string(a.raw))
	validationErrors(n.t, a.header, a.body)
	n.validate(request, a)
	return a
}

func (n *node) validate(request *http.Request, a answer) {
	n.t.Helper()
	if n.router == nil || a.status == 408 { // it did not arrive whole, so no API is known yet
		return
	}
	request.URL.Host, request.URL.Scheme = "", ""
	route, params, err := n.router.FindRoute(request)
	if err != nil {
		return // 404 and 405 are not in the document
	}
	require.NotContains(n.t, []int{404 + 1000, 405}, a.status)
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: request, PathParams: params, Route: route,
		},
		Status: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.raw)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	require.NoError(n.t, openapi3filter.ValidateResponse(context.Background(), input), string(a.raw))
	servertest.RequireDeclared(n.t, route.Operation, a.status, a.raw)
	servertest.NoteExample(n.t, route.Operation.OperationID, request, a.status, a.raw)
	requireKnown(n.t, route.Operation.OperationID, a.raw)
}

// is checks the status, and of an error its code and the shape of the envelope.
func (a answer) is(status int, code string) answer {
	a.t.Helper()
	require.Equal(a.t, status, a.status, string(a.raw))
	if code == "" {
		require.Equal(a.t, true, a.body["success"], string(a.raw))
		return a
	}
	require.Equal(a.t, false, a.body["success"], string(a.raw))
	fault := a.body["error"].(map[string]any)
	require.Equal(a.t, code, fault["code"], string(a.raw))
	require.NotEmpty(a.t, fault["message"])
	if status == 503 || status == 429 {
		require.NotEmpty(a.t, a.header.Get("Retry-After"))
	}
	return a
}

func (a answer) fault() map[string]any { return a.body["error"].(map[string]any) }

// data is a value within data, by names.
func (a answer) data(names ...string) any {
	a.t.Helper()
	value := a.body["data"]
	for _, name := range names {
		object, ok := value.(map[string]any)
		require.True(a.t, ok, "%s in %s", name, a.raw)
		value = object[name]
	}
	return value
}

// customer creates a customer with a subscription to the plan team.
func (n *node) customer(id string) (subscription string) {
	n.t.Helper()
	n.call("POST", "customers", `{"externalClientCustomerId":"`+id+
		`","firstName":"Ada","lastName":"Lovelace","email":"ada@example.com"}`).is(201, "")
	a := n.call("POST", "subscriptions", `{"planId":"team","customerReferenceId":"`+id+`"}`).is(201, "")
	return a.data("subscription", "id").(string)
}

func now() string { return time.Now().UTC().Format(time.RFC3339Nano) }

// event is the body of a usage event of customer acme, with more fields.
func event(key, more string) string {
	return `{"eventIdempotencyKey":"` + key + `","eventName":"tokens","customerReferenceId":"acme",` +
		`"occurredAt":"` + now() + `"` + more + `}`
}

// invoice is the id of a customer's first invoice.
func (n *node) invoice(customer string) string {
	n.t.Helper()
	list := n.call("GET", "billing/invoices/"+customer, "").is(200, "").body["data"].([]any)
	require.NotEmpty(n.t, list)
	return list[0].(map[string]any)["id"].(string)
}
