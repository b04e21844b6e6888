package wal_test

import (
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
	"tollgate/wal"
)

// FuzzRecovery edits the files of a log and opens it: damage, or records that were written and
// nothing else, in a log that works. An edit is six bytes: file, kind, offset (2), argument (2).
func FuzzRecovery(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 100, 0, 1, 0})
	f.Add([]byte{1, 1, 64, 0, 200, 0})
	f.Add([]byte{2, 2, 64, 0, 0, 0, 2, 3, 200, 1, 9, 9})
	f.Add([]byte{2, 4, 64, 0, 232, 0, 3, 0, 20, 0, 7, 0})
	f.Fuzz(func(t *testing.T, edits []byte) {
		disk := faultfs.New()
		l := open(t, disk, 1024)
		var written []*raft.Log
		for i := uint64(1); i <= 14; i++ {
			r := record(i, int(i), int(i*29%200))
			require.NoError(t, l.StoreLog(r))
			written = append(written, r)
		}
		disk.Kill()
		files := append(segments(t, disk), filepath.Join(testDir, "MANIFEST"))
		for ; len(edits) >= 6; edits = edits[6:] {
			at := int(binary.LittleEndian.Uint16(edits[2:]))
			argument := int(binary.LittleEndian.Uint16(edits[4:]))
			require.NoError(t, disk.Corrupt(files[int(edits[0])%len(files)], func(b []byte) []byte {
				return edit(b, edits[1], min(at, len(b)), argument)
			}))
		}
		l, err := wal.Open(testDir, wal.Options{
			FS: disk, SegmentBytes: 1024, SpareBytes: 4096, Logger: quiet(),
		})
		if err != nil {
			require.ErrorIs(t, err, wal.ErrDamaged)
			return
		}
		found, err := contents(l)
		require.NoError(t, err)
		require.LessOrEqual(t, len(found), len(written))
		require.True(t, same(found, written[:len(found)]))
		require.NoError(t, l.StoreLog(record(uint64(len(found)+1), 9, 50)))
		disk.Crash(nil)
		requireRange(t, open(t, disk, 1024), 1, uint64(len(found)+1))
	})
}

func edit(b []byte, kind byte, at, argument int) []byte {
	to := min(len(b), at+argument%300)
	switch kind % 5 {
	case 0: // flip bits
		if at < len(b) {
			b[at] ^= byte(argument)
		}
	case 1: // lose sectors
		clear(b[at:to])
	case 2: // lose the end
		return b[:at]
	case 3: // garbage
		for i := at; i < to; i++ {
			b[i] = byte(i * argument)
		}
	case 4: // stale bytes from elsewhere in the file
		copy(b[at:], append([]byte(nil), b[min(argument, len(b)):]...))
	}
	return b
}
