package lifecycle

import "tollgate/engine/billing/internal/book"

// Counted is where an event counted when it was recorded; feature 0 is nowhere. It counted in Span,
// or, if Ahead, for the period after that span.
type Counted struct {
	Feature, Span, Period uint32
	Ahead                 bool
}

// standing reports whether a recorded event counts now.
type standing uint8

const (
	counts  standing = 1
	Nowhere standing = 2 // no plan that it came under has the feature
	Gone    standing = 3 // its span was dropped
)

// SpotOf finds where a recorded event counts now: in the span that recorded it, or, if it was ahead
// of its period's end, where it moved since.
func (l *Projection) SpotOf(u Counted) (at Spot, s standing) {
	if u.Feature == 0 {
		return at, Nowhere
	}
	if u.Ahead {
		return l.aheadOf(u)
	}
	for i := range l.Spans {
		if p := &l.Spans[i]; p.Number == u.Span {
			return l.within(p, u.Feature)
		}
	}
	if u.Span == l.Sub.Span && l.Sub.EndedAt == 0 {
		return Spot{Span: u.Span}, counts
	}
	return at, Gone
}

// within returns a spot in a closed span if its plan has the feature.
func (l *Projection) within(p *book.HeldSpan, feature uint32) (at Spot, s standing) {
	if _, ok := l.Catalog.Version(p.Version).Slot(feature); !ok {
		return at, Nowhere
	}
	return Spot{Span: p.Number, Closed: p}, counts
}

// aheadOf finds where an event counts that was ahead of its period's end when it was recorded. It
// moved from span to span as closeSpan does: on to the next period, or, when the plan dropped the
// feature or the subscription ended, into the span that closed then.
func (l *Projection) aheadOf(u Counted) (at Spot, s standing) {
	if len(l.Spans) > 0 && l.Spans[0].Number > u.Span+1 {
		return at, Gone
	}
	for i := range l.Spans {
		p := &l.Spans[i]
		if p.Number < u.Span {
			continue
		}
		if p.Period >= u.Period {
			return l.within(p, u.Feature)
		}
		next := l.Sub.Version
		if i+1 < len(l.Spans) {
			next = l.Spans[i+1].Version
		} else if l.Sub.EndedAt != 0 {
			return l.within(p, u.Feature)
		}
		if _, goesOn := l.Catalog.Version(next).Slot(u.Feature); !goesOn {
			return l.within(p, u.Feature)
		}
	}
	if _, ok := l.Version().Slot(u.Feature); !ok || l.Sub.EndedAt != 0 {
		return at, Nowhere
	}
	return Spot{Span: l.Sub.Span, Ahead: l.Sub.Period < u.Period}, counts
}
