// Package zone has time zones as the log of a state machine carries them. See DESIGN.md.
package zone

import (
	"math"
	"sort"
	"unicode/utf8"
)

// Zone is a time zone as its proposer knew it. Times are milliseconds since 1970 UTC.
type Zone struct {
	// Name is that of the zone database.
	Name string `wire:"1"`
	// Offset is how far local time is ahead of UTC before the first change, in milliseconds.
	Offset  int64    `wire:"2"`
	Changes []Change `wire:"3"`
}

// Change is an instant from which on a zone has another offset.
type Change struct {
	At     int64 `wire:"1"`
	Offset int64 `wire:"2"`
}

const (
	// MaxChanges is how many changes a zone may have: two a year up to 2100, and some to spare.
	MaxChanges = 512
	// MaxName is the longest name, in bytes.
	MaxName = 64

	maxOffset = 24 * 60 * 60 * 1000
)

// Valid reports whether the zone is within its bounds, and its changes are in order.
func (z *Zone) Valid() bool {
	if z.Name == "" || len(z.Name) > MaxName || !utf8.ValidString(z.Name) ||
		len(z.Changes) > MaxChanges || z.Offset < -maxOffset || z.Offset > maxOffset {
		return false
	}
	before := int64(0)
	for i := range z.Changes {
		c := &z.Changes[i]
		if c.At <= before || c.Offset < -maxOffset || c.Offset > maxOffset {
			return false
		}
		before = c.At
	}
	return true
}

// era is the number of changes up to an instant.
func (z *Zone) era(at int64) int {
	if z == nil {
		return 0
	}
	return sort.Search(len(z.Changes), func(i int) bool { return z.Changes[i].At > at })
}

// stretch is the offset after so many changes, and the instants between which it holds.
func (z *Zone) stretch(era int) (offset, from, until int64) {
	from, until = math.MinInt64, math.MaxInt64
	if z == nil {
		return 0, from, until
	}
	offset = z.Offset
	if era > 0 {
		offset, from = z.Changes[era-1].Offset, z.Changes[era-1].At
	}
	if era < len(z.Changes) {
		until = z.Changes[era].At
	}
	return offset, from, until
}

// At is the offset at an instant, and the instants between which it holds, from ≤ at < until. A
// zone that is nil is UTC.
func (z *Zone) At(at int64) (offset, from, until int64) { return z.stretch(z.era(at)) }

// Begins is the first instant at which local time has come as far as local.
func (z *Zone) Begins(local int64) int64 {
	for era := z.era(local - maxOffset); ; era++ {
		offset, from, until := z.stretch(era)
		if at := max(from, local-offset); at < until {
			return at
		}
	}
}
