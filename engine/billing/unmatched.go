package billing

import (
	"slices"
	"sync/atomic"
)

// MaxUnmatched is how many names of usage events without a feature an environment remembers: the
// ones that were seen last.
const MaxUnmatched = 50

// unmatchedName is a name that usage events had, and that no feature of the catalog had then: they
// were recorded, and they are not billed. name and first never change.
type unmatchedName struct {
	name  string
	first int64 // on the environment's clock
	count atomic.Uint64
	last  atomic.Int64
}

// UnmatchedName is what is known of such a name.
type UnmatchedName struct {
	Name    string `wire:"1"`
	Events  uint64 `wire:"2"`
	FirstAt int64  `wire:"3"`
	LastAt  int64  `wire:"4"` // when they were recorded, on the environment's clock
}

// noteUnmatched counts an event whose name is that of no feature.
func (t *turn) noteUnmatched(e *environment, c *RecordUsage, now int64) {
	name := c.FeatureKey
	if len(name) == 0 {
		name = c.EventName
	}
	var known []*unmatchedName
	if p := e.unmatched.Load(); p != nil {
		known = *p
	}
	at := slices.IndexFunc(known, func(u *unmatchedName) bool { return u.name == string(name) })
	if at < 0 {
		next := slices.Clone(known)
		if len(next) >= MaxUnmatched {
			oldest := 0
			for i := range next {
				if next[i].last.Load() < next[oldest].last.Load() {
					oldest = i
				}
			}
			next = slices.Delete(next, oldest, oldest+1)
		}
		next = append(next, &unmatchedName{name: string(name), first: now})
		at = len(next) - 1
		e.unmatched.Store(&next)
		known = next
	}
	known[at].last.Store(now)
	t.Fold(known[at].count.Add(1))
}

// unmatchedNames copies what is remembered, in the order in which the names came.
func (e *environment) unmatchedNames() (list []UnmatchedName) {
	known := e.unmatched.Load()
	if known == nil {
		return nil
	}
	for _, u := range *known {
		list = append(list, UnmatchedName{u.name, u.count.Load(), u.first, u.last.Load()})
	}
	return list
}

// restoreUnmatched puts back what a snapshot has of unmatchedNames.
func (e *environment) restoreUnmatched(list []UnmatchedName) {
	if len(list) == 0 {
		return
	}
	known := make([]*unmatchedName, len(list))
	for i, u := range list {
		known[i] = &unmatchedName{name: u.Name, first: u.FirstAt}
		known[i].count.Store(u.Events)
		known[i].last.Store(u.LastAt)
	}
	e.unmatched.Store(&known)
}

// Unmatched lists the names of usage events that no feature has, the one seen last first. A name
// that the catalog has now is left out.
func (m *Machine) Unmatched(env uint32) []UnmatchedName {
	e := m.state.Load().environment(env)
	if e == nil {
		return nil
	}
	catalog := e.catalog.Load()
	list := slices.DeleteFunc(e.unmatchedNames(), func(u UnmatchedName) bool {
		return catalog.featureNamed([]byte(u.Name)) != 0
	})
	slices.SortStableFunc(list, func(a, b UnmatchedName) int {
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
