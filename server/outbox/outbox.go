// Package outbox sends the webhook messages that wait in the replicated outbox, while this node
// leads, and brings what came of each attempt into the log. See DESIGN.md.
package outbox

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/webhook"
	"tollgate/server/vault"
)

// Config is what the outbox needs from the node that runs it.
type Config struct {
	Machine  *billing.Machine
	Proposer server.Proposer
	// Fetch is the guarded client that reaches endpoints.
	Fetch *fetch.Client
	// SealKey seals the endpoints' secrets in the log; the same on every node.
	SealKey [32]byte
	// Leads reports whether this node leads, with everything of earlier terms applied.
	Leads func() bool
	// Schedule is the waits between attempts, two or more; webhook.Patient when nil.
	Schedule webhook.Schedule
	// Look is how often the outbox looks for messages; 100 ms when 0.
	Look time.Duration
	// Now is the node's clock; time.Now when nil.
	Now func() time.Time
	Log *slog.Logger
}

// Outbox does what the package says. Safe for concurrent use.
type Outbox struct {
	config Config
	vault  *vault.Vault
	sender *webhook.Sender
	landed chan struct{} // a delivery has ended, and its slot is free

	mu      sync.Mutex
	flights map[uint64]bool // deliveries that are being sent, by sequence
	paces   map[[16]byte]*pace
	slots   slots

	attempts [6]atomic.Uint64 // by billing.AttemptOutcome
}

// New makes the outbox; Run runs it.
func New(c Config) (*Outbox, error) {
	if c.Machine == nil || c.Proposer == nil || c.Fetch == nil || c.Leads == nil {
		return nil, errors.New("outbox: Machine, Proposer, Fetch and Leads must be set")
	}
	if c.Schedule == nil {
		c.Schedule = webhook.Patient
	}
	if len(c.Schedule) < 2 {
		return nil, errors.New("outbox: a schedule has two waits or more")
	}
	if c.Look == 0 {
		c.Look = 100 * time.Millisecond
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	secrets, err := vault.New(c.SealKey, "tollgate webhook secrets")
	if err != nil {
		return nil, err
	}
	return &Outbox{
		config: c, vault: secrets, sender: webhook.NewSender(c.Fetch, c.Now),
		landed: make(chan struct{}, 1), flights: map[uint64]bool{}, paces: map[[16]byte]*pace{},
		slots: slots{quick: quickSlots, slow: slowSlots},
	}, nil
}

// Run sends messages whenever this node leads, until ctx ends. It returns once nothing is under
// way any more.
func (o *Outbox) Run(ctx context.Context) {
	var under sync.WaitGroup
	defer under.Wait()
	ticker := time.NewTicker(o.config.Look)
	defer ticker.Stop()
	for o.wait(ctx, ticker) {
		if o.config.Leads() {
			o.lead(ctx, ticker, &under)
		}
	}
}

// wait returns when it is time to look; false when ctx has ended.
func (o *Outbox) wait(ctx context.Context, ticker *time.Ticker) bool {
	select {
	case <-ctx.Done():
		return false
	case <-ticker.C:
	case <-o.landed:
	}
	return ctx.Err() == nil
}

// lead sends messages while this node leads. What is under way when it does not any more is broken
// off: the next leader sends it again.
func (o *Outbox) lead(ctx context.Context, ticker *time.Ticker, under *sync.WaitGroup) {
	term, resign := context.WithCancel(ctx)
	defer resign()
	o.forget()
	for {
		o.round(term, under)
		if !o.wait(ctx, ticker) || !o.config.Leads() {
			return
		}
	}
}

// forget lets go of what was learnt about endpoints in an earlier term.
func (o *Outbox) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, p := range o.paces {
		if p.flying == 0 {
			delete(o.paces, id)
		}
	}
}

// round sends what is due, as far as there are slots.
func (o *Outbox) round(ctx context.Context, under *sync.WaitGroup) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.config.Now()
	due := o.config.Machine.DueWebhooks(
		o.config.Machine.Clock(now.UnixMilli()), o.slots.quick+o.slots.slow,
		func(endpoint [16]byte) int { return o.paces[endpoint].room(&o.slots, now) },
		func(sequence uint64) bool { return o.flights[sequence] })
	for i := range due {
		d := &due[i]
		p := o.paces[d.Endpoint.ID]
		if p == nil {
			p = &pace{}
			o.paces[d.Endpoint.ID] = p
		}
		slot := o.slots.take(p)
		if slot == nil {
			continue
		}
		o.flights[d.Delivery.Sequence] = true
		p.flying++
		under.Go(func() {
			result := o.deliver(ctx, d)
			o.land(d, result, slot)
		})
	}
	o.trim()
}

// keptPaces bounds how many endpoints the outbox remembers.
const keptPaces = 10_000

// trim forgets endpoints when there are many; what is forgotten is tried carefully again.
func (o *Outbox) trim() {
	if len(o.paces) <= keptPaces {
		return
	}
	for id, p := range o.paces {
		if p.flying == 0 {
			delete(o.paces, id)
		}
	}
}

// land frees the slot of a delivery that has ended. The result is nil where nothing was learnt.
func (o *Outbox) land(d *billing.DueDelivery, result *webhook.Result, slot *int) {
	o.mu.Lock()
	delete(o.flights, d.Delivery.Sequence)
	*slot++
	p := o.paces[d.Endpoint.ID]
	p.flying--
	if result != nil {
		p.learn(result, o.config.Schedule, o.config.Now())
	}
	o.mu.Unlock()
	select {
	case o.landed <- struct{}{}:
	default:
	}
}

// Attempts is how many attempts this process has made, by their outcome's name.
func (o *Outbox) Attempts(each func(outcome string, count uint64)) {
	for i := billing.AttemptDelivered; i <= billing.AttemptExpired; i++ {
		each(i.String(), o.attempts[i].Load())
	}
}
