package wire

import (
	"encoding/binary"
	"math/bits"

	"tollgate/engine/decimal"
)

// Quick reads the fields of a flat struct straight ahead, for generated decoders: Is reports
// whether a field is next, the other methods read its value. It accepts nothing that a Codec would
// refuse. At anything unusual (long varints, long texts, malformed bytes) it gives up; Fields must
// then decode the bytes again and report the error.
type Quick struct {
	rest []byte
	odd  bool
}

// NewQuick returns a Quick that reads src.
func NewQuick(src []byte) Quick { return Quick{rest: src} }

// Done reports whether everything was read and nothing was unusual.
func (q *Quick) Done() bool { return len(q.rest) == 0 && !q.odd }

// Is consumes the tag of a field with a number up to 15, if it comes next.
func (q *Quick) Is(tag byte) bool {
	if len(q.rest) == 0 || q.rest[0] != tag {
		return false
	}
	q.rest = q.rest[1:]
	return true
}

// IsHigh consumes the tag of a field with a number from 16 to 2047, if it comes next.
func (q *Quick) IsHigh(low, high byte) bool {
	if len(q.rest) < 2 || q.rest[0] != low || q.rest[1] != high {
		return false
	}
	q.rest = q.rest[2:]
	return true
}

func (q *Quick) end(good bool, length int) {
	if !good || length > len(q.rest) {
		q.rest, q.odd = nil, true
		return
	}
	q.rest = q.rest[length:]
}

// eight returns the next eight bytes, little endian, with zeros for those past the end.
func (q *Quick) eight() uint64 {
	if len(q.rest) >= 8 {
		return binary.LittleEndian.Uint64(q.rest)
	}
	var room [8]byte
	copy(room[:], q.rest)
	return binary.LittleEndian.Uint64(room[:])
}

// Uint reads a varint of up to eight bytes in its shortest form, from 1 to limit.
func (q *Quick) Uint(limit uint64) uint64 {
	if len(q.rest) > 0 && q.rest[0] < 0x80 {
		v := uint64(q.rest[0])
		q.end(v != 0 && v <= limit, 1)
		return v
	}
	x := q.eight()
	last := ^x & 0x8080808080808080
	last &= -last // the upper bit of the last byte
	length := bits.TrailingZeros64(last)/8 + 1
	x &= last - 1
	good := last != 0 && x>>(8*(length-1)) != 0
	// Seven bits of each byte, joined in three steps.
	x = x&0x007f007f007f007f | x&0x7f007f007f007f00>>1
	x = x&0x00003fff00003fff | x&0x3fff00003fff0000>>2
	x = x&0x0fffffff | x&0x0fffffff00000000>>4
	q.end(good && x <= limit, length)
	return x
}

// Int reads a zigzag varint.
func (q *Quick) Int() int64 {
	v := q.Uint(1<<64 - 1)
	return int64(v>>1) ^ -int64(v&1)
}

// Bool reads true: false is never written.
func (q *Quick) Bool() bool { return q.Uint(1) == 1 }

// Blob reads 1 to 16,383 bytes, which alias the source.
func (q *Quick) Blob() []byte {
	if len(q.rest) < 2 {
		q.end(false, 0)
		return nil
	}
	n, head := int(q.rest[0]), 1
	if n >= 0x80 {
		n, head = n&0x7f|int(q.rest[1])<<7, 2
		if n < 0x80 || q.rest[1] >= 0x80 {
			n = 0
		}
	}
	if n == 0 || head+n > len(q.rest) {
		q.end(false, 0)
		return nil
	}
	v := q.rest[head : head+n : head+n]
	q.rest = q.rest[head+n:]
	return v
}

// ID reads 16 bytes, not all of them 0.
func (q *Quick) ID(id *[16]byte) {
	if len(q.rest) < 17 {
		q.end(false, 0)
		return
	}
	*id = [16]byte(q.rest[1:])
	q.end(q.rest[0] == 16 && *id != [16]byte{}, 17)
}

// Decimal reads a decimal other than 0, of up to eight bytes in its shortest form.
func (q *Quick) Decimal() decimal.Decimal {
	if len(q.rest) == 0 {
		q.end(false, 0)
		return decimal.Decimal{}
	}
	n := int(q.rest[0])
	if n == 0 || n > 8 || n >= len(q.rest) {
		q.end(false, 0)
		return decimal.Decimal{}
	}
	q.rest = q.rest[1:]
	v := int64(bits.ReverseBytes64(q.eight())) >> (64 - 8*n)
	short := n == 1 || v != v<<(72-8*n)>>(72-8*n) // it does not fit one byte less
	q.end(v != 0 && short, n)
	return decimal.FromBits(v>>63, uint64(v))
}
