package billing

import (
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/page"
)

// book has the customers with their subscriptions, what those have used, and their invoices.
type book struct {
	*directory

	customers     *page.Table[customer]
	profiles      *page.Table[rows.Text] // row = customer row
	longIDs       *page.Table[rows.Text] // identifiers that do not fit a customer's record
	subscriptions subscriptions
	counters      counters
	invoices      invoices
	items         *page.Table[rows.Text] // row = invoice row
	lines         rows.SharedTexts       // of items; no state
	spans         *page.Table[span]
	meters        *page.Table[meter]
	bases         *page.Table[base]
	sequences     *page.Table[sequence]
	balances      *page.Table[balance]
	planChanges   *page.Table[planChange]

	// lists are rows that are free, and the corrections by age.
	lists

	customerByExternal *page.Index
	customerByID       *page.Index
	subscriptionByID   *page.Index
	invoiceByID        *page.Index
}

// lists are heads of lists of rows.
type lists struct {
	freeSpan       uint32 `wire:"1"`
	freeMeter      uint32 `wire:"2"`
	freeCorrection uint32 `wire:"3"`
	// firstCorrection is the oldest one.
	firstCorrection uint32 `wire:"4"`
	lastCorrection  uint32 `wire:"5"`
	freeTrace       uint32 `wire:"6"`
}

// newBook returns a book without customers.
func newBook() *book {
	s := &book{
		directory: newDirectory(),
		lines:     rows.NewSharedTexts(),

		customerByExternal: page.NewIndex(),
		customerByID:       page.NewIndex(),
		subscriptionByID:   page.NewIndex(),
		invoiceByID:        page.NewIndex(),
	}
	s.customers = page.NewTable(s.store, tableCustomers, customerCodec)
	s.profiles = page.NewTable(s.store, tableProfiles, rows.TextCodec)
	s.longIDs = page.NewTable(s.store, tableLongIDs, rows.TextCodec)
	s.subscriptions = openSubscriptions(s.store)
	s.counters = openCounters(s.store)
	s.invoices = openInvoices(s.store)
	s.items = page.NewTable(s.store, tableItems, s.lines.Codec())
	s.spans = page.NewTable(s.store, tableSpans, spanCodec)
	s.meters = page.NewTable(s.store, tableMeters, meterCodec)
	s.bases = page.NewTable(s.store, tableBases, baseCodec)
	s.sequences = page.NewTable(s.store, tableSequences, sequenceCodec)
	s.balances = page.NewTable(s.store, tableBalances, balanceCodec)
	s.planChanges = page.NewTable(s.store, tablePlanChanges, planChangeCodec)
	return s
}

// keeper is a turn that writes the book.
type keeper struct {
	tx
	s *book
}
