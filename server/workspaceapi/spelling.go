package workspaceapi

import (
	"html"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// sign is one way to read a text at a place: the bytes from at to end are a character, as it
// is or escaped as in addresses, JSON, programs or HTML.
type sign struct {
	at, end int32
	letter  int32 // the number of the character, folded
	// between reports whether the character is neither letter nor digit: it may stand between those
	// of a key that somebody spells.
	between bool
}

// notText is added to a byte that is not UTF-8, so that it is a character of its own.
const notText = utf8.MaxRune + 1

// folded is the same for large and small letters.
func folded(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}

// runeAt reads a character of a text, and how many bytes it has.
func runeAt(text string, at int) (rune, int) {
	if b := text[at]; b < utf8.RuneSelf {
		if 'a' <= b && b <= 'z' {
			b -= 'a' - 'A' // what folded makes of it
		}
		return rune(b), 1
	}
	r, n := utf8.DecodeRuneInString(text[at:])
	if r == utf8.RuneError && n == 1 {
		return notText + rune(text[at]), 1
	}
	return folded(r), n
}

// signsOf are all ways to read a text, in the order of their places. Their number is at most five
// for each of its bytes, however it is made. number numbers characters.
func signsOf(text string, number func(rune) int32) (all []sign) {
	all = make([]sign, 0, len(text)+len(text)/8)
	put := func(at, n int, r rune) {
		between := r < notText && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		all = append(all, sign{int32(at), int32(at + n), number(r), between})
	}
	add := func(at, n int, r rune) { put(at, n, folded(r)) }
	slashes := 0 // where the backslashes end that at is among
	for at := 0; at < len(text); {
		r, n := runeAt(text, at)
		put(at, n, r)
		rest := text[at:]
		switch r {
		case '+':
			add(at, 1, ' ')
		case '%':
			for n := 1; strings.HasPrefix(rest[n:], "25"); {
				n += 2
				add(at, n, '%')
			}
			if r, n := percent(rest); n > 0 {
				add(at, n, r)
				if r == '+' { // escaped twice, first as a plus
					add(at, n, ' ')
				}
			}
		case '\\':
			if slashes <= at {
				slashes = len(text) - len(strings.TrimLeft(rest, `\`))
			}
			add(at, slashes-at, '\\')
			escaped(text[slashes:], func(n int, r rune) { add(at, slashes-at+n, r) })
		case '&':
			if r, n := entity(rest); n > 0 {
				add(at, n, r)
			}
		}
		at += n
	}
	return all
}

// percent reads a character whose bytes are %XX, escaped again (%25XX) as often as it may be.
func percent(text string) (r rune, n int) {
	var raw [utf8.UTFMax]byte
	for size := 0; size < len(raw); {
		if n >= len(text) || text[n] != '%' {
			return 0, 0
		}
		n++
		for strings.HasPrefix(text[n:], "25") {
			n += 2
		}
		value, ok := hexadecimal(text[n:], 2)
		if !ok {
			return 0, 0
		}
		raw[size], size, n = byte(value), size+1, n+2
		if utf8.FullRune(raw[:size]) {
			r, read := utf8.DecodeRune(raw[:size])
			if r == utf8.RuneError && read == 1 {
				return 0, 0
			}
			return r, n
		}
	}
	return 0, 0
}

// entity reads a character as HTML may have it.
func entity(text string) (r rune, n int) {
	const maximum = 12
	end := strings.IndexByte(text[:min(len(text), maximum)], ';')
	if end <= 0 {
		return 0, 0
	}
	said := html.UnescapeString(text[:end+1])
	if r, n = utf8.DecodeRuneInString(said); n != len(said) {
		return 0, 0
	}
	return r, end + 1
}

// escaped reads the character that stands behind backslashes at the beginning of a text: itself, a
// blank for n and its like, x41, or u0041 (two of them, with a backslash between, where it needs
// two).
func escaped(text string, read func(n int, r rune)) {
	if text == "" {
		return
	}
	r, n := runeAt(text, 0)
	read(n, r)
	if strings.IndexByte("nrtbfv", text[0]) >= 0 { // white space
		read(1, ' ')
	}
	if value, ok := hexadecimal(text[1:], 2); ok && text[0] == 'x' {
		read(3, value)
	}
	value, ok := hexadecimal(text[1:], 4)
	if !ok || text[0] != 'u' {
		return
	}
	if !utf16.IsSurrogate(value) {
		read(5, value)
		return
	}
	// Not more than a few: a text of nothing else would be read again from each of its places.
	const maximum = 16
	behind := text[5:]
	near := behind[:min(len(behind), maximum)]
	n = 5 + len(near) - len(strings.TrimLeft(near, `\`))
	if second, ok := hexadecimal(strings.TrimPrefix(text[n:], "u"), 4); ok && text[n] == 'u' {
		read(n+5, utf16.DecodeRune(value, second))
	}
}

// hexadecimal reads so many hexadecimal digits.
func hexadecimal(text string, digits int) (rune, bool) {
	if len(text) < digits {
		return 0, false
	}
	value, err := strconv.ParseUint(text[:digits], 16, 32)
	return rune(value), err == nil
}
