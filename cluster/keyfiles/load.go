package keyfiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/FastFilter/xorfilter"

	"tollgate/engine/journal"
	"tollgate/wal"
)

const (
	// loadTries is how often a file that cannot be read is tried before it is given up: an error
	// of the disk may pass, and what is given up takes long to be made again.
	loadTries = 3
	// asideSuffix ends the new name of an obstacle that cannot be removed, such as a
	// directory.
	asideSuffix = ".aside"
	// loadPages is how many entries of a directory are read at a time.
	loadPages = 8192
)

// load takes in the next file of those that an earlier process left; did is false when there is
// none left. What cannot be used is removed or, where it cannot be removed, put aside: it never
// keeps the others from being taken in.
func (s *Store) load() (did bool, err error) {
	if s.loaded.Load() {
		return false, nil
	}
	if s.names == nil {
		if s.names, err = s.list(); err != nil {
			return false, fmt.Errorf("keyfiles: %w", err)
		}
	}
	if len(s.names) == 0 {
		s.loaded.Store(true)
		return true, nil
	}
	name := s.names[0]
	r, err := s.adopt(name)
	if err != nil && !hopeless(err) {
		if s.tries++; s.tries < loadTries {
			return false, err
		}
	}
	s.names, s.tries = s.names[1:], 0
	switch {
	case err != nil:
		s.damages.Add(1)
		return true, s.discard(name)
	case r == nil:
		return true, s.discard(name)
	}
	s.change.Lock()
	defer s.change.Unlock()
	v := s.view.Load()
	s.show(append(slices.Clone(v.runs), r), v.base)
	return true, nil
}

// list lists the directory, which it creates if needed: oldest segments first, and of those that
// begin alike the longest, which was merged from the others.
func (s *Store) list() ([]string, error) {
	fs := s.opts.FS
	look := func() ([]string, error) {
		if err := fs.MkdirAll(s.dir); err != nil {
			return nil, err
		}
		return fs.List(s.dir)
	}
	names, err := look()
	if err != nil && fs.Remove(s.dir) == nil { // a file in place of the directory
		names, err = look()
	}
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return strings.HasSuffix(name, asideSuffix)
	})
	slices.SortFunc(names, func(a, b string) int {
		x, _, _ := strings.Cut(a, "-")
		y, _, _ := strings.Cut(b, "-")
		if x != y {
			return strings.Compare(x, y)
		}
		return strings.Compare(b, a)
	})
	return append([]string{}, names...), nil
}

// adopt opens a file; nil for one that is of no use, ErrDamaged for one that never will be.
func (s *Store) adopt(name string) (*run, error) {
	if !strings.HasSuffix(name, runSuffix) {
		return nil, nil
	}
	r, err := openRun(s.opts.FS, filepath.Join(s.dir, name))
	if err != nil {
		return nil, err
	}
	runs := s.view.Load().runs
	switch {
	case r.name() != name, foreign(r, s.opts.Journal.Outline()[journal.PartUsage].Segments):
		err = fmt.Errorf("%w: %s is of another journal", ErrDamaged, r.path)
	case len(runs) == 0 || r.first > runs[len(runs)-1].last:
		return r, nil
	}
	return nil, errors.Join(err, r.release())
}

// hopeless reports whether a file cannot be read later, either.
func hopeless(err error) bool {
	return errors.Is(err, ErrDamaged) || errors.Is(err, syscall.EISDIR) ||
		errors.Is(err, os.ErrNotExist)
}

// discard removes a file that is not to be used, or gives it a name that is not in the way.
func (s *Store) discard(name string) error {
	path := filepath.Join(s.dir, name)
	err := s.opts.FS.Remove(path)
	if err == nil {
		return nil
	}
	if aside := s.opts.FS.Rename(path, path+asideSuffix); aside != nil {
		return fmt.Errorf("keyfiles: %w; %w", err, aside)
	}
	return nil
}

// openRun opens a file and reads the parts that are kept in memory.
func openRun(fs wal.FS, path string) (_ *run, err error) {
	f, err := fs.OpenRead(path)
	if err != nil {
		return nil, err
	}
	r := &run{path: path, file: f}
	if err = r.load(); err != nil {
		return nil, joinClose(err, f)
	}
	r.readers.Store(1)
	return r, nil
}

func joinClose(err error, f wal.File) error {
	if cerr := f.Close(); cerr != nil {
		return fmt.Errorf("%w; %w", err, cerr)
	}
	return err
}

// load reads footer, directory and filters.
func (r *run) load() error {
	size, err := r.file.Size()
	if err != nil {
		return err
	}
	footer := make([]byte, footerBytes)
	if size < footerBytes {
		return fmt.Errorf("%w: %s has %d bytes", ErrDamaged, r.path, size)
	}
	if _, err := r.file.ReadAt(footer, size-footerBytes); err != nil {
		return err
	}
	r.size = uint64(size)
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(footer[8+8*i:]) }
	sum := binary.LittleEndian.Uint32(footer[footerBytes-4:])
	if string(footer[:4]) != magic || crc32.Checksum(footer[:footerBytes-4], castagnoli) != sum ||
		binary.LittleEndian.Uint32(footer[4:]) != version {
		return fmt.Errorf("%w: %s has no footer of version %d", ErrDamaged, r.path, version)
	}
	r.first, r.last, r.hash, r.from, r.through = word(0), word(1), word(2), word(3), word(4)
	r.records = word(5)
	pages, rest, count := word(6), word(7), word(8)
	if pages*pageBytes+rest+footerBytes != r.size || rest < pages*8+count*shardBytes+4 ||
		bits.OnesCount64(count) != 1 {
		return fmt.Errorf("%w: %s has %d bytes", ErrDamaged, r.path, size)
	}
	b := body{run: r, at: pages * pageBytes, end: r.size - footerBytes - 4}
	if err := b.readDirectory(int(pages)); err != nil {
		return err
	}
	if err := b.readFilters(int(count)); err != nil {
		return err
	}
	tail, sum, all := footer[:4], b.sum, b.at == b.end
	b.end += uint64(len(tail))
	if err := b.read(tail); err != nil {
		return err
	}
	if !all || sum != binary.LittleEndian.Uint32(tail) {
		return fmt.Errorf("%w: %s: checksum of the filters", ErrDamaged, r.path)
	}
	return nil
}

// body reads what lies between pages and footer, piece by piece: what is kept in memory is read to
// where it stays.
type body struct {
	run     *run
	at, end uint64 // end: of directory and filters, without their checksum
	sum     uint32
}

// read fills dst with the next bytes.
func (b *body) read(dst []byte) error {
	if uint64(len(dst)) > b.end-b.at {
		return fmt.Errorf("%w: %s: a filter is longer than the file", ErrDamaged, b.run.path)
	}
	if n, err := b.run.file.ReadAt(dst, int64(b.at)); n < len(dst) {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	b.at += uint64(len(dst))
	b.sum = crc32.Update(b.sum, castagnoli, dst)
	return nil
}

func (b *body) readDirectory(pages int) error {
	b.run.dir = make([]uint64, 0, pages)
	room := make([]byte, 8*min(pages, loadPages))
	for pages > 0 {
		some := room[:8*min(pages, loadPages)]
		if err := b.read(some); err != nil {
			return err
		}
		for pages -= len(some) / 8; len(some) > 0; some = some[8:] {
			b.run.dir = append(b.run.dir, binary.LittleEndian.Uint64(some))
		}
	}
	return nil
}

func (b *body) readFilters(count int) error {
	b.run.shift = 64 - bits.TrailingZeros(uint(count))
	b.run.filters = make([]xorfilter.BinaryFuse8, count)
	var head [shardBytes]byte
	for i := range b.run.filters {
		if err := b.read(head[:]); err != nil {
			return err
		}
		f := &b.run.filters[i]
		f.Seed = binary.LittleEndian.Uint64(head[:])
		for k, at := range []*uint32{
			&f.SegmentLength, &f.SegmentLengthMask, &f.SegmentCount, &f.SegmentCountLength,
		} {
			*at = binary.LittleEndian.Uint32(head[8+4*k:])
		}
		size := uint64(binary.LittleEndian.Uint32(head[24:]))
		if size > b.end-b.at {
			return fmt.Errorf("%w: %s: filter %d", ErrDamaged, b.run.path, i)
		}
		f.Fingerprints = make([]byte, size)
		if err := b.read(f.Fingerprints); err != nil {
			return err
		}
	}
	return nil
}
