package admin_test

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/paymenttest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/client"
)

// sessions answers polls about sessions as Stripe does, for every secret key; a request with
// sk_hole waits until the test says so, one with sk_2 is another account's, which knows none of
// them, and sk_gone was revoked. What is in no state is open; what begins with cs_lost is unknown.
type sessions struct {
	mu     sync.Mutex
	states map[string]string // the answer's fields besides the id
	asked  map[string]int
	holes  int // requests that wait
	end    chan struct{}
}

// What becomes of a session.
const (
	sessionPaid       = `"status":"complete","payment_status":"paid"`
	sessionProcessing = `"status":"complete","payment_status":"unpaid",` +
		`"payment_intent":{"status":"processing"}`
	sessionFailed = `"status":"complete","payment_status":"unpaid",` +
		`"payment_intent":{"status":"requires_payment_method"}`
)

func (n *node) serveSessions() *sessions {
	s := &sessions{states: map[string]string{}, asked: map[string]int{}, end: make(chan struct{})}
	served := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- served.Serve(n.stripe) }()
	n.t.Cleanup(func() {
		require.NoError(n.t, served.Close())
		require.ErrorIs(n.t, <-done, http.ErrServerClosed)
	})
	return s
}

func (s *sessions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := path.Base(r.URL.Path)
	s.mu.Lock()
	s.asked[id]++
	hole := r.Header.Get("Authorization") == "Bearer sk_hole"
	if hole {
		s.holes++
	}
	state := s.states[id]
	if state == "" {
		state = `"status":"open","payment_status":"unpaid"`
	}
	answer := fmt.Sprintf(`{"id":%q,%s}`, id, state)
	s.mu.Unlock()
	if hole {
		<-s.end
		return
	}
	if r.Header.Get("Authorization") == "Bearer sk_gone" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if strings.HasPrefix(id, "cs_lost") || r.Header.Get("Authorization") == "Bearer sk_2" {
		w.WriteHeader(http.StatusNotFound)
		answer = `{"error":{"code":"resource_missing"}}`
	}
	if _, err := w.Write([]byte(answer)); err != nil {
		return // the client went away
	}
}

func (s *sessions) pay(id string) { s.set(id, sessionPaid) }

func (s *sessions) set(id, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states[id] = state
}

// total is how many questions there were.
func (s *sessions) total() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, asked := range s.asked {
		n += asked
	}
	return n
}

func (s *sessions) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holes
}

func (s *sessions) count(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[id]
}

// debtor is an account with a due invoice.
type debtor struct {
	n                  *node
	name, key, invoice string
}

// debtor makes an account that collects through Stripe.
func (n *node) debtor(name string) *debtor {
	n.t.Helper()
	p := &debtor{n: n, name: name}
	environment := "accounts/" + name + "/environments/sandbox/"
	n.call("POST", "accounts", `{"name":"`+name+`"}`).is(201, "")
	p.key = n.call("POST", environment+"keys", `{"scope":"full"}`).is(201, "").data()["key"].(string)
	n.send("PUT", environment+"catalog", catalogYAML, n.key, "application/yaml").is(200, "")
	n.send("POST", client.Prefix+"/customers", `{"externalClientCustomerId":"ada","firstName":"Ada",`+
		`"lastName":"Lovelace","email":"ada@example.com"}`, p.key, "application/json").is(201, "")
	p.stripe("sk_1")
	p.invoice = n.subscribe(p.key)["id"].(string)
	return p
}

func (p *debtor) provider(settings string) {
	p.n.t.Helper()
	p.n.call("PUT", "accounts/"+p.name+"/environments/sandbox/payment-provider", settings).is(200, "")
}

func (p *debtor) stripe(key string) {
	p.n.t.Helper()
	p.stripeWith(key, "whsec_1", "")
}

func (p *debtor) stripeWith(key, secret, more string) {
	p.n.t.Helper()
	p.provider(`{"provider":"stripe","secretKey":"` + key + `","webhookSecret":"` + secret + `",` +
		`"baseUrl":"http://` + p.n.stripe.Addr().String() + `"` + more + `}`)
}

// opens notes a checkout that Stripe has named, and returns its id.
func (p *debtor) opens(session string) [16]byte {
	p.n.t.Helper()
	env, _ := p.n.Machine.Environment(p.name, billing.EnvironmentSandbox)
	require.NotZero(p.n.t, env)
	invoice, ok := server.ParseUUID(p.invoice)
	require.True(p.n.t, ok)
	var id [16]byte
	require.Less(p.n.t, copy(id[:], session), len(id))
	p.n.done(billing.KindOpenCheckout, &billing.OpenCheckout{Env: env, ID: id, InvoiceID: invoice})
	p.n.done(billing.KindNoteCheckout, &billing.NoteCheckout{ID: id, ProviderID: session})
	return id
}

func (n *node) done(kind engine.Kind, c wire.Fielder) {
	n.t.Helper()
	records := []engine.Record{{Kind: kind, Payload: wire.Encode(nil, c)}}
	results := make([]engine.Result, 1)
	n.Propose(time.Now().Add(time.Second), records, results)
	require.Equal(n.t, engine.OutcomeDone, results[0].Outcome)
}

// polled is how many checkouts are open at Stripe.
func (n *node) polled() (open int) {
	for range n.Machine.OpenCheckouts(billing.ProviderStripe, 0, 1<<60) {
		open++
	}
	return open
}

// TestAPassGoesOnWhereTheLastOneEnded: checkouts that nobody pays, of this account and of another,
// older and newer, more than a pass asks for, do not hide one that is paid; and a round leaves out
// none.
func TestAPassGoesOnWhereTheLastOneEnded(t *testing.T) {
	const others = 220
	n := start(t)
	s := n.serveSessions()
	a, b := n.debtor("demo"), n.debtor("acme")
	for i := range others {
		a.opens(fmt.Sprintf("cs_a_%d", i))
	}
	b.opens("cs_paid")
	for i := range others {
		b.opens(fmt.Sprintf("cs_b_%d", i))
	}
	s.pay("cs_paid")
	n.later.Store(int64(6 * time.Minute))
	n.till.Reconcile(t.Context())
	require.Equal(t, 1, s.count("cs_a_0"), "oldest first")
	require.Equal(t, 200, s.total(), "a pass is bounded")
	n.till.Reconcile(t.Context())
	require.Equal(t, 400, s.total())
	require.Equal(t, "PAID", n.invoiceStatus(b.key))
	require.Equal(t, "DUE", n.invoiceStatus(a.key))
	n.till.Reconcile(t.Context())
	for i := range others {
		require.NotZero(t, s.count(fmt.Sprintf("cs_a_%d", i)))
		require.NotZero(t, s.count(fmt.Sprintf("cs_b_%d", i)))
	}
	require.Equal(t, 1, s.count("cs_paid"))
	require.Equal(t, 2*others+1, s.total(), "none twice before its time")
	require.Equal(t, 2*others, n.polled())
	// A minute later all of them again, in the same order and as bounded.
	for range 2 {
		n.later.Add(int64(time.Minute))
		n.till.Reconcile(t.Context())
	}
	require.Equal(t, 2*others+1+400, s.total())
	require.Equal(t, 2, s.count("cs_a_0"))
	require.Equal(t, 2, s.count("cs_b_150"))
}

// TestAProviderThatNeverAnswersHoldsUpNobodyElse: while one account's provider keeps silent, the
// others' are asked.
func TestAProviderThatNeverAnswersHoldsUpNobodyElse(t *testing.T) {
	n := start(t)
	s := n.serveSessions()
	a, b := n.debtor("demo"), n.debtor("acme")
	a.stripe("sk_hole")
	for i := range 20 {
		a.opens(fmt.Sprintf("cs_a_%d", i))
	}
	b.opens("cs_paid")
	s.pay("cs_paid")
	n.later.Store(int64(6 * time.Minute))
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.till.Reconcile(t.Context())
	}()
	require.Eventually(t, func() bool { return n.invoiceStatus(b.key) == "PAID" },
		5*time.Second, time.Millisecond)
	require.LessOrEqual(t, s.waiting(), 1, "one at a time")
	close(s.end)
	<-done
	require.Equal(t, 20, n.polled())
}

// TestAProviderThatKeepsSilentIsLeftForAnotherPass: one question that takes two seconds for nothing
// is enough for a pass; quick failures are not.
func TestAProviderThatKeepsSilentIsLeftForAnotherPass(t *testing.T) {
	for silence, asked := range map[time.Duration]int{0: 5, 2 * time.Second: 1} {
		n := start(t)
		s := n.serveSessions()
		a := n.debtor("demo")
		a.stripe("sk_hole")
		for i := range 5 {
			a.opens(fmt.Sprintf("cs_%d", i))
		}
		n.later.Store(int64(6 * time.Minute))
		done := make(chan struct{})
		go func() {
			defer close(done)
			n.till.Reconcile(t.Context())
		}()
		require.Eventually(t, func() bool { return s.waiting() == 1 }, 5*time.Second, time.Millisecond)
		n.later.Add(int64(silence))
		close(s.end)
		<-done
		require.Equal(t, asked, s.total(), silence)
	}
}

// TestADebitIsPolledUntilItIsOver: a bank takes up to 14 business days. A debit is asked forever
// more seldom, found when it succeeds or fails, and given up after four weeks.
func TestADebitIsPolledUntilItIsOver(t *testing.T) {
	const day = 24 * time.Hour
	n := start(t)
	s := n.serveSessions()
	a, b := n.debtor("demo"), n.debtor("acme")
	for _, id := range []string{"cs_paid", "cs_slow"} {
		a.opens(id)
		s.set(id, sessionProcessing)
	}
	failed := b.opens("cs_failed")
	s.set("cs_failed", sessionProcessing)
	asked := map[string]int{}
	until := func(age time.Duration) {
		for ; n.later.Load() < int64(age); n.later.Add(int64(time.Minute)) {
			n.till.Reconcile(t.Context())
		}
		for id := range s.states {
			asked[id] = s.count(id)
		}
	}
	until(time.Hour)
	require.InDelta(t, 24, asked["cs_paid"], 3)
	until(3 * day)
	require.InDelta(t, 80, asked["cs_paid"], 5)
	until(20 * day)
	require.InDelta(t, 80+17*4, asked["cs_paid"], 6)
	require.Equal(t, "DUE", n.invoiceStatus(a.key))
	s.pay("cs_paid")
	s.set("cs_failed", sessionFailed)
	until(20*day + 7*time.Hour)
	require.Equal(t, "PAID", n.invoiceStatus(a.key))
	require.Equal(t, "DUE", n.invoiceStatus(b.key))
	env, _ := n.Machine.Environment("acme", billing.EnvironmentSandbox)
	c, ok := n.Machine.Checkout(env, failed)
	require.True(t, ok && c.Closed)
	invoice, _ := server.ParseUUID(b.invoice)
	reports := n.Machine.Payments(env, invoice)
	require.Len(t, reports, 1, "people see that the debit failed")
	require.Equal(t, "poll.failed", reports[0].Other)
	until(28*day + time.Minute)
	last := asked["cs_slow"]
	require.Greater(t, last, asked["cs_paid"])
	until(30 * day)
	require.Equal(t, last, asked["cs_slow"], "given up")
}

// others are what may take the place of an account at Stripe.
var others = map[string]func(p *debtor){
	"sandbox":         func(p *debtor) { p.provider(`{"provider":"sandbox"}`) },
	"none":            func(p *debtor) { p.provider(`{"provider":"none"}`) },
	"another account": func(p *debtor) { p.stripe("sk_2") },
	"sandbox, stripe": func(p *debtor) { p.provider(`{"provider":"sandbox"}`); p.stripe("sk_2") },
}

// TestAReplacedProviderIsStillAsked: an open checkout is asked for with the settings that it was
// made with, whatever took their place.
func TestAReplacedProviderIsStillAsked(t *testing.T) {
	for name, other := range others {
		t.Run(name, func(t *testing.T) {
			n := start(t)
			s := n.serveSessions()
			a := n.debtor("demo")
			id := a.opens("cs_paid")
			n.later.Store(int64(6 * time.Minute))
			other(a)
			n.till.Reconcile(t.Context())
			require.Equal(t, 1, s.count("cs_paid"))
			require.Equal(t, "DUE", n.invoiceStatus(a.key))
			s.pay("cs_paid")
			n.later.Store(int64(25 * time.Hour))
			n.till.Reconcile(t.Context())
			require.Equal(t, "PAID", n.invoiceStatus(a.key))
			require.True(t, n.noted(id).Closed)
		})
	}
}

// TestAReplacedProviderIsStillHeard: its webhooks are verified with the secret before, for as long
// as its checkouts may wait for money, and no longer; and not at all once it is to be forgotten.
func TestAReplacedProviderIsStillHeard(t *testing.T) {
	for name, other := range others {
		t.Run(name, func(t *testing.T) {
			n := start(t)
			n.serveSessions()
			a := n.debtor("demo")
			other(a)
			if strings.Contains(name, "account") || strings.Contains(name, "stripe") {
				a.stripeWith("sk_2", "whsec_2", "")
			}
			a.event("evt_1", "checkout.session.expired", "whsec_1").is(200, "")
			a.event("evt_2", "checkout.session.expired", "whsec_x").refused(401, "invalid_signature")
			n.later.Store(int64(28*24*time.Hour - time.Minute))
			a.event("evt_3", "checkout.session.completed", "whsec_1").is(200, "")
			require.Equal(t, "PAID", n.invoiceStatus(a.key))
			n.later.Add(int64(2 * time.Minute))
			late := a.event("evt_4", "checkout.session.expired", "whsec_1")
			if name == "none" {
				late.refused(404, "no_payment_provider")
			} else {
				late.refused(401, "invalid_signature")
			}
			require.Empty(t, n.settings()["previous"])
		})
	}
}

// TestAReplacedWebhookSecretCountsForADay: where the account and its key stay the same, also after
// none in between; the answer and the listing say until when.
func TestAReplacedWebhookSecretCountsForADay(t *testing.T) {
	for _, between := range []string{"", `{"provider":"none"}`} {
		n := start(t)
		s := n.serveSessions()
		a := n.debtor("demo")
		id := a.opens("cs_paid")
		if between != "" {
			a.provider(between)
		}
		set := n.call("PUT", sandbox+"payment-provider", `{"provider":"stripe","secretKey":"sk_1",`+
			`"webhookSecret":"whsec_2","baseUrl":"http://`+n.stripe.Addr().String()+`"}`).is(200, "").data()
		require.Equal(t, n.settings()["previous"], set["previous"])
		previous := set["previous"].([]any)
		require.Len(t, previous, 1)
		until, err := time.Parse(time.RFC3339, previous[0].(map[string]any)["trustedUntil"].(string))
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().Add(24*time.Hour), until, time.Minute)
		a.event("evt_1", "checkout.session.expired", "whsec_2").is(200, "")
		n.later.Store(int64(24*time.Hour - time.Minute))
		a.event("evt_2", "checkout.session.expired", "whsec_1").is(200, "")
		n.later.Store(int64(24*time.Hour + time.Minute))
		a.event("evt_3", "checkout.session.completed", "whsec_1").refused(401, "invalid_signature")
		require.Empty(t, n.settings()["previous"])
		s.pay("cs_paid")
		n.till.Reconcile(t.Context())
		require.Equal(t, "PAID", n.invoiceStatus(a.key), "polled with the settings in force")
		require.True(t, n.noted(id).Closed)
	}
}

// settings are the demo's payment settings, as the admin API shows them.
func (n *node) settings() map[string]any {
	n.t.Helper()
	return n.call("GET", sandbox+"payment-provider", "").is(200, "").data()
}

// event delivers an event about a session of the debtor's invoice.
func (p *debtor) event(id, kind, secret string) answer {
	p.n.t.Helper()
	state := map[string]any{
		"id": "cs_hook", "status": "complete", "payment_status": "paid", "amount_total": 2000,
		"currency": "usd", "metadata": map[string]any{"tollgate_invoice": p.invoice},
	}
	now := p.n.now()
	return p.n.deliver(paymenttest.Event(p.n.t, id, kind, state, now), secret, now)
}

// TestPreviousSettingsAreForgottenOnDemand: a secret that became known verifies nothing from then
// on, and those of the same provider that are in force are asked instead.
func TestPreviousSettingsAreForgottenOnDemand(t *testing.T) {
	const forget = `,"forgetPrevious":true`
	n := start(t)
	s := n.serveSessions()
	a := n.debtor("demo")
	a.opens("cs_open")
	a.stripeWith("sk_3", "whsec_3", "")
	a.event("evt_1", "checkout.session.expired", "whsec_1").is(200, "")
	require.Len(t, n.settings()["previous"], 1)
	a.stripeWith("sk_3", "whsec_3", forget)
	a.event("evt_2", "checkout.session.expired", "whsec_1").refused(401, "invalid_signature")
	require.Empty(t, n.settings()["previous"])
	a.stripeWith("sk_4", "whsec_4", forget)
	for _, secret := range []string{"whsec_1", "whsec_3"} {
		a.event("evt_3", "checkout.session.expired", secret).refused(401, "invalid_signature")
	}
	n.later.Store(int64(6 * time.Minute))
	n.till.Reconcile(t.Context())
	require.Equal(t, 1, s.count("cs_open"), "asked with sk_4")
	a.provider(`{"provider":"none"` + forget + `}`)
	a.event("evt_4", "checkout.session.expired", "whsec_4").refused(404, "no_payment_provider")
	n.later.Store(int64(time.Hour))
	n.till.Reconcile(t.Context())
	require.Equal(t, 1, s.count("cs_open"), "nobody to ask")
	s.pay("cs_open")
	a.stripeWith("sk_5", "whsec_5", "")
	n.till.Reconcile(t.Context())
	require.Equal(t, "PAID", n.invoiceStatus(a.key), "asked as soon as there is somebody")
}

// TestSettingTheSameSecretsIsNoChange: a script that sets them every day pushes none out.
func TestSettingTheSameSecretsIsNoChange(t *testing.T) {
	n := start(t)
	a := n.debtor("demo")
	for range 10 {
		a.stripe("sk_1")
	}
	require.Empty(t, n.settings()["previous"])
	for i := range 10 {
		a.stripe(fmt.Sprint("sk_", i))
	}
	require.Len(t, n.settings()["previous"], 8, "the newest")
}

// TestARevokedKeyIsReplacedByTheNewOne: a checkout whose own key is not accepted any more, or whose
// own account forgot it, is asked for with the key in force.
func TestARevokedKeyIsReplacedByTheNewOne(t *testing.T) {
	n := start(t)
	s := n.serveSessions()
	a := n.debtor("demo")
	a.stripe("sk_gone")
	a.opens("cs_paid")
	s.pay("cs_paid")
	n.later.Store(int64(6 * time.Minute))
	n.till.Reconcile(t.Context())
	require.Equal(t, "DUE", n.invoiceStatus(a.key))
	n.till.Reconcile(t.Context())
	require.Equal(t, 1, s.count("cs_paid"), "another minute makes a wrong key no better")
	a.stripe("sk_new")
	n.till.Reconcile(t.Context())
	require.Equal(t, "PAID", n.invoiceStatus(a.key))
}

// TestWhatIsNotFoundStaysOpenWhileItCanBePaid: another key may be the reason.
func TestWhatIsNotFoundStaysOpenWhileItCanBePaid(t *testing.T) {
	n := start(t)
	n.serveSessions()
	id := n.debtor("demo").opens("cs_lost")
	for _, age := range []time.Duration{6 * time.Minute, 23*time.Hour + 59*time.Minute} {
		n.later.Store(int64(age))
		n.till.Reconcile(t.Context())
		require.False(t, n.noted(id).Closed, age)
	}
	n.later.Store(int64(26 * time.Hour))
	n.till.Reconcile(t.Context())
	require.True(t, n.noted(id).Closed)
}

// TestAnotherAccountClosesNothing: that it does not know a checkout is to be expected.
func TestAnotherAccountClosesNothing(t *testing.T) {
	n := start(t)
	s := n.serveSessions()
	a := n.debtor("demo")
	id := a.opens("cs_paid")
	a.stripeWith("sk_2", "whsec_2", `,"forgetPrevious":true`)
	n.later.Store(int64(26 * time.Hour))
	n.till.Reconcile(t.Context())
	require.Equal(t, 1, s.count("cs_paid"))
	require.False(t, n.noted(id).Closed)
	s.pay("cs_paid")
	a.stripe("sk_1")
	n.till.Reconcile(t.Context())
	require.Equal(t, "PAID", n.invoiceStatus(a.key))
}

func (n *node) noted(id [16]byte) billing.Checkout {
	n.t.Helper()
	env, _ := n.Machine.Environment("demo", billing.EnvironmentSandbox)
	c, ok := n.Machine.Checkout(env, id)
	require.True(n.t, ok)
	return c
}

// TestARepeatedRequestAnswersTheSamePage: whatever provider was set since.
func TestARepeatedRequestAnswersTheSamePage(t *testing.T) {
	n := start(t)
	s, key, invoice := n.useStripe()
	again := func(once string) string {
		header := map[string][]string{"Idempotency-Key": {once}}
		at := client.Prefix + "/billing/invoices/" + invoice + "/payprovider/checkout"
		return n.sendWith(header, "POST", at, "", key, "").is(200, "").data()["url"].(string)
	}
	require.Contains(t, again("k"), stripeSession)
	demo := &debtor{n: n, name: "demo"}
	demo.provider(`{"provider":"sandbox"}`)
	require.Contains(t, again("k"), stripeSession)
	page := again("new")
	require.Contains(t, page, "/payments/demo/sandbox/")
	demo.stripe("sk_test_1")
	require.Equal(t, page, again("new"))
	b := newBrowser(t)
	b.open(page)
	b.press(url.Values{"card": {"decline"}}).is(402)
	demo.provider(`{"provider":"none","forgetPrevious":true}`)
	at := client.Prefix + "/billing/invoices/" + invoice + "/payprovider/checkout"
	require.Contains(t, again("k"), stripeSession, "the first answer, whatever became of the page")
	n.sendWith(map[string][]string{"Idempotency-Key": {"other"}}, "POST", at, "", key, "").
		is(400, "no_payment_provider")
	b.press(url.Values{"card": {"success"}}).is(404)
	demo.stripe("sk_test_1")
	s.Pay(stripeSession)
	n.later.Store(int64(6 * time.Minute))
	n.till.Reconcile(t.Context())
	require.Equal(t, "PAID", n.invoiceStatus(key))
}

// TestAPageThatIsGivenOutIsPolled: an overload while it is noted is tried over; where that does not
// help, nobody gets the page, and the request repeated is given the same one.
func TestAPageThatIsGivenOutIsPolled(t *testing.T) {
	for refused, status := range map[int32]int{1: 200, 3: 200, 4: 503} {
		n := start(t)
		s, key, invoice := n.useStripe()
		at := client.Prefix + "/billing/invoices/" + invoice + "/payprovider/checkout"
		header := map[string][]string{"Idempotency-Key": {"k"}}
		n.RefuseKind.Store(uint32(billing.KindSubmit)) // it carries NoteCheckout
		n.RefuseNext.Store(refused)
		a := n.sendWith(header, "POST", at, "", key, "")
		require.Equal(t, status, a.status, a.raw)
		if status != 200 {
			require.NotContains(t, a.raw, stripeSession)
			require.Zero(t, n.polled())
			a = n.sendWith(header, "POST", at, "", key, "").is(200, "")
		}
		require.Contains(t, a.data()["url"], stripeSession)
		require.Equal(t, 1, s.Sessions())
		s.Pay(stripeSession) // and its webhook is lost
		n.later.Store(int64(6 * time.Minute))
		n.till.Reconcile(t.Context())
		require.Equal(t, "PAID", n.invoiceStatus(key))
	}
}

// TestACheckoutWithoutAPageIsMadeAnew: the provider could not be reached, and another one was set:
// the repeated request is its page, which is polled with its settings.
func TestACheckoutWithoutAPageIsMadeAnew(t *testing.T) {
	n := start(t)
	s, key, invoice := n.useStripe()
	at := client.Prefix + "/billing/invoices/" + invoice + "/payprovider/checkout"
	header := map[string][]string{"Idempotency-Key": {"k"}}
	demo := &debtor{n: n, name: "demo"}
	demo.stripe("sk_wrong")
	n.sendWith(header, "POST", at, "", key, "").is(400, "payment_provider_credentials")
	demo.stripe("sk_test_1")
	n.sendWith(header, "POST", at, "", key, "").is(200, "")
	demo.provider(`{"provider":"none"}`)
	s.Pay(stripeSession)
	n.later.Store(int64(6 * time.Minute))
	n.till.Reconcile(t.Context())
	require.Equal(t, "PAID", n.invoiceStatus(key))
}
