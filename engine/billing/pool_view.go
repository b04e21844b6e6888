package billing

import (
	"bytes"

	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// PoolView is one pool of credits. TotalGranted − TotalConsumed − TotalExpired − TotalReversed is
// Balance.
type PoolView struct {
	ID, CustomerID                           [16]byte
	Customer                                 string // the caller's own identifier of the customer
	Name, Denomination, Currency             string
	Balance, TotalGranted, TotalConsumed     decimal.Decimal
	TotalExpired, TotalReversed, RolloverCap decimal.Decimal
	HardLimit, HasCap                        bool
	Status                                   string // ACTIVE, FROZEN, DEPLETED, ARCHIVED
	RolloverPolicy                           string // NONE, FULL, CAPPED
	Priority                                 int64
	Metadata                                 []byte // compact JSON object, nil when absent
	CreatedAt, ModifiedAt                    int64
}

// GrantView is one live grant.
type GrantView struct {
	ID                   [16]byte
	Type                 string
	Amount, Remaining    decimal.Decimal
	Priority             int64
	SubscriptionID       [16]byte // zero where no plan granted it
	CreatedAt, ExpiresAt int64    // ExpiresAt 0: never
}

// poolView must be called under the customer's lock.
func (s *state) poolView(row uint32) PoolView {
	p := s.pools.Read(row)
	c := s.customers.Read(p.customer)
	now := s.environment(c.env).now(s.log.Stamp())
	var words poolText
	if err := wire.Decode([]byte(s.poolTexts.Read(row).Data), &words); err != nil {
		panic("billing: a pool's texts in memory do not decode: " + err.Error())
	}
	view := PoolView{
		ID: p.id, CustomerID: c.id, Customer: string(s.externalID(c)),
		Name: words.Name, Denomination: words.Denomination, Currency: words.Currency,
		TotalGranted: p.granted, TotalConsumed: p.consumed,
		TotalExpired: p.expired, TotalReversed: p.reversed, RolloverCap: p.rolloverCap,
		HardLimit: p.hard, HasCap: p.hasCap, RolloverPolicy: p.policy.String(),
		Priority: int64(p.priority), Metadata: bytes.Clone(words.Metadata),
		CreatedAt: p.createdAt, ModifiedAt: p.modifiedAt, Balance: p.balance(),
	}
	if !p.archived {
		expiring := s.expiring(p, now)
		view.TotalExpired = more(p.expired, expiring)
		view.Balance = s.balanceAt(p, now)
	}
	view.Status = p.status(view.Balance)
	return view
}

// Pools lists a customer's pools, oldest first, archived ones too.
func (m *Machine) Pools(customerRow uint32) []PoolView {
	s := m.state.Load()
	views := []PoolView{}
	if customerRow == 0 || customerRow > s.customers.Len() {
		return views
	}
	lock := s.stripe(customerRow)
	lock.RLock()
	defer lock.RUnlock()
	for row := s.firstPool(customerRow); row != 0; row = s.pools.Read(row).next {
		views = append(views, s.poolView(row))
	}
	return views
}

// Pool finds a pool by its UUID.
func (m *Machine) Pool(env uint32, id [16]byte) (PoolView, bool) {
	s := m.state.Load()
	row := s.poolIn(env, &id)
	if row == 0 {
		return PoolView{}, false
	}
	lock := s.stripe(s.pools.Read(row).customer)
	lock.RLock()
	defer lock.RUnlock()
	return s.poolView(row), true
}

// Grants lists a pool's live grants in burn order.
func (m *Machine) Grants(env uint32, pool [16]byte) ([]GrantView, bool) {
	s := m.state.Load()
	row := s.poolIn(env, &pool)
	if row == 0 {
		return nil, false
	}
	p := s.pools.Read(row)
	lock := s.stripe(p.customer)
	lock.RLock()
	defer lock.RUnlock()
	now := s.environment(env).now(s.log.Stamp())
	views := []GrantView{}
	for _, g := range s.grantsOf(p) {
		if g.Expired(now) && !p.archived {
			continue
		}
		views = append(views, s.grantView(g))
	}
	return views, true
}

func (s *state) grantView(g *grant) GrantView {
	view := GrantView{
		ID: g.ID, Type: g.kind.String(), Amount: g.amount, Remaining: g.Remaining,
		Priority: int64(g.Priority), CreatedAt: g.CreatedAt, ExpiresAt: g.ExpiresAt,
	}
	if g.subscription != 0 {
		view.SubscriptionID = s.subscriptions.Read(g.subscription).id
	}
	return view
}
