package page

import (
	"encoding/binary"
	"fmt"
)

// Blob is a row of bytes of any length: an encoded record that is seldom read, replaced whole.
type Blob struct {
	// Bytes must not be changed once they are in a table: readers and snapshots share them.
	Bytes []byte
}

// NewBlobTable adds a table of blobs to s; in the snapshot a blob is its length as an unsigned
// varint, and its bytes.
func NewBlobTable(s *Store, id uint16) *Table[Blob] {
	return NewTable(s, id, Codec[Blob]{
		Append: func(dst []byte, b *Blob) []byte {
			return append(binary.AppendUvarint(dst, uint64(len(b.Bytes))), b.Bytes...)
		},
		Read: func(src []byte, b *Blob) ([]byte, error) {
			size, n := binary.Uvarint(src)
			if n <= 0 || size > uint64(len(src)-n) {
				return nil, fmt.Errorf("%w: length of a blob", ErrSnapshot)
			}
			if src = src[n:]; size > 0 {
				b.Bytes = append([]byte(nil), src[:size]...)
			}
			return src[size:], nil
		},
	})
}
