package credits

import (
	"slices"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/decimal"
)

// TopUpView is how a pool is topped up, and what it has bought.
//
//schema:answer billingview TopUp
type TopUpView struct {
	State      TopUpState      `json:"state"`
	Below      decimal.Decimal `json:"below"`
	Amount     decimal.Decimal `json:"amount"`
	Price      decimal.Decimal `json:"price"`
	Currency   string          `json:"currency" rule:"min=3,max=3"`
	MonthlyCap decimal.Decimal `json:"monthlyCap"`
	// Spent is what the purchases of this UTC month come to, the one on its way included.
	Spent           decimal.Decimal `json:"spentThisMonth"`
	CooldownSeconds int64           `json:"cooldownSeconds"`
	PaymentMethod   string          `json:"paymentMethod"`
	ExpiresAfter    uint32          `json:"expiresAfterDays,omitzero"`
	// Pending reports whether a purchase is on its way.
	Pending bool `json:"pending"`
	// Purchase is its id: the provider knows it as topup_ID. Reason is why it is pending.
	Purchase [16]byte `json:"purchase,omitzero"`
	Reason   string   `json:"reason,omitzero" rule:"oneof=awaits_provider|settings_gone"`
	AskedAt  int64    `json:"askedAt,omitzero" as:"time"`
	// WaitsUntil is when the cool-down or the month is over that a purchase waits for.
	WaitsUntil int64 `json:"waitsUntil,omitzero" as:"time"`
	// Failure is why the newest payment failed.
	Failure string `json:"failure,omitzero"`
}

// TopUpView requires the customer's lock. False: the pool never had a rule.
func (s *Vault) TopUpView(pool uint32, now int64) (v TopUpView, found bool) {
	row := s.topUps.of(pool)
	if row == 0 {
		return v, false
	}
	u, words := s.topUps.rules.Read(row), s.topUps.text(row)
	v = TopUpView{
		State: u.State, Below: u.Below, Amount: u.Amount, Price: u.Price, Currency: words.Currency,
		MonthlyCap: u.Cap, Spent: u.spent(now), CooldownSeconds: u.CooldownMS / 1000,
		PaymentMethod: words.Method, ExpiresAfter: u.ExpiryDays, Pending: u.Pending,
		AskedAt: u.AskedAt, WaitsUntil: u.RetryAt, Failure: words.Failed,
	}
	if u.Pending {
		v.Purchase, v.Reason = TopUpID(s.Pools.Read(pool).ID, u.Count), "settings_gone"
		if s.askable(pool, &words.Asked, s.Log.Stamp()) {
			v.Reason = "awaits_provider"
		}
	}
	return v, true
}

// askable reports whether settings are left that the provider can be asked with: those in force of
// the same provider, or the purchase's own while they are kept.
func (s *Vault) askable(pool uint32, o *TopUpOrder, now int64) bool {
	settings := s.Environment(s.Customers.Read(s.Pools.Read(pool).Customer).Env).PaymentSettings()
	return settings.Provider == o.Provider ||
		slices.ContainsFunc(settings.Kept(now), func(k accounts.PaymentSettings) bool {
			return k.Revision == o.Revision
		})
}

// topUpChargesMS is how long the leader may charge for a purchase, with an hour to spare for clocks
// that differ: after 23 hours it only looks for the charge (server/payments).
const topUpChargesMS = accounts.DayMS

// TopUpCharges reports whether the purchase on its way may still be charged for.
func (s *Vault) TopUpCharges(pool uint32, now int64) bool {
	words := s.topUps.text(s.topUps.of(pool))
	return now-words.Asked.Stamp < topUpChargesMS && s.askable(pool, &words.Asked, now)
}

// AskedTopUp is a purchase that is to be paid.
type AskedTopUp struct {
	TopUpOrder
	Env      uint32
	ID, Pool [16]byte
	PoolName string
}

// AskedTopUps lists the purchases that are on their way.
func (s *Vault) AskedTopUps() (all []AskedTopUp) {
	s.topUps.mu.Lock()
	asked := slices.Clone(s.topUps.asked)
	s.topUps.mu.Unlock()
	for _, row := range asked {
		pool := s.topUps.rules.Read(row).Pool
		customer := s.Pools.Read(pool).Customer
		lock := s.ReadLock(customer)
		if u := s.topUps.rules.Read(row); u.Pending {
			all = append(all, AskedTopUp{
				TopUpOrder: s.topUps.text(row).Asked, Env: s.Customers.Read(customer).Env,
				ID: TopUpID(s.Pools.Read(pool).ID, u.Count), Pool: s.Pools.Read(pool).ID,
				PoolName: s.PoolWords(pool).Name,
			})
		}
		lock.RUnlock()
	}
	return all
}
