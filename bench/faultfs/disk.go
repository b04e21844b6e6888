// Package faultfs is a disk in memory for tests of what a disk may do: fail any operation, take
// half a write, fill up, hang, and lose at a crash what was not synced.
//
// A Disk is a wal.FS. Inject decides what each operation meets; Crash is the power cut. The model
// is unkind on purpose: of unsynced writes any sectors survive in any order, of unsynced names any
// subset, and after an fsync that failed the data reads back fine and is on no disk, also if a
// later fsync succeeds.
package faultfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"sort"
	"sync"
	"syscall"

	"tollgate/wal"
)

// SectorBytes is the unit in which a crash keeps or loses an unsynced write.
const SectorBytes = 512

// ErrPowerOff, returned by an Inject from some operation on, is the power cut in the middle of
// things; Crash follows. A sync that meets it has neither kept nor lost anything yet.
var ErrPowerOff = errors.New("faultfs: the power is off")

// Kind names an operation.
type Kind string

// The operations that Inject sees. Reading counts too.
const (
	KindMkdir    Kind = "mkdir"
	KindCreate   Kind = "create"
	KindOpen     Kind = "open"
	KindRename   Kind = "rename"
	KindRemove   Kind = "remove"
	KindList     Kind = "list"
	KindSyncDir  Kind = "syncdir"
	KindRead     Kind = "read"
	KindWrite    Kind = "write"
	KindTruncate Kind = "truncate"
	KindSync     Kind = "sync"
)

// Op is one operation, before it happens.
type Op struct {
	// N counts operations from 1.
	N int
	// Kind says which.
	Kind Kind
	// Name is the path; of a rename, the new one.
	Name string
	// Bytes is the length of a read or write.
	Bytes int
	// Uncached is true if a file is opened with CreateUncached or OpenReadUncached, or was when it is
	// read or written.
	Uncached bool
}

// ShortWrite, returned by an Inject, lets Keep bytes of a write through and fails it with Err.
type ShortWrite struct {
	Keep int
	Err  error
}

// Error is Err's.
func (s *ShortWrite) Error() string { return fmt.Sprintf("short write of %d: %v", s.Keep, s.Err) }

// Unwrap returns Err.
func (s *ShortWrite) Unwrap() error { return s.Err }

// Disk is a disk in memory. All methods may be called from any goroutine.
type Disk struct {
	mu       sync.Mutex
	inject   func(Op) error
	ops      int
	boots    int // files opened before the last crash are dead
	capacity int64
	dirs     map[string]bool
	names    map[string]*inode
	durable  map[string]*inode
	locks    map[string]bool
}

// inode is a file's content: what programs see, and what would be there after a crash.
type inode struct {
	data    []byte
	durable []byte
	pending []change // unsynced, in order
}

// change is an unsynced write, or a truncation if data is nil.
type change struct {
	offset int64
	data   []byte
}

var _ wal.FS = (*Disk)(nil)

// New returns an empty disk without faults and without a limit.
func New() *Disk {
	return &Disk{
		dirs:    map[string]bool{},
		names:   map[string]*inode{},
		durable: map[string]*inode{},
		locks:   map[string]bool{},
	}
}

// Inject sets what is asked before every operation from now on; nil for no faults. An error makes
// the operation fail without effect (but see ShortWrite; and a sync that fails has lost the data
// for good). A function that blocks is a disk that hangs. No lock is held while it runs.
func (d *Disk) Inject(f func(Op) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inject = f
}

// SetCapacity bounds the bytes in all files, 0 for no bound. A write that does not fit is cut
// short and fails with ENOSPC.
func (d *Disk) SetCapacity(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.capacity = n
}

// Ops returns how many operations there were.
func (d *Disk) Ops() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ops
}

// Crash cuts the power and starts again: open files and locks die, faults and the capacity are
// cleared, what was synced stays, and of the rest pick(n), which returns one of 0 to n-1, decides
// sector by sector and name by name. A nil pick loses all that was not synced.
func (d *Disk) Crash(pick func(n int) int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if pick == nil {
		pick = func(int) int { return 0 }
	}
	d.boots++
	d.inject, d.capacity = nil, 0
	d.locks = map[string]bool{}
	changed := map[string]bool{}
	for name, node := range d.names {
		changed[name] = d.durable[name] != node
	}
	for name, node := range d.durable {
		changed[name] = d.names[name] != node
	}
	for _, name := range sortedKeys(changed) {
		if !changed[name] || pick(2) == 0 {
			continue
		}
		if node := d.names[name]; node != nil {
			d.durable[name] = node
		} else {
			delete(d.durable, name)
		}
	}
	d.names = map[string]*inode{}
	settled := map[*inode]bool{}
	for _, name := range sortedKeys(d.durable) {
		node := d.durable[name]
		d.names[name] = node
		if !settled[node] {
			settled[node] = true
			node.crash(pick)
		}
	}
}

// Kill is a kill -9: open files and locks die, everything that was written is still there, and
// still unsynced. Faults and the capacity stay.
func (d *Disk) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.boots++
	d.locks = map[string]bool{}
}

// Files lists all files by their paths, sorted.
func (d *Disk) Files() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return sortedKeys(d.names)
}

// Clone returns a copy of the disk as it reads now, all of it synced, with no open file, lock,
// fault or limit.
func (d *Disk) Clone() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := New()
	maps.Copy(c.dirs, d.dirs)
	for name, node := range d.names {
		data := append([]byte(nil), node.data...)
		c.names[name] = &inode{data: data, durable: append([]byte(nil), data...)}
		c.durable[name] = c.names[name]
	}
	return c
}

// Corrupt changes the content of a file, synced and unsynced alike, as bit rot does.
func (d *Disk) Corrupt(name string, change func([]byte) []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	node := d.names[filepath.Clean(name)]
	if node == nil {
		return &fs.PathError{Op: "corrupt", Path: name, Err: fs.ErrNotExist}
	}
	node.data = change(append([]byte(nil), node.data...))
	node.durable, node.pending = append([]byte(nil), node.data...), nil
	return nil
}

func (n *inode) crash(pick func(int) int) {
	data := n.durable
	for _, c := range n.pending {
		if c.data == nil {
			if pick(2) == 1 {
				data = resize(data, c.offset)
			}
			continue
		}
		for from := 0; from < len(c.data); {
			at := c.offset + int64(from)
			to := min(len(c.data), from+int(SectorBytes-at%SectorBytes))
			if pick(2) == 1 {
				data = writeAt(data, c.data[from:to], at)
			}
			from = to
		}
	}
	n.durable, n.pending = data, nil
	n.data = append([]byte(nil), data...)
}

func writeAt(dst, b []byte, offset int64) []byte {
	if end := offset + int64(len(b)); end > int64(len(dst)) {
		dst = resize(dst, end)
	}
	copy(dst[offset:], b)
	return dst
}

func resize(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// begin counts the operation and asks for faults.
func (d *Disk) begin(kind Kind, name string, bytes int) error {
	return d.beginOp(Op{Kind: kind, Name: name, Bytes: bytes})
}

func (d *Disk) beginOp(op Op) error {
	d.mu.Lock()
	d.ops++
	op.N = d.ops
	inject := d.inject
	d.mu.Unlock()
	if inject == nil {
		return nil
	}
	return inject(op)
}

// MkdirAll implements wal.FS.
func (d *Disk) MkdirAll(dir string) error {
	if err := d.begin(KindMkdir, dir, 0); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dirs[filepath.Clean(dir)] = true
	return nil
}

// Create implements wal.FS. Emptying a file that exists is not synced.
func (d *Disk) Create(name string) (wal.File, error) { return d.open(KindCreate, name, false) }

// CreateUncached implements wal.FS. What a disk may do to a file's bytes is the same, whichever way
// they come.
func (d *Disk) CreateUncached(name string) (wal.File, error) {
	return d.open(KindCreate, name, true)
}

// Open implements wal.FS.
func (d *Disk) Open(name string) (wal.File, error) { return d.open(KindOpen, name, false) }

func (d *Disk) open(kind Kind, name string, uncached bool) (wal.File, error) {
	if err := d.beginOp(Op{Kind: kind, Name: name, Uncached: uncached}); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name = filepath.Clean(name)
	node := d.names[name]
	switch {
	case node == nil && kind == KindOpen:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case node == nil:
		node = &inode{}
		d.names[name] = node
	case kind == KindCreate:
		node.data = nil
		node.pending = append(node.pending, change{})
	}
	return &file{disk: d, node: node, name: name, boot: d.boots, uncached: uncached}, nil
}

// OpenRead implements wal.FS.
func (d *Disk) OpenRead(name string) (wal.File, error) { return d.Open(name) }

// OpenReadUncached implements wal.FS.
func (d *Disk) OpenReadUncached(name string) (wal.File, error) {
	return d.open(KindOpen, name, true)
}

// Rename implements wal.FS.
func (d *Disk) Rename(oldName, newName string) error {
	if err := d.begin(KindRename, newName, 0); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	oldName, newName = filepath.Clean(oldName), filepath.Clean(newName)
	node := d.names[oldName]
	if node == nil {
		return &fs.PathError{Op: "rename", Path: oldName, Err: fs.ErrNotExist}
	}
	delete(d.names, oldName)
	d.names[newName] = node
	return nil
}

// Remove implements wal.FS.
func (d *Disk) Remove(name string) error {
	if err := d.begin(KindRemove, name, 0); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name = filepath.Clean(name)
	if d.names[name] == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	delete(d.names, name)
	return nil
}

// List implements wal.FS.
func (d *Disk) List(dir string) ([]string, error) {
	if err := d.begin(KindList, dir, 0); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	dir = filepath.Clean(dir)
	if !d.dirs[dir] {
		return nil, &fs.PathError{Op: "list", Path: dir, Err: fs.ErrNotExist}
	}
	var names []string
	for _, name := range sortedKeys(d.names) {
		if filepath.Dir(name) == dir {
			names = append(names, filepath.Base(name))
		}
	}
	return names, nil
}

// SyncDir implements wal.FS.
func (d *Disk) SyncDir(dir string) error {
	if err := d.begin(KindSyncDir, dir, 0); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	dir = filepath.Clean(dir) // its own names; not those in folders below
	for name := range d.durable {
		if filepath.Dir(name) == dir && d.names[name] == nil {
			delete(d.durable, name)
		}
	}
	for name, node := range d.names {
		if filepath.Dir(name) == dir {
			d.durable[name] = node
		}
	}
	return nil
}

// Lock implements wal.FS. It is not an operation that Inject sees.
func (d *Disk) Lock(name string) (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locks[name] {
		return nil, wal.ErrLocked
	}
	d.locks[name] = true
	return &lock{disk: d, name: name, boot: d.boots}, nil
}

type lock struct {
	disk *Disk
	name string
	boot int
}

func (l *lock) Close() error {
	l.disk.mu.Lock()
	defer l.disk.mu.Unlock()
	if l.boot == l.disk.boots {
		delete(l.disk.locks, l.name)
	}
	return nil
}

func (d *Disk) used() int64 {
	var n int64
	for _, node := range d.names {
		n += int64(len(node.data))
	}
	return n
}

// room returns how many of n bytes at offset the capacity allows.
func (d *Disk) room(node *inode, offset int64, n int) (int, error) {
	grow := offset + int64(n) - int64(len(node.data))
	if d.capacity == 0 || grow <= 0 {
		return n, nil
	}
	if over := d.used() + grow - d.capacity; over > 0 {
		return max(0, n-int(over)), syscall.ENOSPC
	}
	return n, nil
}
