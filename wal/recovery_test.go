package wal_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
	"tollgate/wal"
)

// reopen opens what is on disk and returns the cuts that it reported.
func reopen(disk *faultfs.Disk) (*wal.Log, []wal.Cut, error) {
	var cuts []wal.Cut
	disk.Kill()
	l, err := wal.Open(testDir, wal.Options{
		FS: disk, SegmentBytes: 4096, Logger: quiet(),
		OnCut: func(c wal.Cut) { cuts = append(cuts, c) },
	})
	return l, cuts, err
}

// frameEnd is where a segment ends after so many records with payload bytes each.
func frameEnd(records, payload int) int {
	return 64 + records*(64+(payload+7)/8*8)
}

func requireDamage(t *testing.T, err error) *wal.DamageError {
	t.Helper()
	require.ErrorIs(t, err, wal.ErrDamaged)
	var damage *wal.DamageError
	require.ErrorAs(t, err, &damage)
	require.ErrorContains(t, err, "to rejoin")
	require.ErrorContains(t, err, "new member")
	return damage
}

func TestTornTailIsCutAndReported(t *testing.T) {
	const whole = 10
	size := frameEnd(1, 200) - 64
	for keep := 1; keep < size; keep += 7 {
		disk := faultfs.New()
		l := open(t, disk, 0)
		for i := uint64(1); i <= whole; i++ {
			require.NoError(t, l.StoreLog(record(i, 0, 200)))
		}
		disk.Inject(func(op faultfs.Op) error {
			if op.Kind == faultfs.KindWrite {
				return &faultfs.ShortWrite{Keep: keep, Err: faultfs.ErrPowerOff}
			}
			return nil
		})
		require.ErrorIs(t, l.StoreLog(record(whole+1, 0, 200)), faultfs.ErrPowerOff)
		disk.Inject(nil)
		l, cuts, err := reopen(disk)
		require.NoError(t, err)
		requireRange(t, l, 1, whole)
		require.Len(t, cuts, 1, "never in silence")
		require.Equal(t, int64(frameEnd(whole, 200)), cuts[0].Offset)
		require.Equal(t, uint64(whole+1), cuts[0].Index)
		require.LessOrEqual(t, cuts[0].Bytes, int64(keep))
		require.Positive(t, cuts[0].Bytes)
		require.NoError(t, l.StoreLog(record(whole+1, 0, 200)))
		l, cuts, err = reopen(disk)
		require.NoError(t, err)
		require.Empty(t, cuts)
		requireRange(t, l, 1, whole+1)
	}
}

func TestTailOfZeroesIsNoRecord(t *testing.T) {
	disk := faultfs.New()
	l := open(t, disk, 0)
	appendEach(t, l, 1, 100)
	disk.Kill()
	require.NoError(t, disk.Corrupt(segments(t, disk)[0], func(b []byte) []byte {
		return append(b, make([]byte, 1<<20+5)...)
	}))
	l, cuts, err := reopen(disk)
	require.NoError(t, err)
	require.Empty(t, cuts, "zeroes are what the file looks like in front of the records")
	requireRange(t, l, 1, 100)
}

func TestLostWriteBeforeALaterOneIsDamage(t *testing.T) {
	disk := faultfs.New()
	l := open(t, disk, 0)
	appendEach(t, l, 1, 20)
	for name, change := range map[string]func([]byte){
		"a bit in the data":       func(b []byte) { b[frameEnd(9, 100)+80] ^= 4 },
		"a bit in the header":     func(b []byte) { b[frameEnd(9, 100)+20] ^= 4 },
		"the record is zeroes":    func(b []byte) { clear(b[frameEnd(9, 100):frameEnd(10, 100)]) },
		"five records are zeroes": func(b []byte) { clear(b[frameEnd(9, 100):frameEnd(14, 100)]) },
	} {
		t.Run(name, func(t *testing.T) {
			path := segments(t, disk)[0]
			var saved []byte
			require.NoError(t, disk.Corrupt(path, func(b []byte) []byte {
				saved = bytes.Clone(b)
				change(b)
				return b
			}))
			_, cuts, err := reopen(disk)
			damage := requireDamage(t, err)
			require.Empty(t, cuts)
			require.Equal(t, uint64(10), damage.Index)
			require.Equal(t, int64(frameEnd(9, 100)), damage.Offset)
			require.Equal(t, path, damage.File)
			require.NoError(t, disk.Corrupt(path, func(b []byte) []byte {
				require.Equal(t, len(saved), len(b), "a refused log is left as it is")
				return saved
			}))
			l, _, err := reopen(disk)
			require.NoError(t, err)
			requireRange(t, l, 1, 20)
		})
	}
}

// A disk may keep any sectors of a write that was not synced: good records of the same write
// behind a lost one are not proof that the lost one was acknowledged.
func TestTornInsideOneWriteIsCut(t *testing.T) {
	disk := faultfs.New()
	l := open(t, disk, 0)
	appendEach(t, l, 1, 5)
	require.NoError(t, l.StoreLogs(batch(6, 20, 100)))
	disk.Kill()
	require.NoError(t, disk.Corrupt(segments(t, disk)[0], func(b []byte) []byte {
		clear(b[frameEnd(8, 100):frameEnd(12, 100)])
		return b
	}))
	l, cuts, err := reopen(disk)
	require.NoError(t, err)
	requireRange(t, l, 1, 8)
	require.Len(t, cuts, 1)
	require.Equal(t, uint64(9), cuts[0].Index)
}

// After a clean stop the manifest knows how far the log was durable: whatever is bad is damage,
// the last write included.
func TestEveryFlippedBitIsFoundAfterACleanStop(t *testing.T) {
	disk := faultfs.New()
	l := open(t, disk, 1024)
	require.NoError(t, l.StoreLogs(batch(1, 5, 50)))
	require.NoError(t, l.StoreLogs(batch(6, 5, 51)))
	require.NoError(t, l.StoreLogs(batch(11, 5, 52)))
	require.NoError(t, l.Close())
	files := append(segments(t, disk), filepath.Join(testDir, "MANIFEST"))
	require.Len(t, files, 4)
	for _, path := range files {
		var size int
		require.NoError(t, disk.Corrupt(path, func(b []byte) []byte {
			size = len(bytes.TrimRight(b, "\x00"))
			return b
		}))
		for i := range size {
			flip := func(b []byte) []byte { b[i] ^= 1 << (i % 8); return b }
			require.NoError(t, disk.Corrupt(path, flip))
			_, _, err := reopen(disk)
			requireDamage(t, err)
			require.NoError(t, disk.Corrupt(path, flip))
		}
	}
	l, cuts, err := reopen(disk)
	require.NoError(t, err)
	require.Empty(t, cuts)
	requireRange(t, l, 1, 15)
}

// Open notes what it found and made durable, so the same holds after a kill that follows it.
func TestLostEndIsFoundAfterAStartAndAfterACleanStop(t *testing.T) {
	for name, stop := range map[string]func(*testing.T, *wal.Log, *faultfs.Disk){
		"clean stop": func(t *testing.T, l *wal.Log, _ *faultfs.Disk) { require.NoError(t, l.Close()) },
		"kill and start": func(t *testing.T, _ *wal.Log, disk *faultfs.Disk) {
			_, cuts, err := reopen(disk)
			require.NoError(t, err)
			require.Empty(t, cuts)
		},
	} {
		for how, lose := range map[string]func([]byte) []byte{
			"zeroes":      func(b []byte) []byte { clear(b[frameEnd(4, 100):]); return b },
			"shorter":     func(b []byte) []byte { return b[:frameEnd(4, 100)] },
			"flipped bit": func(b []byte) []byte { b[frameEnd(4, 100)+70] ^= 1; return b },
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				disk := faultfs.New()
				l := open(t, disk, 0)
				appendEach(t, l, 1, 5)
				stop(t, l, disk)
				require.NoError(t, disk.Corrupt(segments(t, disk)[0], lose))
				_, cuts, err := reopen(disk)
				require.Empty(t, cuts)
				require.Equal(t, uint64(5), requireDamage(t, err).Index)
			})
		}
	}
}

func TestDamageInAnOlderSegmentLeavesItAsItIs(t *testing.T) {
	for _, record := range []int{1, 2} { // with the first, nothing says which record it was
		damageOlderSegment(t, record)
	}
}

func damageOlderSegment(t *testing.T, record int) {
	disk := faultfs.New()
	l := open(t, disk, 1024)
	appendEach(t, l, 1, 20)
	disk.Kill()
	path := segments(t, disk)[0]
	var before []byte
	require.NoError(t, disk.Corrupt(path, func(b []byte) []byte {
		b[frameEnd(record-1, 100)] ^= 1
		clear(b[frameEnd(record, 100):])
		before = bytes.Clone(b)
		return b
	}))
	_, err := disk.Create(filepath.Join(testDir, "00000000000000ff.seg"))
	require.NoError(t, err)
	files, err := disk.List(testDir)
	require.NoError(t, err)
	_, cuts, err := reopen(disk)
	require.Equal(t, path, requireDamage(t, err).File)
	require.Empty(t, cuts)
	after, err := disk.List(testDir)
	require.NoError(t, err)
	require.Equal(t, files, after, "leftovers may be what helps")
	require.NoError(t, disk.Corrupt(path, func(b []byte) []byte {
		require.Equal(t, before, b)
		return b
	}))
}

func TestLeftoversAreSwept(t *testing.T) {
	disk := faultfs.New()
	l := open(t, disk, 1024)
	appendEach(t, l, 1, 20)
	require.NoError(t, l.DeleteRange(1, 10))
	require.NoError(t, l.Close())
	listed := segments(t, disk)
	for _, name := range []string{
		"0000000000000001.seg", "00000000000000ff.seg", "MANIFEST.tmp", "notes.txt", "1.seg",
	} {
		_, err := disk.Create(filepath.Join(testDir, name))
		require.NoError(t, err)
	}
	l, _, err := reopen(disk)
	require.NoError(t, err)
	requireRange(t, l, 11, 20)
	names, err := disk.List(testDir)
	require.NoError(t, err)
	require.Len(t, names, len(listed)+3, "segments, MANIFEST and what is not ours: %v", names)
	require.Subset(t, names, []string{"notes.txt", "1.seg", "MANIFEST"})
}

func TestMissingSegmentIsDamage(t *testing.T) {
	for _, name := range []string{"first", "middle", "last", "manifest", "all segments"} {
		t.Run(name, func(t *testing.T) {
			disk := faultfs.New()
			l := open(t, disk, 1024)
			appendEach(t, l, 1, 40)
			paths := segments(t, disk)
			require.Greater(t, len(paths), 4)
			remove := map[string][]string{
				"first":        paths[:1],
				"middle":       paths[2:3],
				"last":         paths[len(paths)-1:],
				"manifest":     {filepath.Join(testDir, "MANIFEST")},
				"all segments": paths,
			}[name]
			for _, path := range remove {
				require.NoError(t, disk.Remove(path))
			}
			_, _, err := reopen(disk)
			requireDamage(t, err)
		})
	}
}

func TestSegmentsInEachOthersPlaceAreDamage(t *testing.T) {
	disk := faultfs.New()
	l := open(t, disk, 1024)
	appendEach(t, l, 1, 40)
	require.NoError(t, l.Close())
	paths := segments(t, disk)
	var other []byte
	require.NoError(t, disk.Corrupt(paths[2], func(b []byte) []byte { other = b; return b }))
	require.NoError(t, disk.Corrupt(paths[1], func([]byte) []byte { return bytes.Clone(other) }))
	_, _, err := reopen(disk)
	requireDamage(t, err)
}

// A whole segment of another log with the same number and indexes: only the chain tells.
func TestSegmentOfAnotherLogIsDamage(t *testing.T) {
	make := func(serial int) *faultfs.Disk {
		disk := faultfs.New()
		l := open(t, disk, 1024)
		for i := uint64(1); i <= 40; i++ {
			require.NoError(t, l.StoreLog(record(i, serial, 99)))
		}
		require.NoError(t, l.Close())
		return disk
	}
	mine, other := make(3), make(4)
	path := segments(t, mine)[1]
	var foreign []byte
	require.NoError(t, other.Corrupt(path, func(b []byte) []byte { foreign = b; return b }))
	require.NoError(t, mine.Corrupt(path, func([]byte) []byte { return bytes.Clone(foreign) }))
	_, _, err := reopen(mine)
	requireDamage(t, err)
}

func TestRecordOfALaterVersionIsRefusedNotCut(t *testing.T) {
	disk := faultfs.New()
	l := open(t, disk, 0)
	appendEach(t, l, 1, 5)
	disk.Kill()
	require.NoError(t, disk.Corrupt(segments(t, disk)[0], func(b []byte) []byte {
		last := b[frameEnd(4, 100):]
		last[14] = 2
		salt := binary.LittleEndian.Uint32(b[36:])
		table := crc32.MakeTable(crc32.Castagnoli)
		binary.LittleEndian.PutUint32(last[4:], crc32.Update(salt, table, last[8:64]))
		return b
	}))
	_, cuts, err := reopen(disk)
	require.Empty(t, cuts)
	require.ErrorContains(t, err, "version")
	requireDamage(t, err)
}

// The kernel may keep in memory, and call clean, what an fsync failed to write. A restarted
// process must not build on it.
func TestRecordsOfAFailedSyncAreWrittenAgain(t *testing.T) {
	disk := faultfs.New()
	l := open(t, disk, 0)
	appendEach(t, l, 1, 3)
	failOnce := true
	disk.Inject(func(op faultfs.Op) error {
		if op.Kind == faultfs.KindSync && failOnce {
			failOnce = false
			return errIO
		}
		return nil
	})
	require.ErrorIs(t, l.StoreLog(record(4, 7, 100)), errIO)
	l, _, err := reopen(disk)
	require.NoError(t, err)
	requireRange(t, l, 1, 4)
	disk.Crash(nil)
	l, _, err = reopen(disk)
	require.NoError(t, err)
	requireRange(t, l, 1, 4)
}

// A disk that loses a write shows what was there before: a whole record of the same index.
func TestStaleRecordOfTheSameIndexIsFoundOnReading(t *testing.T) {
	disk := faultfs.New()
	l := open(t, disk, 0)
	appendEach(t, l, 1, 3)
	path := segments(t, disk)[0]
	var stale []byte
	require.NoError(t, disk.Corrupt(path, func(b []byte) []byte { stale = bytes.Clone(b); return b }))
	require.NoError(t, l.DeleteRange(3, 3))
	require.NoError(t, l.StoreLog(record(3, 9, 100)))
	require.NoError(t, disk.Corrupt(path, func([]byte) []byte { return stale }))
	requireDamage(t, l.GetLog(3, &raft.Log{}))
}

func TestDamageIsFoundOnReading(t *testing.T) {
	whole, header := (*wal.Log).GetLog, (*wal.Log).ReadHeader
	for name, change := range map[string]func([]byte){
		"a flipped bit":               func(b []byte) { b[frameEnd(2, 100)+70] ^= 1 },
		"a flipped bit of the header": func(b []byte) { b[frameEnd(2, 100)+50] ^= 1 },
		"an older whole record in its place": func(b []byte) {
			copy(b[frameEnd(2, 100):frameEnd(3, 100)], b[frameEnd(1, 100):frameEnd(2, 100)])
		},
		"zeroes": func(b []byte) { clear(b[frameEnd(2, 100):frameEnd(3, 100)]) },
	} {
		check := func(t *testing.T, read func(*wal.Log, uint64, *raft.Log) error) {
			disk := faultfs.New()
			l := open(t, disk, 0)
			appendEach(t, l, 1, 5)
			require.NoError(t, disk.Corrupt(segments(t, disk)[0], func(b []byte) []byte {
				change(b)
				return b
			}))
			log := raft.Log{Index: 77}
			damage := requireDamage(t, read(l, 3, &log))
			require.Equal(t, uint64(3), damage.Index)
			require.Equal(t, raft.Log{Index: 77}, log, "nothing bad is handed out")
			require.ErrorIs(t, l.Poisoned(), wal.ErrDamaged)
			require.ErrorIs(t, l.StoreLog(record(6, 7, 10)), wal.ErrPoisoned)
			require.NoError(t, read(l, 2, &log), "what is good can still be read")
		}
		t.Run(name, func(t *testing.T) { check(t, whole) })
		if name != "a flipped bit" {
			t.Run(name+", header alone", func(t *testing.T) { check(t, header) })
		}
	}
}
