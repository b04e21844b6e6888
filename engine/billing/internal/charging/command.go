package charging

import (
	"fmt"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/billing/internal/lifecycle"
	"tollgate/engine/billing/internal/rows"
)

// Put carries out a PutBudget.
func (b *Budgets) Put(t *lifecycle.Runner, c *budgets.PutBudget) engine.Outcome {
	e := b.of.Environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	catalog := e.Catalog.Load()
	w := budgets.Known{
		Now:     e.Now(t.Stamp),
		Feature: func(key string) uint32 { return catalog.FeatureByKey[key] },
	}
	if c.Customer != "" {
		if w.Customer = b.of.CustomerNamed(c.Env, []byte(c.Customer)); w.Customer == 0 {
			return engine.OutcomeCustomerUnknown
		}
	}
	names := b.Names(c.Env)
	before := b.Forest.Describe(c.Env, c.Key, names)
	owner, o := b.Forest.Put(&t.Tx, c, w)
	if o != engine.OutcomeDone {
		return o
	}
	if owner != w.Customer {
		b.mark(owner, false)
		b.mark(w.Customer, true)
	}
	after := b.Forest.Describe(c.Env, c.Key, names)
	action := "budget.changed"
	if before == (budgets.Description{}) {
		action = "budget.created"
	}
	t.NoteChange(c.Env, c.Actor, action, c.Key,
		accounts.Changed("name", before.Name, after.Name),
		accounts.Changed("parent", before.Parent, after.Parent),
		accounts.Changed("customer", before.Customer, after.Customer),
		accounts.Changed("limits", before.Limits, after.Limits))
	return engine.OutcomeDone
}

// mark says in a customer's record whether it has a budget of its own.
func (b *Budgets) mark(customer uint32, owns bool) {
	if customer == 0 {
		return
	}
	lock := b.of.WriteLock(customer)
	b.of.Customers.Write(customer).Budgeted = owns
	lock.Unlock()
}

// Names says what budgets refer to by number.
func (b *Budgets) Names(env uint32) budgets.Names {
	return budgets.Names{
		Feature: func(number uint32) string { return b.of.FeatureKey(env, number) },
		Customer: func(row uint32) string {
			return string(b.of.ExternalID(b.of.Customers.Read(row)))
		},
	}
}

// Move carries out a MoveBudget.
func (b *Budgets) Move(t *lifecycle.Runner, c *budgets.MoveBudget) engine.Outcome {
	e := b.of.Environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	if !t.ExpireHolds(e, e.Now(t.Stamp)) {
		return engine.OutcomeDeferred
	}
	before, o := b.Forest.Move(&t.Tx, c, e.Now(t.Stamp))
	if o == engine.OutcomeDone && before != c.Parent {
		t.NoteChange(c.Env, c.Actor, "budget.moved", c.Key,
			accounts.Changed("parent", before, c.Parent))
	}
	return o
}

// Archive carries out an ArchiveBudget.
func (b *Budgets) Archive(t *lifecycle.Runner, c *budgets.ArchiveBudget) engine.Outcome {
	return b.set(t, c.Env, c.Key, c.Actor, func(n *budgets.Node) { n.Archived = true })
}

// Freeze carries out a FreezeBudget.
func (b *Budgets) Freeze(t *lifecycle.Runner, c *budgets.FreezeBudget) engine.Outcome {
	return b.set(t, c.Env, c.Key, c.Actor, func(n *budgets.Node) { n.Frozen = c.Frozen })
}

func (b *Budgets) set(
	t *lifecycle.Runner, env uint32, key, actor string, set func(*budgets.Node),
) engine.Outcome {
	e := b.of.Environment(env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	before, after, o := b.Forest.Set(&t.Tx, env, key, e.Now(t.Stamp), set)
	if o == engine.OutcomeDone && before != after {
		t.NoteChange(env, actor, "budget.changed", key, accounts.Changed("status", before, after))
	}
	return o
}

// Reindex rebuilds what is not state, after a restore.
func (b *Budgets) Reindex() {
	b.Forest.Reindex(func(customer uint32) { b.mark(customer, true) })
}

// Check checks budgets that were restored, and the API keys that are bound to some.
func (b *Budgets) Check() error {
	for _, e := range b.of.Environments.All() {
		for _, slot := range e.Keys.All() {
			if !b.Forest.Has(e.Number, slot.Key.Load().Budget) {
				return fmt.Errorf("%w: an API key is bound to no budget", rows.ErrSnapshot)
			}
		}
	}
	return b.Forest.Check(&budgets.Outside{
		Customer: func(row uint32) (uint32, bool) {
			if row == 0 || row > b.of.Customers.Len() {
				return 0, false
			}
			return b.of.Customers.Read(row).Env, true
		},
		Environment: func(env uint32) bool { return b.of.Environment(env) != nil },
		Feature: func(env, number uint32) bool {
			return b.of.Environment(env).Catalog.Load().Feature(number) != nil
		},
	})
}
