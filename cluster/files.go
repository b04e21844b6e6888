package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tollgate/wal"
)

// ErrDamaged means that files of a node cannot be used. Errors that wrap it name the file, what was
// not done, and the remedy. Damage in the log is wal.ErrDamaged.
var ErrDamaged = errors.New("cluster: a file that this node needs is damaged or missing")

// watchedFS is a node's file system with a watchdog: if the disk does not complete a change in
// time, the process ends, whichever file it concerns. Reads are not watched: raft and the log never
// hold up others while they wait for one.
type watchedFS struct {
	wal.FS
	limit   time.Duration
	notices fileNotices
}

// fileNotices are callbacks from a group's files to its node; many goroutines call them.
type fileNotices struct {
	// fatal ends the process.
	fatal func(error)
	// synced, if set, is called with the duration of each fsync.
	synced func(time.Duration)
	// began, if set, is called before each change of the disk, and its result after it.
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
		w.notices.fatal(fmt.Errorf("cluster: the disk has not answered for %s: %s %s; nothing that "+
			"waits for it was acknowledged; look at the disk, then start this process again",
			w.limit, what, name))
	})
	defer watchdog.Stop()
	if w.notices.began != nil {
		defer w.notices.began(what + " " + name)()
	}
	return operation()
}

// sync watches and measures an fsync.
func (w *watchedFS) sync(name string, operation func() error) error {
	start := time.Now()
	err := w.watch("sync", name, operation)
	if w.notices.synced != nil {
		w.notices.synced(time.Since(start))
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
func (w *watchedFS) Create(name string) (wal.File, error) { return w.create(name, w.FS.Create) }

// CreateUncached implements wal.FS.
func (w *watchedFS) CreateUncached(name string) (wal.File, error) {
	return w.create(name, w.FS.CreateUncached)
}

func (w *watchedFS) create(
	name string, create func(string) (wal.File, error),
) (f wal.File, err error) {
	err = w.watch("create", name, func() (err error) {
		f, err = create(name)
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

// replaceJSON replaces a file of a data folder by a value as JSON, durably.
func replaceJSON(dir, file string, v any) error {
	name := filepath.Join(dir, file)
	text, err := json.Marshal(v)
	if err == nil {
		err = writeSynced(name+".tmp", append(text, '\n'))
	}
	if err == nil {
		err = os.Rename(name+".tmp", name)
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("cluster: data folder: %w", err)
	}
	return nil
}

func syncDir(dir string) error { return wal.OS().SyncDir(dir) }
