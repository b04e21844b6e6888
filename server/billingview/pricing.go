package billingview

import (
	"tollgate/engine/billing"
	"tollgate/server"
)

// WriteTier writes a tier; the last one's upTo is "inf".
func WriteTier(data *server.JSON, t *billing.TierDocument) {
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

// PricingSchema describes what WritePricing writes.
func PricingSchema() *server.Schema {
	return server.AnswerSchema[billing.PricingDocument](server.May("tiers", TiersSchema()))
}

// TiersSchema describes a list of what WriteTier writes.
func TiersSchema() *server.Schema {
	return server.ArrayOf(server.AnswerSchema[billing.TierDocument](server.Must("upTo",
		&server.Schema{OneOf: []*server.Schema{server.NumberSchema, server.EnumSchema("inf")}})))
}
