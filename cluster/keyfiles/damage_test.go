package keyfiles

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
	"tollgate/engine/journal"
)

// onDisk opens files on a disk that can fail.
func (h *history) onDisk(t *testing.T) (*Store, *faultfs.Disk) {
	t.Helper()
	disk := faultfs.New()
	s := h.open(t, "/keys", disk)
	settle(t, s, h, 0)
	return s, disk
}

// spoil changes a byte of pages of the only file.
func spoil(t *testing.T, s *Store, disk *faultfs.Disk, pages ...int) {
	t.Helper()
	runs := s.view.Load().runs
	require.Len(t, runs, 1)
	require.NoError(t, disk.Corrupt(runs[0].path, func(b []byte) []byte {
		for _, p := range pages {
			b[p*pageBytes+100] ^= 1
		}
		return b
	}))
}

// A page that is wrong costs the keys on it and no others; the file is repaired from the journal
// when it can be read, and stays until then. All that is wrong is repaired at a time.
func TestABadPageCostsItsKeysOnly(t *testing.T) {
	h := newHistory()
	keys := []uint64{3, 4, 5} // used again below: the newest counts
	for k := range uint64(1000) {
		keys = append(keys, k)
	}
	h.add(keys...)
	s, disk := h.onDisk(t)
	defer func() { require.NoError(t, s.Close()) }()
	spoil(t, s, disk, 0, 2, 3, 6)
	h.missing = true
	failed := map[bool]int{}
	for k := range uint64(1000) {
		v, err := s.FindKey(keyOf(k))
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
			require.Zero(t, v)
		} else {
			require.Equal(t, k+3 < h.through(), v.Found)
		}
		failed[err != nil]++
	}
	require.LessOrEqual(t, failed[true], 4*pageRecords)
	require.Greater(t, failed[true], 3*pageRecords)
	require.Equal(t, h.through(), s.Covered())
	_, err := s.Rewrite(context.Background(), 1003)
	require.ErrorIs(t, err, errMissing)
	did, err := s.Step(context.Background(), 0, h.through())
	require.False(t, did)
	require.NoError(t, err)
	require.Equal(t, h.through(), s.Covered())
	require.Zero(t, s.Stats().Damages)

	h.missing = false
	did, err = s.Rewrite(context.Background(), 1003)
	require.True(t, did)
	require.NoError(t, err)
	h.agree(t, s, 0)
	require.EqualValues(t, 1, s.Stats().Damages)
	require.Equal(t, h.through()-3, s.Stats().Keys)
	again := h.open(t, "/keys", disk)
	h.agree(t, again, 0)
	require.NoError(t, again.Close())
}

// Where too much is wrong, the file is made again in pieces.
func TestAFileThatIsMostlyWrongIsMadeAgain(t *testing.T) {
	h := newHistory()
	for i := range uint64(4) {
		h.span(i*400, i*400+400)
	}
	s, disk := h.onDisk(t)
	defer func() { require.NoError(t, s.Close()) }()
	spoil(t, s, disk, 0, 1, 2, 3, 4, 5, 6, 7)
	_, err := s.FindKey(keyOf(0))
	for k := uint64(1); err == nil; k++ {
		_, err = s.FindKey(keyOf(k))
	}
	did, err := s.Rewrite(context.Background(), 1600)
	require.True(t, did)
	require.NoError(t, err)
	require.Zero(t, s.Stats().Files)
	require.Zero(t, s.Covered())
	settle(t, s, h, 0)
	h.agree(t, s, 0)
}

var errDisk = errors.New("the disk does not read")

// An error of the disk that passes is not damage; one that stays is repaired as one.
func TestAReadErrorIsDamageWhenItStays(t *testing.T) {
	h := newHistory()
	h.span(0, 1000)
	s, disk := h.onDisk(t)
	defer func() { require.NoError(t, s.Close()) }()
	broken := true
	disk.Inject(func(op faultfs.Op) error {
		if op.Kind == faultfs.KindRead && op.Bytes == pageBytes && broken {
			return errDisk
		}
		return nil
	})
	made := s.number.Load()
	_, err := s.FindKey(keyOf(7))
	require.ErrorIs(t, err, errDisk)
	require.NotErrorIs(t, err, ErrDamaged)
	_, err = s.Rewrite(context.Background(), 1000)
	require.ErrorIs(t, err, errDisk)
	broken = false
	did, err := s.Rewrite(context.Background(), 1000)
	require.True(t, did)
	require.NoError(t, err)
	did, err = s.Rewrite(context.Background(), 1000)
	require.False(t, did)
	require.NoError(t, err)
	require.Zero(t, s.Stats().Damages)
	require.Equal(t, made, s.number.Load(), "nothing was written")
	h.agree(t, s, 0)

	// The first page cannot be read, alone or with others.
	disk.Inject(func(op faultfs.Op) error {
		if op.Kind == faultfs.KindRead && op.Name == "/keys/0000000001-0000000001.keys.1.tmp" {
			return errDisk
		}
		return nil
	})
	_, err = s.FindKey(keyOf(7))
	require.ErrorIs(t, err, errDisk)
	for range repairLooks - 1 {
		_, err = s.Rewrite(context.Background(), 1000)
		require.ErrorIs(t, err, errDisk)
		require.Zero(t, s.Stats().Damages)
	}
	_, err = s.Rewrite(context.Background(), 1000)
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Stats().Damages)
	settle(t, s, h, 0)
	h.agree(t, s, 0)
}

// Keys that begin alike stand on several pages: each of them is looked into, also after a merge and
// after one of the pages was repaired.
func TestKeysThatBeginAlikeSpanPages(t *testing.T) {
	h := newHistory()
	h.span(0, 100)
	h.span(alike, alike+2*pageRecords)
	s, disk := h.onDisk(t)
	defer func() { require.NoError(t, s.Close()) }()
	h.agree(t, s, 0)
	h.span(alike+2*pageRecords, alike+4*pageRecords)
	h.span(100, 200)
	settle(t, s, h, 0)
	h.agree(t, s, 0)
	v, err := s.FindKey(keyOf(alike + 5*pageRecords))
	require.NoError(t, err)
	require.False(t, v.Found)
	for page := range s.view.Load().runs[0].dir {
		spoil(t, s, disk, page)
		s.view.Load().runs[0].suspects(uint64(page))
		did, err := s.Rewrite(context.Background(), 800)
		require.True(t, did)
		require.NoError(t, err)
		h.agree(t, s, 0)
		require.EqualValues(t, page+1, s.Stats().Damages)
	}
	require.Equal(t, h.through(), s.Stats().Keys)
}

// What lies in the directory and is none of the files keeps the others from nothing.
func TestStrayThingsAreNotInTheWay(t *testing.T) {
	h, dir := newHistory(), filepath.Join(t.TempDir(), "keys")
	h.span(0, 500)
	require.NoError(t, os.WriteFile(dir, []byte("no directory"), 0o600))
	s := h.open(t, dir, nil)
	settle(t, s, h, 0)
	h.agree(t, s, 0)
	require.NoError(t, s.Close())
	require.Empty(t, s.view.Load().runs)
	copied, err := os.ReadFile(filepath.Join(dir, "0000000001-0000000001.keys"))
	require.NoError(t, err)
	other := filepath.Join(dir, "0000000000-0000000008.keys")
	require.NoError(t, os.WriteFile(other, copied, 0o600))
	h.span(500, 1000)
	for _, name := range []string{
		"0000000000-0000000009.keys", "0000000002-0000000002.keys", "x.keys", "stray",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name, "deep"), 0o700))
	}
	for _, name := range []string{"0000000003-0000000004.keys", "old.tmp", "-.keys"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("stray"), 0o600))
	}
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "0000000001-0000000009.keys")))
	for range 2 {
		s = h.open(t, dir, nil)
		require.EqualValues(t, 1, s.Stats().Files)
		r := s.view.Load().runs[0]
		require.Equal(t, r.name(), filepath.Base(r.path))
		settle(t, s, h, 0)
		h.agree(t, s, 0)
		require.NoError(t, s.Close())
	}
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range names {
		require.True(t, strings.HasSuffix(e.Name(), asideSuffix) || e.Name() ==
			"0000000001-0000000002.keys", e.Name())
	}
}

// A file that cannot be read is tried again, and in the end made again.
func TestAFileThatCannotBeReadIsMadeAgain(t *testing.T) {
	for _, passes := range []bool{true, false} {
		h := newHistory()
		h.span(0, 500)
		s, disk := h.onDisk(t)
		require.NoError(t, s.Close())
		n := 0
		disk.Inject(func(op faultfs.Op) error {
			if op.Kind == faultfs.KindRead {
				if n++; n < 3 || !passes {
					return errDisk
				}
			}
			return nil
		})
		s = Open("/keys", Options{
			FS: disk, Journal: h.journal, Lend: h.lend, KeyOf: keyOfRecord,
		})
		for range 2 {
			did, err := s.Step(context.Background(), 0, h.through())
			require.False(t, did)
			require.ErrorIs(t, err, errDisk)
		}
		disk.Inject(nil)
		if !passes {
			disk.Inject(func(op faultfs.Op) error {
				if op.Kind == faultfs.KindRead {
					return errDisk
				}
				return nil
			})
		}
		did, err := s.Step(context.Background(), 0, h.through())
		require.True(t, did)
		require.NoError(t, err)
		require.Equal(t, passes, s.Covered() == h.through())
		disk.Inject(nil)
		settle(t, s, h, 0)
		h.agree(t, s, 0)
		require.NoError(t, s.Close())
	}
}

// The numbers of keys count from a file's first: one that says another first is not gone by.
func TestAFileThatCountsFromElsewhereIsForeign(t *testing.T) {
	h := newHistory()
	h.span(0, 300)
	h.span(300, 600)
	s, _ := h.onDisk(t)
	defer func() { require.NoError(t, s.Close()) }()
	list := h.journal.View()[journal.PartUsage].Segments
	r := s.view.Load().runs[0]
	require.False(t, foreign(r, list))
	for _, change := range []func(*scope){
		func(o *scope) { o.from++ }, func(o *scope) { o.through++ }, func(o *scope) { o.hash++ },
		func(o *scope) { o.first++ }, func(o *scope) { o.first = 0 }, func(o *scope) { o.last-- },
	} {
		other := &run{scope: r.scope}
		change(&other.scope)
		require.True(t, foreign(other, list), other.scope)
	}
}

// A write that fails leaves nothing behind, and nothing is written into the disk's reserve.
func TestAWriteThatFailsTakesNoRoom(t *testing.T) {
	h := newHistory()
	h.span(0, 1000)
	s, disk := h.onDisk(t)
	defer func() { require.NoError(t, s.Close()) }()
	s.opts.BatchKeys = 1000
	whole := disk.Files()
	h.span(1000, 2000)
	for _, kind := range []faultfs.Kind{
		faultfs.KindWrite, faultfs.KindSync, faultfs.KindOpen, faultfs.KindRename,
	} {
		disk.Inject(func(op faultfs.Op) error {
			if op.Kind == kind {
				return syscall.ENOSPC
			}
			return nil
		})
		_, err := s.Step(context.Background(), 0, h.through())
		require.ErrorIs(t, err, syscall.ENOSPC, kind)
		require.Equal(t, whole, disk.Files(), kind)
	}
	disk.Inject(nil)
	room := uint64(0)
	s.opts.Room = func(bytes uint64) bool { return bytes <= room }
	_, err := s.Step(context.Background(), 0, h.through())
	require.ErrorIs(t, err, ErrNoRoom)
	require.Equal(t, whole, disk.Files())
	room = fileBytes(1000)
	did, err := s.Step(context.Background(), 0, h.through())
	require.True(t, did)
	require.NoError(t, err)
	whole = disk.Files()
	_, err = s.Rewrite(context.Background(), 2000)
	require.ErrorIs(t, err, ErrNoRoom, "a merge needs room for both")
	require.Equal(t, whole, disk.Files())
	h.agree(t, s, 0)
	room = fileBytes(2000)
	settle(t, s, h, 0)
	require.Len(t, disk.Files(), 1)
	h.agree(t, s, 0)
}

// A file that cannot be repaired now is not merged, and holds up no other.
func TestAFileThatCannotBeRepairedHoldsUpNoOther(t *testing.T) {
	h := newHistory()
	h.span(0, 300)
	s, disk := h.onDisk(t)
	defer func() { require.NoError(t, s.Close()) }()
	spoil(t, s, disk, 1)
	s.view.Load().runs[0].suspects(1)
	s.opts.BatchKeys = 1
	s.opts.ShardKeys = 1 << 20
	h.span(300, 500)
	h.span(500, 800)
	for s.Covered() < h.through() {
		_, err := s.Step(context.Background(), 0, h.through())
		require.NoError(t, err)
	}
	files := s.Stats().Files
	require.GreaterOrEqual(t, files, uint64(3))
	h.missing = true
	for did := true; did; {
		var err error
		did, err = s.Rewrite(context.Background(), 8000)
		require.ErrorIs(t, err, errMissing)
		require.NotErrorIs(t, err, ErrDamaged)
	}
	require.EqualValues(t, 2, s.Stats().Files)
	h.missing = false
	s.opts.BatchKeys = 1000
	settle(t, s, h, 0)
	require.EqualValues(t, 1, s.Stats().Files)
	h.agree(t, s, 0)
}

// A part of the key space without keys has an empty filter.
func TestAnEmptyFilterLetsNothingThrough(t *testing.T) {
	h := newHistory()
	h.span(alike, alike+300)
	disk := faultfs.New()
	o := h.options()
	o.FS, o.ShardKeys = disk, 16
	s := opened(t, "/keys", o)
	settle(t, s, h, 0)
	h.agree(t, s, 0)
	before := s.Stats().Hits
	for k := range uint64(2000) {
		_, err := s.FindKey(keyOf(k))
		require.NoError(t, err)
	}
	require.Less(t, s.Stats().Hits-before, uint64(200))
	require.NoError(t, s.Close())
}
