package billing_test

import (
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// heldPool is ada's pool of credits, with the balance that it had and what was told of it.
type heldPool struct {
	id      [16]byte
	balance decimal.Decimal
	seen    map[[16]byte]bool
	// failed is how many purchases were not paid, of which all are told.
	failed, toldFailed int
}

const (
	heldLow   = 85 // the balance at which the pool is low
	heldBelow = 80 // it buys when less is free
	heldCap   = 15 // what its purchases of a month may cost
)

// fund makes ada's pool tell when it is low, and buy credits.
func (h *heldHistory) fund() {
	h.pool = heldPool{id: h.m.Pools(1)[0].ID, seen: map[[16]byte]bool{}}
	h.pool.balance = h.m.Pools(1)[0].Balance
	done := func(r engine.Result) { require.Equal(h, engine.OutcomeDone, r.Outcome) }
	done(h.do(billing.KindSetLowBalance, &billing.SetLowBalance{
		Env: enginetest.Sandbox, ID: h.pool.id, LowBalance: decimal.FromInt(heldLow),
	}))
	done(h.do(billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
		Env: enginetest.Sandbox, Provider: "sandbox",
	}))
	h.tops()
}

func (h *heldHistory) tops() {
	r := h.do(billing.KindSetTopUp, &billing.SetTopUp{
		Env: enginetest.Sandbox, ID: h.pool.id, Below: decimal.FromInt(heldBelow),
		Amount: decimal.FromInt(10), Price: decimal.FromInt(5), MonthlyCap: decimal.FromInt(heldCap),
		CooldownMS: 60_000, Method: "card",
	})
	require.Equal(h, engine.OutcomeDone, r.Outcome)
}

// Buy pays the purchase that is on its way, or does not; without one the pool's rule is set again.
func (h *heldHistory) Buy(*rapid.T) {
	asked := h.m.AskedTopUps()
	if len(asked) == 0 {
		h.tops()
		return
	}
	paid := rapid.Bool().Draw(h.T, "paid")
	r := h.do(billing.KindRecordTopUp, &billing.RecordTopUp{
		Env: enginetest.Sandbox, Pool: h.pool.id, ID: asked[0].ID, Paid: paid, Code: "declined",
	})
	require.Equal(h, engine.OutcomeDone, r.Outcome)
	v, _ := h.m.TopUp(enginetest.Sandbox, h.pool.id)
	require.False(h, v.Pending && v.Purchase == asked[0].ID)
	if !paid {
		h.pool.failed++
		require.Equal(h, billing.TopUpFailed, v.State)
		require.Equal(h, "declined", v.Failure)
	}
}

// checkPool: a balance that comes down to the low one is told once, each failed purchase is told,
// and a pool of which less is free than its rule says buys, or waits, within the cap.
func (h *heldHistory) checkPool() {
	p, found := h.m.Pool(enginetest.Sandbox, h.pool.id)
	require.True(h, found)
	require.False(h, p.Balance.Less(p.Held), "%s of %s are held", p.Held, p.Balance)
	page, _, ok := h.m.WebhookDeliveries(&billing.DeliveryQuery{
		Env: enginetest.Sandbox, Endpoint: enginetest.ID("hook"), Limit: 100,
	})
	require.True(h, ok)
	low := 0
	for i := range page {
		if id := page[i].ID; !h.pool.seen[id] && page[i].Message.PoolID == h.pool.id {
			h.pool.seen[id] = true
			switch page[i].Message.Type {
			case billing.WebhookCreditsLow:
				low++
			case billing.WebhookTopUpFailed:
				h.pool.toldFailed++
			}
		}
	}
	require.Equal(h, h.pool.failed, h.pool.toldFailed)
	is := func(balance decimal.Decimal) bool { return !decimal.FromInt(heldLow).Less(balance) }
	switch was := is(h.pool.balance); {
	case !was && is(p.Balance):
		require.Equal(h, 1, low, "%s, then %s", h.pool.balance, p.Balance)
	case was && is(p.Balance): // it may have been above in between
		require.LessOrEqual(h, low, 1)
	default:
		require.Zero(h, low, "%s, then %s", h.pool.balance, p.Balance)
	}
	h.pool.balance = p.Balance

	v, found := h.m.TopUp(enginetest.Sandbox, h.pool.id)
	require.True(h, found)
	require.False(h, decimal.FromInt(heldCap).Less(v.Spent))
	if v.State == billing.TopUpOn && !v.Pending && v.WaitsUntil == 0 {
		require.False(h, without(p.Balance, p.Held).Less(decimal.FromInt(heldBelow)),
			"%s of %s are held", p.Held, p.Balance)
	}
}
