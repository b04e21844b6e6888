package charging

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/billing/internal/lifecycle"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
)

// Hold is what units that are held count, at the dearest price that they can meet wherever usage is
// accepted until an instant: behind what is billed there, in the present period and in closed ones,
// and where the next one has begun by then, from its start on. False: the price is beyond the range
// of numbers.
func (b *Budgets) Hold(u *Usage, until int64) (c budgets.Charge, ok bool) {
	c = budgets.Charge{Feature: u.Feature, Units: u.Units, Cost: u.Cost}
	f := u.Place.Feature
	if f == nil {
		return c, true
	}
	from, s := decimal.Decimal{}, b.of.Subscriptions.Read(u.Place.Subscription)
	b.setCurrency(&c, u.Env, s.Version)
	if until < s.PeriodEnd {
		from = b.of.MinBilled(u.Place)
	}
	c.Price, ok = lifecycle.Dearest(f, from, sums.Difference(u.Units, u.Covered))
	return c, ok
}

// AskHold is Ask of what is to be held at a node. What is given up stands before what is added.
func (b *Budgets) AskHold(
	t *lifecycle.Runner, env, node uint32, charges []budgets.Charge, now int64,
) engine.Outcome {
	if !b.Forest.Holdable(node, charges) {
		return engine.OutcomeOverflow
	}
	return b.Ask(t, env, node, charges, now)
}

// Settle is the charge of usage that was held at a node, or where that is 0, of usage that was held
// nowhere. Limits are not asked.
func (b *Budgets) Settle(node uint32, u *Usage) (*Charge, engine.Outcome) {
	if node == 0 {
		node = b.Forest.Own(u.Customer)
	}
	if node == 0 {
		return nil, engine.OutcomeDone
	}
	c := &b.charge
	c.asked = false
	if c.Node, c.env = node, u.Env; !b.value(u, &c.Charge) {
		return nil, engine.OutcomeOverflow
	}
	return c, engine.OutcomeDone
}
