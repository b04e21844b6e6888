package page

import (
	"encoding/binary"
	"fmt"
	"sort"
)

// Sparse is a table of bytes that few rows of another table have. A row without any takes no space,
// neither in memory nor in a snapshot.
type Sparse struct{ table *Table[sparseRow] }

// sparseRow is the bytes of one row. In a snapshot: the row (4), the length (4), the bytes.
type sparseRow struct {
	row  uint32
	data string
}

var sparseCodec = Codec[sparseRow]{
	Append: func(dst []byte, r *sparseRow) []byte {
		dst = binary.LittleEndian.AppendUint32(dst, r.row)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(r.data)))
		return append(dst, r.data...)
	},
	Read: func(src []byte, r *sparseRow) ([]byte, error) {
		if len(src) < 8 {
			return nil, fmt.Errorf("%w: cut short", ErrSnapshot)
		}
		r.row = binary.LittleEndian.Uint32(src)
		size := binary.LittleEndian.Uint32(src[4:])
		if src = src[8:]; uint64(size) > uint64(len(src)) {
			return nil, fmt.Errorf("%w: cut short", ErrSnapshot)
		}
		r.data = string(src[:size])
		return src[size:], nil
	},
}

// NewSparse adds a table to s under a number, as NewTable does.
func NewSparse(s *Store, id uint16) *Sparse { return &Sparse{NewTable(s, id, sparseCodec)} }

// Bytes is the memory that the table holds, in bytes, without the rows' own.
func (x *Sparse) Bytes() uint64 { return x.table.Bytes() }

// Put stores a row's bytes; empty ones are skipped. It panics unless the row is greater than those
// that have bytes: rows are found by their order. For the writer, before readers know the row.
func (x *Sparse) Put(row uint32, data []byte) {
	if len(data) == 0 {
		return
	}
	if n := x.table.Len(); n > 0 && x.table.Read(n).row >= row {
		panic(fmt.Sprintf("page: row %d of table %d is put too late", row, x.table.id))
	}
	_, r := x.table.Append()
	*r = sparseRow{row, string(data)}
}

// Get returns the bytes of a row; "" if it has none. Any goroutine that knows the row.
func (x *Sparse) Get(row uint32) string {
	n := int(x.table.Len())
	at := sort.Search(n, func(i int) bool { return x.table.Read(uint32(i)+1).row >= row })
	if at < n {
		if r := x.table.Read(uint32(at) + 1); r.row == row {
			return r.data
		}
	}
	return ""
}

// Check checks the table after a restore: rows ascend up to last, and decode accepts their bytes.
func (x *Sparse) Check(last uint32, decode func(data string) error) error {
	before := uint32(0)
	for n := uint32(1); n <= x.table.Len(); n++ {
		r := x.table.Read(n)
		if r.row <= before || r.row > last || r.data == "" {
			return fmt.Errorf("%w: row %d of table %d leads nowhere", ErrSnapshot, n, x.table.id)
		}
		if err := decode(r.data); err != nil {
			return fmt.Errorf("%w: row %d of table %d: %w", ErrSnapshot, n, x.table.id, err)
		}
		before = r.row
	}
	return nil
}
