// Package outbox sends the pending webhook messages of the replicated outbox while this node leads,
// and records the result of each attempt in the log. See DESIGN.md.
package outbox

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/leader"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/mail"
	"tollgate/server/provider/webhook"
	"tollgate/server/vault"
)

// Config holds the outbox's dependencies.
type Config struct {
	Machine  *billing.Machine
	Proposer server.Proposer
	// Fetch is the guarded client that reaches endpoints.
	Fetch *fetch.Client
	// Mail sends the messages of endpoints that are mail addresses; nil refuses them.
	Mail mail.Sender
	// SealKey seals the endpoints' secrets in the log; the same on every node.
	SealKey [32]byte
	// Leads reports whether this node leads, with everything of earlier terms applied, and its term.
	Leads func() (term uint64, ok bool)
	// Schedule is the waits between attempts, two or more; webhook.Patient when nil.
	Schedule webhook.Schedule
	// Look is how often the outbox looks for messages; 100 ms when 0.
	Look time.Duration
	// Now is the node's clock; time.Now when nil.
	Now func() time.Time
	Log *slog.Logger
}

// Outbox sends webhook messages. It is safe for concurrent use.
type Outbox struct {
	config Config
	vault  *vault.Vault
	sender *webhook.Sender

	// paces, by endpoint, and slots are the loop's.
	paces map[[16]byte]*pace
	slots slots

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
	c.Look = cmp.Or(c.Look, 100*time.Millisecond)
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	return &Outbox{
		config: c, vault: vault.New(c.SealKey, "tollgate webhook secrets"),
		sender: webhook.NewSender(c.Fetch, c.Now),
		paces:  map[[16]byte]*pace{}, slots: slots{quick: quickSlots, slow: slowSlots},
	}, nil
}

// flight is a delivery that is due or being sent. The result is nil if there is none.
type flight struct {
	*billing.DueDelivery
	result *webhook.Result
}

// Run sends messages whenever this node leads, until ctx ends. It returns once no delivery is in
// progress. Deliveries in progress when this node stops leading are cancelled: the next leader
// sends them again.
func (o *Outbox) Run(ctx context.Context) {
	loop := leader.Loop[uint64, *flight]{
		Leads: o.config.Leads, Every: o.config.Look, Due: o.due, Take: o.take, OfTerm: true,
		// Knowledge about endpoints from an earlier term is forgotten.
		Begin: func() { o.trim(0) },
		Do: func(ctx context.Context, _ uint64, f *flight, _ int) (time.Duration, bool) {
			f.result = o.deliver(ctx, f.DueDelivery)
			return 0, false
		},
	}
	loop.Run(ctx)
}

// due offers messages that can be sent, up to the free slots.
func (o *Outbox) due(idle func(uint64) bool, offer func(uint64, *flight)) {
	o.trim(keptPaces)
	now := o.config.Now()
	due := o.config.Machine.DueWebhooks(
		o.config.Machine.Clock(now.UnixMilli()), o.slots.quick+o.slots.slow,
		func(endpoint [16]byte) int { return o.paces[endpoint].room(&o.slots, now) },
		func(sequence uint64) bool { return !idle(sequence) })
	for i := range due {
		offer(due[i].Delivery.Sequence, &flight{DueDelivery: &due[i]})
	}
}

// take takes a slot for a delivery.
func (o *Outbox) take(f *flight) (land func(), ok bool) {
	p := o.paces[f.Endpoint.ID]
	if p == nil {
		p = &pace{}
		o.paces[f.Endpoint.ID] = p
	}
	slot := o.slots.take(p)
	if slot == nil {
		return nil, false
	}
	p.flying++
	return func() {
		*slot++
		p.flying--
		if f.result != nil {
			p.learn(f.result, o.config.Schedule, o.config.Now())
		}
	}, true
}

// keptPaces is how many endpoints the outbox remembers.
const keptPaces = 10_000

// trim forgets endpoints beyond a number; forgotten ones start again with one attempt at a time.
func (o *Outbox) trim(above int) {
	if len(o.paces) > above {
		maps.DeleteFunc(o.paces, func(_ [16]byte, p *pace) bool { return p.flying == 0 })
	}
}

// Attempts is how many attempts this process has made, by their outcome's name.
func (o *Outbox) Attempts(each func(outcome string, count uint64)) {
	for i := billing.AttemptDelivered; i <= billing.AttemptExpired; i++ {
		each(i.String(), o.attempts[i].Load())
	}
}
