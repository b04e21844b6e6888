package clustertest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/paymenttest"
	"tollgate/cmd/tollgate/config"
	api "tollgate/sdk/go"
)

// silent is an agent that notes its process, and calls nobody and says nothing.
const silent = `#!/bin/bash
read -r task
echo $$ >> %s
trap '' PIPE
while :; do sleep 1; done
`

// quick is an agent that is done at once.
const quick = `#!/bin/bash
read -r task
echo '{"type":"done"}'
`

// asking is an agent that asks a person, and is done when it goes on from its checkpoint with the
// answer.
const asking = `#!/bin/bash
read -r task
case "$task" in
*'"type":"resume"'*'"checkpoint":"aGFsZiB3YXk="'*'"answer":"the small one"'*)
	echo '{"type":"event","text":"went on with what was answered"}'
	echo '{"type":"done"}' ;;
*) echo '{"type":"need_human","question":"Which plan?","checkpoint":"aGFsZiB3YXk="}' ;;
esac
`

// gate holds requests while it is armed, until their client has gone.
type gate struct {
	armed   atomic.Bool
	reached chan struct{}
	given   atomic.Int32 // how many were given up by their clients
}

func newGate() *gate { return &gate{reached: make(chan struct{}, 1)} }

func (g *gate) pass(r *http.Request) {
	if !g.armed.Load() {
		return
	}
	select {
	case g.reached <- struct{}{}:
	default: // one before is not waited for yet
	}
	<-r.Context().Done()
	g.given.Add(1)
}

// arm holds what comes from now on.
func (g *gate) arm() {
	select {
	case <-g.reached: // a repetition of what was held before
	default:
	}
	g.armed.Store(true)
}

// await waits until a request is held.
func (g *gate) await(t *testing.T, what string) {
	t.Helper()
	select {
	case <-g.reached:
	case <-time.After(patience):
		require.Fail(t, what)
	}
}

// killed is a workspace whose leaders are killed, one after the other.
type killed struct {
	*agent
	pids              string // of the agents that stay
	product           string // what is below /held waits for verified
	verified, charged *gate
	stripe            *paymenttest.Stripe
	tenant            string
}

// startKilled runs a cluster with three workers, agents that stay and that ask, Stripe, and a
// product that is well; the calls of both can be held.
func startKilled(t *testing.T) *killed {
	folder := t.TempDir()
	k := &killed{pids: filepath.Join(folder, "pids"), verified: newGate(), charged: newGate()}
	t.Cleanup(func() { endAgents(t, k.pids, k.pids+".detached", k.pids+".silent") })
	programs := map[string]string{
		"staying": fmt.Sprintf(staying, k.pids), "silent": fmt.Sprintf(silent, k.pids+".silent"),
		"asking": asking, "quick": quick,
	}
	flags := []string{}
	for name, text := range programs {
		file := filepath.Join(folder, name+".sh")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o700))
		flags = append(flags, "--agent", name+"="+file)
	}
	product := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/held") {
			k.verified.pass(r)
		}
		if _, err := w.Write([]byte("all is well")); err != nil {
			return // who asked was killed
		}
	}))
	t.Cleanup(product.Close)
	k.product = product.URL
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	k.stripe = paymenttest.ServeStripe(t, listener, "sk_test_1")
	desk := httptest.NewServer(http.HandlerFunc(k.lose))
	t.Cleanup(desk.Close)
	k.agent = &agent{development: startClusterOf(t, program, flags...)}
	require.Zero(t, k.stop())
	k.configure(func(_ string, c *config.Config) {
		c.Workspaces.Lease, c.Workspaces.Workers = 6*time.Second, 3
		c.Workspaces.Payments = config.PaymentsStripe
		c.Workspaces.Stripe = config.Stripe{
			BaseURL: desk.URL, SecretKey: "sk_test_1", WebhookSecret: webhookSecret,
		}
	})
	k.start()
	return k
}

// lose lets Stripe carry a request out; the answer to a charge that is held is never sent.
func (k *killed) lose(w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	k.stripe.ServeHTTP(answer, r)
	if r.Method == http.MethodPost && r.URL.Path == "/v1/payment_intents" {
		k.charged.pass(r)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.Code)
	if _, err := w.Write(answer.Body.Bytes()); err != nil {
		return // who asked was killed
	}
}

// kill9 kills the leader of the workspaces, and returns it and the nodes that go on.
func (k *killed) kill9() (leader string, alive []string) {
	k.t.Helper()
	leader = k.runner()
	killProcess(k.t, k.node(leader).PID)
	k.verified.armed.Store(false)
	k.charged.armed.Store(false)
	for _, node := range k.Nodes {
		if node.ID != leader {
			alive = append(alive, node.ID)
		}
	}
	return leader, alive
}

// back starts a killed node again, and sees that every run is accounted for on every node.
func (k *killed) back(leader string, free, returned int) {
	k.t.Helper()
	k.restart(leader)
	k.ready(leader)
	k.accounted(free, returned)
}

// accounted reports whether what was used is the same on every node.
func (k *killed) accounted(free, returned int) {
	k.t.Helper()
	for _, node := range k.Nodes {
		account := k.sees(node.ID, "/v1/account")
		usage := inner(account, "billing", "usage").(map[string]any)
		require.EqualValues(k.t, free, usage["freeRunsUsed"], "%v", account)
		require.EqualValues(k.t, 0, usage["paidRunsUsed"])
		require.EqualValues(k.t, returned, usage["runsReturned"])
		require.EqualValues(k.t, free+returned, usage["runsUsed"])
	}
}

// asked posts what is harmless to repeat, until a node can answer it.
func (a *agent) asked(id, path, key string, body any, headers ...string,
) (status int, answer map[string]any) {
	a.t.Helper()
	require.Eventually(a.t, func() bool {
		status, answer = a.call(id, "POST", path, key, body, headers...)
		return status != 0 && status != 503
	}, patience, statusEvery, path)
	return status, answer
}

// sees is what a node answers, as soon as it can.
func (a *agent) sees(id, path string) (answer map[string]any) {
	a.t.Helper()
	require.Eventually(a.t, func() bool {
		var status int
		status, answer = a.call(id, "GET", path, a.key, nil)
		return status == 200
	}, patience, statusEvery, path)
	return answer
}

// lost waits until a run is failed for its worker was lost, and returned.
func (a *agent) lost(id, run string) {
	a.t.Helper()
	ended := a.until(id, run, "failed")
	require.Equal(a.t, []any{"inconclusive", "worker_lost", "returned"}, []any{
		inner(ended, "run", "outcome"), inner(ended, "run", "reasonCode"),
		inner(ended, "run", "charge", "state"),
	})
}

// passes waits until a run has passed, and is charged.
func (a *agent) passes(id, run string) (ended map[string]any) {
	a.t.Helper()
	ended = a.until(id, run, "completed")
	require.Equal(a.t, []any{"passed", "free", "committed"}, []any{
		inner(ended, "run", "outcome"), inner(ended, "run", "charge", "kind"),
		inner(ended, "run", "charge", "state"),
	}, "%v", ended)
	return ended
}

// A leader is killed while a run is queued, two are carried out (one whose agent has called nobody
// yet, one that was heard of), one waits for a person and one is verified; the next one is killed
// while a saved card is charged; a third is stopped, and goes on when its run is lost. Each run and
// purchase ends as documented and is charged right, a late word changes nothing, and the same start
// is the same run on every node, before and after.
func TestALeaderIsKilledAtEachPointOfARun(t *testing.T) {
	t.Parallel()
	k := startKilled(t)
	k.tenant = k.claim()
	held := k.flow("quick", k.product+"/held", "well")

	k.whileRunning(held)
	k.whileCharging()
	k.whileStopped(held)
	require.Zero(t, k.stop())
}

// points are runs, each at another point, and the flows and keys that they were started by.
type points struct {
	k             *killed
	flows, starts map[string]string
}

// starts a run of a flow for a point of it.
func (p *points) start(point, flow string) (run string) {
	p.flows[point] = flow
	p.starts[point] = p.k.begin("node1", flow, "killed-"+point)
	return p.starts[point]
}

// same reports whether each start, sent again to a node, is the run that it was.
func (p *points) same(node string) {
	p.k.t.Helper()
	for point, run := range p.starts {
		require.Equal(p.k.t, run, p.k.begin(node, p.flows[point], "killed-"+point), point)
	}
}

// whileRunning kills the leader of five runs.
func (k *killed) whileRunning(held string) {
	p := points{k, map[string]string{}, map[string]string{}}
	waits := p.start("waiting", k.flow("asking", k.product, "well"))
	k.until("node2", waits, "waiting_for_human")
	silent := p.start("silent", k.flow("silent", k.product, "well"))
	stays := p.start("heard", k.flow("staying", k.product, "well"))
	k.agentOf(k.pids+".silent", 1)
	k.agentOf(k.pids, 1)
	k.says("node2", stays, "stays") // stored by a heartbeat
	require.Empty(k.t, inner(k.run("node2", silent), "run", "events"))
	last := k.flow("quick", k.product, "well")
	verified := k.startHeld(held, "killed-verified")
	p.flows["verified"], p.starts["verified"] = held, verified
	queued := p.start("queued", last)
	k.until("node3", queued, "queued")
	for _, run := range []string{silent, stays, verified} {
		k.until("node2", run, "running")
	}

	leader, alive := k.kill9()
	for _, node := range alive {
		p.same(node)
		k.until(node, waits, "waiting_for_human")
	}
	k.passes(alive[0], queued)
	for _, run := range []string{silent, stays, verified} {
		k.lost(alive[1], run)
	}
	status, answer := k.asked(alive[0], "/v1/runs/"+waits+"/resume", k.key,
		map[string]any{"answer": "the small one"})
	require.Equal(k.t, 202, status, answer)
	ended := k.passes(alive[1], waits)
	require.Contains(k.t, fmt.Sprint(inner(ended, "run", "events")), "went on with what was answered")
	k.back(leader, 2, 3)
	p.same(leader)
}

// says waits until a run has an event of a text.
func (k *killed) says(node, run, text string) {
	k.t.Helper()
	require.Eventually(k.t, func() bool {
		return strings.Contains(fmt.Sprint(inner(k.run(node, run), "run", "events")), text)
	}, patience, statusEvery, "%s does not say %q", run, text)
}

// startHeld starts a run whose verification is held.
func (k *killed) startHeld(flow, key string) (run string) {
	k.t.Helper()
	quote := k.sees("node1", "/v1/flows/"+flow+"/quote")
	k.verified.arm()
	status, answer := k.asked("node1", "/v1/flows/"+flow+"/run", k.key,
		map[string]any{"fingerprint": inner(quote, "quote", "fingerprint")}, "Idempotency-Key", key)
	require.Equal(k.t, 202, status, answer)
	k.verified.await(k.t, "nobody verifies")
	return inner(answer, "run", "id").(string)
}

// whileStopped: a leader that is only stopped, and thinks afterwards that it still has its run, is
// refused what it says about it.
func (k *killed) whileStopped(held string) {
	run := k.startHeld(held, "stopped-verified")
	leader := k.runner()
	k.signal(leader, syscall.SIGSTOP)
	k.verified.armed.Store(false)
	calls := k.verified.given.Load()
	next := k.runner(leader)
	k.lost(next, run)
	require.Equal(k.t, run, k.begin(next, held, "stopped-verified"))
	before := k.sees(next, "/v1/runs/"+run)
	k.signal(leader, syscall.SIGCONT)
	require.Eventually(k.t, func() bool { return k.verified.given.Load() > calls },
		patience, statusEvery, "the late worker goes on")
	k.ready(leader)
	k.passes(leader, k.begin(leader, held, "stopped-afterwards")) // by when the late word was said
	for _, node := range k.Nodes {
		require.Equal(k.t, before, k.sees(node.ID, "/v1/runs/"+run), "a late word changed it")
		require.Equal(k.t, run, k.begin(node.ID, held, "stopped-verified"))
	}
	k.accounted(3, 4)
}

// saveCard has a run approved and paid on a page, which saves the card.
func (k *killed) saveCard() {
	status, answer := k.asked("node1", "/v1/purchases", k.key, map[string]any{"runs": 1},
		"Idempotency-Key", "saves-the-card")
	require.Equal(k.t, 402, status, answer)
	id := inner(answer, "purchase", "id").(string)
	status, answer = k.asked("node1", "/api/v1/admin/workspaces/"+k.tenant+"/purchases/"+id+
		"/approve", k.AdminKey, map[string]any{"owner": "ada@example.com"})
	require.Equal(k.t, 200, status, answer)
	session := ""
	require.Eventually(k.t, func() bool {
		session, _ = k.stripe.Session(id)
		return session != ""
	}, patience, statusEvery, "no page was made")
	k.stripe.Pay(session)
	now := time.Now()
	event := k.stripe.Event("evt_1", "checkout.session.completed", session, now)
	status, answer = k.asked("node2", "/pay/workspace-webhook", "", json.RawMessage(event),
		"Stripe-Signature", paymenttest.Signature(webhookSecret, event, now))
	require.Equal(k.t, 200, status, answer)
	answer = k.sees("node3", "/v1/purchases/"+id)
	require.Equal(k.t, "succeeded", inner(answer, "purchase", "status"), answer)
}

// whileCharging: the card was charged and the answer was lost with the leader; the next one asks
// with the same key, and the purchase is paid once.
func (k *killed) whileCharging() {
	k.saveCard()
	leader := k.runner()
	at := map[string]string{"node1": "node2", "node2": "node3", "node3": "node1"}[leader]
	k.charged.arm()
	buy := api.Request{
		Method: "POST", Path: "/v1/purchases", Body: []byte(`{"runs":2}`), Once: true,
		Header: map[string]string{"Idempotency-Key": "charges-the-card"},
	}
	client := k.client(at, k.key)
	client.AnswerTimeout = patience
	bought := k.inBackground(client.Try, buy)
	k.charged.await(k.t, "nobody charges the card")
	answer := k.sees(at, "/v1/purchases")
	newest := answer["purchases"].([]any)[0].(map[string]any)
	require.Equal(k.t, "processing", newest["status"], answer)
	require.Equal(k.t, 1, k.stripe.Charges(), "what Stripe knows, and nobody of us")
	leader, alive := k.kill9()

	require.Eventually(k.t, func() bool {
		_, answer = k.call(alive[0], "GET", "/v1/purchases/"+newest["id"].(string), k.key, nil)
		return inner(answer, "purchase", "status") == "succeeded"
	}, patience, statusEvery, "the purchase is not paid")
	// It is paid, still charged after ten seconds, or its node had not heard of its entry's fate.
	waited := <-bought
	require.NoError(k.t, waited.err)
	require.Contains(k.t, []int{201, 202, 503}, waited.Status, "%s", waited.Body)
	k.back(leader, 2, 3)
	for _, node := range k.Nodes {
		status, answer := k.asked(node.ID, "/v1/purchases", k.key, map[string]any{"runs": 2},
			"Idempotency-Key", "charges-the-card")
		require.Equal(k.t, 201, status, answer)
		require.Equal(k.t, newest["id"], inner(answer, "purchase", "id"))
		account := k.sees(node.ID, "/v1/account")
		require.EqualValues(k.t, 3, inner(account, "billing", "usage", "runsLeft"))
		require.EqualValues(k.t, 1500, inner(account, "billing", "usage", "spentCents"))
		require.EqualValues(k.t, 3500, inner(account, "billing", "usage", "remainingCents"))
	}
	require.Equal(k.t, 1, k.stripe.Charges())
	require.Empty(k.t, k.stripe.Refunds())
}
