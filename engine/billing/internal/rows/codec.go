// Package rows has the building blocks of tables of pointer-free rows: the bytes of a row in a
// snapshot, texts, lists that are read without a lock, and heaps of rows by their next instant. It
// knows no noun of billing.
package rows

import (
	"encoding/binary"
	"errors"

	"tollgate/engine/decimal"
)

// ErrRecord means that a snapshot's record is cut short.
var ErrRecord = errors.New("billing: truncated record in a snapshot")

// Reader reads fields from the front of a record.
type Reader struct {
	Rest []byte
	Err  error
}

// Take reads n bytes. If there are fewer, it sets Err and returns zeros.
func (r *Reader) Take(n int) []byte {
	if len(r.Rest) < n {
		r.Err = ErrRecord
		r.Rest = nil
		return make([]byte, n)
	}
	b := r.Rest[:n]
	r.Rest = r.Rest[n:]
	return b
}

// U8 reads a byte.
func (r *Reader) U8() uint8 { return r.Take(1)[0] }

// U16 reads 2 bytes.
func (r *Reader) U16() uint16 { return binary.LittleEndian.Uint16(r.Take(2)) }

// U32 reads 4 bytes.
func (r *Reader) U32() uint32 { return binary.LittleEndian.Uint32(r.Take(4)) }

// U64 reads 8 bytes.
func (r *Reader) U64() uint64 { return binary.LittleEndian.Uint64(r.Take(8)) }

// I64 reads 8 bytes.
func (r *Reader) I64() int64 { return int64(r.U64()) }

// ID reads 16 bytes.
func (r *Reader) ID() (id [16]byte) {
	copy(id[:], r.Take(16))
	return id
}

// Decimal reads 16 bytes.
func (r *Reader) Decimal() decimal.Decimal {
	low := r.U64()
	return decimal.FromBits(r.I64(), low)
}

// Exact reads 32 bytes.
func (r *Reader) Exact() decimal.Exact {
	var words [4]uint64
	for i := range words {
		words[i] = r.U64()
	}
	return decimal.ExactOf(words)
}

// AppendU16 appends 2 bytes.
func AppendU16(dst []byte, v uint16) []byte { return binary.LittleEndian.AppendUint16(dst, v) }

// AppendU32 appends 4 bytes.
func AppendU32(dst []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(dst, v) }

// AppendI64 appends 8 bytes.
func AppendI64(dst []byte, v int64) []byte {
	return binary.LittleEndian.AppendUint64(dst, uint64(v))
}

// AppendDecimal appends 16 bytes.
func AppendDecimal(dst []byte, d decimal.Decimal) []byte {
	high, low := d.Bits()
	return AppendI64(binary.LittleEndian.AppendUint64(dst, low), high)
}

// AppendExact appends 32 bytes.
func AppendExact(dst []byte, x decimal.Exact) []byte {
	for _, word := range x.Words() {
		dst = binary.LittleEndian.AppendUint64(dst, word)
	}
	return dst
}
