package workspace

import (
	"bytes"
	"encoding/binary"
	"sync"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"tollgate/engine/pack"
	"tollgate/engine/wire"
)

// A packed text in the archive:
//
//	sum of the text as wire has it (4 bytes) · its length as wire has it (uvarint) · the place of the
//	text that it is packed behind (uvarint; 0 is none) · its columns, packed
//
// A run's is packed behind one of its flow's, which is packed behind one of its workspace's.

// readers are what packed texts are read with, by queries, too.
var readers = sync.Pool{New: func() any { return &reader{Window: pack.NewWindow(words)} }}

// reader is memory that is used again.
type reader struct {
	*pack.Window
	text                RunText
	columns, best, next []byte
	encoded             []byte
}

// Text returns what a run has to say.
func (s *runs) Text(row uint32) (text RunText) {
	at := s.texts.Read(row).place
	switch {
	case at == 0:
	case at.changes():
		decodeBlob(*s.said.Read(at.part()), &text)
	default:
		r := readers.Get().(*reader)
		r.Reset()
		text.readColumns(s.load(r.Window, at))
		readers.Put(r)
	}
	return text
}

// load adds a packed text to a window, behind those that it was packed behind.
func (s *runs) load(w *pack.Window, at place) (columns []byte) {
	_, _, before, b := s.packed(at)
	if before != 0 {
		s.load(w, before)
	}
	return w.Unpack(b)
}

// packed takes a packed text apart.
func (s *runs) packed(at place) (sum uint32, size int, before place, columns []byte) {
	return apart(s.archive.Read(uint32(at)))
}

func apart(b []byte) (sum uint32, size int, before place, columns []byte) {
	length, n := binary.Uvarint(b[4:])
	behind, m := binary.Uvarint(b[4+n:])
	return binary.LittleEndian.Uint32(b), int(length), place(behind), b[4+n+m:]
}

// TextBytes is the length of a run's text as wire has it.
func (s *runs) TextBytes(row uint32) (size int) {
	switch at := s.texts.Read(row).place; {
	case at == 0:
	case at.changes():
		size = len(*s.said.Read(at.part()))
	default:
		_, size, _, _ = s.packed(at)
	}
	return size
}

// WriteText replaces what a run has to say, and returns by how many bytes it is longer as wire has
// it.
func (s *runs) WriteText(row uint32, text *RunText) (more int) {
	more = -s.TextBytes(row)
	r, encoded := s.texts.Write(row), wire.Encode(nil, text)
	if r.place.changes() {
		s.said.Put(r.place.part(), encoded)
	} else {
		r.place = changing | place(s.said.Put(0, encoded))
	}
	return more + len(encoded)
}

// appendText writes a text as it is in a snapshot: the length and the bytes of a blob.
func (s *runs) appendText(dst []byte, row *textRow) []byte {
	switch {
	case row.place == 0:
		return append(dst, 0)
	case row.place.changes():
		return protowire.AppendBytes(dst, *s.said.Read(row.place.part()))
	}
	r := readers.Get().(*reader)
	r.Reset()
	_, size, _, _ := s.packed(row.place)
	r.text.readColumns(s.load(r.Window, row.place))
	dst = wire.Encode(binary.AppendUvarint(dst, uint64(size)), &r.text)
	readers.Put(r)
	return dst
}

// appendSum is what entries compare of a text: its checksum, whether it is packed or not.
func (s *runs) appendSum(dst []byte, row *textRow) []byte {
	sum := textSum(nil)
	switch {
	case row.place == 0:
	case row.place.changes():
		sum = textSum(*s.said.Read(row.place.part()))
	default:
		sum, _, _, _ = s.packed(row.place)
	}
	return binary.LittleEndian.AppendUint32(dst, sum)
}

func textSum(b []byte) uint32 { return uint32(xxhash.Sum64(b)) }

// readText reads a text from a snapshot. It is packed at once where its run, its flow and its
// workspace came before; pages that were written early come earlier, and wait for packAll.
func (s *runs) readText(row uint32, src []byte, to *textRow) (rest []byte, err error) {
	b, n := protowire.ConsumeBytes(src)
	if n < 0 {
		return nil, errText
	}
	var text RunText
	if err := wire.Decode(b, &text); err != nil || len(b) == 0 {
		return src[n:], err
	}
	if r, ok := s.rows.Restored(row); ok && !r.place.changes() {
		w, known := s.workspaces.Restored(r.Workspace)
		full := s.of(r)
		f, knownToo := s.flows.Restored(full.Flow)
		if known && knownToo {
			to.place = s.archivedText(b, &text, bases{&f.base, &w.base})
		}
	}
	if to.place == 0 {
		to.place = changing | place(s.said.Put(0, append([]byte(nil), b...)))
	}
	return src[n:], nil
}

// bases are where the flow and the workspace of a run note the text that others are packed behind.
type bases struct{ flow, workspace *place }

func (s *runs) basesOf(r *run) bases {
	b := bases{new(place), &s.workspaces.Write(r.Workspace).base}
	if r.Flow != 0 {
		b.flow = &s.flows.Write(r.Flow).base
	}
	return b
}

const (
	// minBase is the least length of columns behind which others are packed.
	minBase = 128
	// likeness is by what a text's length is divided, at least, behind another that it is like.
	likeness = 2
	// hopeless is by what a text's length is divided: one that is packed by less is like nothing.
	hopeless = 8
)

// archivedText packs a text, as wire has it, behind its flow's. One that is not like it, or is the
// first, is packed behind its workspace's, or, unlike that, too, behind none, and others of its
// flow, or its workspace, are packed behind it from then on. So reading one reads three at most.
// One that does not read back as it was stays as it is: nowhere.
func (s *runs) archivedText(b []byte, text *RunText, of bases) place {
	r := readers.Get().(*reader)
	defer readers.Put(r)
	columns := text.appendColumns(r.columns[:0])
	best, next, chosen := r.best[:0], r.next, 0
	for i, behind := range [...]place{*of.flow, *of.workspace, 0} {
		if behind == 0 && i < 2 || i == 1 && behind == *of.flow {
			continue
		}
		r.Reset()
		if behind != 0 {
			s.load(r.Window, behind)
		}
		next = binary.LittleEndian.AppendUint32(next[:0], textSum(b))
		next = binary.AppendUvarint(binary.AppendUvarint(next, uint64(len(b))), uint64(behind))
		s.attempts++
		if next = r.Pack(next, columns); len(best) == 0 || len(next) < len(best) {
			best, next, chosen = next, best, i
		}
		like := len(best) <= len(columns)/likeness
		if like || len(columns) >= minBase && len(best) > len(columns)-len(columns)/hopeless {
			break
		}
	}
	r.columns, r.best, r.next = columns, best, next
	if !s.readsBack(r, b) {
		s.unlike++
		return 0
	}
	at := place(s.archive.Put(best))
	if at != 0 && len(columns) >= minBase {
		if chosen > 0 {
			*of.flow = at
		}
		if chosen > 1 {
			*of.workspace = at
		}
	}
	return at
}

// readsBack reports whether what a reader has packed is the text, as wire has it. It is not, where
// a text has what its columns leave out: a checkpoint or an answer, which no run has that this
// build's commands have ended, or fields of another build.
func (s *runs) readsBack(r *reader, text []byte) bool {
	_, _, before, columns := apart(r.best)
	r.Reset()
	if before != 0 {
		s.load(r.Window, before)
	}
	r.text.readColumns(r.Unpack(columns))
	r.encoded = wire.Encode(r.encoded[:0], &r.text)
	return bytes.Equal(r.encoded, text)
}
