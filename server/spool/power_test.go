package spool

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/wal"
)

// forgetful is a disk that keeps what was synced: a copy of the folder as of the last sync, which
// is what a power cut leaves.
type forgetful struct {
	kept  string
	syncs int
	fails atomic.Int64 // so many of the next syncs fail
}

func (d *forgetful) sync(log *wal.Log, dir string) error {
	if d.fails.Load() > 0 {
		d.fails.Add(-1)
		return errors.New("the disk is away")
	}
	d.syncs++
	return errors.Join(syncFiles(log, dir), os.RemoveAll(d.kept), os.CopyFS(d.kept, os.DirFS(dir)))
}

// left are the blocks that a process finds after a power cut.
func (d *forgetful) left(f *fixture) []string {
	after := filepath.Join(f.t.TempDir(), "after")
	require.NoError(f.t, os.CopyFS(after, os.DirFS(d.kept)))
	return openSpool(f.t, after, 0).drain()
}

// TestAPowerCutLoses100Milliseconds: a block that was appended longer ago is durable, whatever is
// appended after it, where nothing is, where the spool is full, and where a sync has failed.
func TestAPowerCutLoses100Milliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &forgetful{kept: filepath.Join(t.TempDir(), "kept")}
		f := &fixture{t: t, dir: filepath.Join(t.TempDir(), "spool"), said: new(bytes.Buffer)}
		f.opts = Options{
			Limit: 5 * recordBytes(3), Segment: 64, Log: slog.New(slog.DiscardHandler), sync: disk.sync,
		}
		f.reopen()
		f.append("one", "two")
		require.Equal(t, []string{"one"}, disk.left(f), "the first is synced at once")
		time.Sleep(syncEvery / 2)
		f.append("xyz")
		time.Sleep(syncEvery / 2)
		synctest.Wait()
		require.Equal(t, []string{"one", "two", "xyz"}, disk.left(f))
		time.Sleep(10 * syncEvery)
		synctest.Wait()
		require.Equal(t, 2, disk.syncs, "nothing was appended since")

		f.append("abc")
		disk.fails.Store(2)
		f.append("def")
		require.ErrorIs(t, f.Append([]byte("too much")), ErrFull)
		time.Sleep(4 * syncEvery)
		synctest.Wait()
		require.Zero(t, disk.fails.Load())
		require.Equal(t, []string{"one", "two", "xyz", "abc", "def"}, disk.left(f))
		require.NoError(t, f.Close())
	})
}

// TestASyncThatFailsIsTriedLess: and it is reported once a minute.
func TestASyncThatFailsIsTriedLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &forgetful{kept: filepath.Join(t.TempDir(), "kept")}
		f := &fixture{t: t, dir: filepath.Join(t.TempDir(), "spool"), said: new(bytes.Buffer)}
		f.opts = Options{
			Limit: 1000, Segment: 64, Log: slog.New(slog.NewTextHandler(f.said, nil)), sync: disk.sync,
		}
		f.reopen()
		f.append("one")
		const many = 1000
		tries := func(long time.Duration) int {
			disk.fails.Store(many)
			time.Sleep(long)
			synctest.Wait()
			return many - int(disk.fails.Load())
		}
		f.append("two")
		require.Equal(t, 7, tries(64*syncEvery), "after 1, 2, 4, 8, … times syncEvery")
		require.Equal(t, 12, tries(12*syncAgain))
		require.Equal(t, 2, bytes.Count(f.said.Bytes(), []byte("cannot be synced")))
		disk.fails.Store(0)
		time.Sleep(syncAgain)
		synctest.Wait()
		require.Equal(t, []string{"one", "two"}, disk.left(f))

		f.append("three", "four")
		require.Equal(t, 2, tries(3*syncEvery), "it begins anew")
		require.Equal(t, 2, bytes.Count(f.said.Bytes(), []byte("cannot be synced")))
		disk.fails.Store(0)
		for range 2 * reportEvery / (2 * syncAgain) { // each second sync fails
			time.Sleep(syncAgain)
			synctest.Wait()
			f.drain()
			f.append("five")
			disk.fails.Store(1)
			f.append("six")
			time.Sleep(syncAgain)
			synctest.Wait()
			require.Zero(t, disk.fails.Load())
		}
		require.Equal(t, 4, bytes.Count(f.said.Bytes(), []byte("cannot be synced")))
		require.NoError(t, f.Close())
	})
}
