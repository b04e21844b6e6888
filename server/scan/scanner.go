// Package scan reads JSON strictly and without garbage: no duplicate names, valid UTF-8 only, a
// bounded depth, numbers kept as text. The two hot routes read their bodies with it. It is fuzzed
// against go-json-experiment/json. See DESIGN.md in the folder above.
package scan

import (
	"fmt"
	"unicode/utf8"
)

// MaxDepth is the number of objects and arrays that may be open at once.
const MaxDepth = 32

// Kind is the kind of the next value.
type Kind byte

// Kinds of values. KindNone stands for the end of the text, or for a byte that begins no value.
const (
	KindNone   Kind = 0
	KindNull   Kind = 'n'
	KindFalse  Kind = 'f'
	KindTrue   Kind = 't'
	KindString Kind = '"'
	KindNumber Kind = '0'
	KindObject Kind = '{'
	KindArray  Kind = '['
)

// String names the kind in messages.
func (k Kind) String() string {
	switch k {
	case KindNull:
		return "null"
	case KindFalse, KindTrue:
		return "a boolean"
	case KindString:
		return "a string"
	case KindNumber:
		return "a number"
	case KindObject:
		return "an object"
	case KindArray:
		return "an array"
	default:
		return "nothing"
	}
}

// Error describes a mistake in a text, and its byte offset.
type Error struct {
	Offset int
	Reason string
}

// Error describes the error for the caller of the API.
func (e *Error) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.Reason) }

// Scanner reads one JSON text. Strings that it returns alias the text, or, when they had to be
// unescaped, the scanner's own memory, until the next Reset. The zero value is ready for Reset. Its
// methods return ok = false after any mistake; Err returns it.
type Scanner struct {
	src   []byte
	pos   int
	depth int
	limit int
	arena []byte
	names nameSet
	err   *Error
}

// Reset begins a new text.
func (s *Scanner) Reset(src []byte) {
	s.src, s.pos, s.depth, s.limit, s.err = src, 0, 0, MaxDepth, nil
	s.arena = s.arena[:0]
	s.names.reset()
}

// Raise allows n more open objects and arrays than MaxDepth: for a text that wraps others.
func (s *Scanner) Raise(n int) { s.limit += n }

// Err is the first error; nil when there was none.
func (s *Scanner) Err() error {
	if s.err == nil {
		return nil
	}
	return s.err
}

// Pos is the offset of the next byte.
func (s *Scanner) Pos() int { return s.pos }

// Seek continues at pos, at the given depth of open objects and arrays, and forgets an error: for a
// caller that found the end of a broken value by other means.
func (s *Scanner) Seek(pos, depth int) { s.pos, s.depth, s.err = pos, depth, nil }

func (s *Scanner) fail(reason string) bool {
	if s.err == nil {
		s.err = &Error{s.pos, reason}
	}
	return false
}

func (s *Scanner) space() {
	for s.pos < len(s.src) {
		switch s.src[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// Peek skips white space and returns the kind of the next value. It reports no error.
func (s *Scanner) Peek() Kind {
	s.space()
	if s.pos >= len(s.src) || s.err != nil {
		return KindNone
	}
	switch c := s.src[s.pos]; c {
	case '{', '[', '"', 't', 'f', 'n':
		return Kind(c)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return KindNumber
	default:
		return KindNone
	}
}

// End reports whether nothing but white space is left.
func (s *Scanner) End() bool {
	s.space()
	if s.err != nil {
		return false
	}
	if s.pos < len(s.src) {
		return s.fail("more text after the end of the JSON value")
	}
	return true
}

func (s *Scanner) open(c byte) bool {
	s.space()
	if s.err != nil {
		return false
	}
	if s.pos >= len(s.src) || s.src[s.pos] != c {
		return s.unexpected()
	}
	if s.depth >= s.limit {
		return s.fail("nested too deeply")
	}
	s.depth++
	s.pos++
	return true
}

func (s *Scanner) unexpected() bool {
	if s.pos >= len(s.src) {
		return s.fail("the text ends too early")
	}
	return s.fail("unexpected character")
}

// Object enters an object; Name then returns its names.
func (s *Scanner) Object() bool { return s.open('{') }

// Array enters an array; Item then reports whether there is a value.
func (s *Scanner) Array() bool { return s.open('[') }

// Name returns the object's next name, with the scanner before its value; more = false at the
// object's end, or at an error. first means that no name was read yet. Callers check duplicates
// here; Skip and AppendCompact refuse them.
func (s *Scanner) Name(first bool) (name []byte, more bool) {
	if !s.next(first, '}') {
		return nil, false
	}
	if s.pos >= len(s.src) || s.src[s.pos] != '"' {
		return nil, s.unexpected()
	}
	name, ok := s.Text()
	if !ok {
		return nil, false
	}
	s.space()
	if s.pos >= len(s.src) || s.src[s.pos] != ':' {
		return nil, s.unexpected()
	}
	s.pos++
	return name, true
}

// Item reports whether the array has another value, with the scanner before it.
func (s *Scanner) Item(first bool) bool { return s.next(first, ']') }

func (s *Scanner) next(first bool, end byte) bool {
	s.space()
	if s.err != nil {
		return false
	}
	if s.pos >= len(s.src) {
		return s.unexpected()
	}
	if s.src[s.pos] == end {
		s.pos++
		s.depth--
		return false
	}
	if first {
		return true
	}
	if s.src[s.pos] != ',' {
		return s.unexpected()
	}
	s.pos++
	s.space()
	return true
}

// Text reads a string, unescaped.
func (s *Scanner) Text() ([]byte, bool) {
	if s.Peek() != KindString {
		return nil, s.unexpected()
	}
	s.pos++
	start := s.pos
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case c == '"':
			s.pos++
			return s.src[start : s.pos-1], true
		case c == '\\':
			return s.unescape(start)
		case c < 0x20:
			return nil, s.fail("a control character in a string")
		case c < utf8.RuneSelf:
			s.pos++
		default:
			if !s.rune() {
				return nil, false
			}
		}
	}
	return nil, s.unexpected()
}

func (s *Scanner) rune() bool {
	r, size := utf8.DecodeRune(s.src[s.pos:])
	if r == utf8.RuneError && size <= 1 {
		return s.fail("invalid UTF-8")
	}
	s.pos += size
	return true
}

// unescape continues a string whose first escape is at the scanner's position.
func (s *Scanner) unescape(start int) ([]byte, bool) {
	from := len(s.arena)
	s.arena = append(s.arena, s.src[start:s.pos]...)
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case c == '"':
			s.pos++
			return s.arena[from:len(s.arena):len(s.arena)], true
		case c == '\\':
			if !s.escape() {
				return nil, false
			}
		case c < 0x20:
			return nil, s.fail("a control character in a string")
		case c < utf8.RuneSelf:
			s.arena = append(s.arena, c)
			s.pos++
		default:
			at := s.pos
			if !s.rune() {
				return nil, false
			}
			s.arena = append(s.arena, s.src[at:s.pos]...)
		}
	}
	return nil, s.unexpected()
}

func (s *Scanner) escape() bool {
	if s.pos+1 >= len(s.src) {
		s.pos = len(s.src)
		return s.unexpected()
	}
	c := s.src[s.pos+1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return s.unicode()
	default:
		return s.fail("an unknown escape in a string")
	}
	s.arena = append(s.arena, c)
	s.pos += 2
	return true
}

// unicode reads \uXXXX, and the second half of a surrogate pair. A half alone is not a character.
func (s *Scanner) unicode() bool {
	r, ok := s.hex(s.pos)
	if !ok {
		return s.fail("an incomplete \\u escape")
	}
	size := 6
	if r >= 0xd800 && r < 0xe000 {
		low, ok := s.hex(s.pos + 6)
		if r >= 0xdc00 || !ok || low < 0xdc00 || low >= 0xe000 {
			return s.fail("half a surrogate pair")
		}
		r = (r-0xd800)<<10 | (low - 0xdc00) + 0x10000
		if r < 0x10000 || r > utf8.MaxRune {
			r = utf8.RuneError
		}
		size = 12
	}
	s.arena = utf8.AppendRune(s.arena, r)
	s.pos += size
	return true
}

func (s *Scanner) hex(at int) (r rune, ok bool) {
	if at+6 > len(s.src) || s.src[at] != '\\' || s.src[at+1] != 'u' {
		return 0, false
	}
	for _, c := range s.src[at+2 : at+6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// Number reads a number and returns its text.
func (s *Scanner) Number() ([]byte, bool) {
	if s.Peek() != KindNumber {
		return nil, s.unexpected()
	}
	start := s.pos
	if s.src[s.pos] == '-' {
		s.pos++
	}
	zero := s.pos < len(s.src) && s.src[s.pos] == '0'
	if n := s.digits(); n == 0 || (zero && n > 1) {
		return nil, s.fail("a malformed number")
	}
	if s.pos < len(s.src) && s.src[s.pos] == '.' {
		s.pos++
		if s.digits() == 0 {
			return nil, s.fail("a malformed number")
		}
	}
	if s.pos < len(s.src) && s.src[s.pos]|0x20 == 'e' {
		s.pos++
		if s.pos < len(s.src) && (s.src[s.pos] == '+' || s.src[s.pos] == '-') {
			s.pos++
		}
		if s.digits() == 0 {
			return nil, s.fail("a malformed number")
		}
	}
	return s.src[start:s.pos], true
}

func (s *Scanner) digits() int {
	start := s.pos
	for s.pos < len(s.src) && s.src[s.pos] >= '0' && s.src[s.pos] <= '9' {
		s.pos++
	}
	return s.pos - start
}

// Literal reads true, false or null.
func (s *Scanner) Literal() (Kind, bool) {
	k := s.Peek()
	word := "null"
	switch k {
	case KindTrue:
		word = "true"
	case KindFalse:
		word = "false"
	case KindNull:
	default:
		return KindNone, s.unexpected()
	}
	if len(s.src)-s.pos < len(word) || string(s.src[s.pos:s.pos+len(word)]) != word {
		return KindNone, s.fail("neither true, false nor null")
	}
	s.pos += len(word)
	return k, true
}
