package browsertest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"tollgate/examples/sampleproduct"
	api "tollgate/sdk/go"
)

const owner = "ada@tidewater.example"

// product is the sample product in good order, until it is closed: then signing up needs a CAPTCHA.
type product struct {
	*httptest.Server
	closed atomic.Bool
}

func startProduct(t *testing.T) *product {
	p := &product{}
	good, closed := sampleproduct.New(sampleproduct.Good), sampleproduct.New(sampleproduct.Captcha)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.closed.Load() {
			closed.ServeHTTP(w, r)
			return
		}
		good.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// agent is a program that has signed up.
type agent struct {
	*cluster
	key, code string
}

func (c *cluster) signUp(label string) *agent {
	c.t.Helper()
	body := c.call(c.Nodes[0].HTTP, "", 201, api.Request{
		Method: "POST", Path: "/v1/signup", Body: []byte(`{"label":"` + label + `"}`),
	})
	var made struct{ Key, ClaimCode string }
	require.NoError(c.t, json.Unmarshal(body, &made))
	return &agent{c, made.Key, made.ClaimCode}
}

// asked is a purchase that waits for the owner.
type asked struct {
	ApprovalURL string `json:"approval_url"`
	Purchase    struct{ ID string }
}

// askFor asks for runs, which needs the owner.
func (a *agent) askFor(key, runs string) (made asked) {
	a.t.Helper()
	body := a.call(a.Nodes[0].HTTP, a.key, 402, api.Request{
		Method: "POST", Path: "/v1/purchases", Body: []byte(`{"runs":` + runs + `}`),
		Header: map[string]string{"Idempotency-Key": key},
	})
	require.NoError(a.t, json.Unmarshal(body, &made))
	require.NotEmpty(a.t, made.ApprovalURL)
	return made
}

// purchases are the status of all that were asked for, newest first.
func (a *agent) purchases() (status []string) {
	a.t.Helper()
	body := a.call(a.Nodes[0].HTTP, a.key, 200, api.Request{Method: "GET", Path: "/v1/purchases"})
	var list struct{ Purchases []struct{ Status string } }
	require.NoError(a.t, json.Unmarshal(body, &list))
	for _, p := range list.Purchases {
		status = append(status, p.Status)
	}
	return status
}

// spent is what the month has cost, in cents.
func (a *agent) spent() int {
	a.t.Helper()
	body := a.call(a.Nodes[0].HTTP, a.key, 200, api.Request{Method: "GET", Path: "/v1/account"})
	var account struct {
		Billing struct{ Usage struct{ SpentCents int } }
	}
	require.NoError(a.t, json.Unmarshal(body, &account))
	return account.Billing.Usage.SpentCents
}

// scan opens a link as a mail scanner does: it follows nothing and keeps no cookie.
func (a *agent) scan(link string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
	require.NoError(a.t, err)
	request.Header.Set("Accept", "text/html")
	answer, err := http.DefaultTransport.RoundTrip(request)
	require.NoError(a.t, err)
	require.Equal(a.t, 200, answer.StatusCode)
	require.NoError(a.t, answer.Body.Close())
}

// TestOwner: an agent has made a workspace. A person signs in, takes it over, saves a flow,
// approves what the agent asks for, pays it once, denies the next, sees the run pass by five calls,
// and is told by mail when the product does not let agents in any more.
func TestOwner(t *testing.T) {
	c := startCluster(t)
	p := startProduct(t)
	public := "http://" + c.Nodes[0].HTTP
	// Whichever node leads makes the links to its page of payments.
	origins := []string{c.Identity, c.ops("node1", "")}
	for _, node := range c.Nodes {
		origins = append(origins, "http://"+node.HTTP)
	}
	b := openBrowser(t, "owner", origins...)
	a := c.signUp("Tidewater")

	b.open(public + "/console")
	b.page("identity-provider")
	b.signInAs(owner)
	b.page("first")
	b.claim(a)
	b.saveFlow(p)
	b.buy(a)
	b.decline(a)
	b.seeItPass()
	b.hearOfFailure(c, p)
	b.tellAnother(c)
	b.setUp(p)
	b.lists(p)
	b.everyPageOfAnOwner(public)
	b.signOut(public)
}

// signInAs tells the identity provider of tollgate dev who one is.
func (b *browser) signInAs(email string) {
	b.t.Helper()
	b.fill("#email", email)
	b.press("form button")
}

func (b *browser) claim(a *agent) {
	b.t.Helper()
	b.open("http://" + a.Nodes[0].HTTP + "/console/you")
	b.page("you-new")
	b.fill("#code", "tg_clm_nonsense")
	b.refused(404).press("#claim")
	b.answer("claim-refused")
	b.fill("#code", a.code)
	b.press("#claim")
	b.open("http://" + a.Nodes[0].HTTP + "/console")
	b.reads("h1", "Tidewater")
	b.page("overview-new")
}

// saveFlow makes a flow with the form, first one that cannot be.
func (b *browser) saveFlow(p *product) {
	b.t.Helper()
	b.follow("Flows")
	b.page("flows-none")
	b.press("#new-flow")
	b.page("flow-draft")
	b.fill("#name", "Get an API key")
	b.fill("#url", p.URL+"/")
	b.fill("#task", "Sign up and obtain an API key.")
	b.fill("#successCriteria", "The key works.")
	b.choose("#credential", "bearer")
	b.choose("#agent", "example")
	b.refused(400).press("#save")
	b.answer("flow-refused")
	b.fill("[name='verification.url']", p.URL+"/me")
	b.fill("[name='verification.status']", "200")
	b.press("#save")
	b.page("flow-new")
	b.press("#confirm")
	b.page("flow")
}

// choose takes an entry of a list by the keyboard's way: Chromium's list is not a part of the page.
func (b *tab) choose(selector, value string) {
	b.t.Helper()
	b.do(chromedp.SetValue(chromedp.CSS(selector), value))
}

// buy approves what the agent asks for, by its link, with a double click, and pays it. Scanners
// that open the link change nothing; going back after paying neither.
func (b *browser) buy(a *agent) {
	b.t.Helper()
	first := a.askFor("walk-purchase-1", "2")
	a.scan(first.ApprovalURL)
	require.Equal(b.t, []string{"requires_approval"}, a.purchases())
	b.press("#sign-out")
	b.open(first.ApprovalURL)
	b.page("approval-signed-out")
	b.press("#sign-in")
	b.signInAs(owner)
	b.page("approval")
	b.goOn(func() {
		b.click("#approve")
		b.clickAgain()
	})
	b.reads("main", "Pay $10.00")
	b.page("purchase-approved")
	require.Equal(b.t, []string{"checkout"}, a.purchases())
	b.press("#pay")
	b.page("payment")
	b.click("input[value=decline]")
	b.refused(402).press("button[type=submit]")
	b.answer("payment-declined")
	require.Zero(b.t, a.spent())
	b.click("input[value=success]")
	b.press("button[type=submit]")
	b.page("payment-done")
	require.Equal(b.t, []string{"succeeded"}, a.purchases())
	require.Equal(b.t, 1000, a.spent())

	// One step back is the answer to the card that was declined.
	b.back(2)
	if b.count("button[type=submit]") == 1 { // Chromium has kept the page
		b.press("button[type=submit]")
	}
	b.reads("h1", "Paid")
	b.refused(404).open(first.ApprovalURL)
	b.answer("approval-used")
	require.Equal(b.t, []string{"succeeded"}, a.purchases())
	require.Equal(b.t, 1000, a.spent(), "paid once")
}

// decline denies what the agent asks for next: nothing is charged, and its link is gone.
func (b *browser) decline(a *agent) {
	b.t.Helper()
	next := a.askFor("walk-purchase-2", "10")
	b.open(next.ApprovalURL)
	b.press("#deny")
	b.reads("h1", "You denied the purchase")
	b.answer("approval-denied")
	require.Equal(b.t, 1000, a.spent())
	b.follow("To the console")
	b.follow("Billing")
	b.page("purchases")
	b.press("main table a")
	b.page("purchase")
	b.follow("Settings")
	b.follow("Keys")
	b.page("keys")
	b.follow("History")
	b.page("history")
}

// seeItPass starts the flow and watches the run until five calls have decided it, without loading
// the page again.
func (b *browser) seeItPass() {
	b.t.Helper()
	b.follow("Flows")
	b.page("flows")
	b.follow("Get an API key")
	b.press("#run")
	b.page("start")
	b.press("#start")
	b.reads("main", "passed")
	b.reads("main", "How it was verified")
	require.Equal(b.t, 5, b.count("#calls tbody tr"), b.text("main"))
	b.page("run")
	b.follow("Runs")
	b.page("runs")
}

// hearOfFailure turns alerts on, tries them, and reads the mail that says that agents are let in no
// more.
func (b *browser) hearOfFailure(c *cluster, p *product) {
	b.t.Helper()
	b.follow("Flows")
	b.follow("Get an API key")
	b.press("#alerts")
	b.page("alerts-new")
	b.click("#on")
	b.fill("#email", owner)
	b.press("#set-alerts")
	b.page("alerts-set")
	b.press("#test-alert")
	b.reads("#deliveries", "delivered")
	b.page("alerts")
	alerts := b.where()

	p.closed.Store(true)
	b.follow("Flows")
	b.follow("Get an API key")
	b.press("#run")
	b.press("#start")
	b.reads("main", "blocked")
	b.page("run-blocked")
	b.open(alerts)
	b.reads("#alerts-say", "")
	b.open(c.ops("node1", "/mails"))
	require.Eventually(b.t, func() bool {
		if b.count(".mail") < 2 {
			b.open(c.ops("node1", "/mails"))
		}
		return b.count(".mail") == 2
	}, patience, 500*time.Millisecond, "no mail arrives:\n%s", diagnosis{b.tab, "main"})
	require.Contains(b.t, b.text(".mail"), "Get an API key")
	b.page("mails")
	b.open("http://" + c.Nodes[0].HTTP + "/console")
	b.page("overview-failing")
	b.follow("Issues")
	b.page("issues")
}

// tellAnother has alerts go to somebody else, who is asked by mail before.
func (b *browser) tellAnother(c *cluster) {
	b.t.Helper()
	b.follow("Flows")
	b.follow("Get an API key")
	b.press("#alerts")
	alerts := b.where()
	b.fill("#email", "grace@example.com")
	b.press("#set-alerts")
	b.reads("#alerts-say", "once it is confirmed")
	b.page("alerts-unconfirmed")
	link := ""
	require.Eventually(b.t, func() bool {
		b.open(c.ops("node1", "/mails"))
		link = confirmLink.FindString(b.text("main"))
		return link != ""
	}, patience, 500*time.Millisecond, "nobody is asked:\n%s", diagnosis{b.tab, "main"})
	b.open(link)
	b.page("address")
	b.press("#confirm-address")
	b.answer("address-confirmed")
	b.refused(404).open(link)
	b.answer("address-used")
	b.open(alerts)
	require.NotContains(b.t, b.text("#alerts-say"), "once it is confirmed")
}

// confirmLink is what a mail asks by whether alerts may be sent there.
var confirmLink = regexp.MustCompile(`http://\S+/console/confirm/\S+`)

// setUp has the flow run by itself, changes it, and stores what runs sign in with.
func (b *browser) setUp(p *product) {
	b.t.Helper()
	b.follow("Flows")
	b.follow("Get an API key")
	b.fill("#hours", "168")
	b.press("#set-schedule")
	b.reads("#schedule", "168 hours")
	b.page("flow-scheduled")
	b.press("#edit")
	b.page("flow-edit")
	b.follow("Settings")
	b.follow("Test access")
	b.page("test-access-none")
	b.fill("#host", strings.TrimPrefix(p.URL, "http://"))
	b.fill("#username", "qa@tidewater.example")
	b.fill("#password", "walked-7-in")
	b.press("#set-access")
	b.reads("#hosts", strings.TrimPrefix(p.URL, "http://"))
	b.page("test-access")
	require.NotContains(b.t, b.text("main"), "walked-7-in")
}

// lists are the pages that are left.
func (b *browser) lists(p *product) {
	b.t.Helper()
	b.fill("#q", "api KEY")
	b.goOn(func() { b.do(chromedp.KeyEvent(kb.Enter)) })
	b.reads("h1", "Get an API key")
	b.fill("#q", "nothing is called so")
	b.goOn(func() { b.do(chromedp.KeyEvent(kb.Enter)) })
	b.page("search-none")
	b.follow("Runs")
	b.follow("Inspections")
	b.page("inspections-none")
	b.fill("#url", p.URL+"/")
	b.press("#inspect button")
	b.reads("h1", "Inspection")
	b.reads("main", "Every fetch, in order")
	b.page("inspection")
	b.follow("Runs")
	b.follow("Inspections")
	b.page("inspections")
}

func (b *browser) signOut(public string) {
	b.t.Helper()
	b.press("#sign-out")
	b.open(public + "/console")
	require.Contains(b.t, b.text("h1"), "Sign in")
}
