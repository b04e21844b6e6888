package hugepages

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestTheHeapIsGathered(t *testing.T) {
	kept := make([]byte, 64<<20)
	for i := range kept {
		kept[i] = byte(i >> 12)
	}
	pages, err := Gather()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.EINVAL) {
		require.Zero(t, pages) // a machine without huge pages, or Linux before 6.1
		return
	}
	require.NoError(t, err)
	require.GreaterOrEqual(t, pages, 31)
	require.GreaterOrEqual(t, anonHugeKiB(t), 62<<10)
	for i := range kept {
		if kept[i] != byte(i>>12) {
			t.Fatalf("byte %d has changed", i)
		}
	}
}

func anonHugeKiB(t *testing.T) (kib int) {
	t.Helper()
	rollup, err := os.ReadFile("/proc/self/smaps_rollup")
	require.NoError(t, err)
	for line := range strings.Lines(string(rollup)) {
		if f := strings.Fields(line); f[0] == "AnonHugePages:" {
			for _, digit := range f[1] {
				kib = 10*kib + int(digit-'0')
			}
		}
	}
	return kib
}
