package rollup

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"tollgate/engine/decimal"
)

// ErrBlock means that bytes are not a block of cells.
var ErrBlock = errors.New("rollup: malformed block")

// whole is 1 as a decimal's units: most quantities are whole numbers.
const whole = 1_000_000_000_000

// AppendCell appends a cell that comes after another one in its block; the first one of a block
// comes after the zero cell.
func AppendCell(dst []byte, last, c *Cell) []byte {
	dst = binary.AppendUvarint(dst, c.Owner-last.Owner)
	if c.Owner == last.Owner {
		dst = binary.AppendUvarint(dst, uint64(c.Item-last.Item))
	} else {
		dst = binary.AppendUvarint(dst, uint64(c.Item))
	}
	dst = binary.AppendVarint(dst, int64(c.Hour)-int64(last.Hour))
	dst = binary.AppendVarint(dst, c.Events)
	high, low := c.Units.Bits()
	if units, ok := wholeUnits(high, low); ok {
		return binary.AppendUvarint(dst, units<<1)
	}
	dst = append(dst, 1)
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, uint64(high)), low)
}

// wholeUnits is a decimal as a whole number in zigzag form, where it is a short one.
func wholeUnits(high int64, low uint64) (units uint64, ok bool) {
	negative := high < 0
	if negative {
		var borrow uint64
		low, borrow = bits.Sub64(0, low, 0)
		high = -high - int64(borrow)
	}
	if high != 0 || low%whole != 0 {
		return 0, false
	}
	units = low / whole << 1
	if negative {
		units--
	}
	return units, true
}

// ReadBlock yields the cells of a block, which ascend. An error of yield ends it, and is returned.
func ReadBlock(block []byte, yield func(Cell) error) error {
	var c Cell
	for first := true; len(block) > 0; first = false {
		owner, a := binary.Uvarint(block)
		item, b := binary.Uvarint(block[max(a, 0):])
		hour, d := binary.Varint(block[max(a, 0)+max(b, 0):])
		if a <= 0 || b <= 0 || d <= 0 {
			return ErrBlock
		}
		block = block[a+b+d:]
		next := Cell{Key: Key{Owner: c.Owner + owner, Item: uint32(item), Hour: c.Hour + int32(hour)}}
		if owner == 0 {
			next.Item += c.Item
		}
		if !first && next.Compare(c.Key) <= 0 {
			return ErrBlock
		}
		events, a := binary.Varint(block)
		units, b := binary.Uvarint(block[max(a, 0):])
		if a <= 0 || b <= 0 {
			return ErrBlock
		}
		block = block[a+b:]
		next.Events = events
		switch {
		case units&1 == 0:
			high, low := bits.Mul64((units>>1+units>>1&1)/2, whole)
			if next.Units = decimal.FromBits(int64(high), low); units>>1&1 == 1 {
				next.Units = next.Units.Neg()
			}
		case len(block) < 16:
			return ErrBlock
		default:
			next.Units = decimal.FromBits(int64(binary.LittleEndian.Uint64(block)),
				binary.LittleEndian.Uint64(block[8:]))
			block = block[16:]
		}
		c = next
		if err := yield(c); err != nil {
			return err
		}
	}
	return nil
}
