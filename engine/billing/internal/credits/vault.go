// Package credits has customers' pools of credits: grants, burning, transactions, their archive in
// the journal, and the facts that an entry writes there. It knows neither commands nor projections.
package credits

import (
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/outbox"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/page"
)

// Vault has the customers' pools of credits with their grants and transactions.
type Vault struct {
	book.Book

	Pools            *page.Table[Pool]
	PoolTexts        *page.Table[rows.Text] // row = pool row
	Grants           *page.Table[Grant]
	Transactions     *page.Table[Transaction]
	Archives         *page.Table[Archive]   // as long as pools
	TransactionTexts *page.Table[rows.Text] // row = transaction row
	Traces           *page.Table[Trace]
	Chunks           *page.Table[Chunk]
	Covers           *page.Table[Cover]
	topUps           topUps

	poolByID, poolByCustomer, transactionByID, coverByCounter *page.Index
	grantByID                                                 *page.Index // those that were booked
	traceByID, ChunkByPool                                    *page.Index
}

// Open makes a vault without pools.
func (s *Vault) Open() {
	s.Book.Open()
	s.poolByID, s.poolByCustomer = page.NewIndex(), page.NewIndex()
	s.transactionByID, s.grantByID = page.NewIndex(), page.NewIndex()
	s.traceByID, s.ChunkByPool, s.coverByCounter = page.NewIndex(), page.NewIndex(), page.NewIndex()
	s.Pools = page.NewTable(s.Store, accounts.TablePools, PoolCodec)
	s.PoolTexts = page.NewTable(s.Store, accounts.TablePoolTexts, rows.TextCodec)
	s.Grants = page.NewTable(s.Store, accounts.TableGrants, GrantCodec)
	s.Transactions = page.NewTable(s.Store, accounts.TableTransactions, TransactionCodec)
	s.TransactionTexts = page.NewTable(s.Store, accounts.TableTransactionTexts, rows.TextCodec)
	s.Archives = page.NewTable(s.Store, accounts.TableArchives, ArchiveCodec)
	s.Traces = page.NewTable(s.Store, accounts.TableTraces, TraceCodec)
	s.Chunks = page.NewTable(s.Store, accounts.TableChunks, ChunkCodec)
	s.topUps.open(s.Store)
	s.Covers = page.NewTable(s.Store, accounts.TableCovers, CoverCodec)
}

// Burner is the part of a turn that moves credits and collects the facts for the journal.
type Burner struct {
	outbox.Emitter
	S      *Vault
	Moves  *Moves
	Bounds CreditBounds
}

// Moves are an entry's facts about credits, in memory that is reused for the next.
type Moves struct {
	draws []Draw
	Facts FactRecord
	// Above are the subscriptions for which the present command may issue an interim invoice. After is
	// the place of facts that follow the command's own journal records; 0: they precede them.
	Above []uint32
	After uint32
	// moved are the pools whose credits the present command moved, or let reservations hold.
	moved []uint32
}

// moved notes that a pool's credits moved or are held, for EmitPools.
func (t *Burner) moved(pool uint32) {
	if moved := t.Moves.moved; len(moved) == 0 || moved[len(moved)-1] != pool {
		t.Moves.moved = append(moved, pool)
	}
}

// EmitPools tops pools up, and queues messages about those that this command has emptied, or
// brought down to the balance at which they are low. A pool that the same command refills, as at a
// period's end, does not count.
func (t *Burner) EmitPools() {
	for _, row := range t.Moves.moved {
		p := t.S.Pools.Read(row)
		t.NoteHeld(p.Customer, p.Name)
	}
	for _, row := range t.Moves.moved {
		p := t.S.Pools.Read(row)
		empty := p.Hard && !p.Archived && p.Balance().Sign() <= 0
		if p.topped {
			t.TopUpPool(row, t.S.Environment(t.S.Customers.Read(p.Customer).Env).Now(t.Stamp))
		}
		if !p.watched && empty == p.depleted {
			continue
		}
		words := t.S.PoolWords(row)
		low, was := p.isLow(words.LowBalance), *p
		lock := t.S.WriteLock(p.Customer)
		p = t.S.Pools.Write(row)
		t.S.Tally(row, -1)
		p.depleted, p.low = empty, low
		t.S.Tally(row, 1)
		lock.Unlock()
		if low && !was.low {
			t.emitPool(row, accounts.WebhookCreditsLow, &words)
		}
		if empty && !was.depleted {
			t.emitPool(row, accounts.WebhookCreditsDepleted, &words)
		}
	}
	t.Moves.moved = t.Moves.moved[:0]
}

func (t *Burner) emitPool(row uint32, w accounts.WebhookEvent, words *PoolText) {
	p := t.S.Pools.Read(row)
	e := t.S.Environment(t.S.Customers.Read(p.Customer).Env)
	m := outbox.WebhookMessage{
		Type: w, At: e.Now(t.Stamp),
		ToldPool: outbox.ToldPool{PoolID: p.ID, PoolName: words.Name, Balance: p.Balance()},
	}
	if w == accounts.WebhookCreditsLow {
		m.LowBalance = words.LowBalance
	}
	t.Emit(e, p.Customer, &m)
}
