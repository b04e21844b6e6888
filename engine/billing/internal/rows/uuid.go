package rows

import "encoding/hex"

// ParseUUID parses a UUID's text form, 8-4-4-4-12 hexadecimal digits in either case.
func ParseUUID(text string) (id [16]byte, ok bool) {
	if len(text) != 36 {
		return id, false
	}
	n := 0
	for i := 0; i < len(text); i++ {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if text[i] != '-' {
				return id, false
			}
			continue
		}
		v, isHex := hexDigit(text[i])
		if !isHex {
			return id, false
		}
		id[n/2] = id[n/2]<<4 | v
		n++
	}
	return id, true
}

func hexDigit(b byte) (v byte, ok bool) {
	switch {
	case '0' <= b && b <= '9':
		return b - '0', true
	case 'a' <= b && b <= 'f':
		return b - 'a' + 10, true
	case 'A' <= b && b <= 'F':
		return b - 'A' + 10, true
	}
	return 0, false
}

// UUIDText formats a UUID.
func UUIDText(id [16]byte) string {
	var room [36]byte
	return string(AppendUUID(room[:0], &id))
}

// AppendUUID appends a UUID's text.
func AppendUUID(dst []byte, id *[16]byte) []byte {
	dst = append(hex.AppendEncode(dst, id[:4]), '-')
	dst = append(hex.AppendEncode(dst, id[4:6]), '-')
	dst = append(hex.AppendEncode(dst, id[6:8]), '-')
	dst = append(hex.AppendEncode(dst, id[8:10]), '-')
	return hex.AppendEncode(dst, id[10:])
}
