package book

import (
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/decimal"
)

// An accumulating counter is one sequence of units per subscription and plan version. Late units
// belong to it, and it continues when a subscription returns to a version. Each line prices the
// units from the sequence's rated on and moves it, so lines add up to the rounded price of all
// units in any order. The present version has rated in its bases and the compared units in its
// counters; for each version that the subscription has left, a sequence has both. SEQUENCES.md has
// the invariant.

// Sequence is the state of an accumulating feature under a plan version that its subscription has
// left.
//
//schema:row
type Sequence struct {
	// Rated is how many units lines have priced; Counted is what the version's limit compares: the
	// counter when it was left, plus later late units.
	Rated, Counted         decimal.Decimal
	Version, Feature, Next uint32
}

// Fits reports whether the sequence belongs to an accumulating feature of a plan version.
func (q *Sequence) Fits(c *catalogs.Catalog) bool {
	if !c.HasVersion(q.Version) {
		return false
	}
	v := c.Version(q.Version)
	slot, ok := v.Slot(q.Feature)
	return ok && v.Features[slot].Accumulate
}

// SequenceKey identifies a sequence within a subscription.
type SequenceKey struct{ Version, Feature uint32 }
