package cluster

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
	"tollgate/wal"
)

const voteDir = "/data/billing"

var (
	errIO   = errors.New("input/output error")
	candKey = []byte("LastVoteCand")
)

func newVoteDisk(t *testing.T) *faultfs.Disk {
	t.Helper()
	disk := faultfs.New()
	require.NoError(t, disk.MkdirAll(voteDir))
	return disk
}

func reopenVote(t *testing.T, disk *faultfs.Disk) *voteFile {
	t.Helper()
	v, err := openVote(disk, voteDir, testLog())
	require.NoError(t, err)
	return v
}

func requirePromise(t *testing.T, v *voteFile, term uint64, candidate string) {
	t.Helper()
	got, err := v.GetUint64(termKey)
	require.NoError(t, err)
	require.Equal(t, term, got)
	who, err := v.Get(candKey)
	require.NoError(t, err)
	require.Equal(t, candidate, string(who))
}

// fileBytes reads a file of a disk.
func fileBytes(t *testing.T, disk *faultfs.Disk, name string) []byte {
	t.Helper()
	f, err := disk.OpenRead(name)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	b := make([]byte, size)
	if size > 0 {
		_, err = f.ReadAt(b, 0)
		require.NoError(t, err)
	}
	return b
}

func TestVoteIsKept(t *testing.T) {
	disk := newVoteDisk(t)
	v := reopenVote(t, disk)
	_, err := v.GetUint64(termKey)
	require.EqualError(t, err, "not found", "raft compares the text")
	require.NoError(t, v.SetUint64(termKey, 7))
	require.NoError(t, v.Set(candKey, []byte("b")))
	require.NoError(t, v.Set(candKey, []byte("c")))
	_, err = v.GetUint64(candKey)
	require.ErrorContains(t, err, "is not a number")
	require.ErrorContains(t, v.Set([]byte("large"), make([]byte, voteCopyBytes)), "at most")
	disk.Crash(nil)
	requirePromise(t, reopenVote(t, disk), 7, "c")
}

// Raft stores the term of a vote before whom it is for: until then others are told of no vote.
func TestAVoteIsToldWhenItIsWhole(t *testing.T) {
	v := reopenVote(t, newVoteDisk(t))
	require.NoError(t, v.SetUint64(termKey, 6))
	require.NoError(t, v.SetUint64(voteTermKey, 6))
	require.NoError(t, v.Set(candKey, []byte("b")))
	require.Equal(t, mark{Term: 6, Vote: voteFor([]byte("b"))}, *v.published.Load())
	require.NoError(t, v.SetUint64(termKey, 7))
	require.Equal(t, mark{Term: 7}, *v.published.Load())
	require.NoError(t, v.SetUint64(voteTermKey, 7))
	require.Equal(t, mark{Term: 7}, *v.published.Load(), "not the vote of the term before")
	require.NoError(t, v.Set(candKey, []byte("c")))
	require.Equal(t, mark{Term: 7, Vote: voteFor([]byte("c"))}, *v.published.Load())
}

// Whatever happens to one copy, every bit of it, the other has what was promised last; with both
// gone, the node refuses and changes nothing.
func TestVoteOutlivesAnyDamageToOneCopy(t *testing.T) {
	disk := newVoteDisk(t)
	v := reopenVote(t, disk)
	require.NoError(t, v.SetUint64(termKey, 6))
	require.NoError(t, v.SetUint64(termKey, 7))
	require.NoError(t, v.Set(candKey, []byte("c")))
	require.NoError(t, v.Close())
	name := filepath.Join(voteDir, voteName)
	whole := fileBytes(t, disk, name)
	used := bytes.LastIndexFunc(whole, func(r rune) bool { return r != 0 }) - voteCopyBytes + 1
	for at := range 2 * used {
		place := at%used + at/used*voteCopyBytes
		require.NoError(t, disk.Corrupt(name, func(b []byte) []byte {
			b[place] ^= 1 << (at % 8)
			return b
		}))
		v := reopenVote(t, disk)
		requirePromise(t, v, 7, "c")
		require.NoError(t, v.Close())
		require.Equal(t, whole, fileBytes(t, disk, name), "both copies are good again")
	}
	for _, damage := range []func([]byte) []byte{
		func([]byte) []byte { return nil },
		func(b []byte) []byte { return b[:twinHeadBytes] },
		func(b []byte) []byte { return make([]byte, len(b)) },
		func(b []byte) []byte { b[9] ^= 1; b[voteCopyBytes+30] ^= 4; return b },
	} {
		require.NoError(t, disk.Corrupt(name, func([]byte) []byte { return damage(bytes.Clone(whole)) }))
		before := fileBytes(t, disk, name)
		_, err := openVote(disk, voteDir, testLog())
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, wal.Rejoin)
		require.Equal(t, before, fileBytes(t, disk, name))
	}
}

// The power goes at each operation, and at each one of the start after that: what was promised
// stays promised, and what was not is there as a whole or not at all.
func TestVoteAtEveryCrash(t *testing.T) {
	// run promises until the power goes, and returns the last that was.
	run := func(v *voteFile) (promised uint64) {
		for term := promised + 1; term < 5; term++ {
			if v.SetUint64(termKey, term) != nil {
				return promised
			}
			promised = term
		}
		return promised
	}
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
	crashes := 0
	for n := 1; n <= 20; n++ {
		for seed := range uint64(8) {
			pick := rand.New(rand.NewPCG(seed, uint64(n))).IntN
			disk := newVoteDisk(t)
			promised := uint64(0)
			cutAt(disk, n)
			if v, err := openVote(disk, voteDir, testLog()); err == nil {
				promised = run(v)
			}
			disk.Crash(pick)
			cutAt(disk, 1+int(seed))
			if _, err := openVote(disk, voteDir, testLog()); err != nil {
				require.ErrorIs(t, err, faultfs.ErrPowerOff)
				crashes++
			}
			disk.Crash(pick)
			got, err := reopenVote(t, disk).GetUint64(termKey)
			if promised == 0 && err != nil {
				continue
			}
			require.NoError(t, err, "operation %d, seed %d", n, seed)
			require.GreaterOrEqual(t, got, promised, "operation %d, seed %d", n, seed)
			require.LessOrEqual(t, got, promised+1, "operation %d, seed %d", n, seed)
		}
	}
	require.Greater(t, crashes, 50)
}

// A vote whose fsync failed was not given. If the next process can read it all the same, it is on
// disk before it counts.
func TestVoteWhoseSyncFailedCountsOnlyOnceItIsOnDisk(t *testing.T) {
	disk := newVoteDisk(t)
	v := reopenVote(t, disk)
	require.NoError(t, v.SetUint64(termKey, 7))
	require.NoError(t, v.Set(candKey, []byte("b")))
	disk.Inject(func(op faultfs.Op) error {
		if op.Kind == faultfs.KindSync {
			return errIO
		}
		return nil
	})
	require.ErrorIs(t, v.Set(candKey, []byte("c")), errIO)
	disk.Inject(nil)
	require.ErrorContains(t, v.Set(candKey, []byte("a")), "refused, an earlier write failed")
	requirePromise(t, v, 7, "b")
	disk.Kill()
	v = reopenVote(t, disk)
	who, err := v.Get(candKey)
	require.NoError(t, err)
	disk.Crash(nil)
	requirePromise(t, reopenVote(t, disk), 7, string(who))
}
