package credits

import (
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/credit"
	"tollgate/engine/decimal"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

// ReschedulePool sets when the first of a pool's live grants expires.
func (s *Vault) ReschedulePool(row uint32) {
	p, at := s.Pools.Read(row), int64(rows.Never)
	if !p.Archived && p.NextExpiry != 0 {
		at = p.NextExpiry
	}
	if p.topped && !p.Archived {
		if retry := s.topUps.rules.Read(s.topUps.of(row)).RetryAt; retry != 0 {
			at = min(at, retry)
		}
	}
	e := s.Environment(s.Customers.Read(p.Customer).Env)
	e.PoolDues.Set(&s.Schedule.Pools, row, at)
	s.Requeue(e)
}

// Pool is the record of a pool of credits; its texts are the text of the same row. id, customer and
// name never change. Balance is the sum of the live grants less the overdraft.
//
//schema:row
type Pool struct {
	ID             [16]byte
	Name           catalogs.PoolName
	Customer, Next uint32 // Next: the customer's next younger pool
	// FirstGrant begins the list of live grants in burn order; Grants counts them.
	FirstGrant, Grants uint32
	// The newest transactions are linked from the oldest; Sequence numbers all from 1.
	FirstTransaction, LastTransaction, Transactions, Sequence uint32
	CreatedAt, ModifiedAt                                     int64
	// NextExpiry is when the first of the live grants expires; 0: never.
	NextExpiry int64
	Totals
	RolloverCap                    decimal.Decimal
	Priority                       int32
	Policy                         credit.Policy
	Hard, HasCap, Frozen, Archived bool
	// depleted is what webhooks last reported: set while a hard limit leaves no credits. low is the
	// same of the balance at which a pool is low, and watched whether it has one.
	depleted, watched, low bool
	// topped is set if the pool has a TopUp.
	topped bool
}

// Totals are what a pool has moved so far.
type Totals struct {
	Granted, Consumed, Expired, Reversed decimal.Decimal
	// Overdraft is consumption beyond all grants; later grants pay it.
	Overdraft decimal.Decimal
}

// PoolText is the cold part of a pool.
type PoolText struct {
	Name         string `wire:"1"`
	Denomination string `wire:"2"`
	Currency     string `wire:"3"`
	Metadata     []byte `wire:"4"`
	// LowBalance is the balance at which the pool is low; 0: none.
	LowBalance decimal.Decimal `wire:"5"`
	// StoppedAt is since when the pool is frozen or archived: reservations of before still draw
	// what they hold of it.
	StoppedAt int64 `wire:"6"`
	// StoppedHeld is what of it they held then and have not drawn or given up since: it pays no more.
	StoppedHeld decimal.Decimal `wire:"7"`
}

// Balance is granted − consumed − expired − reversed. Each total is within the range of numbers,
// and so is the balance: consumed is checked when it grows, expired and reversed are parts of
// granted.
func (p *Pool) Balance() decimal.Decimal {
	b := credit.Less(p.Granted, p.Consumed)
	return credit.Less(credit.Less(b, p.Expired), p.Reversed)
}

// NoteHeld notes, for EmitPools, that reservations may hold more of each of a customer's pools of a
// name: they hold more, or another one of the name has less.
func (t *Burner) NoteHeld(customer uint32, name catalogs.PoolName) {
	if !t.S.Customers.Read(customer).Held {
		return
	}
	for row := t.S.FirstPool(customer); row != 0; {
		p := t.S.Pools.Read(row)
		if p.topped && p.Name == name && !p.Archived {
			t.moved(row)
		}
		row = p.Next
	}
}

// BalanceAt returns the balance at an instant, without what expires by then, booked or not.
func (s *Vault) BalanceAt(p *Pool, now int64) decimal.Decimal {
	return credit.Less(p.Balance(), s.Expiring(p, now))
}

// Expiring returns what the pool's live grants lose by an instant.
func (s *Vault) Expiring(p *Pool, now int64) (sum decimal.Decimal) {
	if p.NextExpiry == 0 || now < p.NextExpiry {
		return sum
	}
	for _, g := range s.GrantsOf(p) {
		if g.Expired(now) {
			sum = More(sum, g.Remaining)
		}
	}
	return sum
}

// More returns a + b for amounts whose sum is known to be within the range of numbers.
func More(a, b decimal.Decimal) decimal.Decimal { return credit.Less(a, b.Neg()) }

// watch sets the balance at which the pool is low; 0: none. A pool that is low then is not told.
func (p *Pool) watch(low decimal.Decimal) {
	p.watched = low.Sign() > 0
	p.low = p.isLow(low)
}

func (p *Pool) isLow(low decimal.Decimal) bool {
	return p.watched && !p.Archived && !low.Less(p.Balance())
}

// SetLowBalance changes the balance at which a pool is low. Callers hold the customer's lock.
func (t *Burner) SetLowBalance(row uint32, low decimal.Decimal) {
	words := t.S.PoolWords(row)
	words.LowBalance = low
	t.S.PoolTexts.Write(row).Data = string(wire.Encode(nil, &words))
	t.S.Pools.Write(row).watch(low)
}

// stopped reports whether the pool pays nothing but what reservations hold of it.
func (p *Pool) stopped() bool { return p.Frozen || p.Archived }

// Stopped notes that a pool of which reservations held so much has stopped paying, or pays again,
// where that was otherwise before. Callers hold the customer's lock.
func (t *Burner) Stopped(row uint32, before *Pool, held decimal.Decimal, now int64) {
	p := t.S.Pools.Read(row)
	if p.stopped() == before.stopped() {
		return
	}
	words := t.S.PoolWords(row)
	if words.StoppedAt, words.StoppedHeld = 0, (decimal.Decimal{}); p.stopped() {
		words.StoppedAt, words.StoppedHeld = now, held
	}
	t.S.PoolTexts.Write(row).Data = string(wire.Encode(nil, &words))
}

// paysHeld notes that a stopped pool has paid so much of what reservations held of it. Callers hold
// the customer's lock.
func (t *Burner) paysHeld(row uint32, amount decimal.Decimal) {
	words := t.S.PoolWords(row)
	words.StoppedHeld = sums.Remaining(words.StoppedHeld, amount)
	t.S.PoolTexts.Write(row).Data = string(wire.Encode(nil, &words))
}

// GaveUp lowers StoppedHeld of a customer's stopped pools of a name when a reservation closes: a
// stopped pool pays no more than what the remaining reservations from before the stop still hold.
// held returns that for the reservations made by an instant. Callers hold the customer's lock.
func (t *Burner) GaveUp(
	customer uint32, name catalogs.PoolName, held func(by int64) decimal.Decimal,
) {
	for row := t.S.FirstPool(customer); row != 0; row = t.S.Pools.Read(row).Next {
		p := t.S.Pools.Read(row)
		if p.Name != name || !p.stopped() {
			continue
		}
		words := t.S.PoolWords(row)
		if words.StoppedHeld.IsZero() {
			continue
		}
		if left := held(words.StoppedAt); left.Less(words.StoppedHeld) {
			words.StoppedHeld = left
			t.S.PoolTexts.Write(row).Data = string(wire.Encode(nil, &words))
		}
	}
}

// PoolWords are a pool's texts. Readers hold the customer's lock.
func (s *Vault) PoolWords(row uint32) (words PoolText) {
	rows.DecodeText(s.PoolTexts.Read(row).Data, &words)
	return words
}

// Statuses of a pool.
const (
	poolActive   = "ACTIVE"
	poolFrozen   = "FROZEN"
	poolDepleted = "DEPLETED"
	poolArchived = "ARCHIVED"
)

// Status returns the pool's status at a balance.
func (p *Pool) Status(balance decimal.Decimal) string {
	switch {
	case p.Archived:
		return poolArchived
	case p.Frozen:
		return poolFrozen
	case p.Hard && balance.Sign() <= 0:
		return poolDepleted
	}
	return poolActive
}

// AddPool adds a pool to its customer. Callers hold the customer's lock.
func (t *Burner) AddPool(p *Pool, words *PoolText) (row uint32) {
	row, r := t.S.Pools.Append()
	*r = *p
	r.watch(words.LowBalance)
	_, cold := t.S.PoolTexts.Append()
	cold.Data = string(wire.Encode(nil, words))
	t.S.Archives.Append()
	last := uint32(0)
	for at := t.S.FirstPool(p.Customer); at != 0; at = t.S.Pools.Read(at).Next {
		last = at
	}
	if last != 0 {
		t.S.Pools.Write(last).Next = row
	} else {
		t.S.poolByCustomer.Insert(rowHash(p.Customer), row)
	}
	t.S.poolByID.Insert(t.S.IDHash(&p.ID), row)
	return row
}

// rowHash spreads rows over an index.
func rowHash(row uint32) uint64 { return machine.Fold(0, uint64(row)) }

// FirstPool returns the customer's oldest pool; 0 if there is none.
func (s *Vault) FirstPool(customer uint32) uint32 {
	return s.poolByCustomer.Find(rowHash(customer), func(row uint32) bool {
		return s.Pools.Read(row).Customer == customer
	})
}

// PoolRoom returns how many pools a customer may still get.
func (s *Vault) PoolRoom(customer uint32) int {
	open, all := 0, 0
	for row := s.FirstPool(customer); row != 0; row = s.Pools.Read(row).Next {
		all++
		if !s.Pools.Read(row).Archived {
			open++
		}
	}
	return min(catalogs.MaxPools-open, catalogs.MaxPoolRows-all)
}

// PoolWith finds a pool by its UUID in any environment; 0 if there is none.
func (s *Vault) PoolWith(id *[16]byte) uint32 {
	return s.poolByID.Find(s.IDHash(id), func(row uint32) bool { return s.Pools.Read(row).ID == *id })
}

// PoolIn finds a pool of one environment; 0 if there is none.
func (s *Vault) PoolIn(env uint32, id *[16]byte) uint32 {
	row := s.PoolWith(id)
	if row != 0 && s.Customers.Read(s.Pools.Read(row).Customer).Env != env {
		return 0
	}
	return row
}

// FoldPool mixes a pool's totals into the rolling hash.
func (t *Burner) FoldPool(row uint32) {
	p := t.S.Pools.Read(row)
	t.Fold(uint64(row)<<32 | uint64(p.Sequence))
	high, low := p.Balance().Bits()
	t.Fold(uint64(high) ^ low)
	high, low = p.Overdraft.Bits()
	t.Fold(uint64(high) ^ low ^ uint64(rows.Flags(p.Frozen, p.Archived)))
}

// ReindexCredits rebuilds the indexes of pools, transactions and covers after a restore; the check
// has indexed the chunks.
func (s *Vault) ReindexCredits() {
	for row, p := range s.Pools.All() {
		s.poolByID.Insert(s.IDHash(&p.ID), row)
		if s.FirstPool(p.Customer) == 0 {
			s.poolByCustomer.Insert(rowHash(p.Customer), row)
		}
	}
	for row := uint32(1); row <= s.Transactions.Len(); row++ {
		if x := s.Transactions.Read(row); x.Kind != 0 { // otherwise the row is free
			s.transactionByID.Insert(s.IDHash(&x.ID), row)
		}
	}
	for row := uint32(1); row <= s.Grants.Len(); row++ {
		if g := s.Grants.Read(row); !g.Returned {
			s.grantByID.Insert(s.IDHash(&g.ID), row)
		}
	}
	for row := uint32(1); row <= s.Pools.Len(); row++ {
		for at := s.Archives.Read(row).FirstTrace; at != 0; at = s.Traces.Read(at).Next {
			s.traceByID.Insert(s.IDHash(&s.Traces.Read(at).ID), at)
		}
	}
	for row := uint32(1); row <= s.Covers.Len(); row++ {
		s.coverByCounter.Insert(rowHash(s.Covers.Read(row).Counter), row)
	}
	s.topUps.reindex()
	for row := uint32(1); row <= s.Pools.Len(); row++ {
		s.ReschedulePool(row)
		s.Tally(row, 1)
	}
}

// CreditBytes returns the memory of credits, without the bytes of texts.
func (s *Vault) CreditBytes() uint64 {
	return s.Pools.Bytes() + s.PoolTexts.Bytes() + s.Grants.Bytes() + s.Transactions.Bytes() +
		s.TransactionTexts.Bytes() + s.Covers.Bytes() + s.poolByID.Bytes() +
		s.Archives.Bytes() + s.grantByID.Bytes() + s.poolByCustomer.Bytes() +
		s.transactionByID.Bytes() + s.coverByCounter.Bytes() + s.Traces.Bytes() +
		s.traceByID.Bytes() + s.Chunks.Bytes() + s.ChunkByPool.Bytes()
}
