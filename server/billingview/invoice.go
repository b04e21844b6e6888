// Package billingview writes the nouns of billing as both APIs answer with them, and describes
// them: invoices, credit pools, prices, and the bodies of webhook messages.
package billingview

import (
	"tollgate/engine/billing"
	"tollgate/server"
)

// InvoiceSchema describes what WriteInvoice writes; more are properties of its lines that only some
// answers have.
func InvoiceSchema(more ...server.Property) *server.Schema {
	return server.AnswerSchema[billing.InvoiceView](append([]server.Property{
		server.May("items.tiers", TiersSchema()),
		{Name: "items.costAmount"},
		{Name: "items.eventsCounted"},
	}, more...)...)
}
