// Package billingview writes the nouns of billing as both APIs answer with them, and describes
// them: invoices, credit pools, prices, and the bodies of webhook messages.
package billingview

import (
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
)

var invoiceTypes = map[billing.InvoiceType]string{
	billing.InvoiceInitial: "IN_ADVANCE_INITIAL", billing.InvoiceRegular: "REGULAR",
	billing.InvoiceAdjustment: "ADJUSTMENT", billing.InvoiceCredit: "CREDIT",
	billing.InvoiceInterim: "INTERIM",
}

// WriteInvoice writes an invoice with its lines, as both APIs have it. costs are what the events of
// each line cost, which only the admin API shows; nil shows none.
func WriteInvoice(data *server.JSON, v *billing.InvoiceView, costs []decimal.Decimal) {
	data.Open('{')
	data.UUID("id", v.ID)
	if v.Number > 0 { // a PENDING invoice has none yet
		data.Uint("number", v.Number)
	}
	data.Text("type", invoiceTypes[v.Type])
	data.Text("status", v.Status.String())
	data.Decimal("amount", v.Amount)
	data.Text("currency", v.Currency)
	data.UUID("subscriptionId", v.SubscriptionID)
	data.Text("customerReferenceId", v.Customer)
	data.Time("createdAt", v.CreatedAt)
	data.Time("dueDate", v.DueDate)
	data.Time("paidAt", v.PaidAt)
	data.Time("periodStart", v.PeriodStart)
	data.Time("periodEnd", v.PeriodEnd)
	data.Array("items")
	for i := range v.Items {
		data.Open('{')
		WriteInvoiceItem(data, &v.Items[i])
		if i < len(costs) {
			data.Decimal("costAmount", costs[i])
		}
		data.Close('}')
	}
	data.Close(']')
	data.Close('}')
}

// WriteInvoiceItem writes the fields of an invoice's line.
func WriteInvoiceItem(data *server.JSON, item *billing.InvoiceItem) {
	data.Text("kind", item.Kind.String())
	data.Text("description", item.Description)
	data.TextIf("featureKey", item.FeatureKey)
	data.Decimal("quantity", item.Quantity)
	if item.HasUnitPrice {
		data.Decimal("unitPrice", item.UnitPrice)
	}
	if len(item.Tiers) > 0 {
		data.Array("tiers")
		for i := range item.Tiers {
			WriteTier(data, &item.Tiers[i])
		}
		data.Close(']')
	}
	data.Time("periodStart", item.PeriodStart)
	data.Time("periodEnd", item.PeriodEnd)
	data.Decimal("amount", item.Amount)
}

// InvoiceSchema describes what WriteInvoice writes; extra are properties that a line may have more.
func InvoiceSchema(extra ...server.Property) *server.Schema {
	return server.Object(
		server.Must("id", server.UUIDSchema),
		server.May("number", server.IntegerSchema),
		server.Must("type", server.EnumSchema("REGULAR", "IN_ADVANCE_INITIAL", "ADJUSTMENT", "CREDIT",
			"INTERIM")),
		server.Must("status", server.EnumSchema("PENDING", "DUE", "PAST_DUE", "PAID", "VOID")),
		server.Must("amount", server.NumberSchema),
		server.Must("currency", server.TextSchema(3, 3)),
		server.May("subscriptionId", server.UUIDSchema),
		server.Must("customerReferenceId", server.TextSchema(1, 128)),
		server.May("createdAt", server.TimeSchema),
		server.May("dueDate", server.TimeSchema),
		server.May("paidAt", server.TimeSchema),
		server.May("periodStart", server.TimeSchema),
		server.May("periodEnd", server.TimeSchema),
		server.Must("items", server.ArrayOf(InvoiceItemSchema(extra...))),
	)
}

// InvoiceItemSchema describes what WriteInvoiceItem writes, with extra properties.
func InvoiceItemSchema(extra ...server.Property) *server.Schema {
	return server.Object(append([]server.Property{
		server.Must("kind", server.EnumSchema("base", "usage", "late_usage", "proration_credit",
			"proration_charge", "credit_carried_over", "carried_credit")),
		server.Must("description", server.TextSchema(0, 0)),
		server.May("featureKey", server.TextSchema(1, 128)),
		server.Must("quantity", server.NumberSchema),
		server.May("unitPrice", server.NumberSchema),
		server.May("tiers", TiersSchema()),
		server.May("periodStart", server.TimeSchema),
		server.May("periodEnd", server.TimeSchema),
		server.Must("amount", server.NumberSchema),
	}, extra...)...)
}
