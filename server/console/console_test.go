package console_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"html"
	"io"
	"maps"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/bench/servertest"
	"tollgate/engine/billing"
	"tollgate/engine/rollup"
	"tollgate/server"
	"tollgate/server/admin"
	"tollgate/server/client"
	"tollgate/server/console"
	"tollgate/server/link"
	"tollgate/server/outbox"
	"tollgate/server/payments"
	"tollgate/server/provider/fetch"
	"tollgate/server/workspaceapi"
)

// cluster is a node's report about its cluster.
type cluster struct{}

func (cluster) Status() any {
	return map[string]any{
		"nodeId": "n1", "ready": false,
		"reasons": []any{map[string]any{"cause": "no_leader", "group": "billing", "text": "nobody leads"}},
		"groups": []any{map[string]any{
			"name": "billing", "leader": "n1", "term": 7, "commitIndex": 12, "lag": 2,
			"lease": true, "segmentsMissing": 2,
		}},
		"members": []any{
			map[string]any{"id": "n1", "voter": true, "leader": true, "reachable": true, "role": "leader"},
			map[string]any{"id": "n2", "voter": true, "role": "down", "lastSeenAt": "2026-01-01T00:00:00Z", "problem": `<b>"down"`},
		},
	}
}
func (cluster) NotReady() []admin.Reason { return nil }
func (cluster) Causes() []string         { return nil }
func (cluster) Leads() bool              { return true }
func (cluster) Change(context.Context, admin.MemberChange) error {
	return errors.New("this cluster has fixed members")
}

// node is one node's operations listener, with the pages.
type node struct {
	*servertest.Cluster
	t     testing.TB
	pages *console.Console
	key   string
	base  string
	// tenants is the state machine of the workspaces.
	tenants *servertest.Workspaces
	// admin and programs are the tables of the two APIs.
	admin, programs *server.Table
	// besides answers requests outside the console.
	besides func(fasthttp.RequestHandler) fasthttp.RequestHandler
	busy    atomic.Bool  // with another backup
	ranking atomic.Bool  // by price, for somebody else: see Sum
	later   atomic.Int64 // how far the pages' clock runs ahead, in nanoseconds
}

// Sum refuses what asks for all customers while the node is ranking.
func (n *node) Sum(q rollup.Query, yield func(rollup.Cell) error) error {
	if n.ranking.Load() && q.Through != 0 {
		return billing.ErrRanking
	}
	return n.Cluster.Sum(q, yield)
}

func (n *node) now() time.Time { return time.Now().Add(time.Duration(n.later.Load())) }

func start(t testing.TB, set ...func(*node, *console.Config)) *node {
	t.Helper()
	n := &node{
		Cluster: servertest.New(), t: t,
		besides: func(next fasthttp.RequestHandler) fasthttp.RequestHandler { return next },
	}
	var err error
	n.key = server.MintKey(server.KeyPrefixAdmin)
	guarded, err := fetch.New(fetch.Config{})
	require.NoError(t, err)
	t.Cleanup(guarded.Close)
	hooks, err := outbox.New(outbox.Config{
		Machine: n.Machine, Proposer: n, Fetch: guarded, SealKey: [32]byte{1},
		Leads: func() (uint64, bool) { return 0, false }, Look: time.Second,
	})
	require.NoError(t, err)
	service, err := payments.New(payments.Config{
		Machine: n.Machine, Proposer: n, Reader: n, Fetch: guarded, SealKey: [32]byte{1},
		PublicURL: "http://tollgate.test",
	})
	require.NoError(t, err)
	links := link.New([32]byte{1}, "http://tollgate.test")
	programs, err := client.New(client.Config{
		Links:   links,
		Machine: n.Machine, Proposer: n, Reader: n, Events: n, Counts: n,
		NodeID: 1, SpoolDir: t.TempDir(),
		Payments: service,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, programs.Close()) })
	var tools *workspaceapi.API
	n.tenants, tools = operatorTools(t, guarded)
	metrics := admin.NewMetrics()
	operations, err := admin.New(admin.Config{
		Machine: n.Machine, Proposer: n, Reader: n, Cluster: cluster{}, Metrics: metrics,
		Sources: admin.Sources{Events: n, Counts: n}, Links: links,

		KeyHash: sha256.Sum256([]byte(n.key)), SealKey: [32]byte{1}, Outbox: hooks,
		Vitals: func() any { return map[string]any{"node": "n1", "build": "v1"} },
		Backup: func(_ context.Context, w io.Writer, _ bool, _ int) error {
			if n.busy.Load() {
				return admin.ErrBackupRunning
			}
			_, err := w.Write([]byte("a backup"))
			return err
		},
		More: tools.Operator.Routes(), Acts: tools.Operator.Acts, Payments: service,
	})
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n.base = "http://" + ln.Addr().String()
	n.admin, n.programs = operations.Table(), programs.Table()
	config := console.Config{
		Admin: operations.Table(), Client: programs.Table(), KeyMatches: operations.KeyMatches,
		Machine: n.Machine, Reader: n, Now: n.now, PublicURL: n.base,
		Load: func() (l console.Load) {
			l.Requests, l.Bounds, l.Buckets = metrics.Served("client")
			return l
		},
	}
	for _, s := range set {
		s(n, &config)
	}
	n.pages, err = console.New(config)
	require.NoError(t, err)
	t.Cleanup(n.pages.Close)
	listener := server.Serve(ln, n.pages.Handler(n.besides(operations.Handler())),
		server.DefaultLimits())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		require.NoError(t, listener.Shutdown(ctx))
	})
	return n
}

// browser is one person's browser, without script.
type browser struct {
	*node
	jar  *cookiejar.Jar
	http *http.Client
}

func (n *node) browser() *browser {
	jar, err := cookiejar.New(nil)
	require.NoError(n.t, err)
	transport := &http.Transport{}
	n.t.Cleanup(transport.CloseIdleConnections)
	return &browser{node: n, jar: jar, http: &http.Client{
		Jar: jar, Transport: transport, Timeout: 20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// signedIn is a browser that has shown the admin key.
func (n *node) signedIn() *browser {
	b := n.browser()
	p := b.send("/console/sign-in", url.Values{"key": {n.key}})
	p.is(303)
	return b
}

// shown is what a browser got.
type shown struct {
	t        testing.TB
	status   int
	header   http.Header
	body, to string
}

func (p shown) is(status int, texts ...string) shown {
	p.t.Helper()
	require.Equal(p.t, status, p.status, "%s", p.body)
	for _, text := range texts {
		require.Contains(p.t, p.body, text)
	}
	return p
}

func (b *browser) do(method, path string, header map[string]string, fields url.Values) shown {
	b.t.Helper()
	var text io.Reader
	if fields != nil {
		text = strings.NewReader(fields.Encode())
	}
	media := "application/x-www-form-urlencoded"
	if fields != nil && strings.HasSuffix(path, "/settings/portal") { // it has a field for a file
		text, media = uploaded(b.t, fields)
	}
	request, err := http.NewRequest(method, b.base+path, text)
	require.NoError(b.t, err)
	if fields != nil {
		request.Header.Set("Content-Type", media)
	}
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := b.http.Do(request)
	require.NoError(b.t, err)
	var body bytes.Buffer
	_, err = body.ReadFrom(response.Body)
	require.NoError(b.t, errors.Join(err, response.Body.Close()))
	return shown{
		b.t, response.StatusCode, response.Header, body.String(), response.Header.Get("Location"),
	}
}

// uploaded are fields as a form with a file sends them: logo is the file.
func uploaded(t testing.TB, fields url.Values) (io.Reader, string) {
	t.Helper()
	var text bytes.Buffer
	form := multipart.NewWriter(&text)
	for name := range fields {
		create := form.CreateFormField
		if name == "logo" {
			create = func(name string) (io.Writer, error) { return form.CreateFormFile(name, "logo.png") }
		}
		part, err := create(name)
		require.NoError(t, err)
		_, err = io.WriteString(part, fields.Get(name))
		require.NoError(t, err)
	}
	require.NoError(t, form.Close())
	return &text, form.FormDataContentType()
}

func (b *browser) get(path string) shown { b.t.Helper(); return b.do("GET", path, nil, nil) }

// send sends a form's fields as they are, as a browser would from this site.
func (b *browser) send(path string, fields url.Values) shown {
	b.t.Helper()
	return b.do("POST", path,
		map[string]string{"Origin": b.base, "Sec-Fetch-Site": "same-origin"}, fields)
}

var (
	tokenField = regexp.MustCompile(`name="_token" value="([^"]+)"`)
	onceField  = regexp.MustCompile(`name="_once" value="([^"]+)"`)
)

// fill adds a form's hidden fields to the typed ones.
func (b *browser) fill(on string, fields url.Values) url.Values {
	b.t.Helper()
	page := b.get(on).is(200)
	token := tokenField.FindStringSubmatch(page.body)
	require.NotNil(b.t, token, "%s has no form", on)
	fields.Set("_token", html.UnescapeString(token[1]))
	if once := onceField.FindStringSubmatch(page.body); once != nil {
		fields.Set("_once", once[1])
	}
	return fields
}

// sendSurely sends a form, and confirms it where it asks first.
func (b *browser) sendSurely(path string, fields url.Values) shown {
	b.t.Helper()
	p := b.send(path, fields)
	if !strings.HasPrefix(p.to, path+"/confirm?") {
		return p
	}
	return b.send(path, b.confirmed(b.get(p.to), fields))
}

// asked sends a form that asks, and goes to its question.
func (b *browser) asked(path string, fields url.Values) shown {
	b.t.Helper()
	p := b.send(path, fields).is(303)
	require.True(b.t, strings.HasPrefix(p.to, path+"/confirm?"), p.to)
	return b.get(p.to).is(200, `id="confirm-button"`)
}

// confirmed are the fields of the form by which a page asks.
func (b *browser) confirmed(p shown, fields url.Values) url.Values {
	b.t.Helper()
	sure := maps.Clone(fields)
	for _, hidden := range regexp.MustCompile(`name="(\w+)" value="([^"]*)"`).
		FindAllStringSubmatch(p.body[strings.Index(p.body, `id="confirm"`):], -1) {
		sure.Set(hidden[1], html.UnescapeString(hidden[2]))
	}
	sure.Set("_sure", "yes")
	sure.Set("_once", onceField.FindStringSubmatch(p.body)[1])
	return sure
}

// submit fills in a form of a page, sends it, and goes where its answer leads.
func (b *browser) submit(on, path string, fields url.Values) shown {
	b.t.Helper()
	p := b.sendSurely(path, b.fill(on, fields))
	if strings.Contains(p.body, `id="secret"`) {
		return p.is(200)
	}
	p.is(303)
	return b.get(p.to).is(200)
}

func fields(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v
}

const catalog = `features:
  - {key: calls, name: Calls}
plans:
  - key: team
    name: Team
    priceAmount: 20
    currency: USD
    intervalMonths: 1
    features:
      - {key: calls, pricingType: usage_based, pricing: {pricePerUnit: 0.5, maxUsage: 10}}
`

// furnish makes the account demo with a catalog and the customer anna on a plan, in its sandbox,
// by the pages.
func (b *browser) furnish() {
	b.t.Helper()
	b.submit("/console", "/console/accounts", fields("name", "demo"))
	const at = "/console/accounts/demo/sandbox"
	b.submit(at+"/catalog", at+"/catalog", fields("document", catalog, "action", "apply"))
	b.submit(at+"/customers", at+"/customers", fields("id", "anna", "first", "Anna", "last", "Berg",
		"email", "anna@example.com"))
	b.submit(at+"/customers/anna", at+"/customers/anna/subscriptions", fields("plan", "team"))
}

func (n *node) environment() uint32 {
	env, ok := n.Machine.Environment("demo", billing.EnvironmentSandbox)
	require.True(n.t, ok)
	return env
}

// TestBillingWalk: from nothing to a paid invoice, an explained one and a moved clock, with the
// pages alone and without script.
func TestBillingWalk(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.get("/console").is(200, "No account yet", `id="create-account"`)
	b.submit("/console", "/console/accounts", fields("name", "demo")).
		is(200, "The account was created", "No plans and features yet")
	const at = "/console/accounts/demo/sandbox"

	look := b.send(at+"/catalog", b.fill(at+"/catalog", fields("document", catalog, "action", "look")))
	look.is(200, "Nothing has changed yet", `id="difference"`, "created", `id="apply"`)
	b.get(at+"/catalog").is(200, "No plans and features yet")
	b.submit(at+"/catalog", at+"/catalog", fields("document", catalog, "action", "apply")).
		is(200, "The catalog was applied", "&#34;team&#34;")
	again := b.send(at+"/catalog", b.fill(at+"/catalog", fields("document", catalog, "action", "look")))
	again.is(200, "Nothing: the catalog is up to date")
	wrong := b.send(at+"/catalog", b.fill(at+"/catalog",
		fields("document", "plans:\n  - {key: x}", "action", "apply")))
	wrong.is(400, `role="alert"`, "key: x") // the document is kept

	b.get(at+"/customers").is(200, "No customer yet", "$API/customers", "Bearer sk_test_")
	b.submit(at+"/customers", at+"/customers", fields("id", "anna/1", "first", "Anna", "last", "Berg",
		"email", "anna@example.com")).is(200, "The customer was created", "Anna Berg")
	const anna = at + "/customers/anna%2F1"
	b.get(at+"/customers?find=nobody").is(200, "No customer matches", "nobody")
	b.get(at+"/customers?find=BERG").is(200, "Anna Berg", `<p class="soft count">1 customer</p>`)
	require.Equal(t, anna, b.get(at+"/customers?find=anna%2F1").is(303).to)
	b.submit(anna, anna+"/subscriptions", fields("plan", "team")).
		is(200, "The subscription was created", "Invoice 1", "active")
	b.submit(anna, anna+"/usage", fields("feature", "calls", "units", "8")).
		is(200, "The usage was recorded", `class="meter high"`, "calls: 8 of 10 used")
	b.get(anna+"/live").is(200, `class="meter high"`)
	b.get(anna+"/events").is(200, "usage")
	b.get(anna+"/events?kind=audit").is(200, "No event here matches")

	page := b.get(anna)
	invoice := regexp.MustCompile(`/invoices/[0-9a-f-]{36}">Invoice 1`).FindString(page.body)
	require.NotEmpty(t, invoice)
	invoice = at + strings.TrimSuffix(invoice, `">Invoice 1`)
	b.submit(invoice, invoice+"/paid", url.Values{}).
		is(200, "The invoice was marked as paid", "paid")
	const counted = `<th scope="col" class="n">Events</th>`
	require.NotContains(t, b.get(invoice).body, counted, "nothing has counted them")
	b.get(invoice+"/explain").is(200, "it is the same, to the last unit", counted,
		"Verified: the invoice is what its events make of it", `href="#explanation"`)

	b.submit(at+"/clock", at+"/clock", fields("to", n.now().AddDate(0, 1, 3).Format(time.RFC3339))).
		is(200, "The clock was advanced", "All due renewals have run")
	b.get(at+"/clock/live").is(200, "All due renewals")
	b.get(anna).is(200, "Invoice 2")
	b.get(anna+"/invoices").is(200, "Invoice 2", "Verify all against events")
	b.get(anna+"/invoices/verify").is(200, "Every invoice of this customer is the same, to the last unit",
		"2 were recomputed")
	b.get(at+"/invoices").is(200, `href="`+at+`/invoices/verify"`)
	p := b.get(at+"/invoices/verify").is(200, "the same, to the last unit", "2 were recomputed")
	require.NotContains(t, p.body, "Verify the next")
	b.send(at+"/clock", b.fill(at+"/clock", fields("to", "yesterday"))).is(400, "Enter an instant")

	b.submit(anna, anna+"/pools", fields("name", "prepaid")).is(200, "The pool was created")
	pool := at + regexp.MustCompile(`/pools/[0-9a-f-]{36}`).FindString(b.get(anna).body)
	b.submit(pool, pool+"/grantCredits", fields("amount", "100", "note", "welcome")).
		is(200, "The credits were booked", "welcome")
	b.submit(pool, pool+"/deductCredits", fields("amount", "30")).is(200, "70")
	b.submit(pool, pool+"/freezePool", url.Values{}).is(200, "Unfreeze the pool")
	b.send(pool+"/grantCredits", b.fill(pool, fields("amount", "many"))).is(400, "amount")

	subscription := n.Machine.Subscriptions(n.row("anna/1"))[0]
	b.submit(anna, anna+"/cancel", fields("mode", "END_OF_PERIOD",
		"subscription", string(server.AppendUUID(nil, subscription.ID)))).
		is(200, "The cancellation was recorded", "ends")
	b.get("/console/changes").is(200, "catalog.applied", "admin-key", "<dt>clock</dt>",
		"<del>"+n.now().Format("2006-01-02T"))
	require.Equal(t, at[:len(at)-len("sandbox")]+"live", b.get("/console/accounts/demo").is(303).to)
}

func (n *node) row(customer string) uint32 {
	view, known := n.Machine.Customer(n.environment(), customer)
	require.True(n.t, known)
	return view.Row
}

// TestWhatPagesSay: pages name live or sandbox, a blocked feature has its reason, names that are
// not billed are listed, and internal parts are marked, so that no invoice prints them.
func TestWhatPagesSay(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	b.get(at+"/customers").is(200, `class="top sandbox"`, "SANDBOX <time")
	b.get("/console/accounts/demo/live/customers").is(200, `class="top live"`, ">LIVE<")
	anna := at + "/customers/anna"
	b.submit(anna, anna+"/usage", fields("feature", "calls", "units", "11"))
	b.get(anna).is(200, "blocked", "The usage limit of this feature is reached.")
	require.NotContains(t, b.get(at+"/customers").body, `id="unmatched"`)
	b.submit(anna, anna+"/usage", fields("feature", "sea.miles", "units", "2"))
	p := b.get(at+"/customers").is(200, `id="unmatched"`, "sea.miles")
	b.get(at+"/events?kind=usage&unbilled=true").is(200, `id="unmatched"`, "sea.miles")
	safe(t, p)
	hooks := at + "/webhooks"
	b.send(hooks, b.fill(hooks, fields("url", "https://shop.example/a"))).
		is(200, "0 delivered, 0 failed, 0 waiting")
	invoice := at + "/invoices/" + (&recorder{browser: b}).newestInvoice()
	p = b.get(invoice).is(200, `class="n internal">Cost`, `class="card internal"`,
		`class="actions internal"`, "20.00 USD", "Total")
	safe(t, p)
}
