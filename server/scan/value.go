package scan

import (
	"bytes"
	"hash/maphash"
)

// Skip reads one value of any kind, as strictly as every other.
func (s *Scanner) Skip() bool {
	_, ok := s.value(nil, false)
	return ok
}

// AppendCompact reads one value of any kind and appends it to dst without white space outside
// strings; strings and numbers stay as they are written.
func (s *Scanner) AppendCompact(dst []byte) ([]byte, bool) { return s.value(dst, true) }

func (s *Scanner) value(dst []byte, keep bool) ([]byte, bool) {
	kind := s.Peek()
	switch kind {
	case KindObject:
		return s.object(dst, keep)
	case KindArray:
		return s.array(dst, keep)
	}
	start, ok := s.pos, false
	switch kind {
	case KindString:
		mark := len(s.arena)
		_, ok = s.Text()
		s.arena = s.arena[:mark]
	case KindNumber:
		_, ok = s.Number()
	default:
		_, ok = s.Literal()
	}
	if ok && keep {
		dst = append(dst, s.src[start:s.pos]...)
	}
	return dst, ok
}

func (s *Scanner) object(dst []byte, keep bool) ([]byte, bool) {
	if !s.Object() {
		return dst, false
	}
	owner := s.names.owner()
	if keep {
		dst = append(dst, '{')
	}
	for first := true; ; first = false {
		s.space()
		at, mark := s.pos, len(s.arena)
		name, more := s.Name(first)
		if !more {
			break
		}
		duplicate := !s.names.add(owner, name)
		s.arena = s.arena[:mark]
		if duplicate {
			s.pos = at
			return dst, s.fail("a name that the object has already")
		}
		if keep {
			dst = s.appendName(dst, at, first)
		}
		var ok bool
		if dst, ok = s.value(dst, keep); !ok {
			return dst, false
		}
	}
	if keep {
		dst = append(dst, '}')
	}
	return dst, s.err == nil
}

// appendName appends a name as it is written, which begins at or after at and ends before the
// colon that the scanner has just passed.
func (s *Scanner) appendName(dst []byte, at int, first bool) []byte {
	if !first {
		dst = append(dst, ',')
	}
	text := s.src[at : s.pos-1]
	text = text[bytes.IndexByte(text, '"'):]
	text = text[:bytes.LastIndexByte(text, '"')+1]
	return append(append(dst, text...), ':')
}

func (s *Scanner) array(dst []byte, keep bool) ([]byte, bool) {
	if !s.Array() {
		return dst, false
	}
	if keep {
		dst = append(dst, '[')
	}
	for first := true; s.Item(first); first = false {
		if keep && !first {
			dst = append(dst, ',')
		}
		var ok bool
		if dst, ok = s.value(dst, keep); !ok {
			return dst, false
		}
	}
	if keep {
		dst = append(dst, ']')
	}
	return dst, s.err == nil
}

// Extent is the length of the value at the beginning of src, found by its brackets and quotes
// alone, so that the end of a malformed value is known too; -1 when it has none.
func Extent(src []byte) int {
	depth := 0
	for i := 0; i < len(src); i++ {
		switch src[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
			if depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		case '"':
			for i++; i < len(src) && src[i] != '"'; i++ {
				if src[i] == '\\' {
					i++
				}
			}
		}
	}
	return -1
}

// nameSet is the set of the names of all objects of one text: one open-addressing table, so that
// an object of a hundred thousand names costs no more per name than one of three.
type nameSet struct {
	slots  []nameSlot
	bytes  []byte
	used   int
	epoch  uint32
	owners uint32
	seed   maphash.Seed
}

type nameSlot struct {
	epoch, owner, tag uint32
	from, to          uint32
}

// maxKept bounds the memory that a pooled scanner keeps after a large text.
const maxKept = 4096

func (n *nameSet) reset() {
	if n.slots == nil {
		n.slots, n.seed = make([]nameSlot, 64), maphash.MakeSeed()
	}
	if len(n.slots) > maxKept {
		n.slots = make([]nameSlot, 64)
	}
	if cap(n.bytes) > 16*maxKept {
		n.bytes = nil
	}
	n.bytes, n.used, n.owners = n.bytes[:0], 0, 0
	if n.epoch++; n.epoch == 0 {
		clear(n.slots)
		n.epoch = 1
	}
}

func (n *nameSet) owner() uint32 {
	n.owners++
	return n.owners
}

// add reports whether owner did not have the name yet.
func (n *nameSet) add(owner uint32, name []byte) bool {
	if 4*n.used >= 3*len(n.slots) {
		n.grow()
	}
	tag := uint32(maphash.Bytes(n.seed, name)) ^ owner*0x9e3779b1
	mask := uint32(len(n.slots) - 1)
	for i := tag & mask; ; i = (i + 1) & mask {
		slot := &n.slots[i]
		if slot.epoch != n.epoch {
			from := uint32(len(n.bytes))
			n.bytes = append(n.bytes, name...)
			*slot = nameSlot{n.epoch, owner, tag, from, uint32(len(n.bytes))}
			n.used++
			return true
		}
		if slot.tag == tag && slot.owner == owner && bytes.Equal(n.bytes[slot.from:slot.to], name) {
			return false
		}
	}
}

func (n *nameSet) grow() {
	old := n.slots
	n.slots = make([]nameSlot, 2*len(old))
	mask := uint32(len(n.slots) - 1)
	for _, slot := range old {
		if slot.epoch != n.epoch {
			continue
		}
		i := slot.tag & mask
		for n.slots[i].epoch == n.epoch {
			i = (i + 1) & mask
		}
		n.slots[i] = slot
	}
}
