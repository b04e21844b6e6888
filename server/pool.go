package server

import "tollgate/engine/billing"

// WritePool writes a credit pool, as both APIs have it.
func WritePool(data *JSON, p *billing.PoolView) {
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
func PoolSchema() *Schema {
	return Object(
		Must("id", UUIDSchema),
		Must("name", TextSchema(0, 0)),
		Must("denomination", TextSchema(0, 0)),
		Must("currency", TextSchema(3, 3)),
		Must("balance", NumberSchema),
		Must("totalGranted", NumberSchema),
		Must("totalConsumed", NumberSchema),
		Must("totalExpired", NumberSchema),
		Must("totalReversed", NumberSchema),
		Must("hardLimit", BoolSchema),
		Must("status", EnumSchema("ACTIVE", "FROZEN", "DEPLETED", "ARCHIVED")),
		Must("rolloverPolicy", EnumSchema("NONE", "FULL", "CAPPED")),
		May("rolloverCap", NumberSchema),
		Must("priority", IntegerSchema),
		Must("customerId", UUIDSchema),
		May("metadata", FreeObject()),
		Must("createdAt", TimeSchema),
		Must("modifiedAt", TimeSchema),
	)
}
