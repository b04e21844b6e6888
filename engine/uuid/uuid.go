// Package uuid reads and writes the text form of ids, 8-4-4-4-12 hexadecimal digits.
package uuid

import "encoding/hex"

// Parse parses the text form, in either case.
func Parse[T string | []byte](text T) (id [16]byte, ok bool) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return id, false
	}
	var digits [32]byte
	copy(digits[:8], text[:8])
	copy(digits[8:12], text[9:13])
	copy(digits[12:16], text[14:18])
	copy(digits[16:20], text[19:23])
	copy(digits[20:], text[24:])
	_, err := hex.Decode(id[:], digits[:])
	return id, err == nil
}

// Append appends the text form.
func Append(dst []byte, id *[16]byte) []byte {
	const digits = "0123456789abcdef"
	text := [36]byte{8: '-', 13: '-', 18: '-', 23: '-'}
	at := 0
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			at++
		}
		text[at], text[at+1] = digits[b>>4], digits[b&15]
		at += 2
	}
	return append(dst, text[:]...)
}

// Text returns the text form.
func Text(id [16]byte) string {
	var room [36]byte
	return string(Append(room[:0], &id))
}
