package billingview

import (
	"tollgate/engine/billing"
	"tollgate/server"
)

// WritePricing writes the fields of a feature's pricing within a plan, as both the client API's
// plans and the admin API's catalog have them.
func WritePricing(data *server.JSON, p *billing.PricingDocument) {
	data.TextIf("model", p.Model)
	data.Decimal("pricePerUnit", p.PricePerUnit)
	data.Text("unitLabel", p.UnitLabel)
	if p.HasMax {
		data.Decimal("maxUsage", p.MaxUsage)
	}
	data.Decimal("includedUnits", p.IncludedUnits)
	data.TextIf("resetMode", p.ResetMode)
	data.TextIf("limitMode", p.LimitMode)
	if len(p.Tiers) > 0 {
		data.Array("tiers")
		WriteTiers(data, p.Tiers)
		data.Close(']')
	}
	if p.PackageSize.Sign() > 0 {
		data.Decimal("packageSize", p.PackageSize)
		data.Decimal("pricePerPackage", p.PricePerPackage)
	}
	if p.Credits.Pool != "" {
		data.Object("credits")
		data.Text("pool", p.Credits.Pool)
		data.Decimal("weight", p.Credits.Weight)
		data.Close('}')
	}
}

// WriteAllocation writes credits that a plan grants in every period.
func WriteAllocation(data *server.JSON, a *billing.CreditAllocationDocument) {
	data.Open('{')
	data.Text("pool", a.Pool)
	data.Text("denomination", a.Denomination)
	data.Text("currency", a.Currency)
	data.Decimal("amount", a.Amount)
	data.Int("priority", a.Priority)
	if a.ExpiresAfterDays > 0 {
		data.Uint("expiresAfterDays", uint64(a.ExpiresAfterDays))
	}
	data.Text("rolloverPolicy", a.RolloverPolicy)
	if a.HasCap {
		data.Decimal("rolloverCap", a.RolloverCap)
	}
	data.Bool("hardLimit", a.HardLimit)
	data.Close('}')
}

// AllocationSchema describes what WriteAllocation writes.
func AllocationSchema() *server.Schema {
	return server.Object(
		server.Must("pool", server.TextSchema(1, 128)),
		server.Must("denomination", server.TextSchema(1, 64)),
		server.Must("currency", server.TextSchema(3, 3)),
		server.Must("amount", server.NumberSchema),
		server.Must("priority", server.IntegerSchema),
		server.May("expiresAfterDays", server.IntegerSchema),
		server.Must("rolloverPolicy", server.EnumSchema("NONE", "FULL", "CAPPED")),
		server.May("rolloverCap", server.NumberSchema),
		server.Must("hardLimit", server.BoolSchema),
	)
}

// WriteTiers writes the elements of a list of tiers; the last one's upTo is "inf".
func WriteTiers(data *server.JSON, tiers []billing.TierDocument) {
	for i := range tiers {
		t := &tiers[i]
		data.Open('{')
		if t.Infinite {
			data.Text("upTo", "inf")
		} else {
			data.Decimal("upTo", t.UpTo)
		}
		data.Decimal("pricePerUnit", t.PricePerUnit)
		data.Decimal("flatFee", t.FlatFee)
		data.Close('}')
	}
}

// PricingSchema describes what WritePricing writes.
func PricingSchema() *server.Schema {
	return server.Object(
		server.May("model", server.EnumSchema("per_unit", "volume", "package")),
		server.Must("pricePerUnit", server.NumberSchema),
		server.Must("unitLabel", server.TextSchema(0, 0)),
		server.May("maxUsage", server.NumberSchema),
		server.Must("includedUnits", server.NumberSchema),
		server.May("resetMode", server.EnumSchema("reset", "accumulate")),
		server.May("limitMode", server.EnumSchema("soft", "hard")),
		server.May("tiers", TiersSchema()),
		server.May("packageSize", server.NumberSchema),
		server.May("pricePerPackage", server.NumberSchema),
		server.May("credits", server.Object(
			server.Must("pool", server.TextSchema(1, 128)), server.Must("weight", server.NumberSchema),
		)),
	)
}

// TiersSchema describes what WriteTiers writes.
func TiersSchema() *server.Schema {
	return server.ArrayOf(server.Object(
		server.Must("upTo", &server.Schema{
			OneOf: []*server.Schema{server.NumberSchema, server.EnumSchema("inf")},
		}),
		server.Must("pricePerUnit", server.NumberSchema),
		server.Must("flatFee", server.NumberSchema),
	))
}
