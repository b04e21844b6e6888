package charging

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/lifecycle"
	"tollgate/engine/billing/internal/sums"
)

// Foresee is what usage would count: of a place, or of none. The customer's lock is held. Purse is
// what there is of the place's credits, where it is credited.
func (b *Budgets) Foresee(u *Usage, purse *credits.Purse) (c budgets.Charge) {
	c.Feature = u.Feature
	if !u.Place.Found() {
		return c
	}
	b.setCurrency(&c, u.Env, b.of.Subscriptions.Read(u.Place.Subscription).Version)
	if u.Units.IsZero() {
		return c
	}
	c.Units = u.Units
	if f := b.of.Environment(u.Env).Catalog.Load().Feature(c.Feature); f.Document.HasCost {
		c.Cost, _ = u.Units.Mul(f.Document.CostPerUnit)
	}
	units := u.Units
	if u.Place.Credited() {
		units = sums.Remaining(units, purse.Coverable(units, &u.Place.Feature.Credits))
	}
	c.Price, _ = lifecycle.Added(u.Place.Feature, b.of.Billed(u.Place, false), units)
	return c
}

// Judge decides whether budgets admit a charge, and with full set also whether they have room for
// one that is not known. It allocates nothing, unless holds are over that no query has seen yet.
func (b *Budgets) Judge(w budgets.For, c *budgets.Charge, now int64, full bool) (
	refused budgets.Refusal, o engine.Outcome,
) {
	lock := b.Forest.Lock(w.Env)
	lock.RLock()
	node, ok := b.Forest.Choose(w)
	if ok && node != 0 {
		refused, o = b.Forest.Foresee(node, []budgets.Charge{*c}, now, full)
	}
	lock.RUnlock()
	if o != engine.OutcomeDone && budgets.Behind(&b.Forest, w.Env, now) {
		budgets.CatchUp(&b.Forest, w.Env, now)
		return b.Judge(w, c, now, full)
	}
	switch {
	case !ok:
		return refused, engine.OutcomeBudgetUnknown
	case node == 0:
		return refused, engine.OutcomeDone
	case o != engine.OutcomeDone:
		refused.Feature = b.of.FeatureKey(w.Env, refused.Number)
	}
	return refused, o
}
