package doctor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// syncBlock is what is written before each fsync, about a small entry of the log.
	syncBlock = 4 << 10
	// syncRounds and syncTime bound a measurement.
	syncRounds = 32
	syncTime   = time.Second
)

// syncer is a file that is measured.
type syncer interface {
	io.Writer
	Sync() error
}

// LookAtDisk measures the file system of a folder: its space, and how long an fsync takes there.
// The file that it writes has no name by then, so that nothing is left behind.
func LookAtDisk(folder string, reserve int64) Disk {
	d := Disk{Folder: folder, ReserveBytes: reserve}
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		d.Problem = fmt.Sprintf("free space of %s: %s", folder, err)
		return d
	}
	d.TotalBytes, d.FreeBytes = int64(s.Blocks)*int64(s.Bsize), int64(s.Bavail)*int64(s.Bsize)
	if err := d.measureFile(folder); err != nil {
		d.Problem = err.Error()
	}
	return d
}

func (d *Disk) measureFile(folder string) error {
	f, err := os.CreateTemp(folder, "sync-time-*")
	if err != nil {
		return fmt.Errorf("measure fsync: %w", err)
	}
	if err = os.Remove(f.Name()); err == nil {
		err = d.measure(f, time.Now)
	}
	return errors.Join(err, f.Close())
}

// measure writes and syncs until it has done enough or it has taken too long.
func (d *Disk) measure(f syncer, now func() time.Time) error {
	block := make([]byte, syncBlock)
	var times []time.Duration
	for begin := now(); len(times) < syncRounds && now().Sub(begin) < syncTime; {
		from := now()
		if _, err := f.Write(block); err != nil {
			return fmt.Errorf("measure fsync: %w", err)
		}
		if err := f.Sync(); err != nil {
			return fmt.Errorf("measure fsync: %w", err)
		}
		times = append(times, now().Sub(from))
	}
	slices.Sort(times)
	d.Syncs = len(times)
	d.SyncMedianUS = times[len(times)/2].Microseconds()
	d.SyncLongestUS = times[len(times)-1].Microseconds()
	return nil
}

// Above slowSync every write is slow; above failingSync elections are lost over it.
const (
	slowSync    = 20 * time.Millisecond
	failingSync = 250 * time.Millisecond
)

func (c *chart) disk(d Disk) {
	if d.TotalBytes > 0 {
		c.diskSpace(d)
	}
	if d.Problem != "" {
		c.fail("disk speed", d.Problem, "look at the disk, and at who may write into the data folder")
		return
	}
	median := time.Duration(d.SyncMedianUS) * time.Microsecond
	says := fmt.Sprintf("an fsync takes %s (median of %d; the longest %s)", median, d.Syncs,
		time.Duration(d.SyncLongestUS)*time.Microsecond)
	const do = "every acknowledged write waits for one: look for what else uses that disk, use one " +
		"with a write cache that survives a power cut, or move the data folder"
	switch {
	case median > failingSync:
		c.fail("disk speed", says, do)
	case median > slowSync:
		c.warn("disk speed", says, do)
	default:
		c.ok("disk speed", "%s", says)
	}
}

func (c *chart) diskSpace(d Disk) {
	says := fmt.Sprintf("%s of %s are free in %s, %s are kept in reserve", inUnits(d.FreeBytes),
		inUnits(d.TotalBytes), d.Folder, inUnits(d.ReserveBytes))
	const do = "make room, or enlarge the file system: OPERATIONS.md, Disk full"
	switch {
	case d.FreeBytes < d.ReserveBytes:
		c.fail("disk space", says+": writes are refused", do)
	case d.FreeBytes < 2*d.ReserveBytes || d.FreeBytes < d.TotalBytes/10:
		c.warn("disk space", says, do)
	default:
		c.ok("disk space", "%s", says)
	}
}

// inUnits is a number of bytes for people.
func inUnits(bytes int64) string {
	switch {
	case bytes >= 10<<30:
		return fmt.Sprintf("%d GiB", bytes>>30)
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}
