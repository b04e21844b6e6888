package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"tollgate/cluster/segments"
	"tollgate/wal"
)

// ErrDamaged means that files of a node cannot be used. Errors that wrap it say which, what was not
// done, and the way back; damage in the log is wal.ErrDamaged.
var ErrDamaged = errors.New("cluster: a file that this node needs is damaged or missing")

// watchedFS is the file system of a node with a watchdog: a disk that does not answer a change in
// time ends the process, whichever file it is of. Reads are not watched: raft and the log wait for
// none of them while they hold up others.
type watchedFS struct {
	wal.FS
	limit time.Duration
	told  fileNotices
}

// fileNotices are what a group's files tell its node, from many goroutines at a time.
type fileNotices struct {
	// fatal ends the process.
	fatal func(error)
	// synced is told what each fsync took; nil: no one listens.
	synced func(time.Duration)
	// began is told of each change that the disk is asked for, and what it returns that it is done;
	// nil: no one listens.
	began func(what string) (done func())
}

type watchedFile struct {
	wal.File
	fs   *watchedFS
	name string
}

// watch calls an operation.
func (w *watchedFS) watch(what, name string, operation func() error) error {
	watchdog := time.AfterFunc(w.limit, func() {
		w.told.fatal(fmt.Errorf("cluster: the disk has not answered for %s: %s %s; nothing that waits "+
			"for it was acknowledged; look at the disk, then start this process again",
			w.limit, what, name))
	})
	defer watchdog.Stop()
	if w.told.began != nil {
		defer w.told.began(what + " " + name)()
	}
	return operation()
}

// sync watches a call that returns when the disk has what was written, and measures it.
func (w *watchedFS) sync(name string, operation func() error) error {
	start := time.Now()
	err := w.watch("sync", name, operation)
	if w.told.synced != nil {
		w.told.synced(time.Since(start))
	}
	return err
}

func (w *watchedFS) opened(f wal.File, name string, err error) (wal.File, error) {
	if err != nil {
		return nil, err
	}
	return &watchedFile{f, w, name}, nil
}

// Create implements wal.FS.
func (w *watchedFS) Create(name string) (f wal.File, err error) {
	err = w.watch("create", name, func() (err error) {
		f, err = w.FS.Create(name)
		return err
	})
	return w.opened(f, name, err)
}

// Open implements wal.FS.
func (w *watchedFS) Open(name string) (wal.File, error) {
	f, err := w.FS.Open(name)
	return w.opened(f, name, err)
}

// Rename implements wal.FS.
func (w *watchedFS) Rename(oldName, newName string) error {
	return w.watch("rename", newName, func() error { return w.FS.Rename(oldName, newName) })
}

// Remove implements wal.FS.
func (w *watchedFS) Remove(name string) error {
	return w.watch("remove", name, func() error { return w.FS.Remove(name) })
}

// SyncDir implements wal.FS.
func (w *watchedFS) SyncDir(dir string) error {
	return w.sync(dir, func() error { return w.FS.SyncDir(dir) })
}

// WriteAt implements wal.File.
func (f *watchedFile) WriteAt(b []byte, offset int64) (n int, err error) {
	err = f.fs.watch("write", f.name, func() error {
		n, err = f.File.WriteAt(b, offset)
		return err
	})
	return n, err
}

// Truncate implements wal.File.
func (f *watchedFile) Truncate(size int64) error {
	return f.fs.watch("truncate", f.name, func() error { return f.File.Truncate(size) })
}

// Sync implements wal.File.
func (f *watchedFile) Sync() error { return f.fs.sync(f.name, f.File.Sync) }

// SyncData implements wal.File.
func (f *watchedFile) SyncData() error { return f.fs.sync(f.name, f.File.SyncData) }

// segmentFS is a node's file system as the journal's segments see it.
type segmentFS struct{ files wal.FS }

var _ segments.FS = segmentFS{}

// segmentFile is written from its beginning to its end.
type segmentFile struct {
	wal.File
	offset int64
}

// Write appends.
func (f *segmentFile) Write(b []byte) (int, error) {
	n, err := f.WriteAt(b, f.offset)
	f.offset += int64(n)
	return n, err
}

// MkdirAll implements segments.FS.
func (s segmentFS) MkdirAll(dir string) error { return s.files.MkdirAll(dir) }

// Names implements segments.FS.
func (s segmentFS) Names(dir string) ([]string, error) { return s.files.List(dir) }

// Create implements segments.FS.
func (s segmentFS) Create(name string) (segments.File, error) {
	f, err := s.files.Create(name)
	if err != nil {
		return nil, err
	}
	return &segmentFile{File: f}, nil
}

// Open implements segments.FS.
func (s segmentFS) Open(name string) (segments.File, error) {
	f, err := s.files.OpenRead(name)
	if err != nil {
		return nil, err
	}
	return &segmentFile{File: f}, nil
}

// Rename implements segments.FS.
func (s segmentFS) Rename(from, to string) error { return s.files.Rename(from, to) }

// Remove implements segments.FS.
func (s segmentFS) Remove(name string) error { return s.files.Remove(name) }

// SyncDir implements segments.FS.
func (s segmentFS) SyncDir(dir string) error { return s.files.SyncDir(filepath.Clean(dir)) }

var _ io.Writer = (*segmentFile)(nil)

func writeSynced(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("cluster: sync a folder: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
