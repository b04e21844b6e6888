// Package hugepages moves the heap of this process into huge pages, where Linux has them for those
// who ask. The state of a node is gigabytes that are read at random: with pages of 4 KiB nearly
// each read misses the processor's table of pages, too. Go's runtime does not ask by itself.
//
// What is moved is what has been resident as a whole for a while: mostly tables, indexes and keys,
// which never leave. New memory is not asked for, since clearing 2 MiB at its first byte keeps
// whoever writes it waiting; and what the runtime gave back stays given back, as it would not where
// the kernel is told to make all of the heap huge. Who wants none of it has "never" in
// /sys/kernel/mm/transparent_hugepage/enabled.
package hugepages

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// The heap is gone through every soonest while something of it is moved; while nothing is, ever
// more seldom, up to latest.
const (
	soonest = 2 * time.Second
	latest  = time.Minute
	// share is the part of a core that moving takes: one in so many.
	share = 10
)

const (
	pageSize = 4096
	// size is that of a huge page, which begins at a multiple of it, in bytes.
	size = 2 << 20
)

// extent is a range of addresses, in whole huge pages.
type extent struct{ from, to uintptr }

// heap is this process's memory, as its kernel knows it.
type heap interface {
	// extents lists what may be heap, in ascending order.
	extents() ([]extent, error)
	// present fills entries with what the kernel says of each small page from an address on.
	present(at uintptr, entries []byte) error
	// collapse moves the 2 MiB at an address into a huge page.
	collapse(at uintptr) error
	io.Closer
}

// Keep moves the heap into huge pages until ctx ends, at a tenth of a core. Where there are none to
// be had it returns.
func Keep(ctx context.Context) error {
	h, err := open()
	if err != nil {
		return err
	}
	defer h.Close()
	before := map[uintptr]bool{}
	for wait := soonest; ; wait = min(2*wait, latest) {
		if err = sleep(ctx, wait); err != nil {
			return err
		}
		whole, err := resident(h)
		if err != nil {
			return err
		}
		now := make(map[uintptr]bool, len(whole))
		for _, at := range whole {
			if now[at] = true; !before[at] {
				wait = soonest / 2
				continue // perhaps it is garbage by the next time
			}
			began := time.Now()
			if err = h.collapse(at); err != nil {
				delete(now, at)
			}
			if took := time.Since(began); took > time.Millisecond/share {
				if err = sleep(ctx, (share-1)*took); err != nil {
					return err
				}
			}
		}
		before = now
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Gather moves all of the heap that is resident at once, and returns how many huge pages it has
// then. The error of a kernel that cannot is EINVAL.
func Gather() (pages int, err error) {
	h, err := open()
	if err != nil {
		return 0, err
	}
	defer h.Close()
	whole, err := resident(h)
	var failed error
	for _, at := range whole {
		if e := h.collapse(at); e != nil {
			failed = e
			continue
		}
		pages++
	}
	if err == nil && pages == 0 {
		err = failed
	}
	return pages, err
}

// resident lists where a huge page could stand whose small pages are all in memory.
func resident(h heap) (whole []uintptr, err error) {
	extents, err := h.extents()
	entries := make([]byte, 8*size/pageSize)
	for _, e := range extents {
		for at := e.from; at < e.to && err == nil; at += size {
			if err = h.present(at, entries); err == nil && all(entries) {
				whole = append(whole, at)
			}
		}
	}
	return whole, err
}

// all reports whether all pages are in memory: bit 63 of an entry of Linux's pagemap says so.
func all(entries []byte) bool {
	for e := range slices.Chunk(entries, 8) {
		if binary.NativeEndian.Uint64(e)>>63 == 0 {
			return false
		}
	}
	return true
}

// parse reads the private anonymous memory of a process from the text of its maps, in ascending
// order. What is smaller than a huge page is left out.
func parse(maps io.Reader) (found []extent, err error) {
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		var e extent
		var access, offset, device, name string
		var inode uint64
		// 7f00-7f80 rw-p 00000000 00:00 0 [anon: Go: heap]
		n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s %s %s %d %s",
			&e.from, &e.to, &access, &offset, &device, &inode, &name)
		if n < 6 || access != "rw-p" || inode != 0 || name != "" && !strings.HasPrefix(name, "[anon:") {
			continue
		}
		if e.from, e.to = (e.from+size-1)&^(size-1), e.to&^(size-1); e.from < e.to {
			found = append(found, e)
		}
	}
	return found, lines.Err()
}
