package hugepages

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// process is the heap of this process.
type process struct{ pagemap *os.File }

func open() (heap, error) {
	mode, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(mode), "[never]") || os.Getpagesize() != pageSize {
		return nil, errors.Join(errors.ErrUnsupported, err)
	}
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil, err
	}
	return process{pagemap}, nil
}

func (p process) Close() error { return p.pagemap.Close() }

func (process) extents() ([]extent, error) {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	found, err := parse(maps)
	return found, errors.Join(err, maps.Close())
}

func (p process) present(at uintptr, entries []byte) error {
	_, err := p.pagemap.ReadAt(entries, int64(at/pageSize*8))
	return err
}

// collapse needs Linux 6.1. It passes an address, not a pointer: the memory is the runtime's.
func (process) collapse(at uintptr) error {
	if _, _, code := unix.Syscall(unix.SYS_MADVISE, at, size, unix.MADV_COLLAPSE); code != 0 {
		return code
	}
	return nil
}
