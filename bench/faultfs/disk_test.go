package faultfs_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
	"tollgate/wal"
)

var errIO = errors.New("input/output error")

func create(t *testing.T, d *faultfs.Disk, name string) wal.File {
	t.Helper()
	require.NoError(t, d.MkdirAll("/d"))
	f, err := d.Create("/d/" + name)
	require.NoError(t, err)
	return f
}

func write(t *testing.T, f wal.File, text string, at int64) {
	t.Helper()
	n, err := f.WriteAt([]byte(text), at)
	require.NoError(t, err)
	require.Equal(t, len(text), n)
}

func content(t *testing.T, d *faultfs.Disk, name string) string {
	t.Helper()
	f, err := d.Open("/d/" + name)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	b := make([]byte, size)
	if size > 0 {
		_, err = f.ReadAt(b, 0)
		require.NoError(t, err)
	}
	return string(b)
}

func TestCrashKeepsWhatWasSynced(t *testing.T) {
	d := faultfs.New()
	a, b := create(t, d, "a"), create(t, d, "b")
	write(t, a, "durable", 0)
	require.NoError(t, a.Sync())
	write(t, a, "DURABLE and lost", 0)
	write(t, b, "content that nobody synced", 0)
	require.NoError(t, d.SyncDir("/d"))
	c := create(t, d, "c")
	write(t, c, "name that nobody synced", 0)
	require.NoError(t, c.Sync())
	require.NoError(t, d.Rename("/d/b", "/d/b2"))
	d.Crash(nil)
	_, err := a.WriteAt([]byte("x"), 0)
	require.ErrorIs(t, err, fs.ErrClosed, "the process is gone")
	require.Equal(t, "durable", content(t, d, "a"))
	require.Empty(t, content(t, d, "b"))
	names, err := d.List("/d")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, names)
}

func TestKillKeepsWhatWasWritten(t *testing.T) {
	d := faultfs.New()
	a := create(t, d, "a")
	write(t, a, "written", 0)
	_, err := d.Lock("/d/LOCK")
	require.NoError(t, err)
	_, err = d.Lock("/d/LOCK")
	require.ErrorIs(t, err, wal.ErrLocked)
	d.Kill()
	require.Equal(t, "written", content(t, d, "a"))
	_, err = d.Lock("/d/LOCK")
	require.NoError(t, err)
	d.Crash(nil)
	_, err = d.Open("/d/a")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestCrashKeepsAnySectors(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(64) {
		d := faultfs.New()
		a := create(t, d, "a")
		require.NoError(t, d.SyncDir("/d"))
		write(t, a, string(bytes.Repeat([]byte{'x'}, 2*faultfs.SectorBytes)), 256)
		d.Crash(rand.New(rand.NewPCG(seed, 1)).IntN)
		text := content(t, d, "a")
		seen[string([]byte{at(text, 256), at(text, 600), at(text, 1100)})] = true
	}
	require.Len(t, seen, 8, "each of the three sectors comes and goes by itself")
}

func at(s string, i int) byte {
	if i < len(s) && s[i] != 0 {
		return s[i]
	}
	return '-'
}

func TestFailedSyncLosesForGood(t *testing.T) {
	d := faultfs.New()
	a := create(t, d, "a")
	require.NoError(t, d.SyncDir("/d"))
	write(t, a, "lost", 0)
	d.Inject(func(op faultfs.Op) error {
		if op.Kind == faultfs.KindSync {
			return errIO
		}
		return nil
	})
	require.ErrorIs(t, a.Sync(), errIO)
	d.Inject(nil)
	require.NoError(t, a.Sync(), "as if all were well")
	require.Equal(t, "lost", content(t, d, "a"))
	d.Crash(nil)
	require.Empty(t, content(t, d, "a"))
}

func TestShortAndFull(t *testing.T) {
	d := faultfs.New()
	a := create(t, d, "a")
	d.Inject(func(faultfs.Op) error { return &faultfs.ShortWrite{Keep: 2, Err: errIO} })
	n, err := a.WriteAt([]byte("abcd"), 0)
	require.Equal(t, 2, n)
	require.ErrorIs(t, err, errIO)
	d.Inject(nil)
	d.SetCapacity(5)
	n, err = a.WriteAt([]byte("abcdefg"), 0)
	require.Equal(t, 5, n)
	require.ErrorIs(t, err, syscall.ENOSPC)
	write(t, a, "12345", 0)
	require.Equal(t, "12345", content(t, d, "a"))
}
