package billing

import (
	"hash/maphash"

	"tollgate/engine/page"
)

// sharedTexts lets equal texts have the same bytes: the lines of a plan's invoices are the same for
// very many customers. It knows the newest of the texts that share a place. Nothing of the state
// depends on it. For Apply and Restore.
type sharedTexts struct {
	seed  maphash.Seed
	known []string
}

const (
	// sharedPlaces and sharedBytes bound what is known: 1,024 texts of 512 bytes.
	sharedPlaces = 1024
	sharedBytes  = 512
)

func newSharedTexts() sharedTexts {
	return sharedTexts{seed: maphash.MakeSeed(), known: make([]string, sharedPlaces)}
}

// of returns data as a string, which may be one that is there already.
func (s *sharedTexts) of(data []byte) string {
	if len(data) > sharedBytes {
		return string(data)
	}
	place := &s.known[maphash.Bytes(s.seed, data)%sharedPlaces]
	if *place != string(data) {
		*place = string(data)
	}
	return *place
}

// codec is textCodec, but for where what it reads is kept.
func (s *sharedTexts) codec() page.Codec[text] {
	return page.Codec[text]{
		Append: textCodec.Append,
		Read: func(src []byte, t *text) ([]byte, error) {
			data, rest, err := readText(src)
			t.data = s.of(data)
			return rest, err
		},
	}
}
