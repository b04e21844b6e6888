package browsertest

import (
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	api "tollgate/sdk/go"
	"tollgate/server/console"
	ownerpages "tollgate/server/console/owner"
	"tollgate/server/console/portal"
)

// every has each page looked at in all windows and schemes, by axe-core, too: that takes minutes.
var every = flag.Bool("every", false, "look at every page in all windows and schemes")

// crawl goes to all pages of a site, and checks each that no walk has shown: that its links and
// forms lead to every page there is, and that axe-core and check.js find nothing.
type crawl struct {
	*browser
	// origin is the site's, rows are its pages as its routes name them.
	origin string
	rows   []row
	// queue are addresses to go to; seen are rows, and pages without one, that were looked at.
	queue []string
	seen  map[string]bool
	// refused are rows whose question cannot be asked here: what they answer is looked at.
	refused map[string]bool
	// wrong is what was found, of all pages: it is told at the end.
	wrong []string
	// docs reports whether it goes on to the documents, which every listener has.
	docs  bool
	began time.Time
}

// row is a page as its route names it.
type row struct {
	path string
	at   *regexp.Regexp
}

var parameter = regexp.MustCompile(`\\\{[^}]+\\\}`) // in a quoted path

// rowsOf are the pages that routes name, those with the fewest parameters first.
func rowsOf(paths []string) (rows []row) {
	slices.SortStableFunc(paths, func(a, b string) int {
		return strings.Count(a, "{") - strings.Count(b, "{")
	})
	for _, path := range paths {
		at := parameter.ReplaceAllString(regexp.QuoteMeta(path), `[^/]+`)
		rows = append(rows, row{path, regexp.MustCompile("^" + at + "$")})
	}
	return rows
}

// name is the row of an address; within the documentation each page is its own, and a single event
// or key is another page than a list of them.
func (c *crawl) name(address string) string {
	u, err := url.Parse(address)
	require.NoError(c.t, err)
	if u.Scheme+"://"+u.Host != c.origin {
		return ""
	}
	if of := "/console/accounts/"; strings.HasPrefix(u.Path, of) &&
		(!strings.HasPrefix(u.Path, of+"harbor") || strings.HasPrefix(u.Path, of+"harbor/live")) {
		return "" // an environment in which nothing was made has fewer links
	}
	if u.Path == "/docs" || strings.HasPrefix(u.Path, "/docs/") {
		return u.Path
	}
	for _, r := range c.rows {
		const asks = "/confirm" // forms that do not ask have no such page
		if !r.at.MatchString(u.EscapedPath()) ||
			strings.HasSuffix(u.Path, asks) && !strings.HasSuffix(r.path, asks) {
			continue
		}
		if strings.HasSuffix(r.path, "/events") && u.Query().Has("at") {
			return r.path + "?at"
		}
		if strings.HasSuffix(r.path, "/keys") && u.Query().Has("key") {
			return r.path + "?key"
		}
		return r.path
	}
	return ""
}

// crawl goes to all pages of a site from where the browser is signed in; from are addresses that it
// goes to first, whatever they are.
func (b *browser) crawl(origin string, paths []string, refused []string, from ...string) {
	b.t.Helper()
	c := &crawl{
		browser: b, origin: origin, rows: rowsOf(paths), seen: map[string]bool{},
		refused: map[string]bool{}, began: time.Now(), docs: slices.Contains(from, origin+"/docs"),
	}
	for _, path := range refused {
		c.refused[path] = true
	}
	for _, address := range from {
		c.visit(address)
	}
	for len(c.queue) > 0 {
		next := c.queue[0]
		if c.queue = c.queue[1:]; !c.seen[c.name(next)] {
			c.visit(next)
		}
	}
	for _, r := range c.rows {
		if !c.seen[r.path] {
			c.wrong = append(c.wrong, "no link and no form leads to "+r.path)
		}
	}
	require.Empty(b.t, c.wrong, strings.Join(c.wrong, "\n"))
	b.faults()
	b.t.Logf("%d pages of %s in %s", len(c.seen), origin, time.Since(c.began).Round(time.Second))
}

// visit looks at a page, and notes where it leads.
func (c *crawl) visit(address string) {
	c.t.Helper()
	name := c.name(address)
	require.NotEmpty(c.t, name, address)
	c.seen[name] = true
	status := c.awaitLoad(c.where(), func() { c.do(chromedp.Navigate(address)) })
	if status != 200 && !c.refused[name] || status >= 500 {
		c.wrong = append(c.wrong, fmt.Sprintf("%s: %d\n%s", address, status, c.text("main")))
	}
	c.check(name)
	for _, next := range ask[[]string](c.tab, "ways()") {
		to := c.name(next)
		if to != "" && !c.seen[to] && (c.docs || !strings.HasPrefix(to, "/docs")) {
			c.queue = append(c.queue, next)
		}
	}
}

// check looks at the page in one window and scheme, which its name chooses, or in all.
func (c *crawl) check(name string) {
	c.t.Helper()
	sum := fnv.New32a()
	sum.Write([]byte(name))
	// Documents are texts in one layout: axe-core looks at one of four, with -every at all.
	axe := *every || !strings.HasPrefix(name, "/docs/") || sum.Sum32()>>8%4 == 0
	i := uint32(0)
	for _, w := range []window{narrow, wide} {
		for _, s := range []scheme{dark, light} {
			if i++; *every || i-1 == sum.Sum32()%4 {
				c.look(w, s)
				found := ask[[]string](c.tab, "look()")
				if axe {
					found = append(found, c.axe()...)
				}
				for _, fault := range found {
					c.wrong = append(c.wrong, fmt.Sprintf("%s, %s, %s: %s", c.where(), w.name, s, fault))
				}
			}
		}
	}
	for _, fault := range c.weight() {
		c.wrong = append(c.wrong, c.where()+": "+fault)
	}
	for _, fault := range c.faults() {
		if !strings.Contains(fault, "the server responded with a status of 4") { // told by its status
			c.wrong = append(c.wrong, name+": "+fault)
		}
	}
}

// furnish makes what pages ask about that the walk has not left: customers whose subscriptions end
// or change, and units that are held. It returns an invoice that is not paid.
func (b *browser) furnish(c *cluster, key string) (invoice string) {
	b.t.Helper()
	send := func(method, path, body string, status int) json.RawMessage {
		b.t.Helper()
		var answer struct{ Data json.RawMessage }
		require.NoError(b.t, json.Unmarshal(c.call(c.Nodes[1].HTTP, key, status, api.Request{
			Method: method, Path: "/api/v1/client/" + path, Body: []byte(body),
		}), &answer))
		return answer.Data
	}
	for id, then := range map[string][3]string{
		"leaving": {"team", "subscriptions/cancellation/%s", ""},
		"settling": {
			"fleet", "subscriptions/%s/plan-change", `{"changeToPlanId":"team","changeType":"DOWNGRADE"}`,
		},
	} {
		send("POST", "customers", fmt.Sprintf(`{"externalClientCustomerId":%q,"firstName":"Bo",
			"lastName":"Vik","email":"bo@vik.example"}`, id), 201)
		var made struct{ Subscription, Invoice struct{ ID string } }
		require.NoError(b.t, json.Unmarshal(send("POST", "subscriptions", fmt.Sprintf(
			`{"customerReferenceId":%q,"planId":%q}`, id, then[0]), 201), &made))
		send("POST", fmt.Sprintf(then[1], made.Subscription.ID), then[2], 200)
		invoice = made.Invoice.ID
	}
	send("POST", "reservations", `{"reservationKey":"call-92","ttlSeconds":3600,
		"customerReferenceId":"north-sea-ferries","featureKey":"calls","usageUnits":1}`, 201)
	var full []string // a page of events that carry something along, and that no feature counts
	now := evaluate[string](b.tab, `document.querySelector("header .place time").dateTime`)
	for i := range 50 {
		full = append(full, fmt.Sprintf(`{"eventIdempotencyKey":"voyage-%d","eventName":"voyage",
			"customerReferenceId":"north-sea-ferries","usageUnits":1,"occurredAt":%q,"meta":{"log":%q}}`,
			i, now, strings.Repeat(`a "calm" sea & wind; `, 50)))
	}
	send("POST", "events/batch", "["+strings.Join(full, ",")+"]", 200)
	return invoice
}

// everyPage goes to all pages of an operator, and to all documents.
func (b *browser) everyPage(c *cluster, key string) {
	b.t.Helper()
	invoice := b.furnish(c, key)
	c.signUp("Reef").askFor("every-page", "2")
	origin := c.ops("node1", "")
	sandbox := origin + "/console/accounts/harbor/sandbox"
	b.open(sandbox + "/customers/north-sea-ferries")
	pool := evaluate[string](b.tab, `document.querySelector('a[href*="/pools/"]').href`)
	b.open(origin + "/console/workspaces")
	workspace := evaluate[string](b.tab, `document.querySelector('#workspaces th a').href`)
	const none = "00000000-0000-4000-8000-000000000000"
	b.crawl(origin, console.Paths(), []string{"/console/workspaces/{id}/refund/confirm"},
		workspace+"/refund/confirm?purchase="+none, origin+"/console", origin+"/console/accounts/harbor", sandbox,
		sandbox+"/search?q=o", sandbox+"/customers/north-sea-ferries", sandbox+"/customers/leaving",
		sandbox+"/customers/settling", sandbox+"/invoices/"+invoice, sandbox+"/budgets/ferries",
		sandbox+"/budgets/ferries/unfreeze/confirm", sandbox+"/budgets/ferries/move/confirm?parent=",
		sandbox+"/customers/north-sea-ferries/invoices", pool, pool+"/top-up/stop/confirm",
		pool+"/top-up/end/confirm?purchase="+none, origin+"/docs")
}

// everyPageOfAPortal goes to all pages that a link opens.
func (b *browser) everyPageOfAPortal(origin, link string) {
	b.t.Helper()
	invoice := evaluate[string](b.tab, `document.querySelector('a[href*="/invoices/"]').href`)
	b.crawl(origin, portal.Paths(), nil, link, invoice+"/pay")
	b.open(link)
}

// everyPageOfAnOwner goes to all pages of who owns a workspace.
func (b *browser) everyPageOfAnOwner(origin string) {
	b.t.Helper()
	b.crawl(origin, ownerpages.Paths(), nil, origin+"/console", origin+"/console/search?q=e",
		origin+"/console/purchases/buy?runs=2")
}

// TestRowsAreTold: a page belongs to the row with the fewest parameters that it can be of.
func TestRowsAreTold(t *testing.T) {
	c := crawl{browser: &browser{tab: &tab{t: t}}, origin: "http://a", rows: rowsOf(
		[]string{"/console/flows/{id}", "/console/flows/new", "/console/x/{a}/y-{b}"})}
	for address, name := range map[string]string{
		"http://a/console/flows/new": "/console/flows/new", "http://a/docs/x": "/docs/x",
		"http://a/console/flows/1?q=2": "/console/flows/{id}", "http://b/console/flows/new": "",
		"http://a/console/x/1/y-2": "/console/x/{a}/y-{b}", "http://a/console/x/1/y-2/z": "",
		"http://a/console/flows/a%2Fb": "/console/flows/{id}",
	} {
		require.Equal(t, name, c.name(address), address)
	}
}
