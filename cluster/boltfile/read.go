package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
)

// ErrDamaged means that a file is not one that Create and Put have written whole.
var ErrDamaged = errors.New("the file is damaged")

// maxBytes is more than a file of one record has.
const maxBytes = 1 << 20

// bbolt's format: pages, each with a head of id (u64), flags, count (u16 each), overflow (u32); the
// first two are metas. All numbers are in the byte order of the machine.
const (
	headBytes, elementBytes = 16, 16
	bucketBytes             = 16 // root (u64), sequence (u64)
	metaSumAt               = 56 // of a meta behind its head
	leafFlag, metaFlag      = 2, 4
	isBucket                = 1
	metaMagic, metaVersion  = 0xED0CDAED, 2
)

var order = binary.NativeEndian

// Read returns the record of a file, which it does not change. An error is fs.ErrNotExist,
// ErrDamaged, or the disk's.
func Read(name string) ([]byte, error) {
	f, err := os.Open(filepath.Clean(name))
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return parse(b)
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// parse walks from the newer meta to the record. Both metas must be good: the older one leads to
// the record before.
func parse(file []byte) ([]byte, error) {
	if len(file) > maxBytes {
		return nil, damaged("it has more than %d bytes", maxBytes)
	}
	first, err := parseMeta(file, 0)
	if err != nil {
		return nil, err
	}
	newest, err := parseMeta(file, 1)
	if err != nil {
		return nil, err
	}
	if first.txid > newest.txid {
		newest = first
	}
	root, err := page(file, newest.root, leafFlag)
	if err != nil {
		return nil, err
	}
	bucket, err := find(root, bucketKey, isBucket)
	if err != nil {
		return nil, err
	}
	if len(bucket) < bucketBytes {
		return nil, damaged("a bucket of %d bytes", len(bucket))
	}
	inner := bucket[bucketBytes:] // a small bucket's only page
	if at := order.Uint64(bucket); at != 0 {
		if inner, err = page(file, at, leafFlag); err != nil {
			return nil, err
		}
	}
	sealed, err := find(inner, recordKey, 0)
	if err != nil {
		return nil, err
	}
	return unseal(sealed, newest.txid)
}

// unseal checks a record, and that it is the one of the newest transaction: each Put is one.
func unseal(sealed []byte, txid uint64) ([]byte, error) {
	le := binary.LittleEndian
	if len(sealed) < sealBytes || le.Uint32(sealed) != crc32.Checksum(sealed[4:], castagnoli) {
		return nil, damaged("the record's checksum")
	}
	if of := le.Uint64(sealed[4:]); of != txid {
		return nil, damaged("the record is of transaction %d, the newest is %d", of, txid)
	}
	return sealed[sealBytes:], nil
}

type meta struct{ root, txid uint64 }

func parseMeta(file []byte, id uint64) (meta, error) {
	b, err := page(file, id, metaFlag)
	if err != nil {
		return meta{}, err
	}
	b = b[headBytes:]
	sum := fnv.New64a()
	sum.Write(b[:metaSumAt])
	pages := order.Uint64(b[40:])
	switch {
	case order.Uint64(b[metaSumAt:]) != sum.Sum64():
		return meta{}, damaged("the checksum of meta %d", id)
	case order.Uint32(b) != metaMagic || order.Uint32(b[4:]) != metaVersion ||
		order.Uint32(b[8:]) != pageBytes:
		return meta{}, damaged("meta %d is of another format", id)
	case pages > uint64(len(file))/pageBytes:
		return meta{}, damaged("it was cut: %d bytes, %d pages are in use", len(file), pages)
	}
	return meta{root: order.Uint64(b[16:]), txid: order.Uint64(b[48:])}, nil
}

// page is a page with those that it flows over into.
func page(file []byte, id uint64, flag uint16) ([]byte, error) {
	pages := uint64(len(file)) / pageBytes
	if id >= pages {
		return nil, damaged("page %d is missing", id)
	}
	b := file[id*pageBytes:]
	more := uint64(order.Uint32(b[12:]))
	if order.Uint64(b) != id || order.Uint16(b[8:]) != flag || more >= pages-id {
		return nil, damaged("the head of page %d", id)
	}
	return b[:(more+1)*pageBytes], nil
}

// find looks for a key among the elements of a leaf: flags, position from here, lengths of key and
// value (u32 each).
func find(leaf, key []byte, flags uint32) ([]byte, error) {
	if len(leaf) < headBytes {
		return nil, damaged("a page of %d bytes", len(leaf))
	}
	for i := range int(order.Uint16(leaf[10:])) {
		at := headBytes + i*elementBytes
		if at+elementBytes > len(leaf) {
			return nil, damaged("a page of more elements than it has")
		}
		element := leaf[at:]
		from, k, n := uint64(order.Uint32(element[4:])), uint64(order.Uint32(element[8:])),
			uint64(order.Uint32(element[12:]))
		if from+k+n > uint64(len(element)) {
			return nil, damaged("an element beyond its page")
		}
		if bytes.Equal(element[from:from+k], key) && order.Uint32(element) == flags {
			return element[from+k : from+k+n], nil
		}
	}
	return nil, damaged("%q is missing", key)
}
