package archive

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"tollgate/cluster/backup"
	"tollgate/engine/journal"
)

func segment(n uint64) backup.Segment {
	data := []byte{byte(n), 1, 2, 3}
	return backup.Segment{Part: journal.PartUsage, Number: n, Length: 4, Hash: xxhash.Sum64(data)}
}

// journaled makes incremental backups in a folder, each an hour after the one before.
type journaled struct {
	*testing.T
	folder Folder
	plan   *Plan
	at     time.Time
	reads  int // of segments
}

func newJournaled(t *testing.T, store func(Folder) Store) *journaled {
	folder := Folder(t.TempDir())
	return &journaled{T: t, folder: folder, at: noon, plan: &Plan{
		Store: store(folder), Apart: true, Alone: true, Keep: 2, Every: time.Hour, Daily: -1,
	}}
}

func asItIs(f Folder) Store { return f }

// write writes a backup with the segments of these numbers, and then fails with an error.
func (j *journaled) write(from, to uint64, failed error) Write {
	return func(_ context.Context, w io.Writer, keep Keep) error {
		m := &backup.Manifest{MadeAt: 1, Apart: keep != nil, Groups: []backup.Group{
			{Index: 3, Term: 2, Applied: 3, StateBytes: 5},
		}}
		for n := from; n <= to && keep != nil; n++ {
			m.Groups[0].Segments = append(m.Groups[0].Segments, segment(n))
		}
		out, err := backup.NewWriter(w, m)
		if err == nil {
			err = out.State(strings.NewReader("state"))
		}
		for _, s := range m.Groups[0].Segments {
			err = errors.Join(err, keep(s.File(0), func() ([]byte, error) {
				j.reads++
				return []byte{byte(s.Number), 1, 2, 3}, nil
			}))
		}
		return errors.Join(err, out.Close(), failed)
	}
}

// makes makes the next one.
func (j *journaled) makes(from, to uint64) (Made, error) {
	made, err := j.plan.Make(j.Context(), j.at, j.write(from, to, nil))
	j.at = j.at.Add(time.Hour)
	return made, err
}

func (j *journaled) must(from, to uint64) Made {
	j.Helper()
	made, err := j.makes(from, to)
	require.NoError(j, err)
	return made
}

// check reads a backup and all of its segments.
func (j *journaled) check(b Made) error {
	_, err := backup.CheckFile(b.Name, backup.Beside(string(j.folder)), nil)
	return err
}

// requires compares how many segments were read, and how many there are.
func (j *journaled) requires(reads, segments int) {
	j.Helper()
	files, err := j.folder.List(j.Context(), "segment-")
	require.NoError(j, err)
	require.Equal(j, []int{reads, segments}, []int{j.reads, len(files)})
}

// TestSegmentsAreWrittenOnce: the second backup writes only what is new; a segment goes with the
// last backup that lists it.
func TestSegmentsAreWrittenOnce(t *testing.T) {
	j := newJournaled(t, asItIs)
	first := j.must(1, 3)
	j.must(1, 4)
	j.requires(4, 4)
	_, err := backup.CheckFile(first.Name, nil, nil)
	require.ErrorIs(t, err, backup.ErrApart)
	require.NoError(t, j.check(first))
	j.must(3, 5) // the first goes, and the second lists 1 and 2
	j.requires(5, 5)
	last := j.must(4, 6)
	j.requires(6, 4)

	name := j.folder.Name(segment(5).File(0))
	require.NoError(t, os.WriteFile(name, []byte{5, 1, 2, 4}, 0o600))
	require.ErrorIs(t, j.check(last), backup.ErrDamaged)
	require.NoError(t, os.WriteFile(name, []byte{5, 1}, 0o600))
	require.ErrorIs(t, j.check(last), backup.ErrDamaged)
	require.NoError(t, os.Remove(name))
	require.ErrorIs(t, j.check(last), os.ErrNotExist)
}

// TestOnlyProvenSegmentsAreTaken: those of a backup that failed, or was found damaged, are written
// again, and so are those of a backup of which one is not as long as it was.
func TestOnlyProvenSegmentsAreTaken(t *testing.T) {
	store := &faulty{}
	j := newJournaled(t, func(f Folder) Store {
		store.Folder = f
		return store
	})
	full := errors.New("no space left on device")
	store.flips = true
	_, err := j.plan.Make(t.Context(), noon, j.write(1, 2, full))
	require.ErrorIs(t, err, full)
	j.requires(2, 2)
	_, err = j.plan.Make(t.Context(), noon, j.write(1, 2, nil))
	require.ErrorIs(t, err, backup.ErrDamaged)
	j.requires(4, 2)
	store.flips = false
	made, err := j.plan.Make(t.Context(), noon.Add(scheduleRetry), j.write(1, 2, nil))
	require.NoError(t, err)
	require.ErrorContains(t, made.Warning, "read twice")
	j.requires(6, 2)
	require.NoError(t, j.check(made))

	require.NoError(t, os.WriteFile(j.folder.Name(segment(1).File(0)), []byte{1, 1}, 0o600))
	j.at = j.at.Add(2 * time.Hour)
	require.NoError(t, j.check(j.must(1, 2)))
	j.requires(8, 2)
}

// TestABackupThatLostASegmentProvesNone: what is written in its place was not read back, though it
// is as long.
func TestABackupThatLostASegmentProvesNone(t *testing.T) {
	store := &faulty{}
	j := newJournaled(t, func(f Folder) Store { store.Folder = f; return store })
	first := j.must(1, 1)
	require.NoError(t, os.Truncate(j.folder.Name(segment(1).File(0)), 1))
	store.flips = true
	for range 3 {
		_, err := j.makes(1, 1)
		require.ErrorIs(t, err, backup.ErrDamaged)
		require.NoFileExists(t, first.Name+provenSuffix)
	}
	store.flips = false
	require.NoError(t, j.check(j.must(1, 1)))
}

// TestABackupIsSetAsideAfterASecondLook: a process that finds another one's backup damaged may be
// wrong about it.
func TestABackupIsSetAsideAfterASecondLook(t *testing.T) {
	store := &faulty{flips: true}
	j := newJournaled(t, func(f Folder) Store { store.Folder = f; return store })
	_, err := j.plan.Make(t.Context(), noon, j.write(1, 1, nil))
	require.ErrorIs(t, err, backup.ErrDamaged)
	store.flips = false
	restarted := *j.plan
	restarted.suspect = ""
	at := noon.Add(scheduleRetry)
	_, err = restarted.Make(t.Context(), at, j.write(1, 1, nil))
	require.ErrorIs(t, err, backup.ErrDamaged)
	require.NotContains(t, names(t, &restarted), "damaged")
	made, err := restarted.Make(t.Context(), at.Add(scheduleRetry), j.write(1, 1, nil))
	require.NoError(t, err)
	require.ErrorContains(t, made.Warning, "read twice")
	require.NoError(t, j.check(made))
}

// TestSegmentsWithinABackupProveNoFile: a backup that has its segments in it lists them, too.
func TestSegmentsWithinABackupProveNoFile(t *testing.T) {
	j := newJournaled(t, asItIs)
	_, err := j.plan.Make(t.Context(), j.at, func(_ context.Context, w io.Writer, _ Keep) error {
		out, err := backup.NewWriter(w, &backup.Manifest{MadeAt: 1, Groups: []backup.Group{{
			Index: 3, Term: 2, Applied: 3, StateBytes: 5, Segments: []backup.Segment{segment(1)},
		}}})
		if err == nil {
			err = out.State(strings.NewReader("state"))
		}
		return errors.Join(err, out.Segment(strings.NewReader("\x01\x01\x02\x03")), out.Close())
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(j.folder.Name(segment(1).File(0)), []byte("xxxx"), 0o600))
	j.at = j.at.Add(time.Hour)
	require.NoError(t, j.check(j.must(1, 1)))
}

// TestSegmentsStayWithTheirBackups: with those that were renamed, too, and all of them where one
// cannot be read, and the backup that was made has not failed.
func TestSegmentsStayWithTheirBackups(t *testing.T) {
	j := newJournaled(t, asItIs)
	first := j.must(1, 2)
	copied := first
	copied.Name = j.folder.Name("before the move.tgb")
	text, err := os.ReadFile(first.Name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(copied.Name, text, 0o600))
	for range 3 {
		j.must(3, 3)
	}
	require.NoFileExists(t, first.Name)
	require.NoError(t, j.check(copied))
	j.requires(3, 3)
	require.NoError(t, os.Remove(copied.Name))
	last := j.must(3, 3)
	j.requires(3, 1)

	require.NoError(t, os.WriteFile(last.Name, []byte("TGBK"), 0o600))
	restarted := *j.plan
	restarted.lists = nil
	j.plan = &restarted
	made := j.must(4, 4)
	require.ErrorContains(t, made.Warning, last.Name)
	require.ErrorIs(t, made.Warning, backup.ErrDamaged)
	j.requires(4, 2)
	for range 2 {
		made = j.must(4, 4)
	}
	require.NoError(t, made.Warning)
	j.requires(4, 1)
}

// TestSegmentsGoAfterIncrementalBackups: where the setting is off by now, but not where another
// node may be writing some.
func TestSegmentsGoAfterIncrementalBackups(t *testing.T) {
	j := newJournaled(t, asItIs)
	j.must(1, 2)
	j.plan.Apart, j.plan.Alone = false, false
	for range 3 {
		j.must(0, 0)
	}
	j.requires(2, 2)
	j.plan.Alone = true
	j.must(0, 0)
	j.requires(2, 0)
}
