package cluster

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
)

// openTwin reads a file anew.
func openTwin(t *testing.T, disk *faultfs.Disk, name string) (*twin, string) {
	t.Helper()
	w, content, _, err := pastTwin.open(disk, name)
	require.NoError(t, err)
	return w, string(content)
}

// spoil damages one copy of a file.
func spoil(t *testing.T, disk *faultfs.Disk, name string, copy int) {
	t.Helper()
	require.NoError(t, disk.Corrupt(name, func(b []byte) []byte {
		b[copy*pastTwin.copyBytes+twinHeadBytes] ^= 1
		return b
	}))
}

// The copy with the higher sequence is the newer one, wherever it lies, and replace overwrites the
// other: with the newer copy gone, what was before it is there.
func TestTheNewerCopyOfATwinIsRead(t *testing.T) {
	const name = "/data/past"
	for _, reopen := range []bool{false, true} {
		for writes := 1; writes <= 4; writes++ {
			for bad := range 2 {
				disk := faultfs.New()
				require.NoError(t, disk.MkdirAll("/data"))
				w, err := pastTwin.create(disk, name, 0, []byte("0"))
				require.NoError(t, err)
				newest := w.newest
				for n := 1; n <= writes; n++ {
					require.NoError(t, w.replace(fmt.Append(nil, n)))
					newest = 1 - newest
					if reopen {
						require.NoError(t, w.close())
						var content string
						w, content = openTwin(t, disk, name)
						require.Equal(t, fmt.Sprint(n), content)
					}
				}
				require.NoError(t, w.close())
				_, content := openTwin(t, disk, name)
				require.Equal(t, fmt.Sprint(writes), content)
				spoil(t, disk, name, bad)
				want := writes
				if bad == newest {
					want--
				}
				_, content = openTwin(t, disk, name)
				require.Equal(t, fmt.Sprint(want), content, "copy %d is bad, reopened: %t", bad, reopen)
			}
		}
	}
}

// The power goes at each operation of replace, and of the rewrite at the start after that: the file
// has what was written last or, where that was not answered, what came next. It never goes back.
func TestATwinNeverGoesBack(t *testing.T) {
	const name = "/data/past"
	cutAt := func(disk *faultfs.Disk, n int) {
		at := disk.Ops() + n
		disk.Inject(func(op faultfs.Op) error {
			switch {
			case op.N < at:
				return nil
			case op.N == at && op.Kind == faultfs.KindWrite:
				return &faultfs.ShortWrite{Keep: op.Bytes / 3, Err: faultfs.ErrPowerOff}
			}
			return faultfs.ErrPowerOff
		})
	}
	// Each content fills several sectors, all of which the next one changes.
	content := func(n int) string { return strings.Repeat(fmt.Sprintf("%03d,", n), 500) }
	reached := 0
	for cut := 1; cut <= 12; cut++ {
		for seed := range uint64(8) {
			pick := rand.New(rand.NewPCG(seed, uint64(cut))).IntN
			disk := faultfs.New()
			require.NoError(t, disk.MkdirAll("/data"))
			w, err := pastTwin.create(disk, name, 0, []byte(content(0)))
			require.NoError(t, err)
			cutAt(disk, cut)
			written := 0
			for written < 5 && w.replace([]byte(content(written+1))) == nil {
				written++
			}
			disk.Crash(pick)
			w, found := openTwin(t, disk, name)
			require.Contains(t, []string{content(written), content(written + 1)}, found)
			cutAt(disk, 1+int(seed)%4)
			w.sequence++
			if w.rewrite([]byte(content(100))) != nil {
				reached++
			}
			disk.Crash(pick)
			_, after := openTwin(t, disk, name)
			require.Contains(t, []string{found, content(100)}, after, "cut %d, seed %d", cut, seed)
		}
	}
	require.Positive(t, reached)
}
