package charging

import (
	"sync"

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
// one that is not known. It allocates nothing. behind is set where CatchUp comes first: where they
// refuse and holds are over that no query has seen yet, or admit and a query that was ahead has
// left out holds that are not over.
func (b *Budgets) Judge(w budgets.For, c *budgets.Charge, now int64, full bool) (
	refused budgets.Refusal, o engine.Outcome, behind bool,
) {
	var at int64
	early := false
	lock := b.Forest.Lock(w.Env)
	lock.RLock()
	node, ok := b.Forest.Choose(&w)
	if ok && node != 0 {
		refused, o = b.Forest.Foresee(node, []budgets.Charge{*c}, now, full)
		at = b.instant(w.Env, now)
		early = budgets.Early(&b.Forest, w.Env, at)
	}
	lock.RUnlock()
	switch {
	case !ok:
		return refused, engine.OutcomeBudgetUnknown, false
	case node == 0 || o == engine.OutcomeDone:
		return refused, engine.OutcomeDone, early
	}
	refused.Feature = b.of.FeatureKey(w.Env, refused.Number)
	return refused, o, budgets.Behind(&b.Forest, w.Env, at)
}

// CatchUp makes queries of an environment at an instant leave out what holds that are over hold.
// Its caller holds no lock: however much that is, Apply goes on.
func (b *Budgets) CatchUp(env uint32, now int64) {
	budgets.CatchUp(&b.Forest, env, b.instant(env, now))
}

// Current locks the budgets of an environment for a query at an instant, for which CatchUp was.
func (b *Budgets) Current(env uint32, now int64) *sync.RWMutex {
	return budgets.Current(&b.Forest, env, b.instant(env, now))
}

// silenceMS is for how many milliseconds no entry comes where something is due and there is no
// leader, and by how many a node's clock may be ahead without freeing holds early for its queries.
const silenceMS = 1000

// instant is when holds are over for a query of an environment at its own instant: that of the
// newest entry, or if that is later, so much before its own: none comes any more.
func (b *Budgets) instant(env uint32, now int64) int64 {
	entry := b.of.Log.Stamp()
	if e := b.of.Environment(env); e != nil {
		entry = e.Now(entry)
	}
	return max(entry, now-silenceMS)
}
