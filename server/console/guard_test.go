package console_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	markup "golang.org/x/net/html"

	"tollgate/engine/workspace"
	"tollgate/server/console"
)

// hostile is a text that becomes code where a context is forgotten.
const hostile = `"><script>alert(1)</script><img src=x onerror='alert(1)'>`

// addresses are the attributes that name another page or file.
var addresses = map[string]bool{"href": true, "src": true, "action": true, "formaction": true}

// safe checks that the policy allows everything in a page, and that it can be used without a mouse:
// one heading, a way past the frame, a label for every field.
func safe(t testing.TB, p shown) {
	t.Helper()
	require.Contains(t, p.header.Get("Content-Security-Policy"), "default-src 'none'")
	require.Equal(t, "no-store", p.header.Get("Cache-Control"))
	require.Equal(t, "DENY", p.header.Get("X-Frame-Options"))
	require.Equal(t, "nosniff", p.header.Get("X-Content-Type-Options"))
	root, err := markup.Parse(strings.NewReader(p.body))
	require.NoError(t, err)
	headings, labels, ids := 0, map[string]bool{}, map[string]bool{}
	for n := range root.Descendants() {
		if n.Type == markup.ElementNode && n.Data == "label" {
			labels[attribute(n, "for")] = true
		}
	}
	for n := range root.Descendants() {
		if n.Type != markup.ElementNode {
			continue
		}
		for _, a := range n.Attr {
			value := strings.ToLower(strings.TrimSpace(a.Val))
			require.False(t, a.Key == "style" || strings.HasPrefix(a.Key, "on"), "%s %s", n.Data, a.Key)
			require.False(t, addresses[a.Key] && (strings.HasPrefix(value, "javascript:") ||
				strings.HasPrefix(value, "data:")), "%s %s=%s", n.Data, a.Key, a.Val)
		}
		if id := attribute(n, "id"); id != "" {
			require.False(t, ids[id], "the id %s appears twice", id)
			ids[id] = true
		}
		switch n.Data {
		case "th":
			require.NotNil(t, n.FirstChild, "a column or row has no name: %s", p.body)
		case "script":
			require.True(t, strings.HasPrefix(attribute(n, "src"), "/console/asset/"))
		case "style", "iframe", "img", "object", "b":
			require.Fail(t, "the page has a "+n.Data)
		case "h1":
			headings++
		case "input", "select", "textarea":
			kind := attribute(n, "type")
			wrapped := n.Parent != nil && n.Parent.Data == "label"
			require.True(t, kind == "hidden" || wrapped || labels[attribute(n, "id")],
				"the field %s has no label", attribute(n, "name"))
		}
	}
	require.Equal(t, 1, headings)
	require.True(t, ids["main"])
	require.NotContains(t, p.body, "no value")
}

func attribute(n *markup.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func (b *browser) firstLink(on, pattern string) string {
	b.t.Helper()
	found := regexp.MustCompile(`href="(` + pattern + `)"`).FindStringSubmatch(b.get(on).body)
	require.NotNil(b.t, found, "%s has no link %s", on, pattern)
	return found[1]
}

// hostileSandbox makes everything that has a name with a hostile one, and returns the address of
// each page of a row.
func (b *browser) hostileSandbox() map[string]string {
	b.t.Helper()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	document := "features:\n  - {key: calls, name: '" + strings.ReplaceAll(hostile, "'", "''") +
		"', description: x}\nplans:\n  - key: team\n    name: '" +
		strings.ReplaceAll(hostile, "'", "''") + "'\n    priceAmount: 20\n    currency: USD\n" +
		"    intervalMonths: 1\n    features: [{key: calls, pricingType: usage_based, " +
		"pricing: {pricePerUnit: 0.5, maxUsage: 10}}]\n"
	b.submit(at+"/catalog", at+"/catalog", fields("document", document, "action", "apply"))
	b.submit(at+"/customers", at+"/customers", fields("id", hostile, "first", hostile,
		"last", "javascript:alert(1)", "email", "x@x.example"))
	customer := at + "/customers/" + url.PathEscape(hostile)
	b.submit(at+"/webhooks", at+"/webhooks", fields("url", "https://shop.example/"+
		url.QueryEscape(hostile), "description", hostile))
	b.submit(customer, customer+"/subscriptions", fields("plan", "team"))
	b.submit(customer, customer+"/usage", fields("feature", "calls", "units", "3"))
	b.submit(customer, customer+"/pools", fields("name", hostile))
	b.submit(at+"/keys", at+"/keys", fields("scope", "full", "label", hostile))
	(&recorder{browser: b}).ask(b.programs, "putBudget", `{"name":`+strconv.Quote(hostile)+
		`,"customerReferenceId":`+strconv.Quote(hostile)+`,"limits":[{"of":"units",`+
		`"featureKey":"calls","limit":4,"window":"day"}]}`, hostile)
	held := b.reserve(hostile, `"><b>`)
	pool := b.firstLink(customer, at+`/pools/[0-9a-f-]+`)
	b.submit(pool, pool+"/grantCredits", fields("amount", "5", "note", hostile))
	invoice := b.firstLink(customer+"/invoices", at+`/invoices/[0-9a-f-]+`)
	endpoint := b.firstLink(at+"/webhooks", at+`/webhooks/[0-9a-f-]+`)
	message := b.firstLink(endpoint, endpoint+`/deliveries/\w+`)
	return map[string]string{
		"{message}":  strings.TrimPrefix(message, endpoint+"/deliveries/"),
		"{customer}": url.PathEscape(hostile), "{pool}": strings.TrimPrefix(pool, at+"/pools/"),
		"{invoice}":  strings.TrimPrefix(invoice, at+"/invoices/"),
		"{endpoint}": strings.TrimPrefix(endpoint, at+"/webhooks/"),
		"{account}":  "demo", "{plan}": "team", "{environment}": "sandbox", "{budget}": url.PathEscape(hostile),
		"{id}": "00000000-0000-4000-8000-000000000000", "{reservation}": held,
	}
}

func filled(path string, names map[string]string) string {
	for name, value := range names {
		path = strings.ReplaceAll(path, name, value)
	}
	return path
}

// TestHostileTexts: every page, of things whose every name is code, shows them as texts.
func TestHostileTexts(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	names := b.hostileSandbox()
	for _, r := range n.pages.Rows() {
		if r.Method != "GET" || strings.Contains(r.Path, "/workspaces/") {
			continue
		}
		p := b.get(filled(r.Path, names))
		if p.status == 303 {
			continue
		}
		if strings.HasSuffix(r.Path, "/explain") { // the pending one, which the list begins with
			p.is(400)
		} else {
			p.is(200)
		}
		if !r.Live {
			safe(t, p)
		}
		// A file is a text that no browser shows as a page.
		if strings.HasSuffix(r.Path, ".csv") || strings.HasSuffix(r.Path, ".json") {
			require.Equal(t, "nosniff", p.header.Get("X-Content-Type-Options"))
			require.Contains(t, p.header.Get("Content-Disposition"), "attachment")
			continue
		}
		require.NotContains(t, p.body, "<script>alert", r.Path)
		require.NotContains(t, p.body, "<img", r.Path)
	}
	// An endpoint's address cannot be javascript:, and the form is refused with its values.
	const hooks = "/console/accounts/demo/sandbox/webhooks"
	p := b.send(hooks, b.fill(hooks, fields("url", "javascript:alert(1)", "description", hostile)))
	p.is(400, "url", "javascript:alert(1)")
	safe(t, p)
	safe(t, b.get("/console/nowhere").is(404, "That did not work"))
	safe(t, n.browser().get("/console/sign-in?return="+url.QueryEscape(hostile)).is(200))
}

// TestSignIn: only the key opens a session, a new one each time, and nothing leads elsewhere.
func TestSignIn(t *testing.T) {
	n := start(t)
	b := n.browser()
	require.Equal(t, "/console", b.get("/").is(303).to)
	require.Equal(t, "/console/sign-in", b.get("/console").is(303).to)
	require.Equal(t, "/console/sign-in?return=%2Fconsole%2Fcluster", b.get("/console/cluster").is(303).to)
	safe(t, b.get("/console/sign-in"))
	b.send("/console/sign-in", fields("key", "sk_admin_wrong")).is(401, "This is not the admin key")
	b.do("POST", "/console/sign-in", map[string]string{"Origin": "https://evil.example"},
		fields("key", n.key)).is(403, "another site")
	require.Empty(t, b.cookies())

	for back, to := range map[string]string{
		"/console/cluster": "/console/cluster", "//evil.example": "/console",
		"https://evil.example/console": "/console", "/console//evil": "/console//evil",
		"/consolevil": "/console", "/console/\\evil": "/console", "/api/v1/admin/cluster": "/console",
	} {
		require.Equal(t, to, b.send("/console/sign-in", fields("key", n.key, "return", back)).is(303).to)
		n.later.Add(int64(time.Minute))
	}
	before := b.cookies()
	p := b.send("/console/sign-in", fields("key", " "+n.key+"\n")).is(303)
	require.NotEqual(t, before, b.cookies(), "a session of before is not taken over")
	set := p.header.Get("Set-Cookie")
	for _, word := range []string{"HttpOnly", "SameSite=Strict", "path=/console"} {
		require.Contains(t, set, word)
	}
	require.NotContains(t, set, n.key)

	stolen := b.cookies()
	p = b.send("/console/sign-out", b.fill("/console", url.Values{}))
	require.Equal(t, "/console/sign-in", p.is(303).to)
	require.Empty(t, b.cookies())
	b.do("GET", "/console", map[string]string{"Cookie": stolen}, nil).is(303)
	b.do("GET", "/console/cluster/live", map[string]string{"Cookie": stolen}, nil).is(401)
}

// cookies is what the browser sends.
func (b *browser) cookies() string {
	at, err := url.Parse(b.base + "/console")
	require.NoError(b.t, err)
	var all []string
	for _, c := range b.jar.Cookies(at) {
		all = append(all, c.Name+"="+c.Value)
	}
	return strings.Join(all, "; ")
}

// TestSessionsEnd: after 12 hours without use, and after 7 days with it.
func TestSessionsEnd(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	for range 14 {
		n.later.Add(int64(11*time.Hour + 59*time.Minute))
		b.get("/console").is(200)
	}
	n.later.Add(int64(time.Hour))
	b.get("/console").is(303) // 7 days
	b = n.signedIn()
	n.later.Add(int64(12 * time.Hour))
	b.get("/console").is(303)
}

// TestTriesAreLimited: guessing is delayed, and then signing in works.
func TestTriesAreLimited(t *testing.T) {
	n := start(t)
	b := n.browser()
	for range 10 {
		b.send("/console/sign-in", fields("key", "guess")).is(401)
	}
	b.send("/console/sign-in", fields("key", n.key)).is(429, "Wait a minute")
	n.later.Add(int64(time.Minute))
	b.send("/console/sign-in", fields("key", n.key)).is(303)
}

// TestEveryRowIsGuarded: no page without a session, no form without its token or from elsewhere.
func TestEveryRowIsGuarded(t *testing.T) {
	n := start(t)
	b, stranger := n.signedIn(), n.browser()
	b.furnish()
	index, _ := n.Machine.StateHash()
	names := map[string]string{
		"{account}": "demo", "{environment}": "sandbox", "{customer}": "anna",
		"{pool}": "x", "{invoice}": "x", "{endpoint}": "x", "{id}": "x",
	}
	posts := 0
	for _, r := range n.pages.Rows() {
		path := filled(r.Path, names)
		if r.Method == "GET" {
			p := stranger.get(path)
			if r.Live {
				p.is(401)
			} else {
				require.Contains(t, p.is(303).to, "/console/sign-in", r.Name)
			}
			continue
		}
		posts++
		good := b.fill("/console", url.Values{})
		stranger.send(path, good).is(401, "Nothing was changed")
		b.do("POST", path, map[string]string{"Origin": "https://evil.example"}, good).is(403, "another site")
		b.do("POST", path, map[string]string{"Sec-Fetch-Site": "cross-site"}, good).is(403, "another site")
		b.send(path, fields("_token", "x")).is(403, "another sign-in")
		b.get(path + "?_token=" + good.Get("_token"))
	}
	require.Greater(t, posts, 20)
	after, _ := n.Machine.StateHash()
	require.Equal(t, index, after, "something was changed")
}

// TestSentTwice: a form that is sent twice, by a double click or by going back, counts once.
func TestSentTwice(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	for name, form := range map[string]url.Values{
		at + "/keys":                         fields("scope", "full", "label", "twice"),
		at + "/customers/anna/subscriptions": fields("plan", "team"),
		at + "/customers/anna/usage":         fields("feature", "calls", "units", "4"),
		at + "/customers/anna/pools":         fields("name", "once"),
		"/console/accounts":                  fields("name", "second"),
	} {
		form = b.fill(at+"/customers/anna", form)
		if first := b.send(name, form); strings.HasSuffix(name, "/subscriptions") {
			form = b.confirmed(b.get(first.to), form)
			b.send(name, form).is(303)
		}
		b.send(name, form)
	}
	require.Len(t, n.Machine.Keys(n.environment()), 1)
	require.Len(t, n.Machine.Subscriptions(n.row("anna")), 2)
	require.Len(t, n.Machine.Pools(n.row("anna")), 1)
	require.Len(t, n.Machine.Accounts(), 2)
}

// TestSecretsAreShownByTheirForm: the answer to the form shows the secret, so that nothing has to
// be remembered between two requests, which may reach two nodes. No other page has it, and no
// cache.
func TestSecretsAreShownByTheirForm(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const keys = "/console/accounts/demo/sandbox/keys"
	secret := regexp.MustCompile(`(sk_test|whsec)_[0-9A-Za-z+/=&#;]{30,}`)
	shows := func(p shown) shown {
		t.Helper()
		p.is(200, `id="secret"`)
		require.Regexp(t, secret, p.body)
		require.Equal(t, "no-store", p.header.Get("Cache-Control"))
		safe(t, p)
		return p
	}
	hides := func(p shown) {
		t.Helper()
		require.NotRegexp(t, secret, p.is(200).body)
	}
	form := b.fill(keys, fields("scope", "full", "label", "shop"))
	made := secret.FindString(shows(b.send(keys, form)).body)
	require.Equal(t, made, secret.FindString(b.send(keys, form).body), "a double click: the same key")
	hides(b.get(keys).is(200, "shop"))
	require.Len(t, n.Machine.Keys(n.environment()), 1)
	id := regexp.MustCompile(`/keys/([0-9a-f-]{36})/revoke`).FindStringSubmatch(b.get(keys).body)
	require.NotNil(t, id)
	roll := keys + "/" + id[1] + "/roll"
	question := b.asked(roll, b.fill(keys, fields("overlapHours", "2")))
	hides(question)
	rolled := b.confirmed(question, url.Values{})
	shows(b.send(roll, rolled)).is(200, "The key was replaced", "ends <time")
	shows(b.send(roll, rolled))
	require.Len(t, n.Machine.Keys(n.environment()), 2, "a double click: one")
	hides(b.get(keys))
	b.submit(keys, keys+"/"+id[1]+"/revoke", url.Values{}).is(200, "The key was revoked", "1 revoked")

	const hooks = "/console/accounts/demo/sandbox/webhooks"
	form = b.fill(hooks, fields("url", "https://shop.example/a"))
	made = secret.FindString(shows(b.send(hooks, form)).body)
	require.Equal(t, made, secret.FindString(shows(b.send(hooks, form)).body), "a double click: one")
	require.Len(t, n.Machine.WebhookEndpoints(n.environment()), 1)
	at := b.firstLink(hooks, hooks+"/[0-9a-f-]+")
	hides(b.get(at))
	asked := b.asked(at+"/rotate", b.fill(at, url.Values{})).is(200, "also signs for 24 hours")
	replaced := regexp.MustCompile(`name="replaced" value="([^"]*)"`).FindStringSubmatch(asked.body)
	sure := b.confirmed(asked, b.fill(at, fields("replaced", replaced[1])))
	shows(b.send(at+"/rotate", sure))
	hides(b.send(at+"/rotate", sure).is(200, "was replaced before"))
	hides(b.get(at))
	b.submit(at, at+"/enable", fields("enabled", "false")).is(200, "disabled")
	b.asked(at+"/delete", b.fill(at, url.Values{})).
		is(200, "Remove the endpoint?", "https://shop.example/a", "its pending deliveries")
	require.Len(t, n.Machine.WebhookEndpoints(n.environment()), 1, "a question removes nothing")
	b.submit(at, at+"/delete", url.Values{}).is(200, "The endpoint was removed", "No endpoint yet")
}

// TestEveryKeyCanBeFound: 50 a page, those in use before those that were revoked.
func TestEveryKeyCanBeFound(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const keys = "/console/accounts/demo/sandbox/keys"
	for i := range 55 {
		b.send(keys, b.fill(keys, fields("scope", "full", "label", "key "+strconv.Itoa(i)+"."))).is(200)
	}
	revoke := regexp.MustCompile(`/keys/[0-9a-f-]{36}/revoke`)
	first := b.get(keys).is(200, "key 54.", "key 5.").body
	require.Len(t, revoke.FindAllString(first, -1), 50)
	require.NotContains(t, first, "key 4.")
	b.submit(keys, "/console/accounts/demo/sandbox"+revoke.FindString(first), url.Values{}).
		is(200, "key 4.")
	second := b.get(keys+"?cursor=50").is(200, "key 3.", "key 0.", "1 revoked", "key 54.").body
	require.NotContains(t, second, "key 4.")
	require.NotContains(t, second, "No key yet")
	require.Contains(t, b.get(keys+"?cursor=9999999").is(200, "First page").body, "Create a key")
}

// TestWithoutALeader: every page is shown as this node last knew it, says so, and offers nothing;
// the cluster's pages are as ever.
func TestWithoutALeader(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	names := b.hostileSandbox()
	sandbox := "/console/accounts/demo/sandbox"
	form := b.fill(sandbox+"/customers", fields("id", "late"))
	n.tenants.Do(t, workspace.KindSignUp, &workspace.SignUp{
		ID: [16]byte{1}, KeyID: [16]byte{2}, KeyHash: [32]byte{3}, ClaimHash: [32]byte{4}, Label: "one",
	})
	ws := b.firstLink("/console/workspaces", `/console/workspaces/[^"?]+`)
	n.NoLeader.Store(true)
	n.tenants.NoLeader.Store(true)
	n.Stale.Store(int64(19 * time.Second))
	forms := regexp.MustCompile(`(?s)<form[^>]*method="post".*?</form>`)
	for _, r := range n.pages.Rows() {
		if r.Method != "GET" || r.Local {
			continue
		}
		at := filled(r.Path, names)
		if strings.Contains(r.Path, "/workspaces/") {
			at = ws
		}
		p := b.get(at)
		switch {
		case r.Live: // a file, or what the script asks for: events are listed by each node by itself
			if !strings.HasSuffix(r.Path, "/events/live") {
				p.is(503, "majority")
			}
			continue
		case p.status == 303, strings.HasSuffix(r.Path, "/explain"): // the pending one is refused
			continue
		}
		p.is(200)
		require.Contains(t, p.body, `id="old"`, r.Path)
		require.Contains(t, p.body, "19 s old", r.Path)
		for _, form := range forms.FindAllString(p.body, -1) {
			if !strings.Contains(form, `id="sign-out"`) {
				require.NotContains(t, form, "<button", r.Path)
			}
		}
	}
	b.send(sandbox+"/customers", form).is(503, "majority", "Load the page again")
	safe(t, b.get(sandbox+"/customers"))
	p := b.get("/console/cluster").is(200, "n1 is not ready", "nobody leads", "unreachable",
		"n2 is down", "last seen 2026-01-01T00:00:00Z", "1 of 2 voters answer, and writes need 2.",
		"&lt;b&gt;", `data-live="/console/cluster/live"`)
	safe(t, p)
	b.get("/console/cluster/live").is(200, "nobody leads")
	b.get("/console/node").is(200, "2 segments of the journal are missing")
	safe(t, b.get("/console/node"))
}

// TestFindings are on the cluster's page, with what to do and where that is explained.
func TestFindings(t *testing.T) {
	n := start(t, func(_ *node, c *console.Config) {
		c.Findings = func() []console.Finding {
			return []console.Finding{
				{
					Check: "clock", Node: "n2", Fails: true, Says: "<b>12s</b> away",
					Do: "see whether chrony runs: OPERATIONS.md, Clocks",
				},
				{
					Check: "ready", Says: "nobody leads",
					Do: "look again; then OPERATIONS.md, A node that is not ready",
				},
				{
					Check: "keys", Says: "no room",
					Do: "see who is behind: OPERATIONS.md, TollgateKeyFilesFail",
				},
				{Check: "disk", Says: "slow", Do: "use another one"},
			}
		}
	})
	b := n.signedIn()
	p := b.get("/console/cluster").is(200, `id="findings"`, "&lt;b&gt;12s&lt;/b&gt; away",
		`see whether chrony runs <a href="/docs/operate/clocks">Clocks</a>`,
		`look again <a href="/docs/operate/a-node-that-is-not-ready">A node that is not ready</a>`,
		`see who is behind <a href="/docs/operate/alerts#tollgatekeyfilesfail">TollgateKeyFilesFail</a>`,
		`use another one</td>`)
	safe(t, p)
	b.get("/console/cluster/live").is(200, `id="findings"`)
	require.NotContains(t, start(t).signedIn().get("/console/cluster").body, `id="findings"`)
}

// TestClockSaysHowFarItIs: due work may take longer than an answer: the page shows that it
// continues, and when it is done.
func TestClockSaysHowFarItIs(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	n.NoTicks.Store(true)
	const at = "/console/accounts/demo/sandbox/clock"
	b.submit(at, at, fields("to", n.now().AddDate(1, 0, 0).Format(time.RFC3339))).
		is(200, "The clock was advanced", "still in progress", `data-every="1000"`)
	b.get(at+"/live").is(200, "still in progress")
	n.NoTicks.Store(false)
	n.Tick()
	b.get(at+"/live").is(200, "All due renewals have run")
}

// TestBackup: the button leads to a file, which is not cached on the way; a refusal to a page.
func TestBackup(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	p := b.send("/console/backup", b.fill("/console/cluster", url.Values{})).is(200)
	require.Equal(t, "a backup", p.body)
	require.Regexp(t, `attachment; filename="tollgate-.*\.backup"`, p.header.Get("Content-Disposition"))
	require.Equal(t, "no-store", p.header.Get("Cache-Control"))
	n.busy.Store(true)
	p = b.send("/console/backup", b.fill("/console/cluster", url.Values{})).
		is(409, "This node is already making a backup")
	require.Empty(t, p.header.Get("Content-Disposition"), "what went wrong is a page, and no file")
}

// TestPulse: the plots show the time before the page was opened.
func TestPulse(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	require.NotContains(t, b.get("/console/cluster").is(200).body, "polyline")
	for range 130 {
		n.later.Add(int64(5 * time.Second))
		n.pages.Sample()
	}
	b.get("/console/cluster").is(200, "polyline", "last 10 min", `id="slow-numbers"`, ": up to 0</title>",
		`href="/console/load.csv"`)
	require.Len(t, b.sheet("/console/load.csv"), 121, "a row for each sample but the first")
}

// TestLists: a list has no more than a page, and a way to the next and to the first.
func TestLists(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	n.customers(n.environment(), 120)
	first := b.get(at + "/customers")
	require.Equal(t, 50, strings.Count(first.body, `<th scope="row">`))
	require.Contains(t, first.body, "c119")
	b.get(at+"/settings").is(200, "Customers: 121 of 10000000") // what the account holds
	next := strings.ReplaceAll(b.firstLink(at+"/customers", `[^"]*cursor=[^"]*`), "&amp;", "&")
	second := b.get(next).is(200, "c69", `id="first-page"`)
	require.Equal(t, 50, strings.Count(second.body, `<th scope="row">`))
	last := b.get(strings.ReplaceAll(b.firstLink(next, `[^"]*cursor=[^"]*`), "&amp;", "&"))
	last.is(200, "c0<", "Anna Berg")
	require.NotContains(t, last.body, `id="next-page"`)
	b.get(at + "/customers?cursor=x").is(400)
	for i := range 60 {
		b.submit("/console", "/console/accounts", fields("name", fmt.Sprintf("more-%02d", i)))
	}
	require.Equal(t, 50, strings.Count(b.get("/console").body, `<th scope="row">`))
	b.get("/console?cursor=50").is(200, "more-59")
}

// TestQuestionsAndRefusalsSayWhereTheyAre: both have the navigation of their environment, the
// switcher, the search and the mark of live; a refusal leads back into it.
func TestQuestionsAndRefusalsSayWhereTheyAre(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const live, sandbox = "/console/accounts/demo/live", "/console/accounts/demo/sandbox"
	within := func(p shown, at, place, tab string) {
		t.Helper()
		p.is(p.status, `<header class="top `+place+`">`, `id="switch"`, `action="`+at+`/search"`,
			`<a href="`+at+tab+`" aria-current="true">`, `<a href="`+at+`/overview"`)
		safe(t, p)
	}
	within(b.asked(sandbox+"/customers/anna/subscriptions",
		b.fill(sandbox+"/customers/anna", fields("plan", "team"))), sandbox, "sandbox", "/customers")
	within(b.asked(sandbox+"/clock", b.fill(sandbox+"/clock",
		fields("to", n.now().AddDate(0, 1, 0).Format(time.RFC3339)))), sandbox, "sandbox", "/settings")
	const back = `id="back" href="` + live + `/overview"`
	within(b.get(live+"/customers/nope").is(404, "That did not work", back), live, "live", "/customers")
	within(b.get(live+"/webhooks/nope").is(400, back), live, "live", "/keys")
	b.get(live+"/nothing").is(404, `<header class="top live">`, back)
	for _, path := range []string{"/console/accounts/nobody/live", "/console/accounts/demo/x/customers"} {
		p := b.get(path).is(404, `id="back" href="/console"`)
		require.NotContains(t, p.body, `id="switch"`)
	}
}
