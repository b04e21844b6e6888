// Package prefetch asks the processor for memory before it is needed, so that several misses of
// its caches overlap. A read in place of a prefetch would need the lock of what it reads.
package prefetch

import "unsafe"

// Address is where a value lies. It keeps nothing alive, and may be stale: asking for memory that
// is not there does nothing.
type Address uintptr

// Of returns the address of what p points to.
func Of[T any](p *T) Address { return Address(unsafe.Pointer(p)) }
