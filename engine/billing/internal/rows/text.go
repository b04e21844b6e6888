package rows

import (
	"hash/maphash"

	"tollgate/engine/page"
)

// Text is the cold, variable part of a record: encoded once, replaced whole.
type Text struct{ Data string }

// TextCodec writes the length (4 bytes) and the bytes.
var TextCodec = page.Codec[Text]{
	Append: func(dst []byte, t *Text) []byte {
		return append(AppendU32(dst, uint32(len(t.Data))), t.Data...)
	},
	Read: func(src []byte, t *Text) ([]byte, error) {
		data, rest, err := readText(src)
		t.Data = string(data)
		return rest, err
	},
}

// readText takes a text's bytes, which are src's own, from the front of src.
func readText(src []byte) (data, rest []byte, err error) {
	r := Reader{Rest: src}
	n := r.U32()
	if uint64(n) > uint64(len(r.Rest)) {
		return nil, nil, ErrRecord
	}
	data = r.Take(int(n))
	return data, r.Rest, r.Err
}

// SharedTexts lets equal texts have the same bytes: the lines of a plan's invoices are the same for
// very many customers. It knows the newest of the texts that share a place. Nothing of the state
// depends on it. For Apply and Restore.
type SharedTexts struct {
	seed  maphash.Seed
	known []string
}

const (
	// SharedPlaces and SharedBytes bound what is known: 1,024 texts of 512 bytes.
	SharedPlaces = 1024
	SharedBytes  = 512
)

// NewSharedTexts knows no text yet.
func NewSharedTexts() SharedTexts {
	return SharedTexts{seed: maphash.MakeSeed(), known: make([]string, SharedPlaces)}
}

// Of returns data as a string, which may be one that is there already.
func (s *SharedTexts) Of(data []byte) string {
	if len(data) > SharedBytes {
		return string(data)
	}
	place := &s.known[maphash.Bytes(s.seed, data)%SharedPlaces]
	if *place != string(data) {
		*place = string(data)
	}
	return *place
}

// Codec is TextCodec, but for where what it reads is kept.
func (s *SharedTexts) Codec() page.Codec[Text] {
	return page.Codec[Text]{
		Append: TextCodec.Append,
		Read: func(src []byte, t *Text) ([]byte, error) {
			data, rest, err := readText(src)
			t.Data = s.Of(data)
			return rest, err
		},
	}
}
