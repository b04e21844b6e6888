package wal_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"tollgate/wal"
)

// An uncached file has a descriptor with O_DIRECT on each file system that has it.
func TestAnUncachedFileIsOpenPastThePageCache(t *testing.T) {
	name := filepath.Join(t.TempDir(), "large")
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	fd, refused := unix.Open(name, unix.O_RDONLY|unix.O_DIRECT, 0)
	if refused == nil {
		require.NoError(t, unix.Close(fd))
	} else {
		require.Equal(t, unix.EINVAL, refused)
	}
	for _, open := range []func(string) (wal.File, error){
		wal.OS().CreateUncached, wal.OS().OpenReadUncached,
	} {
		f, err := open(name)
		require.NoError(t, err)
		direct := wal.Direct(f)
		require.Equal(t, refused == nil, direct != nil)
		if direct != nil {
			flags, err := unix.FcntlInt(direct.Fd(), unix.F_GETFL, 0)
			require.NoError(t, err)
			require.NotZero(t, flags&unix.O_DIRECT)
		}
		require.NoError(t, f.Close())
	}
}

// A file whose name is given to another one while it is opened is read from one of them.
func TestAnUncachedFileIsOneFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "large")
	b := content(2*block, 0)
	require.NoError(t, os.WriteFile(name, b, 0o600))
	plain, err := os.Open(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name+".tmp", content(3*block, 0), 0o600))
	require.NoError(t, os.Rename(name+".tmp", name))
	f, err := wal.OpenedUncached(plain, os.O_RDONLY)
	require.NoError(t, err)
	require.Nil(t, wal.Direct(f))
	requireBytes(t, f, b)
	require.NoError(t, f.Close())
}

// Where there is one descriptor left, of the two that it takes, no file is made.
func TestAnUncachedFileThatCannotBeOpenedTwiceIsNotThere(t *testing.T) {
	name := filepath.Join(t.TempDir(), "large")
	last, err := os.Open(filepath.Dir(name)) // the lowest descriptor that is free
	require.NoError(t, err)
	most := last.Fd() + 1
	require.NoError(t, last.Close())
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{
		Cur: uint64(most), Max: limit.Max,
	}))
	f, failed := wal.OS().CreateUncached(name)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	require.ErrorIs(t, failed, unix.EMFILE)
	require.Nil(t, f)
	require.NoFileExists(t, name)
}

// Neither writing nor reading an uncached file leaves its whole blocks in the page cache.
func TestAnUncachedFileIsNotInThePageCache(t *testing.T) {
	dir := t.TempDir()
	var of unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &of))
	if of.Type != unix.EXT4_SUPER_MAGIC && of.Type != unix.XFS_SUPER_MAGIC {
		t.Log("not checked: the file system may have nothing but its cache")
		return
	}
	name := filepath.Join(dir, "large")
	f, err := wal.OS().CreateUncached(name)
	require.NoError(t, err)
	b := content(2*piece+block+9, 0)
	_, err = f.WriteAt(b, 0)
	require.NoError(t, err)
	requirePagesCached(t, name, 1)
	require.NoError(t, f.Close())

	f, err = wal.OS().OpenReadUncached(name)
	require.NoError(t, err)
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	requirePagesCached(t, name, 1)
	require.NoError(t, f.Close())
}

// requirePagesCached fails if more pages of a file are in memory.
func requirePagesCached(t *testing.T, name string, most int) {
	t.Helper()
	fd, err := unix.Open(name, unix.O_RDONLY, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(fd)) }()
	var stat unix.Cachestat_t
	err = unix.Cachestat(uint(fd), &unix.CachestatRange{}, &stat, 0)
	if err == unix.ENOSYS {
		t.Log("not checked: the kernel is older than Linux 6.5")
		return
	}
	require.NoError(t, err)
	require.LessOrEqual(t, stat.Cache, uint64(most))
}
