package prefetch_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"tollgate/engine/prefetch"
)

// TestMemoryIsResidentOnceItIsWritten: the kernel gives a page when it is written or asked for.
func TestMemoryIsResidentOnceItIsWritten(t *testing.T) {
	b, err := unix.Mmap(-1, 0, 16<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(b)) }()

	require.False(t, prefetch.Resident(b))
	b[8<<10] = 1 // the third of four pages
	require.False(t, prefetch.Resident(b))
	require.True(t, prefetch.Resident(b[:14<<10]), "the last whole page is the third")
	b[12<<10] = 1
	require.True(t, prefetch.Resident(b))
	require.False(t, prefetch.Resident(b[:4<<10]), "the first page was not written")
	prefetch.Populate(b)
	require.True(t, prefetch.Resident(b[:4<<10]))
	for _, short := range [][]byte{nil, b[:0], b[1 : 4<<10], b[12<<10+1:]} {
		require.False(t, prefetch.Resident(short), "%d bytes hold no whole page", len(short))
	}
}
