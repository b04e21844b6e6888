package wire

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"tollgate/engine/decimal"
)

// Quick reads the fields of a flat struct straight ahead, for generated decoders: Is reports
// whether a field stands at an offset, the other methods read the value behind its tag and return
// the offset behind that. It accepts nothing that a Codec would refuse. At anything unusual (long
// varints, long texts, malformed bytes) the next offset is beyond the end; Fields must then decode
// the bytes again and report the error. Offsets travel as values and not in a struct, so that they
// stay in registers: each field waits for the one before.
type Quick []byte

// Is reports whether the tag of a field with a number up to 15 is at an offset.
func (q Quick) Is(at int, tag byte) bool { return uint(at) < uint(len(q)) && q[at] == tag }

// IsHigh reports whether the tag of a field with a number from 16 to 2047 is at an offset.
func (q Quick) IsHigh(at int, low, high byte) bool {
	return len(q)-at >= 2 && q[at] == low && q[at+1] == high
}

// Seek passes over the fields with lower numbers than a field with a number up to 15, and returns
// the offset of that field, if it is there, or of the next one. It does not look at their values.
func (q Quick) Seek(at int, tag byte) int {
	for uint(at) < uint(len(q)) && q[at]>>3 < tag>>3 {
		switch q[at] & 7 {
		case 0:
			end := ^q.eight(at+1) & 0x8080808080808080
			if end == 0 {
				_, at = q.longest(at+1, 1<<64-1)
				continue
			}
			at += 2 + bits.TrailingZeros64(end)/8
		case 2:
			_, at = q.Blob(at + 1)
		default:
			return len(q) + 1
		}
	}
	return at
}

// next is the offset behind a value, beyond the end where the value is not good or cut short.
func (q Quick) next(good bool, at int) int {
	if !good || at > len(q) {
		return len(q) + 1
	}
	return at
}

// eight returns the eight bytes at an offset within, little endian, zeros for those past the end.
func (q Quick) eight(at int) uint64 {
	if at+8 <= len(q) {
		return binary.LittleEndian.Uint64(q[at:])
	}
	if len(q) >= 8 {
		return binary.LittleEndian.Uint64(q[len(q)-8:]) >> (8 * (at + 8 - len(q)))
	}
	var room [8]byte
	copy(room[:], q[at:])
	return binary.LittleEndian.Uint64(room[:])
}

// Uint reads a varint in its shortest form, from 1 to limit.
func (q Quick) Uint(at int, limit uint64) (v uint64, next int) {
	if uint(at) < uint(len(q)) && q[at] < 0x80 {
		v = uint64(q[at])
		return v, q.next(v != 0 && v <= limit, at+1)
	}
	return q.long(at, limit)
}

// long is Uint of what is not one byte.
func (q Quick) long(at int, limit uint64) (v uint64, next int) {
	if at >= len(q) {
		return 0, q.next(false, at)
	}
	x := q.eight(at)
	last := ^x & 0x8080808080808080
	if last == 0 {
		return q.longest(at, limit)
	}
	last &= -last // the upper bit of the last byte
	length := bits.TrailingZeros64(last)/8 + 1
	x &= last - 1
	good := x>>(8*(length-1)) != 0
	// Seven bits of each byte, joined in three steps.
	x = x&0x007f007f007f007f | x&0x7f007f007f007f00>>1
	x = x&0x00003fff00003fff | x&0x3fff00003fff0000>>2
	x = x&0x0fffffff | x&0x0fffffff00000000>>4
	return x, q.next(good && x <= limit, at+length)
}

// longest is Uint of more than eight bytes: a hash has nine or ten.
func (q Quick) longest(at int, limit uint64) (v uint64, next int) {
	v, n := binary.Uvarint(q[at:])
	return v, q.next(n > 0 && q[at+n-1] != 0 && v <= limit, at+n)
}

// Int reads a zigzag varint.
func (q Quick) Int(at int) (v int64, next int) {
	u, next := q.Uint(at, 1<<64-1)
	return int64(u>>1) ^ -int64(u&1), next
}

// Bool reads true: false is never written.
func (q Quick) Bool(at int) (v bool, next int) {
	u, next := q.Uint(at, 1)
	return u == 1, next
}

// Blob reads 1 to 16,383 bytes, which alias the source.
func (q Quick) Blob(at int) (v []byte, next int) {
	if len(q)-at < 2 {
		return nil, q.next(false, at)
	}
	n, from := int(q[at]), at+1
	if n >= 0x80 {
		n, from = n&0x7f|int(q[at+1])<<7, at+2
		if n < 0x80 || q[at+1] >= 0x80 {
			n = 0
		}
	}
	if next = from + n; n == 0 || next > len(q) {
		return nil, q.next(false, at)
	}
	return q[from:next:next], next
}

// Text is Blob as a string, which aliases the source, too: clone what is to live longer.
func (q Quick) Text(at int) (v string, next int) {
	b, next := q.Blob(at)
	return Alias(b), next
}

// Alias returns bytes as a string without a copy, for as long as they do not change.
func Alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bytesOf returns the bytes of a string, which must not be changed.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// ID reads 16 bytes, not all of them 0.
func (q Quick) ID(at int, id *[16]byte) (next int) {
	if len(q)-at < 17 {
		return q.next(false, at)
	}
	*id = [16]byte(q[at+1:])
	return q.next(q[at] == 16 && *id != [16]byte{}, at+17)
}

// Decimal reads a decimal other than 0, of up to eight bytes in its shortest form.
func (q Quick) Decimal(at int) (v decimal.Decimal, next int) {
	if at >= len(q) {
		return decimal.Decimal{}, q.next(false, at)
	}
	n := int(q[at])
	if n == 0 || n > 8 || n >= len(q)-at {
		return decimal.Decimal{}, q.next(false, at)
	}
	low := int64(bits.ReverseBytes64(q.eight(at+1))) >> (64 - 8*n)
	short := n == 1 || low != low<<(72-8*n)>>(72-8*n) // it does not fit one byte less
	return decimal.FromBits(low>>63, uint64(low)), q.next(low != 0 && short, at+1+n)
}
