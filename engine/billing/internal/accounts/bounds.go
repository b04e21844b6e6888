package accounts

import (
	"sync/atomic"

	"tollgate/engine"
	"tollgate/engine/billing/internal/catalogs"
)

// Bounds limit the records of each kind that one account may hold, in both environments together:
// every node has all of them in memory. 0 is the default.
type Bounds struct {
	// Customers counts all customers, archived ones included, Keys those in use, Catalog features,
	// plans and their versions, Endpoints those of webhooks.
	Customers, Keys, Catalog, Endpoints uint64
}

// DefaultBounds apply unless SetLimits names others.
var DefaultBounds = Bounds{
	Customers: 10_000_000, Keys: 2 * MaxAPIKeys, Catalog: 100_000, Endpoints: 2 * MaxWebhookEndpoints,
}

// Bounds returns the bounds in force.
func (l *Limits) Bounds() Bounds {
	b := Bounds{l.AccountCustomers, l.AccountKeys, l.AccountCatalog, l.AccountEndpoints}
	b.Or(&DefaultBounds)
	return b
}

// Or replaces zeros by defaults.
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

// held counts an account's customers, and the reservations that are kept of it; only Apply writes
// it.
type held struct{ Customers, Reservations atomic.Uint64 }

// Use is what an account holds. Callers outside Apply hold the outbox's lock.
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

// TakesCatalog reports whether an environment's account may have this catalog there. A catalog no
// larger than the present one always may.
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

// both adds the numbers of an environment and of its account's other one.
func (s *Directory) both(e *Environment, of func(*Environment) uint64) uint64 {
	return of(s.Environment(e.Account.number)) + of(s.Environment(e.Account.number+1))
}
