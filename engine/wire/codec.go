// Package wire is the codec of entries, snapshots and journal records: numbered fields in the
// protobuf wire format. A struct states its fields once, in a Fields method that serves both ways.
// See DESIGN.md.
package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"google.golang.org/protobuf/encoding/protowire"

	"tollgate/engine/decimal"
)

// Fielder states its fields to a Codec, in ascending order of their numbers. Numbers are never
// reused. A field that holds its zero value is not written.
type Fielder interface{ Fields(c *Codec) }

// ErrField means that bytes are not an encoding of the struct they were decoded into: an unknown
// field number, a wrong wire type, a truncated value, or fields out of order.
var ErrField = errors.New("wire: malformed or unknown field")

// Codec carries fields one way: it appends them to a buffer, or it reads them from one.
type Codec struct {
	buf      []byte
	decoding bool
	err      error
	// While decoding, the tag at the front of buf: its number, its wire type, and its length in
	// bytes, 0 until it was read. Fields that are absent then cost one comparison.
	number protowire.Number
	typ    protowire.Type
	size   int
	// text is set where buf is a string that is decoded: strings in the value alias it, and bytes,
	// which callers may change, do not.
	text bool
}

// Encode appends v's fields to dst.
func Encode(dst []byte, v Fielder) []byte {
	c := Codec{buf: dst}
	v.Fields(&c)
	return c.buf
}

// Decode reads v's fields from src. v must be zero before the call. Byte slices in v alias src. It
// returns ErrField when src is not exactly the encoding of a value: there is one of each, so a
// decoded value encodes to the same bytes again.
func Decode(src []byte, v Fielder) error {
	c := Codec{buf: src, decoding: true}
	v.Fields(&c)
	return c.Close()
}

// DecodeText is Decode of a string, which copies no text: strings in v alias src, byte slices are
// copies.
func DecodeText(src string, v Fielder) error {
	c := NewTextDecoder(src)
	v.Fields(&c)
	return c.Close()
}

// NewTextDecoder is NewDecoder for DecodeText.
func NewTextDecoder(src string) Codec {
	return Codec{buf: bytesOf(src), decoding: true, text: true}
}

// NewEncoder and NewDecoder serve hot paths that call a Fields method directly, without the
// interface that makes the value escape.
func NewEncoder(dst []byte) Codec { return Codec{buf: dst} }

// NewDecoder returns a Codec that reads src; Close must be called after the fields were read.
func NewDecoder(src []byte) Codec { return Codec{buf: src, decoding: true} }

// Encoded returns what an encoder has written.
func (c *Codec) Encoded() []byte { return c.buf }

// Decoding reports whether the Codec decodes.
func (c *Codec) Decoding() bool { return c.decoding }

// Fail makes a decode end with an error; the first one stays.
func (c *Codec) Fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: "+format, append([]any{ErrField}, args...)...)
	}
}

// Close ends a decode: leftover or malformed bytes are an error.
func (c *Codec) Close() error {
	if c.err == nil && c.decoding && len(c.buf) > 0 {
		c.Fail("%d bytes left over", len(c.buf))
	}
	return c.err
}

// is reports whether field n is next.
func (c *Codec) is(n protowire.Number) bool {
	return c.err == nil && len(c.buf) > 0 && (c.size > 0 || c.peek()) && c.number == n
}

// take consumes the tag of field n if it is next. It repeats the condition of is, which is not
// inlined here.
func (c *Codec) take(n protowire.Number, t protowire.Type) bool {
	if c.err != nil || len(c.buf) == 0 || c.size == 0 && !c.peek() || c.number != n {
		return false
	}
	if c.typ != t {
		c.Fail("field %d has wire type %d", n, c.typ)
		return false
	}
	c.buf, c.size = c.buf[c.size:], 0
	return true
}

// peek reads the tag at the front of buf.
func (c *Codec) peek() bool {
	if b := c.buf[0]; b >= 8 && b < 0x80 {
		c.number, c.typ, c.size = protowire.Number(b>>3), protowire.Type(b&7), 1
		return true
	}
	number, typ, size := protowire.ConsumeTag(c.buf)
	if size < 0 || size != protowire.SizeTag(number) {
		c.Fail("tag")
		return false
	}
	c.number, c.typ, c.size = number, typ, size
	return true
}

// varint reads a varint in its shortest form.
func (c *Codec) varint(n protowire.Number) uint64 {
	v, size := protowire.ConsumeVarint(c.buf)
	if size < 0 || size > 1 && c.buf[size-1] == 0 {
		c.Fail("varint of field %d", n)
		return 0
	}
	c.buf = c.buf[size:]
	return v
}

// value reads the varint of a field that is written only when it is not zero.
func (c *Codec) value(n protowire.Number) uint64 {
	v := c.varint(n)
	if v == 0 {
		c.Fail("field %d is written though it is zero", n)
	}
	return v
}

// bytes reads a length and as many bytes.
func (c *Codec) bytes(n protowire.Number) []byte {
	size := c.varint(n)
	if size > uint64(len(c.buf)) {
		c.Fail("length of field %d", n)
	}
	if c.err != nil {
		return nil
	}
	v := c.buf[:size:size]
	c.buf = c.buf[size:]
	return v
}

// content reads the bytes of a field that is written only when it is not empty.
func (c *Codec) content(n protowire.Number) []byte {
	v := c.bytes(n)
	if len(v) == 0 {
		c.Fail("field %d is written though it is empty", n)
	}
	return v
}

// asText is a text that was read.
func (c *Codec) asText(b []byte) string {
	if c.text {
		return Alias(b)
	}
	return string(b)
}

func (c *Codec) append(n protowire.Number, v []byte) {
	if n <= oneByteTag && len(v) < 0x80 {
		c.buf = append(c.buf, byte(n)<<3|byte(protowire.BytesType), byte(len(v)))
		c.buf = append(c.buf, v...)
		return
	}
	c.buf = protowire.AppendBytes(protowire.AppendTag(c.buf, n, protowire.BytesType), v)
}

func (c *Codec) appendVarint(n protowire.Number, v uint64) {
	if n <= oneByteTag {
		c.buf = append(c.buf, byte(n)<<3|byte(protowire.VarintType))
		c.buf = binary.AppendUvarint(c.buf, v)
		return
	}
	c.buf = protowire.AppendVarint(protowire.AppendTag(c.buf, n, protowire.VarintType), v)
}

// oneByteTag is the largest number whose tag is one byte.
const oneByteTag = 15

// Unsigned is any unsigned integer type, named ones included.
type Unsigned interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Uint carries an unsigned integer as a varint; a value too large for T is malformed.
func Uint[T Unsigned](c *Codec, n protowire.Number, v *T) {
	if c.decoding {
		if c.take(n, protowire.VarintType) {
			u := c.value(n)
			if *v = T(u); uint64(*v) != u {
				c.Fail("field %d out of range", n)
			}
		}
	} else if *v != 0 {
		c.appendVarint(n, uint64(*v))
	}
}

// Int carries a signed 64-bit integer as a zigzag varint.
func (c *Codec) Int(n protowire.Number, v *int64) {
	if c.decoding {
		if c.take(n, protowire.VarintType) {
			*v = protowire.DecodeZigZag(c.value(n))
		}
	} else if *v != 0 {
		c.appendVarint(n, protowire.EncodeZigZag(*v))
	}
}

// Bool carries a boolean.
func (c *Codec) Bool(n protowire.Number, v *bool) {
	var u uint8
	if *v {
		u = 1
	}
	Uint(c, n, &u)
	if c.decoding {
		if u > 1 {
			c.Fail("field %d is not a boolean", n)
		}
		*v = u == 1
	}
}

// String carries text; a decoded string is a copy.
func (c *Codec) String(n protowire.Number, v *string) {
	if c.decoding {
		if c.take(n, protowire.BytesType) {
			*v = c.asText(c.content(n))
		}
	} else if *v != "" {
		c.buf = protowire.AppendString(protowire.AppendTag(c.buf, n, protowire.BytesType), *v)
	}
}

// Blob carries bytes; decoded bytes alias the source.
func (c *Codec) Blob(n protowire.Number, v *[]byte) {
	if c.decoding {
		if c.take(n, protowire.BytesType) {
			if *v = c.content(n); c.text {
				*v = bytes.Clone(*v)
			}
		}
	} else if len(*v) != 0 {
		c.append(n, *v)
	}
}

// ID carries 16 bytes: a UUID or a 128-bit hash.
func (c *Codec) ID(n protowire.Number, v *[16]byte) {
	if c.decoding {
		if c.take(n, protowire.BytesType) {
			c.fixed(n, v[:])
		}
	} else if *v != ([16]byte{}) {
		c.append(n, v[:])
	}
}

// Hash carries 32 bytes.
func (c *Codec) Hash(n protowire.Number, v *[32]byte) {
	if c.decoding {
		if c.take(n, protowire.BytesType) {
			c.fixed(n, v[:])
		}
	} else if *v != ([32]byte{}) {
		c.append(n, v[:])
	}
}

func (c *Codec) fixed(n protowire.Number, dst []byte) {
	b := c.bytes(n)
	if c.err != nil {
		return
	}
	if len(b) != len(dst) {
		c.Fail("field %d has %d bytes", n, len(b))
		return
	}
	copy(dst, b)
	for _, x := range dst {
		if x != 0 {
			return
		}
	}
	c.Fail("field %d is written though it is zero", n)
}

// Decimal carries a decimal as the shortest big-endian two's complement of value × 10¹².
func (c *Codec) Decimal(n protowire.Number, v *decimal.Decimal) {
	if !c.decoding {
		if *v == (decimal.Decimal{}) {
			return
		}
		var full [16]byte
		hi, lo := v.Bits()
		binary.BigEndian.PutUint64(full[:8], uint64(hi))
		binary.BigEndian.PutUint64(full[8:], lo)
		c.append(n, full[16-width(hi, lo):])
		return
	}
	if !c.take(n, protowire.BytesType) {
		return
	}
	b := c.bytes(n)
	if c.err != nil {
		return
	}
	if len(b) == 0 || len(b) > 16 {
		c.Fail("field %d is not a decimal", n)
		return
	}
	hi, lo := int64(int8(b[0])>>7), uint64(int64(int8(b[0])>>7))
	for _, x := range b {
		hi, lo = int64(uint64(hi)<<8|lo>>56), lo<<8|uint64(x)
	}
	if width(hi, lo) != len(b) {
		c.Fail("field %d is not in its shortest form", n)
		return
	}
	*v = decimal.FromBits(hi, lo)
	if v.IsZero() || !v.InRange() {
		c.Fail("field %d is zero or out of range", n)
	}
}

// width is the number of bytes that the two's complement (hi, lo) needs.
func width(hi int64, lo uint64) int {
	sign := uint64(hi >> 63)
	if h := uint64(hi) ^ sign; h != 0 {
		return 8 + (bits.Len64(h)+8)/8
	}
	return max(1, (bits.Len64(lo^sign)+8)/8)
}

// Message carries one nested struct, always written, so that its presence is kept.
func (c *Codec) Message(n protowire.Number, v Fielder) (present bool) {
	if !c.decoding {
		c.buf = append(protowire.AppendTag(c.buf, n, protowire.BytesType), 0)
		begin := len(c.buf)
		v.Fields(c)
		c.buf = CloseMessage(c.buf, begin)
		return true
	}
	if !c.take(n, protowire.BytesType) {
		return false
	}
	b := c.bytes(n)
	if c.err != nil {
		return true
	}
	rest := c.buf
	c.buf = b
	v.Fields(c)
	if c.err == nil && len(c.buf) > 0 {
		c.Fail("%d bytes left over in field %d", len(c.buf), n)
	}
	c.buf = rest
	return true
}

// List carries a slice of structs as repeated nested messages.
func List[T any, P interface {
	*T
	Fielder
}](c *Codec, n protowire.Number, v *[]T) {
	if !c.decoding {
		for i := range *v {
			c.Message(n, P(&(*v)[i]))
		}
		return
	}
	for c.is(n) {
		var item T
		*v = append(*v, item)
		if c.Message(n, P(&(*v)[len(*v)-1])); c.err != nil {
			return
		}
	}
}

// Strings carries a slice of texts.
func (c *Codec) Strings(n protowire.Number, v *[]string) {
	if !c.decoding {
		for _, s := range *v {
			c.buf = protowire.AppendString(protowire.AppendTag(c.buf, n, protowire.BytesType), s)
		}
		return
	}
	for c.take(n, protowire.BytesType) {
		*v = append(*v, c.asText(c.bytes(n)))
	}
}
