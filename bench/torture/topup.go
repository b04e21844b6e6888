package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tollgate/engine/billing"
	api "tollgate/sdk/go"
	"tollgate/server"
)

const (
	// buying is an account of its own, whose clock the buyer moves: purchases cool down by it.
	buying = base + "/buying/environments/sandbox"
	// Pools buy so many credits for a price, for no more than a cap in a month.
	boughtCredits, boughtPrice, boughtCap = 20, 10, 30
	boughtPools                           = 3
	topUpRule                             = `{"below":10,"amount":20,"price":10,"monthlyCap":30,` +
		`"cooldownSeconds":60,"paymentMethod":"cus_1/pm_1"}`
	topUpTag = "metadata[tollgate_topup]"
)

// till is the payment provider of the buying account, as far as charges of saved cards need it. It
// carries a charge out once for its key, declines one of ten, and keeps one of four answers to
// itself.
type till struct {
	answers *atomic.Bool // always
	violate func(by check, format string, args ...any)

	mu      sync.Mutex
	random  *rand.Rand
	pools   []*boughtPool
	intents []*intent // newest first
	byKey   map[string]*intent
}

// boughtPool is a pool that is topped up. The till's lock guards its counts.
type boughtPool struct {
	path  string
	id    [16]byte
	asked uint32 // purchases that were charged, or declined
	paid  int
}

type intent struct {
	ID       string            `json:"id"`
	Status   string            `json:"status"`
	Metadata map[string]string `json:"metadata"`
}

func newTill(answers *atomic.Bool, violate func(check, string, ...any), seed uint64) *till {
	return &till{
		answers: answers, violate: violate, random: rand.New(rand.NewPCG(seed, 4711)),
		byKey: map[string]*intent{},
	}
}

func (t *till) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		return // a node that ends, or stops leading, breaks off
	}
	t.mu.Lock()
	var body any = map[string]any{"data": t.intents[:min(len(t.intents), 100)]}
	status := http.StatusOK
	if r.Method == http.MethodPost {
		made := t.charge(r.Header.Get("Idempotency-Key"), r.PostForm.Get(topUpTag))
		if body = made; made.Status != "succeeded" {
			status, body = http.StatusPaymentRequired, map[string]any{
				"error": map[string]string{"type": "card_error", "code": "card_declined"},
			}
		}
	}
	silent := t.random.IntN(4) == 0 && !t.answers.Load()
	text, err := json.Marshal(body)
	t.mu.Unlock()
	if err != nil || silent {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(status)
	if _, err := w.Write(text); err != nil {
		panic(http.ErrAbortHandler) // its sender is gone
	}
}

// charge is what a request to charge comes to. A key that has come before charges nothing; another
// one is of the purchase behind the last of its pool, since each is over before the next begins.
func (t *till) charge(key, name string) *intent {
	if made := t.byKey[key]; made != nil {
		return made
	}
	made := &intent{
		ID: "pi_" + strconv.Itoa(len(t.intents)), Status: "succeeded",
		Metadata: map[string]string{"tollgate_topup": name},
	}
	t.byKey[key], t.intents = made, append([]*intent{made}, t.intents...)
	for _, p := range t.pools {
		if key != "topup_"+string(server.AppendUUID(nil, billing.TopUpID(p.id, p.asked+1))) {
			continue
		}
		p.asked++
		if t.random.IntN(10) == 0 {
			made.Status = "requires_payment_method"
			return made
		}
		p.paid++
		return made
	}
	t.violate(byTopUps, "the charge %q is of no pool's next purchase", key)
	return made
}

// paid is how many purchases of a pool were paid.
func (t *till) paid(p *boughtPool) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return p.paid
}

// buyer uses the credits of pools that are topped up automatically, at any node, sets and stops
// that, and moves the clock, while the cluster is tortured: a purchase is charged once, its credits
// come with the payment and once, one is on its way at a time, and a month has its cap.
type buyer struct {
	*report
	fleet *fleet
	till  *till
	clock time.Time
}

// open makes the account and its pools.
func (b *buyer) open(ctx context.Context) error {
	b.till = b.fleet.inbox.till
	admin, err := b.fleet.admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	var key struct{ Key string }
	call := func(method, path, body string, into any) {
		if err == nil {
			_, err = admin.Call(ctx, method, path, json.RawMessage(body), into)
		}
	}
	call("POST", base, `{"name":"buying"}`, nil)
	call("PUT", buying+"/payment-provider", `{"provider":"stripe","secretKey":"sk_test_1",`+
		`"webhookSecret":"whsec_1","baseUrl":"http://`+b.fleet.inbox.listener.Addr().String()+`"}`, nil)
	call("POST", buying+"/keys", `{"scope":"full"}`, &key)
	if err != nil {
		return fmt.Errorf("torture: the buying account: %w", err)
	}
	var addresses []string
	for _, p := range b.fleet.nodes {
		addresses = append(addresses, p.settings.HTTP)
	}
	client, err := api.New(addresses, key.Key, 1)
	if err != nil {
		return err
	}
	defer client.Close()
	customer, err := client.CreateCustomer(ctx, api.CustomerRequest{
		FirstName: "B", LastName: "B", Email: "b@example.com",
	})
	if err != nil {
		return fmt.Errorf("torture: the buyer: %w", err)
	}
	b.clock = time.Now()
	for range boughtPools {
		var made struct{ ID string }
		call("POST", buying+"/customers/"+customer+"/pools", `{"name":"bought"}`, &made)
		if err != nil {
			return fmt.Errorf("torture: a pool that buys: %w", err)
		}
		p := &boughtPool{path: buying + "/pools/" + made.ID}
		p.id, _ = server.ParseUUID(made.ID)
		b.till.mu.Lock()
		b.till.pools = append(b.till.pools, p)
		b.till.mu.Unlock()
		call("PUT", p.path+"/top-up", topUpRule, nil)
	}
	return err
}

// keep does one thing after the other until ctx ends.
func (b *buyer) keep(ctx context.Context, random *rand.Rand) error {
	nodes, err := b.fleet.admins()
	if err != nil {
		return err
	}
	defer closeAll(nodes)
	for ctx.Err() == nil {
		p := b.till.pools[random.IntN(boughtPools)]
		node := nodes[random.IntN(len(nodes))]
		try, cancel := context.WithTimeout(ctx, timeouts[random.IntN(len(timeouts))])
		r := api.Request{Method: "POST", Path: p.path + "/deductions", Body: []byte(`{"amount":7}`)}
		switch dice := random.IntN(100); {
		case dice < 30:
			b.look(try, node, p)
			cancel()
			continue
		case dice < 45:
			r.Method, r.Path, r.Body = "PUT", p.path+"/top-up", []byte(topUpRule)
		case dice < 48:
			r.Method, r.Path, r.Body = "DELETE", p.path+"/top-up", nil
		case dice < 70:
			b.clock = b.clock.Add(61 * time.Second)
			if dice < 52 {
				b.clock = b.clock.Add(16 * 24 * time.Hour)
			}
			r.Path = buying + "/clock"
			r.Body = fmt.Appendf(nil, `{"advanceTo":%q}`, b.clock.UTC().Format(time.RFC3339))
		}
		answer, err := node.Try(try, r)
		if err == nil && answer.Status >= 500 && answer.Status != 503 {
			b.violate(byTopUps, "%s %s: %d %s", r.Method, r.Path, answer.Status, answer.Body)
		}
		cancel()
	}
	return nil
}

// look compares a pool as a node says it is with what was paid until then.
func (b *buyer) look(ctx context.Context, node *api.Client, p *boughtPool) {
	var v api.TopUp
	answer, err := node.Try(ctx, api.Request{Method: "GET", Path: p.path + "/top-up"})
	if err != nil || answer.Status != http.StatusOK {
		return
	}
	seen := answer.Data(&v)
	var credits pool
	if answer, err = node.Try(ctx, api.Request{Method: "GET", Path: p.path}); err != nil ||
		answer.Status != http.StatusOK {
		return
	}
	if seen = errors.Join(seen, answer.Data(&credits)); seen != nil {
		b.violate(byTopUps, "a pool cannot be read: %v", seen)
		return
	}
	b.compare(p, &v, credits.TotalGranted, b.till.paid(p), false)
}

// compare holds a pool against what was paid for it: all of it where none is on its way.
func (b *buyer) compare(p *boughtPool, v *api.TopUp, granted, paid int, over bool) {
	spent, err := v.SpentThisMonth.Float64()
	if err != nil || spent > boughtCap {
		b.violate(byTopUps, "%s has spent %s this month, and may spend %d", p.path, v.SpentThisMonth,
			boughtCap)
	}
	if granted > paid*boughtCredits || over && granted != paid*boughtCredits {
		b.violate(byTopUps, "%s has got %d credits, and %d purchases of %d are paid", p.path, granted,
			paid, boughtCredits)
	}
}

// settle stops the purchases, and waits until none is on its way.
func (b *buyer) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	admin, err := b.fleet.admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	for _, p := range b.till.pools {
		for {
			var v api.TopUp
			_, err := admin.Call(ctx, "DELETE", p.path+"/top-up", nil, nil)
			if err == nil {
				_, err = admin.Call(ctx, "GET", p.path+"/top-up", nil, &v)
			}
			if err == nil && !v.Pending {
				break
			}
			if !pause(ctx, 100*time.Millisecond) {
				return fmt.Errorf("torture: a purchase stays on its way: %+v: %w", v, errors.Join(err,
					ctx.Err()))
			}
		}
	}
	return nil
}

// inspect compares the pools, at one node, with what was paid.
func (b *buyer) inspect(ctx context.Context, p *process) error {
	node, err := api.New([]string{p.settings.Ops}, b.fleet.adminKey, 1)
	if err != nil {
		return err
	}
	defer node.Close()
	for _, at := range b.till.pools {
		var v api.TopUp
		var credits pool
		_, err = node.Call(ctx, "GET", at.path+"/top-up", nil, &v)
		if err == nil {
			_, err = node.Call(ctx, "GET", at.path, nil, &credits)
		}
		if err != nil {
			return fmt.Errorf("torture: a pool that buys, at %s: %w", p.id, err)
		}
		if strings.Contains(v.State, "ON") || v.Pending {
			b.violate(byTopUps, "%s says of %s that it buys: %+v", p.id, at.path, v)
		}
		b.compare(at, &v, credits.TotalGranted, b.till.paid(at), true)
	}
	return nil
}

// bought is how many purchases were paid.
func (b *buyer) bought() (n int) {
	if b.till == nil {
		return 0
	}
	for _, p := range b.till.pools {
		n += b.till.paid(p)
	}
	return n
}
