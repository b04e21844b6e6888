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
	h := hex.EncodeToString(id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
