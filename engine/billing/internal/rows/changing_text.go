package rows

import (
	"encoding/binary"
	"sync/atomic"

	"tollgate/engine/page"
	"tollgate/engine/prefetch"
)

// ChangingTexts are texts that change and go, in memory that is used again: a row is a place there,
// so texts cost the garbage collector nothing. Readers hold the lock of a row while they use its
// text; Apply holds it to write.
type ChangingTexts struct {
	rows   *page.Table[changingText]
	chunks atomic.Pointer[[]*textChunk]
	next   uint32                  // the first unit that was never used
	free   [textUnits + 1][]uint32 // places that are free, by their units
	rest   *page.Parts[Text]       // long texts
}

// changingText is the first unit of a text, or, with the mark inRest, the number of a part; 0: it
// is empty.
type changingText uint32

// textChunk is memory for texts: each has its length, in two bytes, and its bytes, and is in one
// chunk.
type textChunk [chunkUnits * unitBytes]byte

const (
	unitBytes  = 16
	chunkUnits = 4096
	// textUnits bounds a text that is not a part.
	textUnits = 32
)

// OpenChangingTexts adds a table of texts to s. A snapshot has them as TextCodec does.
func OpenChangingTexts(s *page.Store, table uint16) *ChangingTexts {
	t := &ChangingTexts{next: 1, rest: page.NewParts[Text]()}
	t.chunks.Store(new([]*textChunk))
	t.rows = page.NewTable(s, table, page.Codec[changingText]{
		Append: func(dst []byte, r *changingText) []byte { return appendText(dst, t.of(*r)) },
		Read: func(src []byte, r *changingText) ([]byte, error) {
			data, rest, err := readText(src)
			if err == nil {
				t.put(r, data)
			}
			return rest, err
		},
		Apart: func(r *changingText) bool { return *r != 0 },
		Rows:  32, // as many as of Text
	})
	return t
}

// Len is the number of texts.
func (t *ChangingTexts) Len() uint32 { return t.rows.Len() }

// Bytes is the memory of all texts but of the bytes of long ones.
func (t *ChangingTexts) Bytes() uint64 {
	return t.rows.Bytes() + uint64(len(*t.chunks.Load()))*chunkUnits*unitBytes + t.rest.Bytes()
}

// Append adds an empty text. For Apply.
func (t *ChangingTexts) Append() { t.rows.Append() }

// Get returns the text of a row, which the caller must not change.
func (t *ChangingTexts) Get(row uint32) []byte { return t.of(*t.rows.Read(row)) }

// Set replaces the text of a row by a copy of data. For Apply.
func (t *ChangingTexts) Set(row uint32, data []byte) { t.put(t.rows.Write(row), data) }

// Near is where the place of a row's text lies.
func (t *ChangingTexts) Near(row uint32) prefetch.Address { return prefetch.Of(t.rows.Read(row)) }

// Lines appends where the bytes of a usual text lie.
func (t *ChangingTexts) Lines(lines []prefetch.Address, row uint32) []prefetch.Address {
	if at := *t.rows.Read(row); at != 0 && at&inRest == 0 {
		b := t.memory(uint32(at))
		lines = append(lines, prefetch.Of(&b[0]))
		if len(b) > usualText {
			lines = append(lines, prefetch.Of(&b[usualText]))
		}
	}
	return lines
}

// usualText is how long a text is of which all lines are prefetched.
const usualText = 64

// memory is that of a place, up to the end of its chunk.
func (t *ChangingTexts) memory(at uint32) []byte {
	return (*t.chunks.Load())[at/chunkUnits][at%chunkUnits*unitBytes:]
}

func (t *ChangingTexts) of(at changingText) []byte {
	switch {
	case at == 0:
		return nil
	case at&inRest != 0:
		return []byte(t.rest.Read(uint32(at &^ inRest)).Data)
	}
	b := t.memory(uint32(at))
	n := 2 + int(binary.LittleEndian.Uint16(b))
	return b[2:n:n]
}

// unitsOf is how many units a text takes.
func unitsOf(length int) int { return (2 + length + unitBytes - 1) / unitBytes }

func (t *ChangingTexts) put(r *changingText, data []byte) {
	units, part := unitsOf(len(data)), uint32(0)
	switch at := *r; {
	case at == 0:
	case at&inRest != 0:
		part = uint32(at &^ inRest)
	default:
		had := unitsOf(len(t.of(at)))
		if had == units && len(data) > 0 {
			t.fill(uint32(at), data)
			return
		}
		t.free[had] = append(t.free[had], uint32(at))
	}
	if len(data) > 0 && units > textUnits {
		*r = changingText(inRest | t.rest.Put(part, Text{Data: string(data)}))
		return
	}
	if *r = 0; part != 0 {
		t.rest.Put(part, Text{})
		t.rest.Drop(part)
	}
	if len(data) > 0 {
		at := t.take(units)
		t.fill(at, data)
		*r = changingText(at)
	}
}

func (t *ChangingTexts) fill(at uint32, data []byte) {
	b := t.memory(at)
	binary.LittleEndian.PutUint16(b, uint16(len(data)))
	copy(b[2:], data)
}

// take returns the place of free memory.
func (t *ChangingTexts) take(units int) (at uint32) {
	if list := t.free[units]; len(list) > 0 {
		at, t.free[units] = list[len(list)-1], list[:len(list)-1]
		return at
	}
	if left := chunkUnits - t.next%chunkUnits; left < uint32(units) {
		t.free[left] = append(t.free[left], t.next) // for a shorter one
		t.next += left
	}
	at = t.next
	if t.next += uint32(units); int(at/chunkUnits) == len(*t.chunks.Load()) {
		// Appending in place is safe: readers hold a header with the old length.
		chunk := new(textChunk)
		if at/chunkUnits > 0 && !prefetch.Resident(chunk[:]) {
			prefetch.Populate(chunk[:])
		}
		grown := append(*t.chunks.Load(), chunk)
		t.chunks.Store(&grown)
	}
	return at
}
