package enginetest

import (
	"fmt"

	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// Reservation makes a reservation of the sandbox of one feature, for ten minutes.
func Reservation(key, customer, feature string, units int64) *billing.Reserve {
	return &billing.Reserve{
		Env: Sandbox, ID: ID("reservation " + key), KeyText: key,
		Key:      billing.ReservationKey(Sandbox, []byte(key)),
		Customer: customer, TTLMS: 600_000,
		Items: []billing.ReserveItem{{FeatureKey: feature, Units: decimal.FromInt(units)}},
	}
}

// reservation draws a command about one of a few reservations.
func (g *generator) reservation() engine.Record {
	name := fmt.Sprint("r", rapid.IntRange(0, 6).Draw(g.t, "reservation"))
	id := ID("reservation " + name)
	units := func(label string) decimal.Decimal {
		return rapid.SampledFrom([]decimal.Decimal{
			{},
			decimal.FromInt(1), decimal.FromInt(3), decimal.FromInt(20), decimal.FromInt(2500),
			decimal.MustParse("0.5"), decimal.Largest(),
		}).Draw(g.t, label)
	}
	bound := func() uint32 { return sample[uint32](g.t, "bound to", 0, 0, 0, 0, 1, 2, 99) }
	features := []string{
		"output-tokens", "output-tokens", "images", "videos", "seats", "requests", "x",
	}
	switch rapid.IntRange(0, 7).Draw(g.t, "about") {
	case 0, 1, 2:
		c := Reservation(name, g.customerName(), g.pick("feature", features...), 1)
		c.Items[0].Units = units("units")
		if rapid.IntRange(0, 2).Draw(g.t, "items") == 0 {
			c.Items = append(c.Items, billing.ReserveItem{
				FeatureKey: g.pick("feature", features...), Units: units("more"),
			})
		}
		c.Body = rapid.Uint64Range(1, 2).Draw(g.t, "body")
		c.TTLMS = rapid.SampledFrom([]int64{1000, 600_000, 86_400_000, 5}).Draw(g.t, "ttl")
		c.Partial = rapid.IntRange(0, 3).Draw(g.t, "partial") == 0
		c.RefuseOverrun = rapid.Bool().Draw(g.t, "refuses")
		c.SettleOnExpiry = rapid.Bool().Draw(g.t, "bills")
		c.Budget = g.pick("at", "", "", "", "b1", "b2", "nothing")
		c.KeyBudget = bound()
		c.DryRun = rapid.IntRange(0, 9).Draw(g.t, "dry") == 0
		return record(billing.KindReserve, c)
	case 3:
		return record(billing.KindReleaseReservation, &billing.ReleaseReservation{
			Env: g.env(), ID: id, KeyBudget: bound(),
		})
	case 4:
		return record(billing.KindExtendReservation, &billing.ExtendReservation{
			Env: Sandbox, ID: id, Units: units("units"),
			TTLMS:     rapid.SampledFrom([]int64{0, 1000, 86_400_000}).Draw(g.t, "ttl"),
			KeyBudget: bound(),
		})
	}
	c := &billing.SettleReservation{
		Env: Sandbox, ID: id, Partial: rapid.IntRange(0, 2).Draw(g.t, "part") == 0,
		Items: []billing.SettleItem{{Units: units("units")}}, KeyBudget: bound(),
	}
	if rapid.Bool().Draw(g.t, "named") {
		c.Items[0].FeatureKey = g.pick("feature", features...)
	}
	if rapid.IntRange(0, 3).Draw(g.t, "keyed") == 0 {
		c.EventKey = fmt.Sprintf("key-%d", rapid.IntRange(0, 30).Draw(g.t, "key"))
		c.Key = billing.UsageKey(Sandbox, []byte(c.EventKey))
	} else if id[15]%2 == 0 { // else Apply makes it, which is the same
		c.Own = billing.FirstEventKey(Sandbox, id)
	}
	if rapid.IntRange(0, 3).Draw(g.t, "dated") == 0 {
		c.OccurredAt = g.now() + rapid.Int64Range(-9*86_400_000, 400_000).Draw(g.t, "occurred")
	}
	return record(billing.KindSettleReservation, c)
}
