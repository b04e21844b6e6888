package wal_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
	"tollgate/wal"
)

var errIO = errors.New("input/output error")

func failKind(kind faultfs.Kind, err error) func(faultfs.Op) error {
	return func(op faultfs.Op) error {
		if op.Kind == kind {
			return err
		}
		return nil
	}
}

// Whatever operation fails, in whatever call, the log is poisoned: nothing is tried again, and
// after a restart everything acknowledged is there.
func TestFirstFailurePoisonsForGood(t *testing.T) {
	calls := map[string]func(*wal.Log) error{
		"append":        func(l *wal.Log) error { return l.StoreLog(record(31, 7, 100)) },
		"append a lot":  func(l *wal.Log) error { return l.StoreLogs(batch(31, 9, 900)) },
		"delete prefix": func(l *wal.Log) error { return l.DeleteRange(1, 19) },
		"delete suffix": func(l *wal.Log) error { return l.DeleteRange(12, 30) },
		"delete all":    func(l *wal.Log) error { return l.DeleteRange(1, 30) },
		"read": func(l *wal.Log) error {
			return l.GetLog(3, &raft.Log{})
		},
		"read a header": func(l *wal.Log) error {
			return l.ReadHeader(3, &raft.Log{})
		},
	}
	kinds := []faultfs.Kind{
		faultfs.KindCreate, faultfs.KindRename, faultfs.KindRemove, faultfs.KindSyncDir,
		faultfs.KindRead, faultfs.KindWrite, faultfs.KindTruncate, faultfs.KindSync,
	}
	hit := 0
	for name, call := range calls {
		for _, kind := range kinds {
			t.Run(fmt.Sprintf("%s/%s", name, kind), func(t *testing.T) {
				if failsWhere(t, call, kind) {
					hit++
				}
			})
		}
	}
	require.Greater(t, hit, 20)
}

// failsWhere is false if the call makes no operation of this kind.
func failsWhere(t *testing.T, call func(*wal.Log) error, kind faultfs.Kind) bool {
	disk := faultfs.New()
	var fatal []error
	l, err := wal.Open(testDir, wal.Options{
		FS: disk, SegmentBytes: 1024, SpareBytes: 4096, Logger: quiet(),
		OnFatal: func(err error) { fatal = append(fatal, err) },
	})
	require.NoError(t, err)
	appendEach(t, l, 1, 30)
	disk.Inject(failKind(kind, errIO))
	err = call(l)
	if err == nil {
		require.NoError(t, l.Poisoned())
		return false
	}
	require.ErrorIs(t, err, errIO)
	require.ErrorIs(t, l.Poisoned(), errIO)
	disk.Inject(nil) // the disk is well again; the log does not believe it
	ops := disk.Ops()
	require.ErrorIs(t, l.StoreLog(record(31, 7, 10)), wal.ErrPoisoned)
	require.ErrorIs(t, l.DeleteRange(1, 5), wal.ErrPoisoned)
	require.ErrorIs(t, l.Reset(), wal.ErrPoisoned)
	require.ErrorIs(t, l.Reset(), errIO, "the cause is told each time")
	require.Equal(t, ops, disk.Ops(), "nothing is tried again")
	require.Len(t, fatal, 1, "told once")
	require.ErrorIs(t, fatal[0], errIO)
	require.NoError(t, l.Close())
	l, _, err = reopen(disk)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return true
}

func TestFullDiskPoisonsAndNothingShifts(t *testing.T) {
	disk := faultfs.New()
	l := open(t, disk, 4096)
	appendEach(t, l, 1, 50)
	disk.SetCapacity(onDisk(t, disk) + 600)
	last := uint64(50)
	var err error
	for err == nil {
		if err = l.StoreLog(record(last+1, 7, 100)); err == nil {
			last++
		}
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	disk.SetCapacity(0)
	require.ErrorIs(t, l.StoreLog(record(last+1, 7, 100)), wal.ErrPoisoned)
	require.ErrorIs(t, l.StoreLog(record(last+1, 7, 100)), syscall.ENOSPC)
	requireRange(t, l, 1, last)
	l, _, err = reopen(disk)
	require.NoError(t, err)
	got, err := l.LastIndex()
	require.NoError(t, err)
	require.GreaterOrEqual(t, got, last)
	requireRange(t, l, 1, got)
}

func TestReadsGoOnWhileTheDiskHangs(t *testing.T) {
	disk := faultfs.New()
	l := open(t, disk, 0)
	appendEach(t, l, 1, 3)
	entered, release := make(chan struct{}), make(chan struct{})
	disk.Inject(func(op faultfs.Op) error {
		if op.Kind == faultfs.KindSync {
			close(entered)
			<-release
		}
		return nil
	})
	done := make(chan error, 1)
	go func() { done <- l.StoreLog(record(4, 7, 10)) }()
	<-entered
	requireRange(t, l, 1, 3)
	disk.Inject(nil)
	close(release)
	require.NoError(t, <-done)
	requireRange(t, l, 1, 4)
}

func TestFailedOpenCanBeRepeated(t *testing.T) {
	build := func() *faultfs.Disk {
		disk := faultfs.New()
		l := open(t, disk, 1024)
		appendEach(t, l, 1, 20)
		require.NoError(t, l.DeleteRange(1, 9))
		disk.Crash(nil)
		return disk
	}
	ops := build()
	before := ops.Ops()
	open(t, ops, 1024)
	total := ops.Ops() - before
	require.Greater(t, total, 10)
	for n := 1; n <= total; n++ {
		disk := build()
		at := disk.Ops() + n
		disk.Inject(func(op faultfs.Op) error {
			if op.N == at {
				return errIO
			}
			return nil
		})
		_, _, err := reopen(disk)
		require.ErrorIs(t, err, errIO, "operation %d of Open", n)
		disk.Inject(nil)
		l, err := wal.Open(testDir, wal.Options{FS: disk, Logger: quiet()})
		require.NoError(t, err, "a failed Open gives the folder back")
		requireRange(t, l, 10, 20)
	}
}
