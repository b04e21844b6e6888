package billing

import "sync/atomic"

// prefetched is how many usage events prefetch looks at together: few enough that what it
// touches is still in the processor's second cache when apply comes to it.
const prefetched = 64

// prefetch looks at the memory that the next usage events of an entry will need, event after
// event, before the first one is applied. With many customers nearly every look misses the
// processor's caches; here the misses do not depend on each other and overlap, in apply each would
// wait for the one before. Addresses are computed first and read together, without a branch on what
// is read: a branch that was guessed wrong would wait for the memory after all. It changes nothing
// but rows: a customer that is found stays where it is.
func (s *state) prefetch(usages []RecordUsage) (seen uint64) {
	var keys [prefetched]*uint64
	var near [prefetched]*atomic.Uint64
	var names [prefetched]uint64
	for i := range usages {
		usages[i].hash = s.keys.Hash(usages[i].Key)
		keys[i] = s.keys.Near(usages[i].hash)
		names[i] = s.ExternalHash(usages[i].Env, usages[i].Customer)
		near[i] = s.CustomerByExternal.Near(names[i])
	}
	for i := range usages {
		seen += *keys[i] + near[i].Load()
	}
	for i := range usages {
		row, hint := s.CustomerByExternal.Likely(names[i])
		if row != 0 {
			seen += uint64(s.Customers.Read(row).Env) + s.Ahead(hint)
		}
	}
	for i := range usages {
		usages[i].row = usages[i].customerRow(s)
	}
	return seen
}
