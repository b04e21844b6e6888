package billing

// Stats counts what the state holds, for metrics.
type Stats struct {
	Accounts, APIKeys, Customers, Subscriptions, Counters, Invoices uint64
	// IdempotencyKeys is the number of keys held, against Limits.MaxKeys.
	IdempotencyKeys uint64
	// UsageEvents and AuditEvents were recorded since the beginning of the log.
	UsageEvents, AuditEvents uint64
	// Bytes is the memory of each part; the names are fixed.
	Bytes []PartBytes
}

// PartBytes is the memory that one part of the state holds.
type PartBytes struct {
	Part  string
	Bytes uint64
}

// Stats returns the present counts. Texts (profiles, invoice lines) are counted without their
// bytes.
func (m *Machine) Stats() Stats {
	s := m.state.Load()
	indexes := s.customerByExternal.Bytes() + s.customerByID.Bytes() +
		s.subscriptionByID.Bytes() + s.invoiceByID.Bytes() + s.apiKeyByHash.Bytes()
	return Stats{
		Accounts:        uint64(len(s.accounts.all())),
		APIKeys:         uint64(len(s.apiKeys.all())),
		Customers:       uint64(s.customers.Len()),
		Subscriptions:   uint64(s.subscriptions.Len()),
		Counters:        uint64(s.counters.Len()),
		Invoices:        uint64(s.invoices.Len()),
		IdempotencyKeys: s.keys.Len(),
		UsageEvents:     s.usageEvents.Load(),
		AuditEvents:     s.auditEvents.Load(),
		Bytes: []PartBytes{
			{"customers", s.customers.Bytes() + s.profiles.Bytes()},
			{"subscriptions", s.subscriptions.Bytes()},
			{"counters", s.counters.Bytes()},
			{"invoices", s.invoices.Bytes() + s.items.Bytes()},
			{"credits", s.creditBytes()},
			{"indexes", indexes},
			{"idempotency_keys", s.keys.Bytes()},
			{"journal_tail", uint64(cap(m.journal.Tail()))},
		},
	}
}
