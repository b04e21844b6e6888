package portal_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/bench/servertest"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
	"tollgate/server/client"
	"tollgate/server/console/portal"
	"tollgate/server/link"
	"tollgate/server/payments"
	"tollgate/server/provider/fetch"
)

// node is one node's public listener with the portal.
type node struct {
	*servertest.Cluster
	t     testing.TB
	env   uint32
	key   string
	keyID [16]byte
	base  string
	links *link.Signer
	later atomic.Int64
}

func start(t testing.TB) *node {
	n := &node{Cluster: servertest.New(), t: t, keyID: [16]byte{9}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n.base = "http://" + listener.Addr().String()
	n.Do(t, billing.KindCreateAccount, &billing.CreateAccount{ID: [16]byte{1}, Name: "demo"})
	n.env, _ = n.Machine.Environment("demo", billing.EnvironmentSandbox)
	n.key = server.MintKey(server.KeyPrefixSandbox)
	n.Do(t, billing.KindCreateKey, &billing.CreateKey{
		Env: n.env, ID: n.keyID, Hash: sha256.Sum256([]byte(n.key)), Scope: billing.ScopeFull,
	})
	n.links = link.New([32]byte{1}, n.base)
	guarded, err := fetch.New(fetch.Config{})
	require.NoError(t, err)
	t.Cleanup(guarded.Close)
	service, err := payments.New(payments.Config{
		Machine: n.Machine, Proposer: n, Reader: n, Fetch: guarded, SealKey: [32]byte{1},
		PublicURL: n.base,
	})
	require.NoError(t, err)
	provider, err := service.Prepare(payments.Place{
		Account: "demo", Kind: billing.EnvironmentSandbox, Env: n.env,
	}, payments.Settings{Provider: billing.ProviderSandbox})
	require.NoError(t, err)
	n.Do(t, billing.KindSetPaymentProvider, &provider)
	api, err := client.New(client.Config{
		Machine: n.Machine, Proposer: n, Reader: n, Events: n, Counts: n, NodeID: 1,
		SpoolDir: t.TempDir(), Payments: service, Links: n.links, Now: n.now,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, api.Close()) })
	pages, err := portal.New(portal.Config{
		Client: api.Table(), Machine: n.Machine, Reader: n, Links: n.links, Payments: service,
		Origin: n.base, Now: n.now,
	})
	require.NoError(t, err)
	s := server.Serve(listener, pages.Handler(api.Handler()), server.DefaultLimits())
	t.Cleanup(func() { require.NoError(t, s.Shutdown(context.Background())) })

	n.publish(50)
	for i, name := range []string{"ada", "ben"} {
		n.Do(t, billing.KindCreateCustomer, &billing.CreateCustomer{
			Env: n.env, ID: [16]byte{5, byte(i)}, ExternalID: name, FirstName: "First-" + name,
			LastName: "Last", Email: name + "@x.example",
		})
		n.Do(t, billing.KindCreateSubscription, &billing.CreateSubscription{
			Env: n.env, ID: [16]byte{6, byte(i)}, InvoiceID: [16]byte{8, byte(i)}, Plan: "team",
			Customer: name,
		})
	}
	return n
}

// publish applies the catalog, with a price of the plan "scale".
func (n *node) publish(scale int64) {
	plan := func(key string, price int64, metadata string) billing.PlanDocument {
		return billing.PlanDocument{
			Key: key, Name: strings.ToUpper(key), PriceAmount: decimal.FromInt(price), Currency: "USD",
			IntervalMonths: 1, Metadata: []byte(metadata),
			Features: []billing.PlanFeatureDocument{{Key: "calls", PricingType: "included"}},
		}
	}
	n.Do(n.t, billing.KindApplyCatalog, &billing.ApplyCatalog{
		Env: n.env, FeatureIDs: bytes.Repeat([]byte{7}, 16),
		PlanIDs: append(append(bytes.Repeat([]byte{2}, 16), bytes.Repeat([]byte{3}, 16)...),
			bytes.Repeat([]byte{4}, 16)...),
		Document: billing.CatalogDocument{
			Features: []billing.FeatureDocument{{Key: "calls", Name: "Calls"}},
			Plans: []billing.PlanDocument{
				plan("team", 20, `{"portal":{"change":true,"cancel":true,"release":true}}`),
				plan("scale", scale, `{"portal":{"change":true}}`), plan("secret", 1, `{}`),
			},
		},
	})
}

// now is the node's clock.
func (n *node) now() time.Time { return time.Now().Add(time.Duration(n.later.Load())) }

// link is one of a customer's, that an hour is left of.
func (n *node) link(customer string, key [16]byte) string {
	v, ok := n.Machine.Customer(n.env, customer)
	require.True(n.t, ok)
	return n.linkOf(n.links, link.Link{Env: n.env, Customer: v.ID, Key: key})
}

// linkOf is a link, for an hour from now on.
func (n *node) linkOf(signer *link.Signer, l link.Link) string {
	l.Minutes = 60
	return link.Root + "/" + signer.Text(l.Begin(n.Machine, n.now()))
}

// changes are the newest rows of the record of changes.
func (n *node) changes() []billing.ChangeView {
	list, _, err := n.Machine.Changes(&enginetest.Source{Journal: n.Machine.Journal()},
		billing.ChangeQuery{Limit: 100, Scan: 100})
	require.NoError(n.t, err)
	return list
}

// page is what a browser got.
type page struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

func (p page) is(status int, texts ...string) page {
	p.t.Helper()
	require.Equal(p.t, status, p.status, p.body)
	for _, text := range texts {
		require.Contains(p.t, p.body, text)
	}
	return p
}

func (n *node) ask(method, path string, header map[string]string, body string) page {
	n.t.Helper()
	request, err := http.NewRequest(method, n.base+path, strings.NewReader(body))
	require.NoError(n.t, err)
	for name, value := range header {
		request.Header.Set(name, value)
	}
	answer, err := http.DefaultTransport.RoundTrip(request)
	require.NoError(n.t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(n.t, err)
	require.NoError(n.t, answer.Body.Close())
	return page{n.t, answer.StatusCode, answer.Header, string(text)}
}

func (n *node) get(path string) page { n.t.Helper(); return n.ask("GET", path, nil, "") }

var hidden = regexp.MustCompile(`name="(_token|_once|kind|version)" value="([^"]+)"`)

// send sends a form with the hidden fields of a page that has one.
func (n *node) send(on, path string, fields url.Values) page {
	n.t.Helper()
	if fields == nil {
		fields = url.Values{}
	}
	for name, values := range n.hidden(on) {
		fields[name] = values
	}
	return n.post(path, fields)
}

// hidden are the hidden fields of a page.
func (n *node) hidden(on string) url.Values {
	n.t.Helper()
	fields := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(n.get(on).body, -1) {
		fields.Set(m[1], m[2])
	}
	return fields
}

// post sends a form's fields.
func (n *node) post(path string, fields url.Values) page {
	n.t.Helper()
	return n.ask("POST", path, map[string]string{
		"Origin": n.base, "Sec-Fetch-Site": "same-origin",
		"Content-Type": "application/x-www-form-urlencoded",
	}, fields.Encode())
}

const (
	ofAda, ofBen           = "06000000-0000-0000-0000-000000000000", "06010000-0000-0000-0000-000000000000"
	invoiceAda, invoiceBen = "08000000-0000-0000-0000-000000000000", "08010000-0000-0000-0000-000000000000"
)

// TestTheCustomersOwnPages: a customer sees plan, usage and invoices, pays, changes and cancels
// what the catalog allows, and each change leaves a record that names the portal.
func TestTheCustomersOwnPages(t *testing.T) {
	n := start(t)
	at := n.link("ada", n.keyID)
	home := n.get(at).is(200, "TEAM", "20.00 USD a month", "Invoice 1", "SCALE, 50.00", "Calls", "TEST")
	require.NotContains(t, home.body, "SECRET")
	require.NotContains(t, home.body, "ben")
	require.Equal(t, "DENY", home.header.Get("X-Frame-Options"))
	require.Contains(t, home.header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
	n.get(at+"/invoices").is(200, at+"/invoices/"+invoiceAda, "Your account")
	n.get(at+"/invoices?from=1").is(200, "None on this page", `rel="first"`)
	n.get(at+"/invoices?from=x").is(200, at+"/invoices/"+invoiceAda)
	n.get(at+"/invoices/"+invoiceAda).is(200, "First-ada Last", "20.00", "Download PDF")
	require.Equal(t, "%PDF", n.get(at + "/invoices/" + invoiceAda + "/pdf").is(200).body[:4])
	n.send(at, at+"/invoices/"+invoiceAda+"/pay", nil).is(303)
	pay := n.get(at+"/invoices/"+invoiceAda+"/pay").is(200, `target="_top"`, n.base+"/payments/",
		"Only the payment provider sees your card number")
	cookie := pay.header.Get("Set-Cookie")
	require.Regexp(t, `^tollgate_portal=[\w-]+; .*path=/payments; HttpOnly`, cookie)
	returned := func(cookie string) page {
		return n.ask("GET", "/payments/demo/sandbox/return", map[string]string{"Cookie": cookie}, "").is(200)
	}
	from, _, _ := strings.Cut(cookie, ";")
	require.Contains(t, returned(from).body, `href="`+at+`"`, "payers come back to their pages")
	for _, other := range []string{"", "tollgate_portal=x", from + `"><script>`} {
		require.NotContains(t, returned(other).body, "href", other)
	}

	ask := at + "/subscriptions/" + ofAda
	n.get(ask+"/change?plan=scale").is(200, "Change to SCALE?", "Invoice issued now: ", "takes effect now")
	n.get(ask+"/change?plan=secret").is(403, "cannot be done here")
	n.send(at, ask+"/change", url.Values{"plan": {"secret"}}).is(403)
	form := n.get(ask + "/change?plan=scale").is(200)
	fields := url.Values{"plan": {"scale"}}
	for _, m := range hidden.FindAllStringSubmatch(form.body, -1) {
		fields.Set(m[1], m[2])
	}
	for range 2 { // the second is the same form
		n.ask("POST", ask+"/change", map[string]string{
			"Origin": n.base, "Content-Type": "application/x-www-form-urlencoded",
		}, fields.Encode()).is(303)
	}
	back := n.get(ask + "/change?plan=scale").is(303).header.Get("Location")
	n.get(back).is(200, "Your plan was changed") // going back to a question that was answered
	n.get(at).is(200, "SCALE", "50.00 USD a month", "Invoice 3")
	require.NotContains(t, n.get(at).body, "Invoice 4")
	n.get(ask+"/change?plan=team").is(200, "Nothing is charged now")
	question := n.hidden(ask + "/change?plan=team")
	question.Set("plan", "team")
	require.Contains(t, n.post(ask+"/change", question).is(303).header.Get("Location"), "done=scheduled")
	question.Del("_once")
	require.Contains(t, n.post(ask+"/change", question).is(303).header.Get("Location"), "done=scheduled")
	n.get(at).is(200, "Changes to TEAM then")
	n.get(ask+"/cancel").is(403, "cannot be done here", `id="home"`)

	ben := n.link("ben", [16]byte{})
	cancel := ben + "/subscriptions/" + ofBen + "/cancel"
	n.get(cancel).is(200, "Cancel TEAM?", "until then is billed")
	n.send(cancel, cancel, nil).is(303)
	n.get(ben).is(200, "Keep TEAM", "ends ")
	for range 2 { // the second is the same form
		n.send(ben, ben+"/subscriptions/"+ofBen+"/keep", nil).is(303)
	}
	changes := n.changes()
	for i, actor := range []string{"portal of ben", "portal of ben", "portal of ada"} {
		require.Equal(t, actor, changes[i].Actor)
	}
}

// TestASuspendedPlanSaysWhatUnblocksIt: its plan, and the invoice to pay; it is not changed until
// then.
func TestASuspendedPlanSaysWhatUnblocksIt(t *testing.T) {
	n := start(t)
	at := n.link("ada", n.keyID)
	n.Do(t, billing.KindAdvanceClock, &billing.AdvanceClock{
		Env: n.env, To: time.Now().AddDate(0, 0, 20).UnixMilli(),
	})
	p := n.get(at).is(200, "TEAM", `id="unblock"`, "Invoice 1</a>, 20.00 USD, which was due on")
	require.NotContains(t, p.body, "No plan at the moment")
	require.NotContains(t, p.body, "See what it costs")
	n.get(at+"/subscriptions/"+ofAda+"/change?plan=scale").is(409, "This plan is suspended")
}

// TestTheLookOfAnAccount: name, colour and logo are the account's, frames those that it lists.
func TestTheLookOfAnAccount(t *testing.T) {
	n := start(t)
	at := n.link("ada", n.keyID)
	n.Do(t, billing.KindSetSeller, &billing.SetSeller{Env: n.env, Seller: billing.Seller{Name: "Shop & Co"}})
	n.Do(t, billing.KindSetPortal, &billing.SetPortal{Env: n.env, Portal: billing.Portal{
		Colour: "#004080", LogoMedia: "image/png", Logo: []byte("\x89PNG"),
	}})
	n.Do(t, billing.KindSetOrigins, &billing.SetOrigins{Env: n.env, Origins: []string{"https://shop.example"}})
	p := n.get(at).is(200, "Shop &amp; Co", at+"/logo", at+"/look.css")
	require.NotContains(t, p.body, "Tollgate")
	require.Empty(t, p.header.Get("X-Frame-Options"))
	require.Contains(t, p.header.Get("Content-Security-Policy"), "frame-ancestors 'self' https://shop.example")
	require.Equal(t, "\x89PNG", n.get(at+"/logo").is(200).body)
	require.Contains(t, n.get(at+"/look.css").is(200).body, "#004080")
	require.Less(t, len(p.body), 100_000)
}

// TestLinksThatAreNotValid show one page that says what to do, and change nothing.
func TestLinksThatAreNotValid(t *testing.T) {
	n := start(t)
	ada := n.link("ada", n.keyID)
	other := link.New([32]byte{2}, n.base)
	v, _ := n.Machine.Customer(n.env, "ada")
	foreign := n.linkOf(other, link.Link{Env: n.env, Customer: v.ID, Key: n.keyID})
	nobody := n.linkOf(n.links, link.Link{Env: n.env, Customer: [16]byte{77}, Key: n.keyID})
	elsewhere := n.linkOf(n.links, link.Link{Env: n.env + 1, Customer: v.ID, Key: n.keyID})
	bare := regexp.MustCompile(`(?s)<main.*</main>`)
	closed := func(at string) string {
		t.Helper()
		for _, path := range []string{
			"", "/logo", "/look.css", "/invoices/" + invoiceAda, "/invoices/" + invoiceAda + "/pdf",
			"/subscriptions/" + ofAda + "/change?plan=scale", "/subscriptions/" + ofAda + "/cancel",
		} {
			n.get(at+path).is(403, "is no longer valid")
		}
		for _, path := range []string{
			"/invoices/" + invoiceAda + "/pay", "/subscriptions/" + ofAda + "/change",
			"/subscriptions/" + ofAda + "/cancel", "/subscriptions/" + ofAda + "/keep",
		} {
			n.ask("POST", at+path, map[string]string{
				"Origin": n.base, "Content-Type": "application/x-www-form-urlencoded",
			}, "plan=scale").is(403, "is no longer valid")
		}
		return bare.FindString(n.get(at).body)
	}
	same := closed(foreign)
	require.Contains(t, same, "Open your account where you got the link")
	for _, at := range []string{
		nobody, elsewhere, ada[:len(ada)-1], ada + "A", ada[:len(ada)-3] + "AAA", link.Root + "/x",
		strings.Replace(ada, "/portal/A", "/portal/B", 1),
	} {
		require.Equal(t, same, closed(at), at)
	}

	n.get(ada).is(200)
	n.later.Store(int64(61 * time.Minute))
	require.Equal(t, same, closed(ada), "expired")
	n.later.Store(0)
	n.get(ada).is(200)
	n.Do(t, billing.KindRevokePortalLinks, &billing.RevokePortalLinks{Env: n.env, Customer: "ada"})
	require.Equal(t, same, closed(ada), "revoked")
	ada = n.link("ada", n.keyID)
	n.get(ada).is(200)
	ben := n.link("ben", [16]byte{})
	n.Do(t, billing.KindRevokeKey, &billing.RevokeKey{Env: n.env, ID: n.keyID})
	require.Equal(t, same, closed(ada), "of a revoked key")
	n.get(ben).is(200)
	n.Do(t, billing.KindEraseCustomer, &billing.EraseCustomer{Env: n.env, ExternalID: "ben"})
	n.get(ben).is(403, "is no longer valid")
}

// TestALinkReachesOneCustomer tries every route with a customer's link: as a path on another's
// records, and as a key of the client API.
func TestALinkReachesOneCustomer(t *testing.T) {
	n := start(t)
	at := n.link("ada", n.keyID)
	held := n.reserve("ben")
	before := n.changes()
	tried := 0
	for _, r := range portal.Rows() {
		path := strings.NewReplacer("{invoice}", invoiceBen, "{subscription}", ofBen,
			"{reservation}", held).Replace(r.Path)
		if path == r.Path {
			continue // about nothing but the link's customer
		}
		tried++
		if r.Method == "GET" {
			p := n.get(at + path + "?plan=scale")
			p.is(404)
			require.NotContains(t, p.body, "ben")
			continue
		}
		n.send(at, at+path, url.Values{"plan": {"scale"}}).is(404)
	}
	require.Equal(t, 11, tried)
	require.Equal(t, before, n.changes(), "nothing was changed")

	token := strings.TrimPrefix(at, link.Root+"/")
	for _, path := range []string{"customers/ada", "search?q=ada", "plans", "billing/invoices/ada"} {
		for _, header := range []map[string]string{
			{"Authorization": "Bearer " + token}, {"X-API-Key": token},
		} {
			n.ask("GET", client.Prefix+"/"+path, header, "").is(401)
		}
	}
	// A form of another site, and one without the link's token.
	pay := at + "/invoices/" + invoiceAda + "/pay"
	media := map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Origin": "https://evil.example"}
	n.ask("POST", pay, media, "").is(403, "came from another site")
	media["Origin"] = n.base
	n.ask("POST", pay, media, "_token=x").is(403)
}

// TestANodeWithoutALeader shows what it last knew, says so, and offers nothing; after 15 minutes it
// opens no page: the link may have been ended meanwhile.
func TestANodeWithoutALeader(t *testing.T) {
	n := start(t)
	at := n.link("ada", n.keyID)
	n.reserve("ada")
	invoice := at + "/invoices/" + invoiceAda
	n.get(at).is(200, "<form", "/change", "/release")
	n.get(invoice).is(200, "<form")
	n.NoLeader.Store(true)
	n.Stale.Store(int64(15 * time.Minute))
	for _, path := range []string{at, invoice} {
		p := n.get(path).is(200, `id="old"`, "15 min old", "Nothing can be changed or paid now")
		for _, offer := range []string{"<form", "/change", "/cancel", "/release", "/pay"} {
			require.NotContains(t, p.body, offer)
		}
	}
	for _, path := range []string{
		invoice + "/pay", invoice + "/pdf", at + "/subscriptions/" + ofAda + "/cancel",
	} {
		n.get(path).is(503, "Load the page again")
	}
	n.Stale.Store(int64(15*time.Minute + time.Second))
	n.get(at).is(503)
	n.get(invoice).is(503)
}
