package billing

import (
	"sync/atomic"

	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/idempotency"
	"tollgate/engine/machine"
	"tollgate/engine/page"
)

// Numbers of the tables in the snapshot format. They are never reused.
const (
	tableCustomers     = 1
	tableProfiles      = 2
	tableSubscriptions = 3
	tableCounters      = 4
	tableInvoices      = 5
	tableItems         = 6

	tablePools            = 32
	tablePoolTexts        = 33
	tableGrants           = 34
	tableTransactions     = 35
	tableTransactionTexts = 36
	tableCovers           = 37
	tableCorrectionDraws  = 38

	tableLongIDs     = 40 // 41 was the record of admin changes, which the journal has
	tableRequests    = 42
	tableCheckouts   = 43
	tablePayments    = 44
	tableSpans       = 7
	tableBases       = 9
	tableBalances    = 10
	tablePlanChanges = 11
	tableCorrections = 12
	tableSequences   = 13
	tableMeters      = 14 // 8 were meters that held where their tiers began
	tableDetails     = 15 // of subscriptions

	tableWebhookEndpoints = 48
	tableWebhookTexts     = 49
	tableDeliveries       = 50
	tableDeliveryTexts    = 51

	// The numbers from 54 to 57 are left to what is built beside it.
	tableSubmissions = 58

	tableChangeMarks = 64
	tableAnswers     = 66
	tableTraces      = 68
	tableChunks      = 69
	tableArchives    = 70 // 62 were archives of two chains
)

// state is everything that a snapshot holds, and the indexes that are rebuilt from it. Apply is its
// only writer. Queries read beside it: what grows with customers under the stripe of the customer's
// row, the rest through atomic pointers to values that never change.
type state struct {
	*projector

	corrections     *page.Table[correction]
	correctionDraws *page.Table[rows.Text] // row = correction row: a drawList
	correctionByKey *page.Index

	keys *idempotency.Keys
	// requests are the answers kept for Idempotency-Key.
	requests requests
	// submissions are those of commands that do not recognise a repetition.
	submissions machine.Ring[submission]

	checkouts checkouts
	payments  payments
	outbox    outbox
	sources   auditSources
	// auditDue is when audit blocks expire next, in log time; 0: there are none.
	auditDue atomic.Int64

	usageEvents, auditEvents atomic.Uint64
}

// newState returns the state before the first entry.
func newState() *state {
	s := &state{projector: newProjector(), correctionByKey: page.NewIndex()}
	s.keys = idempotency.New(s.limits.Load().KeyRetentionMS)
	s.requests.open(s)
	s.submissions = openSubmissions(s)
	s.openPayments()
	s.outbox.open(s.store)
	s.correctionDraws = page.NewTable(s.store, tableCorrectionDraws, rows.TextCodec)
	s.corrections = page.NewTable(s.store, tableCorrections, correctionCodec)
	return s
}

// reindex rebuilds the indexes from the tables, after a restore.
func (s *state) reindex() {
	s.customerByID.Reserve(s.customers.Len())
	s.customerByExternal.Reserve(s.customers.Len())
	s.subscriptionByID.Reserve(s.subscriptions.Len())
	s.pending.Reserve(s.subscriptions.Len())
	s.invoiceByID.Reserve(s.invoices.Len())
	for row := uint32(1); row <= s.customers.Len(); row++ {
		c := s.customers.Read(row)
		s.customerByID.Insert(s.idHash(&c.id), row)
		s.customerByExternal.Insert(s.externalHash(c.env, s.externalID(c)), row)
		if p := s.profile(row); p.ArchivedAt != 0 {
			s.customers.Write(row).archived = true
		}
		s.environment(c.env).account.held.customers.Add(1)
	}
	s.requests.reindex()
	s.submissions.Reindex()
	s.reindexPayments()
	s.reindexOutbox()
	for row := uint32(1); row <= s.subscriptions.Len(); row++ {
		b := s.subscriptions.Whole(row)
		s.subscriptionByID.Insert(s.idHash(&b.id), row)
		s.subscribed(&b, 1)
		s.hint(row, &b)
		s.indexPending(row, &b)
		s.reschedule(s.environment(s.customers.Read(b.customer).env), row, b.due)
	}
	for row := s.firstCorrection; row != 0; row = s.corrections.Read(row).next {
		s.correctionByKey.Insert(s.idHash(&s.corrections.Read(row).key), row)
	}
	for row := uint32(1); row <= s.invoices.Len(); row++ {
		s.invoiceByID.Insert(s.idHash(new(s.invoices.ID(row))), row)
	}
	s.reindexCredits()
}
