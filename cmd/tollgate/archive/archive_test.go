package archive

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"tollgate/cluster/backup"
	"tollgate/engine/journal"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// whole writes a small backup.
func whole(_ context.Context, w io.Writer, _ Keep) error {
	out, err := backup.NewWriter(w, &backup.Manifest{MadeAt: 1, Groups: []backup.Group{
		{Index: 3, Term: 2, Applied: 3, StateBytes: 5},
	}})
	if err == nil {
		err = out.State(strings.NewReader("state"))
	}
	if err == nil {
		err = out.Close()
	}
	return err
}

func names(t *testing.T, p *Plan) string {
	found, err := p.Store.List(context.Background())
	require.NoError(t, err)
	var all []string
	for _, f := range found {
		all = append(all, strings.TrimPrefix(f, prefix))
	}
	return strings.Join(all, " ")
}

func TestBackupsAreDue(t *testing.T) {
	at := func(offsets ...time.Duration) (list []Backup) {
		for _, o := range offsets {
			list = append(list, Backup{Begun: noon.Add(o)})
		}
		return list
	}
	const hour = time.Hour
	for _, c := range []struct {
		what  string
		plan  Plan
		list  []Backup
		after time.Duration
	}{
		{"the first", Plan{Every: hour, Daily: -1}, nil, 0},
		{"an interval later", Plan{Every: hour, Daily: -1}, at(-10*time.Minute, -hour), 50 * time.Minute},
		{"overdue", Plan{Every: hour, Daily: -1}, at(-3 * hour), -2 * hour},
		{"later today", Plan{Daily: 15 * hour}, at(-20 * hour), 3 * hour},
		{"today's is made", Plan{Daily: 11 * hour}, at(-hour), 23 * hour},
		{"made by hand before it is due", Plan{Daily: 13 * hour}, at(-hour), hour},
		{"midnight", Plan{Daily: 0}, at(-hour), 12 * hour},
		{"missed for days", Plan{Daily: 11 * hour}, at(-50 * hour), -49 * hour},
		{"the clock was set back", Plan{Every: hour, Daily: -1}, at(hour*99, -hour/2), hour / 2},
		{"the clock was set back, nothing older", Plan{Every: hour, Daily: -1}, at(hour * 99), 0},
	} {
		require.Equal(t, noon.Add(c.after), c.plan.Due(c.list, noon), c.what)
	}
}

func TestOldBackupsGoWhenTheNewOneIsProven(t *testing.T) {
	folder := Folder(filepath.Join(t.TempDir(), "made", "here"))
	p := &Plan{Store: folder, Keep: 2, KeepFor: 3 * time.Hour}
	for i := range 5 {
		made, bytes, err := p.Make(context.Background(), noon.Add(time.Duration(i)*time.Hour), whole)
		require.NoError(t, err)
		require.EqualValues(t, 5, bytes)
		require.Equal(t, noon.Add(time.Duration(i)*time.Hour), made.Begun)
	}
	day := "20261121T"
	require.Equal(t, day+"130000Z.tgb "+day+"140000Z.tgb "+day+"150000Z.tgb "+day+"160000Z.tgb",
		names(t, p), "the first is older than three hours, and two newer ones stay")
	require.NoError(t, os.WriteFile(folder.Name("notes.txt"), nil, 0o600))
	left := folder.Name(prefix + day + "000000Z" + partSuffix)
	require.NoError(t, os.WriteFile(left, nil, 0o600))
	_, _, err := p.Make(context.Background(), noon.Add(48*time.Hour), whole)
	require.NoError(t, err)
	require.Equal(t, "notes.txt "+day+"160000Z.tgb 20261123T120000Z.tgb", names(t, p))
	list, err := p.List(context.Background())
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, noon.Add(48*time.Hour), list[0].Begun)
}

// A backup that fails, or is not what was written, deletes nothing.
func TestOldBackupsStayWhenTheNewOneFails(t *testing.T) {
	p := &Plan{Store: Folder(t.TempDir()), Keep: 1}
	_, _, err := p.Make(context.Background(), noon, whole)
	require.NoError(t, err)
	full := errors.New("no space left on device")
	_, _, err = p.Make(context.Background(), noon.Add(time.Hour),
		func(_ context.Context, w io.Writer, _ Keep) error {
			_, err := io.WriteString(w, "TGBK")
			return errors.Join(err, full)
		})
	require.ErrorIs(t, err, full)
	require.Equal(t, "20261121T120000Z.tgb", names(t, p))

	_, _, err = p.Make(context.Background(), noon.Add(time.Hour),
		func(ctx context.Context, w io.Writer, _ Keep) error {
			return whole(ctx, &flipping{w: w}, nil)
		})
	require.ErrorIs(t, err, backup.ErrDamaged)
	require.ErrorContains(t, err, "look at the disk")
	require.Equal(t, "20261121T120000Z.tgb 20261121T130000Z.tgb.damaged", names(t, p))
	list, err := p.List(context.Background())
	require.NoError(t, err)
	require.Equal(t, noon, list[0].Begun, "so the next one is due as before")
}

// flipping is a disk that changes a bit of what is written.
type flipping struct {
	w    io.Writer
	done bool
}

func (f *flipping) Write(p []byte) (int, error) {
	if !f.done && len(p) > 20 {
		p = append([]byte(nil), p...)
		p[len(p)/2] ^= 1
		f.done = true
	}
	return f.w.Write(p)
}

// TestSegmentsAreWrittenOnce: the second backup writes only what is new; a segment goes with the
// last backup that lists it, and none where one cannot be read.
func TestSegmentsAreWrittenOnce(t *testing.T) {
	folder := Folder(t.TempDir())
	p := &Plan{Store: folder, Apart: true, Keep: 2}
	segment := func(n uint64) backup.Segment {
		data := []byte{byte(n), 1, 2, 3}
		return backup.Segment{Part: journal.PartUsage, Number: n, Length: 4, Hash: xxhash.Sum64(data)}
	}
	reads := 0
	write := func(from, to uint64) Write {
		return func(_ context.Context, w io.Writer, keep Keep) error {
			m := &backup.Manifest{MadeAt: 1, Apart: true, Groups: []backup.Group{
				{Index: 3, Term: 2, Applied: 3, StateBytes: 5},
			}}
			for n := from; n <= to; n++ {
				m.Groups[0].Segments = append(m.Groups[0].Segments, segment(n))
			}
			out, err := backup.NewWriter(w, m)
			if err == nil {
				err = out.State(strings.NewReader("state"))
			}
			for _, s := range m.Groups[0].Segments {
				err = errors.Join(err, keep(s.File(0), func() ([]byte, error) {
					reads++
					return []byte{byte(s.Number), 1, 2, 3}, nil
				}))
			}
			return errors.Join(err, out.Close())
		}
	}
	segments := func() (count int) {
		files, err := folder.List(t.Context())
		require.NoError(t, err)
		for _, f := range files {
			if backup.IsSegment(f) {
				count++
			}
		}
		return count
	}
	made := func(hours int, from, to uint64) (Backup, error) {
		b, _, err := p.Make(t.Context(), noon.Add(time.Duration(hours)*time.Hour), write(from, to))
		return b, err
	}
	first, err := made(0, 1, 3)
	require.NoError(t, err)
	_, err = made(1, 1, 4)
	require.NoError(t, err)
	require.Equal(t, []int{4, 4}, []int{reads, segments()})
	_, err = backup.CheckFile(first.Name, nil, nil)
	require.ErrorIs(t, err, backup.ErrApart)
	_, err = backup.CheckFile(first.Name, backup.Beside(string(folder)), nil)
	require.NoError(t, err)
	_, err = made(2, 3, 5) // the first goes, and the second lists 1 and 2
	require.NoError(t, err)
	require.Equal(t, []int{5, 5}, []int{reads, segments()})
	last, err := made(3, 4, 6)
	require.NoError(t, err)
	require.Equal(t, []int{6, 4}, []int{reads, segments()})

	name := folder.Name(segment(5).File(0))
	require.NoError(t, os.WriteFile(name, []byte{5, 1, 2, 4}, 0o600))
	_, err = backup.CheckFile(last.Name, backup.Beside(string(folder)), nil)
	require.ErrorIs(t, err, backup.ErrDamaged)
	require.NoError(t, os.WriteFile(name, []byte{5, 1}, 0o600))
	_, err = backup.CheckFile(last.Name, backup.Beside(string(folder)), nil)
	require.ErrorIs(t, err, backup.ErrDamaged)
	require.NoError(t, os.Remove(name))
	_, err = backup.CheckFile(last.Name, backup.Beside(string(folder)), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(last.Name, []byte("TGBK"), 0o600))
	_, err = made(4, 6, 7)
	require.ErrorContains(t, err, "old ones could not be deleted")
	require.Equal(t, 4, segments())
}
