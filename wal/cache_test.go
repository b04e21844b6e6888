package wal_test

import (
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/faultfs"
	"tollgate/wal"
)

func TestCacheIsBoundedInBytes(t *testing.T) {
	c := wal.NewCache(open(t, faultfs.New(), 0), 10_000)
	require.True(t, c.IsMonotonic())
	require.NoError(t, c.StoreLogs(batch(1, 100, 872))) // 1,000 bytes each with the overhead
	requireHeld(t, c, 10, 10_000)
	requireRange(t, c, 1, 100)
	require.NoError(t, c.StoreLog(record(101, 0, 20_000)))
	requireHeld(t, c, 0, 0) // larger than the bound
	require.NoError(t, c.StoreLog(record(102, 0, 20)))
	requireHeld(t, c, 1, 20+128)
	requireRange(t, c, 1, 102)
}

func requireHeld(t *testing.T, c *wal.Cache, entries int, bytes int64) {
	t.Helper()
	n, size := c.Held()
	require.Equal(t, entries, n)
	require.Equal(t, bytes, size)
}

func TestCacheKeepsNothingThatWasNotStored(t *testing.T) {
	disk := faultfs.New()
	c := wal.NewCache(open(t, disk, 0), 1<<20)
	require.NoError(t, c.StoreLogs(batch(1, 3, 10)))
	require.ErrorIs(t, c.StoreLog(record(9, 1, 10)), wal.ErrGap)
	disk.Inject(failKind(faultfs.KindSync, errIO))
	require.ErrorIs(t, c.StoreLog(record(4, 1, 10)), errIO)
	requireHeld(t, c, 3, 3*(10+128))
	requireRange(t, c, 1, 3)
}

// TestCacheAnswersLikeItsStore compares a cache with a store that never forgets.
func TestCacheAnswersLikeItsStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store, err := wal.Open(testDir,
			wal.Options{FS: faultfs.New(), SegmentBytes: 4096, Logger: quiet()})
		require.NoError(t, err)
		c := wal.NewCache(store, int64(rapid.IntRange(0, 4000).Draw(t, "limit")))
		plain := raft.NewInmemStore()
		next, serial := uint64(1), 0
		t.Repeat(map[string]func(*rapid.T){
			"store": func(t *rapid.T) {
				logs := make([]*raft.Log, rapid.IntRange(1, 9).Draw(t, "n"))
				for i := range logs {
					serial++
					size := rapid.IntRange(0, 600).Draw(t, "size")
					logs[i] = record(next+uint64(i), serial, size)
				}
				require.NoError(t, c.StoreLogs(logs))
				require.NoError(t, plain.StoreLogs(logs))
				next += uint64(len(logs))
			},
			"delete": func(t *rapid.T) {
				first, err := c.FirstIndex()
				require.NoError(t, err)
				if first == 0 {
					return
				}
				at := rapid.Uint64Range(first, next-1).Draw(t, "at")
				low, high := first, at
				if rapid.Bool().Draw(t, "suffix") {
					low, high = at, next-1
					next = at
				}
				require.NoError(t, c.DeleteRange(low, high))
				require.NoError(t, plain.DeleteRange(low, high))
			},
			"": func(t *rapid.T) {
				for i := uint64(0); i <= next; i++ {
					var got, want raft.Log
					wantErr := plain.GetLog(i, &want)
					require.Equal(t, wantErr, c.GetLog(i, &got))
					require.True(t, same([]*raft.Log{&want}, []*raft.Log{&got}))
				}
			},
		})
	})
}
