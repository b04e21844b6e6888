package billing

import (
	"cmp"
	"fmt"
)

// creditDue is a pool whose first live grant expires at an instant of log time.
type creditDue struct {
	at   int64
	pool uint32
}

func (d creditDue) before(e creditDue) bool {
	return cmp.Or(cmp.Compare(d.at, e.at), cmp.Compare(d.pool, e.pool)) < 0
}

// creditDues is a heap of pools, the soonest first. It is no state: it is rebuilt at a restore. An
// entry that its pool does not confirm any more is passed over.
type creditDues []creditDue

func (h *creditDues) push(d creditDue) {
	if d.pool == 0 {
		return
	}
	*h = append(*h, d)
	for i := len(*h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !(*h)[i].before((*h)[parent]) {
			return
		}
		(*h)[i], (*h)[parent] = (*h)[parent], (*h)[i]
		i = parent
	}
}

func (h *creditDues) pop() {
	last := len(*h) - 1
	(*h)[0] = (*h)[last]
	*h = (*h)[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if (*h)[child].before((*h)[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		(*h)[i], (*h)[least] = (*h)[least], (*h)[i]
		i = least
	}
}

// dueOf is when a pool's first live grant expires, in log time; no pool when none does.
func (s *state) dueOf(row uint32) creditDue {
	p := s.pools.Read(row)
	if p.archived || p.nextExpiry == 0 {
		return creditDue{}
	}
	e := s.environment(s.customers.Read(p.customer).env)
	return creditDue{p.nextExpiry - e.offset.Load(), row}
}

// confirmed drops what pools do not confirm from the front of the heap, and says whether anything
// is left.
func (s *state) confirmed() bool {
	for len(s.creditDue) > 0 {
		if first := s.creditDue[0]; s.dueOf(first.pool) == first {
			return true
		}
		s.creditDue.pop()
	}
	return false
}

// creditsDue is the log time at which credits expire next; 0: none do. Only Apply asks.
func (s *state) creditsDue() int64 {
	if !s.confirmed() {
		return 0
	}
	return s.creditDue[0].at
}

// requeueCredits rebuilds the heap: after a restore, and after an environment's clock was moved
// against log time.
func (s *state) requeueCredits() {
	s.creditDue = s.creditDue[:0]
	for row := uint32(1); row <= s.pools.Len(); row++ {
		s.creditDue.push(s.dueOf(row))
	}
}

// expireCredits books what has expired by now, pool after pool, until limit grants have. It says
// how many did; fewer than limit: nothing is left that is due.
func (t *turn) expireCredits(limit int) (count int) {
	for count < limit && t.confirmed() && t.creditDue[0].at <= t.stamp {
		row := t.creditDue[0].pool
		p := t.pools.Read(row)
		lock := t.stripe(p.customer)
		lock.Lock()
		count += t.expire(row, t.environment(t.customers.Read(p.customer).env).now(t.stamp))
		lock.Unlock()
	}
	return count
}

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
	s.requeueCredits()
	s.due.Store(s.creditsDue())
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
