package billing

import "fmt"

// reindexCredits rebuilds what is found by pools, transactions and counters, after a restore.
func (s *state) reindexCredits() {
	for row := uint32(1); row <= s.pools.Len(); row++ {
		p := s.pools.Read(row)
		s.poolByID.Insert(s.idHash(&p.id), row)
		if s.firstPool(p.customer) == 0 {
			s.poolByCustomer.Insert(rowHash(p.customer), row)
		}
	}
	for row := uint32(1); row <= s.transactions.Len(); row++ {
		s.transactionByID.Insert(s.idHash(&s.transactions.Read(row).id), row)
	}
	for row := uint32(1); row <= s.covers.Len(); row++ {
		s.coverByCounter.Insert(rowHash(s.covers.Read(row).counter), row)
	}
	for row := uint32(1); row <= s.pools.Len(); row++ {
		s.reschedulePool(row)
	}
}

// creditsConsistent checks that the rows of credits lead to rows that exist, and that walks end.
func (s *state) creditsConsistent() error {
	pools, grants, transactions := s.pools.Len(), s.grants.Len(), s.transactions.Len()
	if s.poolTexts.Len() != pools || s.transactionTexts.Len() != transactions ||
		s.correctionDraws.Len() != s.corrections.Len() {
		return fmt.Errorf("%w: tables of different length", ErrSnapshot)
	}
	for row := uint32(1); row <= pools; row++ {
		p := s.pools.Read(row)
		if p.customer == 0 || p.customer > s.customers.Len() || p.next != 0 && p.next <= row ||
			p.next > pools || p.firstGrant > grants ||
			max(p.firstTransaction, p.lastTransaction) > transactions {
			return fmt.Errorf("%w: pool %d leads nowhere", ErrSnapshot, row)
		}
		if p.transactions > MaxTransactions || p.grants > grants {
			return fmt.Errorf("%w: pool %d holds more than there is", ErrSnapshot, row)
		}
	}
	for row := uint32(1); row <= grants; row++ {
		g := s.grants.Read(row)
		if g.pool == 0 || g.pool > pools || g.next > grants ||
			g.subscription > s.subscriptions.Len() {
			return fmt.Errorf("%w: grant %d leads nowhere", ErrSnapshot, row)
		}
	}
	for row := uint32(1); row <= transactions; row++ {
		x := s.transactions.Read(row)
		if x.pool == 0 || x.pool > pools || x.next > transactions || x.grant > grants ||
			x.subscription > s.subscriptions.Len() {
			return fmt.Errorf("%w: transaction %d leads nowhere", ErrSnapshot, row)
		}
	}
	for row := uint32(1); row <= s.covers.Len(); row++ {
		c := s.covers.Read(row)
		if c.counter == 0 || c.counter > s.counters.Len() || c.transaction > transactions {
			return fmt.Errorf("%w: cover %d leads nowhere", ErrSnapshot, row)
		}
	}
	return s.creditListsEnd()
}

// creditListsEnd checks that the lists of each pool are as long as it says.
func (s *state) creditListsEnd() error {
	for row := uint32(1); row <= s.pools.Len(); row++ {
		p := s.pools.Read(row)
		n := uint32(0)
		for at := p.firstGrant; at != 0 && n <= p.grants; at = s.grants.Read(at).next {
			n++
		}
		m := uint32(0)
		for at := p.firstTransaction; at != 0 && m <= p.transactions; {
			at = s.transactions.Read(at).next
			m++
		}
		if n != p.grants || m != p.transactions {
			return fmt.Errorf("%w: the lists of pool %d do not end", ErrSnapshot, row)
		}
	}
	return nil
}

// creditBytes is the memory of credits, without the bytes of texts.
func (s *state) creditBytes() uint64 {
	return s.pools.Bytes() + s.poolTexts.Bytes() + s.grants.Bytes() + s.transactions.Bytes() +
		s.transactionTexts.Bytes() + s.covers.Bytes() + s.poolByID.Bytes() +
		s.poolByCustomer.Bytes() + s.transactionByID.Bytes() + s.coverByCounter.Bytes()
}
