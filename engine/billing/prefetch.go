package billing

import (
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/prefetch"
)

// prefetched is how many usage events are prefetched together.
const prefetched = book.Prefetched

// prefetch fetches the memory that the next usage events of an entry will need, before the first
// one is applied. With many customers nearly every access misses the processor's caches; here the
// misses do not depend on each other and overlap, in apply each would wait for the one before. It
// changes nothing but rows: a customer that is found stays where it is.
func (s *state) prefetch(usages []RecordUsage) {
	var keys [prefetched]prefetch.Address
	var names [prefetched]uint64
	for i := range usages {
		usages[i].hash = s.keys.Hash(usages[i].Key)
		keys[i] = prefetch.Of(s.keys.Near(usages[i].hash))
		names[i] = s.ExternalHash(usages[i].Env, usages[i].Customer)
	}
	prefetch.Lines(keys[:len(usages)])
	s.Prefetch(names[:len(usages)])
	for i := range usages {
		usages[i].row = usages[i].customerRow(s)
	}
}
