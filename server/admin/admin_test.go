package admin_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/routers"
	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"tollgate/bench/servertest"
	"tollgate/engine"
	"tollgate/server"
	"tollgate/server/admin"
	"tollgate/server/client"
	"tollgate/server/link"
	"tollgate/server/outbox"
	"tollgate/server/payments"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/webhook"
)

// members is what a node would say about its cluster.
type members struct {
	removed map[string]bool // members that were, and are no more
	reasons atomic.Pointer[[]admin.Reason]
	follows atomic.Bool
	changes atomic.Pointer[admin.MemberChange]
	caught  bool // whether node4 has caught up, so that it may be promoted
}

func (m *members) Status() any { return map[string]any{"nodeId": "n1", "ready": true} }
func (m *members) NotReady() []admin.Reason {
	if r := m.reasons.Load(); r != nil {
		return slices.Clone(*r)
	}
	return nil
}
func (m *members) Causes() []string { return []string{"no_leader", "clock_off"} }
func (m *members) Leads() bool      { return !m.follows.Load() }

// Change knows one member, node4, which it refuses to promote.
func (m *members) Change(_ context.Context, c admin.MemberChange) error {
	if c.Action == "remove" && m.removed[c.ID] {
		return fmt.Errorf("%s is not a member: %w", c.ID, admin.ErrWasMember)
	}
	if c.ID != "node4" || c.Action == "promote" && !m.caught {
		return errors.New("the log of " + c.ID + " is 7 entries behind: wait")
	}
	m.changes.Store(&c)
	return nil
}

type node struct {
	*servertest.Cluster
	t       *testing.T
	addr    string
	key     string
	members *members
	api     *client.API
	clients string // address of the client API
	till    *payments.Service
	router  routers.Router
	stripe  net.Listener // where the stand-in for Stripe is served
	outbox  *outbox.Outbox
	// save is how the node makes a backup.
	save atomic.Pointer[func(ctx context.Context, w io.Writer, stale bool, pace int) error]
	// vitals are what the node says of itself.
	vitals any
	// bare is what serveAdmin gives it, and no links to the portal; nil: all that there is.
	bare  *admin.Sources
	later atomic.Int64 // how far the payment service's clock runs ahead, in nanoseconds
}

func start(t *testing.T) *node { return startWithin(t, server.DefaultLimits().Write) }

// startWithin is start with a bound of its own for how long an answer may take to leave.
func startWithin(t *testing.T, write time.Duration) *node {
	n := &node{
		Cluster: servertest.New(), t: t, members: &members{},
		vitals: map[string]any{"build": "v1"},
	}
	var err error
	n.key = server.MintKey(server.KeyPrefixAdmin)
	metrics := admin.NewMetrics()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n.stripe, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := n.stripe.Close(); err != nil {
			require.ErrorIs(t, err, net.ErrClosed)
		}
	})
	guarded, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		AllowHosts:   []string{n.stripe.Addr().String()},
	})
	require.NoError(t, err)
	t.Cleanup(guarded.Close)
	n.till, err = payments.New(payments.Config{
		Machine: n.Machine, Proposer: n, Reader: n, Fetch: guarded,
		PublicURL: "http://" + ln.Addr().String(), SealKey: [32]byte{1}, Now: n.now,
	})
	require.NoError(t, err)
	n.outbox, err = outbox.New(outbox.Config{
		Machine: n.Machine, Proposer: n, Fetch: guarded, SealKey: [32]byte{1},
		Leads: func() (uint64, bool) { return 1, true }, Look: time.Millisecond,
		Schedule: webhook.Schedule{time.Millisecond, time.Millisecond},
	})
	require.NoError(t, err)
	n.api, err = client.New(client.Config{
		Machine: n.Machine, Proposer: n, Reader: n, Events: n, Counts: n,
		NodeID: 1, SpoolDir: t.TempDir(),
		Observe: metrics.Observer("client"), Payments: n.till,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.api.Close()) })
	n.serveAdmin(metrics, [32]byte{1}, write)
	n.clients = n.listens(server.Serve(ln, n.api.Handler(), server.DefaultLimits()))
	n.describe()
	nothing := func(context.Context, io.Writer, bool, int) error { return admin.ErrNotCurrent }
	n.save.Store(&nothing)
	return n
}

// serveAdmin serves the admin API of a node that has this secret.
func (n *node) serveAdmin(metrics *admin.Metrics, seal [32]byte, write time.Duration) {
	n.t.Helper()
	links := link.New(seal, "https://tollgate.example")
	sources := admin.Sources{Events: n, Counts: n}
	if n.bare != nil {
		links, sources = nil, *n.bare
	}
	api, err := admin.New(admin.Config{
		Links:   links,
		Machine: n.Machine, Proposer: n, Reader: n, Cluster: n.members, Metrics: metrics,
		KeyHash: sha256.Sum256([]byte(n.key)), SealKey: seal, Audits: n.api.AuditStats,
		Payments: n.till, Outbox: n.outbox, Sources: sources,
		SettleTimeout: 2 * time.Second,
		Vitals:        func() any { return n.vitals },
		Backup: func(ctx context.Context, w io.Writer, stale bool, pace int) error {
			return (*n.save.Load())(ctx, w, stale, pace)
		},
	})
	require.NoError(n.t, err)
	limits := server.DefaultLimits()
	limits.Write = write
	operations, err := server.Listen("127.0.0.1:0", api.Handler(), limits)
	require.NoError(n.t, err)
	n.addr = n.listens(operations)
}

// listens returns a server's address; it is shut down with the test.
func (n *node) listens(h *server.Server) string {
	n.t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		require.NoError(n.t, h.Shutdown(ctx))
	})
	return h.Addr().String()
}

func (n *node) now() time.Time { return time.Now().Add(time.Duration(n.later.Load())) }

type answer struct {
	t      *testing.T
	status int
	header http.Header
	raw    string
	body   map[string]any
}

func (n *node) send(method, path, body, key, media string) answer {
	n.t.Helper()
	return n.sendWith(http.Header{}, method, path, body, key, media)
}

// sendWith sends a request with more headers.
func (n *node) sendWith(header http.Header, method, path, body, key, media string) answer {
	n.t.Helper()
	address := n.addr
	if strings.HasPrefix(path, client.Prefix) || strings.HasPrefix(path, payments.Prefix) {
		address = n.clients
	} else if path[0] != '/' {
		path = admin.Prefix + "/" + path
	}
	request, err := http.NewRequest(method, "http://"+address+path, strings.NewReader(body))
	require.NoError(n.t, err)
	request.Header = header
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		request.Header.Set("Content-Type", media)
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(n.t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(n.t, err)
	require.NoError(n.t, response.Body.Close())
	require.NotEmpty(n.t, response.Header.Get("X-Request-Id"))
	a := answer{t: n.t, status: response.StatusCode, header: response.Header, raw: string(text)}
	if method == "HEAD" {
		return a
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		require.NoError(n.t, json.Unmarshal(text, &a.body), a.raw)
	}
	a.validation()
	n.validate(request, a)
	return a
}

func (n *node) call(method, path, body string) answer {
	n.t.Helper()
	return n.send(method, path, body, n.key, "application/json")
}

// validation checks what every refusal says additively: the request's name, and of a validation
// error each field.
func (a answer) validation() {
	a.t.Helper()
	fault, ok := a.body["error"].(map[string]any)
	if !ok {
		return
	}
	require.Equal(a.t, a.header.Get("X-Request-Id"), fault["requestId"])
	if fault["code"] != "validation_failed" {
		return // a refused catalog may have them, too
	}
	require.NotEmpty(a.t, fault["fields"], a.raw)
	for _, field := range fault["fields"].([]any) {
		require.Contains(a.t, fault["detail"], field.(map[string]any)["message"])
	}
}

func (a answer) is(status int, code string) answer {
	a.t.Helper()
	require.Equal(a.t, status, a.status, a.raw)
	if code != "" {
		require.Equal(a.t, code, a.body["error"].(map[string]any)["code"], a.raw)
	}
	return a
}

func (a answer) data() map[string]any { return a.body["data"].(map[string]any) }
func (a answer) list() []any          { return a.body["data"].([]any) }

func (a answer) detail() string {
	detail, _ := a.body["error"].(map[string]any)["detail"].(string)
	return detail
}

const catalogYAML = `
features:
  - {key: tokens, name: Tokens, labels: [llm.tokens], costPerUnit: 0.000001}
  - key: seats
    name: Seats
plans:
  - key: team
    name: Team
    priceAmount: 20.00
    currency: USD
    intervalMonths: 1
    metadata: {tier: 1, note: "x"}
    features:
      - key: tokens
        pricingType: graduated
        pricing:
          unitLabel: token
          tiers:
            - {upTo: 1e5, pricePerUnit: "0.000003", flatFee: 0}
            - {upTo: inf, pricePerUnit: .0000025, flatFee: "1"}
      - {key: seats, pricingType: included, pricing: {maxUsage: 5, limitMode: hard}}
`

func TestAccountsKeysAndCatalog(t *testing.T) {
	n := start(t)
	a := n.call("POST", "accounts", `{"name":"demo"}`).is(201, "")
	require.Equal(t, "demo", a.data()["name"])
	n.call("POST", "accounts", `{"name":"demo"}`).is(409, "account_exists")
	require.Len(t, n.call("GET", "accounts", "").is(200, "").list(), 1)

	const keys = "accounts/demo/environments/sandbox/keys"
	a = n.call("POST", keys, `{"scope":"full","label":"first"}`).is(201, "")
	key := a.data()["key"].(string)
	require.True(t, strings.HasPrefix(key, "sk_test_"))
	require.True(t, server.WellFormedKey([]byte(key)))
	id := a.data()["id"].(string)
	live := n.call("POST", "accounts/demo/environments/live/keys", `{"scope":"read"}`).is(201, "")
	require.True(t, strings.HasPrefix(live.data()["key"].(string), "sk_live_"))
	a = n.call("GET", keys, "").is(200, "")
	require.Len(t, a.list(), 1)
	require.NotContains(t, a.raw, key)
	require.NotContains(t, a.raw, "revokedAt")

	const catalog = "accounts/demo/environments/sandbox/catalog"
	put := func(query string) answer {
		return n.send("PUT", catalog+query, catalogYAML, n.key, "application/yaml").is(200, "")
	}
	require.Len(t, put("?dryRun=true").data()["changes"], 3)
	require.Len(t, put("?dryRun=true").data()["changes"], 3, "a dry run changes nothing")
	require.Len(t, put("").data()["changes"], 3)
	require.Empty(t, put("").data()["changes"])
	back := n.call("GET", catalog, "").is(200, "")
	document, err := json.Marshal(back.data())
	require.NoError(t, err)
	a = n.call("PUT", catalog+"?prune=true", string(document)).is(200, "")
	require.Empty(t, a.data()["changes"], "what comes back changes nothing: %s", document)
	a = n.call("PUT", catalog+"?prune=true", `{"features":[{"key":"tokens","name":"Tokens"}]}`).is(200, "")
	require.Contains(t, a.raw, `"archived"`)

	plans := n.send("GET", client.Prefix+"/plans", "", key, "").is(200, "")
	require.Empty(t, plans.list())
	n.call("DELETE", keys+"/"+id, "").is(200, "")
	n.call("DELETE", keys+"/"+id, "").is(200, "")
	n.send("GET", client.Prefix+"/plans", "", key, "").is(401, "invalid_key")
	require.Contains(t, n.call("GET", keys, "").raw, "revokedAt")
}

func TestRefusals(t *testing.T) {
	n := start(t)
	n.call("POST", "accounts", `{"name":"demo"}`).is(201, "")
	const env = "accounts/demo/environments/sandbox"
	plan := func(more string) string {
		return `{"features":[{"key":"f","name":"F"}],"plans":[{"key":"p","name":"P","priceAmount":1,` +
			`"currency":"USD","intervalMonths":1` + more + `}]}`
	}
	for _, row := range []struct {
		method, path, body string
		status             int
		code, detail       string
	}{
		{"POST", "accounts", `{"name":"Demo!"}`, 400, "validation_failed", "a-z"},
		{"POST", "accounts", `{"name":"a","x":1}`, 400, "validation_failed", `unknown field "x"`},
		{"POST", "accounts", `{"name":1}`, 400, "validation_failed", "name must be a string, not a number"},
		{"POST", "accounts", `{"name":"a","name":"b"}`, 400, "validation_failed", "more than once"},
		{"POST", "accounts", `{"name"`, 400, "malformed_json", "byte"},
		{"POST", "accounts", `[]`, 400, "validation_failed", "object"},
		{"POST", "accounts", ``, 400, "malformed_json", ""},
		{"GET", "accounts/nobody/environments/live/keys", "", 404, "account_not_found", ""},
		{"GET", "accounts/demo/environments/test/keys", "", 404, "not_found", "live or sandbox"},
		{"POST", env + "/keys", `{"scope":"write"}`, 400, "validation_failed", "scope"},
		{
			"POST", env + "/keys", `{"scope":"full","label":"` + strings.Repeat("é", 81) + `"}`, 400,
			"validation_failed", "label",
		},
		{"DELETE", env + "/keys/abc", "", 400, "validation_failed", "UUID"},
		{"DELETE", env + "/keys/018f0000-0000-7000-8000-000000000001", "", 404, "key_not_found", ""},
		{"PUT", env + "/catalog", plan(`,"colour":1`), 400, "validation_failed", `plans[0]."colour"`},
		{
			"PUT", env + "/catalog", plan(`,"features":[{"key":"f","pricingType":"usage_based","pricing":` +
				`{"pricePerUnit":"x","tiers":[{"upTo":true}]}}]`), 400, "validation_failed",
			"plans[0].features[0].pricing.tiers[0].upTo must be",
		},
		{
			"PUT", env + "/catalog", plan(`,"features":[{"key":"g","pricingType":"included"}]`), 400,
			"catalog_invalid", "g",
		},
		{
			"PUT", env + "/catalog?dryRun=true", plan(`,"features":[{"key":"g","pricingType":"included"}]`), 400,
			"catalog_invalid", "g",
		},
		{"PUT", env + "/catalog?dryRun=yes", plan(``), 400, "validation_failed", "dryRun"},
		{
			"PUT", env + "/catalog", plan(`,"metadata":{"a":{"b":1,"c":2,"b":3}}`), 400,
			"validation_failed", "plans[0].metadata.a.b appears more than once",
		},
		{
			"PUT", env + "/catalog", plan(`,"metadata":{"a":1e-13}`), 400, "validation_failed",
			"plans[0].metadata.a must be",
		},
		{"PUT", env + "/catalog", plan(`,"intervalMonths":2`), 400, "validation_failed", "more than once"},
		{"POST", env + "/catalog", `{}`, 405, "method_not_allowed", ""},
	} {
		a := n.call(row.method, row.path, row.body).is(row.status, row.code)
		if row.detail != "" {
			require.Contains(t, a.detail(), row.detail)
		}
	}
	for text, detail := range map[string]string{
		"a: [": "", "a: &x 1\nb: *x": "alias", "--- {}\n--- {}": "more than one", "features: !!binary aGk=": "tag",
		"? [a]\n: 1": "plain", "features: " + strings.Repeat("[", 40) + strings.Repeat("]", 40): "deep",
	} {
		a := n.send("PUT", env+"/catalog", text, n.key, "application/yaml").is(400, "malformed_yaml")
		require.Contains(t, a.detail(), detail, text)
	}
	n.send("PUT", env+"/catalog", "{}", n.key, "text/plain").is(415, "unsupported_media_type")
	n.send("PUT", env+"/catalog", strings.Repeat(" ", 2<<20), n.key, "application/json").
		is(413, "body_too_large")
}

func TestTheAdminKeyIsRequired(t *testing.T) {
	n := start(t)
	other := server.MintKey(server.KeyPrefixAdmin)
	for _, path := range []string{
		"accounts", "cluster", "node", "accounts/x/environments/live/keys", "accounts/x/environments/live/catalog",
		"/debug/pprof", "/debug/pprof/heap",
	} {
		for _, key := range []string{"", other, n.key[:10]} {
			require.Equal(t, 401, n.send("GET", path, "", key, "").status, path)
		}
	}
	require.Equal(t, 200, n.call("GET", "/debug/pprof", "").status)
	require.Equal(t, 200, n.call("GET", "/debug/pprof/goroutine?debug=1", "").status)
}

func TestHealthAndMetrics(t *testing.T) {
	n := start(t)
	open := func(path string) answer { return n.send("GET", path, "", "", "") }
	require.Equal(t, 200, open("/healthz").status)
	require.Equal(t, 200, open("/readyz").status)
	a := open("/leader")
	require.Equal(t, 200, a.status)
	require.Equal(t, map[string]any{"status": "leader", "reasons": []any{}}, a.body)
	n.members.reasons.Store(&[]admin.Reason{
		{Cause: "no_leader", Group: "billing", Text: "no leader is known"},
		{Cause: "clock_off", Text: "the clock is 12 s off"},
	})
	a = open("/leader")
	require.Equal(t, 503, a.status, "a leader that is not ready")
	require.Equal(t, 200, open("/leader?exclude=clock_off,no_leader").status)
	a = open("/readyz")
	require.Equal(t, 503, a.status)
	leaderless := map[string]any{
		"cause": "no_leader", "group": "billing", "text": "no leader is known",
	}
	off := map[string]any{"cause": "clock_off", "text": "the clock is 12 s off"}
	require.Equal(t, map[string]any{
		"status": "not ready", "reasons": []any{leaderless, off},
	}, a.body)
	require.Equal(t, []any{off}, open("/readyz?exclude=no_leader").body["reasons"])
	require.Equal(t, 200, open("/readyz?exclude=clock_off,no_leader").status)
	a = open("/readyz?exclude=no_leder")
	require.Equal(t, 400, a.status)
	require.Contains(t, a.raw, "no_leader")
	n.members.reasons.Store(nil)
	n.members.follows.Store(true)
	require.Equal(t, 200, open("/readyz").status)
	a = open("/leader")
	require.Equal(t, 503, a.status)
	require.Equal(t, map[string]any{"status": "not leader", "reasons": []any{map[string]any{
		"cause": "not_leader", "group": "billing", "text": "this node does not lead",
	}}}, a.body)
	require.Equal(t, 400, open("/leader?exclude=not_leader").status)
	require.Equal(t, "n1", n.call("GET", "cluster", "").is(200, "").data()["nodeId"])

	n.call("POST", "accounts", `{"name":"demo"}`).is(201, "")
	n.send("GET", client.Prefix+"/plans", "", "", "")
	n.send("GET", client.Prefix+"/nowhere", "", "", "")
	a = open("/metrics")
	require.Equal(t, 200, a.status)
	for _, line := range []string{
		`tollgate_http_requests_total{api="admin",operation="createAccount",status="201"} 1`,
		`tollgate_http_requests_total{api="client",operation="listPlans",status="401"} 1`,
		`tollgate_http_requests_total{api="client",operation="none",status="404"} 1`,
		`tollgate_http_request_seconds_count{api="client",operation="listPlans"} 1`,
		`tollgate_records{kind="account"} 1`,
		`tollgate_idempotency_keys 0`, `tollgate_audit_spool_bytes 0`,
		"tollgate_state_bytes{part=", `tollgate_journal_segments{part="audit"} 0`,
		`tollgate_journal_bytes{part="audit"} 0`, "tollgate_audit_retention_seconds 2.592e+06",
		"go_goroutines",
	} {
		require.True(t, bytes.Contains([]byte(a.raw), []byte(line)), "%s\n%s", line, a.raw)
	}
	outside := open("/elsewhere")
	require.Equal(t, 404, outside.status)
	require.Equal(t, "not_found", outside.body["error"])
}

func TestNoQuorum(t *testing.T) {
	n := start(t)
	n.NoLeader.Store(true)
	n.Refuse(engine.OutcomeUnavailable)
	n.call("GET", "accounts", "").is(503, "unavailable")
	n.call("POST", "accounts", `{"name":"demo"}`).is(503, "unavailable")
	n.call("POST", "accounts/demo/environments/live/keys", `{"scope":"full"}`).is(503, "unavailable")
	n.call("GET", "cluster", "").is(200, "")
	require.Equal(t, "v1", n.call("GET", "node", "").is(200, "").data()["build"])
}
