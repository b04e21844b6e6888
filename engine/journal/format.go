package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrData means that bytes are not a whole sequence of records of this format version.
var ErrData = errors.New("journal: malformed segment")

const (
	magic         = "TGJL"
	formatVersion = 2
	// HeaderBytes is the length of the header of a segment.
	HeaderBytes = 32
	// maxRecordHeader bounds what precedes a payload: kind, index, position, owner, time, length.
	maxRecordHeader = 1 + 10 + 5 + 5 + 10 + 5
	// MaxKind is the largest kind that a record may have: a KindSet is 64 bits.
	MaxKind = 63
)

// base is what the records of a segment count from: the values of its first record. Records do
// not build on each other, so each can be read at its offset.
type base struct {
	index uint64
	at    int64
}

func appendHeader(dst []byte, part Part, number uint64, b base) []byte {
	dst = append(dst, magic...)
	dst = append(dst, formatVersion, byte(part), 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, number)
	dst = binary.LittleEndian.AppendUint64(dst, b.index)
	return binary.LittleEndian.AppendUint64(dst, uint64(b.at))
}

func appendRecord(dst []byte, b base, r Record) []byte {
	dst = append(dst, byte(r.Kind))
	dst = binary.AppendUvarint(dst, r.Index-b.index)
	dst = binary.AppendUvarint(dst, uint64(r.Position))
	dst = binary.AppendUvarint(dst, uint64(r.Owner))
	dst = binary.AppendVarint(dst, r.At-b.at)
	dst = binary.AppendUvarint(dst, uint64(len(r.Payload)))
	return append(dst, r.Payload...)
}

// unzigzag undoes what AppendVarint does to signed numbers.
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// Reader reads the records of a segment at their offsets.
type Reader struct {
	part   Part
	number uint64
	base   base
}

// NewReader reads a segment's header from the front of its bytes.
func NewReader(header []byte) (Reader, error) {
	if len(header) < HeaderBytes || string(header[:4]) != magic {
		return Reader{}, fmt.Errorf("%w: no header", ErrData)
	}
	if header[4] != formatVersion || header[5] >= byte(partCount) || header[6]|header[7] != 0 {
		return Reader{}, fmt.Errorf("%w: version %d, part %d; this build reads version %d",
			ErrData, header[4], header[5], formatVersion)
	}
	return Reader{
		part:   Part(header[5]),
		number: binary.LittleEndian.Uint64(header[8:]),
		base: base{
			index: binary.LittleEndian.Uint64(header[16:]),
			at:    int64(binary.LittleEndian.Uint64(header[24:])),
		},
	}, nil
}

// Number is the segment's number.
func (rd Reader) Number() uint64 { return rd.number }

// FirstIndex is the index of the segment's first record.
func (rd Reader) FirstIndex() uint64 { return rd.base.index }

// Record reads the record at the front of data, whose Payload aliases data, and the record's
// length. When data ends before the record does, size is the length that the record needs as far as
// it is known (more than len(data)), and the error is ErrData.
func (rd Reader) Record(data []byte) (r Record, size int, err error) {
	if len(data) == 0 || data[0] == 0 || data[0] > MaxKind {
		return Record{}, 0, fmt.Errorf("%w: kind", ErrData)
	}
	var fields [5]uint64
	at := 1
	for i := range fields {
		if at+1 < len(data) { // usual lengths, without a call
			low, high := uint64(data[at]), uint64(data[at+1])
			if low < 0x80 {
				fields[i], at = low, at+1
				continue
			}
			if high-1 < 0x7f {
				fields[i], at = low&0x7f|high<<7, at+2
				continue
			}
		}
		v, n := binary.Uvarint(data[at:])
		if n == 0 {
			return Record{}, len(data) + 1, fmt.Errorf("%w: truncated record", ErrData)
		}
		if n < 0 || n > 1 && data[at+n-1] == 0 {
			return Record{}, 0, fmt.Errorf("%w: field %d of a record", ErrData, i+1)
		}
		fields[i], at = v, at+n
	}
	if fields[1] > math.MaxUint32 || fields[2] > math.MaxUint32 || fields[4] > math.MaxInt32 {
		return Record{}, 0, fmt.Errorf("%w: a field of a record is out of range", ErrData)
	}
	size = at + int(fields[4])
	r = Record{
		Kind:     Kind(data[0]),
		Index:    rd.base.index + fields[0],
		Position: uint32(fields[1]),
		Owner:    uint32(fields[2]),
		At:       rd.base.at + unzigzag(fields[3]),
	}
	if size > len(data) {
		return r, size, fmt.Errorf("%w: truncated payload", ErrData)
	}
	r.Payload = data[at:size:size]
	return r, size, nil
}

// Event returns the nth KindUsage record (from 1) of records, which begin at a record. It is
// ErrNoEvent when there are fewer.
func (rd Reader) Event(records []byte, nth uint64) (Record, error) {
	for len(records) > 0 {
		r, size, err := rd.Record(records)
		if err != nil {
			return Record{}, fmt.Errorf("segment %d: %w", rd.number, err)
		}
		if r.Kind == KindUsage {
			if nth--; nth == 0 {
				return r, nil
			}
		}
		records = records[size:]
	}
	return Record{}, ErrNoEvent
}

// Scan reads the records of a segment, or of a tail, from its first byte to its last, and checks
// that they are whole and in order. It stops at the first error, or the first that yield returns.
// No bytes hold no records.
func Scan(data []byte, yield func(Record) error) error {
	return ScanFrom(data, 0, func(r Record, _ int) error { return yield(r) })
}

// ScanFrom is Scan that begins at an offset at which a record begins (0: at the first), and that
// also yields the offset of each record.
func ScanFrom(data []byte, offset int, yield func(r Record, offset int) error) error {
	if len(data) == 0 {
		return nil
	}
	rd, err := NewReader(data)
	if err != nil {
		return err
	}
	var lastIndex uint64
	lastPosition := int64(-1)
	for offset = max(offset, HeaderBytes); offset < len(data); {
		r, size, err := rd.Record(data[offset:])
		if err != nil {
			return fmt.Errorf("segment %d, offset %d: %w", rd.number, offset, err)
		}
		if r.Kind.Part() != rd.part {
			return fmt.Errorf("%w: %s segment %d, offset %d: kind %d", ErrData,
				rd.part, rd.number, offset, r.Kind)
		}
		if r.Index < lastIndex || r.Index == lastIndex && int64(r.Position) <= lastPosition {
			return fmt.Errorf("%w: segment %d, offset %d: record %d.%d after %d.%d", ErrData,
				rd.number, offset, r.Index, r.Position, lastIndex, lastPosition)
		}
		lastIndex, lastPosition = r.Index, int64(r.Position)
		if err := yield(r, offset); err != nil {
			return err
		}
		offset += size
	}
	return nil
}
