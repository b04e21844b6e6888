// Package wire is the codec of entries, snapshots and journal records: numbered fields in the
// protobuf wire format. A struct states its fields once, in a Fields method that serves both ways.
// See DESIGN.md.
package wire

import (
	"errors"
	"fmt"
	"math/bits"

	"google.golang.org/protobuf/encoding/protowire"

	"tollgate/engine/decimal"
)

// Fielder states its fields to a Codec, in ascending order of their numbers. Numbers are never
// reused. A field that holds its zero value is not written.
type Fielder interface{ Fields(c *Codec) }

// ErrField says that bytes are not an encoding of the struct they were decoded into: an unknown
// field number, a wrong wire type, a truncated value, or fields out of order.
var ErrField = errors.New("wire: malformed or unknown field")

// Codec carries fields one way: it appends them to a buffer, or it reads them from one.
type Codec struct {
	buf      []byte
	decoding bool
	err      error
}

// Encode appends v's fields to dst.
func Encode(dst []byte, v Fielder) []byte {
	c := Codec{buf: dst}
	v.Fields(&c)
	return c.buf
}

// Decode reads v's fields from src. v must be zero before the call. Byte slices in v alias src.
// It returns ErrField when src is not exactly an encoding of v.
func Decode(src []byte, v Fielder) error {
	c := Codec{buf: src, decoding: true}
	v.Fields(&c)
	return c.Close()
}

// NewEncoder and NewDecoder serve hot paths that call a Fields method directly, without the
// interface that makes the value escape.
func NewEncoder(dst []byte) Codec { return Codec{buf: dst} }

// NewDecoder returns a Codec that reads src; Close must be called after the fields were read.
func NewDecoder(src []byte) Codec { return Codec{buf: src, decoding: true} }

// Bytes returns what an encoder has written.
func (c *Codec) Encoded() []byte { return c.buf }

// Decoding says which way the Codec carries.
func (c *Codec) Decoding() bool { return c.decoding }

// Fail makes a decode end with an error; the first one stays.
func (c *Codec) Fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: "+format, append([]any{ErrField}, args...)...)
	}
}

// Close ends a decode: what is left over, or what was malformed, is an error.
func (c *Codec) Close() error {
	if c.err == nil && c.decoding && len(c.buf) > 0 {
		c.Fail("%d bytes left over", len(c.buf))
	}
	return c.err
}

// take consumes the tag of field n if that is what comes next.
func (c *Codec) take(n protowire.Number, t protowire.Type) bool {
	if c.err != nil || len(c.buf) == 0 {
		return false
	}
	number, typ, size := protowire.ConsumeTag(c.buf)
	if size < 0 {
		c.Fail("tag of field %d", n)
		return false
	}
	if number != n {
		return false
	}
	if typ != t {
		c.Fail("field %d has wire type %d", n, typ)
		return false
	}
	c.buf = c.buf[size:]
	return true
}

func (c *Codec) varint(n protowire.Number) uint64 {
	v, size := protowire.ConsumeVarint(c.buf)
	if size < 0 {
		c.Fail("varint of field %d", n)
		return 0
	}
	c.buf = c.buf[size:]
	return v
}

func (c *Codec) bytes(n protowire.Number) []byte {
	v, size := protowire.ConsumeBytes(c.buf)
	if size < 0 {
		c.Fail("length of field %d", n)
		return nil
	}
	c.buf = c.buf[size:]
	return v
}

// Unsigned is any unsigned integer type, named ones included.
type Unsigned interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Uint carries an unsigned integer as a varint; a value too large for T is malformed.
func Uint[T Unsigned](c *Codec, n protowire.Number, v *T) {
	if c.decoding {
		if c.take(n, protowire.VarintType) {
			u := c.varint(n)
			if *v = T(u); uint64(*v) != u {
				c.Fail("field %d out of range", n)
			}
		}
	} else if *v != 0 {
		c.buf = protowire.AppendVarint(protowire.AppendTag(c.buf, n, protowire.VarintType), uint64(*v))
	}
}

// Int carries a signed 64-bit integer as a zigzag varint.
func (c *Codec) Int(n protowire.Number, v *int64) {
	if c.decoding {
		if c.take(n, protowire.VarintType) {
			*v = protowire.DecodeZigZag(c.varint(n))
		}
	} else if *v != 0 {
		c.buf = protowire.AppendVarint(protowire.AppendTag(c.buf, n, protowire.VarintType), protowire.EncodeZigZag(*v))
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
			c.Fail("field %d is no boolean", n)
		}
		*v = u == 1
	}
}

// String carries text; a decoded string is a copy.
func (c *Codec) String(n protowire.Number, v *string) {
	if c.decoding {
		if c.take(n, protowire.BytesType) {
			*v = string(c.bytes(n))
		}
	} else if *v != "" {
		c.buf = protowire.AppendString(protowire.AppendTag(c.buf, n, protowire.BytesType), *v)
	}
}

// Blob carries bytes; decoded bytes alias the source.
func (c *Codec) Blob(n protowire.Number, v *[]byte) {
	if c.decoding {
		if c.take(n, protowire.BytesType) {
			*v = c.bytes(n)
		}
	} else if len(*v) != 0 {
		c.buf = protowire.AppendBytes(protowire.AppendTag(c.buf, n, protowire.BytesType), *v)
	}
}

// ID carries 16 bytes: a UUID or a 128-bit hash.
func (c *Codec) ID(n protowire.Number, v *[16]byte) {
	if c.decoding {
		if c.take(n, protowire.BytesType) {
			c.fixed(n, v[:])
		}
	} else if *v != ([16]byte{}) {
		c.buf = protowire.AppendBytes(protowire.AppendTag(c.buf, n, protowire.BytesType), v[:])
	}
}

// Hash carries 32 bytes.
func (c *Codec) Hash(n protowire.Number, v *[32]byte) {
	if c.decoding {
		if c.take(n, protowire.BytesType) {
			c.fixed(n, v[:])
		}
	} else if *v != ([32]byte{}) {
		c.buf = protowire.AppendBytes(protowire.AppendTag(c.buf, n, protowire.BytesType), v[:])
	}
}

func (c *Codec) fixed(n protowire.Number, dst []byte) {
	b := c.bytes(n)
	if c.err == nil && len(b) != len(dst) {
		c.Fail("field %d has %d bytes", n, len(b))
		return
	}
	copy(dst, b)
}

// Decimal carries a decimal as the shortest big-endian two's complement of value × 10¹².
func (c *Codec) Decimal(n protowire.Number, v *decimal.Decimal) {
	if !c.decoding {
		if *v == (decimal.Decimal{}) {
			return
		}
		var full [16]byte
		hi, lo := v.Bits()
		putUint64(full[:8], uint64(hi))
		putUint64(full[8:], lo)
		c.buf = protowire.AppendBytes(protowire.AppendTag(c.buf, n, protowire.BytesType), full[16-width(hi, lo):])
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
		c.Fail("field %d is no decimal", n)
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
}

// width is the number of bytes that the two's complement (hi, lo) needs.
func width(hi int64, lo uint64) int {
	sign := uint64(hi >> 63)
	if h := uint64(hi) ^ sign; h != 0 {
		return 8 + (bits.Len64(h)+8)/8
	}
	return max(1, (bits.Len64(lo^sign)+8)/8)
}

func putUint64(b []byte, v uint64) {
	for i := range 8 {
		b[i] = byte(v >> (56 - 8*i))
	}
}

// Message carries one nested struct, always written, so that its presence is kept.
func (c *Codec) Message(n protowire.Number, v Fielder) (present bool) {
	if !c.decoding {
		c.buf = protowire.AppendBytes(protowire.AppendTag(c.buf, n, protowire.BytesType), Encode(nil, v))
		return true
	}
	if !c.take(n, protowire.BytesType) {
		return false
	}
	b := c.bytes(n)
	if c.err == nil {
		c.err = Decode(b, v)
	}
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
	for {
		var item T
		if !c.Message(n, P(&item)) || c.err != nil {
			return
		}
		*v = append(*v, item)
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
		*v = append(*v, string(c.bytes(n)))
	}
}
