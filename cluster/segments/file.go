package segments

import (
	"io"
	"os"
	"path/filepath"
)

// FS is the file system that a Store works on, so that a test can make it fail.
type FS interface {
	// MkdirAll makes a directory and those above it.
	MkdirAll(dir string) error
	// Names lists the files of a directory.
	Names(dir string) ([]string, error)
	// Create makes an empty file for writing, in the place of one of that name.
	Create(name string) (File, error)
	// Open opens a file for reading; os.ErrNotExist when there is none.
	Open(name string) (File, error)
	// Rename gives a file another name, atomically, in the place of one of that name.
	Rename(from, to string) error
	// Remove deletes a file.
	Remove(name string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.Writer
	io.Closer
	// Sync makes what was written durable.
	Sync() error
	// Size is the file's length in bytes.
	Size() (int64, error)
}

// OS is the real file system.
type OS struct{}

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// MkdirAll makes a directory and those above it.
func (OS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o700) }

// Names lists the files of a directory.
func (OS) Names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// Create makes an empty file for writing.
func (OS) Create(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	return osFile{f}, err
}

// Open opens a file for reading.
func (OS) Open(name string) (File, error) {
	f, err := os.Open(name)
	return osFile{f}, err
}

// Rename gives a file another name.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove deletes a file.
func (OS) Remove(name string) error { return os.Remove(name) }

// SyncDir makes the names in a directory durable.
func (OS) SyncDir(dir string) (err error) {
	f, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	return f.Sync()
}
