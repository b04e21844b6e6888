// Package ascii judges texts in headers, logs and addresses.
package ascii

import "strings"

// Visible reports whether a text has 1 to maximum characters, each a visible one of ASCII.
func Visible[T string | []byte](text T, maximum int) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return 0 < len(text) && len(text) <= maximum
}

// Printable reports whether a text is one, and has nothing but blanks and visible characters of
// ASCII.
func Printable(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}
