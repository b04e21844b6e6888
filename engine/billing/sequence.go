package billing

import (
	"slices"

	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// An accumulating counter is one sequence of units per subscription and plan version. Late units
// belong to it, and it goes on where a subscription returns to a version. Each line prices the
// units from the sequence's rated on and moves it, so whatever order lines come in, they add up to
// the rounded price of all units. While a version is the present one, its bases have rated and its
// counters what limits compare; of the versions that the subscription has left, a sequence has
// both. SEQUENCES.md has the invariant.

// sequence is what an accumulating feature holds of a plan version that its subscription has left.
type sequence struct {
	// rated is how many units lines have priced, counted what the version's limit compares: the
	// counter as it was, and the units that came late since.
	rated, counted         decimal.Decimal
	version, feature, next uint32
}

var sequenceCodec = page.Codec[sequence]{
	Append: func(dst []byte, q *sequence) []byte {
		dst = rows.AppendDecimal(rows.AppendDecimal(dst, q.rated), q.counted)
		return rows.AppendU32(rows.AppendU32(rows.AppendU32(dst, q.version), q.feature), q.next)
	},
	Read: func(src []byte, q *sequence) ([]byte, error) {
		r := rows.Reader{Rest: src}
		q.rated, q.counted = r.Decimal(), r.Decimal()
		q.version, q.feature, q.next = r.U32(), r.U32(), r.U32()
		return r.Rest, r.Err
	},
}

// fits reports whether the sequence is one of a feature that accumulates in a plan version.
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

// sequenceKey names a sequence within a subscription.
type sequenceKey struct{ version, feature uint32 }

// left is the sequence of a feature under a plan version that the subscription has left.
func (l *ledger) left(version, feature uint32) *sequence {
	key := sequenceKey{version, feature}
	if q := l.heldAt[key]; q != nil {
		return &q.sequence
	}
	if l.heldAt == nil {
		l.heldAt, l.stored = map[sequenceKey]*heldSequence{}, map[sequenceKey]uint32{}
		for row := l.b.firstSequence; row != 0; {
			stored := l.projector.sequences.Read(row)
			l.stored[sequenceKey{stored.version, stored.feature}] = row
			row = stored.next
		}
	}
	q := &heldSequence{sequence: sequence{version: version, feature: feature}}
	if row := l.stored[key]; row != 0 {
		q.sequence, q.row = *l.projector.sequences.Read(row), row
	}
	l.heldAt[key] = q
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
// subscription returns to: its counter n goes on where it was left.
func (l *ledger) enter(version, feature uint32, n *counter, o *base) {
	q := l.left(version, feature)
	own := difference(n.used, o.opened) // what was ahead of the period that ended
	o.rated, o.opened = q.rated, q.counted
	n.used = sum(q.counted, own)
	q.rated, q.counted = decimal.Decimal{}, decimal.Decimal{}
}

// leftVersions are the plan versions that the subscription has left, in order; one that it has
// returned to and left again is there again.
func (l *ledger) leftVersions() (versions []uint32) {
	for row := l.b.firstChange; row != 0; {
		c := *l.projector.planChanges.Read(row)
		for i := range l.changes {
			if l.changes[i].row == row {
				c.status = l.changes[i].status
			}
		}
		if c.status == ChangeCompleted {
			versions = append(versions, c.from)
		}
		row = c.next
	}
	for i := range l.changes {
		if c := &l.changes[i]; c.row == 0 && c.status == ChangeCompleted {
			versions = append(versions, c.from)
		}
	}
	return versions
}

// holders are the counters that hold what a closed span counts of a feature: the present one, and
// those of left versions in which the feature accumulates. A counter goes on from span to span, and
// from version to version, as carryCounters has it.
func (l *ledger) holders(p *heldSpan, feature uint32) (present bool, left []uint32) {
	later := l.spans[l.indexOf(p)+1:]
	path := make([]*span, 0, len(later)+2)
	path = append(path, &p.span)
	for i := range later {
		path = append(path, &later[i].span)
	}
	path = append(path, &span{version: l.b.version, period: l.b.period})
	been := l.leftVersions()
	changes := 0
	for i := range path[1:] {
		if path[i].version != path[i+1].version {
			changes++
		}
	}
	at := len(been) - changes // the change that the next one of path is
	kept := true
	for i, next := range path[1:] {
		old := path[i]
		from, has := l.featureIn(old.version, feature)
		f, goesOn := l.featureIn(next.version, feature)
		ends := old.period != next.period
		if old.version == next.version {
			kept = kept && goesOn && (f.accumulate || !ends)
			continue
		}
		if kept && has && from.accumulate && !slices.Contains(left, old.version) {
			left = append(left, old.version)
		}
		switch {
		case !goesOn:
			kept = false
		case f.accumulate && slices.Contains(been[:max(at, 0)], next.version):
			kept = slices.Contains(left, next.version)
		case !has && !ends && !f.accumulate:
			kept = p.period == next.period
		default:
			kept = kept && has && (!ends || from.accumulate && f.accumulate)
		}
		at++
	}
	if at := slices.Index(left, l.b.version); at >= 0 {
		left = slices.Delete(left, at, at+1)
	}
	f, has := l.featureIn(l.b.version, feature)
	return kept && has && (f.accumulate || l.b.endedAt == 0), left
}

// indexOf is where a closed span of the ledger stands.
func (l *ledger) indexOf(p *heldSpan) int {
	return slices.IndexFunc(l.spans, func(other heldSpan) bool { return other.number == p.number })
}

// featureIn is a feature within a plan version.
func (l *ledger) featureIn(version, feature uint32) (f *planFeature, ok bool) {
	v := l.catalog.version(version)
	slot, ok := v.slot(feature)
	if !ok {
		return nil, false
	}
	return &v.features[slot], true
}

// commitSequences stores the sequences of the plan versions that the subscription has left. The
// customer's lock is held.
func (t *runner) commitSequences(l *ledger) {
	t.spend((len(l.stored) + len(l.held)) / 4)
	for _, q := range l.held {
		if q.row == 0 {
			if q.rated.IsZero() && q.counted.IsZero() {
				continue
			}
			q.row, _ = t.s.sequences.Append()
			q.next, l.b.firstSequence = l.b.firstSequence, q.row
		}
		*t.s.sequences.Write(q.row) = q.sequence
		t.foldDecimal(q.rated)
		t.foldDecimal(q.counted)
	}
}
