package billing

import "sync/atomic"

// anticipated is how many usage events anticipate looks at together: few enough that what it
// touches is still in the processor's second cache when apply comes to it.
const anticipated = 64

// anticipate looks at the memory that the next usage events of an entry will need, event after
// event, before the first one is applied. With many customers nearly every look misses the
// processor's caches; here the misses do not depend on each other and overlap, in apply each would
// wait for the one before. Addresses are computed first and read together, without a branch on what
// is read: a branch that was guessed wrong would wait for the memory after all. It changes nothing
// but rows: a customer that is found stays where it is.
func (s *state) anticipate(usages []RecordUsage) (seen uint64) {
	var keys [anticipated]*uint64
	var names [anticipated]*atomic.Uint64
	for i := range usages {
		keys[i] = s.keys.Near(usages[i].Key)
		names[i] = s.CustomerByExternal.Near(s.ExternalHash(usages[i].Env, usages[i].Customer))
	}
	var rows [anticipated]uint32
	for i := range usages {
		seen += *keys[i]
		rows[i] = uint32(names[i].Load()) // the customer's, unless another name shares its place
	}
	for i := range usages {
		if rows[i] != 0 {
			seen += uint64(s.Customers.Read(rows[i]).Env)
		}
	}
	for i := range usages {
		usages[i].row = usages[i].customerRow(s)
	}
	for i := range usages {
		if usages[i].row == 0 {
			continue
		}
		c := s.Customers.Read(usages[i].row)
		if c.HintCounter != 0 {
			_, low := s.Counters.Near(c.HintCounter).Bits()
			seen += low + uint64(s.Subscriptions.Read(c.FirstSubscription).Next)
		}
	}
	return seen
}
