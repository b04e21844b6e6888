package wal_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
	"tollgate/wal"
)

const testDir = "/data/raft/log"

// record makes a record whose fields are a function of index and serial.
func record(index uint64, serial, size int) *raft.Log {
	data := bytes.Repeat([]byte{byte(serial), byte(index)}, size/2+1)[:size]
	if size >= 16 {
		copy(data, fmt.Sprintf("%d/%d.", index, serial))
	}
	log := &raft.Log{
		Index:      index,
		Term:       uint64(serial),
		Type:       raft.LogType(serial % 6),
		AppendedAt: time.Unix(1_700_000_000+int64(serial), int64(index)).UTC(),
	}
	if size > 0 {
		log.Data = data
	}
	if serial%3 == 2 {
		log.Extensions = []byte(fmt.Sprintf("ext %d", serial))
	}
	return log
}

// batch makes n records of size bytes from index first on.
func batch(first uint64, n, size int) []*raft.Log {
	logs := make([]*raft.Log, n)
	for i := range logs {
		logs[i] = record(first+uint64(i), 7, size)
	}
	return logs
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func open(t testing.TB, disk wal.FS, segmentBytes int64) *wal.Log {
	t.Helper()
	l, err := wal.Open(testDir, wal.Options{FS: disk, SegmentBytes: segmentBytes, Logger: quiet()})
	require.NoError(t, err)
	return l
}

// appendEach stores records first to last, one write each.
func appendEach(t testing.TB, l *wal.Log, first, last uint64) {
	t.Helper()
	for i := first; i <= last; i++ {
		require.NoError(t, l.StoreLog(record(i, 7, 100)))
	}
}

func requireRange(t testing.TB, l raft.LogStore, first, last uint64) {
	t.Helper()
	gotFirst, err := l.FirstIndex()
	require.NoError(t, err)
	gotLast, err := l.LastIndex()
	require.NoError(t, err)
	require.Equal(t, []uint64{first, last}, []uint64{gotFirst, gotLast})
	var log raft.Log
	if first > 0 {
		require.ErrorIs(t, l.GetLog(first-1, &log), raft.ErrLogNotFound)
		for i := first; i <= last; i++ {
			require.NoError(t, l.GetLog(i, &log))
			require.Equal(t, i, log.Index)
		}
	}
	require.ErrorIs(t, l.GetLog(last+1, &log), raft.ErrLogNotFound)
}

func TestEveryFieldComesBack(t *testing.T) {
	records := []*raft.Log{
		{Index: 1, Term: 1},
		{Index: 2, Term: 1<<64 - 1, Type: 255, Data: []byte{0}},
		{Index: 3, Extensions: []byte("only extensions")},
		{Index: 4, Data: make([]byte, 300_000), Extensions: make([]byte, 13)},
		{Index: 5, AppendedAt: time.Date(1, 1, 2, 0, 0, 0, 1, time.UTC)},
		{Index: 6, AppendedAt: time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)},
		{Index: 7, Type: raft.LogConfiguration, Term: 9, Data: []byte("x")},
	}
	disk := faultfs.New()
	l := open(t, disk, 0)
	require.NoError(t, l.StoreLogs(records))
	check := func(l *wal.Log) {
		for _, want := range records {
			var got raft.Log
			require.NoError(t, l.GetLog(want.Index, &got))
			require.Equal(t, *want, got)
			header := *want
			header.Data, header.Extensions = nil, nil
			require.NoError(t, l.ReadHeader(want.Index, &got))
			require.Equal(t, header, got)
		}
		for _, index := range []uint64{0, 8} {
			require.ErrorIs(t, l.ReadHeader(index, new(raft.Log)), raft.ErrLogNotFound)
		}
	}
	check(l)
	require.NoError(t, l.Close())
	check(open(t, disk, 0))
}

func TestEmptyLogIsZeroZeroAndBeginsAnywhere(t *testing.T) {
	disk := faultfs.New()
	l := open(t, disk, 0)
	require.True(t, l.IsMonotonic())
	requireRange(t, l, 0, 0)
	require.NoError(t, l.StoreLogs(nil))
	require.ErrorIs(t, l.StoreLog(&raft.Log{}), wal.ErrGap)
	require.NoError(t, l.Close())
	l = open(t, disk, 0)
	requireRange(t, l, 0, 0)
	appendEach(t, l, 1000, 1003)
	disk.Kill()
	requireRange(t, open(t, disk, 0), 1000, 1003)
}

func TestGapsAreRefusedAndChangeNothing(t *testing.T) {
	disk := faultfs.New()
	l := open(t, disk, 0)
	appendEach(t, l, 1, 3)
	for _, logs := range [][]*raft.Log{
		{record(5, 0, 8)},
		{record(3, 0, 8)},
		{record(4, 0, 8), record(6, 0, 8)},
		{record(4, 0, 8), record(4, 0, 8)},
	} {
		require.ErrorIs(t, l.StoreLogs(logs), wal.ErrGap)
	}
	huge := &raft.Log{Index: 4, Data: make([]byte, wal.MaxRecordBytes+1)}
	require.ErrorIs(t, l.StoreLog(huge), wal.ErrTooLarge)
	require.NoError(t, l.Poisoned())
	appendEach(t, l, 4, 4)
	requireRange(t, l, 1, 4)
}

func TestOneWriteIsOneSync(t *testing.T) {
	disk := faultfs.New()
	var took []time.Duration
	var records int
	l, err := wal.Open(testDir, wal.Options{
		FS: disk, Logger: quiet(),
		OnSync: func(d time.Duration, n int, _ int64) { took = append(took, d); records += n },
	})
	require.NoError(t, err)
	require.NoError(t, l.StoreLogs(batch(1, 50, 1000)))
	syncs := 0
	disk.Inject(func(op faultfs.Op) error {
		if op.Kind == faultfs.KindSync {
			syncs++
		}
		return nil
	})
	require.NoError(t, l.StoreLogs(batch(51, 50, 1000)))
	require.Equal(t, 1, syncs)
	require.Equal(t, uint64(2), l.SyncCount())
	require.Len(t, took, 2)
	require.Equal(t, 100, records)
}

func TestSegmentsRollAndBytesAreCounted(t *testing.T) {
	disk := faultfs.New()
	l := open(t, disk, 2048)
	appendEach(t, l, 1, 60)
	require.NoError(t, l.StoreLogs(batch(61, 5, 4000))) // larger than a segment
	before := len(segments(t, disk))
	require.NoError(t, l.DeleteRange(1, 20))
	require.Less(t, len(segments(t, disk)), before)
	requireRange(t, l, 21, 65)
	require.Equal(t, onDisk(t, disk), l.Bytes())
	require.NoError(t, l.DeleteRange(64, 65))
	requireRange(t, l, 21, 63)
	require.Equal(t, onDisk(t, disk), l.Bytes())
	require.NoError(t, l.Close())
	l = open(t, disk, 2048)
	requireRange(t, l, 21, 63)
	require.Equal(t, onDisk(t, disk), l.Bytes())
	require.NoError(t, l.Reset())
	require.Len(t, segments(t, disk), 1)
	require.Equal(t, onDisk(t, disk), l.Bytes())
}

// onDisk is the length of all segment files.
func onDisk(t testing.TB, disk wal.FS) int64 {
	t.Helper()
	var sum int64
	for _, name := range segments(t, disk) {
		f, err := disk.OpenRead(name)
		require.NoError(t, err)
		n, err := f.Size()
		require.NoError(t, err)
		require.NoError(t, f.Close())
		sum += n
	}
	return sum
}

// segments lists the paths of the segment files, oldest first.
func segments(t testing.TB, disk wal.FS) []string {
	t.Helper()
	names, err := disk.List(testDir)
	require.NoError(t, err)
	var paths []string
	for _, name := range names {
		if filepath.Ext(name) == ".seg" {
			paths = append(paths, filepath.Join(testDir, name))
		}
	}
	return paths
}

func TestDeletesAreToldApart(t *testing.T) {
	for _, c := range []struct {
		name        string
		low, high   uint64
		first, last uint64
		err         error
	}{
		{"prefix", 10, 15, 16, 40, nil},
		{"prefix that begins before the log", 1, 15, 16, 40, nil},
		{"prefix up to the last but one", 10, 39, 40, 40, nil},
		{"suffix", 30, 40, 10, 29, nil},
		{"suffix that ends behind the log", 30, 400, 10, 29, nil},
		{"suffix but for the first", 11, 40, 10, 10, nil},
		{"all", 10, 40, 0, 0, nil},
		{"more than all", 0, 100, 0, 0, nil},
		{"nothing before", 1, 9, 10, 40, nil},
		{"nothing behind", 41, 50, 10, 40, nil},
		{"middle", 11, 39, 10, 40, wal.ErrHole},
		{"one in the middle", 20, 20, 10, 40, wal.ErrHole},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := faultfs.New()
			l := open(t, disk, 1024)
			appendEach(t, l, 10, 40)
			err := l.DeleteRange(c.low, c.high)
			require.ErrorIs(t, err, c.err)
			require.NoError(t, l.Poisoned())
			requireRange(t, l, c.first, c.last)
			disk.Crash(nil)
			l = open(t, disk, 1024)
			requireRange(t, l, c.first, c.last)
			next := c.last + 1
			appendEach(t, l, next, next+20)
			requireRange(t, l, max(c.first, 1), next+20)
		})
	}
	l := open(t, faultfs.New(), 0)
	require.NoError(t, l.DeleteRange(0, 7), "an empty log has nothing to delete")
	require.ErrorContains(t, l.DeleteRange(2, 1), "reversed")
}

func TestSuffixIsOverwrittenByANewTerm(t *testing.T) {
	disk := faultfs.New()
	l := open(t, disk, 1024)
	appendEach(t, l, 1, 30)
	require.Len(t, segments(t, disk), 6)
	require.NoError(t, l.DeleteRange(12, 30))
	require.Len(t, segments(t, disk), 3, "the space is free again")
	require.Equal(t, onDisk(t, disk), l.Bytes())
	for i := uint64(12); i <= 25; i++ {
		require.NoError(t, l.StoreLog(record(i, 8, 64)))
	}
	check := func() {
		var log raft.Log
		for i := uint64(1); i <= 25; i++ {
			require.NoError(t, l.GetLog(i, &log))
			want := uint64(7)
			if i >= 12 {
				want = 8
			}
			require.Equal(t, want, log.Term)
		}
	}
	check()
	disk.Crash(nil)
	l = open(t, disk, 1024)
	requireRange(t, l, 1, 25)
	check()
}

func TestResetBeginsAtAnyIndex(t *testing.T) {
	disk := faultfs.New()
	l := open(t, disk, 1024)
	appendEach(t, l, 1, 30)
	for _, start := range []uint64{31, 5000, 2} {
		require.NoError(t, l.Reset())
		requireRange(t, l, 0, 0)
		disk.Crash(nil)
		l = open(t, disk, 1024)
		requireRange(t, l, 0, 0)
		appendEach(t, l, start, start+20)
		disk.Crash(nil)
		l = open(t, disk, 1024)
		requireRange(t, l, start, start+20)
	}
}

func TestAlignToSnapshot(t *testing.T) {
	for _, c := range []struct {
		name        string
		snapshot    uint64
		first, last uint64
		damaged     bool
	}{
		{"no gap", 15, 10, 20, false},
		{"snapshot at the end", 20, 10, 20, false},
		{"snapshot right before the log", 9, 10, 20, false},
		{"snapshot was installed, the log not emptied", 21, 0, 0, false},
		{"records between are missing", 8, 10, 20, true},
		{"no snapshot and the beginning is missing", 0, 10, 20, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := open(t, faultfs.New(), 0)
			require.NoError(t, l.AlignTo(c.snapshot))
			appendEach(t, l, 10, 20)
			err := l.AlignTo(c.snapshot)
			require.Equal(t, c.damaged, err != nil)
			if c.damaged {
				require.ErrorIs(t, err, wal.ErrDamaged)
			}
			requireRange(t, l, c.first, c.last)
		})
	}
}

func TestFolderHasOneOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	l, err := wal.Open(dir, wal.Options{Logger: quiet()})
	require.NoError(t, err)
	_, err = wal.Open(dir, wal.Options{Logger: quiet()})
	require.ErrorIs(t, err, wal.ErrLocked)
	require.NoError(t, l.StoreLog(record(1, 0, 10)))
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.Close(), wal.ErrClosed)
	var log raft.Log
	require.ErrorIs(t, l.GetLog(1, &log), wal.ErrClosed)
	require.ErrorIs(t, l.StoreLog(record(2, 0, 10)), wal.ErrClosed)
	require.ErrorIs(t, l.DeleteRange(1, 1), wal.ErrClosed)
	require.ErrorIs(t, l.Reset(), wal.ErrClosed)
	_, err = l.FirstIndex()
	require.ErrorIs(t, err, wal.ErrClosed)
	_, err = l.LastIndex()
	require.ErrorIs(t, err, wal.ErrClosed)
	l, err = wal.Open(dir, wal.Options{Logger: quiet()})
	require.NoError(t, err)
	requireRange(t, l, 1, 1)
	require.NoError(t, l.Close())
}

func TestOptionsAreChecked(t *testing.T) {
	for _, n := range []int64{-1, 511, 1<<30 + 1} {
		_, err := wal.Open(testDir, wal.Options{FS: faultfs.New(), SegmentBytes: n})
		require.ErrorContains(t, err, "SegmentBytes")
	}
}
