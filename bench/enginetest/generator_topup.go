package enginetest

import (
	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// TopUpCap is what drawn top-ups may spend in a month.
const TopUpCap = 30

// TopUpPools are the pools that are drawn.
func TopUpPools() [][16]byte { return [][16]byte{ID("pool a"), ID("pool b"), ID("pool c")} }

// topUp draws a command about automatic top-ups. Purchases are paid, or not, that are on their way,
// are over, or never were.
func (g *generator) topUp() engine.Record {
	pool := sample(g.t, "pool", TopUpPools()...)
	switch rapid.IntRange(0, 9).Draw(g.t, "top-up") {
	case 0, 1, 2, 3:
		return record(billing.KindSetTopUp, &billing.SetTopUp{
			Env: g.env(), ID: pool, Below: sample(g.t, "below", decimal.FromInt(5), decimal.FromInt(60)),
			Amount: g.amount(), Price: sample(g.t, "price", decimal.FromInt(10), decimal.FromInt(20)),
			MonthlyCap: decimal.FromInt(TopUpCap), CooldownMS: 60_000, Method: "card",
			ExpiresAfterDays: sample[uint32](g.t, "days", 0, 1), Actor: g.pick("actor", "", "admin"),
		})
	case 4:
		return record(billing.KindStopTopUp, &billing.StopTopUp{Env: g.env(), ID: pool})
	case 5:
		return record(billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
			Env: Sandbox, Provider: g.pick("provider", "sandbox", "sandbox", billing.ProviderNone),
		})
	}
	c := &billing.RecordTopUp{
		Env: Sandbox, Pool: pool, Paid: rapid.IntRange(0, 3).Draw(g.t, "paid") > 0,
		ID: billing.TopUpID(pool, rapid.Uint32Range(0, 4).Draw(g.t, "purchase")),
	}
	for _, o := range g.shadow.m.AskedTopUps() {
		if rapid.Bool().Draw(g.t, "asked") {
			c.Pool, c.ID = o.Pool, o.ID
		}
	}
	return record(billing.KindRecordTopUp, c)
}
