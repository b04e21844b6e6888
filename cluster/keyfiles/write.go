package keyfiles

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
	"path/filepath"
	"slices"

	"github.com/FastFilter/xorfilter"

	"tollgate/wal"
)

const (
	// writeBytes is how much is written at a time.
	writeBytes = 256 << 10
	// syncBytes is how much is written between two fsyncs: one at the end alone would hold up the
	// log's, on the same disk, for as long as it takes.
	syncBytes = 16 << 20
)

// writer writes a run from its first record to its footer: sorted records, no key twice. Directory
// and filters are those that the run has in memory then: they are not read again.
type writer struct {
	*run
	fs       wal.FS
	tmp      string // name of the file until it is whole
	pace     *pace
	buf      []byte
	page     []byte
	unsynced int

	shards  int      // filters that are made
	pending []uint64 // keys of the filter that is open
	builder xorfilter.BinaryFuseBuilder
}

// newWriter begins the file of a range of segments with at most that many keys.
func (s *Store) newWriter(of scope, keys uint64, p *pace) (_ *writer, err error) {
	if need := fileBytes(keys); !s.opts.Room(need) {
		return nil, fmt.Errorf("%w: %s needs %d MiB; nothing was changed; give the disk more room",
			ErrNoRoom, of.name(), need>>20)
	}
	filters := 1
	for uint64(filters)*uint64(s.opts.ShardKeys) < keys {
		filters *= 2
	}
	w := &writer{
		run: &run{
			scope: of, path: filepath.Join(s.dir, of.name()),
			dir:     make([]uint64, 0, (keys+pageRecords-1)/pageRecords),
			filters: make([]xorfilter.BinaryFuse8, filters),
			shift:   64 - bits.TrailingZeros(uint(filters)),
		},
		fs: s.opts.FS, page: make([]byte, 4, pageBytes), pace: p,
	}
	w.tmp = fmt.Sprintf("%s.%d.tmp", w.path, s.number.Add(1))
	w.file, err = w.fs.Create(w.tmp)
	return w, err
}

// fileBytes is about how long a file of so many keys is, in bytes.
func fileBytes(keys uint64) uint64 { return 30*keys + pageBytes }

func (w *writer) add(e *record) error {
	for shard := int(e.high >> w.shift); w.shards < shard; {
		if err := w.endFilter(); err != nil {
			return err
		}
	}
	w.pending = append(w.pending, e.high)
	if len(w.page) == 4 {
		w.dir = append(w.dir, e.high)
	}
	w.page = e.append(w.page)
	w.records++
	if len(w.page) == 4+pageRecords*recordBytes {
		return w.endPage()
	}
	return nil
}

// endPage writes the page that is open, if there is one.
func (w *writer) endPage() error {
	if len(w.page) == 4 {
		return nil
	}
	records := (len(w.page) - 4) / recordBytes
	page := w.page[:pageBytes-4]
	clear(page[len(w.page):])
	binary.LittleEndian.PutUint32(page, uint32(records))
	page = binary.LittleEndian.AppendUint32(page, crc32.Checksum(page, castagnoli))
	w.page = w.page[:4]
	return w.write(page)
}

// endFilter makes the filter of the keys so far, and begins the next.
func (w *writer) endFilter() error {
	var f xorfilter.BinaryFuse[uint8]
	if len(w.pending) > 0 {
		var err error
		if f, err = xorfilter.BuildBinaryFuse[uint8](&w.builder, w.pending); err != nil {
			return fmt.Errorf("keyfiles: filter of %d keys: %w", len(w.pending), err)
		}
	}
	f.Fingerprints = bytes.Clone(f.Fingerprints) // the builder's until now
	w.filters[w.shards] = xorfilter.BinaryFuse8(f)
	w.shards++
	w.pending = w.pending[:0]
	return nil
}

func (w *writer) write(b []byte) error {
	w.buf = append(w.buf, b...)
	w.size += uint64(len(b))
	if len(w.buf) < writeBytes {
		return nil
	}
	return w.flush()
}

func (w *writer) flush() error {
	_, err := w.file.WriteAt(w.buf, int64(w.size)-int64(len(w.buf)))
	w.unsynced += len(w.buf)
	w.buf = w.buf[:0]
	if err == nil && w.unsynced >= syncBytes {
		if err = w.file.Sync(); err == nil {
			err = w.pace.did(w.unsynced)
		}
		w.unsynced = 0
	}
	return err
}

// finish ends the file and makes it durable, under its first name. Where it fails, there is none.
func (w *writer) finish() error {
	err := w.end()
	if err == nil {
		err = w.file.Sync()
	}
	if err != nil {
		return w.abandon(err)
	}
	if err := w.file.Close(); err != nil {
		return w.remove(err)
	}
	if waste := cap(w.dir) - len(w.dir); waste > len(w.dir)/8 {
		w.dir = slices.Clone(w.dir)
	}
	return nil
}

// abandon gives up a file that is not to be.
func (w *writer) abandon(err error) error { return w.remove(joinClose(err, w.file)) }

// remove removes a file that is not needed, so that it takes no room until the next start.
func (w *writer) remove(err error) error { return errors.Join(err, w.fs.Remove(w.tmp)) }

// end writes the last page, the directory, the filters and the footer.
func (w *writer) end() error {
	if err := w.endPage(); err != nil {
		return err
	}
	for w.shards < len(w.filters) {
		if err := w.endFilter(); err != nil {
			return err
		}
	}
	sum, rest := uint32(0), uint64(4)
	emit := func(b []byte) error {
		sum = crc32.Update(sum, castagnoli, b)
		rest += uint64(len(b))
		return w.write(b)
	}
	for _, prefix := range w.dir {
		if err := emit(binary.LittleEndian.AppendUint64(nil, prefix)); err != nil {
			return err
		}
	}
	for i := range w.filters {
		f := &w.filters[i]
		b := binary.LittleEndian.AppendUint64(nil, f.Seed)
		for _, n := range []uint32{
			f.SegmentLength, f.SegmentLengthMask, f.SegmentCount, f.SegmentCountLength,
			uint32(len(f.Fingerprints)),
		} {
			b = binary.LittleEndian.AppendUint32(b, n)
		}
		if err := errors.Join(emit(b), emit(f.Fingerprints)); err != nil {
			return err
		}
	}
	if err := w.write(binary.LittleEndian.AppendUint32(nil, sum)); err != nil {
		return err
	}
	footer := binary.LittleEndian.AppendUint32([]byte(magic), version)
	for _, n := range []uint64{
		w.first, w.last, w.hash, w.from, w.through, w.records, uint64(len(w.dir)), rest,
		uint64(len(w.filters)),
	} {
		footer = binary.LittleEndian.AppendUint64(footer, n)
	}
	footer = binary.LittleEndian.AppendUint32(footer, crc32.Checksum(footer, castagnoli))
	if err := w.write(footer); err != nil {
		return err
	}
	return w.flush()
}
