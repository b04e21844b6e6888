package rows

import "tollgate/engine/page"

// Text is the cold, variable part of a record: encoded once, replaced whole.
type Text struct{ Data string }

// TextCodec writes the length (4 bytes) and the bytes.
var TextCodec = page.Codec[Text]{
	Append: func(dst []byte, t *Text) []byte {
		return appendText(dst, t.Data)
	},
	Read: func(src []byte, t *Text) ([]byte, error) {
		data, rest, err := readText(src)
		t.Data = string(data)
		return rest, err
	},
}

func appendText[T string | []byte](dst []byte, data T) []byte {
	return append(AppendU32(dst, uint32(len(data))), data...)
}

// readText reads a text's bytes, which alias src, from the front of src.
func readText(src []byte) (data, rest []byte, err error) {
	r := Reader{Rest: src}
	n := r.U32()
	if uint64(n) > uint64(len(r.Rest)) {
		return nil, nil, ErrRecord
	}
	data = r.Take(int(n))
	return data, r.Rest, r.Err
}
