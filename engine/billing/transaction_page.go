package billing

import (
	"fmt"

	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/journal"
)

// TransactionCursor is the beginning of a page of a pool's transactions; the zero value is the
// newest.
type TransactionCursor struct {
	// Before is the sequence of the last transaction of the previous page.
	Before uint32 `wire:"1"`
	// Rows is where to continue after a page has reached the journal.
	Rows chainCursor `wire:"2"`
}

// chainCursor is a place among a pool's chunks. Reached reports that everything in memory was
// listed: the journal is read from At on, not from its newest chunk.
type chainCursor struct {
	Reached bool               `wire:"1"`
	At      credits.ChunkPlace `wire:"2"`
}

// TransactionQuery asks for a page of a pool's transactions.
type TransactionQuery struct {
	Env    uint32
	Pool   [16]byte
	Cursor TransactionCursor
	Limit  int // 1–1000
}

// TransactionPage is a page of a pool's transactions, newest first. Next is the cursor of the
// following page, if More.
type TransactionPage struct {
	List []credits.TransactionView
	Next TransactionCursor
	More bool
}

// Transactions lists a page of all of a pool's transactions, newest first, and reads those that
// have left memory from the journal. It returns false if there is no such pool. It waits for the
// entry that is being applied.
func (m *journalReader) Transactions(
	src journal.Source, q TransactionQuery,
) (page TransactionPage, found bool, err error) {
	l, found := m.transactionList(src, &q)
	if !found {
		return page, false, nil
	}
	var listed []credits.ArchivedTransaction
	limit := min(max(q.Limit, 1), catalogs.MaxTransactions)
	for len(listed) <= limit {
		x, err := l.next()
		if err != nil {
			return page, true, err
		}
		if x == nil {
			break
		}
		if page.More = len(listed) == limit; page.More {
			page.Next = l.cursor(listed[limit-1].Sequence)
			break
		}
		listed = append(listed, *x)
		l.take()
	}
	lock := l.state.ReadLock(l.customer)
	defer lock.RUnlock()
	page.List = []credits.TransactionView{}
	for i := range listed {
		page.List = append(page.List, l.state.TransactionView(&listed[i]))
	}
	return page, true, nil
}

// transactionList walks a pool's transactions from the newest to the oldest: those that were in
// memory at the start, oldest first, and the chunks of the journal.
type transactionList struct {
	state    *state
	customer uint32
	recent   []credits.ArchivedTransaction
	rows     chainReader
}

// transactionList begins a walk. Between two entries each transaction is in memory or in the
// journal.
func (m *journalReader) transactionList(
	src journal.Source, q *TransactionQuery,
) (l *transactionList, found bool) {
	m.applying.RLock()
	defer m.applying.RUnlock()
	s := m.state.Load()
	row := s.PoolIn(q.Env, &q.Pool)
	if row == 0 {
		return nil, false
	}
	p, a := s.Pools.Read(row), s.Archives.Read(row)
	l = &transactionList{state: s, customer: p.Customer}
	lock := s.ReadLock(p.Customer)
	defer lock.RUnlock()
	before := q.Cursor.Before
	l.recent = s.newest(p.FirstTransaction, before, q.Limit)
	l.rows = chainReader{src: src, customer: p.Customer, pool: row, before: before}
	l.rows.begin(q.Cursor.Rows, a.Rows)
	return l, true
}

// newest copies what a page needs of a linked list of rows: the newest before a sequence (0: all),
// one more than a page has.
func (s *state) newest(first, before uint32, limit int) (list []credits.ArchivedTransaction) {
	var rows []uint32
	for at := first; at != 0; {
		x := s.Transactions.Read(at)
		if before != 0 && x.Sequence >= before {
			break
		}
		rows = append(rows, at)
		at = x.Next
	}
	most := min(max(limit, 1), catalogs.MaxTransactions) + 1
	for _, row := range rows[max(0, len(rows)-most):] {
		list = append(list, s.HeldTransaction(row))
	}
	return list
}

// next returns the newest transaction not taken yet; nil if there is none.
func (l *transactionList) next() (*credits.ArchivedTransaction, error) {
	if n := len(l.recent); n > 0 {
		return &l.recent[n-1], nil
	}
	return l.rows.next()
}

// take takes the result of next.
func (l *transactionList) take() {
	if n := len(l.recent); n > 0 {
		l.recent = l.recent[:n-1]
		return
	}
	l.rows.take()
}

// cursor returns where the walk continues after a transaction.
func (l *transactionList) cursor(after uint32) TransactionCursor {
	c := TransactionCursor{Before: after}
	if len(l.recent) == 0 {
		c.Rows = chainCursor{true, l.rows.place()}
	}
	return c
}

// chainReader walks a pool's chunks, from the newest transaction to the oldest.
type chainReader struct {
	src            journal.Source
	customer, pool uint32
	before         uint32 // transactions from this sequence on are left out; 0: none
	at, older      credits.ChunkPlace
	rows           []credits.ArchivedTransaction // of the chunk at at, not taken yet
}

func (c *chainReader) begin(from chainCursor, newest credits.ChunkPlace) {
	if c.older = newest; from.Reached {
		c.older = from.At
	}
}

func (c *chainReader) next() (*credits.ArchivedTransaction, error) {
	for {
		for n := len(c.rows); n > 0; n-- {
			if c.before == 0 || c.rows[n-1].Sequence < c.before {
				c.rows = c.rows[:n]
				return &c.rows[n-1], nil
			}
		}
		c.rows = nil
		if c.older.Index == 0 {
			return nil, nil
		}
		chunk, err := credits.ChunkAt(c.src, c.customer, c.older)
		if err != nil {
			return nil, err
		}
		if chunk.Pool != c.pool {
			return nil, fmt.Errorf("%w: transactions of pool %d are those of %d", rows.ErrEvent,
				c.pool, chunk.Pool)
		}
		c.at, c.older, c.rows = c.older, chunk.Previous, chunk.Rows
	}
}

func (c *chainReader) take() { c.rows = c.rows[:len(c.rows)-1] }

// place returns the chunk of the next transaction.
func (c *chainReader) place() credits.ChunkPlace {
	if len(c.rows) > 0 {
		return c.at
	}
	return c.older
}
