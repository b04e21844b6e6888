package faultfs

import (
	"errors"
	"io"
	"io/fs"
)

// file is an open file. After a crash it is dead, like the process that had it.
type file struct {
	disk     *Disk
	node     *inode
	name     string
	boot     int
	uncached bool
	closed   bool
}

func (f *file) begin(kind Kind, bytes int) error {
	return f.disk.beginOp(Op{Kind: kind, Name: f.name, Bytes: bytes, Uncached: f.uncached})
}

// alive is called with the disk's lock held.
func (f *file) alive() error {
	if f.closed || f.boot != f.disk.boots {
		return &fs.PathError{Op: "use", Path: f.name, Err: fs.ErrClosed}
	}
	return nil
}

func (f *file) ReadAt(b []byte, offset int64) (int, error) {
	if err := f.begin(KindRead, len(b)); err != nil {
		return 0, err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.alive(); err != nil {
		return 0, err
	}
	if offset >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.node.data[offset:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(b []byte, offset int64) (int, error) {
	keep := len(b)
	err := f.begin(KindWrite, len(b))
	var short *ShortWrite
	switch {
	case errors.As(err, &short):
		keep = min(short.Keep, len(b))
	case err != nil:
		return 0, err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.alive(); err != nil {
		return 0, err
	}
	if n, full := f.disk.room(f.node, offset, keep); full != nil {
		keep, err = n, full
	}
	if keep > 0 {
		data := append([]byte(nil), b[:keep]...)
		f.node.data = writeAt(f.node.data, data, offset)
		f.node.pending = append(f.node.pending, change{offset: offset, data: data})
	}
	return keep, err
}

func (f *file) Size() (int64, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.alive(); err != nil {
		return 0, err
	}
	return int64(len(f.node.data)), nil
}

func (f *file) Truncate(size int64) error {
	if err := f.begin(KindTruncate, 0); err != nil {
		return err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.alive(); err != nil {
		return err
	}
	f.node.data = resize(f.node.data, size)
	f.node.pending = append(f.node.pending, change{offset: size})
	return nil
}

// Sync makes the pending changes durable. One that fails loses them: they stay readable, and no
// later Sync brings them to the disk. With ErrPowerOff they stay pending, for Crash to decide.
func (f *file) Sync() error {
	err := f.begin(KindSync, 0)
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if dead := f.alive(); dead != nil {
		return dead
	}
	if errors.Is(err, ErrPowerOff) {
		return err
	}
	if err == nil {
		for _, c := range f.node.pending {
			if c.data == nil {
				f.node.durable = resize(f.node.durable, c.offset)
			} else {
				f.node.durable = writeAt(f.node.durable, c.data, c.offset)
			}
		}
	}
	f.node.pending = nil
	return err
}

func (f *file) SyncData() error { return f.Sync() }

func (f *file) Close() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	return nil
}
