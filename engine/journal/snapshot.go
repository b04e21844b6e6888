package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

const (
	snapshotMagic   = "TGJS"
	snapshotVersion = 2
	snapshotFixed   = 54
	infoBytes       = 72
	// blockBytes is how much is written at a time.
	blockBytes = 1 << 20
	// maxTailBytes bounds the tail that Restore accepts.
	maxTailBytes = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot is the manifest and the open tail at Begin. Both never change, so nothing is copied,
// and any number of snapshots may exist.
type Snapshot struct {
	view         View
	usage, audit uint64
	lastIndex    uint64
	lastPosition uint32
}

// Begin fixes the present state. For the writer, between two entries.
func (j *Journal) Begin() *Snapshot {
	return &Snapshot{
		view: j.View(), usage: j.usage, audit: j.audit,
		lastIndex: j.lastIndex, lastPosition: j.lastPosition,
	}
}

// Segments lists the segments that the snapshot refers to and does not contain, oldest first.
func (sn *Snapshot) Segments() []SegmentInfo { return sn.view.Segments }

// WriteTo writes the snapshot: header, manifest and tail, with a CRC32C at the end. The same
// state gives the same bytes. It runs beside Append.
func (sn *Snapshot) WriteTo(w io.Writer) (int64, error) {
	out := &summed{w: w}
	b := append(make([]byte, 0, blockBytes), snapshotMagic...)
	b = binary.LittleEndian.AppendUint16(b, snapshotVersion)
	b = binary.LittleEndian.AppendUint64(b, sn.usage)
	b = binary.LittleEndian.AppendUint64(b, sn.audit)
	b = binary.LittleEndian.AppendUint64(b, sn.lastIndex)
	b = binary.LittleEndian.AppendUint64(b, uint64(sn.lastPosition))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(sn.view.Segments)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(sn.view.Tail)))
	for _, info := range sn.view.Segments {
		b = appendInfo(b, info)
		if len(b)+infoBytes > cap(b) {
			if err := out.write(b); err != nil {
				return out.written, err
			}
			b = b[:0]
		}
	}
	if err := out.write(b); err != nil {
		return out.written, err
	}
	for tail := sn.view.Tail; len(tail) > 0; {
		n := min(len(tail), blockBytes)
		if err := out.write(tail[:n]); err != nil {
			return out.written, err
		}
		tail = tail[n:]
	}
	return out.written + 4, out.end()
}

// summed writes and sums.
type summed struct {
	w       io.Writer
	sum     uint32
	written int64
}

func (s *summed) write(b []byte) error {
	s.sum = crc32.Update(s.sum, castagnoli, b)
	n, err := s.w.Write(b)
	s.written += int64(n)
	return err
}

func (s *summed) end() error {
	_, err := s.w.Write(binary.LittleEndian.AppendUint32(nil, s.sum))
	return err
}

func appendInfo(b []byte, i SegmentInfo) []byte {
	for _, v := range [...]uint64{
		i.Number, i.FirstIndex, i.LastIndex, i.Length, i.Records, i.Hash,
		uint64(i.MinAt), uint64(i.MaxAt), i.EventsThrough,
	} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func readInfo(b []byte) SegmentInfo {
	v := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	return SegmentInfo{
		Number: v(0), FirstIndex: v(1), LastIndex: v(2), Length: v(3), Records: v(4), Hash: v(5),
		MinAt: int64(v(6)), MaxAt: int64(v(7)), EventsThrough: v(8),
	}
}

// Restore replaces the journal by what a Snapshot wrote. It reads the snapshot's bytes and no
// more. Readers may run beside it and see the state before or after; the writer may not. After
// an error the journal is as it was.
func (j *Journal) Restore(r io.Reader) error {
	in := &checked{r: r}
	head, err := in.read(nil, snapshotFixed)
	if err != nil {
		return err
	}
	if string(head[:4]) != snapshotMagic || binary.LittleEndian.Uint16(head[4:]) != snapshotVersion {
		return fmt.Errorf("%w: no snapshot of version %d", ErrData, snapshotVersion)
	}
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(head[6+8*i:]) }
	segments, err := in.segments(field(4))
	if err != nil {
		return err
	}
	size := field(5)
	if size > maxTailBytes {
		return fmt.Errorf("%w: tail of %d bytes", ErrData, size)
	}
	var tail []byte
	if size > 0 {
		tail = make([]byte, 0, SegmentBytes+slack)
	}
	tail, err = in.read(tail, int(size))
	if err != nil {
		return err
	}
	if err := in.close(); err != nil {
		return err
	}
	if err := j.restore(segments, tail); err != nil {
		return err
	}
	j.usage, j.audit = field(0), field(1)
	j.lastIndex, j.lastPosition = field(2), uint32(field(3))
	j.shownUsage.Store(j.usage)
	j.shownAudit.Store(j.audit)
	return nil
}

// restore makes tail the open tail after segments.
func (j *Journal) restore(segments []SegmentInfo, tail []byte) error {
	open := SegmentInfo{Number: uint64(len(segments)) + 1}
	if len(segments) > 0 {
		open.EventsThrough = segments[len(segments)-1].EventsThrough
	}
	err := Scan(tail, func(r Record) error {
		if open.Records++; open.Records == 1 {
			open.FirstIndex, open.MinAt, open.MaxAt = r.Index, r.At, r.At
		}
		if r.Kind == KindUsage {
			open.EventsThrough++
		}
		open.LastIndex = r.Index
		open.MinAt, open.MaxAt = min(open.MinAt, r.At), max(open.MaxAt, r.At)
		return nil
	})
	if err != nil {
		return err
	}
	var b base
	if len(tail) > 0 {
		rd, err := NewReader(tail)
		if err != nil {
			return err
		}
		if rd.number != open.Number {
			return fmt.Errorf("%w: tail is segment %d, not %d", ErrData, rd.number, open.Number)
		}
		b = rd.base
	}
	j.reset(open)
	j.base, j.buf = b, tail
	if _, err := j.digest.Write(tail); err != nil {
		panic(err) // documented never to happen
	}
	j.hashed = len(tail)
	v := &view{segments: segments, buf: j.buf[:cap(j.buf)]}
	v.length.Store(int64(len(tail)))
	j.view.Store(v)
	return nil
}

// checked reads and sums.
type checked struct {
	r   io.Reader
	sum uint32
}

// read appends n bytes to dst, in steps, so that a lie about n costs no memory.
func (c *checked) read(dst []byte, n int) ([]byte, error) {
	for n > 0 {
		step, at := min(n, blockBytes), len(dst)
		dst = append(dst, make([]byte, step)...)
		if _, err := io.ReadFull(c.r, dst[at:]); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrData, err)
		}
		c.sum = crc32.Update(c.sum, castagnoli, dst[at:])
		n -= step
	}
	return dst, nil
}

func (c *checked) segments(count uint64) ([]SegmentInfo, error) {
	var list []SegmentInfo
	var buf []byte
	for i := range count {
		var err error
		if buf, err = c.read(buf[:0], infoBytes); err != nil {
			return nil, err
		}
		info := readInfo(buf)
		if info.Number != i+1 {
			return nil, fmt.Errorf("%w: segment %d in the place of %d", ErrData, info.Number, i+1)
		}
		list = append(list, info)
	}
	return list, nil
}

func (c *checked) close() error {
	var b [4]byte
	if _, err := io.ReadFull(c.r, b[:]); err != nil {
		return fmt.Errorf("%w: %w", ErrData, err)
	}
	if binary.LittleEndian.Uint32(b[:]) != c.sum {
		return fmt.Errorf("%w: checksum of the snapshot", ErrData)
	}
	return nil
}
