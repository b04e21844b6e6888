package billing

import (
	"bytes"

	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// LeftTransaction finds a deduction or a reversal by its UUID, in memory or in the journal. It
// returns false if there is none, or if it is too old to be reversed. It waits for the entry that
// is being applied.
func (m *journalReader) LeftTransaction(
	src journal.Source, env uint32, id [16]byte,
) (x credits.LeftTransaction, found bool, err error) {
	held, customer, place := m.leftTransaction(&id)
	s := m.state.Load()
	if customer == 0 || s.Customers.Read(customer).Env != env {
		return x, false, nil
	}
	if place.Index != 0 {
		rows, err := credits.ChunkAt(src, customer, place)
		if err != nil {
			return x, false, err
		}
		for i := range rows.Rows {
			if rows.Rows[i].ID == id {
				held = rows.Rows[i]
			}
		}
	}
	if held.ID != id {
		return x, false, nil
	}
	x.Record = wire.Encode(nil, &held)
	lock := s.ReadLock(customer)
	defer lock.RUnlock()
	x.TransactionView = s.TransactionView(&held)
	return x, true, nil
}

// leftTransaction is the transaction in memory, or its place in the journal.
func (m *journalReader) leftTransaction(
	id *[16]byte,
) (held credits.ArchivedTransaction, customer uint32, place credits.ChunkPlace) {
	m.applying.RLock()
	defer m.applying.RUnlock()
	s := m.state.Load()
	if row := s.TransactionWith(id); row != 0 {
		held = s.HeldTransaction(row)
		return held, s.Pools.Read(held.Pool).Customer, place
	}
	if row := s.TraceWith(id); row != 0 {
		x := s.Traces.Read(row)
		place = s.Chunks.Read(s.ChunkOf(x.Pool, x.Sequence)).Place
		return held, s.Pools.Read(x.Pool).Customer, place
	}
	return held, 0, place
}

// PoolTrouble is which of an environment's pools need attention: Depleted were reported as
// depleted, Failed are no longer topped up. Newest are some of both.
type PoolTrouble struct {
	Depleted, Failed int64
	Newest           []TroubledPool
}

// TroubledPool is a pool that needs attention.
type TroubledPool struct {
	ID               [16]byte
	Name, Customer   string
	Depleted, Failed bool
}

// PoolsInTrouble counts an environment's pools that need attention, and lists so many of the newest
// at most; it looks at no more than scan pools for them.
func (m *customerReader) PoolsInTrouble(env uint32, maximum, scan int) (v PoolTrouble) {
	s := m.state.Load()
	e := s.Environment(env)
	if e == nil {
		return v
	}
	v.Depleted, v.Failed = e.Pools.Depleted.Load(), e.Pools.Failed.Load()
	if v.Depleted+v.Failed == 0 {
		return v
	}
	for row := s.whole.pools.Load(); row > 0 && scan > 0 && len(v.Newest) < maximum; row-- {
		scan--
		p := s.Pools.Read(row)
		if s.Customers.Read(p.Customer).Env != env {
			continue
		}
		lock := s.ReadLock(p.Customer)
		if depleted, failed := s.Trouble(row); depleted || failed {
			v.Newest = append(v.Newest, TroubledPool{
				ID: p.ID, Name: s.PoolWords(row).Name,
				Customer: string(s.ExternalID(s.Customers.Read(p.Customer))),
				Depleted: depleted, Failed: failed,
			})
		}
		lock.RUnlock()
	}
	return v
}

// PoolView is one pool of credits. TotalGranted − TotalConsumed − TotalExpired − TotalReversed is
// Balance.
//
//schema:answer billingview CreditPool
type PoolView struct {
	ID           [16]byte        `json:"id"`
	Name         string          `json:"name"`
	Denomination string          `json:"denomination"`
	Currency     string          `json:"currency" rule:"min=3,max=3"`
	Balance      decimal.Decimal `json:"balance"`
	// Held is what open reservations hold of the balance, Available the rest of it. Held is 0 for a
	// frozen or archived pool, which nevertheless still pays what reservations held of it when it
	// was stopped.
	Held           decimal.Decimal `json:"held"`
	Available      decimal.Decimal `json:"available"`
	TotalGranted   decimal.Decimal `json:"totalGranted"`
	TotalConsumed  decimal.Decimal `json:"totalConsumed"`
	TotalExpired   decimal.Decimal `json:"totalExpired"`
	TotalReversed  decimal.Decimal `json:"totalReversed"`
	HardLimit      bool            `json:"hardLimit"`
	Status         string          `json:"status" rule:"oneof=ACTIVE|FROZEN|DEPLETED|ARCHIVED"`
	RolloverPolicy string          `json:"rolloverPolicy" rule:"oneof=NONE|FULL|CAPPED"`
	HasCap         bool
	RolloverCap    decimal.Decimal `json:"rolloverCap" if:"HasCap"`
	Priority       int64           `json:"priority"`
	CustomerID     [16]byte        `json:"customerId"`
	Customer       string          // the caller's own identifier of the customer
	Metadata       []byte          `json:"metadata,omitzero" as:"object"`
	CreatedAt      int64           `json:"createdAt" as:"time"`
	ModifiedAt     int64           `json:"modifiedAt" as:"time"`
	LowBalance     decimal.Decimal `json:"lowBalance" if:"Watched()" in:"after=priority"`
}

// Watched reports whether the pool has a balance at which it is low.
func (v *PoolView) Watched() bool { return !v.LowBalance.IsZero() }

// GrantView is one live grant.
//
//schema:answer admin Grant
type GrantView struct {
	ID        [16]byte        `json:"id"`
	Type      string          `json:"type" rule:"oneof=PLAN_INCLUDED|PURCHASED|PROMOTIONAL|ROLLOVER|MANUAL|REFUND"`
	Amount    decimal.Decimal `json:"amount"`
	Remaining decimal.Decimal `json:"remaining"`
	Priority  int64           `json:"priority"`
	// SubscriptionID is zero if no plan granted it.
	SubscriptionID [16]byte `json:"subscriptionId,omitzero"`
	CreatedAt      int64    `json:"createdAt" as:"time"`
	// ExpiresAt is 0 if it never expires.
	ExpiresAt int64 `json:"expiresAt,omitzero" as:"time"`
}

// poolView requires the customer's lock.
func (s *state) poolView(row uint32) PoolView {
	p := s.Pools.Read(row)
	c := s.Customers.Read(p.Customer)
	now := s.Environment(c.Env).Now(s.Log.Stamp())
	var words credits.PoolText
	if err := wire.Decode([]byte(s.PoolTexts.Read(row).Data), &words); err != nil {
		panic("billing: a pool's texts in memory do not decode: " + err.Error())
	}
	view := PoolView{
		ID: p.ID, CustomerID: c.ID, Customer: string(s.ExternalID(c)),
		Name: words.Name, Denomination: words.Denomination, Currency: words.Currency,
		TotalGranted: p.Granted, TotalConsumed: p.Consumed,
		TotalExpired: p.Expired, TotalReversed: p.Reversed, RolloverCap: p.RolloverCap,
		HardLimit: p.Hard, HasCap: p.HasCap, RolloverPolicy: p.Policy.String(),
		Priority: int64(p.Priority), Metadata: bytes.Clone(words.Metadata),
		CreatedAt: p.CreatedAt, ModifiedAt: p.ModifiedAt, Balance: p.Balance(),
		LowBalance: words.LowBalance,
	}
	if !p.Archived {
		expiring := s.Expiring(p, now)
		view.TotalExpired = credits.More(p.Expired, expiring)
		view.Balance = s.BalanceAt(p, now)
		view.Held = s.HeldOf(row, now)
	}
	view.Available = sums.Difference(view.Balance, view.Held)
	view.Status = p.Status(view.Balance)
	return view
}

// Pools lists a customer's pools, oldest first, archived ones too.
func (m *customerReader) Pools(customerRow uint32) []PoolView {
	s := m.state.Load()
	views := []PoolView{}
	if customerRow == 0 || customerRow > s.Customers.Len() {
		return views
	}
	lock := s.ReadLock(customerRow)
	defer lock.RUnlock()
	for row := s.FirstPool(customerRow); row != 0; row = s.Pools.Read(row).Next {
		views = append(views, s.poolView(row))
	}
	return views
}

// Pool finds a pool by its UUID.
func (m *customerReader) Pool(env uint32, id [16]byte) (PoolView, bool) {
	s := m.state.Load()
	row := s.PoolIn(env, &id)
	if row == 0 {
		return PoolView{}, false
	}
	lock := s.ReadLock(s.Pools.Read(row).Customer)
	defer lock.RUnlock()
	return s.poolView(row), true
}

// Grants lists a pool's live grants in burn order.
func (m *customerReader) Grants(env uint32, pool [16]byte) ([]GrantView, bool) {
	s := m.state.Load()
	row := s.PoolIn(env, &pool)
	if row == 0 {
		return nil, false
	}
	p := s.Pools.Read(row)
	lock := s.ReadLock(p.Customer)
	defer lock.RUnlock()
	now := s.Environment(env).Now(s.Log.Stamp())
	views := []GrantView{}
	for _, g := range s.GrantsOf(p) {
		if g.Expired(now) && !p.Archived {
			continue
		}
		views = append(views, s.grantView(g))
	}
	return views, true
}

func (s *state) grantView(g *credits.Grant) GrantView {
	view := GrantView{
		ID: g.ID, Type: g.Kind.String(), Amount: g.Amount, Remaining: g.Remaining,
		Priority: int64(g.Priority), CreatedAt: g.CreatedAt, ExpiresAt: g.ExpiresAt,
	}
	if g.Subscription != 0 {
		view.SubscriptionID = s.Subscriptions.Read(g.Subscription).ID
	}
	return view
}

// TopUp returns how a pool is topped up; false if it never was told to be.
func (m *customerReader) TopUp(env uint32, pool [16]byte) (credits.TopUpView, bool) {
	s := m.state.Load()
	row := s.PoolIn(env, &pool)
	if row == 0 {
		return credits.TopUpView{}, false
	}
	lock := s.ReadLock(s.Pools.Read(row).Customer)
	defer lock.RUnlock()
	return s.TopUpView(row, s.Environment(env).Now(s.Log.Stamp()))
}

// AskedTopUps lists the purchases of credits that are to be paid.
func (m *customerReader) AskedTopUps() []credits.AskedTopUp { return m.state.Load().AskedTopUps() }

// TopUpID is the id of a pool's n-th automatic purchase, from 1, and of its grant.
func TopUpID(pool [16]byte, n uint32) [16]byte { return credits.TopUpID(pool, n) }
