package accounts

import (
	"sync/atomic"

	"tollgate/engine"
	"tollgate/engine/billing/internal/catalogs"
)

// Bounds are how many records of a kind one account may hold, in both environments together: all of
// them are in the memory of every node. 0 stands for the default.
type Bounds struct {
	// Customers counts all that were created, archived ones included. Keys are those in use.
	// Catalog counts features, plans and their versions. Endpoints are those of webhooks.
	Customers, Keys, Catalog, Endpoints uint64
}

// DefaultBounds are in force where SetLimits names no others.
var DefaultBounds = Bounds{
	Customers: 10_000_000, Keys: 2 * MaxAPIKeys, Catalog: 100_000, Endpoints: 2 * MaxWebhookEndpoints,
}

// Bounds are those in force.
func (l *Limits) Bounds() Bounds {
	b := Bounds{l.AccountCustomers, l.AccountKeys, l.AccountCatalog, l.AccountEndpoints}
	b.Or(&DefaultBounds)
	return b
}

// Or fills in what is 0.
func (b *Bounds) Or(other *Bounds) {
	for _, v := range [...]struct {
		to   *uint64
		from uint64
	}{
		{&b.Customers, other.Customers},
		{&b.Keys, other.Keys},
		{&b.Catalog, other.Catalog},
		{&b.Endpoints, other.Endpoints},
	} {
		if *v.to == 0 {
			*v.to = v.from
		}
	}
}

// held counts an account's customers; only Apply writes it.
type held struct{ Customers atomic.Uint64 }

// Use is what an account holds. Where another goroutine than Apply's asks, it holds the outbox's
// lock.
func (s *Directory) Use(a *Account) (b Bounds) {
	b.Customers = a.Held.Customers.Load()
	for _, e := range [...]*Environment{s.Environment(a.number), s.Environment(a.number + 1)} {
		b.Keys += uint64(e.KeysInUse())
		b.Catalog += e.Catalog.Load().Size()
		b.Endpoints += uint64(len(e.Hooks))
	}
	return b
}

// TakesCustomer reports whether the account of an environment may have one more customer.
func (t *Tx) TakesCustomer(e *Environment) engine.Outcome {
	if e.Account.Held.Customers.Load() >= t.S.Limits.Load().Bounds().Customers {
		return engine.OutcomeCustomerLimit
	}
	return engine.OutcomeDone
}

// TakesKey reports whether the account of an environment may have one more key in use.
func (t *Tx) TakesKey(e *Environment) engine.Outcome {
	if t.S.both(e, func(e *Environment) uint64 {
		return uint64(e.KeysInUse())
	}) >= t.S.Limits.Load().Bounds().Keys {
		return engine.OutcomeKeyLimit
	}
	return engine.OutcomeDone
}

// TakesCatalog reports whether the account of an environment may have a catalog there. One that is
// no larger than the present one always may.
func (t *Tx) TakesCatalog(e *Environment, next *catalogs.Catalog) engine.Outcome {
	now := e.Catalog.Load().Size()
	if next.Size() <= now {
		return engine.OutcomeDone
	}
	all := t.S.both(e, func(e *Environment) uint64 { return e.Catalog.Load().Size() })
	if all-now+next.Size() > t.S.Limits.Load().Bounds().Catalog {
		return engine.OutcomeCatalogLimit
	}
	return engine.OutcomeDone
}

// TakesEndpoint reports whether the account of an environment may have one more webhook endpoint.
func (t *Tx) TakesEndpoint(e *Environment) engine.Outcome {
	if t.S.both(e, func(e *Environment) uint64 {
		return uint64(len(e.Hooks))
	}) >= t.S.Limits.Load().Bounds().Endpoints {
		return engine.OutcomeEndpointLimit
	}
	return engine.OutcomeDone
}

// both adds up a number of an environment and of its account's other one.
func (s *Directory) both(e *Environment, of func(*Environment) uint64) uint64 {
	return of(s.Environment(e.Account.number)) + of(s.Environment(e.Account.number+1))
}
