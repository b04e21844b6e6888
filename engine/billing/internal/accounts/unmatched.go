package accounts

import (
	"slices"
	"sync/atomic"
)

// MaxUnmatched is how many names of usage events without a feature an environment remembers: the
// ones that were seen last.
const MaxUnmatched = 50

// UnmatchedTally is a name that usage events had, and that no feature of the catalog had then: they
// were recorded, and they are not billed. Name and First never change.
type UnmatchedTally struct {
	Name  string
	First int64 // on the environment's clock
	Count atomic.Uint64
	Last  atomic.Int64
}

// UnmatchedName is what is known of such a name.
//
//schema:answer admin UnmatchedName
type UnmatchedName struct {
	Name    string `wire:"1" json:"name" rule:"min=1,max=128"`
	Events  uint64 `wire:"2" json:"events"`
	FirstAt int64  `wire:"3" json:"firstAt" as:"time"`
	// LastAt is when they were last recorded, on the environment's clock.
	LastAt int64 `wire:"4" json:"lastAt" as:"time"`
}

// UnmatchedNames copies what is remembered, in the order in which the names came.
func (e *Environment) UnmatchedNames() (list []UnmatchedName) {
	known := e.Unmatched.Load()
	if known == nil {
		return nil
	}
	for _, u := range *known {
		list = append(list, UnmatchedName{u.Name, u.Count.Load(), u.First, u.Last.Load()})
	}
	return list
}

// RestoreUnmatched puts back what a snapshot has of UnmatchedNames.
func (e *Environment) RestoreUnmatched(list []UnmatchedName) {
	if len(list) == 0 {
		return
	}
	known := make([]*UnmatchedTally, len(list))
	for i, u := range list {
		known[i] = &UnmatchedTally{Name: u.Name, First: u.FirstAt}
		known[i].Count.Store(u.Events)
		known[i].Last.Store(u.LastAt)
	}
	e.Unmatched.Store(&known)
}

// NoteUnmatched counts an event whose name is that of no feature.
func (t *Tx) NoteUnmatched(e *Environment, name []byte, now int64) {
	var known []*UnmatchedTally
	if p := e.Unmatched.Load(); p != nil {
		known = *p
	}
	at := slices.IndexFunc(known, func(u *UnmatchedTally) bool { return u.Name == string(name) })
	if at < 0 {
		next := slices.Clone(known)
		if len(next) >= MaxUnmatched {
			oldest := 0
			for i := range next {
				if next[i].Last.Load() < next[oldest].Last.Load() {
					oldest = i
				}
			}
			next = slices.Delete(next, oldest, oldest+1)
		}
		next = append(next, &UnmatchedTally{Name: string(name), First: now})
		at = len(next) - 1
		e.Unmatched.Store(&next)
		known = next
	}
	known[at].Last.Store(now)
	t.Fold(known[at].Count.Add(1))
}
