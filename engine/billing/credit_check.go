package billing

import (
	"tollgate/engine/credit"
	"tollgate/engine/decimal"
)

// creditsConsistent checks, after a restore, that the rows of credits lead to rows that exist, that
// lists end, that texts decode, and that each pool's totals are what its grants hold.
func (s *state) creditsConsistent() error {
	pools, grants, transactions := s.pools.Len(), s.grants.Len(), s.transactions.Len()
	if s.poolTexts.Len() != pools || s.archives.Len() != pools ||
		s.transactionTexts.Len() != transactions {
		return damaged("tables of different length")
	}
	for row := uint32(1); row <= pools; row++ {
		p := s.pools.Read(row)
		if p.customer == 0 || p.customer > s.customers.Len() || p.next != 0 && p.next <= row ||
			p.next > pools || p.next != 0 && s.pools.Read(p.next).customer != p.customer ||
			p.firstGrant > grants || max(p.firstTransaction, p.lastTransaction) > transactions {
			return damaged("pool %d leads nowhere", row)
		}
		a := s.archives.Read(row)
		if a.free > transactions || max(a.firstTrace, a.lastTrace) > s.traces.Len() {
			return damaged("the archive of pool %d leads nowhere", row)
		}
		if p.transactions > MaxTransactions+evictedAtOnce || p.grants > grants {
			return damaged("pool %d holds more than there is", row)
		}
		if !decodes(s.poolTexts.Read(row).Data, new(poolText)) {
			return damaged("pool %d has no text", row)
		}
	}
	for row := uint32(1); row <= grants; row++ {
		g := s.grants.Read(row)
		if g.pool == 0 || g.pool > pools || g.next > grants ||
			g.subscription > s.subscriptions.Len() {
			return damaged("grant %d leads nowhere", row)
		}
	}
	for row := uint32(1); row <= transactions; row++ {
		x := s.transactions.Read(row)
		if x.pool == 0 || x.pool > pools || x.next > transactions || x.grant > grants ||
			x.subscription > s.subscriptions.Len() {
			return damaged("transaction %d leads nowhere", row)
		}
		if !decodes(s.transactionTexts.Read(row).Data, new(transactionText)) {
			return damaged("transaction %d has no text", row)
		}
	}
	counters := make(visited, s.counters.Len()+1)
	for row := uint32(1); row <= s.covers.Len(); row++ {
		c := s.covers.Read(row)
		if !counters.meet(c.counter) || c.transaction > transactions {
			return damaged("cover %d leads nowhere", row)
		}
	}
	if err := s.chunksConsistent(); err != nil {
		return err
	}
	if err := s.creditListsEnd(); err != nil {
		return err
	}
	return s.poolsConsistent()
}

// creditListsEnd checks that the lists of each pool are its own, and as long as it says.
func (s *state) creditListsEnd() error {
	for row := uint32(1); row <= s.pools.Len(); row++ {
		p := s.pools.Read(row)
		n := uint32(0)
		for at := p.firstGrant; at != 0 && n <= p.grants; at = s.grants.Read(at).next {
			if s.grants.Read(at).pool != row {
				return damaged("pool %d has grant %d of another", row, at)
			}
			n++
		}
		if n != p.grants || !s.transactionsLinked(row) {
			return damaged("the lists of pool %d do not end", row)
		}
	}
	return nil
}

// transactionsLinked reports whether a pool's lists of transactions are its own, as long as it
// says, and in their order: the newest, traces of those that have left, free rows.
func (s *state) transactionsLinked(pool uint32) bool {
	p, a := s.pools.Read(pool), s.archives.Read(pool)
	counted := func(first, most uint32, member func(x *transaction) bool) (n, last uint32) {
		sequence := uint32(0)
		for at := first; at != 0 && n <= most; {
			x := s.transactions.Read(at)
			if x.pool != pool || !member(x) || x.kind != 0 && x.sequence <= sequence {
				return most + 1, 0
			}
			last, at, sequence = at, x.next, x.sequence
			n++
		}
		return n, last
	}
	booked := func(x *transaction) bool { return x.kind != 0 }
	free := func(x *transaction) bool { return x.kind == 0 }
	newest, lastNewest := counted(p.firstTransaction, p.transactions, booked)
	spare, _ := counted(a.free, s.transactions.Len(), free)
	return newest == p.transactions && lastNewest == p.lastTransaction &&
		spare <= s.transactions.Len() && s.tracesLinked(pool)
}

// tracesLinked reports whether a pool's traces are its own, as many as it says, the oldest first,
// and each in a chunk that is there.
func (s *state) tracesLinked(pool uint32) bool {
	a := s.archives.Read(pool)
	n, last, sequence := uint32(0), uint32(0), uint32(0)
	for at := a.firstTrace; at != 0 && n <= a.traces; {
		x := s.traces.Read(at)
		if x.pool != pool || x.sequence <= sequence || s.chunkOf(pool, x.sequence) == 0 ||
			x.next > s.traces.Len() {
			return false
		}
		last, at, sequence = at, x.next, x.sequence
		n++
	}
	return n == a.traces && last == a.lastTrace
}

// chunksConsistent checks that the chunks of each pool are all there, each once, and indexes them:
// the lists of traces need that.
func (s *state) chunksConsistent() error {
	chunks := make([]uint32, s.pools.Len()+1)
	for row := uint32(1); row <= s.chunks.Len(); row++ {
		c := s.chunks.Read(row)
		if c.pool == 0 || c.pool > s.pools.Len() || c.number != chunks[c.pool] ||
			c.place.Index == 0 {
			return damaged("chunk %d leads nowhere", row)
		}
		chunks[c.pool]++
		s.chunkByPool.Insert(chunkHash(c.pool, c.number), row)
	}
	for row := uint32(1); row <= s.pools.Len(); row++ {
		p := s.pools.Read(row)
		if p.sequence-p.transactions != evictedAtOnce*chunks[row] {
			return damaged("pool %d has %d chunks", row, chunks[row])
		}
	}
	return nil
}

// poolsConsistent checks that the totals of each pool, its live grants and what expires next fit
// together. Lists were found to end.
func (s *state) poolsConsistent() error {
	for row := uint32(1); row <= s.pools.Len(); row++ {
		p := s.pools.Read(row)
		var held, zero decimal.Decimal
		var before *grant
		next := int64(0)
		for _, g := range s.grantsOf(p) {
			held = more(held, g.Remaining)
			if g.ExpiresAt != 0 && (next == 0 || g.ExpiresAt < next) {
				next = g.ExpiresAt
			}
			if !g.linked || g.Remaining.Sign() <= 0 || g.amount.Less(g.Remaining) {
				return damaged("pool %d: a live grant of %s holds %s", row, g.amount, g.Remaining)
			}
			if before != nil && credit.Compare(&before.Grant, &g.Grant) >= 0 {
				return damaged("pool %d: grants out of order", row)
			}
			before = g
		}
		switch {
		case credit.Less(held, p.overdraft) != p.balance():
			return damaged("pool %d: grants hold %s, overdraft %s, balance %s", row, held,
				p.overdraft, p.balance())
		case p.hard && p.balance().Sign() < 0:
			return damaged("pool %d: hard, and below zero", row)
		case p.overdraft.Sign() > 0 && held != zero:
			return damaged("pool %d: an overdraft beside live grants", row)
		case !p.archived && next != p.nextExpiry:
			return damaged("pool %d: grants expire at %d, not %d", row, next, p.nextExpiry)
		}
		for _, total := range []decimal.Decimal{p.granted, p.consumed, p.expired, p.reversed} {
			if total.Sign() < 0 {
				return damaged("pool %d: a negative total", row)
			}
		}
	}
	return nil
}
