package rollups

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"path/filepath"
	"sort"

	"tollgate/engine/journal"
	"tollgate/engine/rollup"
	"tollgate/wal"
)

const (
	magic         = "TGRU"
	formatVersion = 1
	lineBytes     = 32
	footerBytes   = 68
	// suffix is that of a file's name, temporary that of one that is being written.
	suffix    = ".run"
	temporary = ".run.tmp"
)

// ErrDamaged means that a file does not have the bytes that it was written with. It is removed, and
// made again.
var ErrDamaged = errors.New("rollups: a file of counts is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// line is where a block is, and its first key.
type line struct {
	rollup.Key
	offset      uint64
	length, sum uint32
}

// run is a file of the cells of consecutive segments. It never changes; its reader opens it.
type run struct {
	part        journal.Part
	first, last uint64 // segments
	// hash is a hash of the hashes of the segments: it tells their history.
	hash uint64
	// from and to bound the hours, both included; of a run without cells from is larger.
	from, to int32
	cells    uint64
	dir      []line
}

func (r *run) name() string {
	return fmt.Sprintf("%s-%010d-%010d%s", r.part, r.first, r.last, suffix)
}

// hashOf is a hash of the hashes of segments.
func hashOf(list []journal.SegmentInfo) uint64 {
	hash := uint64(len(list))
	for i := range list {
		hash = (hash ^ list[i].Hash) * 0x9e3779b97f4a7c15
		hash ^= hash >> 29
	}
	return hash
}

// of reports whether a run was made of the segments that a journal has.
func (r *run) of(view *journal.PartView) bool {
	return r.first >= view.First && r.last < view.First+uint64(len(view.Segments)) &&
		r.hash == hashOf(view.Segments[r.first-view.First:][:r.last-r.first+1])
}

// readRun reads a file's footer and its directory and checks them; blocks are checked when they are
// read. An error that is not ErrDamaged says nothing about the file.
func readRun(files wal.FS, dir, name string, counted *rollup.Versions) (_ *run, err error) {
	file, err := files.OpenRead(filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("rollups: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r := &run{}
	if err := r.read(file, counted); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if r.name() != name {
		return nil, fmt.Errorf("%w: %s has the cells of %s", ErrDamaged, name, r.name())
	}
	return r, nil
}

// readAt fills data from a file. One that is too short is damaged; a disk that cannot read says
// nothing about it.
func readAt(file wal.File, data []byte, at int64) error {
	n, err := file.ReadAt(data, at)
	switch {
	case n == len(data):
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return fmt.Errorf("rollups: %w", err)
}

func (r *run) read(file wal.File, counted *rollup.Versions) error {
	size, err := file.Size()
	if err != nil {
		return fmt.Errorf("rollups: %w", err)
	}
	var f [footerBytes]byte
	if size < footerBytes {
		return fmt.Errorf("%w: %d bytes", ErrDamaged, size)
	}
	if err := readAt(file, f[:], size-footerBytes); err != nil {
		return err
	}
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(f[at:]) }
	u64 := func(at int) uint64 { return binary.LittleEndian.Uint64(f[at:]) }
	lines := int64(u32(56))
	if string(f[:4]) != magic || u32(4) != formatVersion || f[8] > byte(journal.PartAudit) ||
		u32(64) != crc32.Checksum(f[:64], castagnoli) || lines*lineBytes > size-footerBytes {
		return fmt.Errorf("%w: no footer of version %d", ErrDamaged, formatVersion)
	}
	if u32(52) != counted[f[8]] {
		return fmt.Errorf("%w: counted by version %d", ErrDamaged, u32(52))
	}
	r.part, r.first, r.last, r.hash = journal.Part(f[8]), u64(12), u64(20), u64(28)
	r.from, r.to, r.cells = int32(u32(36)), int32(u32(40)), u64(44)
	data := make([]byte, lines*lineBytes)
	if err := readAt(file, data, size-footerBytes-int64(len(data))); err != nil {
		return err
	}
	if crc32.Checksum(data, castagnoli) != u32(60) {
		return fmt.Errorf("%w: directory", ErrDamaged)
	}
	r.dir = make([]line, lines)
	for i := range r.dir {
		b := data[i*lineBytes:]
		r.dir[i] = line{
			Key: rollup.Key{
				Owner: binary.LittleEndian.Uint64(b), Item: binary.LittleEndian.Uint32(b[8:]),
				Hour: int32(binary.LittleEndian.Uint32(b[12:])),
			},
			offset: binary.LittleEndian.Uint64(b[16:]),
			length: binary.LittleEndian.Uint32(b[24:]), sum: binary.LittleEndian.Uint32(b[28:]),
		}
	}
	return nil
}

// footer is what a file ends with, behind its directory.
func (r *run) footer(directory []byte, counted *rollup.Versions) []byte {
	f := append(make([]byte, 0, footerBytes), magic...)
	f = binary.LittleEndian.AppendUint32(f, formatVersion)
	f = append(f, byte(r.part), 0, 0, 0)
	for _, v := range [...]uint64{r.first, r.last, r.hash} {
		f = binary.LittleEndian.AppendUint64(f, v)
	}
	f = binary.LittleEndian.AppendUint32(f, uint32(r.from))
	f = binary.LittleEndian.AppendUint32(f, uint32(r.to))
	f = binary.LittleEndian.AppendUint64(f, r.cells)
	f = binary.LittleEndian.AppendUint32(f, counted[r.part])
	f = binary.LittleEndian.AppendUint32(f, uint32(len(r.dir)))
	f = binary.LittleEndian.AppendUint32(f, crc32.Checksum(directory, castagnoli))
	return binary.LittleEndian.AppendUint32(f, crc32.Checksum(f, castagnoli))
}

// sum yields the cells that are asked for.
func (r *run) sum(file wal.File, q *rollup.Query, yield func(rollup.Cell) error) error {
	// The block before the first one that begins with the owner may end with it.
	at := sort.Search(len(r.dir), func(i int) bool {
		return r.dir[i].Compare(rollup.Key{Owner: q.Owner, Hour: math.MinInt32}) > 0
	})
	for at = max(at-1, 0); at < len(r.dir) && r.dir[at].Owner <= q.Last(); at++ {
		if !r.mayHave(at, q) {
			continue
		}
		err := r.block(file, at, func(c rollup.Cell) error {
			if !q.Has(c.Key) {
				return nil
			}
			return yield(c)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// mayHave reports whether a block, which ends before the next one begins, may have cells that are
// asked for.
func (r *run) mayHave(at int, q *rollup.Query) bool {
	first := r.dir[at].Key
	if at+1 == len(r.dir) {
		return true
	}
	next := r.dir[at+1].Key
	if first.Owner < q.Owner || first.Owner != next.Owner {
		return true
	}
	if q.HasItem && (first.Item > q.Item || next.Item < q.Item) {
		return false
	}
	if first.Item == next.Item {
		return first.Hour < q.To && next.Hour > q.From
	}
	return true
}

func (r *run) block(file wal.File, at int, yield func(rollup.Cell) error) error {
	l := &r.dir[at]
	data := make([]byte, l.length)
	if err := readAt(file, data, int64(l.offset)); err != nil {
		return fmt.Errorf("%s: %w", r.name(), err)
	}
	if crc32.Checksum(data, castagnoli) != l.sum {
		return fmt.Errorf("%w: %s, block %d", ErrDamaged, r.name(), at)
	}
	return rollup.ReadBlock(data, yield)
}
