package rollups

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
	"tollgate/engine/journal"
	"tollgate/engine/rollup"
)

// onDisk returns a history of both parts on a disk that can fail, and a query of each part.
func onDisk(records int) (*history, *faultfs.Disk, [2]rollup.Query) {
	disk := faultfs.New()
	h := openHistory("rollups")
	h.files = disk
	h.open()
	for i := range records {
		h.record(journal.KindUsage, uint32(i%5), byte(i%3), 1, int64(i))
		h.record(journal.KindAudit, uint32(i%5), 1, 1, int64(i))
	}
	var q [2]rollup.Query
	for _, part := range journal.Parts() {
		q[part] = rollup.Query{Part: part, Owner: rollup.Environment(1), To: int32(records)}
	}
	return h, disk, q
}

// requireCounted checks that a query is answered without a segment.
func (h *history) requireCounted(t *testing.T, q rollup.Query) {
	t.Helper()
	h.reads.Store(0)
	require.Equal(t, h.plain(t, q), sumOf(t, h, q))
	require.Zero(t, h.reads.Load())
}

// Work on a part that fails does not hold up the other part, nor counting.
func TestFailedWorkHoldsUpNoOther(t *testing.T) {
	t.Run("a segment that cannot be read", func(t *testing.T) {
		h, _, q := onDisk(400)
		h.lost = fmt.Sprint(journal.PartUsage, 1)
		require.ErrorIs(t, h.exhaust(), errLost)
		h.requireCounted(t, q[journal.PartAudit])
	})
	t.Run("no room for a merge", func(t *testing.T) {
		h, _, q := onDisk(400)
		h.opts.Room = func(bytes uint64) bool { return bytes <= 500 }
		require.ErrorIs(t, h.exhaust(), ErrNoRoom)
		for _, part := range journal.Parts() {
			h.requireCounted(t, q[part])
		}
	})
}

// A file that cannot be opened or read now is not damaged: it stays until it can.
func TestFilesThatCannotBeReadStay(t *testing.T) {
	for kind, fault := range map[faultfs.Kind]error{
		faultfs.KindOpen: syscall.EMFILE, faultfs.KindRead: syscall.EIO,
	} {
		h, disk, q := onDisk(200)
		h.settle(t)
		require.NoError(t, h.Close())
		files := disk.Files()
		disk.Inject(func(op faultfs.Op) error {
			if op.Kind == kind && strings.HasSuffix(op.Name, suffix) {
				return fault
			}
			return nil
		})
		h.open()
		require.ErrorIs(t, h.exhaust(), fault)
		require.Equal(t, files, disk.Files())
		disk.Inject(nil)
		h.settle(t)
		h.requireCounted(t, q[journal.PartUsage])
	}
}

// A query or a merge that a disk fails leaves the files that it reads.
func TestFilesThatCannotBeReadNowStay(t *testing.T) {
	faults := map[faultfs.Kind]error{faultfs.KindOpen: syscall.EMFILE, faultfs.KindRead: syscall.EIO}
	t.Run("query", func(t *testing.T) {
		for kind, fault := range faults {
			h, disk, q := onDisk(200)
			h.settle(t)
			disk.Inject(func(op faultfs.Op) error {
				if op.Kind == kind {
					return fault
				}
				return nil
			})
			require.ErrorIs(t, h.Sum(q[journal.PartUsage], func(rollup.Cell) error { return nil }), fault)
			disk.Inject(nil)
			did, err := h.Step(hurried())
			require.NoError(t, err)
			require.False(t, did, "all files are good")
			h.requireCounted(t, q[journal.PartUsage])
		}
	})
	t.Run("merge", func(t *testing.T) {
		for kind, fault := range faults {
			h, disk, q := onDisk(200)
			disk.Inject(func(op faultfs.Op) error {
				// A file of one segment is read and not the directory of the one just written.
				if op.Kind == kind && h.merging != nil && strings.HasSuffix(op.Name, suffix) {
					return fault
				}
				return nil
			})
			require.ErrorIs(t, h.exhaust(), fault)
			disk.Inject(nil)
			h.reads.Store(0)
			h.settle(t)
			require.Zero(t, h.reads.Load(), "all files were good")
			h.requireCounted(t, q[journal.PartUsage])
		}
	})
}

// A file that is gone while the store is open is made again.
func TestFilesThatAreGoneAreMadeAgain(t *testing.T) {
	t.Run("query", func(t *testing.T) {
		h, disk, q := onDisk(200)
		h.settle(t)
		usage := q[journal.PartUsage]
		require.NoError(t, disk.Remove(filepath.Join(h.dir, h.runs[journal.PartUsage][0].name())))
		require.ErrorIs(t, h.Sum(usage, func(rollup.Cell) error { return nil }), fs.ErrNotExist)
		h.settle(t)
		h.requireCounted(t, usage)
	})
	t.Run("merge", func(t *testing.T) {
		h, disk, q := onDisk(0)
		for i := int64(0); len(h.journal.View()[journal.PartUsage].Segments) < fanIn-1; i++ {
			h.record(journal.KindUsage, 1, 1, 1, i)
		}
		h.settle(t)
		require.NoError(t, disk.Remove(filepath.Join(h.dir, h.runs[journal.PartUsage][3].name())))
		for i := int64(0); len(h.journal.View()[journal.PartUsage].Segments) < fanIn; i++ {
			h.record(journal.KindUsage, 1, 1, 1, i)
		}
		require.ErrorIs(t, h.exhaust(), fs.ErrNotExist)
		h.settle(t)
		require.Len(t, h.runs[journal.PartUsage], 1)
		usage := q[journal.PartUsage]
		usage.To = 1000
		h.requireCounted(t, usage)
	})
}

// A file with a block that is none, though its checksum is right, is made again.
func TestFilesWithMalformedBlocksAreMadeAgain(t *testing.T) {
	h, _, q := onDisk(20)
	_, err := h.Step(hurried()) // looks for files
	require.NoError(t, err)
	usage, view := q[journal.PartUsage], h.journal.View()[journal.PartUsage]
	w, err := h.newWriter("next", journal.PartUsage, 1, 1, &view, 1)
	require.NoError(t, err)
	w.add(&rollup.Cell{Key: rollup.Key{Owner: usage.Owner}})
	w.block = w.block[:1]
	made, err := w.end()
	require.NoError(t, err)
	require.NoError(t, h.replace(made, nil))
	require.ErrorIs(t, h.Sum(usage, func(rollup.Cell) error { return nil }), rollup.ErrBlock)
	h.settle(t)
	h.requireCounted(t, usage)
}

// A start that cannot remove a file loses none that it keeps.
func TestFilesThatCannotBeRemoved(t *testing.T) {
	h, disk, q := onDisk(200)
	fault := func(op faultfs.Op) error {
		if op.Kind == faultfs.KindRemove {
			return syscall.EIO
		}
		return nil
	}
	disk.Inject(fault)
	for {
		did, err := h.Step(hurried())
		if err != nil {
			require.ErrorIs(t, err, syscall.EIO, "a merge leaves the files that it was made of")
		}
		if !did {
			break
		}
	}
	h.open()
	for range 3 {
		require.ErrorIs(t, h.exhaust(), syscall.EIO)
	}
	disk.Inject(nil)
	h.reads.Store(0)
	h.settle(t)
	require.Zero(t, h.reads.Load(), "all files were good")
	require.Less(t, len(h.runs[journal.PartUsage]), fanIn)
	require.Len(t, disk.Files(), len(h.runs[0])+len(h.runs[1]))
	h.requireCounted(t, q[journal.PartUsage])
}

// Files that another counter of their part made are made again; those of the other part stay as
// they are.
func TestFilesOfAnotherCounter(t *testing.T) {
	h, disk, q := onDisk(200)
	h.version = rollup.Versions{1, 1}
	h.open()
	h.settle(t)
	contents := func(part journal.Part) map[string]string {
		list := map[string]string{}
		for _, r := range h.runs[part] {
			file, err := disk.OpenRead(filepath.Join(h.dir, r.name()))
			require.NoError(t, err)
			size, err := file.Size()
			require.NoError(t, err)
			data := make([]byte, size)
			_, err = file.ReadAt(data, 0)
			require.NoError(t, err)
			require.NoError(t, file.Close())
			list[r.name()] = string(data)
		}
		return list
	}
	for _, part := range journal.Parts() {
		before := [...]map[string]string{contents(0), contents(1)}
		h.version[part]++
		h.open()
		did, err := h.Step(hurried()) // looks for files
		require.NoError(t, err)
		require.True(t, did)
		require.Empty(t, h.runs[part])
		require.Equal(t, before[1-part], contents(1-part))
		h.reads.Store(0)
		h.settle(t)
		require.Len(t, h.journal.View()[part].Segments, int(h.reads.Load()))
		require.NotEqual(t, before[part], contents(part))
		require.Equal(t, before[1-part], contents(1-part))
	}
	h.open()
	h.settle(t)
	for _, part := range journal.Parts() {
		h.requireCounted(t, q[part])
	}
}

// A merge takes many steps, and segments that are sealed meanwhile are counted between them. When
// one of its files is found damaged it is given up.
func TestMergesGoOnBesideCounting(t *testing.T) {
	h, disk, q := onDisk(200)
	h.piece = 1
	for h.merging == nil {
		_, err := h.Step(hurried())
		require.NoError(t, err)
	}
	for i := range 50 {
		h.record(journal.KindUsage, 1, 1, 1, int64(i))
	}
	merging, before := h.merging, len(h.runs[journal.PartUsage])
	_, err := h.Step(hurried())
	require.NoError(t, err)
	require.Same(t, merging, h.merging)
	require.Len(t, h.runs[journal.PartUsage], before+1)
	h.bad.Store(merging.from[3], true)
	h.settle(t)
	require.Less(t, len(h.runs[journal.PartUsage]), fanIn+fanIn/2)
	h.requireCounted(t, q[journal.PartUsage])
	require.Len(t, disk.Files(), len(h.runs[0])+len(h.runs[1]))
}

// Queries that see different moments of the journal count each record of the tail once.
func TestTailIsCountedOnce(t *testing.T) {
	h, _, q := onDisk(0)
	usage := q[journal.PartUsage]
	usage.To = 100
	h.record(journal.KindUsage, 1, 1, 1, 1)
	before := h.journal.View()[journal.PartUsage]
	h.record(journal.KindUsage, 1, 1, 1, 1)
	require.Len(t, sumOf(t, h, usage), 1)
	require.Equal(t, int64(2), h.counted.Load())
	require.NoError(t, h.sumTail(&before, &usage, func(rollup.Cell) error { return nil }))
	require.Len(t, sumOf(t, h, usage), 1)
	require.Equal(t, int64(2), h.counted.Load(), "the same tail")
	for len(h.journal.View()[journal.PartUsage].Segments) == 0 {
		h.record(journal.KindUsage, 1, 1, 1, 1)
	}
	h.record(journal.KindUsage, 1, 1, 1, 1)
	h.settle(t)
	want := sumOf(t, h, usage)
	h.counted.Store(0)
	events := int64(0)
	require.NoError(t, h.sumTail(&before, &usage, func(c rollup.Cell) error {
		events += c.Events
		return nil
	}))
	require.Equal(t, int64(1), events)
	require.Equal(t, int64(1), h.counted.Load())
	require.Equal(t, want, sumOf(t, h, usage))
	require.Equal(t, int64(1), h.counted.Load(), "the tail of now is still known")
}

// A query reads few of an owner's blocks when it names an item or few hours.
func TestBlocksOfOtherItemsAndHoursAreSkipped(t *testing.T) {
	disk := faultfs.New()
	h := openHistory("rollups")
	h.files = disk
	h.open()
	const items, hours = 10, 1000
	for i := range 20 {
		h.record(journal.KindUsage, 1, 1, 1, int64(i))
	}
	view := h.journal.View()[journal.PartUsage]
	require.NoError(t, disk.MkdirAll(h.dir))
	w, err := h.newWriter("next", journal.PartUsage, 1, 1, &view, 1)
	require.NoError(t, err)
	for item := range uint32(items) {
		for hour := range int32(hours) {
			w.add(&rollup.Cell{Key: rollup.Key{Owner: 5, Item: item, Hour: hour}, Events: 1})
		}
	}
	made, err := w.end()
	require.NoError(t, err)
	require.NoError(t, h.replace(made, nil))
	for _, c := range []struct {
		q             rollup.Query
		cells, blocks int
	}{
		{rollup.Query{Owner: 5, To: hours}, items * hours, len(made.dir)},
		{rollup.Query{Owner: 5, From: hours - 48, To: hours}, items * 48, len(made.dir) / 8},
		{rollup.Query{Owner: 5, To: hours, HasItem: true, Item: 4}, hours, len(made.dir)/items + 2},
		{rollup.Query{Owner: 5, From: 500, To: 548, HasItem: true, Item: 4}, 48, len(made.dir) / 100},
	} {
		reads := 0
		disk.Inject(func(op faultfs.Op) error {
			if op.Kind == faultfs.KindRead && op.Bytes < footerBytes*2 {
				reads++
			}
			return nil
		})
		require.Len(t, sumOf(t, h, c.q), c.cells)
		require.LessOrEqual(t, reads, c.blocks, "%+v", c.q)
	}
}
