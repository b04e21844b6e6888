package billing

import (
	"encoding/binary"
	"errors"
	"hash/maphash"

	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// What is below states a record's bytes in a snapshot: fixed layout, little endian. Each record
// type lists its fields once per direction, beside its struct.

// errRecord means that a snapshot's record is cut short.
var errRecord = errors.New("billing: truncated record in a snapshot")

// reader takes fields from the front of a record.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) take(n int) []byte {
	if len(r.rest) < n {
		r.err = errRecord
		r.rest = nil
		return make([]byte, n)
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) u8() uint8   { return r.take(1)[0] }
func (r *reader) u16() uint16 { return binary.LittleEndian.Uint16(r.take(2)) }
func (r *reader) u32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }
func (r *reader) i64() int64  { return int64(r.u64()) }

func (r *reader) id() (id [16]byte) {
	copy(id[:], r.take(16))
	return id
}

func (r *reader) decimal() decimal.Decimal {
	low := r.u64()
	return decimal.FromBits(r.i64(), low)
}

func appendU16(dst []byte, v uint16) []byte { return binary.LittleEndian.AppendUint16(dst, v) }
func appendU32(dst []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(dst, v) }

func appendI64(dst []byte, v int64) []byte {
	return binary.LittleEndian.AppendUint64(dst, uint64(v))
}

func appendDecimal(dst []byte, d decimal.Decimal) []byte {
	high, low := d.Bits()
	return appendI64(binary.LittleEndian.AppendUint64(dst, low), high)
}

// text is the cold, variable part of a record: encoded once, replaced whole.
type text struct{ data string }

// textCodec writes the length (4 bytes) and the bytes.
var textCodec = page.Codec[text]{
	Append: func(dst []byte, t *text) []byte {
		return append(appendU32(dst, uint32(len(t.data))), t.data...)
	},
	Read: func(src []byte, t *text) ([]byte, error) {
		data, rest, err := readText(src)
		t.data = string(data)
		return rest, err
	},
}

// readText takes a text's bytes, which are src's own, from the front of src.
func readText(src []byte) (data, rest []byte, err error) {
	r := reader{rest: src}
	n := r.u32()
	if uint64(n) > uint64(len(r.rest)) {
		return nil, nil, errRecord
	}
	data = r.take(int(n))
	return data, r.rest, r.err
}

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

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
