package segments

import "math/bits"

// digitBits is how many bits a pass of order sorts by: its counters fit the first cache.
const digitBits = 11

// order sorts entries that are in the order of their records, in which collect makes them: by
// owner, then by time, and what is equal in both stays as it is, which is compare's order. It is a
// radix sort over as many bits as the values differ in. Segments are full all the time under load,
// and comparing 70,000 entries of 40 bytes took a fifth of what a follower did.
func order(entries []entry) []entry {
	if len(entries) < 2 {
		return entries
	}
	at := spanOf(entries)
	lowest, highest := entries[0].owner, entries[0].owner
	for i := range entries {
		lowest, highest = min(lowest, entries[i].owner), max(highest, entries[i].owner)
	}
	from := make([]uint32, len(entries))
	for i := range from {
		from[i] = uint32(i)
	}
	to := make([]uint32, len(entries))
	for shift := 0; shift < bits.Len64(uint64(at.maxAt-at.minAt)); shift += digitBits {
		distribute(to, from, func(i uint32) uint32 {
			return uint32(uint64(entries[i].at-at.minAt) >> shift)
		})
		from, to = to, from
	}
	for shift := 0; shift < bits.Len32(highest-lowest); shift += digitBits {
		distribute(to, from, func(i uint32) uint32 { return (entries[i].owner - lowest) >> shift })
		from, to = to, from
	}
	ordered := make([]entry, len(entries))
	for i, n := range from {
		ordered[i] = entries[n]
	}
	return ordered
}

// distribute puts what is in from into to, in the order of the lowest digitBits bits of digit.
func distribute(to, from []uint32, digit func(uint32) uint32) {
	const mask = 1<<digitBits - 1
	var next [1 << digitBits]uint32
	for _, i := range from {
		next[digit(i)&mask]++
	}
	begin := uint32(0)
	for d, n := range next {
		next[d] = begin
		begin += n
	}
	for _, i := range from {
		d := digit(i) & mask
		to[next[d]] = i
		next[d]++
	}
}
