package wire

import (
	"encoding/binary"

	"tollgate/engine/decimal"
)

// The functions below append a field that has a value, as a Codec does, for generated encoders:
// the bytes travel as a value and not in a struct, so that they stay in registers. Numbers are
// constants up to 2047, so the length of a tag is known where they are inlined.

const (
	varintTag = 0
	bytesTag  = 2
)

// AppendUint appends an unsigned integer.
func AppendUint(dst []byte, number int, v uint64) []byte {
	if v == 0 {
		return dst
	}
	if number <= oneByteTag && v < 0x80 {
		return append(dst, byte(number<<3|varintTag), byte(v))
	}
	return appendUint(dst, number, v)
}

func appendUint(dst []byte, number int, v uint64) []byte {
	return binary.AppendUvarint(appendTag(dst, number<<3|varintTag), v)
}

func appendTag(dst []byte, tag int) []byte {
	if tag < 0x80 {
		return append(dst, byte(tag))
	}
	return append(dst, byte(tag|0x80), byte(tag>>7))
}

// AppendInt appends a signed integer, as a zigzag varint.
func AppendInt(dst []byte, number int, v int64) []byte {
	return AppendUint(dst, number, uint64(v)<<1^uint64(v>>63))
}

// AppendBool appends true.
func AppendBool(dst []byte, number int, v bool) []byte {
	if !v {
		return dst
	}
	return appendUint(dst, number, 1)
}

// AppendBlob appends bytes.
func AppendBlob(dst []byte, number int, v []byte) []byte {
	if len(v) == 0 {
		return dst
	}
	return append(appendLength(dst, number, len(v)), v...)
}

// appendLength appends a field's tag and the length of its value.
func appendLength(dst []byte, number, length int) []byte {
	return binary.AppendUvarint(appendTag(dst, number<<3|bytesTag), uint64(length))
}

// AppendID appends 16 bytes that are not all 0.
func AppendID(dst []byte, number int, v *[16]byte) []byte {
	if *v == ([16]byte{}) {
		return dst
	}
	return append(appendLength(dst, number, len(v)), v[:]...)
}

// AppendDecimal appends a decimal.
func AppendDecimal(dst []byte, number int, v decimal.Decimal) []byte {
	if v == (decimal.Decimal{}) {
		return dst
	}
	high, low := v.Bits()
	n := width(high, low)
	var full [16]byte
	binary.BigEndian.PutUint64(full[:8], uint64(high))
	binary.BigEndian.PutUint64(full[8:], low)
	return append(appendLength(dst, number, n), full[16-n:]...)
}
