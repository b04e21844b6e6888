package admin_test

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/client"
)

// sessions answers polls about sessions as Stripe does, for every secret key; a request with
// sk_hole waits until the test says so, one with sk_2 is another account's, which knows none of
// them. What is not in paid is unpaid; what begins with cs_lost is unknown.
type sessions struct {
	mu    sync.Mutex
	paid  map[string]bool
	asked map[string]int
	holes int // requests that wait
	end   chan struct{}
}

func (n *node) serveSessions() *sessions {
	s := &sessions{paid: map[string]bool{}, asked: map[string]int{}, end: make(chan struct{})}
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
	answer := fmt.Sprintf(`{"id":%q,"status":"open","payment_status":"unpaid"}`, id)
	if s.paid[id] {
		answer = fmt.Sprintf(`{"id":%q,"status":"complete","payment_status":"paid"}`, id)
	}
	s.mu.Unlock()
	if hole {
		<-s.end
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

func (s *sessions) pay(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paid[id] = true
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
	p.provider(`{"provider":"stripe","secretKey":"` + key + `","webhookSecret":"whsec_1",` +
		`"baseUrl":"http://` + p.n.stripe.Addr().String() + `"}`)
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
	n.desk.Reconcile(t.Context())
	require.Equal(t, 1, s.count("cs_a_0"), "oldest first")
	require.Zero(t, s.count("cs_a_219"), "a pass is bounded")
	n.desk.Reconcile(t.Context())
	require.Equal(t, "PAID", n.invoiceStatus(b.key))
	require.Equal(t, "DUE", n.invoiceStatus(a.key))
	n.desk.Reconcile(t.Context())
	for i := range others {
		require.NotZero(t, s.count(fmt.Sprintf("cs_a_%d", i)))
		require.NotZero(t, s.count(fmt.Sprintf("cs_b_%d", i)))
	}
	require.Equal(t, 1, s.count("cs_paid"))
	require.Equal(t, 2*others, n.polled())
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
		n.desk.Reconcile(t.Context())
	}()
	require.Eventually(t, func() bool { return n.invoiceStatus(b.key) == "PAID" },
		5*time.Second, time.Millisecond)
	require.LessOrEqual(t, s.waiting(), 1, "one at a time")
	close(s.end)
	<-done
	require.Equal(t, 20, n.polled())
}

// TestChangingTheProviderKeepsOpenPayments: an open checkout is left alone while another provider
// or another account of the same one is configured, and found paid once its own is back.
func TestChangingTheProviderKeepsOpenPayments(t *testing.T) {
	asked := map[string]int{"sandbox, stripe": 2}
	for name, other := range map[string]func(p *debtor){
		"sandbox":         func(p *debtor) { p.provider(`{"provider":"sandbox"}`) },
		"none":            func(p *debtor) { p.provider(`{"provider":"none"}`) },
		"sandbox, stripe": func(p *debtor) { p.provider(`{"provider":"sandbox"}`); p.stripe("sk_2") },
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t)
			s := n.serveSessions()
			a := n.debtor("demo")
			id := a.opens("cs_paid")
			s.pay("cs_paid")
			n.later.Store(int64(6 * time.Minute))
			other(a)
			for range 2 {
				n.desk.Reconcile(t.Context())
			}
			require.Equal(t, asked[name], s.count("cs_paid"))
			if asked[name] == 0 { // nobody who could know it was asked, however old it is
				n.later.Store(int64(24*time.Hour + time.Minute))
				n.desk.Reconcile(t.Context())
			}
			require.Equal(t, "DUE", n.invoiceStatus(a.key))
			require.False(t, n.noted(id).Closed)
			a.stripe("sk_1")
			n.desk.Reconcile(t.Context())
			require.Equal(t, "PAID", n.invoiceStatus(a.key))
			require.True(t, n.noted(id).Closed)
		})
	}
}

// TestWhatIsNotFoundStaysOpenWhileItCanBePaid: another key may be the reason.
func TestWhatIsNotFoundStaysOpenWhileItCanBePaid(t *testing.T) {
	n := start(t)
	n.serveSessions()
	id := n.debtor("demo").opens("cs_lost")
	for _, age := range []time.Duration{6 * time.Minute, 23*time.Hour + 59*time.Minute} {
		n.later.Store(int64(age))
		n.desk.Reconcile(t.Context())
		require.False(t, n.noted(id).Closed, age)
	}
	n.later.Store(int64(24*time.Hour + time.Minute))
	n.desk.Reconcile(t.Context())
	require.True(t, n.noted(id).Closed)
}

func (n *node) noted(id [16]byte) billing.Checkout {
	n.t.Helper()
	env, _ := n.Machine.Environment("demo", billing.EnvironmentSandbox)
	c, ok := n.Machine.Checkout(env, id)
	require.True(n.t, ok)
	return c
}

// TestARepeatedRequestKeepsTheCheckoutThatIsPolled: the page that another provider makes for it
// does not take its place.
func TestARepeatedRequestKeepsTheCheckoutThatIsPolled(t *testing.T) {
	n := start(t)
	s, key, invoice := n.useStripe()
	again := func() string {
		header := map[string][]string{"Idempotency-Key": {"k"}}
		at := client.Prefix + "/billing/invoices/" + invoice + "/payprovider/checkout"
		return n.sendWith(header, "POST", at, "", key, "").is(200, "").data()["url"].(string)
	}
	require.Contains(t, again(), stripeSession)
	demo := &debtor{n: n, name: "demo"}
	demo.provider(`{"provider":"sandbox"}`)
	require.Contains(t, again(), "/payments/demo/sandbox/")
	s.Pay(stripeSession)
	demo.stripe("sk_test_1")
	n.later.Store(int64(6 * time.Minute))
	n.desk.Reconcile(t.Context())
	require.Equal(t, "PAID", n.invoiceStatus(key))
}
