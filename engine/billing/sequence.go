package billing

import (
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// An accumulating counter is one sequence of units per subscription and plan version. Late units
// belong to it, in the order in which they are recorded, and it goes on where a subscription
// returns to a version. Each line prices the units from the sequence's rated on and moves it, so
// whatever order lines come in, they add up to the rounded price of all units. While a version is
// the present one, its bases have rated and its counters what limits compare; of the versions that
// the subscription has left, a sequence has both. SEQUENCES.md has the invariant.

// sequence is what an accumulating feature holds of a plan version that its subscription has left.
type sequence struct {
	// rated is how many units lines have priced, counted what the version's limit compares: the
	// counter as it was, and the units that came late since.
	rated, counted         decimal.Decimal
	version, feature, next uint32
}

var sequenceCodec = page.Codec[sequence]{
	Append: func(dst []byte, q *sequence) []byte {
		dst = appendDecimal(appendDecimal(dst, q.rated), q.counted)
		return appendU32(appendU32(appendU32(dst, q.version), q.feature), q.next)
	},
	Read: func(src []byte, q *sequence) ([]byte, error) {
		r := reader{rest: src}
		q.rated, q.counted = r.decimal(), r.decimal()
		q.version, q.feature, q.next = r.u32(), r.u32(), r.u32()
		return r.rest, r.err
	},
}

// fits says that the sequence is one of a feature that accumulates in a plan version.
func (q *sequence) fits(c *catalog) bool {
	if !c.hasVersion(q.version) {
		return false
	}
	v := c.version(q.version)
	slot, ok := v.slot(q.feature)
	return ok && v.features[slot].accumulate
}

// heldSequence is a sequence in a ledger.
type heldSequence struct {
	sequence
	row uint32 // 0: not stored yet
}

// left is the sequence of a feature under a plan version that the subscription has left.
func (l *ledger) left(version, feature uint32) *sequence {
	for _, q := range l.held {
		if q.version == version && q.feature == feature {
			return &q.sequence
		}
	}
	q := &heldSequence{sequence: sequence{version: version, feature: feature}}
	for row := l.b.firstSequence; row != 0; {
		stored := l.state.sequences.Read(row)
		if stored.version == version && stored.feature == feature {
			q.sequence, q.row = *stored, row
			break
		}
		row = stored.next
	}
	l.held = append(l.held, q)
	return &q.sequence
}

// rated is where the tiers of the next line of an accumulating feature begin. Lines move it.
func (l *ledger) rated(version, slot uint32) *decimal.Decimal {
	if version == l.b.version {
		return &l.bases[slot].rated
	}
	return &l.left(version, l.catalog.version(version).features[slot].feature).rated
}

// leave keeps the sequences of the plan version that the subscription leaves.
func (l *ledger) leave(old *planVersion) {
	for i := range old.features {
		if f := &old.features[i]; f.accumulate {
			q := l.left(old.number, f.feature)
			q.rated, q.counted = l.bases[i].rated, l.counters[i].used
		}
	}
}

// enter goes on with the sequence that an accumulating feature has of the plan version which the
// subscription comes to: its counter n is at least what that version's limit has compared before.
func (l *ledger) enter(version, feature uint32, n *counter, o *base) {
	q := l.left(version, feature)
	if missing := difference(q.counted, o.opened); missing.Sign() > 0 {
		n.used, o.opened = sum(n.used, missing), sum(o.opened, missing)
	}
	o.rated = q.rated
	q.rated, q.counted = decimal.Decimal{}, decimal.Decimal{}
}

// commitSequences stores the sequences of the plan versions that the subscription has left. The
// customer's lock is held.
func (t *turn) commitSequences(l *ledger) {
	for _, q := range l.held {
		if q.row == 0 {
			if q.rated.IsZero() && q.counted.IsZero() {
				continue
			}
			q.row, _ = t.sequences.Append()
			q.next, l.b.firstSequence = l.b.firstSequence, q.row
		}
		*t.sequences.Write(q.row) = q.sequence
		t.foldDecimal(q.rated)
	}
}
