package workspaceapi

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/bench/servertest"
	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/inspect"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/verify"
)

// group is a server.Proposer and a server.Reader over one real state machine, without raft.
type group = servertest.Workspaces

const publicURL = "http://tollgate.test"

// node is the API over a real state machine and a real listener.
type node struct {
	*group
	t      testing.TB
	api    *API
	addr   string
	http   *http.Client
	router routers.Router
	// operators is the router of the operators' document.
	operators routers.Router
}

// leads is what a node that leads says.
func leads() (term uint64, ok bool) { return 1, true }

// start makes a node of a cluster.
func start(t testing.TB, settings ...func(*Config)) *node {
	t.Helper()
	g := servertest.NewWorkspaces()
	client, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	require.NoError(t, err)
	c := Config{
		Machine: g.Machine, Proposer: g, Reader: g, PublicURL: publicURL, Now: g.Now,
		QuoteKey: [32]byte{7}, Check: client.CheckAt, Payments: true,
		Agents: []Agent{
			{Name: "clever", Kind: "exec", Version: "1"},
			{Name: "other", Kind: "exec", Version: "2"},
		},
		ReadTimeout: 50 * time.Millisecond, Inspector: inspect.New(recorded(t, smallSite), g.Now),
	}
	for _, set := range settings {
		set(&c)
	}
	api, err := New(c)
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	operator, err := server.NewTable(api.Operator.Routes(), server.TableConfig{
		Authenticate: func(*server.Exchange) *server.Fault { return nil },
	})
	require.NoError(t, err)
	srv := server.Serve(ln, api.Handler(beside(operator.Serve)), server.DefaultLimits())
	n := &node{
		group: g, t: t, api: api, addr: srv.Addr().String(),
		http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
	}
	t.Cleanup(func() {
		n.http.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, srv.Shutdown(ctx))
		client.Close()
	})
	n.describe()
	api.Flows.offerAgents()
	return n
}

// beside answers the client API's description, which every node has beside this API, and hands
// everything else on.
func beside(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) != "/api/v1/client/openapi.json" {
			next(ctx)
			return
		}
		ctx.SetContentType("application/json")
		ctx.SetBodyString(`{"openapi":"3.0.3","info":{"title":"Billing","version":"1.0.0"},"paths":{` +
			`"/api/v1/client/listPlans":{"get":{"operationId":"listPlans","security":[{"key":[]}]}}},` +
			`"components":{"securitySchemes":{"key":{"type":"http","scheme":"bearer"}}}}`)
	}
}

// described are the routers of what the first node has published: all publish the same.
var described struct {
	sync.Once
	router, operators routers.Router
}

// describe loads the published document, which every later answer is validated against.
func (n *node) describe() {
	described.Do(func() {
		document := servertest.LoadDocument(n.t, n.published())
		require.Equal(n.t, "3.1.0", document.OpenAPI)
		described.router = document.Router
		text, err := server.OpenAPI(n.api.Operator.Routes(),
			server.Description{Title: "x", Version: "1"})
		require.NoError(n.t, err)
		described.operators = servertest.LoadDocument(n.t, text).Router
	})
	n.router, n.operators = described.router, described.operators
}

// published is the OpenAPI document of the API.
func (n *node) published() []byte {
	n.t.Helper()
	text, err := n.api.Document()
	require.NoError(n.t, err)
	return text
}

// policy changes the settings that decide results.
func (n *node) policy(change func(*workspace.SetPolicy)) {
	p := n.Machine.Policy()
	change(&p)
	require.True(n.t, outcomeDone(n.api.propose(0, workspace.KindSetPolicy, &p)))
}

// caller is a workspace's key.
type caller struct {
	*node
	workspace, key, code string
}

func (n *node) signUp(scopes string) *caller {
	n.t.Helper()
	body := `{"label":"acme"}`
	if scopes != "" {
		body = `{"label":"acme","scopes":` + scopes + `}`
	}
	a := n.send("POST", "/v1/signup", body, "", nil).is(201, "")
	return &caller{
		n, a.body["workspace"].(string), a.body["key"].(string), a.body["claimCode"].(string),
	}
}

func (c *caller) call(method, path, body string) answer {
	c.t.Helper()
	return c.send(method, path, body, c.key, nil)
}

// keyed sends a request with an Idempotency-Key.
func (c *caller) keyed(path, key, body string) answer {
	c.t.Helper()
	return c.send("POST", path, body, c.key, map[string]string{"Idempotency-Key": key})
}

const flowText = `"name":"Sign up","url":"https://product.example/","task":"Sign up.",` +
	`"successCriteria":"There is an account.","access":"public"`

const plainFlow = `{` + flowText +
	`,"verification":{"url":"https://product.example/me","status":200,"contains":"ok"}}`

// flow saves a flow and returns its id.
func (c *caller) flow(body string) string {
	c.t.Helper()
	return c.call("POST", "/v1/flows", body).is(201, "").at("flow", "id").(string)
}

func (c *caller) quote(flow string) map[string]any {
	c.t.Helper()
	return c.call("GET", "/v1/flows/"+flow+"/quote", "").is(200, "").at("quote").(map[string]any)
}

// claim makes a workspace its owner's, as an operator does.
func (c *caller) claim() {
	c.t.Helper()
	c.operate("/claim", `{"owner":"ada@example.com"}`)
}

// operate uses one of the operator's tools, which must leave one record.
func (c *caller) operate(path, body string) answer {
	c.t.Helper()
	before, _, _ := c.api.Operator.Acts(0, 1, 1000, false)
	defer func() {
		c.t.Helper()
		after, _, _ := c.api.Operator.Acts(0, 1, 1000, false)
		require.Len(c.t, after, 1, path)
		require.True(c.t, len(before) == 0 || after[0].Change.Number > before[0].Change.Number, path)
		require.Equal(c.t, c.workspace, after[0].Workspace)
		require.Equal(c.t, server.AdminKey, after[0].Change.Actor)
		require.Contains(c.t, toolActs, strings.TrimPrefix(after[0].Change.Action, "workspace."))
	}()
	a := c.send("POST", "/api/v1/admin/workspaces/"+c.workspace+path, body, "",
		map[string]string{"Content-Type": "application/json"})
	require.Equal(c.t, 200, a.status, string(a.raw))
	return a
}

// does brings a command into the state that a worker or a provider gives.
func (c *caller) does(kind engine.Kind, command wire.Fielder) {
	c.t.Helper()
	require.Equal(c.t, engine.OutcomeDone, c.api.propose(0, kind, command).Outcome)
}

// start starts a run of a flow.
func (c *caller) start(flow, key string) answer {
	c.t.Helper()
	return c.keyed("/v1/flows/"+flow+"/run", key,
		`{"fingerprint":"`+c.quote(flow)["fingerprint"].(string)+`"}`)
}

// answer is an HTTP answer.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	raw    []byte
	body   map[string]any
}

func (n *node) send(method, path, body, key string, headers map[string]string) answer {
	n.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	request, err := http.NewRequest(method, "http://"+n.addr+path, reader)
	require.NoError(n.t, err)
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	return n.do(request)
}

// do sends a request and validates its answer.
func (n *node) do(request *http.Request) answer {
	n.t.Helper()
	response, err := n.http.Do(request)
	require.NoError(n.t, err)
	a := answer{t: n.t, status: response.StatusCode, header: response.Header}
	a.raw, err = io.ReadAll(response.Body)
	require.NoError(n.t, err)
	require.NoError(n.t, response.Body.Close())
	require.Len(n.t, response.Header.Get("X-Request-Id"), 28)
	if strings.Contains(response.Header.Get("Content-Type"), "json") {
		require.NoError(n.t, json.Unmarshal(a.raw, &a.body), string(a.raw))
	}
	n.validate(request, a)
	return a
}

// validate compares an answer with the published document.
func (n *node) validate(request *http.Request, a answer) {
	n.t.Helper()
	request.URL.Host, request.URL.Scheme = "", ""
	router := n.router
	if strings.HasPrefix(request.URL.Path, operatorTools) {
		router = n.operators
	}
	route, params, err := router.FindRoute(request)
	if err == nil {
		servertest.NoteExample(n.t, route.Operation.OperationID, request, a.status, a.raw)
	}
	if err != nil || a.header.Get("Content-Type") != "application/json" {
		return // not in the document, or no plain JSON
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: request, PathParams: params, Route: route,
		},
		Status: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.raw)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	require.NoError(n.t, openapi3filter.ValidateResponse(context.Background(), input), string(a.raw))
	if router == n.operators {
		servertest.RequireDeclared(n.t, route.Operation, a.status, a.raw)
	}
}

// is checks the status, and of an error its code and shape.
func (a answer) is(status int, code string) answer {
	a.t.Helper()
	require.Equal(a.t, status, a.status, string(a.raw))
	if code == "" {
		return a
	}
	require.Equal(a.t, code, a.body["error"], string(a.raw))
	require.NotEmpty(a.t, a.body["message"])
	require.Equal(a.t, a.header.Get("X-Request-Id"), a.body["request_id"])
	a.carries(code)
	if status == 503 {
		require.NotEmpty(a.t, a.header.Get("Retry-After"))
	}
	if status == 401 {
		require.Equal(a.t, `Bearer resource_metadata="`+publicURL+
			`/.well-known/oauth-protected-resource"`, a.header.Get("WWW-Authenticate"))
	}
	return a
}

// at is a value within the body, by names.
func (a answer) at(names ...string) any {
	a.t.Helper()
	var value any = a.body
	for _, name := range names {
		object, ok := value.(map[string]any)
		require.True(a.t, ok, "%s in %s", name, a.raw)
		value = object[name]
	}
	return value
}

// product starts a server on loopback that answers status without the key, and a verifier that may
// reach it.
func product(t testing.TB, handler fasthttp.RequestHandler,
) (verifier *verify.Verifier, check func(string, uint16) error, base string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := server.Serve(ln, handler, server.DefaultLimits())
	client, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		AllowHosts:   []string{srv.Addr().String()},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		client.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		require.NoError(t, srv.Shutdown(ctx))
	})
	return &verify.Verifier{Fetch: client, Pause: time.Millisecond}, client.CheckAt,
		"http://" + srv.Addr().String()
}

// readAnswer reads an answer from a connection that a test drives by hand.
func readAnswer(t testing.TB, from *bufio.Reader) answer {
	t.Helper()
	response, err := http.ReadResponse(from, nil)
	require.NoError(t, err)
	a := answer{t: t, status: response.StatusCode, header: response.Header}
	a.raw, err = io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.NoError(t, json.Unmarshal(a.raw, &a.body), string(a.raw))
	return a
}
