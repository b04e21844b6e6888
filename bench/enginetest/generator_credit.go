package enginetest

import (
	"fmt"

	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// PrepaidPlan is a catalog document with a plan that grants credits: images burn them before they
// cost money, videos have no other price.
func PrepaidPlan() billing.CatalogDocument {
	burn := func(weight string) billing.CreditsDocument {
		return billing.CreditsDocument{Pool: "studio", Weight: decimal.MustParse(weight)}
	}
	return billing.CatalogDocument{
		Features: []billing.FeatureDocument{{Key: "images"}, {Key: "videos"}},
		Plans: []billing.PlanDocument{{
			Key: "prepaid", Currency: "USD", IntervalMonths: 1, PriceAmount: decimal.FromInt(10),
			Features: []billing.PlanFeatureDocument{
				{Key: "images", PricingType: "usage_based", Pricing: billing.PricingDocument{
					PricePerUnit: decimal.MustParse("0.02"), Credits: burn("3"),
				}},
				{Key: "videos", PricingType: "included", Pricing: billing.PricingDocument{
					Credits: burn("0.5"),
				}},
			},
			CreditAllocations: []billing.CreditAllocationDocument{{
				Pool: "studio", Amount: decimal.FromInt(100), ExpiresAfterDays: 40,
				RolloverPolicy: "CAPPED", HasCap: true, RolloverCap: decimal.FromInt(30),
				HardLimit: true,
			}},
		}},
	}
}

// subscribePrepaid is the subscription that credits of generated histories come from.
func subscribePrepaid() engine.Record {
	return record(billing.KindCreateSubscription, &billing.CreateSubscription{
		Env: Sandbox, ID: ID("subscription prepaid"), InvoiceID: ID("invoice prepaid"),
		Customer: "ada", Plan: "prepaid", GraceDays: 7,
	})
}

// CreditEntries draws a history that is about little else than credits.
func CreditEntries(t *rapid.T) [][]byte {
	g := newGenerator(t)
	for range rapid.IntRange(0, 40).Draw(t, "entries") {
		records := drawn(t, 4, func() engine.Record {
			return sample(t, "about", g.credits, g.credits, g.credits, g.creditUsage, g.creditUsage,
				g.correction, g.topUp, g.topUp)()
		})
		g.stamp += sample[int64](t, "later", 0, 1000, 86_400_000, 3*86_400_000)
		g.add(records)
	}
	return g.entries
}

func (g *generator) amount() decimal.Decimal {
	return sample(g.t, "amount", decimal.FromInt(1), decimal.FromInt(10), decimal.FromInt(70),
		decimal.FromInt(0), decimal.MustParse("0.333333333333"), decimal.Largest())
}

func (g *generator) creditUsage() engine.Record {
	key := fmt.Appendf(nil, "credits-%d", rapid.IntRange(0, 200).Draw(g.t, "key"))
	c := &billing.RecordUsage{
		Env: Sandbox, Key: billing.UsageKey(Sandbox, key), KeyText: key, Attempt: 1,
		Customer: []byte("ada"), EventName: []byte(g.pick("event", "images", "videos")),
		Units: g.amount(), OccurredAt: g.now(),
	}
	g.keys = append(g.keys, string(key))
	return engine.Record{Kind: billing.KindRecordUsage, Payload: c.Seal(nil)}
}

// credits draws a command about credits; pools, grants and transactions have few names.
func (g *generator) credits() engine.Record {
	pool := ID("pool " + g.pick("pool", "a", "b", "c"))
	id := ID("transaction " + g.pick("id", "a", "b", "c", "d", "e", "f", "g", "h"))
	actor := g.pick("actor", "", "admin")
	switch rapid.IntRange(0, 9).Draw(g.t, "credits") {
	case 0, 1:
		return g.pool(pool)
	case 2, 3, 4:
		return record(billing.KindGrantCredits, &billing.GrantCredits{
			Env: g.env(), ID: id, Pool: pool, Amount: g.amount(), Actor: actor,
			Type:     g.pick("type", "", "PURCHASED", "PLAN_INCLUDED", "GIFT"),
			Priority: rapid.Int64Range(-1, 1).Draw(g.t, "priority"),
			ExpiresAt: sample[int64](g.t, "expires", 0, g.stamp-1, g.stamp+1, g.stamp+86_400_000,
				g.stamp+5*86_400_000),
		})
	case 5:
		return record(billing.KindDeductCredits, &billing.DeductCredits{
			Env: g.env(), ID: id, Pool: pool, Amount: g.amount(), Actor: actor,
		})
	case 6:
		if rapid.Bool().Draw(g.t, "low") {
			return record(billing.KindSetLowBalance, &billing.SetLowBalance{
				Env: g.env(), ID: pool, LowBalance: g.amount(), Actor: actor,
			})
		}
		return record(billing.KindFreezePool, &billing.FreezePool{Env: Sandbox, ID: pool})
	case 7:
		return record(billing.KindUnfreezePool, &billing.UnfreezePool{Env: Sandbox, ID: pool})
	case 8:
		if rapid.IntRange(0, 5).Draw(g.t, "archive") == 0 {
			return record(billing.KindArchivePool, &billing.ArchivePool{Env: Sandbox, ID: pool})
		}
	}
	return record(billing.KindReverseTransaction, &billing.ReverseTransaction{
		Env: g.env(), ID: ID("reversal " + g.pick("reversal", "a", "b", "c")), Transaction: id,
	})
}

func (g *generator) pool(id [16]byte) engine.Record {
	c := &billing.CreatePool{
		Env: Sandbox, ID: id, Customer: "ada", Name: g.pick("name", "studio", "studio", "other"),
		HardLimit: rapid.Bool().Draw(g.t, "hard"), RolloverPolicy: g.pick("rollover", "", "FULL"),
		Priority: rapid.Int64Range(-1, 1).Draw(g.t, "priority"),
	}
	return record(billing.KindCreatePool, c)
}
