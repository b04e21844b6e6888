package payments

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/bench/paymenttest"
	"tollgate/bench/servertest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
	"tollgate/server/provider/fetch"
)

// account is a Stripe account as far as charges need it.
type account struct {
	mu      sync.Mutex
	keys    map[string]bool           // secret keys that are accepted
	byKey   map[string]map[string]any // Idempotency-Key → intent
	intents []map[string]any          // newest first
	asked   int                       // charges, and not lookups
	// hold keeps a charge from being carried out, and its answer, until it is closed.
	hold chan struct{}
	held chan struct{} // gets one for each charge that is held
	// refuses is the status of every answer; 0 answers.
	refuses int
}

func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	hold := a.hold
	a.mu.Unlock()
	if r.Method == http.MethodPost && hold != nil {
		if err := r.ParseForm(); err != nil { // while its sender still waits
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.held <- struct{}{}
		<-hold
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	status, body := a.answer(r)
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(http.ErrAbortHandler) // its sender has given up
	}
}

func (a *account) answer(r *http.Request) (int, map[string]any) {
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !a.keys[key]:
		return http.StatusUnauthorized, map[string]any{"error": map[string]any{"code": "api_key_expired"}}
	case a.refuses != 0:
		return a.refuses, map[string]any{"error": map[string]any{"code": "resource_missing"}}
	case r.Method == http.MethodGet:
		return http.StatusOK, map[string]any{"data": a.intents}
	}
	a.asked++
	once := r.Header.Get("Idempotency-Key")
	made, known := a.byKey[once]
	if !known {
		made = map[string]any{
			"id": fmt.Sprintf("pi_%d", len(a.intents)+1), "status": "succeeded",
			"metadata": map[string]string{topUpTag: r.PostFormValue("metadata[" + topUpTag + "]")},
		}
		a.byKey[once] = made
		a.intents = append([]map[string]any{made}, a.intents...)
	}
	return http.StatusOK, made
}

func (a *account) change(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// till is a service with a purchase on its way, for 20 credits.
type till struct {
	*servertest.Cluster
	t       *testing.T
	d       *Service
	at      Place
	account *account
	url     string
	pool    [16]byte
	later   time.Duration
}

func newTill(t *testing.T) *till {
	a := &account{
		keys: map[string]bool{"sk_1": true}, byKey: map[string]map[string]any{},
		held: make(chan struct{}, 1),
	}
	stripe := httptest.NewServer(a)
	t.Cleanup(stripe.Close)
	n := tillAt(t, stripe.URL)
	n.account = a
	return n
}

// node makes the service of another node.
func (n *till) node() *Service {
	guarded, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		AllowHosts:   []string{strings.TrimPrefix(n.url, "http://")},
	})
	require.NoError(n.t, err)
	n.t.Cleanup(guarded.Close)
	d, err := New(Config{
		Machine: n.Machine, Proposer: n, Reader: n, Fetch: guarded,
		PublicURL: "http://localhost", SealKey: [32]byte{1},
		Now: func() time.Time { return time.Now().Add(n.later) },
	})
	require.NoError(n.t, err)
	return d
}

// tillAt is a till whose provider is at an address.
func tillAt(t *testing.T, url string) *till {
	n := &till{Cluster: servertest.New(), t: t, pool: enginetest.ID("pool"), url: url}
	n.d = n.node()
	n.Do(t, billing.KindCreateAccount, &billing.CreateAccount{ID: enginetest.ID("demo"), Name: "demo"})
	n.Do(t, billing.KindCreateCustomer, &billing.CreateCustomer{
		Env: enginetest.Sandbox, ID: enginetest.ID("ada"), ExternalID: "ada", FirstName: "Ada",
		LastName: "Lovelace", Email: "ada@example.com",
	})
	n.Do(t, billing.KindCreatePool, &billing.CreatePool{
		Env: enginetest.Sandbox, ID: n.pool, Customer: "ada", Name: "studio",
	})
	n.at, _ = n.d.PlaceOf(enginetest.Sandbox)
	n.provider("sk_1", false)
	n.Do(t, billing.KindSetTopUp, &billing.SetTopUp{
		Env: enginetest.Sandbox, ID: n.pool, Below: decimal.FromInt(10), Amount: decimal.FromInt(20),
		Price: decimal.FromInt(30), MonthlyCap: decimal.FromInt(90), CooldownMS: 60_000,
		Method: "cus_1/pm_1",
	})
	require.Len(t, n.Machine.AskedTopUps(), 1)
	return n
}

// provider sets Stripe with a key; none with an empty one.
func (n *till) provider(key string, forget bool) {
	n.t.Helper()
	s := Settings{Provider: billing.ProviderNone, ForgetPrevious: forget}
	if key != "" {
		s.Provider, s.BaseURL = billing.ProviderStripe, n.url
		s.SecretKey, s.WebhookSecret = key, "whsec"
	}
	c, err := n.d.Prepare(n.at, s)
	require.NoError(n.t, err)
	n.Do(n.t, billing.KindSetPaymentProvider, &c)
}

func (n *till) view() billing.TopUpView {
	v, found := n.Machine.TopUp(enginetest.Sandbox, n.pool)
	require.True(n.t, found)
	return v
}

func (n *till) granted() string {
	p, _ := n.Machine.Pool(enginetest.Sandbox, n.pool)
	return p.TotalGranted.String()
}

// pays charges the purchase that is on its way, after some failures.
func (n *till) pays(failures int) error {
	n.t.Helper()
	asked := n.Machine.AskedTopUps()
	require.Len(n.t, asked, 1)
	return n.d.topUp(n.t.Context(), &asked[0], failures)
}

// TestTopUpOfUnknownFate: the provider carries a charge out after nobody waits for its answer any
// more. It is found by asking again, granted once and charged once, whoever reports it again.
func TestTopUpOfUnknownFate(t *testing.T) {
	for failures := 1; failures <= 2; failures++ { // by a lookup; by the same charge
		n := newTill(t)
		n.account.hold = make(chan struct{})
		asked := n.Machine.AskedTopUps()[0]
		ctx, giveUp := context.WithCancel(t.Context())
		given := make(chan error)
		go func() { given <- n.d.topUp(ctx, &asked, 0) }()
		<-n.account.held
		giveUp()
		require.Error(t, <-given)
		require.Error(t, n.pays(1), "the provider knows of no charge yet")
		require.True(t, n.view().Pending)
		require.Equal(t, "0", n.granted())

		hold := n.account.hold
		n.account.change(func() { n.account.hold = nil })
		close(hold)
		require.Eventually(t, func() (charged bool) {
			n.account.change(func() { charged = len(n.account.intents) == 1 })
			return charged
		}, 20*time.Second, time.Millisecond)
		require.NoError(t, n.pays(failures))
		require.Equal(t, "20", n.granted())
		require.Equal(t, billing.TopUpOn, n.view().State)
		for again := range 3 {
			require.NoError(t, n.d.topUp(t.Context(), &asked, again))
		}
		require.Equal(t, "20", n.granted())
		require.Len(t, n.account.intents, 1)
		require.Equal(t, "30", n.view().Spent.String())
	}
}

// TestOldTopUps: when the provider may have forgotten the key a purchase is only looked for, and a
// lookup that is refused proves nothing.
func TestOldTopUps(t *testing.T) {
	n := newTill(t)
	n.later = topUpKeyLife + time.Minute
	for _, status := range []int{http.StatusBadRequest, http.StatusNotFound, http.StatusBadGateway} {
		n.account.change(func() { n.account.refuses = status })
		require.Error(t, n.pays(0), status)
		require.True(t, n.view().Pending)
		require.Equal(t, "30", n.view().Spent.String())
	}
	n.account.change(func() { n.account.refuses = 0 })
	require.NoError(t, n.pays(0))
	v := n.view()
	require.Equal(t, billing.TopUpFailed, v.State, "it is nowhere")
	require.Equal(t, "0", v.Spent.String())
	require.Zero(t, n.account.asked)
}

// TestTopUpsWithARolledKey: where the key that a purchase was asked for with is revoked, or its
// settings are forgotten, those in force of the same provider do.
func TestTopUpsWithARolledKey(t *testing.T) {
	for _, forget := range []bool{false, true} {
		n := newTill(t)
		n.account.change(func() { n.account.keys = map[string]bool{"sk_2": true} })
		require.Error(t, n.pays(0))
		require.True(t, n.view().Pending)
		n.provider("sk_2", forget)
		require.NoError(t, n.pays(0))
		require.Equal(t, "20", n.granted())
	}
}

// TestTopUpsWithoutSettings: a purchase whose settings are gone says so, and stays on its way until
// an operator, who has looked at the provider, ends that very purchase.
func TestTopUpsWithoutSettings(t *testing.T) {
	n := newTill(t)
	require.Equal(t, "awaits_provider", n.view().Reason)
	n.provider("", false)
	require.Equal(t, "awaits_provider", n.view().Reason, "its settings are kept")
	n.provider("sk_2", false)
	end := billing.EndTopUp{
		Env: enginetest.Sandbox, Pool: n.pool, ID: n.view().Purchase, Actor: "ops",
	}
	ended := func() engine.Outcome { return n.d.propose(billing.KindEndTopUp, &end).Outcome }
	require.Equal(t, engine.OutcomeTopUpCharging, ended(), "this node may charge for it now")
	n.provider("", true)
	require.ErrorIs(t, n.pays(0), errNone)
	v := n.view()
	require.Equal(t, "settings_gone", v.Reason)
	require.Equal(t, n.Machine.AskedTopUps()[0].ID, v.Purchase)
	end.ID = [16]byte{1}
	require.Equal(t, engine.OutcomeTopUpOver, ended())
	require.True(t, n.view().Pending)
	end.ID = v.Purchase
	require.Equal(t, engine.OutcomeDone, ended())
	require.Equal(t, engine.OutcomeTopUpOver, ended())
	v = n.view()
	require.Equal(t, billing.TopUpFailed, v.State)
	require.Equal(t, "not_paid", v.Failure)
	require.Equal(t, "0 false ", fmt.Sprint(v.Spent, " ", v.Pending, " ", v.Reason))
	require.Equal(t, "0", n.granted())
}

// TestATopUpIsChargedOnceAfterAFailover: the request that Stripe gets has a key that derives from
// the purchase, so that the next leader, which knows nothing of the answer, charges nothing again.
// The next purchase has a key of its own.
func TestATopUpIsChargedOnceAfterAFailover(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	stripe := paymenttest.ServeStripe(t, ln, "sk_1")
	n := tillAt(t, "http://"+ln.Addr().String())
	key := func(purchase uint32) string {
		id := billing.TopUpID(n.pool, purchase)
		return "topup_" + string(server.AppendUUID(nil, id))
	}
	stripe.Silent(1)
	require.Error(t, n.pays(0), "it is charged, and nobody knows")
	require.Equal(t, []string{key(1)}, stripe.ChargeKeys())
	n.d = n.node()
	require.NoError(t, n.pays(0))
	require.Equal(t, []string{key(1)}, stripe.ChargeKeys())
	require.Equal(t, 1, stripe.Charges())
	require.Equal(t, "20", n.granted())

	n.Stamp.Store(n.Machine.Stamp() + 60_000)
	n.Do(t, billing.KindDeductCredits, &billing.DeductCredits{
		Env: enginetest.Sandbox, ID: enginetest.ID("use"), Pool: n.pool, Amount: decimal.FromInt(15),
	})
	require.NoError(t, n.pays(0))
	require.ElementsMatch(t, []string{key(1), key(2)}, stripe.ChargeKeys())
	require.Equal(t, 2, stripe.Charges())
	require.Equal(t, "40", n.granted())
}
