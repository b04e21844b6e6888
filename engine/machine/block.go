package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"tollgate/engine/page"
	"tollgate/engine/wire"
)

const (
	// maxBlock bounds a block that a reader believes in.
	maxBlock = 1 << 30
	// blockStep is how much of a block is read at a time, so that a false length reserves little.
	blockStep = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// BlockWriter writes the parts of a snapshot, until the first error, which stays. A block is its
// length (4 bytes), the bytes, their CRC32C (4 bytes); integers are little endian.
type BlockWriter struct {
	Dst io.Writer
	// N counts the bytes that were written.
	N   int64
	Err error
	buf []byte
}

// Write writes bytes as they are.
func (w *BlockWriter) Write(b []byte) {
	if w.Err != nil {
		return
	}
	n, err := w.Dst.Write(b)
	w.N, w.Err = w.N+int64(n), err
}

// Block writes a record as a block.
func (w *BlockWriter) Block(v wire.Fielder) {
	w.buf = wire.Encode(append(w.buf[:0], 0, 0, 0, 0), v)
	body := w.buf[4:]
	if len(body) > maxBlock && w.Err == nil {
		w.Err = fmt.Errorf("block of %d bytes", len(body))
	}
	binary.LittleEndian.PutUint32(w.buf, uint32(len(body)))
	w.Write(binary.LittleEndian.AppendUint32(w.buf, crc32.Checksum(body, castagnoli)))
}

// Part writes a part that has its own format.
func (w *BlockWriter) Part(p io.WriterTo) {
	if w.Err != nil {
		return
	}
	n, err := p.WriteTo(w.Dst)
	w.N, w.Err = w.N+n, err
}

// BlockReader reads what BlockWriter wrote, and no more.
type BlockReader struct {
	Src io.Reader
	buf []byte
}

// Begin reads the header of a snapshot.
func (r *BlockReader) Begin(magic string) error {
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(r.Src, head); err != nil {
		return err
	}
	if string(head) != magic {
		return errors.New("it does not begin like one of this format")
	}
	return nil
}

// Block reads a block into v.
func (r *BlockReader) Block(v wire.Fielder) error {
	var head [4]byte
	if _, err := io.ReadFull(r.Src, head[:]); err != nil {
		return err
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size > maxBlock {
		return fmt.Errorf("block of %d bytes", size)
	}
	r.buf = r.buf[:0]
	for rest := int(size) + 4; rest > 0; {
		step := min(rest, blockStep)
		at := len(r.buf)
		r.buf = append(r.buf, make([]byte, step)...)
		if _, err := io.ReadFull(r.Src, r.buf[at:]); err != nil {
			return err
		}
		rest -= step
	}
	body := r.buf[:size]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(r.buf[size:]) {
		return errors.New("checksum of a block")
	}
	return wire.Decode(body, v)
}

// RecordCodec states a row's bytes in a snapshot: their number as an unsigned varint, and the row's
// fields as wire has them. A field more is not a new format.
func RecordCodec[T any, P Payload[T]]() page.Codec[T] {
	return page.Codec[T]{
		Append: func(dst []byte, r *T) []byte {
			return Measured(wire.Encode(append(dst, 0), P(r)), len(dst))
		},
		Read: func(src []byte, r *T) ([]byte, error) {
			size, n := binary.Uvarint(src)
			if n <= 0 || size > uint64(len(src)-n) {
				return nil, errTruncated
			}
			src = src[n:]
			return src[size:], wire.Decode(src[:size], P(r))
		},
	}
}

// Measured replaces a placeholder byte by the length of the bytes after it; more than 127 takes
// more bytes.
func Measured(b []byte, at int) []byte {
	size := uint64(len(b) - at - 1)
	var head [binary.MaxVarintLen64]byte
	if n := binary.PutUvarint(head[:], size); n > 1 {
		b = append(b, head[:n-1]...) // their values do not matter
		copy(b[at+n:], b[at+1:len(b)-n+1])
		copy(b[at:], head[:n])
		return b
	}
	b[at] = byte(size)
	return b
}
