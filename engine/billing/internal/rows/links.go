package rows

import (
	"sync/atomic"

	"tollgate/engine/prefetch"
)

// Links lead from rows of one table to rows of another, each to one at most: an index without
// hashes. A part of 256 rows takes 1 KiB as soon as one of them leads somewhere. One goroutine
// writes, any reads without a lock. It is not state.
type Links struct {
	parts atomic.Pointer[[]atomic.Pointer[linked]]
}

// linked are so many rows next to each other.
type linked [256]atomic.Uint32

const linkedRows = uint32(len(linked{}))

// place is where a row's link is; nil where its part has none.
func (x *Links) place(row uint32) *atomic.Uint32 {
	parts := x.parts.Load()
	if parts == nil || int(row/linkedRows) >= len(*parts) {
		return nil
	}
	part := (*parts)[row/linkedRows].Load()
	if part == nil {
		return nil
	}
	return &part[row%linkedRows]
}

// At is the row that another one leads to; 0: none.
func (x *Links) At(row uint32) (to uint32) {
	if at := x.place(row); at != nil {
		return at.Load()
	}
	return 0
}

// Near is where the row's link lies.
func (x *Links) Near(row uint32) prefetch.Address { return prefetch.Of(x.place(row)) }

// Set makes a row lead to another one; 0: to none.
func (x *Links) Set(row, to uint32) {
	if at := x.place(row); at != nil {
		at.Store(to)
		return
	}
	if to == 0 {
		return
	}
	parts, n := x.parts.Load(), int(row/linkedRows)
	if parts == nil || n >= len(*parts) {
		grown := make([]atomic.Pointer[linked], n+1+n/4)
		if parts != nil {
			for i := range *parts {
				grown[i].Store((*parts)[i].Load())
			}
		}
		parts = &grown
		x.parts.Store(parts)
	}
	part := new(linked)
	part[row%linkedRows].Store(to)
	(*parts)[n].Store(part)
}

// Bytes is the memory that the links take.
func (x *Links) Bytes() (bytes uint64) {
	parts := x.parts.Load()
	if parts == nil {
		return 0
	}
	for i := range *parts {
		if bytes += 8; (*parts)[i].Load() != nil {
			bytes += 4 * uint64(linkedRows)
		}
	}
	return bytes
}
