package rows

import (
	"slices"
	"sync/atomic"
)

// Series is a list with one writer and any number of readers, which take no lock: what a reader
// sees never changes.
type Series[T any] struct{ list atomic.Pointer[[]T] }

// All returns the elements appended so far. Callers must not change them.
func (s *Series[T]) All() []T {
	if p := s.list.Load(); p != nil {
		return *p
	}
	return nil
}

// Append adds v and returns its number, counted from 1. Readers of a shorter prefix share the
// array, but never read beyond their own length.
func (s *Series[T]) Append(v T) uint32 {
	next := append(s.All(), v)
	s.list.Store(&next)
	return uint32(len(next))
}

// Remove removes the elements that gone selects; the later ones get other numbers. Readers keep
// their array.
func (s *Series[T]) Remove(gone func(T) bool) {
	next := slices.DeleteFunc(slices.Clone(s.All()), gone)
	s.list.Store(&next)
}

// Replace replaces element number n, counted from 1, by v. Readers keep their array.
func (s *Series[T]) Replace(n uint32, v T) {
	next := slices.Clone(s.All())
	next[n-1] = v
	s.list.Store(&next)
}

// At returns element number n, counted from 1; false if there is none.
func (s *Series[T]) At(n uint32) (v T, ok bool) {
	list := s.All()
	if n == 0 || uint64(n) > uint64(len(list)) {
		return v, false
	}
	return list[n-1], true
}
