package billing

import (
	"fmt"

	"tollgate/engine/decimal"
	"tollgate/engine/journal"
)

// TransactionView is one movement of a pool's credits.
type TransactionView struct {
	ID       [16]byte `wire:"1"`
	PoolID   [16]byte `wire:"2"`
	Sequence uint32   `wire:"3"` // within the pool, from 1, without gaps
	// Kind is GRANT, CONSUMPTION, DEDUCTION, EXPIRATION, ROLLOVER, REVERSAL or RETURN.
	Kind      string          `wire:"4"`
	GrantType string          `wire:"5"` // of the grant, where there is one
	Amount    decimal.Decimal `wire:"6"`
	Balance   decimal.Decimal `wire:"7"` // Amount > 0; Balance of the pool after it
	// GrantID, SubscriptionID and FeatureKey are set where one grant, a subscription, a feature is
	// concerned; Of is what a reversal reverses.
	GrantID        [16]byte `wire:"8"`
	SubscriptionID [16]byte `wire:"9"`
	Of             [16]byte `wire:"10"`
	FeatureKey     string   `wire:"11"`
	Note           string   `wire:"12"`
	Reversed       bool     `wire:"13"`
	CreatedAt      int64    `wire:"14"`
	UpdatedAt      int64    `wire:"15"`
	ExpiresAt      int64    `wire:"16"`
	// BalanceUnknown reports whether Balance is not known any more: in the answer to a grant that
	// is repeated once its transaction has left memory.
	BalanceUnknown bool `wire:"17"`
}

// TransactionReply is the reply of commands that book a transaction.
type TransactionReply struct {
	Transaction TransactionView `wire:"1"`
}

// transactionView must be called by Apply, or under the customer's lock.
func (s *vault) transactionView(held *archivedTransaction) TransactionView {
	x := &held.transaction
	p := s.pools.Read(x.pool)
	view := TransactionView{
		ID: x.id, PoolID: p.id, Sequence: x.sequence, Kind: x.kind.String(),
		Amount: x.amount, Balance: x.balance, Of: x.of, Note: held.Note,
		FeatureKey: s.featureKey(s.customers.Read(p.customer).env, x.feature),
		Reversed:   s.reversedSince(x), CreatedAt: x.createdAt, UpdatedAt: x.updatedAt,
	}
	if x.grant != 0 {
		g := s.grants.Read(x.grant)
		view.GrantID, view.GrantType, view.ExpiresAt = g.ID, g.kind.String(), g.ExpiresAt
		if x.kind == transactionGrant {
			view.Reversed = g.end == grantReversed // also once the transaction has left memory
			view.GrantType = g.booked().String()   // what it was then
		}
	}
	if x.subscription != 0 {
		view.SubscriptionID = s.subscriptions.Read(x.subscription).id
	}
	return view
}

// TransactionCursor is where a page of a pool's transactions begins: the zero one at the newest.
type TransactionCursor struct {
	// Before is the sequence of the last transaction of the page before.
	Before uint32 `wire:"1"`
	// Rows says where to read on, once a page has come to what is in the journal.
	Rows chainCursor `wire:"2"`
}

// chainCursor is a place among a pool's chunks. Reached says that all that is in memory was listed,
// and the journal is to be read from At on, and not from its newest chunk.
type chainCursor struct {
	Reached bool       `wire:"1"`
	At      chunkPlace `wire:"2"`
}

// TransactionQuery asks for a page of a pool's transactions.
type TransactionQuery struct {
	Env    uint32
	Pool   [16]byte
	Cursor TransactionCursor
	Limit  int // 1–1000
}

// TransactionPage is a page of a pool's transactions, newest first. Next is the cursor of the
// following one, where there is More.
type TransactionPage struct {
	List []TransactionView
	Next TransactionCursor
	More bool
}

// Transactions lists a page of a pool's transactions, all that ever were, newest first. False:
// there is no such pool. What has left memory is read from the journal. It waits for the entry that
// is being applied, if there is one.
func (m *Machine) Transactions(
	src journal.Source, q TransactionQuery,
) (page TransactionPage, found bool, err error) {
	l, found := m.transactionList(src, &q)
	if !found {
		return page, false, nil
	}
	var listed []archivedTransaction
	limit := min(max(q.Limit, 1), MaxTransactions)
	for len(listed) <= limit {
		x, err := l.next()
		if err != nil {
			return page, true, err
		}
		if x == nil {
			break
		}
		if page.More = len(listed) == limit; page.More {
			page.Next = l.cursor(listed[limit-1].sequence)
			break
		}
		listed = append(listed, *x)
		l.take()
	}
	lock := l.state.stripe(l.customer)
	lock.RLock()
	defer lock.RUnlock()
	page.List = []TransactionView{}
	for i := range listed {
		page.List = append(page.List, l.state.transactionView(&listed[i]))
	}
	return page, true, nil
}

// transactionList walks a pool's transactions from the newest to the oldest: those that were in
// memory when it began, the oldest first, and the chunks of the journal.
type transactionList struct {
	state    *state
	customer uint32
	recent   []archivedTransaction
	rows     chainReader
}

// transactionList begins a walk. Between two entries what is not in memory is in the journal.
func (m *Machine) transactionList(
	src journal.Source, q *TransactionQuery,
) (l *transactionList, found bool) {
	m.applying.RLock()
	defer m.applying.RUnlock()
	s := m.state.Load()
	row := s.poolIn(q.Env, &q.Pool)
	if row == 0 {
		return nil, false
	}
	p, a := s.pools.Read(row), s.archives.Read(row)
	l = &transactionList{state: s, customer: p.customer}
	lock := s.stripe(p.customer)
	lock.RLock()
	defer lock.RUnlock()
	before := q.Cursor.Before
	l.recent = s.newest(p.firstTransaction, before, q.Limit)
	l.rows = chainReader{src: src, customer: p.customer, pool: row, before: before}
	l.rows.begin(q.Cursor.Rows, a.rows)
	return l, true
}

// newest copies what a page of a linked list of rows can need: the newest before a sequence (0:
// all), one more than a page has.
func (s *state) newest(first, before uint32, limit int) (list []archivedTransaction) {
	var rows []uint32
	for at := first; at != 0; {
		x := s.transactions.Read(at)
		if before != 0 && x.sequence >= before {
			break
		}
		rows = append(rows, at)
		at = x.next
	}
	most := min(max(limit, 1), MaxTransactions) + 1
	for _, row := range rows[max(0, len(rows)-most):] {
		list = append(list, s.heldTransaction(row))
	}
	return list
}

// next is the newest transaction that was not taken; nil when there is none.
func (l *transactionList) next() (*archivedTransaction, error) {
	if n := len(l.recent); n > 0 {
		return &l.recent[n-1], nil
	}
	return l.rows.next()
}

// take takes what next has returned.
func (l *transactionList) take() {
	if n := len(l.recent); n > 0 {
		l.recent = l.recent[:n-1]
		return
	}
	l.rows.take()
}

// cursor is where the walk goes on after a transaction.
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
	at, older      chunkPlace
	rows           []archivedTransaction // of the chunk at at, those that were not taken
}

func (c *chainReader) begin(from chainCursor, newest chunkPlace) {
	if c.older = newest; from.Reached {
		c.older = from.At
	}
}

func (c *chainReader) next() (*archivedTransaction, error) {
	for {
		for n := len(c.rows); n > 0; n-- {
			if c.before == 0 || c.rows[n-1].sequence < c.before {
				c.rows = c.rows[:n]
				return &c.rows[n-1], nil
			}
		}
		c.rows = nil
		if c.older.Index == 0 {
			return nil, nil
		}
		chunk, err := chunkAt(c.src, c.customer, c.older)
		if err != nil {
			return nil, err
		}
		if chunk.Pool != c.pool {
			return nil, fmt.Errorf("%w: transactions of pool %d are those of %d", ErrEvent,
				c.pool, chunk.Pool)
		}
		c.at, c.older, c.rows = c.older, chunk.Previous, chunk.Rows
	}
}

func (c *chainReader) take() { c.rows = c.rows[:len(c.rows)-1] }

// place is the chunk that has what comes next.
func (c *chainReader) place() chunkPlace {
	if len(c.rows) > 0 {
		return c.at
	}
	return c.older
}
