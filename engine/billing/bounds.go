package billing

import (
	"sync/atomic"

	"tollgate/engine"
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
	b.or(&DefaultBounds)
	return b
}

// or fills in what is 0.
func (b *Bounds) or(other *Bounds) {
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
type held struct{ customers atomic.Uint64 }

// use is what an account holds. Where another goroutine than Apply's asks, it holds the outbox's
// lock.
func (s *directory) use(a *account) (b Bounds) {
	b.Customers = a.held.customers.Load()
	for _, e := range [...]*environment{s.environment(a.number), s.environment(a.number + 1)} {
		b.Keys += uint64(e.keysInUse())
		b.Catalog += e.catalog.Load().size()
		b.Endpoints += uint64(len(e.hooks))
	}
	return b
}

// size counts what a catalog holds.
func (c *catalog) size() uint64 {
	return uint64(len(c.features) + len(c.plans) + len(c.versions))
}

// takesCustomer reports whether the account of an environment may have one more customer.
func (t *tx) takesCustomer(e *environment) engine.Outcome {
	if e.account.held.customers.Load() >= t.s.limits.Load().Bounds().Customers {
		return engine.OutcomeCustomerLimit
	}
	return engine.OutcomeDone
}

// takesKey reports whether the account of an environment may have one more key in use.
func (t *tx) takesKey(e *environment) engine.Outcome {
	if t.s.both(e, func(e *environment) uint64 {
		return uint64(e.keysInUse())
	}) >= t.s.limits.Load().Bounds().Keys {
		return engine.OutcomeKeyLimit
	}
	return engine.OutcomeDone
}

// takesCatalog reports whether the account of an environment may have a catalog there. One that is
// no larger than the present one always may.
func (t *tx) takesCatalog(e *environment, next *catalog) engine.Outcome {
	now := e.catalog.Load().size()
	if next.size() <= now {
		return engine.OutcomeDone
	}
	all := t.s.both(e, func(e *environment) uint64 { return e.catalog.Load().size() })
	if all-now+next.size() > t.s.limits.Load().Bounds().Catalog {
		return engine.OutcomeCatalogLimit
	}
	return engine.OutcomeDone
}

// takesEndpoint reports whether the account of an environment may have one more webhook endpoint.
func (t *tx) takesEndpoint(e *environment) engine.Outcome {
	if t.s.both(e, func(e *environment) uint64 {
		return uint64(len(e.hooks))
	}) >= t.s.limits.Load().Bounds().Endpoints {
		return engine.OutcomeEndpointLimit
	}
	return engine.OutcomeDone
}

// both adds up a number of an environment and of its account's other one.
func (s *directory) both(e *environment, of func(*environment) uint64) uint64 {
	return of(s.environment(e.account.number)) + of(s.environment(e.account.number+1))
}

// Use is what an account holds, and may hold; false when there is no such account.
func (m *Machine) Use(account string) (use, bounds Bounds, ok bool) {
	s := m.state.Load()
	a, ok := s.accountNamed(account)
	if !ok {
		return use, bounds, false
	}
	s.outbox.mu.RLock()
	defer s.outbox.mu.RUnlock()
	return s.use(a), s.limits.Load().Bounds(), true
}
