package billing

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"unsafe"

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
	log machine.Log

	limits atomic.Pointer[Limits]
	// floor is the log time before which idempotency keys may have been dropped: an event that
	// occurred earlier is refused whatever the settings say now.
	floor int64

	accounts     rows.Series[*account]
	environments rows.Series[*environment]
	namesMu      sync.RWMutex
	names        map[string]uint32   // account name → number
	accountIDs   map[[16]byte]uint32 // account id → number
	apiKeys      rows.Series[*keySlot]
	apiKeyByHash *page.Index

	store         *page.Store
	customers     *page.Table[customer]
	profiles      *page.Table[rows.Text] // row = customer row
	longIDs       *page.Table[rows.Text] // identifiers that do not fit a customer's record
	changesMu     sync.RWMutex
	changeMarks   *page.Table[changeMark] // where in the journal admin changes stand
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
	corrections   *page.Table[correction]

	// lists are rows that are free, and the corrections by age.
	lists

	pools            *page.Table[pool]
	poolTexts        *page.Table[rows.Text] // row = pool row
	grants           *page.Table[grant]
	transactions     *page.Table[transaction]
	archives         *page.Table[archive]   // as long as pools
	transactionTexts *page.Table[rows.Text] // row = transaction row
	traces           *page.Table[trace]
	chunks           *page.Table[chunk]
	covers           *page.Table[cover]
	correctionDraws  *page.Table[rows.Text] // row = correction row: a drawList

	// The indexes are not state: their hashes are seeded by the process.
	seed               maphash.Seed
	customerByExternal *page.Index
	customerByID       *page.Index
	subscriptionByID   *page.Index
	invoiceByID        *page.Index
	pending            *page.Index // id of a PENDING invoice → subscription
	correctionByKey    *page.Index

	// schedule is for Apply alone, but for what NextDue reads, and no state: it is rebuilt at
	// restore.
	schedule schedule

	poolByID, poolByCustomer, transactionByID, coverByCounter *page.Index
	grantByID                                                 *page.Index // those that were booked
	traceByID, chunkByPool                                    *page.Index
	keys                                                      *idempotency.Keys
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
	// changes is how many admin changes there have been, changesShown how many of them the journal
	// shows; only Apply and Restore touch the former.
	changes      uint64
	changesShown atomic.Uint64

	stripes [stripes]stripe
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

// stripes is the number of locks over customers; a power of two.
const stripes = 1024

// stripe is one lock, alone on its cache lines.
type stripe struct {
	sync.RWMutex
	_ [128 - unsafe.Sizeof(sync.RWMutex{})]byte
}

// stripe returns the lock of everything that belongs to a customer.
func (s *state) stripe(customer uint32) *stripe { return &s.stripes[customer%stripes] }

// newState returns the state before the first entry.
func newState() *state {
	s := &state{
		names:        map[string]uint32{},
		accountIDs:   map[[16]byte]uint32{},
		apiKeyByHash: page.NewIndex(),
		store:        page.NewStore(),
		seed:         maphash.MakeSeed(),
		lines:        rows.NewSharedTexts(),

		customerByExternal: page.NewIndex(),
		customerByID:       page.NewIndex(),
		subscriptionByID:   page.NewIndex(),
		invoiceByID:        page.NewIndex(),

		poolByID:        page.NewIndex(),
		poolByCustomer:  page.NewIndex(),
		transactionByID: page.NewIndex(),
		grantByID:       page.NewIndex(),
		traceByID:       page.NewIndex(),
		chunkByPool:     page.NewIndex(),
		coverByCounter:  page.NewIndex(),
		pending:         page.NewIndex(),
		correctionByKey: page.NewIndex(),
	}
	limits := DefaultLimits()
	s.limits.Store(&limits)
	s.keys = idempotency.New(limits.KeyRetentionMS)
	s.customers = page.NewTable(s.store, tableCustomers, customerCodec)
	s.profiles = page.NewTable(s.store, tableProfiles, rows.TextCodec)
	s.longIDs = page.NewTable(s.store, tableLongIDs, rows.TextCodec)
	s.changeMarks = page.NewTable(s.store, tableChangeMarks, changeMarkCodec)
	s.requests.open(s)
	s.submissions = openSubmissions(s)
	s.openPayments()
	s.outbox.open(s)
	s.subscriptions = openSubscriptions(s.store)
	s.counters = openCounters(s.store)
	s.invoices = openInvoices(s.store)
	s.items = page.NewTable(s.store, tableItems, s.lines.Codec())
	s.pools = page.NewTable(s.store, tablePools, poolCodec)
	s.poolTexts = page.NewTable(s.store, tablePoolTexts, rows.TextCodec)
	s.grants = page.NewTable(s.store, tableGrants, grantCodec)
	s.transactions = page.NewTable(s.store, tableTransactions, transactionCodec)
	s.transactionTexts = page.NewTable(s.store, tableTransactionTexts, rows.TextCodec)
	s.archives = page.NewTable(s.store, tableArchives, archiveCodec)
	s.traces = page.NewTable(s.store, tableTraces, traceCodec)
	s.chunks = page.NewTable(s.store, tableChunks, chunkCodec)
	s.covers = page.NewTable(s.store, tableCovers, coverCodec)
	s.correctionDraws = page.NewTable(s.store, tableCorrectionDraws, rows.TextCodec)
	s.spans = page.NewTable(s.store, tableSpans, spanCodec)
	s.meters = page.NewTable(s.store, tableMeters, meterCodec)
	s.bases = page.NewTable(s.store, tableBases, baseCodec)
	s.sequences = page.NewTable(s.store, tableSequences, sequenceCodec)
	s.balances = page.NewTable(s.store, tableBalances, balanceCodec)
	s.planChanges = page.NewTable(s.store, tablePlanChanges, planChangeCodec)
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
		s.invoiceByID.Insert(s.idHash(ptr(s.invoices.ID(row))), row)
	}
	s.reindexCredits()
}

func (s *state) idHash(id *[16]byte) uint64 { return maphash.Bytes(s.seed, id[:]) }

func (s *state) externalHash(env uint32, external []byte) uint64 {
	return machine.Fold(maphash.Bytes(s.seed, external), uint64(env))
}
