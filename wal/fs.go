package wal

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// FS is every file access that a log makes. Faults are injected by passing another FS (faultfs);
// nil in Options means the operating system's.
//
// A rename must be atomic. Creating, renaming and removing need not survive a crash before the
// SyncDir of the folder; the content of a file need not before its Sync or SyncData.
type FS interface {
	// MkdirAll makes dir and the parents that are missing, durably; no error if dir exists.
	MkdirAll(dir string) error
	// Create opens name for reading and writing and empties it.
	Create(name string) (File, error)
	// CreateUncached is Create for a file that is written once, in large pieces, and seldom read:
	// its content need not stay in memory. Only pieces that begin at a multiple of 4 KiB gain. An
	// uncached file may take two descriptors.
	CreateUncached(name string) (File, error)
	// Open opens an existing file for reading and writing; fs.ErrNotExist if there is none.
	Open(name string) (File, error)
	// OpenRead opens an existing file for reading only; fs.ErrNotExist if there is none.
	OpenRead(name string) (File, error)
	// OpenReadUncached is OpenRead for a single pass over a large file. It does not fill the page
	// cache.
	OpenReadUncached(name string) (File, error)
	// Rename replaces newName with oldName in one step.
	Rename(oldName, newName string) error
	// Remove deletes name; fs.ErrNotExist if there is none.
	Remove(name string) error
	// List returns the names in dir, sorted, without the path.
	List(dir string) ([]string, error)
	// SyncDir makes the names in dir durable.
	SyncDir(dir string) error
	// Lock takes an exclusive lock on name, which a process that dies gives up; ErrLocked if
	// another holder has it. Closing gives it up.
	Lock(name string) (io.Closer, error)
}

// File is an open file of an FS.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size returns the length in bytes.
	Size() (int64, error)
	// Truncate sets the length in bytes; a longer file ends in zeroes.
	Truncate(size int64) error
	// Sync makes content and metadata durable.
	Sync() error
	// SyncData makes the content durable and of the metadata what reading it back needs
	// (fdatasync).
	SyncData() error
}

// ErrLocked means that another process, or another Log of this one, has the folder open.
var ErrLocked = errors.New("wal: the folder is in use by another process")

// OS is the FS of the operating system.
func OS() FS { return osFS{} }

type osFS struct{}

type osFile struct{ *os.File }

func (o osFS) MkdirAll(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := o.MkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return o.SyncDir(parent)
}

func (osFS) Create(name string) (File, error) {
	return openOS(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (osFS) CreateUncached(name string) (File, error) {
	return openUncached(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (osFS) Open(name string) (File, error) { return openOS(name, os.O_RDWR) }

func (osFS) OpenRead(name string) (File, error) { return openOS(name, os.O_RDONLY) }

func (osFS) OpenReadUncached(name string) (File, error) {
	return openUncached(name, os.O_RDONLY)
}

func (osFS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(filepath.Clean(name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func openOS(name string, flag int) (File, error) {
	f, err := os.OpenFile(filepath.Clean(name), flag, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f osFile) SyncData() error { return syncData(f.File) }
