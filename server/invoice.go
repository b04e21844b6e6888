package server

import (
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

var invoiceTypes = map[billing.InvoiceType]string{
	billing.InvoiceInitial: "IN_ADVANCE_INITIAL", billing.InvoiceRegular: "REGULAR",
	billing.InvoiceAdjustment: "ADJUSTMENT", billing.InvoiceCredit: "CREDIT",
}

// WriteInvoice writes an invoice with its lines, as both APIs have it. costs are what the events of
// each line cost, which only the admin API shows; nil shows none.
func WriteInvoice(data *JSON, v *billing.InvoiceView, costs []decimal.Decimal) {
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
func WriteInvoiceItem(data *JSON, item *billing.InvoiceItem) {
	data.Text("kind", item.Kind.String())
	data.Text("description", item.Description)
	data.TextIf("featureKey", item.FeatureKey)
	data.Decimal("quantity", item.Quantity)
	if item.HasUnitPrice {
		data.Decimal("unitPrice", item.UnitPrice)
	}
	if len(item.Tiers) > 0 {
		data.Array("tiers")
		WriteTiers(data, item.Tiers)
		data.Close(']')
	}
	data.Time("periodStart", item.PeriodStart)
	data.Time("periodEnd", item.PeriodEnd)
	data.Decimal("amount", item.Amount)
}

// InvoiceSchema describes what WriteInvoice writes; extra are properties that a line may have more.
func InvoiceSchema(extra ...Property) *Schema {
	return Object(
		Must("id", UUIDSchema),
		May("number", IntegerSchema),
		Must("type", EnumSchema("REGULAR", "IN_ADVANCE_INITIAL", "ADJUSTMENT", "CREDIT")),
		Must("status", EnumSchema("PENDING", "DUE", "PAST_DUE", "PAID", "VOID")),
		Must("amount", NumberSchema),
		Must("currency", TextSchema(3, 3)),
		May("subscriptionId", UUIDSchema),
		Must("customerReferenceId", TextSchema(1, 128)),
		May("createdAt", TimeSchema),
		May("dueDate", TimeSchema),
		May("paidAt", TimeSchema),
		May("periodStart", TimeSchema),
		May("periodEnd", TimeSchema),
		Must("items", ArrayOf(InvoiceItemSchema(extra...))),
	)
}

// InvoiceItemSchema describes what WriteInvoiceItem writes, with extra properties.
func InvoiceItemSchema(extra ...Property) *Schema {
	return Object(append([]Property{
		Must("kind", EnumSchema("base", "usage", "late_usage", "proration_credit", "proration_charge",
			"credit_carried_over", "carried_credit")),
		Must("description", TextSchema(0, 0)),
		May("featureKey", TextSchema(1, 128)),
		Must("quantity", NumberSchema),
		May("unitPrice", NumberSchema),
		May("tiers", TiersSchema()),
		May("periodStart", TimeSchema),
		May("periodEnd", TimeSchema),
		Must("amount", NumberSchema),
	}, extra...)...)
}
