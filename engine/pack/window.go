// Package pack keeps texts that resemble each other in little memory: each refers to what stands in
// those before it. See DESIGN.md.
package pack

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

const (
	// hashBits is the size of the table of places: that of a window of some kilobytes.
	hashBits = 12
	// leastNew and leastSame are the shortest matches at a new distance, and at the one before.
	leastNew, leastSame = 4, 2
	// tries bounds how many earlier places are compared at one place.
	tries = 8
	// mostPlain and mostMatch are what the numbers of a token's first byte hold; larger ones go on
	// behind it.
	mostPlain, mostMatch = 7, 15
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

// Window is what a text may refer to: the words, and what was added since Reset. Its memory is used
// again, so one that packs many texts allocates nothing after a while. For one goroutine at a time.
type Window struct {
	words *Words
	buf   []byte
	// last is the length of what was added last: a text that is like it begins at that distance.
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

// Reset takes out all but the words.
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

// tokens appends the tokens of what stands from begin on.
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

// match is a piece of text that stands there already, so many bytes before.
type match struct{ length, distance int }

// match finds what to write in place of what stands at a place: the longest match, where one at the
// distance before is worth the bytes that it saves. No length says that there is none.
func (w *Window) match(at, distance int) (found match) {
	gain := 0
	if distance > 0 {
		if n := w.same(at-distance, at); n >= leastSame {
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
		if n := w.same(from, at); n >= leastNew && n-width(at-from) > gain {
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
	least, head := leastNew, byte(0)
	if again {
		least, head = leastSame, 0x80
	}
	length := max(0, m.length-least)
	head |= byte(min(len(plain), mostPlain))<<4 | byte(min(length, mostMatch))
	dst = append(dst, head)
	if len(plain) >= mostPlain {
		dst = binary.AppendUvarint(dst, uint64(len(plain)-mostPlain))
	}
	dst = append(dst, plain...)
	if m.length == 0 {
		return dst
	}
	if !again {
		dst = binary.AppendUvarint(dst, uint64(m.distance))
	}
	if length >= mostMatch {
		dst = binary.AppendUvarint(dst, uint64(length-mostMatch))
	}
	return dst
}

// Unpack adds a text to the window that was packed with a window of the same content, and returns
// it: good until the next call. Bytes that Pack did not write may panic.
func (w *Window) Unpack(packed []byte) []byte {
	begin, distance, buf := len(w.buf), w.last, w.buf
	for i := 0; i < len(packed); {
		head := packed[i]
		plain, length := int(head>>4&mostPlain), int(head&mostMatch)
		if i++; plain == mostPlain {
			more, n := number(packed[i:])
			plain, i = plain+more, i+n
		}
		buf = append(buf, packed[i:i+plain]...)
		if i += plain; i == len(packed) && head&0x80 == 0 {
			break // plain bytes at the end: a match at a new distance has more
		}
		least := leastSame
		if head&0x80 == 0 {
			n := 0
			distance, n = number(packed[i:])
			least, i = leastNew, i+n
		}
		if length == mostMatch {
			more, n := number(packed[i:])
			length, i = length+more, i+n
		}
		buf = again(buf, distance, length+least)
	}
	w.buf, w.last = buf, len(buf)-begin
	return buf[begin:]
}

// again appends what stands so many bytes before; where that is less than its length, it repeats.
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
