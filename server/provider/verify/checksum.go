package verify

import (
	"hash/crc32"
	"strings"
)

// checksum is how a key's last characters follow from the rest: as with GitHub's keys, they are the
// CRC-32 of the text from a position on, in base 62. The zero value means no checksum.
type checksum struct {
	alphabet string
	from     int
}

// checksumBytes is how many characters of base 62 a CRC-32 takes.
const checksumBytes = 6

var base62 = [...]string{
	"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
	"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
}

// splitChecksum returns a key without its checksum, and how that is computed. Makers differ in what
// they compute it of, so it is one only where the real key's own agrees: of the whole key, or of
// the text after one of its first separators.
func splitChecksum(key string) (body string, sum checksum) {
	if len(key) < longSecret+checksumBytes {
		return key, checksum{}
	}
	body = key[:len(key)-checksumBytes]
	for from, words := 0, 0; words <= prefixWords; words++ {
		for _, alphabet := range base62 {
			if sum := (checksum{alphabet, from}); sum.of(body) == key[len(body):] {
				return body, sum
			}
		}
		n := strings.IndexFunc(body[from:], func(r rune) bool { return r < 128 && isSeparator(byte(r)) })
		if n < 0 {
			break
		}
		from += n + 1
	}
	return key, checksum{}
}

func (c checksum) of(body string) string {
	var digits [checksumBytes]byte
	n := crc32.ChecksumIEEE([]byte(body[c.from:]))
	for i := range digits {
		digits[len(digits)-1-i] = c.alphabet[n%62]
		n /= 62
	}
	return string(digits[:])
}

// added returns a body that was drawn with its checksum.
func (c checksum) added(body string, err error) (string, error) {
	if err != nil || c.alphabet == "" {
		return body, err
	}
	return body + c.of(body), nil
}
