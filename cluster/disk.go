package cluster

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// disk watches the free space under the data folder, and how long the disk takes to answer.
type disk struct {
	dir  string
	need int64
	free atomic.Int64
	low  atomic.Bool

	mu sync.Mutex
	// measure is statfs; tests fill a disk with it.
	measure func(dir string) (int64, error)
	count   uint64
	waiting map[uint64]diskChange
}

// diskChange is a change that the disk has not completed yet.
type diskChange struct {
	what string
	at   int64 // monotonic
}

// diskEvery is how often free space is measured.
const diskEvery = time.Second

func freeBytes(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("cluster: free space of %s: %w", dir, err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

func (d *disk) look() error {
	d.mu.Lock()
	measure := d.measure
	d.mu.Unlock()
	free, err := measure(d.dir)
	if err != nil {
		return err
	}
	d.free.Store(free)
	d.low.Store(free < d.need)
	return nil
}

// left is how much may be written without using the reserve.
func (d *disk) left() uint64 { return uint64(max(0, d.free.Load()-d.need)) }

// room reports whether that many bytes may be written without using the reserve.
func (d *disk) room(bytes uint64) bool {
	left := d.free.Load() - d.need
	return left >= 0 && uint64(left) >= bytes
}

// began notes the start of a change, and done its end.
func (d *disk) began(what string) (done func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count++
	number := d.count
	if d.waiting == nil {
		d.waiting = make(map[uint64]diskChange)
	}
	d.waiting[number] = diskChange{what, monotonic()}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting, number)
	}
}

// oldest is the change that has waited longest for the disk; 0 if none waits.
func (d *disk) oldest() (what string, waited time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var oldest uint64
	for number := range d.waiting {
		if oldest == 0 || number < oldest {
			oldest = number
		}
	}
	if oldest == 0 {
		return "", 0
	}
	c := d.waiting[oldest]
	return c.what, time.Duration(monotonic() - c.at)
}
