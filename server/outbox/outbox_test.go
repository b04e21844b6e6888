package outbox_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/bench/servertest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server/outbox"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/webhook"
)

const (
	patience = 20 * time.Second
	moment   = 5 * time.Millisecond
)

// desk is a machine with an account, and outboxes that send its messages.
type desk struct {
	*servertest.Cluster
	t     *testing.T
	fetch *fetch.Client
}

func newDesk(t *testing.T, timeout time.Duration, hosts ...string) *desk {
	d := &desk{Cluster: servertest.New(), t: t}
	var err error
	d.fetch, err = fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowHosts: hosts,
		Timeout: timeout,
	})
	require.NoError(t, err)
	t.Cleanup(d.fetch.Close)
	d.Do(t, billing.KindCreateAccount, &billing.CreateAccount{
		ID: enginetest.ID("demo"), Name: "demo",
	})
	d.Do(t, billing.KindApplyCatalog,
		enginetest.ApplyCatalog(enginetest.Sandbox, enginetest.TokenPlan()))
	return d
}

// node is one node's outbox.
type node struct {
	*outbox.Outbox
	leads atomic.Bool
}

func (n *node) term() (uint64, bool) { return 1, n.leads.Load() }

// open makes a node's outbox, which runs until the test ends.
func (d *desk) open(leads bool) *node { return d.openAt(leads, time.Now) }

// openAt is open on a node with a clock of its own.
func (d *desk) openAt(leads bool, now func() time.Time) *node {
	d.t.Helper()
	n := &node{}
	n.leads.Store(leads)
	var err error
	n.Outbox, err = outbox.New(outbox.Config{
		Machine: d.Machine, Proposer: d, Fetch: d.fetch, SealKey: [32]byte{1}, Leads: n.term,
		Schedule: webhook.Schedule{moment, moment, moment, moment}, Look: time.Millisecond,
		Now: now,
	})
	require.NoError(d.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		n.Run(ctx)
		close(ended)
	}()
	d.t.Cleanup(func() {
		cancel()
		<-ended
	})
	return n
}

// hook makes an endpoint and returns its secret.
func (d *desk) hook(n *node, name, url string) (secret string) {
	d.t.Helper()
	id := enginetest.ID(name)
	sealed, secret := n.Mint(enginetest.Sandbox, id)
	d.Do(d.t, billing.KindCreateWebhookEndpoint, &billing.CreateWebhookEndpoint{
		Env: enginetest.Sandbox, ID: id, URL: url, Secret: sealed,
	})
	return secret
}

func (d *desk) customers(names ...string) {
	d.t.Helper()
	for _, name := range names {
		d.Do(d.t, billing.KindCreateCustomer, &billing.CreateCustomer{
			Env: enginetest.Sandbox, ID: enginetest.ID("customer " + name), ExternalID: name,
			FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
		})
	}
}

func (d *desk) subscribe(customer string, n int) {
	d.t.Helper()
	d.Do(d.t, billing.KindCreateSubscription, &billing.CreateSubscription{
		Env: enginetest.Sandbox, ID: enginetest.ID(fmt.Sprint("subscription ", customer, n)),
		InvoiceID: enginetest.ID(fmt.Sprint("invoice ", customer, n)), Customer: customer,
		Plan: "llm-team", GraceDays: 7,
	})
}

func (d *desk) endpoint(name string) billing.WebhookEndpointView {
	d.t.Helper()
	v, ok := d.Machine.WebhookEndpoint(enginetest.Sandbox, enginetest.ID(name))
	require.True(d.t, ok)
	return v
}

// drained waits until no message is pending for an endpoint.
func (d *desk) drained(name string) {
	d.t.Helper()
	require.Eventually(d.t, func() bool { return d.endpoint(name).Pending == 0 }, patience, moment)
}

// message is a received message.
type message struct {
	ID, Type, Customer, Raw string
}

// receiver is a real HTTP server that verifies signatures with the standard's own library.
type receiver struct {
	t      *testing.T
	server *httptest.Server
	// answer decides the status of the n-th request, from 1; 0 verifies and answers 204.
	answer func(n int, r *http.Request) int

	mu       sync.Mutex
	verifier *standard.Webhook
	requests int
	taken    []message
	problems []string
}

func receive(t *testing.T, answer func(n int, r *http.Request) int) *receiver {
	r := &receiver{t: t, answer: answer}
	r.server = httptest.NewServer(r)
	t.Cleanup(func() {
		r.server.CloseClientConnections()
		r.server.Close()
	})
	return r
}

func (r *receiver) host() string { return strings.TrimPrefix(r.server.URL, "http://") }

func (r *receiver) trust(secret string) {
	r.t.Helper()
	verifier, err := standard.NewWebhook(secret)
	require.NoError(r.t, err)
	r.mu.Lock()
	r.verifier = verifier
	r.mu.Unlock()
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	r.mu.Lock()
	r.requests++
	n := r.requests
	r.mu.Unlock()
	if r.answer != nil {
		if status := r.answer(n, request); status != 0 {
			if status == http.StatusFound {
				w.Header().Set("Location", "/elsewhere")
			}
			w.WriteHeader(status)
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var m struct {
		Type string
		Data struct{ CustomerReferenceID string }
	}
	if err == nil {
		err = r.verifier.Verify(body, request.Header)
	}
	if err == nil {
		err = json.Unmarshal(body, &m)
	}
	if err != nil || request.URL.Path != "/hook" || request.Method != "POST" {
		r.problems = append(r.problems, fmt.Sprint(request.Method, request.URL, err))
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.taken = append(r.taken, message{
		request.Header.Get("webhook-id"), m.Type, m.Data.CustomerReferenceID, string(body),
	})
	w.WriteHeader(http.StatusNoContent)
}

// all returns the received messages, and checks that all were valid.
func (r *receiver) all() []message {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(r.t, r.problems)
	return append([]message(nil), r.taken...)
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// of returns the types received for one customer, in order, without repetitions.
func of(all []message, customer string) (types []string) {
	seen := map[string]bool{}
	for _, m := range all {
		if m.Customer == customer && !seen[m.ID] {
			types = append(types, m.Type)
		}
		seen[m.ID] = true
	}
	return types
}

var told = []string{"subscription.created", "invoice.created", "invoice.due"}

// TestMessagesArriveSignedAndInOrder: a receiver with the standard's library accepts them.
func TestMessagesArriveSignedAndInOrder(t *testing.T) {
	r := receive(t, func(n int, _ *http.Request) int {
		if n%5 == 2 {
			return http.StatusInternalServerError
		}
		return 0
	})
	d := newDesk(t, 0, r.host())
	n := d.open(true)
	secret := d.hook(n, "hook", r.server.URL+"/hook")
	r.trust(secret)
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprint("customer-", i))
	}
	d.customers(names...)
	for _, name := range names {
		d.subscribe(name, 0)
	}
	d.drained("hook")
	all := r.all()
	for _, name := range names {
		require.Equal(t, told, of(all, name))
	}
	require.Contains(t, all[0].Raw, `{"type":"subscription.created","timestamp":"20`)
	require.Equal(t, "msg_", all[0].ID[:4])
	view := d.endpoint("hook")
	require.Equal(t, uint64(90), view.Delivered)
	require.Zero(t, view.Failed)
	for _, m := range all {
		require.NotContains(t, m.Raw, "Lovelace", "no personal data")
	}
	snapshot, err := d.Machine.Snapshot()
	require.NoError(t, err)
	defer snapshot.Release()
	var bytes bytes.Buffer
	_, err = snapshot.WriteTo(&bytes)
	require.NoError(t, err)
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	require.NoError(t, err)
	require.NotContains(t, bytes.String(), secret[len("whsec_"):])
	require.NotContains(t, bytes.String(), string(key), "secrets are sealed")
}

// TestAttemptsEnd: a message that always fails is given up after the schedule's last attempt, in
// order.
func TestAttemptsEnd(t *testing.T) {
	r := receive(t, func(int, *http.Request) int { return http.StatusFound })
	d := newDesk(t, 0, r.host())
	n := d.open(true)
	d.hook(n, "hook", r.server.URL+"/hook")
	d.customers("ada")
	d.subscribe("ada", 0)
	d.drained("hook")
	require.Equal(t, 15, r.count(), "three messages, five attempts each, no redirect followed")
	page, _, _ := d.Machine.WebhookDeliveries(&billing.DeliveryQuery{
		Env: enginetest.Sandbox, Endpoint: enginetest.ID("hook"), Limit: 10,
	})
	require.Len(t, page, 3)
	for _, v := range page {
		require.Equal(t, "failed", v.Status)
		require.Equal(t, uint32(5), v.Attempts)
		require.Equal(t, uint32(302), v.Log[4].Status)
		require.Equal(t, "redirects are not followed", v.Log[4].Reason)
	}
}

// TestOldMessagesExpire: a message is not sent once it is older than 7 days by the log's time; the
// leader's own clock, which may be a year ahead, makes none old.
func TestOldMessagesExpire(t *testing.T) {
	r := receive(t, func(int, *http.Request) int { return http.StatusNoContent })
	d := newDesk(t, 0, r.host())
	ahead := d.openAt(true, func() time.Time { return time.Now().AddDate(1, 0, 0) })
	d.hook(ahead, "hook", r.server.URL+"/hook")
	d.customers("ada", "bea")
	d.subscribe("ada", 0)
	d.drained("hook")
	require.Equal(t, len(told), r.count())
	require.Zero(t, d.endpoint("hook").Failed)

	ahead.leads.Store(false)
	d.subscribe("bea", 0)
	d.Stamp.Store(time.Now().AddDate(0, 0, 8).UnixMilli())
	d.customers("cid")
	d.open(true)
	d.drained("hook")
	hook := d.endpoint("hook")
	require.EqualValues(t, len(told), hook.Failed, "messages queued then")
	require.EqualValues(t, r.count(), hook.Delivered)
}

// TestGoneDisables: an endpoint that answers 410 receives nothing until it is enabled; then it
// receives the pending messages.
func TestGoneDisables(t *testing.T) {
	var back atomic.Bool
	r := receive(t, func(int, *http.Request) int {
		if back.Load() {
			return 0
		}
		return http.StatusGone
	})
	d := newDesk(t, 0, r.host())
	n := d.open(true)
	r.trust(d.hook(n, "hook", r.server.URL+"/hook"))
	d.customers("ada")
	d.subscribe("ada", 0)
	require.Eventually(t, func() bool { return d.endpoint("hook").Off == billing.WebhookOffGone },
		patience, moment)
	require.Equal(t, 1, r.count())
	require.Equal(t, uint32(3), d.endpoint("hook").Pending)
	back.Store(true)
	d.Do(t, billing.KindUpdateWebhookEndpoint, &billing.UpdateWebhookEndpoint{
		Env: enginetest.Sandbox, ID: enginetest.ID("hook"), Set: billing.WebhookEnabled, Enabled: true,
	})
	d.drained("hook")
	require.Equal(t, told, of(r.all(), "ada"))
}

// TestEndpointsThatHangDelayNoOther: while many endpoints never answer, another gets its messages.
func TestEndpointsThatHangDelayNobody(t *testing.T) {
	release := make(chan struct{})
	hanging := receive(t, func(int, *http.Request) int {
		<-release
		return http.StatusNoContent
	})
	t.Cleanup(func() { close(release) }) // before the server waits for its handlers
	quick := receive(t, nil)
	d := newDesk(t, 0, hanging.host(), quick.host())
	n := d.open(true)
	for i := range billing.MaxWebhookEndpoints - 1 {
		d.hook(n, fmt.Sprint("hanging ", i), hanging.server.URL+"/hook")
	}
	quick.trust(d.hook(n, "quick", quick.server.URL+"/hook"))
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("customer-", i))
	}
	d.customers(names...)
	for _, name := range names {
		d.subscribe(name, 0)
	}
	d.drained("quick")
	require.Len(t, quick.all(), 60)
	require.Equal(t, billing.MaxWebhookEndpoints-1, hanging.count(),
		"an endpoint not known yet gets one at a time")
}

// TestTimeouts: an endpoint that does not answer in time is tried again.
func TestTimeouts(t *testing.T) {
	r := receive(t, func(n int, request *http.Request) int {
		if n == 1 {
			<-request.Context().Done()
			return http.StatusNoContent
		}
		return 0
	})
	d := newDesk(t, 50*time.Millisecond, r.host())
	n := d.open(true)
	r.trust(d.hook(n, "hook", r.server.URL+"/hook"))
	d.customers("ada")
	d.subscribe("ada", 0)
	d.drained("hook")
	require.Equal(t, told, of(r.all(), "ada"))
}

// TestAnotherLeaderGoesOn: the leader goes away while it delivers; the next one begins with
// unrecorded messages, none is lost, and the order stays.
func TestAnotherLeaderGoesOn(t *testing.T) {
	var held, broken atomic.Int32
	release := make(chan struct{})
	r := receive(t, func(n int, request *http.Request) int {
		if n == 3 {
			held.Add(1)
			select {
			case <-release:
			case <-request.Context().Done():
				broken.Add(1)
			}
			return http.StatusServiceUnavailable
		}
		return 0
	})
	t.Cleanup(func() { close(release) })
	d := newDesk(t, 0, r.host())
	first, second := d.open(true), d.open(false)
	r.trust(d.hook(first, "hook", r.server.URL+"/hook"))
	d.customers("ada")
	d.subscribe("ada", 0)
	d.subscribe("ada", 1)
	require.Eventually(t, func() bool { return held.Load() == 1 }, patience, moment)
	first.leads.Store(false)
	second.leads.Store(true)
	d.drained("hook")
	require.Equal(t, append(told[:3:3], told...), of(r.all(), "ada"))
	require.Eventually(t, func() bool { return broken.Load() == 1 }, fetch.MaxTime/2, moment,
		"the first leader cancels its deliveries")
	second.Attempts(func(outcome string, count uint64) {
		if outcome == "delivered" {
			require.Equal(t, uint64(4), count, "the first leader delivered two")
		}
	})
}

// TestResultsThatAreNotRecordedAreSentAgain: while the log is unavailable, delivered messages stay
// to be recorded, and a follower sends nothing.
func TestResultsThatAreNotRecordedAreSentAgain(t *testing.T) {
	r := receive(t, nil)
	d := newDesk(t, 0, r.host())
	n := d.open(false)
	r.trust(d.hook(n, "hook", r.server.URL+"/hook"))
	d.customers("ada")
	d.subscribe("ada", 0)
	require.Never(t, func() bool { return r.count() > 0 }, 50*time.Millisecond, moment)
	d.Refuse(engine.OutcomeUnavailable)
	n.leads.Store(true)
	require.Eventually(t, func() bool { return r.count() == 1 }, patience, moment)
	require.Never(t, func() bool { return r.count() > 1 }, 50*time.Millisecond, moment,
		"it waits for its own result, and the customer's next message with it")
	d.Refuse(engine.OutcomeNone)
	d.drained("hook")
	require.Equal(t, told, of(r.all(), "ada"))
	require.Len(t, r.all(), 3, "and none came twice")
}

// TestBothSecretsSign: after a rotation receivers that know either secret accept a message.
func TestBothSecretsSign(t *testing.T) {
	r := receive(t, nil)
	d := newDesk(t, 0, r.host())
	n := d.open(true)
	old := d.hook(n, "hook", r.server.URL+"/hook")
	sealed, next := n.Mint(enginetest.Sandbox, enginetest.ID("hook"))
	d.Do(t, billing.KindRotateWebhookSecret, &billing.RotateWebhookSecret{
		Env: enginetest.Sandbox, ID: enginetest.ID("hook"), Secret: sealed,
	})
	d.customers("ada")
	for i, secret := range []string{old, next} {
		r.trust(secret)
		d.subscribe("ada", i)
		d.drained("hook")
	}
	require.Len(t, r.all(), 6)
}

// TestASecretThatRotatesMeanwhileSigns: a delivery is signed with the secrets that are valid when
// it is sent, though the endpoint's rotated twice since it fell due; the first of the three no
// longer signs. Nothing is sent to an endpoint that was deleted meanwhile.
func TestASecretThatRotatesMeanwhileSigns(t *testing.T) {
	r := receive(t, nil)
	d := newDesk(t, 0, r.host())
	n := d.open(false)
	first := d.hook(n, "hook", r.server.URL+"/hook")
	d.customers("ada", "bob", "cyd")
	for _, name := range []string{"ada", "bob", "cyd"} {
		d.subscribe(name, 1)
	}
	due := d.Machine.DueWebhooks(d.Machine.Stamp(), 3, func([16]byte) int { return 3 },
		func(uint64) bool { return false })
	require.Len(t, due, 3)

	rotate := func() (shown string) {
		sealed, shown := n.Mint(enginetest.Sandbox, enginetest.ID("hook"))
		d.Do(t, billing.KindRotateWebhookSecret, &billing.RotateWebhookSecret{
			Env: enginetest.Sandbox, ID: enginetest.ID("hook"), Secret: sealed,
		})
		return shown
	}
	second, third := rotate(), rotate()
	for i, secret := range []string{second, third} {
		r.trust(secret)
		n.Deliver(t.Context(), &due[i])
	}
	require.Len(t, r.all(), 2)
	r.trust(first)
	n.Deliver(t.Context(), &due[2])
	require.Equal(t, 3, r.count())
	require.Len(t, r.problems, 1, "the first secret signs no more")

	d.Do(t, billing.KindDeleteWebhookEndpoint, &billing.DeleteWebhookEndpoint{
		Env: enginetest.Sandbox, ID: enginetest.ID("hook"),
	})
	n.Deliver(t.Context(), &due[2])
	require.Equal(t, 3, r.count())
}

// TestPrivateAddressesAreNotReached: addresses that the configuration does not allow are blocked,
// even behind a name, and a secret that does not open signs nothing.
func TestPrivateAddressesAreNotReached(t *testing.T) {
	r := receive(t, nil)
	d := newDesk(t, 0)
	strict, err := fetch.New(fetch.Config{AllowHosts: []string{r.host(), "localhost:" + port(r)}})
	require.NoError(t, err)
	t.Cleanup(strict.Close)
	d.fetch = strict
	n := d.open(true)
	require.ErrorContains(t, n.Check(r.server.URL), "not a public address")
	require.ErrorContains(t, n.Check("ftp://a.example"), "http")
	require.NoError(t, n.Check("https://a.example/secret"))
	d.hook(n, "address", r.server.URL+"/hook")
	d.hook(n, "name", "http://localhost:"+port(r)+"/hook")
	d.Do(t, billing.KindCreateWebhookEndpoint, &billing.CreateWebhookEndpoint{
		Env: enginetest.Sandbox, ID: enginetest.ID("unreadable"), URL: r.server.URL + "/hook",
		Secret: []byte("sealed under another key"),
	})
	d.customers("ada")
	d.subscribe("ada", 0)
	for name, reason := range map[string]string{
		"address": "not a public address", "name": "not a public address", "unreadable": "rotate it",
	} {
		d.drained(name)
		page, _, _ := d.Machine.WebhookDeliveries(&billing.DeliveryQuery{
			Env: enginetest.Sandbox, Endpoint: enginetest.ID(name), Limit: 1,
		})
		require.Equal(t, "failed", page[0].Status)
		require.Equal(t, billing.AttemptBlocked, page[0].Log[0].Outcome)
		require.Contains(t, page[0].Log[0].Reason, reason)
	}
	require.Zero(t, r.count())
}

func port(r *receiver) string {
	_, port, _ := strings.Cut(r.host(), ":")
	return port
}

// TestAnswersAreKept: the beginning of each, as text, with its attempt, for whoever asks for that
// delivery; a test message goes to an endpoint that does not ask for its type.
func TestAnswersAreKept(t *testing.T) {
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, "<b>no\x00\xff such order</b>\n", strings.Repeat("é", 2000))
			return
		}
		fmt.Fprint(w, "\n taken \n")
	}))
	t.Cleanup(server.Close)
	d := newDesk(t, 0, strings.TrimPrefix(server.URL, "http://"))
	n := d.open(true)
	id := enginetest.ID("hook")
	sealed, _ := n.Mint(enginetest.Sandbox, id)
	paid, _ := billing.WebhookEventsOf([]string{"invoice.paid"})
	d.Do(t, billing.KindCreateWebhookEndpoint, &billing.CreateWebhookEndpoint{
		Env: enginetest.Sandbox, ID: id, URL: server.URL + "/hook", Secret: sealed, Events: paid,
	})
	d.Do(t, billing.KindTestWebhook, &billing.TestWebhook{
		Env: enginetest.Sandbox, Endpoint: id, Actor: "ops",
	})
	d.drained("hook")
	page, _, _ := d.Machine.WebhookDeliveries(&billing.DeliveryQuery{
		Env: enginetest.Sandbox, Endpoint: id, Limit: 10,
	})
	require.Len(t, page, 1)
	require.Equal(t, billing.WebhookTest, page[0].Message.Type)
	require.Empty(t, page[0].Log[0].Answer, "only one delivery has them")
	d.Do(t, billing.KindResendWebhook, &billing.ResendWebhook{
		Env: enginetest.Sandbox, Endpoint: id, Row: page[0].Row, Sequence: page[0].Sequence, Actor: "ops",
	})
	d.drained("hook")
	whole, _ := d.Machine.WebhookDelivery(enginetest.Sandbox, id, page[0].ID)
	require.Len(t, whole.Log, 2)
	refused := whole.Log[0].Answer
	require.True(t, strings.HasPrefix(refused, "<b>no\ufffd\ufffd such order</b>\né"), refused[:30])
	require.LessOrEqual(t, len(refused), 1024)
	require.Greater(t, len(refused), 1020)
	require.Equal(t, "taken", whole.Log[1].Answer)
}
