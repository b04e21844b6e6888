package billing

import (
	"slices"

	"tollgate/engine/billing/internal/accounts"
)

// noteUnmatched counts an event whose name is that of no feature.
func (t *turn) noteUnmatched(e *accounts.Environment, c *RecordUsage, now int64) {
	name := c.FeatureKey
	if len(name) == 0 {
		name = c.EventName
	}
	var known []*accounts.UnmatchedTally
	if p := e.Unmatched.Load(); p != nil {
		known = *p
	}
	at := slices.IndexFunc(
		known, func(u *accounts.UnmatchedTally) bool { return u.Name == string(name) },
	)
	if at < 0 {
		next := slices.Clone(known)
		if len(next) >= accounts.MaxUnmatched {
			oldest := 0
			for i := range next {
				if next[i].Last.Load() < next[oldest].Last.Load() {
					oldest = i
				}
			}
			next = slices.Delete(next, oldest, oldest+1)
		}
		next = append(next, &accounts.UnmatchedTally{Name: string(name), First: now})
		at = len(next) - 1
		e.Unmatched.Store(&next)
		known = next
	}
	known[at].Last.Store(now)
	t.Fold(known[at].Count.Add(1))
}

// Unmatched lists the names of usage events that no feature has, the one seen last first. A name
// that the catalog has now is left out.
func (m *accountReader) Unmatched(env uint32) []accounts.UnmatchedName {
	e := m.state.Load().Environment(env)
	if e == nil {
		return nil
	}
	catalog := e.Catalog.Load()
	list := slices.DeleteFunc(e.UnmatchedNames(), func(u accounts.UnmatchedName) bool {
		return catalog.FeatureNamed([]byte(u.Name)) != 0
	})
	slices.SortStableFunc(list, func(a, b accounts.UnmatchedName) int {
		switch {
		case a.LastAt > b.LastAt:
			return -1
		case a.LastAt < b.LastAt:
			return 1
		}
		return 0
	})
	return list
}
