package billingview

import (
	"tollgate/engine/billing"
	"tollgate/server"
)

// WritePool writes a credit pool, as both APIs have it.
func WritePool(data *server.JSON, p *billing.PoolView) {
	data.Open('{')
	data.UUID("id", p.ID)
	data.Text("name", p.Name)
	data.Text("denomination", p.Denomination)
	data.Text("currency", p.Currency)
	data.Decimal("balance", p.Balance)
	data.Decimal("totalGranted", p.TotalGranted)
	data.Decimal("totalConsumed", p.TotalConsumed)
	data.Decimal("totalExpired", p.TotalExpired)
	data.Decimal("totalReversed", p.TotalReversed)
	data.Bool("hardLimit", p.HardLimit)
	data.Text("status", p.Status)
	data.Text("rolloverPolicy", p.RolloverPolicy)
	if p.HasCap {
		data.Decimal("rolloverCap", p.RolloverCap)
	}
	data.Int("priority", p.Priority)
	data.UUID("customerId", p.CustomerID)
	data.Raw("metadata", p.Metadata)
	data.Time("createdAt", p.CreatedAt)
	data.Time("modifiedAt", p.ModifiedAt)
	data.Close('}')
}

// PoolSchema describes what WritePool writes.
func PoolSchema() *server.Schema {
	return server.Object(
		server.Must("id", server.UUIDSchema),
		server.Must("name", server.TextSchema(0, 0)),
		server.Must("denomination", server.TextSchema(0, 0)),
		server.Must("currency", server.TextSchema(3, 3)),
		server.Must("balance", server.NumberSchema),
		server.Must("totalGranted", server.NumberSchema),
		server.Must("totalConsumed", server.NumberSchema),
		server.Must("totalExpired", server.NumberSchema),
		server.Must("totalReversed", server.NumberSchema),
		server.Must("hardLimit", server.BoolSchema),
		server.Must("status", server.EnumSchema("ACTIVE", "FROZEN", "DEPLETED", "ARCHIVED")),
		server.Must("rolloverPolicy", server.EnumSchema("NONE", "FULL", "CAPPED")),
		server.May("rolloverCap", server.NumberSchema),
		server.Must("priority", server.IntegerSchema),
		server.Must("customerId", server.UUIDSchema),
		server.May("metadata", server.FreeObject()),
		server.Must("createdAt", server.TimeSchema),
		server.Must("modifiedAt", server.TimeSchema),
	)
}
