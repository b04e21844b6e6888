package billing

import (
	"slices"
	"sync/atomic"
)

// series is a list with one writer and any number of readers, who take no lock: what a reader sees
// never changes.
type series[T any] struct{ list atomic.Pointer[[]T] }

// all returns what has been appended so far. Callers must not change it.
func (s *series[T]) all() []T {
	if p := s.list.Load(); p != nil {
		return *p
	}
	return nil
}

// append adds v, and returns its number, counted from 1. Readers of a shorter prefix share the
// array, but never look behind their own length.
func (s *series[T]) append(v T) uint32 {
	next := append(s.all(), v)
	s.list.Store(&next)
	return uint32(len(next))
}

// remove takes out the elements that gone names: those behind them get other numbers. Readers keep
// the array that they have.
func (s *series[T]) remove(gone func(T) bool) {
	next := slices.DeleteFunc(slices.Clone(s.all()), gone)
	s.list.Store(&next)
}

// at returns element number n, counted from 1; false when there is none.
func (s *series[T]) at(n uint32) (v T, ok bool) {
	list := s.all()
	if n == 0 || uint64(n) > uint64(len(list)) {
		return v, false
	}
	return list[n-1], true
}
