package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"

	"tollgate/wal"
)

// twin is a small file that holds its content twice, in two places that no crash tears at once.
// If one copy is torn or damaged, the other one is whole. A copy is
//
//	magic     8 bytes
//	checksum  4 bytes  CRC-32C of what follows
//	length    4 bytes  of the content
//	sequence  8 bytes  the higher one is the newer copy
//	content
//
// little endian.
type twin struct {
	twinKind
	file     wal.File
	sequence uint64
	newest   int // the copy that was written last, or read as the newer one
}

// twinKind is what the twins of one kind have in common.
type twinKind struct {
	// what names the content in errors.
	what string
	// magic has eight bytes.
	magic string
	// copyBytes is the place of one copy, in whole sectors.
	copyBytes int
}

const twinHeadBytes = 8 + 4 + 4 + 8

var (
	errBadCopy = errors.New("not a copy that was written whole")
	// errNoTwin means that there is no such file.
	errNoTwin = errors.New("cluster: no such file yet")
)

// open opens a file and returns its newer good copy. Nothing is written, so that a file which
// cannot be used stays as it is: rewrite makes both copies good again. errNoTwin: create makes one.
func (k twinKind) open(
	fsys wal.FS, name string,
) (t *twin, content []byte, bad [2]error, err error) {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, bad, errNoTwin
	}
	if err != nil {
		return nil, nil, bad, fmt.Errorf("cluster: open %s: %w", k.what, err)
	}
	copies, bad, best := k.read(f)
	if best < 0 {
		return nil, nil, bad, errors.Join(fmt.Errorf("%w: %s: both copies of %s are bad (%w; %w)",
			ErrDamaged, name, k.what, bad[0], bad[1]), f.Close())
	}
	return &twin{k, f, copies[best].sequence, best}, copies[best].content, bad, nil
}

// create makes a file with a first content; it has its name when both copies are on disk.
func (k twinKind) create(
	fsys wal.FS, name string, sequence uint64, content []byte,
) (*twin, error) {
	f, err := fsys.Create(name + ".tmp")
	if err != nil {
		return nil, fmt.Errorf("cluster: create %s: %w", k.what, err)
	}
	t := &twin{twinKind: k, file: f, sequence: sequence}
	if err = t.write(content, 0, 1); err == nil {
		err = fsys.Rename(name+".tmp", name)
	}
	if err == nil {
		err = fsys.SyncDir(filepath.Dir(name))
	}
	if err != nil {
		return t, fmt.Errorf("cluster: create %s: %w", k.what, err)
	}
	return t, nil
}

// twinCopy is one of the two copies.
type twinCopy struct {
	sequence uint64
	content  []byte
}

// read reads both copies. It returns what is wrong with each, and which is the newer good one, -1
// for none.
func (k twinKind) read(f wal.File) (copies [2]twinCopy, bad [2]error, best int) {
	best = -1
	for i := range copies {
		copies[i], bad[i] = k.readCopy(f, i)
		if bad[i] == nil && (best < 0 || copies[i].sequence > copies[best].sequence) {
			best = i
		}
	}
	return copies, bad, best
}

func (k twinKind) readCopy(f wal.File, i int) (twinCopy, error) {
	le, b := binary.LittleEndian, make([]byte, k.copyBytes)
	if _, err := f.ReadAt(b, int64(i*k.copyBytes)); err != nil {
		return twinCopy{}, fmt.Errorf("copy %d: %w", i, err)
	}
	head := len(k.magic)
	size := int(le.Uint32(b[head+4:]))
	if string(b[:head]) != k.magic || size > k.copyBytes-twinHeadBytes ||
		le.Uint32(b[head:]) != crc32.Checksum(b[head+4:twinHeadBytes+size], castagnoli) {
		return twinCopy{}, fmt.Errorf("copy %d: %w", i, errBadCopy)
	}
	return twinCopy{le.Uint64(b[head+8:]), b[twinHeadBytes : twinHeadBytes+size]}, nil
}

// rewrite puts content into both copies, the older one first.
func (t *twin) rewrite(content []byte) error {
	return t.write(content, 1-t.newest, t.newest)
}

// replace puts content into the older copy, which becomes the newer one.
func (t *twin) replace(content []byte) error {
	t.sequence++
	if err := t.write(content, 1-t.newest); err != nil {
		return err
	}
	t.newest = 1 - t.newest
	return nil
}

// write puts content into copies, each synced before the next. The whole place of a copy is
// written, so that a file has its full length from the beginning.
func (t *twin) write(content []byte, copies ...int) error {
	if err := t.fits(content); err != nil {
		return err
	}
	le, b := binary.LittleEndian, make([]byte, t.copyBytes)
	head := copy(b, t.magic)
	le.PutUint32(b[head+4:], uint32(len(content)))
	le.PutUint64(b[head+8:], t.sequence)
	end := twinHeadBytes + copy(b[twinHeadBytes:], content)
	le.PutUint32(b[head:], crc32.Checksum(b[head+4:end], castagnoli))
	for _, i := range copies {
		if _, err := t.file.WriteAt(b, int64(i*t.copyBytes)); err != nil {
			return err
		}
		if err := t.file.SyncData(); err != nil {
			return err
		}
	}
	return nil
}

// fits refuses a content that is larger than the place of a copy.
func (k twinKind) fits(content []byte) error {
	if limit := k.copyBytes - twinHeadBytes; len(content) > limit {
		return fmt.Errorf("cluster: %s has %d bytes, at most %d fit", k.what, len(content), limit)
	}
	return nil
}

// close closes the file.
func (t *twin) close() error {
	if t == nil {
		return nil
	}
	return t.file.Close()
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
