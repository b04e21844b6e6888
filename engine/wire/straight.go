package wire

import (
	"encoding/binary"

	"tollgate/engine/decimal"
)

// The functions below append a field that has a value, as a Codec does, for generated encoders:
// the bytes travel as a value and not in a struct, so that they stay in registers. Numbers are
// constants up to 2047. Most fields of most structs have no value, so that question is inlined, and
// what follows is a call.

const (
	varintTag = 0
	bytesTag  = 2
)

// AppendUint appends an unsigned integer.
func AppendUint(dst []byte, number int, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return appendUint(dst, number, v)
}

//go:noinline
func appendUint(dst []byte, number int, v uint64) []byte {
	if number <= oneByteTag && v < 0x80 {
		return append(dst, byte(number<<3|varintTag), byte(v))
	}
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
	if v == 0 {
		return dst
	}
	return appendUint(dst, number, uint64(v)<<1^uint64(v>>63))
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
	return appendBlob(dst, number, v)
}

func appendBlob(dst []byte, number int, v []byte) []byte {
	return append(appendLength(dst, number, len(v)), v...)
}

// AppendText appends text.
func AppendText(dst []byte, number int, v string) []byte {
	if v == "" {
		return dst
	}
	return appendBlob(dst, number, bytesOf(v))
}

// OpenMessage appends the beginning of a nested struct, CloseMessage its length, once its fields
// follow from begin on.
func OpenMessage(dst []byte, number int) []byte {
	return append(appendTag(dst, number<<3|bytesTag), 0)
}

// CloseMessage puts the length of what begins at an offset before it: one byte was left for it, a
// longer one moves what follows.
func CloseMessage(dst []byte, begin int) []byte {
	size := len(dst) - begin
	if size < 0x80 {
		dst[begin-1] = byte(size)
		return dst
	}
	var head [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(head[:], uint64(size))
	dst = append(dst, head[:n-1]...) // their values do not matter
	copy(dst[begin+n-1:], dst[begin:begin+size])
	copy(dst[begin-1:], head[:n])
	return dst
}

// appendLength appends a field's tag and the length of its value.
func appendLength(dst []byte, number, length int) []byte {
	if number <= oneByteTag && length < 0x80 {
		return append(dst, byte(number<<3|bytesTag), byte(length))
	}
	return binary.AppendUvarint(appendTag(dst, number<<3|bytesTag), uint64(length))
}

// AppendID appends 16 bytes that are not all 0.
func AppendID(dst []byte, number int, v *[16]byte) []byte {
	if *v == ([16]byte{}) {
		return dst
	}
	return appendBlob(dst, number, v[:])
}

// AppendHash appends 32 bytes that are not all 0.
func AppendHash(dst []byte, number int, v *[32]byte) []byte {
	if *v == ([32]byte{}) {
		return dst
	}
	return appendBlob(dst, number, v[:])
}

// AppendDecimal appends a decimal.
func AppendDecimal(dst []byte, number int, v decimal.Decimal) []byte {
	if v == (decimal.Decimal{}) {
		return dst
	}
	return appendDecimal(dst, number, v)
}

func appendDecimal(dst []byte, number int, v decimal.Decimal) []byte {
	high, low := v.Bits()
	n := width(high, low)
	dst = appendLength(dst, number, n)
	// All 16 bytes are stored, those that count first: a copy of n bytes takes longer.
	first, second := uint64(high), low
	if n <= 8 {
		first, second = low<<(64-8*n), 0
	} else {
		first, second = first<<(128-8*n)|low>>(8*n-64), low<<(128-8*n)
	}
	dst = binary.BigEndian.AppendUint64(dst, first)
	return binary.BigEndian.AppendUint64(dst, second)[:len(dst)-8+n]
}
