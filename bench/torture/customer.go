package torture

import (
	"context"
	"fmt"
	"sync"

	"github.com/anishathalye/porcupine"

	api "tollgate/sdk/go"
)

// feature is one of the catalog's, with the units at which it refuses more: 0 for never.
type feature struct {
	key   string
	limit int
	// credits: the limit is what a credit pool pays; reaching it is not said.
	credits bool
	// thresholds are the percents of the limit that are told.
	thresholds []int
}

// The credits of a pool, and what one unit of tokens costs of them.
const (
	poolCredits = 120
	tokenWeight = 2
)

var features = [...]feature{
	{key: "calls"},
	{key: "seats", limit: 60, thresholds: []int{50, 90}},
	{key: "tokens", limit: poolCredits / tokenWeight, credits: true},
}

// The places of the feature that has a price, and of the one that burns credits.
const (
	calls  = 0
	tokens = 2
)

const (
	plan           = "tortured"
	paddedCustomer = "padded"
)

// catalog has one plan with each kind of counter: without a limit, with a hard limit whose
// thresholds are told, and paid with credits that must not go below zero. Calls make interim
// invoices. The other features are for reservations (heldFeatures).
const catalog = `
features:
  - {key: calls, name: Calls}
  - {key: seats, name: Seats}
  - {key: tokens, name: Tokens}
  - {key: pages, name: Pages}
  - {key: images, name: Images}
  - {key: minutes, name: Minutes}
  - {key: files, name: Files}
  - {key: steps, name: Steps}
plans:
  - key: tortured
    name: Tortured
    priceAmount: "0"
    currency: USD
    intervalMonths: 1
    invoiceAbove: "1"
    creditAllocations:
      - {pool: main, amount: 120, hardLimit: true}
    features:
      - {key: calls, pricingType: usage_based, pricing: {unitLabel: call, pricePerUnit: "0.05"}}
      - key: seats
        pricingType: included
        pricing: {maxUsage: 60, limitMode: hard, thresholds: [50, 90]}
      - {key: tokens, pricingType: included, pricing: {credits: {pool: main, weight: 2}}}
      - {key: pages, pricingType: usage_based, pricing: {unitLabel: page, pricePerUnit: "0.01"}}
      - {key: images, pricingType: usage_based, pricing: {unitLabel: image, pricePerUnit: "0.02"}}
      - {key: minutes, pricingType: usage_based, pricing: {unitLabel: minute, pricePerUnit: "0.01"}}
      - {key: files, pricingType: usage_based, pricing: {unitLabel: file, pricePerUnit: "0.01"}}
      - {key: steps, pricingType: usage_based, pricing: {unitLabel: step, pricePerUnit: "0.01"}}
`

// counter is one feature of one customer, with everything that was done to it.
type counter struct {
	feature
	customer string

	mu      sync.Mutex
	history []porcupine.Operation
	keys    []*usage
	reached bool // an answer said that the limit is reached
}

// usage is one usage event: its key, and what is known of it.
type usage struct {
	key   int
	name  string // the idempotency key
	units int
	to    int // what it is amended to, if ever
	body  []byte
	// doubtful: an attempt has an unknown fate, and none after it a known one.
	doubtful bool
	counted  bool // certainly
	sending  int  // attempts under way
	// voidDoubtful and voided are the same about taking it back.
	voidDoubtful, voided bool
	// amendDoubtful and amended are the same about its other quantity.
	amendDoubtful, amended bool
}

// left is what the event adds to its counter in the end.
func (u *usage) left() int {
	switch {
	case !u.counted || u.voided:
		return 0
	case u.amended:
		return u.to
	}
	return u.units
}

// open reports whether the event may or may not be counted, taken back or amended, as far as is
// known.
func (u *usage) open() bool {
	return !u.counted && (u.doubtful || u.sending > 0) || u.voidDoubtful || u.amendDoubtful
}

// customer is one customer with a subscription.
type customer struct {
	name     string
	counters [len(features)]*counter

	mu      sync.Mutex
	left    int // operations until it is left in peace
	working int // operations under way
	retired bool
}

// take reports whether one more operation is due.
func (c *customer) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 {
		return false
	}
	c.left--
	c.working++
	return true
}

// give ends an operation; true after the very last one, once.
func (c *customer) give() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.working--
	return c.retire()
}

// leave allows no more operations; true when none is under way and it is the first to say so.
func (c *customer) leave() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = 0
	return c.retire()
}

func (c *customer) retire() bool {
	if c.left > 0 || c.working > 0 || c.retired {
		return false
	}
	c.retired = true
	return true
}

// add notes an operation with its answer.
func (c *counter) add(client int, in input, call int64, out output, end int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, porcupine.Operation{
		ClientId: client, Input: in, Call: call, Output: out, Return: end,
	})
	if in.kind == look {
		return
	}
	u := c.keys[in.key]
	c.reached = c.reached || out.outcome == atLimit
	switch out.outcome {
	case counted, atLimit, duplicate:
		u.counted, u.doubtful = true, false
	case voided:
		u.voided, u.voidDoubtful = true, false
	case amended:
		u.amended, u.amendDoubtful = true, false
	case unknown:
		u.doubtful = u.doubtful || in.kind == record && !u.counted
		u.voidDoubtful = u.voidDoubtful || in.kind == takeBack && !u.voided
		u.amendDoubtful = u.amendDoubtful || in.kind == amend && !u.amended
	}
}

// usages copies what is known of the events.
func (c *counter) usages() []usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]usage, len(c.keys))
	for i, u := range c.keys {
		all[i] = *u
	}
	return all
}

// create makes a customer with its subscription, however long it takes.
func create(
	ctx context.Context, client *api.Client, name string, operations int,
) (*customer, error) {
	answer, err := client.Call(ctx, "POST", "/api/v1/client/customers", map[string]string{
		"externalClientCustomerId": name, "firstName": "T", "lastName": "T", "email": "t@example.com",
	}, nil)
	if err != nil && answer.Status != 409 {
		return nil, fmt.Errorf("torture: create a customer: %w", err)
	}
	body := fmt.Sprintf(`{"planId":%q,"customerReferenceId":%q}`, plan, name)
	answer, err = client.Do(ctx, api.Request{
		Method: "POST", Path: "/api/v1/client/subscriptions", Body: []byte(body),
		Header: map[string]string{"Idempotency-Key": "subscribe-" + name},
	})
	if err == nil {
		err = answer.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("torture: subscribe: %w", err)
	}
	c := &customer{name: name, left: operations}
	for i, f := range features {
		c.counters[i] = &counter{feature: f, customer: name}
	}
	return c, nil
}

// Paths of the admin API.
const (
	base    = "/api/v1/admin/accounts"
	sandbox = base + "/tortured/environments/sandbox"
)

// setUp makes an account with the catalog, and returns a key of its sandbox.
func (f *fleet) setUp(ctx context.Context) (key string, err error) {
	admin, err := f.admin()
	if err != nil {
		return "", err
	}
	defer admin.Close()
	_, err = admin.Call(ctx, "POST", base, map[string]string{"name": "tortured"}, nil)
	if err != nil {
		return "", fmt.Errorf("torture: account: %w", err)
	}
	answer, err := admin.Do(ctx, api.Request{
		Method: "PUT", Path: sandbox + "/catalog", Body: []byte(catalog),
		ContentType: "application/yaml",
	})
	if err == nil {
		err = answer.Err()
	}
	if err != nil {
		return "", fmt.Errorf("torture: catalog: %w", err)
	}
	var created struct {
		Key string `json:"key"`
	}
	_, err = admin.Call(ctx, "POST", sandbox+"/keys",
		map[string]string{"scope": "full", "label": "torture"}, &created)
	return created.Key, err
}

// admin is a client of all nodes' admin API.
func (f *fleet) admin() (*api.Client, error) {
	var addresses []string
	for _, p := range f.nodes {
		addresses = append(addresses, p.settings.Ops)
	}
	return api.New(addresses, f.adminKey, 2)
}

// admins are a client for each node's admin API.
func (f *fleet) admins() (nodes []*api.Client, err error) {
	for _, p := range f.nodes {
		node, err := api.New([]string{p.settings.Ops}, f.adminKey, 1)
		if err != nil {
			closeAll(nodes)
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

func closeAll(clients []*api.Client) {
	for _, c := range clients {
		c.Close()
	}
}
