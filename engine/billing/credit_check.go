package billing

import (
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/credit"
	"tollgate/engine/decimal"
)

// creditsConsistent checks, after a restore, that rows of credits refer to existing rows, that
// lists end, that texts decode, and that each pool's totals match its grants.
func (s *state) creditsConsistent() error {
	pools, grants, transactions := s.Pools.Len(), s.Grants.Len(), s.Transactions.Len()
	if s.PoolTexts.Len() != pools || s.Archives.Len() != pools ||
		s.TransactionTexts.Len() != transactions {
		return damaged("tables of different length")
	}
	for row, p := range s.Pools.All() {
		if p.Customer == 0 || p.Customer > s.Customers.Len() || p.Next != 0 && p.Next <= row ||
			p.Next > pools || p.Next != 0 && s.Pools.Read(p.Next).Customer != p.Customer ||
			p.FirstGrant > grants || max(p.FirstTransaction, p.LastTransaction) > transactions {
			return damaged("pool %d leads nowhere", row)
		}
		a := s.Archives.Read(row)
		if a.Free > transactions || max(a.FirstTrace, a.LastTrace) > s.Traces.Len() {
			return damaged("the archive of pool %d leads nowhere", row)
		}
		if p.Transactions > catalogs.MaxTransactions+credits.EvictedAtOnce || p.Grants > grants {
			return damaged("pool %d holds more than there is", row)
		}
		if !decodes(s.PoolTexts.Read(row).Data, new(credits.PoolText)) {
			return damaged("pool %d has no text", row)
		}
	}
	for row, g := range s.Grants.All() {
		if g.Pool == 0 || g.Pool > pools || g.Next > grants ||
			g.Subscription > s.Subscriptions.Len() {
			return damaged("grant %d leads nowhere", row)
		}
	}
	for row, x := range s.Transactions.All() {
		if x.Pool == 0 || x.Pool > pools || x.Next > transactions || x.Grant > grants ||
			x.Subscription > s.Subscriptions.Len() {
			return damaged("transaction %d leads nowhere", row)
		}
		if !decodes(s.TransactionTexts.Read(row).Data, new(credits.TransactionText)) {
			return damaged("transaction %d has no text", row)
		}
	}
	counters := make(visited, s.Counters.Len()+1)
	for row, c := range s.Covers.All() {
		if !counters.meet(c.Counter) || c.Transaction > transactions {
			return damaged("cover %d leads nowhere", row)
		}
	}
	if row := s.CheckTopUps(); row != 0 {
		return damaged("top-up %d leads nowhere", row)
	}
	if err := s.chunksConsistent(); err != nil {
		return err
	}
	if err := s.creditListsEnd(); err != nil {
		return err
	}
	return s.poolsConsistent()
}

// creditListsEnd checks that each pool's lists are its own and have the stated length.
func (s *state) creditListsEnd() error {
	for row, p := range s.Pools.All() {
		n := uint32(0)
		for at := p.FirstGrant; at != 0 && n <= p.Grants; at = s.Grants.Read(at).Next {
			if s.Grants.Read(at).Pool != row {
				return damaged("pool %d has grant %d of another", row, at)
			}
			n++
		}
		if n != p.Grants || !s.transactionsLinked(row) {
			return damaged("the lists of pool %d do not end", row)
		}
	}
	return nil
}

// transactionsLinked reports whether a pool's lists of transactions are its own, have the stated
// length and are in order: newest transactions, traces, free rows.
func (s *state) transactionsLinked(pool uint32) bool {
	p, a := s.Pools.Read(pool), s.Archives.Read(pool)
	counted := func(first, maximum uint32, member func(x *credits.Transaction) bool) (n, last uint32) {
		sequence := uint32(0)
		for at := first; at != 0 && n <= maximum; {
			x := s.Transactions.Read(at)
			if x.Pool != pool || !member(x) || x.Kind != 0 && x.Sequence <= sequence {
				return maximum + 1, 0
			}
			last, at, sequence = at, x.Next, x.Sequence
			n++
		}
		return n, last
	}
	booked := func(x *credits.Transaction) bool { return x.Kind != 0 }
	free := func(x *credits.Transaction) bool { return x.Kind == 0 }
	newest, lastNewest := counted(p.FirstTransaction, p.Transactions, booked)
	spare, _ := counted(a.Free, s.Transactions.Len(), free)
	return newest == p.Transactions && lastNewest == p.LastTransaction &&
		spare <= s.Transactions.Len() && s.tracesLinked(pool)
}

// tracesLinked reports whether a pool's traces are its own, of the stated number, oldest first,
// each in an existing chunk.
func (s *state) tracesLinked(pool uint32) bool {
	a := s.Archives.Read(pool)
	n, last, sequence := uint32(0), uint32(0), uint32(0)
	for at := a.FirstTrace; at != 0 && n <= a.Traces; {
		x := s.Traces.Read(at)
		if x.Pool != pool || x.Sequence <= sequence || s.ChunkOf(pool, x.Sequence) == 0 ||
			x.Next > s.Traces.Len() {
			return false
		}
		last, at, sequence = at, x.Next, x.Sequence
		n++
	}
	return n == a.Traces && last == a.LastTrace
}

// chunksConsistent checks that each pool has each of its chunks once, and indexes them for the
// lists of traces.
func (s *state) chunksConsistent() error {
	chunks := make([]uint32, s.Pools.Len()+1)
	for row, c := range s.Chunks.All() {
		if c.Pool == 0 || c.Pool > s.Pools.Len() || c.Number != chunks[c.Pool] ||
			c.Place.Index == 0 {
			return damaged("chunk %d leads nowhere", row)
		}
		chunks[c.Pool]++
		s.ChunkByPool.Insert(credits.ChunkHash(c.Pool, c.Number), row)
	}
	for row, p := range s.Pools.All() {
		if p.Sequence-p.Transactions != credits.EvictedAtOnce*chunks[row] {
			return damaged("pool %d has %d chunks", row, chunks[row])
		}
	}
	return nil
}

// poolsConsistent checks that each pool's totals, its live grants and its next expiry agree. The
// lists are known to end.
func (s *state) poolsConsistent() error {
	for row, p := range s.Pools.All() {
		var held, zero decimal.Decimal
		var before *credits.Grant
		next := int64(0)
		for _, g := range s.GrantsOf(p) {
			held = credits.More(held, g.Remaining)
			if g.ExpiresAt != 0 && (next == 0 || g.ExpiresAt < next) {
				next = g.ExpiresAt
			}
			if !g.Linked || g.Remaining.Sign() <= 0 || g.Amount.Less(g.Remaining) {
				return damaged("pool %d: a live grant of %s holds %s", row, g.Amount, g.Remaining)
			}
			if before != nil && credit.Compare(&before.Grant, &g.Grant) >= 0 {
				return damaged("pool %d: grants out of order", row)
			}
			before = g
		}
		switch {
		case credit.Less(held, p.Overdraft) != p.Balance():
			return damaged("pool %d: grants hold %s, overdraft %s, balance %s", row, held,
				p.Overdraft, p.Balance())
		case p.Hard && p.Balance().Sign() < 0:
			return damaged("pool %d: hard, and below zero", row)
		case p.Overdraft.Sign() > 0 && held != zero:
			return damaged("pool %d: an overdraft with live grants", row)
		case !p.Archived && next != p.NextExpiry:
			return damaged("pool %d: grants expire at %d, not %d", row, next, p.NextExpiry)
		}
		for _, total := range []decimal.Decimal{p.Granted, p.Consumed, p.Expired, p.Reversed} {
			if total.Sign() < 0 {
				return damaged("pool %d: a negative total", row)
			}
		}
	}
	return nil
}
