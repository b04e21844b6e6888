// Package boltfile keeps one record in a file of bbolt, through raft-boltdb.
//
// bbolt maps its file and trusts what it finds there: a flipped bit is another value, or a panic; a
// file that was cut is a fault that ends the process. So bbolt opens only a file that this process
// has just made (Create), and Read, which neither maps nor trusts, reads what another one left.
package boltfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"tollgate/wal"
)

const (
	pageBytes = 4096
	// sealBytes precede a record: CRC-32C of what follows (u32), transaction (u64), little endian.
	sealBytes = 4 + 8
	// madeIn is the last transaction before the first record: raft-boltdb makes its buckets in it.
	madeIn = 2
)

var (
	bucketKey, recordKey = []byte("conf"), []byte("record") // raft-boltdb's bucket for such values
	castagnoli           = crc32.MakeTable(crc32.Castagnoli)
)

// File is a file that this process has made.
type File struct {
	mu     sync.Mutex // held while bbolt works
	store  *raftboltdb.BoltStore
	txid   uint64 // of the last record
	failed error  // the first failure; bbolt is not called after it
}

// Create makes the file anew, with a first record. It has its name when all of it is on disk.
func Create(name string, record []byte) (*File, error) {
	temporary := name + ".tmp"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	f := &File{txid: madeIn}
	err := guard(func() (err error) {
		f.store, err = raftboltdb.New(raftboltdb.Options{
			Path: temporary,
			BoltOptions: &bbolt.Options{
				PageSize: pageBytes, Timeout: time.Second, FreelistType: bbolt.FreelistArrayType,
			},
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	if err = f.Put(record); err == nil {
		err = os.Rename(temporary, name)
	}
	if err == nil {
		err = wal.OS().SyncDir(filepath.Dir(name))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Put replaces the record, in one transaction; it is on disk when Put returns. After the first
// failure Put refuses: what is on disk is unknown then.
func (f *File) Put(record []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil {
		return fmt.Errorf("refused, an earlier write failed: %w", f.failed)
	}
	f.txid++
	sealed := append(make([]byte, sealBytes), record...)
	binary.LittleEndian.PutUint64(sealed[4:], f.txid)
	binary.LittleEndian.PutUint32(sealed, crc32.Checksum(sealed[4:], castagnoli))
	f.failed = guard(func() error { return f.store.Set(recordKey, sealed) })
	return f.failed
}

// guard calls bbolt: a panic, and a fault in mapped memory, are errors of the call.
func guard(call func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("bbolt: %v", v)
		}
	}()
	return call()
}

// Close closes the file. It leaves it open while a Put hangs or after one failed, for bbolt may
// still hold its locks: what was not finished ends with the process.
func (f *File) Close() error {
	if !f.mu.TryLock() {
		return errors.New("bbolt: not closed, a write has not returned")
	}
	defer f.mu.Unlock()
	if f.failed != nil {
		return nil
	}
	f.failed = os.ErrClosed
	return guard(f.store.Close)
}
