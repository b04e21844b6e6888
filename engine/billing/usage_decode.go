package billing

import (
	"encoding/binary"
	"math"
	"math/bits"

	"tollgate/engine/decimal"
)

// Tags of the fields of a usage event, each one byte, as `usual` meets them.
const (
	tagEnv         = 1 << 3
	tagKey         = 2<<3 | 2
	tagAttempt     = 3 << 3
	tagFingerprint = 4 << 3
	tagKeyText     = 5<<3 | 2
	tagCustomer    = 6<<3 | 2
	tagEventName   = 8<<3 | 2
	tagFeatureKey  = 9<<3 | 2
	tagUnits       = 11<<3 | 2
	tagOccurredAt  = 12 << 3
	tagCost        = 13<<3 | 2
)

// usual reads the front of a record that has the fields which nearly all have, up to OccurredAt, in
// their usual sizes: straight ahead, without asking for those that it has not. What follows, if
// anything does, is left to Fields. It takes nothing that Fields would refuse. False: the record is
// not of this shape, and c holds nothing of use.
func (c *RecordUsage) usual(payload []byte) (rest []byte, ok bool) {
	r := usualReader{rest: payload}
	c.Env = r.uint32(tagEnv)
	r.id(tagKey, &c.Key)
	c.Attempt = r.uint32(tagAttempt)
	c.Fingerprint = r.uint32(tagFingerprint)
	c.KeyText = r.blob(tagKeyText)
	c.Customer = r.blob(tagCustomer)
	c.EventName = r.blob(tagEventName)
	if len(r.rest) > 0 && r.rest[0] == tagFeatureKey {
		c.FeatureKey = r.blob(tagFeatureKey)
	}
	c.Units = r.decimal(tagUnits)
	occurred := r.varint(tagOccurredAt)
	c.OccurredAt = int64(occurred>>1) ^ -int64(occurred&1)
	return r.rest, !r.unusual && (len(r.rest) == 0 || r.rest[0] >= tagCost)
}

// usualReader takes fields from the front of a record, each of which must be there. After the first
// that is not, or that is longer than usual, it answers zeros.
type usualReader struct {
	rest    []byte
	unusual bool
}

// field takes a tag, when at least room bytes stand behind it.
func (r *usualReader) field(tag byte, room int) bool {
	if len(r.rest) <= room || r.rest[0] != tag {
		r.rest, r.unusual = nil, true
		return false
	}
	r.rest = r.rest[1:]
	return true
}

// end gives up when what was read is not as it is written: then Fields says what is wrong.
func (r *usualReader) end(good bool, length int) {
	if !good || length > len(r.rest) {
		r.rest, r.unusual = nil, true
		return
	}
	r.rest = r.rest[length:]
}

// varint reads a varint of at most eight bytes, which is not 0 and in its shortest form.
func (r *usualReader) varint(tag byte) uint64 {
	if !r.field(tag, 1) {
		return 0
	}
	if v := uint64(r.rest[0]); v < 0x80 {
		r.end(v != 0, 1)
		return v
	}
	x := r.eight()
	last := ^x & 0x8080808080808080
	last &= -last // the upper bit of the last byte
	length := bits.TrailingZeros64(last)/8 + 1
	x &= last - 1
	r.end(last != 0 && x>>(8*(length-1)) != 0, length)
	// Seven bits of each byte, joined in three steps.
	x = x&0x007f007f007f007f | x&0x7f007f007f007f00>>1
	x = x&0x00003fff00003fff | x&0x3fff00003fff0000>>2
	return x&0x0fffffff | x&0x0fffffff00000000>>4
}

// eight is the next eight bytes, little endian; where fewer are left, zeros follow them.
func (r *usualReader) eight() uint64 {
	if len(r.rest) >= 8 {
		return binary.LittleEndian.Uint64(r.rest)
	}
	var room [8]byte
	copy(room[:], r.rest)
	return binary.LittleEndian.Uint64(room[:])
}

func (r *usualReader) uint32(tag byte) uint32 {
	v := r.varint(tag)
	if v > math.MaxUint32 {
		r.end(false, 0)
	}
	return uint32(v)
}

// id reads 16 bytes that are not all 0.
func (r *usualReader) id(tag byte, id *[16]byte) {
	if !r.field(tag, 17) {
		return
	}
	*id = [16]byte(r.rest[1:])
	r.end(r.rest[0] == 16 && *id != [16]byte{}, 17)
}

// blob reads 1 to 127 bytes, which alias the record.
func (r *usualReader) blob(tag byte) []byte {
	if !r.field(tag, 1) {
		return nil
	}
	n := int(r.rest[0])
	if n == 0 || n >= 0x80 || n >= len(r.rest) {
		r.end(false, 0)
		return nil
	}
	v := r.rest[1 : 1+n : 1+n]
	r.rest = r.rest[1+n:]
	return v
}

// decimal reads a decimal of at most eight bytes, which is not 0 and in its shortest form.
func (r *usualReader) decimal(tag byte) decimal.Decimal {
	if !r.field(tag, 1) {
		return decimal.Decimal{}
	}
	n := int(r.rest[0])
	if n == 0 || n > 8 || n >= len(r.rest) {
		r.end(false, 0)
		return decimal.Decimal{}
	}
	r.rest = r.rest[1:]
	v := int64(bits.ReverseBytes64(r.eight())) >> (64 - 8*n)
	short := n == 1 || v != v<<(72-8*n)>>(72-8*n) // it does not fit one byte less
	r.end(v != 0 && short, n)
	return decimal.FromBits(v>>63, uint64(v))
}
