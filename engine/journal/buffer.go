package journal

import (
	"sync/atomic"

	"tollgate/engine/prefetch"
)

// buffer is the memory of a tail, and of the segment that the tail becomes. Memory that is used
// again gets a buffer of its own, so that a view of its earlier use cannot take one for the other.
type buffer struct {
	data  []byte // all of it
	paged int    // how much of it the kernel has given pages
	use   atomic.Uint32
}

const (
	unread = iota // by anyone but the journal and the store that the segment goes to
	shared        // someone may read it for as long as it likes: the collector frees it
	freed         // it may be in another buffer by now
)

// share allows a reader to read, and is false when the memory was freed.
func (b *buffer) share() bool {
	if b.use.Load() == unread {
		b.use.CompareAndSwap(unread, shared)
	}
	return b.use.Load() == shared
}

// free ends the buffer; false when someone may be reading it, or has ended it.
func (b *buffer) free() bool { return b.use.CompareAndSwap(unread, freed) }

// populate asks for the pages of the first n bytes.
func (b *buffer) populate(n int) {
	if n = min(n, len(b.data)); n > b.paged {
		prefetch.Populate(b.data[b.paged:n])
		b.paged = n
	}
}

// spares is memory that can be used again: as much as there are tails.
type spares struct {
	length int // of each; a tail that grew has another, and is left to the collector
	kept   [partCount]atomic.Pointer[buffer]
}

// give keeps the memory of a buffer that was freed, if it is of the right length and there is room
// for it.
func (s *spares) give(b *buffer) {
	if len(b.data) != s.length {
		return
	}
	again := &buffer{data: b.data, paged: b.paged}
	for i := range s.kept {
		if s.kept[i].CompareAndSwap(nil, again) {
			return
		}
	}
}

// take returns memory of a length: a spare one, or new.
func (s *spares) take(length int) *buffer {
	for i := range s.kept {
		b := s.kept[i].Load()
		if b != nil && len(b.data) == length && s.kept[i].CompareAndSwap(b, nil) {
			return b
		}
	}
	b := &buffer{data: make([]byte, length)}
	if prefetch.Resident(b.data) {
		b.paged = length // Go used this memory before
	}
	return b
}
