package wal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/wal"
)

// BenchmarkStoreLogs compares this log and a bare append with fdatasync, each with its fsync. One
// operation is one StoreLogs call.
//
//	go test ./wal -run - -bench StoreLogs
func BenchmarkStoreLogs(b *testing.B) {
	for _, c := range []struct{ size, n int }{
		{1 << 10, 1}, {1 << 10, 16}, {1 << 10, 128}, {256 << 10, 1},
	} {
		name := fmt.Sprintf("%dKiBx%d", c.size>>10, c.n)
		b.Run("wal/"+name, func(b *testing.B) {
			l, err := wal.Open(filepath.Join(b.TempDir(), "log"), wal.Options{Logger: quiet()})
			require.NoError(b, err)
			storeLoop(b, l, c.n, c.size)
			require.NoError(b, l.Close())
		})
		b.Run("bare/"+name, func(b *testing.B) {
			f, err := os.Create(filepath.Join(b.TempDir(), "bare"))
			require.NoError(b, err)
			osFile, err := wal.OS().Open(f.Name())
			require.NoError(b, err)
			data := make([]byte, c.n*c.size)
			b.SetBytes(int64(len(data)))
			offset := int64(0)
			for b.Loop() {
				_, err := osFile.WriteAt(data, offset)
				require.NoError(b, err)
				require.NoError(b, osFile.SyncData())
				offset += int64(len(data))
			}
			require.NoError(b, osFile.Close())
			require.NoError(b, f.Close())
		})
	}
}

// BenchmarkLogOfBoundedSize is a log in use: its older half is deleted whenever it has 64 MiB.
func BenchmarkLogOfBoundedSize(b *testing.B) {
	for _, size := range []int{20 << 10, 64 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			l, err := wal.Open(filepath.Join(b.TempDir(), "log"), bounded())
			require.NoError(b, err)
			logs := batch(1, 1, size)
			every := uint64(32 << 20 / size)
			store := func() {
				require.NoError(b, l.StoreLogs(logs))
				if i := logs[0].Index; i%every == 0 && i > every {
					require.NoError(b, l.DeleteRange(1, i-every))
				}
				logs[0].Index++
			}
			for range 3 * every {
				store()
			}
			b.SetBytes(int64(size))
			before := processorTime(b)
			for b.Loop() {
				store()
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
			require.NoError(b, l.Close())
		})
	}
}

func bounded() wal.Options { return wal.Options{Logger: quiet(), SpareBytes: 64 << 20} }

func processorTime(b *testing.B) int64 {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}

func storeLoop(b *testing.B, store raft.LogStore, n, size int) {
	logs := batch(1, n, size)
	b.SetBytes(int64(n * size))
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, store.StoreLogs(logs))
		for _, log := range logs {
			log.Index += uint64(n)
		}
	}
}

// BenchmarkGetLog reads records of 1 KiB from disk, checksums included.
func BenchmarkGetLog(b *testing.B) {
	l, err := wal.Open(filepath.Join(b.TempDir(), "log"), wal.Options{Logger: quiet()})
	require.NoError(b, err)
	require.NoError(b, l.StoreLogs(batch(1, 1000, 1<<10)))
	b.SetBytes(1 << 10)
	var log raft.Log
	for i := uint64(0); b.Loop(); i++ {
		require.NoError(b, l.GetLog(1+i%1000, &log))
	}
	require.NoError(b, l.Close())
}

// BenchmarkDelete measures what raft waits for: compaction of 64 MiB and a cut of half of it.
func BenchmarkDelete(b *testing.B) {
	for _, suffix := range []bool{false, true} {
		b.Run(fmt.Sprintf("suffix=%t", suffix), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				dir := filepath.Join(b.TempDir(), "log")
				l, err := wal.Open(dir, wal.Options{Logger: quiet()})
				require.NoError(b, err)
				for i := range uint64(64) {
					require.NoError(b, l.StoreLogs(batch(1+16*i, 16, 64<<10)))
				}
				low, high := uint64(1), uint64(900)
				if suffix {
					low, high = 512, 1024
				}
				b.StartTimer()
				require.NoError(b, l.DeleteRange(low, high))
				b.StopTimer()
				require.NoError(b, l.Close())
				require.NoError(b, os.RemoveAll(dir))
				b.StartTimer()
			}
		})
	}
}
