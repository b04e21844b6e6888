package server

import "tollgate/engine/billing"

// WritePricing writes the fields of a feature's pricing within a plan, as both the client API's
// plans and the admin API's catalog have them.
func WritePricing(data *JSON, p *billing.PricingDocument) {
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
func WriteAllocation(data *JSON, a *billing.CreditAllocationDocument) {
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
func AllocationSchema() *Schema {
	return Object(
		Must("pool", TextSchema(1, 128)),
		Must("denomination", TextSchema(1, 64)),
		Must("currency", TextSchema(3, 3)),
		Must("amount", NumberSchema),
		Must("priority", IntegerSchema),
		May("expiresAfterDays", IntegerSchema),
		Must("rolloverPolicy", EnumSchema("NONE", "FULL", "CAPPED")),
		May("rolloverCap", NumberSchema),
		Must("hardLimit", BoolSchema),
	)
}

// WriteTiers writes the elements of a list of tiers; the last one's upTo is "inf".
func WriteTiers(data *JSON, tiers []billing.TierDocument) {
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
func PricingSchema() *Schema {
	return Object(
		May("model", EnumSchema("per_unit", "volume", "package")),
		Must("pricePerUnit", NumberSchema),
		Must("unitLabel", TextSchema(0, 0)),
		May("maxUsage", NumberSchema),
		Must("includedUnits", NumberSchema),
		May("resetMode", EnumSchema("reset", "accumulate")),
		May("limitMode", EnumSchema("soft", "hard")),
		May("tiers", TiersSchema()),
		May("packageSize", NumberSchema),
		May("pricePerPackage", NumberSchema),
		May("credits", Object(Must("pool", TextSchema(1, 128)), Must("weight", NumberSchema))),
	)
}

// TiersSchema describes what WriteTiers writes.
func TiersSchema() *Schema {
	return ArrayOf(Object(
		Must("upTo", &Schema{OneOf: []*Schema{NumberSchema, EnumSchema("inf")}}),
		Must("pricePerUnit", NumberSchema),
		Must("flatFee", NumberSchema),
	))
}
