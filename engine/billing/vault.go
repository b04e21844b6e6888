package billing

import (
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/page"
)

// vault has the customers' pools of credits, with what was granted to them and booked.
type vault struct {
	*book

	pools            *page.Table[pool]
	poolTexts        *page.Table[rows.Text] // row = pool row
	grants           *page.Table[grant]
	transactions     *page.Table[transaction]
	archives         *page.Table[archive]   // as long as pools
	transactionTexts *page.Table[rows.Text] // row = transaction row
	traces           *page.Table[trace]
	chunks           *page.Table[chunk]
	covers           *page.Table[cover]

	poolByID, poolByCustomer, transactionByID, coverByCounter *page.Index
	grantByID                                                 *page.Index // those that were booked
	traceByID, chunkByPool                                    *page.Index
}

// newVault returns a vault without pools.
func newVault() *vault {
	s := &vault{
		book:            newBook(),
		poolByID:        page.NewIndex(),
		poolByCustomer:  page.NewIndex(),
		transactionByID: page.NewIndex(),
		grantByID:       page.NewIndex(),
		traceByID:       page.NewIndex(),
		chunkByPool:     page.NewIndex(),
		coverByCounter:  page.NewIndex(),
	}
	s.pools = page.NewTable(s.store, tablePools, poolCodec)
	s.poolTexts = page.NewTable(s.store, tablePoolTexts, rows.TextCodec)
	s.grants = page.NewTable(s.store, tableGrants, grantCodec)
	s.transactions = page.NewTable(s.store, tableTransactions, transactionCodec)
	s.transactionTexts = page.NewTable(s.store, tableTransactionTexts, rows.TextCodec)
	s.archives = page.NewTable(s.store, tableArchives, archiveCodec)
	s.traces = page.NewTable(s.store, tableTraces, traceCodec)
	s.chunks = page.NewTable(s.store, tableChunks, chunkCodec)
	s.covers = page.NewTable(s.store, tableCovers, coverCodec)
	return s
}

// burner is a turn that moves credits, and keeps facts of what it does for the journal.
type burner struct {
	teller
	s      *vault
	moves  *moves
	bounds creditBounds
}

// moves are what an entry has to say of credits, in memory that is used again for the next.
type moves struct {
	draws []draw
	facts factRecord
	// moved are the pools whose credits the present command has moved.
	moved []uint32
}
