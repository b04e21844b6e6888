package lifecycle

import (
	"slices"

	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
)

// heldSequence is a sequence in a projection.
type heldSequence struct {
	book.Sequence
	row uint32 // 0: not stored yet
}

// left returns the sequence of a feature under a plan version that the subscription has left.
func (l *Projection) left(version, feature uint32) *book.Sequence {
	key := book.SequenceKey{Version: version, Feature: feature}
	if q := l.heldAt[key]; q != nil {
		return &q.Sequence
	}
	if l.heldAt == nil {
		l.heldAt, l.stored = map[book.SequenceKey]*heldSequence{}, map[book.SequenceKey]uint32{}
		for row := l.Sub.FirstSequence; row != 0; {
			stored := l.Projector.Sequences.Read(row)
			l.stored[book.SequenceKey{Version: stored.Version, Feature: stored.Feature}] = row
			row = stored.Next
		}
	}
	q := &heldSequence{Sequence: book.Sequence{Version: version, Feature: feature}}
	if row := l.stored[key]; row != 0 {
		q.Sequence, q.row = *l.Projector.Sequences.Read(row), row
	}
	l.heldAt[key] = q
	l.held = append(l.held, q)
	return &q.Sequence
}

// rated returns where the tiers of an accumulating feature's next line begin. Lines move it.
func (l *Projection) rated(version, slot uint32) *decimal.Decimal {
	if version == l.Sub.Version {
		return &l.bases[slot].Rated
	}
	return &l.left(version, l.Catalog.Version(version).Features[slot].Feature).Rated
}

// ratedUnder is rated of a feature under a plan version, in the state.
func (s *Projector) ratedUnder(
	b *book.Subscription, key book.SequenceKey, slot uint32,
) (rated decimal.Decimal) {
	if key.Version == b.Version {
		if b.FirstBase != 0 {
			rated = s.Bases.Read(b.FirstBase + slot).Rated
		}
		return rated
	}
	for row := b.FirstSequence; row != 0; {
		q := s.Sequences.Read(row)
		if q.Version == key.Version && q.Feature == key.Feature {
			return q.Rated
		}
		row = q.Next
	}
	return rated
}

// leave stores the sequences of the plan version that the subscription leaves.
func (l *Projection) leave(old *catalogs.PlanVersion) {
	for i := range old.Features {
		if f := &old.Features[i]; f.Accumulate {
			q := l.left(old.Number, f.Feature)
			q.Rated, q.Counted = l.bases[i].Rated, l.Counters[i].Used
		}
	}
}

// enter continues the sequence of an accumulating feature under the plan version to which the
// subscription returns: its counter n continues where it was left.
func (l *Projection) enter(version, feature uint32, n *book.Counter, o *book.Base) {
	q := l.left(version, feature)
	own := sums.Difference(n.Used, o.Opened) // units counted ahead of the ended period
	o.Rated, o.Opened = q.Rated, q.Counted
	n.Used = sums.Of(q.Counted, own)
	q.Rated, q.Counted = decimal.Decimal{}, decimal.Decimal{}
}

// leftVersions returns the plan versions that the subscription has left, in order; a version that
// it left twice appears twice.
func (l *Projection) leftVersions() (versions []uint32) {
	for row := l.Sub.FirstChange; row != 0; {
		c := *l.Projector.PlanChanges.Read(row)
		for i := range l.changes {
			if l.changes[i].row == row {
				c.Status = l.changes[i].Status
			}
		}
		if c.Status == book.ChangeCompleted {
			versions = append(versions, c.From)
		}
		row = c.Next
	}
	for i := range l.changes {
		if c := &l.changes[i]; c.row == 0 && c.Status == book.ChangeCompleted {
			versions = append(versions, c.From)
		}
	}
	return versions
}

// holders returns the counters that include a closed span's units of a feature: the present one,
// and those of left versions in which the feature accumulates. A counter continues from span to
// span and from version to version, as carryCounters does.
func (l *Projection) holders(p *book.HeldSpan, feature uint32) (present bool, left []uint32) {
	later := l.Spans[l.indexOf(p)+1:]
	path := make([]*book.Span, 0, len(later)+2)
	path = append(path, &p.Span)
	for i := range later {
		path = append(path, &later[i].Span)
	}
	path = append(path, &book.Span{Version: l.Sub.Version, Period: l.Sub.Period})
	been := l.leftVersions()
	changes := 0
	for i := range path[1:] {
		if path[i].Version != path[i+1].Version {
			changes++
		}
	}
	at := len(been) - changes // the change after the next one of path
	kept := true
	for i, next := range path[1:] {
		old := path[i]
		from, has := l.featureIn(old.Version, feature)
		f, goesOn := l.featureIn(next.Version, feature)
		ends := old.Period != next.Period
		if old.Version == next.Version {
			kept = kept && goesOn && (f.Accumulate || !ends)
			continue
		}
		if kept && has && from.Accumulate && !slices.Contains(left, old.Version) {
			left = append(left, old.Version)
		}
		switch {
		case !goesOn:
			kept = false
		case f.Accumulate && slices.Contains(been[:max(at, 0)], next.Version):
			kept = slices.Contains(left, next.Version)
		case !has && !ends && !f.Accumulate:
			kept = p.Period == next.Period
		default:
			kept = kept && has && (!ends || from.Accumulate && f.Accumulate)
		}
		at++
	}
	if at := slices.Index(left, l.Sub.Version); at >= 0 {
		left = slices.Delete(left, at, at+1)
	}
	f, has := l.featureIn(l.Sub.Version, feature)
	return kept && has && (f.Accumulate || l.Sub.EndedAt == 0), left
}

// indexOf returns the index of a closed span in the projection.
func (l *Projection) indexOf(p *book.HeldSpan) int {
	return slices.IndexFunc(
		l.Spans, func(other book.HeldSpan) bool { return other.Number == p.Number },
	)
}

// featureIn returns a feature within a plan version.
func (l *Projection) featureIn(version, feature uint32) (f *catalogs.PlanFeature, ok bool) {
	v := l.Catalog.Version(version)
	slot, ok := v.Slot(feature)
	if !ok {
		return nil, false
	}
	return &v.Features[slot], true
}

// commitSequences stores the sequences of left plan versions. Callers hold the customer's lock.
func (t *Runner) commitSequences(l *Projection) {
	t.Spend((len(l.stored) + len(l.held)) / 4)
	for _, q := range l.held {
		if q.row == 0 {
			if q.Rated.IsZero() && q.Counted.IsZero() {
				continue
			}
			q.row, _ = t.S.Sequences.Append()
			q.Next, l.Sub.FirstSequence = l.Sub.FirstSequence, q.row
		}
		*t.S.Sequences.Write(q.row) = q.Sequence
		t.FoldDecimal(q.Rated)
		t.FoldDecimal(q.Counted)
	}
}
