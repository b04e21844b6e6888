package accounts

import (
	"slices"
	"sync/atomic"
)

// MaxUnmatched bounds the names of usage events without a feature that an environment remembers,
// newest first.
const MaxUnmatched = 50

// UnmatchedTally counts usage events with a name that no feature had then: they are recorded and
// not billed. Name and First never change.
type UnmatchedTally struct {
	Name  string
	First int64 // on the environment's clock
	Count atomic.Uint64
	Last  atomic.Int64
}

// UnmatchedName is a name of usage events that no feature had.
//
//schema:answer admin UnmatchedName
type UnmatchedName struct {
	Name    string `wire:"1" json:"name" rule:"min=1,max=128"`
	Events  uint64 `wire:"2" json:"events"`
	FirstAt int64  `wire:"3" json:"firstAt" as:"time"`
	// LastAt is when the last one was recorded, on the environment's clock.
	LastAt int64 `wire:"4" json:"lastAt" as:"time"`
}

// UnmatchedNames copies the names in the order in which they came.
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

// RestoreUnmatched restores a snapshot's UnmatchedNames.
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

// NoteUnmatched counts an event with a name that no feature has.
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
