package billing

import (
	"sync/atomic"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/billing/internal/charging"
	"tollgate/engine/billing/internal/holds"
	"tollgate/engine/billing/internal/lifecycle"
	"tollgate/engine/billing/internal/outbox"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/idempotency"
	"tollgate/engine/machine"
	"tollgate/engine/page"
	"tollgate/engine/uuid"
)

// state is everything in a snapshot, and the indexes that are rebuilt from it. Apply is its only
// writer. Queries read concurrently: what grows with customers under the stripe lock of the
// customer's row, the rest through atomic pointers to values that never change.
type state struct {
	lifecycle.Projector

	corrections     *page.Table[correction]
	correctionDraws *page.Table[rows.Text] // row = correction row: a DrawList
	correctionByKey *page.Index

	keys *idempotency.Keys
	// requests are the answers kept for Idempotency-Keys.
	requests requests
	// submissions are those of commands that do not recognize their repetition.
	submissions machine.Ring[submission]

	checkouts checkouts
	payments  payments
	holds     holds.Holds
	outbox    outbox.Outbox
	budgets   charging.Budgets
	sources   auditSources
	// auditDue is when audit blocks expire next, in log time; 0: there are none.
	auditDue atomic.Int64

	usageEvents, auditEvents atomic.Uint64

	profiles profileNotes
	whole    wholeRows
}

// wholeRows are how many records are whole: queries that walk them go no further, since Apply may
// be writing the next ones.
type wholeRows struct{ customers, invoices, subscriptions, pools atomic.Uint32 }

// show lets queries walk all rows that there are. For Apply, after its records.
func (w *wholeRows) show(s *state) {
	w.customers.Store(s.Customers.Len())
	w.invoices.Store(s.Invoices.Len())
	w.subscriptions.Store(s.Subscriptions.Len())
	w.pools.Store(s.Pools.Len())
}

// turn is one record's turn in Apply: the state that it may change, and its entry.
type turn struct {
	lifecycle.Runner
	*state
	m *Machine
	// recorded counts the entry's usage events so far.
	recorded uint64
}

// endKeys revokes the keys that end by now.
func (t *turn) endKeys() {
	for _, k := range t.EndKeys(t.Stamp, t.Index) {
		t.Fold(accounts.KeyHash(&k.Hash))
		t.NoteChange(k.Env, "engine", "key.ended", uuid.Text(k.ID),
			accounts.Changed("revoked", "false", "true"))
	}
}

// newState returns the state before the first entry.
func newState() *state {
	s := &state{correctionByKey: page.NewIndex()}
	s.Projector.Open()
	s.keys = idempotency.New(s.Limits.Load().KeyRetentionMS)
	s.requests.open(s)
	s.submissions = openSubmissions(s)
	s.openPayments()
	s.holds.Open(&s.Book)
	s.outbox.Open(s.Store)
	s.budgets.Open(&s.Projector)
	s.correctionDraws = page.NewTable(s.Store, accounts.TableCorrectionDraws, rows.TextCodec)
	s.corrections = page.NewTable(s.Store, accounts.TableCorrections, correctionCodec)
	return s
}

// reindex rebuilds the indexes from the tables, after a restore.
func (s *state) reindex() {
	s.CustomerByID.Reserve(s.Customers.Len())
	s.CustomerByExternal.Reserve(s.Customers.Len())
	s.SubscriptionByID.Reserve(s.Subscriptions.Len())
	s.Pending.Reserve(s.Subscriptions.Len())
	s.InvoiceByID.Reserve(s.Invoices.Len())
	for row, c := range s.Customers.All() {
		s.CustomerByID.Insert(s.IDHash(&c.ID), row)
		s.IndexCustomer(row)
		if p := s.Profile(row); p.ArchivedAt != 0 {
			s.Customers.Write(row).Archived = true
		}
		e := s.Environment(c.Env)
		e.Customers.Add(1)
		e.Account.Held.Customers.Add(1)
	}
	s.requests.reindex()
	s.submissions.Reindex()
	s.reindexPayments()
	s.reindexOutbox()
	s.budgets.Reindex()
	for row := uint32(1); row <= s.Subscriptions.Len(); row++ {
		b := s.Subscriptions.Whole(row)
		s.SubscriptionByID.Insert(s.IDHash(&b.ID), row)
		s.Subscribed(&b, 1)
		s.Standing(&b, 1)
		s.IndexPending(row, &b)
		s.Reschedule(s.Environment(s.Customers.Read(b.Customer).Env), row, b.Due)
	}
	for row := s.FirstCorrection; row != 0; row = s.corrections.Read(row).next {
		s.correctionByKey.Insert(s.IDHash(&s.corrections.Read(row).key), row)
	}
	for row := uint32(1); row <= s.Invoices.Len(); row++ {
		s.InvoiceByID.Insert(s.IDHash(new(s.Invoices.ID(row))), row)
	}
	s.TallyInvoices()
	s.ReindexInterims()
	s.Told.Reindex()
	s.ReindexCredits()
	s.holds.Reindex()
	s.holds.EachOver(func(item uint32, at int64) { budgets.Expires(&s.budgets.Forest, item, at) })
	s.whole.show(s)
}
