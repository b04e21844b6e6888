package book

import (
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/decimal"
)

// An accumulating counter is one sequence of units per subscription and plan version. Late units
// belong to it, and it goes on where a subscription returns to a version. Each line prices the
// units from the sequence's rated on and moves it, so whatever order lines come in, they add up to
// the rounded price of all units. While a version is the present one, its bases have rated and its
// counters what limits compare; of the versions that the subscription has left, a sequence has
// both. SEQUENCES.md has the invariant.

// Sequence is what an accumulating feature holds of a plan version that its subscription has left.
//
//schema:row
type Sequence struct {
	// Rated is how many units lines have priced, counted what the version's limit compares: the
	// counter as it was, and the units that came late since.
	Rated, Counted         decimal.Decimal
	Version, Feature, Next uint32
}

// Fits reports whether the sequence is one of a feature that accumulates in a plan version.
func (q *Sequence) Fits(c *catalogs.Catalog) bool {
	if !c.HasVersion(q.Version) {
		return false
	}
	v := c.Version(q.Version)
	slot, ok := v.Slot(q.Feature)
	return ok && v.Features[slot].Accumulate
}

// SequenceKey names a sequence within a subscription.
type SequenceKey struct{ Version, Feature uint32 }
