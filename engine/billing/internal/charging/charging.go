// Package charging counts customers' usage in their budgets. It knows what usage adds to the bill,
// and at which budget it counts; package budgets knows what that means for limits. See DESIGN.md.
package charging

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/billing/internal/lifecycle"
	"tollgate/engine/billing/internal/outbox"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
)

// Budgets are the budgets of all environments, with the customers whose usage they count.
type Budgets struct {
	Forest budgets.Forest
	of     *lifecycle.Projector
	charge Charge // of the event that Apply is at
}

// Open makes the tables.
func (b *Budgets) Open(of *lifecycle.Projector) {
	b.of = of
	b.Forest.Open(of.Store)
	b.Forest.Wanted = func(env uint32) bool {
		return of.Environment(env).Wants(accounts.WebhookBudgetThreshold)
	}
}

// Prefetch asks for the first limit of a customer's own budget.
func (b *Budgets) Prefetch(customer uint32) { budgets.Prefetch(&b.Forest, customer) }

// For says whom usage is for.
type For = budgets.For

// Usage is a usage event that was placed, priced and counted, and is not in the state yet.
type Usage struct {
	budgets.For
	Feature uint32
	Place   book.Place
	// Ahead reports whether it belongs to the next period. Late is the projection that has counted
	// it, at Spot, where it belongs to a span that is closed; nil: it belongs to the present one.
	Ahead bool
	Late  *lifecycle.Projection
	Spot  lifecycle.Spot
	// Covered are those of Units that credits pay.
	Units, Covered, Cost decimal.Decimal
	Now                  int64
}

// Charge is what usage counts at a node.
type Charge struct {
	Node uint32
	budgets.Charge
	// Record is for the event's journal record, once it is counted.
	Record []byte
	asked  bool // limits were asked, last of all
	env    uint32
}

// Plan finds where usage counts, and asks the limits there. It changes nothing: the caller has let
// reservations expire that are over. Nil: it counts in no budget. A refusal is in the reply. The
// charge is valid until the next Plan.
func (b *Budgets) Plan(t *lifecycle.Runner, u *Usage) (*Charge, engine.Outcome) {
	node, ok := b.Forest.Choose(&u.For)
	switch {
	case !ok:
		return nil, engine.OutcomeBudgetUnknown
	case node == 0:
		return nil, engine.OutcomeDone
	}
	c := &b.charge
	if c.Node, c.env = node, u.Env; !b.value(u, &c.Charge) {
		return nil, engine.OutcomeOverflow
	}
	c.asked = true
	refused, o := b.Forest.Ask(node, &c.Charge, u.Now)
	if refused != nil {
		b.refuse(t, u.Env, *refused)
	}
	return c, o
}

// Ask is Plan of charges at a node.
func (b *Budgets) Ask(
	t *lifecycle.Runner, env, node uint32, charges []budgets.Charge, now int64,
) engine.Outcome {
	refused, o := b.Forest.Plan(node, charges, now)
	if o != engine.OutcomeDone {
		b.refuse(t, env, refused)
	}
	return o
}

// refuse answers with the limit that refuses.
func (b *Budgets) refuse(t *lifecycle.Runner, env uint32, refused budgets.Refusal) {
	refused.Index = t.Index
	refused.Feature = b.of.FeatureKey(env, refused.Number)
	t.Answer(&refused)
}

// value sets what usage counts. False: it is beyond the range of numbers.
func (b *Budgets) value(u *Usage, c *budgets.Charge) (ok bool) {
	c.Feature, c.Units, c.Cost = u.Feature, u.Units, u.Cost
	c.Currency, c.Price = [3]byte{}, decimal.Exact{}
	f := u.Place.Feature
	if f == nil {
		return true
	}
	if u.Late == nil {
		c.Currency = f.Currency
		c.Price, ok = lifecycle.Added(f, b.of.Billed(u.Place, u.Ahead), unpaid(u))
		return ok
	}
	version := b.of.Subscriptions.Read(u.Place.Subscription).Version
	billed, f := u.Late.Billed(u.Spot, u.Feature) // which has counted all units
	if u.Spot.Closed != nil {
		version = u.Spot.Closed.Version
	}
	b.setCurrency(c, u.Env, version)
	c.Price, ok = lifecycle.Added(f, sums.Difference(billed, u.Units), unpaid(u))
	return ok
}

// unpaid are the units that no credits pay.
func unpaid(u *Usage) decimal.Decimal {
	if u.Covered.IsZero() {
		return u.Units
	}
	return sums.Difference(u.Units, u.Covered)
}

// setCurrency sets the currency of a plan version.
func (b *Budgets) setCurrency(c *budgets.Charge, env, version uint32) {
	copy(c.Currency[:], b.of.Environment(env).Catalog.Load().Version(version).Currency)
}

// Count counts usage at its node, and tells which thresholds it has reached.
func (b *Budgets) Count(t *lifecycle.Runner, customer uint32, c *Charge, now int64) {
	var crossed []budgets.Crossing
	c.Record, crossed = b.Forest.Charge(&t.Tx, c.env, c.Node, &c.Charge, now, c.asked, c.Record[:0])
	for i := range crossed {
		b.emit(t, customer, &crossed[i], now)
	}
}

// emit queues a message about a threshold that was reached.
func (b *Budgets) emit(t *lifecycle.Runner, customer uint32, x *budgets.Crossing, at int64) {
	e := b.of.Environment(b.of.Customers.Read(customer).Env)
	t.Emit(e, customer, &outbox.WebhookMessage{
		Type: accounts.WebhookBudgetThreshold, At: at, PeriodStart: x.Start, PeriodEnd: x.End,
		ToldLimit: outbox.ToldLimit{
			FeatureKey: b.of.FeatureKey(e.Number, x.Number), Used: x.Used, Limit: x.Limit,
			HardLimit: !x.Soft,
		},
		ToldBudget: outbox.ToldBudget{
			BudgetKey: x.Budget, BudgetName: x.Name, LimitOf: x.Of.String(),
			Window: x.Window.String(), LimitIn: x.Currency, Held: x.Held, Percent: x.Percent,
		},
	})
}
