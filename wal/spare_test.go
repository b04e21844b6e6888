package wal_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
	"tollgate/wal"
)

// overwritten is a log of segments of 1 KiB, five records of 100 bytes each, whose segments from
// record 41 on are in files of older ones.
func overwritten(t *testing.T, last uint64) (*faultfs.Disk, *wal.Log) {
	disk := faultfs.New()
	l, err := wal.Open(testDir, wal.Options{
		FS: disk, SegmentBytes: 1024, SpareBytes: 4096, Logger: quiet(),
	})
	require.NoError(t, err)
	appendEach(t, l, 1, 40)
	require.NoError(t, l.DeleteRange(1, 36))
	disk.Inject(func(op faultfs.Op) error {
		if op.Kind == faultfs.KindCreate && filepath.Ext(op.Name) == ".seg" {
			t.Error("a file is made where one could be written over")
		}
		return nil
	})
	appendEach(t, l, 41, last)
	disk.Inject(nil)
	requireRange(t, l, 37, last)
	return disk, l
}

// Bytes that a file held before it was written over are never taken for records, nor reported,
// after a kill, a power cut and a clean stop, wherever the newest segment ends.
func TestWhatAFileHeldBeforeIsNoRecord(t *testing.T) {
	for last := uint64(41); last <= 60; last++ {
		for name, stop := range map[string]func(*faultfs.Disk, *wal.Log){
			"kill":       func(*faultfs.Disk, *wal.Log) {},
			"power cut":  func(d *faultfs.Disk, _ *wal.Log) { d.Crash(nil) },
			"clean stop": func(_ *faultfs.Disk, l *wal.Log) { require.NoError(t, l.Close()) },
		} {
			disk, l := overwritten(t, last)
			stop(disk, l)
			l, cuts, err := reopen(disk)
			require.NoError(t, err, name)
			require.Empty(t, cuts, name)
			requireRange(t, l, 37, last)
			require.NoError(t, l.StoreLog(record(last+1, 9, 300)))
			l, cuts, err = reopen(disk)
			require.NoError(t, err, name)
			require.Empty(t, cuts, name)
			requireRange(t, l, 37, last+1)
		}
	}
}

// A segment that has a spare file, and no record yet, is the end of the log.
func TestAnEmptySegmentInASpareFileReportsNothing(t *testing.T) {
	disk, l := overwritten(t, 45)
	disk.Inject(func(op faultfs.Op) error {
		if op.Kind == faultfs.KindWrite && op.Bytes > 128 { // not the header, nor the manifest
			return faultfs.ErrPowerOff
		}
		return nil
	})
	require.ErrorIs(t, l.StoreLog(record(46, 7, 100)), faultfs.ErrPowerOff)
	disk.Inject(nil)
	l, cuts, err := reopen(disk)
	require.NoError(t, err)
	require.Empty(t, cuts)
	requireRange(t, l, 37, 45)
	appendEach(t, l, 46, 50)
}

// A write that is torn over old records is cut and reported.
func TestTornTailOverOldRecordsIsCut(t *testing.T) {
	size := frameEnd(1, 100) - 64
	for keep := 1; keep < size; keep += 7 {
		disk, l := overwritten(t, 42)
		disk.Inject(func(op faultfs.Op) error {
			if op.Kind == faultfs.KindWrite {
				return &faultfs.ShortWrite{Keep: keep, Err: faultfs.ErrPowerOff}
			}
			return nil
		})
		require.ErrorIs(t, l.StoreLog(record(43, 7, 100)), faultfs.ErrPowerOff)
		disk.Inject(nil)
		l, cuts, err := reopen(disk)
		require.NoError(t, err)
		requireRange(t, l, 37, 42)
		require.Len(t, cuts, 1, "never in silence")
		require.Equal(t, uint64(43), cuts[0].Index)
	}
}

// Damage to what was acknowledged is found among old records as it is among zeroes.
func TestDamageAmongOldRecordsIsFound(t *testing.T) {
	for name, change := range map[string]func([]byte){
		"a bit in the data":    func(b []byte) { b[frameEnd(1, 100)+80] ^= 4 },
		"a bit in the header":  func(b []byte) { b[frameEnd(1, 100)+20] ^= 4 },
		"the record is zeroes": func(b []byte) { clear(b[frameEnd(1, 100):frameEnd(2, 100)]) },
	} {
		for _, last := range []uint64{44, 54} { // in the newest segment, and in an older one
			disk, _ := overwritten(t, last)
			disk.Kill()
			hit := false
			for _, path := range segments(t, disk) {
				require.NoError(t, disk.Corrupt(path, func(b []byte) []byte {
					if binary.LittleEndian.Uint64(b[24:]) == 41 {
						hit = true
						change(b)
					}
					return b
				}))
			}
			require.True(t, hit)
			_, cuts, err := reopen(disk)
			require.Empty(t, cuts, name)
			require.EqualValues(t, 42, requireDamage(t, err).Index, name)
		}
	}
}

// Spare files are not the log's size, are bounded, and go when the disk is full.
func TestSparesAreBoundedAndGo(t *testing.T) {
	disk, l := overwritten(t, 41)
	require.NoError(t, l.DeleteRange(1, 40))
	files := len(segments(t, disk))
	require.LessOrEqual(t, files, 1+4)
	require.EqualValues(t, 1024, l.Bytes())
	require.NoError(t, l.DropSpares())
	require.Len(t, segments(t, disk), 1)
	require.EqualValues(t, 1024, l.Bytes())
	appendEach(t, l, 42, 60)
	requireRange(t, l, 41, 60)
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.DropSpares(), wal.ErrClosed)
	_, cuts, err := reopen(disk)
	require.NoError(t, err)
	require.Empty(t, cuts)
}

// Logs of version 1, of the build before, are read and gone on with; what was torn there, is.
func TestLogsOfVersion1AreRead(t *testing.T) {
	for _, stopped := range []string{"closed", "killed"} {
		disk := faultfs.New()
		require.NoError(t, disk.MkdirAll(testDir))
		from := filepath.Join("testdata", "version1", stopped)
		names, err := os.ReadDir(from)
		require.NoError(t, err)
		for _, name := range names {
			content, err := os.ReadFile(filepath.Join(from, name.Name()))
			require.NoError(t, err)
			f, err := disk.Create(filepath.Join(testDir, name.Name()))
			require.NoError(t, err)
			_, err = f.WriteAt(content, 0)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
		var got raft.Log
		l, cuts, err := reopen(disk)
		require.NoError(t, err)
		require.Empty(t, cuts)
		requireRange(t, l, 10, 20)
		for i := uint64(10); i <= 20; i++ {
			require.NoError(t, l.GetLog(i, &got))
			require.Equal(t, *record(i, 7, 100), got)
		}
		appendEach(t, l, 21, 60)
		require.NoError(t, l.DeleteRange(1, 12))
		l, cuts, err = reopen(disk)
		require.NoError(t, err)
		require.Empty(t, cuts)
		requireRange(t, l, 13, 60)
	}
}
