// Package pack compresses texts that resemble each other: each refers to the ones before it. See
// DESIGN.md.
package pack

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

const (
	// hashBits is the size of the table of places: that of a window of some kilobytes.
	hashBits = 12
	// minNew and minSame are the shortest matches at a new distance, and at the one before.
	minNew, minSame = 4, 2
	// tries bounds how many earlier places are compared at one place.
	tries = 8
	// maxPlain and maxMatch are the largest numbers in a token's first byte; larger ones continue
	// after it.
	maxPlain, maxMatch = 7, 15
)

// Words is a text that windows begin with: what packed texts are made of anyway.
type Words struct {
	text []byte
	// first and before are the places of the text, for windows that pack.
	first  [1 << hashBits]int32
	before []int32
}

// NewWords makes Words of a text, which is never changed once something was packed with it that is
// still to be read.
func NewWords(text string) *Words {
	w := &Words{text: []byte(text)}
	window := Window{words: w, buf: w.text, before: make([]int32, len(text))}
	window.index(len(text))
	w.first, w.before = window.first, window.before
	return w
}

// Window holds the bytes that a text may refer to: the words, and texts added since Reset. Its
// memory is reused, so one that packs many texts soon allocates nothing. For one goroutine at a
// time.
type Window struct {
	words *Words
	buf   []byte
	// last is the length of the text added last: a similar text begins at that distance.
	last int
	// first is the newest place, counted from 1, of each hash of four bytes, before the place of the
	// same hash before each place. They know the places below indexed, while a text is packed.
	first   [1 << hashBits]int32
	before  []int32
	indexed int
}

// NewWindow makes a window that holds the words.
func NewWindow(words *Words) *Window {
	w := &Window{words: words}
	w.buf = append(w.buf, words.text...)
	return w
}

// Reset removes everything but the words.
func (w *Window) Reset() {
	w.buf, w.last = w.buf[:len(w.words.text)], 0
}

// Pack appends text, packed, to dst. It does not add text to the window.
func (w *Window) Pack(dst, text []byte) []byte {
	begin := len(w.buf)
	w.buf = append(w.buf, text...)
	w.first = w.words.first
	w.before = slices.Grow(w.before[:0], len(w.buf))[:len(w.buf)] // index writes what match reads
	w.indexed = copy(w.before, w.words.before)
	w.index(begin)
	dst = w.tokens(dst, begin)
	w.buf = w.buf[:begin]
	return dst
}

// tokens appends the tokens of the bytes from begin on.
func (w *Window) tokens(dst []byte, begin int) []byte {
	plain, distance := begin, w.last
	for at := begin; at < len(w.buf); {
		m := w.match(at, distance)
		if m.length == 0 {
			w.index(at + 1)
			at++
			continue
		}
		dst = appendToken(dst, w.buf[plain:at], m, m.distance == distance)
		distance = m.distance
		at += m.length
		w.index(at)
		plain = at
	}
	if plain < len(w.buf) {
		dst = appendToken(dst, w.buf[plain:], match{}, false)
	}
	return dst
}

// match is a repeated piece of text and its distance.
type match struct{ length, distance int }

// match finds the replacement for the bytes at a place: the longest match, unless one at the
// previous distance saves more bytes. A length of 0 means none.
func (w *Window) match(at, distance int) (found match) {
	gain := 0
	if distance > 0 {
		if n := w.same(at-distance, at); n >= minSame {
			found, gain = match{n, distance}, n
		}
	}
	if at+4 > len(w.buf) {
		return found
	}
	place := w.first[hash(w.buf[at:])]
	for range tries {
		if place == 0 {
			break
		}
		from := int(place) - 1
		if n := w.same(from, at); n >= minNew && n-width(at-from) > gain {
			found, gain = match{n, at - from}, n-width(at-from)
		}
		place = w.before[from]
	}
	return found
}

// width is the number of bytes of a distance.
func width(distance int) int {
	switch {
	case distance < 1<<7:
		return 1
	case distance < 1<<14:
		return 2
	}
	return 3
}

// same is how many bytes from two places on are the same.
func (w *Window) same(from, at int) (n int) {
	a, b := w.buf[from:], w.buf[at:]
	for ; len(b)-n >= 8; n += 8 {
		if x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
	}
	for n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func hash(b []byte) uint32 {
	return binary.LittleEndian.Uint32(b) * 0x9e3779b1 >> (32 - hashBits) % (1 << hashBits)
}

// index makes the places below one findable, those excepted that end within four bytes.
func (w *Window) index(end int) {
	buf, before := w.buf, w.before
	at := w.indexed
	for end = min(end, len(buf)-3); at < end; at++ {
		h := hash(buf[at:])
		before[at] = w.first[h]
		w.first[h] = int32(at) + 1
	}
	w.indexed = at
}

// appendToken appends plain bytes and the match behind them: whether its distance is that of the
// match before (1 bit), the number of plain bytes (3 bits), its length (4 bits). Without a match it
// is the last.
func appendToken(dst, plain []byte, m match, again bool) []byte {
	shortest, head := minNew, byte(0)
	if again {
		shortest, head = minSame, 0x80
	}
	length := max(0, m.length-shortest)
	head |= byte(min(len(plain), maxPlain))<<4 | byte(min(length, maxMatch))
	dst = append(dst, head)
	if len(plain) >= maxPlain {
		dst = binary.AppendUvarint(dst, uint64(len(plain)-maxPlain))
	}
	dst = append(dst, plain...)
	if m.length == 0 {
		return dst
	}
	if !again {
		dst = binary.AppendUvarint(dst, uint64(m.distance))
	}
	if length >= maxMatch {
		dst = binary.AppendUvarint(dst, uint64(length-maxMatch))
	}
	return dst
}

// Unpack adds a text to the window that was packed with a window of the same content, and returns
// it: good until the next call. Bytes that Pack did not write may panic.
func (w *Window) Unpack(packed []byte) []byte {
	begin, distance, buf := len(w.buf), w.last, w.buf
	for i := 0; i < len(packed); {
		head := packed[i]
		plain, length := int(head>>4&maxPlain), int(head&maxMatch)
		if i++; plain == maxPlain {
			more, n := number(packed[i:])
			plain, i = plain+more, i+n
		}
		buf = append(buf, packed[i:i+plain]...)
		if i += plain; i == len(packed) && head&0x80 == 0 {
			break // plain bytes at the end: a match at a new distance has more
		}
		shortest := minSame
		if head&0x80 == 0 {
			n := 0
			distance, n = number(packed[i:])
			shortest, i = minNew, i+n
		}
		if length == maxMatch {
			more, n := number(packed[i:])
			length, i = length+more, i+n
		}
		buf = again(buf, distance, length+shortest)
	}
	w.buf, w.last = buf, len(buf)-begin
	return buf[begin:]
}

// again appends length bytes from a distance before; where the distance is less than the length,
// they repeat.
func again(buf []byte, distance, length int) []byte {
	from := len(buf) - distance
	for length > distance {
		buf = append(buf, buf[from:from+distance]...)
		length -= distance
	}
	return append(buf, buf[from:from+length]...)
}

func number(b []byte) (v, size int) {
	if b[0] < 0x80 {
		return int(b[0]), 1
	}
	u, n := binary.Uvarint(b)
	return int(u), n
}
