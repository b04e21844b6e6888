package segments

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sort"

	"tollgate/engine/journal"
	"tollgate/wal"
)

const (
	indexMagic   = "TGSI"
	indexVersion = 2
	headerBytes  = 76
	// blockEntries is how many entries a block has: a lookup reads one block.
	blockEntries = 128
	dirBytes     = 44 // bytes of a block's line in the directory
	// markEvents is how many usage events there are from one mark to the next.
	markEvents = 128
)

// errIndex means that a side index is damaged; it is then made again from its segment.
var errIndex = errors.New("segments: damaged side index")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// entry says where an item of an owner is.
type entry struct {
	at       int64
	index    uint64
	owner    uint32
	position uint32
	ordinal  uint32
	offset   uint32
	kind     journal.Kind
}

// compare orders entries by owner, and then as listings are ordered.
func (e *entry) compare(o *entry) int {
	switch {
	case e.owner != o.owner:
		return cmp.Compare(e.owner, o.owner)
	case e.at != o.at:
		return cmp.Compare(e.at, o.at)
	case e.index != o.index:
		return cmp.Compare(e.index, o.index)
	case e.position != o.position:
		return cmp.Compare(e.position, o.position)
	}
	return cmp.Compare(e.ordinal, o.ordinal)
}

// span bounds the times of a segment's items.
type span struct{ minAt, maxAt int64 }

// sideIndex finds the items of an owner in a segment, and usage events by their number: its
// directory, which has the first entry of each block, its marks, and while the segment is not on
// disk the blocks.
type sideIndex struct {
	span
	dir []block
	// marks are the offsets of the segment's usage events 1, 1 + markEvents, 1 + 2·markEvents …
	marks []uint32
	body  []byte // nil when the blocks are in the file, from start on
	// start is the offset of the first block in the file.
	start int64
	count uint64
}

// block is a block's line in the directory.
type block struct {
	first  entry
	begin  uint32 // offset in the body
	sum    uint32 // CRC32C of the block
	length uint32
}

func (ix *sideIndex) bytes() int64 {
	return int64(len(ix.dir))*56 + int64(len(ix.marks))*4 + int64(len(ix.body)) + 120
}

// recordBytes is about how long a usage event is in the journal.
const recordBytes = 112

// collect makes the entries of a segment's records from offset on, in the order of records and in
// room, and the marks, counted from there.
func collect(room []entry, data []byte, offset int, ix journal.Indexer) (
	entries []entry, marks []uint32, err error,
) {
	if len(data) == 0 {
		return nil, nil, nil
	}
	events := 0
	var e entry
	entries = slices.Grow(room[:0], (len(data)-offset)/recordBytes+1)
	add := func(owner uint32, at int64, ordinal uint32) {
		e.owner, e.at, e.ordinal = owner, at, ordinal
		entries = append(entries, e)
	}
	err = journal.ScanFrom(data, offset, func(r journal.Record, at int) error {
		e = entry{index: r.Index, position: r.Position, offset: uint32(at), kind: r.Kind}
		if r.Kind == journal.KindUsage {
			if events%markEvents == 0 {
				marks = append(marks, uint32(at))
			}
			events++
		}
		ix(r, add)
		return nil
	})
	return entries, marks, err
}

// entryBytes is about how long an entry is in a block.
const entryBytes = 10

// build makes the side index of a segment's bytes.
func build(data []byte, ix journal.Indexer) (*sideIndex, error) {
	room := sortingRooms.Get().(*sortingRoom)
	defer sortingRooms.Put(room)
	entries, marks, err := collect(room.entries, data, 0, ix)
	if err != nil {
		return nil, err
	}
	room.entries = entries
	entries = room.order(entries)
	// The body is in memory, also when nothing is in it: all checks may be of unknown customers.
	x := &sideIndex{
		count: uint64(len(entries)), marks: marks, body: make([]byte, 0, entryBytes*len(entries)),
		dir: make([]block, 0, (len(entries)+blockEntries-1)/blockEntries),
	}
	x.span = spanOf(entries)
	for len(entries) > 0 {
		n := min(blockEntries, len(entries))
		begin := len(x.body)
		x.body = appendBlock(x.body, entries[:n])
		x.dir = append(x.dir, block{
			first: entries[0], begin: uint32(begin), length: uint32(len(x.body) - begin),
			sum: crc32.Checksum(x.body[begin:], castagnoli),
		})
		entries = entries[n:]
	}
	return x, nil
}

func spanOf(entries []entry) span {
	if len(entries) == 0 {
		return span{1, 0} // meets nothing
	}
	s := span{entries[0].at, entries[0].at}
	for i := range entries {
		s.minAt, s.maxAt = min(s.minAt, entries[i].at), max(s.maxAt, entries[i].at)
	}
	return s
}

// appendBlock appends entries, each as its difference from the one before.
func appendBlock(dst []byte, entries []entry) []byte {
	var last entry
	for i := range entries {
		e := &entries[i]
		dst = append(dst, byte(e.kind))
		dst = binary.AppendUvarint(dst, uint64(e.owner-last.owner))
		dst = binary.AppendVarint(dst, e.at-last.at)
		dst = binary.AppendVarint(dst, int64(e.index-last.index))
		dst = binary.AppendUvarint(dst, uint64(e.position))
		dst = binary.AppendVarint(dst, int64(e.offset)-int64(last.offset))
		dst = binary.AppendUvarint(dst, uint64(e.ordinal))
		last = *e
	}
	return dst
}

// readBlock reads the entries of a block, whose checksum is right.
func readBlock(b []byte, entries []entry) ([]entry, error) {
	entries = entries[:0]
	var e entry
	for len(b) > 0 {
		e.kind = journal.Kind(b[0])
		b = b[1:]
		e.owner += uint32(uvarint(&b))
		e.at += varint(&b)
		e.index += uint64(varint(&b))
		e.position = uint32(uvarint(&b))
		e.offset += uint32(varint(&b))
		e.ordinal = uint32(uvarint(&b))
		if b == nil {
			return nil, errIndex
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// uvarint and varint read from the front of b, which becomes nil when there is no number.
func uvarint(b *[]byte) uint64 {
	v, n := binary.Uvarint(*b)
	if n <= 0 {
		*b = nil
		return 0
	}
	*b = (*b)[n:]
	return v
}

func varint(b *[]byte) int64 {
	u := uvarint(b)
	return int64(u>>1) ^ -int64(u&1)
}

// encode makes the file: header, directory, marks, blocks.
func (x *sideIndex) encode(info journal.SegmentInfo) []byte {
	b := make([]byte, 0, x.bodyAt()+int64(len(x.body)))
	b = append(b, indexMagic...)
	b = append(b, indexVersion, 0, 0, 0)
	for _, v := range [...]uint64{
		info.Number, info.Length, info.Hash, x.count, uint64(len(x.dir)),
		uint64(x.minAt), uint64(x.maxAt), uint64(len(x.marks)),
	} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	for i := range x.dir {
		b = x.dir[i].append(b)
	}
	for _, offset := range x.marks {
		b = binary.LittleEndian.AppendUint32(b, offset)
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[headerBytes:], castagnoli))
	return append(b, x.body...)
}

// bodyAt is where the blocks begin in the file.
func (x *sideIndex) bodyAt() int64 {
	return int64(headerBytes + len(x.dir)*dirBytes + 4*len(x.marks) + 4)
}

// inFile is an index that was encoded, with its blocks in the file alone.
func (x *sideIndex) inFile() *sideIndex {
	y := *x
	y.body, y.start = nil, x.bodyAt()
	return &y
}

func (k *block) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(k.first.at))
	b = binary.LittleEndian.AppendUint64(b, k.first.index)
	for _, v := range [...]uint32{
		k.first.owner, k.first.position, k.first.ordinal, k.first.offset,
		k.begin, k.length, k.sum,
	} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

func readDirLine(b []byte) block {
	v := func(i int) uint32 { return binary.LittleEndian.Uint32(b[16+4*i:]) }
	return block{
		first: entry{
			at:    int64(binary.LittleEndian.Uint64(b)),
			index: binary.LittleEndian.Uint64(b[8:]),
			owner: v(0), position: v(1), ordinal: v(2), offset: v(3),
		},
		begin: v(4), length: v(5), sum: v(6),
	}
}

// readIndex reads the header and the directory of a side index.
func readIndex(f wal.File, info journal.SegmentInfo) (*sideIndex, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	var head [headerBytes]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return nil, fmt.Errorf("%w: %w", errIndex, err)
	}
	v := func(i int) uint64 { return binary.LittleEndian.Uint64(head[8+8*i:]) }
	sum := binary.LittleEndian.Uint32(head[headerBytes-4:])
	if string(head[:4]) != indexMagic || head[4] != indexVersion ||
		crc32.Checksum(head[:headerBytes-4], castagnoli) != sum ||
		v(0) != info.Number || v(1) != info.Length || v(2) != info.Hash ||
		v(4) > uint64(size)/dirBytes || v(7) > uint64(size)/4 {
		return nil, errIndex
	}
	dir := make([]byte, v(4)*dirBytes+4*v(7)+4)
	if _, err := f.ReadAt(dir, headerBytes); err != nil {
		return nil, fmt.Errorf("%w: %w", errIndex, err)
	}
	lines := dir[:len(dir)-4]
	if crc32.Checksum(lines, castagnoli) != binary.LittleEndian.Uint32(dir[len(lines):]) {
		return nil, errIndex
	}
	x := &sideIndex{
		span: span{int64(v(5)), int64(v(6))}, count: v(3),
		start: int64(headerBytes + len(dir)),
		dir:   make([]block, 0, v(4)),
		marks: make([]uint32, 0, v(7)),
	}
	for ; uint64(len(x.dir)) < v(4); lines = lines[dirBytes:] {
		x.dir = append(x.dir, readDirLine(lines))
	}
	for ; len(lines) > 0; lines = lines[4:] {
		x.marks = append(x.marks, binary.LittleEndian.Uint32(lines))
	}
	return x, nil
}

// seek returns the number of the block in which the first entry ≥ e is, if there is one.
func (x *sideIndex) seek(e *entry) int {
	n := sort.Search(len(x.dir), func(i int) bool { return x.dir[i].first.compare(e) > 0 })
	return max(n-1, 0)
}

// block returns the bytes of a block, checked. f may be nil when the blocks are in memory.
func (x *sideIndex) block(f wal.File, n int) ([]byte, error) {
	k := x.dir[n]
	if x.body != nil {
		return x.body[k.begin : k.begin+k.length], nil
	}
	b := make([]byte, k.length)
	if _, err := f.ReadAt(b, x.start+int64(k.begin)); err != nil {
		return nil, fmt.Errorf("%w: %w", errIndex, err)
	}
	if crc32.Checksum(b, castagnoli) != k.sum {
		return nil, errIndex
	}
	return b, nil
}
