package billing

import (
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/journal"
)

// Stats counts what the state holds, for metrics.
type Stats struct {
	Accounts, APIKeys, Customers, Subscriptions, Counters, Invoices uint64
	// Issued are the invoices by InvoiceStatus.
	Issued [book.InvoiceStatuses]uint64
	// IdempotencyKeys is the number of keys held, against Limits.MaxKeys.
	IdempotencyKeys uint64
	// KeysOnDisk is how many of them have left memory.
	KeysOnDisk uint64
	// UsageEvents and AuditEvents were recorded since the beginning of the log.
	UsageEvents, AuditEvents uint64
	// Reservations is the number of those that are kept, against Limits.Reservations.
	Reservations uint64
	// Overruns counts the usage events that this process applied which settled more of a reservation
	// than fitted.
	Overruns uint64
	// Bytes is the memory of each part; the names are fixed.
	Bytes []PartBytes
	// Journal describes the parts of the journal, usage first.
	Journal []JournalStats
}

// JournalStats describes a part of the journal: its segments and the open tail.
type JournalStats struct {
	Part            string
	Segments, Bytes uint64
	// OldestAt is the time of its first record, in milliseconds since 1970 UTC; for audit blocks,
	// the log time of their recording. 0: there is none.
	OldestAt int64
}

// PartBytes is the memory that one part of the state holds.
type PartBytes struct {
	Part  string
	Bytes uint64
}

// journalStats describes the parts of the journal.
func (m *journalReader) journalStats() (list []JournalStats, tails uint64) {
	for p, v := range m.journal.Outline() {
		s := JournalStats{
			Part: journal.Part(p).String(), Segments: uint64(len(v.Segments)),
			Bytes: uint64(v.TailBytes),
		}
		for i := range v.Segments {
			s.Bytes += v.Segments[i].Length
		}
		if at, ok := v.OldestAt(); ok {
			s.OldestAt = at
		}
		list, tails = append(list, s), tails+uint64(v.TailBytes)
	}
	return list, tails
}

// Stats returns the present counts. The bytes of texts (profiles, invoice lines) are not included.
func (m *Machine) Stats() Stats {
	s := m.state.Load()
	parts, tails := m.journalStats()
	indexes := s.CustomerByExternal.Bytes() + s.CustomerByID.Bytes() +
		s.SubscriptionByID.Bytes() + s.InvoiceByID.Bytes() + s.APIKeyByHash.Bytes() +
		s.APIKeyByID.Bytes()
	return Stats{
		Accounts:        uint64(len(s.Accounts.All())),
		APIKeys:         uint64(len(s.APIKeys.All())),
		Customers:       uint64(s.Customers.Len()),
		Subscriptions:   uint64(s.Subscriptions.Len()),
		Counters:        uint64(s.Counters.Len()),
		Invoices:        uint64(s.Invoices.Len()),
		Issued:          s.Revenue.Statuses(),
		IdempotencyKeys: s.keys.Len(),
		KeysOnDisk:      s.keys.Span().OnDisk(),
		UsageEvents:     s.usageEvents.Load(),
		AuditEvents:     s.auditEvents.Load(),
		Reservations:    s.holds.Counted(),
		Overruns:        m.overruns.Load(),
		Bytes: []PartBytes{
			{"customers", s.Customers.Bytes() + s.Profiles.Bytes()},
			{"subscriptions", s.Subscriptions.Bytes()},
			{"counters", s.Counters.Bytes() + s.Told.Bytes()},
			{"invoices", s.Invoices.Bytes() + s.Items.Bytes()},
			{"credits", s.CreditBytes()},
			{"reservations", s.holds.Bytes()},
			{"budgets", budgets.Bytes(&s.budgets.Forest)},
			{"indexes", indexes},
			{"idempotency_keys", s.keys.Bytes()},
			{"journal_tail", tails},
		},
		Journal: parts,
	}
}
