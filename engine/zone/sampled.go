package zone

import "sort"

// step is less than there is between two changes of a zone.
const step = 24 * 60 * 60 * 1000

// Sampled makes a zone of what offset says of instants, between two. It is for those who propose
// commands, and whose offsets come from a database; a state machine never calls it.
func Sampled(name string, from, until int64, offset func(at int64) int64) *Zone {
	z := &Zone{Name: name, Offset: offset(from)}
	before := z.Offset
	for at := from; at < until; at += step {
		if after := offset(at + step); after != before {
			seconds := sort.Search(step/1000, func(i int) bool {
				return offset(at+int64(i)*1000) == after
			})
			z.Changes = append(z.Changes, Change{At: at + int64(seconds)*1000, Offset: after})
			before = after
		}
	}
	return z
}
