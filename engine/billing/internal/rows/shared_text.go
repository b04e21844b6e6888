package rows

import (
	"hash/maphash"

	"tollgate/engine/page"
)

// SharedTexts are texts that never change. Equal texts share their bytes while the first one is
// known: the lines of a plan's invoices are the same for very many customers. A row is a place in
// an archive, so texts cost the garbage collector nothing.
type SharedTexts struct {
	rows    *page.Table[sharedText]
	archive *page.Archive
	rest    *page.Parts[Text] // texts that arrived when the archive was full
	put     func(data []byte) (place uint32)

	// known has the newest text for each of its places. The state does not depend on it. For Apply
	// and Restore.
	known []sharedText
	seed  maphash.Seed
}

// sharedText is a place in the archive, or, with the mark, the number of a part.
type sharedText uint32

const (
	inRest = 1 << 31
	// SharedPlaces and SharedBytes bound the known texts: 1,024 of 512 bytes.
	SharedPlaces = 1024
	SharedBytes  = 512
)

// OpenSharedTexts adds a table of texts to s. A snapshot has them as TextCodec does.
func OpenSharedTexts(s *page.Store, table uint16) *SharedTexts {
	t := &SharedTexts{
		archive: page.NewArchive(), rest: page.NewParts[Text](),
		known: make([]sharedText, SharedPlaces), seed: maphash.MakeSeed(),
	}
	t.put = t.archive.Put
	t.rows = page.NewTable(s, table, page.Codec[sharedText]{
		Append: func(dst []byte, r *sharedText) []byte { return appendText(dst, t.of(*r)) },
		Read: func(src []byte, r *sharedText) ([]byte, error) {
			data, rest, err := readText(src)
			if err == nil {
				*r = t.place(data)
			}
			return rest, err
		},
		Rows: 32, // as many as of Text
	})
	return t
}

// Len is the number of texts.
func (t *SharedTexts) Len() uint32 { return t.rows.Len() }

// Bytes returns the memory of all texts but those that arrived when the archive was full.
func (t *SharedTexts) Bytes() uint64 { return t.rows.Bytes() + t.archive.Bytes() + t.rest.Bytes() }

// Get returns the text of a row, which the caller must not change.
func (t *SharedTexts) Get(row uint32) []byte { return t.of(*t.rows.Read(row)) }

// Place tells texts apart: those of one place are the same.
func (t *SharedTexts) Place(row uint32) uint32 { return uint32(*t.rows.Read(row)) }

// Append adds a text. For Apply.
func (t *SharedTexts) Append(data []byte) (row uint32) {
	row, r := t.rows.Append()
	*r = t.place(data)
	return row
}

// Put replaces a text; its old bytes stay in memory. For tests that damage states.
func (t *SharedTexts) Put(row uint32, data []byte) { *t.rows.Write(row) = t.place(data) }

func (t *SharedTexts) of(at sharedText) []byte {
	if at&inRest != 0 {
		return []byte(t.rest.Read(uint32(at &^ inRest)).Data)
	}
	return t.archive.Read(uint32(at))
}

// place returns the place of a text, which it adds if it is not known.
func (t *SharedTexts) place(data []byte) sharedText {
	if len(data) > SharedBytes {
		return t.fresh(data)
	}
	known := &t.known[maphash.Bytes(t.seed, data)%SharedPlaces]
	if *known == 0 || string(t.of(*known)) != string(data) {
		*known = t.fresh(data)
	}
	return *known
}

func (t *SharedTexts) fresh(data []byte) sharedText {
	if at := t.put(data); at != 0 {
		return sharedText(at)
	}
	return sharedText(inRest | t.rest.Put(0, Text{Data: string(data)}))
}
