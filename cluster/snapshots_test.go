package cluster

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
)

func newSnapshots(t *testing.T, disk *faultfs.Disk) *snapshotStore {
	t.Helper()
	s, err := openSnapshots(disk, voteDir, testLog())
	require.NoError(t, err)
	return s
}

// stateAt is a state whose size and bytes depend on the index.
func stateAt(index uint64, size int) []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(index, 5))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// save writes a snapshot in pieces, as a machine does.
func save(s *snapshotStore, index uint64, state []byte) error {
	c := raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "a:1"}}}
	sink, err := s.Create(raft.SnapshotVersionMax, index, 3, c, 1, nil)
	if err != nil {
		return err
	}
	for rest := state; len(rest) > 0; {
		n := min(len(rest), 300_000)
		if _, err := sink.Write(rest[:n]); err != nil {
			return fmt.Errorf("%w (cancel: %w)", err, sink.Cancel())
		}
		rest = rest[n:]
	}
	return sink.Close()
}

func readAll(t *testing.T, s *snapshotStore, id string) (*raft.SnapshotMeta, []byte) {
	t.Helper()
	meta, src, err := s.Open(id)
	require.NoError(t, err)
	state, err := io.ReadAll(src)
	require.NoError(t, err)
	require.NoError(t, src.Close())
	require.EqualValues(t, len(state), meta.Size)
	return meta, state
}

func indexes(t *testing.T, s *snapshotStore) (list []uint64) {
	t.Helper()
	found, err := s.List()
	require.NoError(t, err)
	for _, meta := range found {
		list = append(list, meta.Index)
	}
	return list
}

func TestSnapshotsAreKept(t *testing.T) {
	disk := newVoteDisk(t)
	s := newSnapshots(t, disk)
	for i, size := range []int{0, 10, snapshotBlock, snapshotBlock + 1, 3*snapshotBlock - 1} {
		require.NoError(t, save(s, uint64(i+1), stateAt(uint64(i), size)))
		names, err := disk.List(s.dir)
		require.NoError(t, err)
		require.LessOrEqual(t, len(names), snapshotsKept)
		disk.Crash(nil) // those that were removed may come back
		s = newSnapshots(t, disk)
		found, err := s.List()
		require.NoError(t, err)
		meta, state := readAll(t, s, found[0].ID)
		require.Equal(t, stateAt(uint64(i), size), state)
		require.EqualValues(t, i+1, meta.Index)
		require.EqualValues(t, 3, meta.Term)
		require.Equal(t, raft.ServerID("a"), meta.Configuration.Servers[0].ID)
	}
	require.Equal(t, []uint64{5, 4}, indexes(t, s))
}

func TestUnfinishedSnapshotsAreRemoved(t *testing.T) {
	disk := newVoteDisk(t)
	s := newSnapshots(t, disk)
	_, err := s.Create(raft.SnapshotVersionMax, 20, 3, raft.Configuration{}, 1, nil)
	require.NoError(t, err)
	disk.Kill()
	s = newSnapshots(t, disk)
	names, err := disk.List(s.dir)
	require.NoError(t, err)
	require.Empty(t, names)
	sink, err := s.Create(raft.SnapshotVersionMax, 20, 3, raft.Configuration{}, 1, nil)
	require.NoError(t, err)
	require.NoError(t, sink.Cancel())
	require.NoError(t, sink.Close(), "after a cancel it is nothing")
	require.Empty(t, indexes(t, s))
}

// Not one flipped bit and no missing end gets through; the snapshot before is still there.
func TestDamagedSnapshotIsNotHandedOut(t *testing.T) {
	disk := newVoteDisk(t)
	s := newSnapshots(t, disk)
	require.NoError(t, save(s, 1, stateAt(1, 100)))
	require.NoError(t, save(s, 2, stateAt(2, 700)))
	found, err := s.List()
	require.NoError(t, err)
	name := s.path(found[0].ID)
	whole := fileBytes(t, disk, name)
	refused := func(b []byte, what string, at int) {
		require.NoError(t, disk.Corrupt(name, func([]byte) []byte { return b }))
		s := newSnapshots(t, disk)
		_, src, err := s.Open(found[0].ID)
		require.ErrorIs(t, err, ErrDamaged, "%s at %d", what, at)
		require.Nil(t, src)
		require.Equal(t, []uint64{1}, indexes(t, s))
		require.ErrorIs(t, s.anyDamage(), ErrDamaged)
	}
	for at := range whole {
		b := bytes.Clone(whole)
		b[at] ^= 1 << (at % 8)
		refused(b, "a flipped bit", at)
		refused(bytes.Clone(whole[:at]), "cut off", at)
	}
	require.NoError(t, disk.Corrupt(name, func(b []byte) []byte { return append(b, 0) }))
	s = newSnapshots(t, disk)
	require.Equal(t, []uint64{1}, indexes(t, s))
	require.NoError(t, save(s, 3, stateAt(3, 10)))
	require.NoError(t, save(s, 4, stateAt(4, 10)))
	require.NoError(t, s.anyDamage(), "it is gone with those before it")
}

// A start reads a snapshot once, however often it asks before it opens it. Damage since then is
// found on reading.
func TestAStartReadsASnapshotOnce(t *testing.T) {
	disk := newVoteDisk(t)
	s := newSnapshots(t, disk)
	require.NoError(t, save(s, 1, stateAt(1, 3*snapshotBlock)))
	found, err := s.List()
	require.NoError(t, err)
	id, read := found[0].ID, 0
	disk.Inject(func(op faultfs.Op) error {
		if op.Kind == faultfs.KindRead {
			read += op.Bytes
		}
		return nil
	})
	require.NoError(t, s.checkOnce(id))
	require.NoError(t, s.checkOnce(id))
	_, src, err := s.Open(id)
	require.NoError(t, err)
	require.Less(t, read, 4*snapshotBlock)
	flip := func(b []byte) []byte { b[len(b)-2000] ^= 1; return b }
	require.NoError(t, disk.Corrupt(s.path(id), flip))
	_, err = io.ReadAll(src)
	require.ErrorIs(t, err, ErrDamaged)
	require.NoError(t, src.Close())
	require.Empty(t, indexes(t, s))
	_, _, err = s.Open(id)
	require.ErrorIs(t, err, ErrDamaged, "the next one reads all of it")
}

// Only whole blocks of 4 KiB go past the page cache: none but the last write has a part of one.
func TestASnapshotIsWrittenInWholeBlocks(t *testing.T) {
	disk := newVoteDisk(t)
	s := newSnapshots(t, disk)
	var writes []int
	disk.Inject(func(op faultfs.Op) error {
		if op.Kind == faultfs.KindWrite {
			require.True(t, op.Uncached)
			writes = append(writes, op.Bytes)
		}
		return nil
	})
	require.NoError(t, save(s, 1, stateAt(1, 5*snapshotBlock+3)))
	require.Len(t, writes, 6)
	for _, n := range writes[:5] {
		require.Zero(t, n%snapshotAlign)
	}

	sink, err := s.Create(raft.SnapshotVersionMax, 2, 3, raft.Configuration{}, 1, nil)
	require.NoError(t, err)
	w := sink.(*snapshotSink)
	begin := &w.buf[0]
	require.Zero(t, reflect.ValueOf(begin).Pointer()%snapshotAlign, "it would be copied")
	_, err = w.Write(stateAt(2, 3*snapshotBlock))
	require.NoError(t, err)
	require.Same(t, begin, &w.buf[0])
	require.NoError(t, w.Cancel())
}

// Each operation of taking a snapshot fails, or is where the power goes: what was there before is
// there still, what is listed is whole, what was acknowledged is listed, and the next one succeeds.
func TestSnapshotAtEveryFailureAndCrash(t *testing.T) {
	for _, fault := range []error{errIO, faultfs.ErrPowerOff} {
		failures := 0
		for n := 1; n <= 20; n++ {
			disk := newVoteDisk(t)
			s := newSnapshots(t, disk)
			require.NoError(t, save(s, 1, stateAt(1, 5000)))
			require.NoError(t, save(s, 2, stateAt(2, 5000)))
			at := disk.Ops() + n
			disk.Inject(func(op faultfs.Op) error {
				switch {
				case op.N < at || op.N > at && fault == errIO:
					return nil
				case op.Kind == faultfs.KindWrite:
					return &faultfs.ShortWrite{Keep: op.Bytes / 2, Err: fault}
				}
				return fault
			})
			err := save(s, 3, stateAt(3, 3*snapshotBlock))
			if err != nil {
				require.ErrorIs(t, err, fault)
				failures++
			}
			if fault == errIO {
				disk.Inject(nil)
				names, err := disk.List(s.dir)
				require.NoError(t, err)
				require.NotContains(t, strings.Join(names, " "), ".tmp", "operation %d", n)
			}
			disk.Crash(rand.New(rand.NewPCG(uint64(n), 1)).IntN)
			s = newSnapshots(t, disk)
			list := indexes(t, s)
			if err == nil {
				require.EqualValues(t, 3, list[0], "operation %d", n)
			}
			require.Contains(t, list, uint64(2), "operation %d", n)
			found, err := s.List()
			require.NoError(t, err)
			for _, meta := range found {
				size := map[uint64]int{1: 5000, 2: 5000, 3: 3 * snapshotBlock}[meta.Index]
				_, state := readAll(t, s, meta.ID)
				require.Equal(t, stateAt(meta.Index, size), state, "operation %d", n)
			}
			require.NoError(t, save(s, 4, stateAt(4, 9)))
			names, err := disk.List(s.dir)
			require.NoError(t, err)
			require.NotContains(t, strings.Join(names, " "), ".tmp", "operation %d", n)
			require.LessOrEqual(t, len(names), snapshotsKept, "operation %d", n)
		}
		require.GreaterOrEqual(t, failures, 7)
	}
}
