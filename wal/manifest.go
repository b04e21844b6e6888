package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
)

const (
	manifestName     = "MANIFEST"
	manifestTempName = "MANIFEST.tmp"
	manifestBytes    = 64
	manifestMagic    = "TGWALMAN"
	manifestVersion  = 1
)

// manifest says which segments are the log. It is replaced whole, by a rename, and every change
// of the set of segments becomes true at that rename.
type manifest struct {
	firstSeq    uint64 // oldest segment
	lastSeq     uint64 // the one being appended to; all between belong to the log
	firstIndex  uint64 // oldest record, 0: whatever the oldest segment begins with
	syncedIndex uint64 // every record up to here was durable when this was written
}

func (m manifest) encode() []byte {
	b := make([]byte, manifestBytes)
	copy(b, manifestMagic)
	le := binary.LittleEndian
	le.PutUint32(b[12:], manifestVersion)
	le.PutUint64(b[16:], m.firstSeq)
	le.PutUint64(b[24:], m.lastSeq)
	le.PutUint64(b[32:], m.firstIndex)
	le.PutUint64(b[40:], m.syncedIndex)
	le.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli))
	return b
}

func decodeManifest(b []byte) (manifest, error) {
	le := binary.LittleEndian
	if len(b) != manifestBytes || string(b[:8]) != manifestMagic {
		return manifest{}, errors.New("not a manifest")
	}
	if le.Uint32(b[8:]) != crc32.Checksum(b[12:], castagnoli) {
		return manifest{}, errors.New("the manifest's checksum does not match")
	}
	if v := le.Uint32(b[12:]); v != manifestVersion {
		return manifest{}, fmt.Errorf("the manifest has version %d, this program knows %d",
			v, manifestVersion)
	}
	m := manifest{
		firstSeq:    le.Uint64(b[16:]),
		lastSeq:     le.Uint64(b[24:]),
		firstIndex:  le.Uint64(b[32:]),
		syncedIndex: le.Uint64(b[40:]),
	}
	if m.firstSeq == 0 || m.lastSeq < m.firstSeq {
		return manifest{}, fmt.Errorf("the manifest lists segments %d to %d",
			m.firstSeq, m.lastSeq)
	}
	return m, nil
}

// readManifest returns fs.ErrNotExist if there is none and a DamageError if it cannot be used.
func readManifest(fsys FS, dir string) (manifest, error) {
	name := filepath.Join(dir, manifestName)
	f, err := fsys.OpenRead(name)
	if err != nil {
		return manifest{}, err
	}
	b, err := readAll(f, nil)
	if err = errors.Join(err, f.Close()); err != nil {
		return manifest{}, fmt.Errorf("wal: read %s: %w", name, err)
	}
	m, err := decodeManifest(b)
	if err != nil {
		return manifest{}, &DamageError{File: name, Reason: err.Error()}
	}
	return m, nil
}

// writeManifest makes m durable: file, rename, folder.
func writeManifest(fsys FS, dir string, m manifest) error {
	temp := filepath.Join(dir, manifestTempName)
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(m.encode(), 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(temp, filepath.Join(dir, manifestName)); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// readAll returns the whole content of f, in buf if that is large enough.
func readAll(f File, buf []byte) ([]byte, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := slices.Grow(buf[:0], int(size))[:size]
	n, err := f.ReadAt(b, 0)
	if n == len(b) {
		return b, nil
	}
	return nil, fmt.Errorf("read %d of %d bytes: %w", n, size, err)
}
