package page

// Parts stores fields that few rows of a table have, so that rows hold only the fields that all
// have. A record names its part by a number, from 1; 0 means none. Parts are in a snapshot through
// the codec of the table that they belong to, see Codec.Apart. The locks, and who reads and writes,
// are those of that table.
type Parts[T any] struct {
	table *Table[T]
	free  []uint32
}

// NewParts returns no parts.
func NewParts[T any]() *Parts[T] {
	return &Parts[T]{table: NewTable(NewStore(), 0, Codec[T]{})}
}

// Read returns a part, which is not to be changed through this pointer.
func (p *Parts[T]) Read(n uint32) *T { return p.table.Read(n) }

// Put stores v as part n, or as another where n is 0, and returns its number. For the writer, after
// Write of the record that the part belongs to.
func (p *Parts[T]) Put(n uint32, v T) uint32 {
	if last := len(p.free) - 1; n == 0 && last >= 0 {
		n, p.free = p.free[last], p.free[:last]
	} else if n == 0 {
		n, _ = p.table.Append()
	}
	*p.table.Write(n) = v
	return n
}

// Drop gives part n back; 0 is none. For the writer, after Write of the record that it belonged to.
func (p *Parts[T]) Drop(n uint32) {
	if n != 0 {
		p.free = append(p.free, n)
	}
}

// Bytes is the memory that the parts hold, in bytes. Any goroutine.
func (p *Parts[T]) Bytes() uint64 { return p.table.Bytes() }
