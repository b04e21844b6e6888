package archive

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cluster/backup"
	"tollgate/cmd/tollgate/bucket"
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

// names are the files of a store but for segments; a backup that is not proven has a question mark,
// and those that are have none of their marks.
func names(t *testing.T, p *Plan) string {
	t.Helper()
	found, err := p.Store.List(context.Background(), "")
	require.NoError(t, err)
	unproven := map[string]bool{}
	for _, b := range backupsAmong(found) {
		unproven[b.Name] = !b.proven
	}
	var all []string
	for _, f := range found {
		name, marks := strings.CutSuffix(f.Name, provenSuffix)
		if _, there := unproven[name]; backup.IsSegment(f.Name) || marks && there {
			continue
		}
		if name = strings.TrimPrefix(f.Name, prefix); unproven[f.Name] {
			name += "?"
		}
		all = append(all, name)
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
		made, err := p.Make(context.Background(), noon.Add(time.Duration(i)*time.Hour), whole)
		require.NoError(t, err)
		require.EqualValues(t, 5, made.Bytes)
		require.Equal(t, noon.Add(time.Duration(i)*time.Hour), made.Begun)
	}
	day := "20261121T"
	require.Equal(t, day+"130000Z.tgb "+day+"140000Z.tgb "+day+"150000Z.tgb "+day+"160000Z.tgb",
		names(t, p), "the first is older than three hours, and two newer ones stay")
	require.NoError(t, os.WriteFile(folder.Name("notes.txt"), nil, 0o600))
	for _, left := range []string{
		prefix + day + "000000Z" + suffix + partSuffix, "segment-0-0-1-1-1.seg" + partSuffix,
		prefix + day + "000000Z" + suffix + provenSuffix + partSuffix,
		prefix + day + "000000Z" + suffix + provenSuffix,
	} {
		require.NoError(t, os.WriteFile(folder.Name(left), nil, 0o600))
	}
	_, err := p.Make(context.Background(), noon.Add(48*time.Hour), whole)
	require.NoError(t, err)
	require.Equal(t, "notes.txt "+day+"160000Z.tgb 20261123T120000Z.tgb", names(t, p))
	list, err := p.List(context.Background())
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, noon.Add(48*time.Hour), list[0].Begun)
}

// A backup that fails, or is not what was written, deletes nothing.
func TestOldBackupsStayWhenTheNewOneFails(t *testing.T) {
	p := &Plan{Store: Folder(t.TempDir()), Keep: 1, Every: time.Hour, Daily: -1}
	_, err := p.Make(context.Background(), noon, whole)
	require.NoError(t, err)
	full := errors.New("no space left on device")
	_, err = p.Make(context.Background(), noon.Add(time.Hour),
		func(_ context.Context, w io.Writer, _ Keep) error {
			_, err := io.WriteString(w, "TGBK")
			return errors.Join(err, full)
		})
	require.ErrorIs(t, err, full)
	require.Equal(t, "20261121T120000Z.tgb", names(t, p))

	_, err = p.Make(context.Background(), noon.Add(time.Hour),
		func(ctx context.Context, w io.Writer, _ Keep) error {
			return whole(ctx, &flipping{w: w}, nil)
		})
	require.ErrorIs(t, err, backup.ErrDamaged)
	require.ErrorContains(t, err, "does not count")
	require.Equal(t, "20261121T120000Z.tgb 20261121T130000Z.tgb?", names(t, p))
	list, err := p.List(context.Background())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, noon, list[0].Begun, "so the next one is due as before")

	made, err := p.Make(context.Background(), noon.Add(time.Hour+scheduleRetry), whole)
	require.NoError(t, err)
	require.ErrorContains(t, made.Warning, "look at the disk")
	require.Equal(t, "20261121T130000Z.tgb.damaged 20261121T130500Z.tgb", names(t, p))
}

// scheduleRetry is how much later a node tries again.
const scheduleRetry = 5 * time.Minute

// TestABackupThatCouldNotBeReadBackDoesNotCount: it is read again, and not written again, and
// nothing is taken from it for a connection that breaks.
func TestABackupThatCouldNotBeReadBackDoesNotCount(t *testing.T) {
	store := &faulty{Folder: Folder(t.TempDir())}
	p := &Plan{Store: store, Keep: 2, Every: time.Hour, Daily: -1}
	makes := func(after time.Duration, write Write) (Made, error) {
		return p.Make(t.Context(), noon.Add(after), write)
	}
	_, err := makes(0, whole)
	require.NoError(t, err)
	_, err = makes(time.Hour, whole)
	require.NoError(t, err)
	store.broken = true
	_, err = makes(2*time.Hour, whole)
	require.ErrorIs(t, err, bucket.ErrBroken)
	want := "20261121T120000Z.tgb 20261121T130000Z.tgb 20261121T140000Z.tgb?"
	require.Equal(t, want, names(t, p))
	unasked := func(context.Context, io.Writer, Keep) error { return errors.New("asked for another") }
	_, err = makes(2*time.Hour+scheduleRetry, unasked)
	require.ErrorIs(t, err, bucket.ErrBroken)
	require.Equal(t, want, names(t, p))
	list, err := p.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, noon.Add(time.Hour), list[0].Begun)
	require.Len(t, list, 2)

	// Once the next one is due by its own time there is another one, and a place is not taken by it.
	_, err = makes(3*time.Hour, whole)
	require.ErrorIs(t, err, bucket.ErrBroken)
	store.broken = false
	made, err := makes(3*time.Hour+scheduleRetry, unasked)
	require.NoError(t, err)
	require.Equal(t, noon.Add(3*time.Hour), made.Begun)
	require.Equal(t, "20261121T130000Z.tgb 20261121T140000Z.tgb? 20261121T150000Z.tgb", names(t, p))
	_, err = makes(4*time.Hour, whole)
	require.NoError(t, err)
	require.Equal(t, "20261121T150000Z.tgb 20261121T160000Z.tgb", names(t, p))
}

// faulty is a folder behind a connection that breaks, or a disk that changes segments.
type faulty struct {
	Folder
	broken, flips bool
}

func (f *faulty) Read(ctx context.Context, file string) (io.ReadCloser, int64, error) {
	src, size, err := f.Folder.Read(ctx, file)
	if err == nil && f.broken {
		src = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(src, 20), iotest.ErrReader(bucket.ErrBroken)), src}
	}
	return src, size, err
}

func (f *faulty) Replace(ctx context.Context, file string, write func(io.Writer) error) error {
	return f.Folder.Replace(ctx, file, func(w io.Writer) error {
		if err := write(w); err != nil || !f.flips || !backup.IsSegment(file) {
			return err
		}
		_, err := w.(*os.File).WriteAt([]byte{0xff}, 0)
		return err
	})
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
