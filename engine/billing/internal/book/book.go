// Package book has the records of customers, subscriptions, counters, spans and invoices, with
// their indexes. It decides nothing: lifecycle knows what is due and what a line says.
package book

import (
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// Book has the customers with their subscriptions, counters and invoices.
type Book struct {
	accounts.Directory

	Customers     Customers
	Profiles      *page.Table[rows.Text] // row = customer row
	LongIDs       *page.Table[rows.Text] // identifiers that are too long for a customer's record
	Subscriptions Subscriptions
	Counters      counters
	Invoices      Invoices
	Items         *rows.SharedTexts // row = invoice row
	Spans         *page.Table[Span]
	Meters        *page.Table[Meter]
	Bases         *page.Table[Base]
	Interims      *page.Table[Interim]
	Told          told
	Sequences     *page.Table[Sequence]
	Balances      *page.Table[Balance]
	PlanChanges   *page.Table[PlanChange]

	// Lists are free rows, and the corrections by age.
	Lists

	CustomerByExternal *page.Index
	CustomerByID       *page.Index
	SubscriptionByID   *page.Index
	InvoiceByID        *page.Index
	interimByCounter   *page.Index

	Revenue Revenue

	// Held reports what customers' open reservations hold. Customers without any have Customer.Held
	// unset.
	Held Holder
	// TakenKeys is how many event keys reservations have taken, for Apply: most have none, and their
	// events do not ask.
	TakenKeys int
}

// Holder returns what a customer's open reservations hold at an instant: units of a feature of a
// subscription, and credits of pools of a name. Callers hold the customer's lock. Took reports
// whether a reservation has taken the key of an event, Owns whether the key is for a reservation's
// own events; for Apply.
type Holder interface {
	Units(customer, subscription, feature uint32, now int64) decimal.Decimal
	Credits(customer uint32, pool catalogs.PoolName, now int64) decimal.Decimal
	Took(key *[16]byte) bool
	Owns(env uint32, key []byte) bool
}

// Lists are heads of lists of rows.
type Lists struct {
	FreeSpan       uint32 `wire:"1"`
	FreeMeter      uint32 `wire:"2"`
	FreeCorrection uint32 `wire:"3"`
	// FirstCorrection is the oldest one.
	FirstCorrection uint32 `wire:"4"`
	LastCorrection  uint32 `wire:"5"`
	FreeTrace       uint32 `wire:"6"`
}

// Open makes a book without customers.
func (s *Book) Open() {
	s.Directory.Open()
	s.CustomerByExternal = page.NewNotingIndex()
	s.CustomerByID, s.SubscriptionByID = page.NewIndex(), page.NewIndex()
	s.InvoiceByID, s.interimByCounter = page.NewIndex(), page.NewIndex()
	s.Customers = OpenCustomers(s.Store)
	s.Profiles = page.NewTable(s.Store, accounts.TableProfiles, rows.TextCodec)
	s.LongIDs = page.NewTable(s.Store, accounts.TableLongIDs, rows.TextCodec)
	s.Subscriptions = OpenSubscriptions(s.Store)
	s.Counters = OpenCounters(s.Store)
	s.Invoices = OpenInvoices(s.Store)
	s.Items = rows.OpenSharedTexts(s.Store, accounts.TableItems)
	s.Spans = page.NewTable(s.Store, accounts.TableSpans, SpanCodec)
	s.Meters = page.NewTable(s.Store, accounts.TableMeters, MeterCodec)
	s.Bases = page.NewTable(s.Store, accounts.TableBases, BaseCodec)
	s.Interims = page.NewTable(s.Store, accounts.TableInterims, InterimCodec)
	s.Told = OpenTold(s.Store)
	s.Sequences = page.NewTable(s.Store, accounts.TableSequences, SequenceCodec)
	s.Balances = page.NewTable(s.Store, accounts.TableBalances, BalanceCodec)
	s.PlanChanges = page.NewTable(s.Store, accounts.TablePlanChanges, PlanChangeCodec)
}

// Keeper is the part of a turn that writes the book.
type Keeper struct {
	accounts.Tx
	S *Book
}
