package billing

// reindexCredits rebuilds what is found by pools, transactions and counters, after a restore; the
// check has indexed the chunks.
func (s *state) reindexCredits() {
	for row := uint32(1); row <= s.pools.Len(); row++ {
		p := s.pools.Read(row)
		s.poolByID.Insert(s.idHash(&p.id), row)
		if s.firstPool(p.customer) == 0 {
			s.poolByCustomer.Insert(rowHash(p.customer), row)
		}
	}
	for row := uint32(1); row <= s.transactions.Len(); row++ {
		if x := s.transactions.Read(row); x.kind != 0 { // else the row is free
			s.transactionByID.Insert(s.idHash(&x.id), row)
		}
	}
	for row := uint32(1); row <= s.grants.Len(); row++ {
		if g := s.grants.Read(row); !g.returned {
			s.grantByID.Insert(s.idHash(&g.ID), row)
		}
	}
	for row := uint32(1); row <= s.pools.Len(); row++ {
		for at := s.archives.Read(row).firstTrace; at != 0; at = s.traces.Read(at).next {
			s.traceByID.Insert(s.idHash(&s.traces.Read(at).id), at)
		}
	}
	for row := uint32(1); row <= s.covers.Len(); row++ {
		s.coverByCounter.Insert(rowHash(s.covers.Read(row).counter), row)
	}
	for row := uint32(1); row <= s.pools.Len(); row++ {
		s.reschedulePool(row)
	}
}

// creditBytes is the memory of credits, without the bytes of texts.
func (s *state) creditBytes() uint64 {
	return s.pools.Bytes() + s.poolTexts.Bytes() + s.grants.Bytes() + s.transactions.Bytes() +
		s.transactionTexts.Bytes() + s.covers.Bytes() + s.poolByID.Bytes() +
		s.archives.Bytes() + s.grantByID.Bytes() + s.poolByCustomer.Bytes() +
		s.transactionByID.Bytes() + s.coverByCounter.Bytes() + s.traces.Bytes() +
		s.traceByID.Bytes() + s.chunks.Bytes() + s.chunkByPool.Bytes()
}
