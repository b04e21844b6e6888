package wal_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"tollgate/wal"
)

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
