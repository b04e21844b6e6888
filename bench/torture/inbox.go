package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"tollgate/cmd/tollgate/config"
)

// inbox is an endpoint of webhooks: each message must come, once or more often, with one id and one
// body, signed. It takes every hundredth message without an answer, the first time that it comes.
type inbox struct {
	listener net.Listener
	server   *http.Server
	path     string      // of the endpoint, in the admin API
	answers  atomic.Bool // always
	violate  func(by check, format string, args ...any)
	till     *till // takes what is below /v1/

	mu       sync.Mutex
	verifier *standard.Webhook
	bodies   map[string]string // by webhook-id
	of       map[subject]string
	repeated int
	met      map[string]bool // customers of whom there has been a message
}

// subject is what there is one message about: an invoice that was created, or the subscription of a
// customer, or a threshold of a budget in a window. Of limits and their thresholds, which
// corrections take usage back below, it is what there is one about at least.
type subject struct{ event, of string }

const (
	subscriptionCreated = "subscription.created"
	invoiceCreated      = "invoice.created"
	limitReached        = "usage.limit_reached"
	thresholdReached    = "usage.threshold_reached"
	budgetThreshold     = "budget.threshold_reached"
)

// unanswered is of how many messages one gets no answer; bodyLimit bounds a message.
const (
	unanswered = 100
	bodyLimit  = 1 << 20
)

// openInbox listens where the nodes reach this process.
func openInbox(
	host string, seed uint64, violate func(by check, format string, args ...any),
) (*inbox, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	b := &inbox{
		listener: listener, violate: violate, bodies: make(map[string]string),
		of: make(map[subject]string), met: make(map[string]bool),
	}
	b.till = newTill(&b.answers, violate, seed)
	b.server = &http.Server{Handler: b, ReadTimeout: recovery, WriteTimeout: recovery}
	go func() { _ = b.server.Serve(listener) }() // ErrServerClosed: close has closed it
	return b, nil
}

func (b *inbox) close() error { return b.server.Close() }

// allowed lets a node reach the inbox.
func (b *inbox) allowed() config.Outbound {
	address := b.listener.Addr().(*net.TCPAddr).AddrPort()
	return config.Outbound{
		AllowNetworks: []string{netip.PrefixFrom(address.Addr(), address.Addr().BitLen()).String()},
		AllowHosts:    []string{address.String()},
	}
}

// open makes the endpoint.
func (b *inbox) open(ctx context.Context, f *fleet) error {
	admin, err := f.admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	var made struct{ ID, Secret string }
	_, err = admin.Call(ctx, "POST", sandbox+"/webhook-endpoints",
		map[string]string{"url": "http://" + b.listener.Addr().String()}, &made)
	if err != nil {
		return fmt.Errorf("torture: create an endpoint: %w", err)
	}
	b.path = sandbox + "/webhook-endpoints/" + made.ID
	b.mu.Lock()
	defer b.mu.Unlock()
	b.verifier, err = standard.NewWebhook(made.Secret)
	return err
}

// ServeHTTP takes a message. Its time may be that of a node whose clock is off.
func (b *inbox) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if strings.HasPrefix(request.URL.Path, "/v1/") {
		b.till.ServeHTTP(w, request)
		return
	}
	body, err := io.ReadAll(io.LimitReader(request.Body, bodyLimit))
	if err != nil {
		return // a node that ends, or stops leading, breaks off
	}
	id := request.Header.Get("webhook-id")
	b.mu.Lock()
	err = b.verifier.VerifyIgnoringTimestamp(body, request.Header)
	fresh := false
	if err == nil {
		fresh, err = b.take(id, body)
	}
	taken := len(b.bodies)
	b.mu.Unlock()
	if err != nil {
		b.violate(byWebhooks, "the webhook %q: %v: %s", id, err, body)
	}
	if fresh && taken%unanswered == 0 && !b.answers.Load() {
		panic(http.ErrAbortHandler) // it has come, and is not acknowledged
	}
	w.WriteHeader(http.StatusNoContent)
}

// take notes a message; fresh is whether it has not come before.
func (b *inbox) take(id string, body []byte) (fresh bool, err error) {
	before, again := b.bodies[id]
	if again {
		b.repeated++
		if before != string(body) {
			err = fmt.Errorf("it has come with another body: %s", before)
		}
		return false, err
	}
	b.bodies[id] = string(body)
	var m struct {
		Type string
		Data struct {
			ID, CustomerReferenceID, FeatureKey, Budget, WindowStart string

			Percent int
		}
	}
	if err = json.Unmarshal(body, &m); err != nil {
		return true, err
	}
	customer := m.Data.CustomerReferenceID
	if !b.met[customer] && m.Type != subscriptionCreated {
		return true, fmt.Errorf("it is the first about the customer %s", customer)
	}
	b.met[customer] = true
	about := subject{m.Type, m.Data.ID}
	switch m.Type {
	case subscriptionCreated:
		about.of = customer
	case limitReached:
		about.of = customer + " " + m.Data.FeatureKey
	case thresholdReached:
		about.of = customer + " " + m.Data.FeatureKey + " " + strconv.Itoa(m.Data.Percent)
	case budgetThreshold:
		about.of = m.Data.Budget + " " + strconv.Itoa(m.Data.Percent) + " " + m.Data.WindowStart
	case invoiceCreated:
	default:
		return true, nil
	}
	if other := b.of[about]; other != "" && m.Type != limitReached &&
		m.Type != thresholdReached { // those may be reached again
		err = fmt.Errorf("%s of %s has come as %s", about.event, about.of, other)
	}
	b.of[about] = id
	return true, err
}

// has reports whether there was a message about something.
func (b *inbox) has(event, of string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[subject{event, of}] != ""
}

// inspectInbox compares what has come with what there was to tell.
func (a *auditor) inspectInbox(ctx context.Context) error {
	e, err := a.emptyOutbox(ctx)
	if err != nil {
		return err
	}
	b := a.fleet.inbox
	b.mu.Lock()
	came, repeated := len(b.bodies), b.repeated
	b.mu.Unlock()
	a.Say("%d webhooks have come, and %d times one of them again", came, repeated)
	if e.Failed > 0 || e.Skipped > 0 || e.Delivered != came {
		a.violate(byWebhooks, "%d webhooks have come, %d were delivered, %d failed, %d were skipped",
			came, e.Delivered, e.Failed, e.Skipped)
	}
	for _, id := range a.invoices {
		if !b.has(invoiceCreated, id) {
			a.violate(byWebhooks, "no webhook announces the invoice %s", id)
		}
	}
	for _, c := range a.customers {
		if c != nil {
			a.inspectMessages(c)
		}
	}
	return nil
}

// inspectMessages compares a customer's messages with what happened.
func (a *auditor) inspectMessages(c *customer) {
	b := a.fleet.inbox
	if !b.has(subscriptionCreated, c.name) {
		a.violate(byWebhooks, "no webhook reports that %s has a subscription", c.name)
	}
	for _, k := range c.counters {
		if k.reached && !b.has(limitReached, c.name+" "+k.feature.key) {
			a.violate(byWebhooks, "no webhook reports that %s has reached the limit of %s", c.name,
				k.feature.key)
		}
		a.inspectThresholds(c.name, k)
	}
}

// inspectThresholds: what the events of a counter add up to has passed the thresholds below it.
func (a *auditor) inspectThresholds(customer string, k *counter) {
	sum := 0
	for _, u := range k.usages() {
		sum += u.left()
	}
	for _, percent := range k.thresholds {
		of := customer + " " + k.feature.key + " " + strconv.Itoa(percent)
		if sum*100 >= percent*k.limit && !a.fleet.inbox.has(thresholdReached, of) {
			a.violate(byWebhooks, "no webhook reports that %s %% of a limit are used: %d", of, sum)
		}
	}
}

// delivered is what an endpoint says of its messages.
type delivered struct{ Pending, Delivered, Failed, Skipped int }

// emptyOutbox waits until no message waits. What has failed twice, while its node was cut off, say,
// would wait for five minutes: an endpoint that is enabled gets at once what waits for it.
func (a *auditor) emptyOutbox(ctx context.Context) (e delivered, err error) {
	b := a.fleet.inbox
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	admin, err := a.fleet.admin()
	if err != nil {
		return e, err
	}
	defer admin.Close()
	for {
		_, err = admin.Call(ctx, "PATCH", b.path, map[string]bool{"enabled": true}, &e)
		if err == nil && e.Pending == 0 {
			return e, nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			return e, fmt.Errorf("torture: %d webhooks wait still: %w", e.Pending,
				errors.Join(err, ctx.Err()))
		}
	}
}
