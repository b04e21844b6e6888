package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
)

const (
	snapshotMagic   = "TGJS"
	snapshotVersion = 3
	snapshotFixed   = 38 + partBytes*int(partCount)
	partBytes       = 24
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

// Segments lists the segments that the snapshot refers to and does not contain, those of each part
// oldest first.
func (sn *Snapshot) Segments() []SegmentInfo {
	return slices.Concat(sn.view[PartUsage].Segments, sn.view[PartAudit].Segments)
}

// WriteTo writes the snapshot: header, manifests and tails, with a CRC32C at the end. The same
// state gives the same bytes. It runs concurrently with Append.
func (sn *Snapshot) WriteTo(w io.Writer) (int64, error) {
	out := &summed{w: w}
	b := append(make([]byte, 0, blockBytes), snapshotMagic...)
	b = binary.LittleEndian.AppendUint16(b, snapshotVersion)
	b = binary.LittleEndian.AppendUint64(b, sn.usage)
	b = binary.LittleEndian.AppendUint64(b, sn.audit)
	b = binary.LittleEndian.AppendUint64(b, sn.lastIndex)
	b = binary.LittleEndian.AppendUint64(b, uint64(sn.lastPosition))
	for i := range sn.view {
		b = binary.LittleEndian.AppendUint64(b, sn.view[i].First)
		b = binary.LittleEndian.AppendUint64(b, uint64(len(sn.view[i].Segments)))
		b = binary.LittleEndian.AppendUint64(b, uint64(len(sn.view[i].Tail)))
	}
	for i := range sn.view {
		b = out.part(b, &sn.view[i])
	}
	if out.err != nil {
		return out.written, out.err
	}
	return out.written + 4, out.end()
}

// summed writes and sums until the first error, which stays.
type summed struct {
	w       io.Writer
	sum     uint32
	written int64
	err     error
}

// part appends a part to b, and returns b with the bytes not written yet.
func (s *summed) part(b []byte, v *PartView) []byte {
	for _, info := range v.Segments {
		b = appendInfo(b, info)
		if len(b)+infoBytes > cap(b) {
			s.write(b)
			b = b[:0]
		}
	}
	s.write(b)
	for tail := v.Tail; len(tail) > 0; {
		n := min(len(tail), blockBytes)
		s.write(tail[:n])
		tail = tail[n:]
	}
	return b[:0]
}

func (s *summed) write(b []byte) {
	if s.err != nil {
		return
	}
	s.sum = crc32.Update(s.sum, castagnoli, b)
	n, err := s.w.Write(b)
	s.written += int64(n)
	s.err = err
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

func readInfo(p Part, b []byte) SegmentInfo {
	v := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	return SegmentInfo{
		Part: p, Number: v(0), FirstIndex: v(1), LastIndex: v(2), Length: v(3), Records: v(4),
		Hash: v(5), MinAt: int64(v(6)), MaxAt: int64(v(7)), EventsThrough: v(8),
	}
}

// Restore replaces the journal by that of a Snapshot. It reads the snapshot's bytes and no more.
// Readers may run concurrently and see the state before or after; the writer may not. After an
// error the journal is as it was.
func (j *Journal) Restore(r io.Reader) error {
	in := &checked{r: r, room: j.room()}
	head, err := in.read(nil, snapshotFixed)
	if err != nil {
		return err
	}
	if string(head[:4]) != snapshotMagic || binary.LittleEndian.Uint16(head[4:]) != snapshotVersion {
		return fmt.Errorf("%w: no snapshot of version %d", ErrData, snapshotVersion)
	}
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(head[6+8*i:]) }
	var restored [partCount]restoredPart
	for i, p := range Parts() {
		at := 4 + 3*i
		if restored[i], err = in.part(p, field(at), field(at+1), field(at+2)); err != nil {
			return err
		}
	}
	if err := in.close(); err != nil {
		return err
	}
	for i := range restored {
		if err := restored[i].check(); err != nil {
			return err
		}
	}
	v := &view{}
	for i := range restored {
		r, t := &restored[i], &j.tails[i]
		t.reset(r.open)
		t.base, t.buf = r.base, r.tail
		t.hash()
		if len(r.tail) > 0 {
			t.memory = &buffer{data: r.tail[:cap(r.tail)], paged: len(r.tail)}
		}
		v[i].first, v[i].segments = r.first, r.segments
		v[i].memory, v[i].tailAt = t.memory, r.base.at
		v[i].length.Store(int64(len(r.tail)))
	}
	j.view.Store(v)
	j.usage, j.audit = field(0), field(1)
	j.lastIndex, j.lastPosition = field(2), uint32(field(3))
	j.shownUsage.Store(j.usage)
	j.shownAudit.Store(j.audit)
	return nil
}

// restoredPart is a part as a snapshot describes it.
type restoredPart struct {
	first    uint64
	segments []SegmentInfo
	tail     []byte
	open     SegmentInfo
	base     base
}

// check reads the tail, and describes it.
func (r *restoredPart) check() error {
	o := &r.open
	o.Number = r.first + uint64(len(r.segments))
	if len(r.segments) > 0 {
		o.EventsThrough = r.segments[len(r.segments)-1].EventsThrough
	}
	err := Scan(r.tail, func(record Record) error {
		if o.Records++; o.Records == 1 {
			o.FirstIndex, o.MinAt, o.MaxAt = record.Index, record.At, record.At
		}
		if record.Kind == KindUsage {
			o.EventsThrough++
		}
		o.LastIndex = record.Index
		o.MinAt, o.MaxAt = min(o.MinAt, record.At), max(o.MaxAt, record.At)
		return nil
	})
	if err != nil || len(r.tail) == 0 {
		return err
	}
	rd, err := NewReader(r.tail)
	if err != nil {
		return err
	}
	if rd.number != o.Number || rd.part != o.Part {
		return fmt.Errorf("%w: tail is %s segment %d, not %s", ErrData, rd.part, rd.number, o)
	}
	r.base = rd.base
	return nil
}

// checked reads and sums.
type checked struct {
	r    io.Reader
	sum  uint32
	room int // of a tail
}

// read appends n bytes to dst, in steps, so that a false n costs no memory.
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

// part reads a part's manifest and tail.
func (c *checked) part(p Part, first, count, size uint64) (r restoredPart, err error) {
	// Only audit blocks are ever dropped; numbers are below 2^63, so that they can be counted on.
	if first == 0 || first > math.MaxInt64 || p == PartUsage && first != 1 {
		return r, fmt.Errorf("%w: the %s part begins at segment %d", ErrData, p, first)
	}
	if size > maxTailBytes {
		return r, fmt.Errorf("%w: tail of %d bytes", ErrData, size)
	}
	r.first, r.open.Part = first, p
	var buf []byte
	for i := range count {
		if buf, err = c.read(buf[:0], infoBytes); err != nil {
			return r, err
		}
		info := readInfo(p, buf)
		if info.Number != first+i {
			return r, fmt.Errorf("%w: segment %d in place of %d", ErrData, info.Number, first+i)
		}
		r.segments = append(r.segments, info)
	}
	if size > 0 {
		r.tail = make([]byte, 0, min(c.room, max(firstTail, 2*int(size))))
	}
	r.tail, err = c.read(r.tail, int(size))
	return r, err
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
