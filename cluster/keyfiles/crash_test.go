package keyfiles

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
)

// work makes files, merges them and drops some, as far as it comes.
func work(s *Store, h *history) error {
	next := uint64(len(h.keys))
	for _, step := range [][2]uint64{{0, next / 2}, {0, next}, {next / 2, next}} {
		if err := h.work(s, step[0], step[1]); err != nil {
			return err
		}
	}
	return nil
}

// Whatever the disk refuses, takes by half, or loses with its power, at whichever point: what the
// files say then is right, and all is made again.
func TestFilesSurviveEveryFault(t *testing.T) {
	h := newHistory()
	for i := range uint64(6) {
		h.span(i*150, i*150+150)
	}
	options := func(disk *faultfs.Disk) Options {
		o := h.options()
		o.FS, o.BatchKeys, o.ShardKeys = disk, 100, 64
		return o
	}
	count := faultfs.New()
	require.NoError(t, work(Open("/keys", options(count)), h))
	ops := count.Ops()
	require.Greater(t, ops, 50)
	broken := errors.New("the disk is broken")
	for at := range ops {
		for _, how := range []string{"refuses", "refuses once", "takes half", "loses power"} {
			name := fmt.Sprintf("operation %d: %s", at, how)
			disk, random := faultfs.New(), rand.New(rand.NewPCG(uint64(at), 7))
			n, power := 0, func() { disk.Crash(random.IntN) }
			disk.Inject(func(op faultfs.Op) error {
				n++
				switch {
				case n == at+1 && how == "takes half" && op.Kind == faultfs.KindWrite:
					return &faultfs.ShortWrite{Keep: op.Bytes / 2, Err: broken}
				case n == at+1, n > at && how != "refuses once":
					return broken
				}
				return nil
			})
			s := Open("/keys", options(disk))
			err := work(s, h)
			disk.Inject(nil)
			if how == "refuses once" && err != nil {
				h.settleAfter(t, s, name) // the same process goes on
			}
			require.NoError(t, s.Close(), name)
			if how == "loses power" {
				power()
			} else {
				disk.Kill()
			}
			s = Open("/keys", options(disk))
			h.settleAfter(t, s, name)
			require.NoError(t, s.Close(), name)
		}
	}
}

// settleAfter does what is left to do, and compares.
func (h *history) settleAfter(t *testing.T, s *Store, name string) {
	t.Helper()
	next := uint64(len(h.keys))
	require.NoError(t, h.work(s, next/2, next), name)
	require.Equal(t, h.through(), s.Covered(), name)
	for number := next / 2; number < h.through(); number++ {
		v, err := s.FindKey(keyOf(h.keys[number]))
		require.NoError(t, err, name)
		require.True(t, v.Found && v.Number == number, "%s: key %d", name, number)
	}
}
