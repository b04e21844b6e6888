package page

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
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
		Append: func(dst []byte, b *Blob) []byte { return appendBlob(dst, b.Bytes) },
		Read: func(src []byte, b *Blob) (rest []byte, err error) {
			b.Bytes, rest, err = readBlob(src)
			return rest, err
		},
	})
}

func appendBlob(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// readBlob returns a copy of a blob, nil where it is empty.
func readBlob(src []byte) (b, rest []byte, err error) {
	size, n := binary.Uvarint(src)
	if n <= 0 || size > uint64(len(src)-n) {
		return nil, nil, fmt.Errorf("%w: length of a blob", ErrSnapshot)
	}
	src = src[n:]
	return append(b, src[:size]...), src[size:], nil
}

// SummedBlob is a Blob that HashNext folds by its length and a checksum, made when it is set: for
// long ones.
type SummedBlob struct {
	bytes []byte
	sum   uint64
}

// Bytes returns the bytes, which must not be changed.
func (b *SummedBlob) Bytes() []byte { return b.bytes }

// Set replaces the bytes, which must not change afterwards.
func (b *SummedBlob) Set(bytes []byte) {
	if b.bytes, b.sum = bytes, 0; len(bytes) > 0 { // as one that was never set
		b.sum = xxhash.Sum64(bytes)
	}
}

// NewSummedBlobTable is NewBlobTable for SummedBlobs; in the snapshot they are as Blobs are.
func NewSummedBlobTable(s *Store, id uint16) *Table[SummedBlob] {
	return NewTable(s, id, Codec[SummedBlob]{
		Append: func(dst []byte, b *SummedBlob) []byte { return appendBlob(dst, b.bytes) },
		Read: func(src []byte, b *SummedBlob) ([]byte, error) {
			bytes, rest, err := readBlob(src)
			b.Set(bytes)
			return rest, err
		},
		Sum: func(dst []byte, b *SummedBlob) []byte {
			dst = binary.AppendUvarint(dst, uint64(len(b.bytes)))
			return binary.LittleEndian.AppendUint64(dst, b.sum)
		},
	})
}
