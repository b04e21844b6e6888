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

	"github.com/stretchr/testify/require"

	"tollgate/cluster/backup"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// whole writes a small backup.
func whole(_ context.Context, w io.Writer) error {
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
	found, err := os.ReadDir(p.Folder)
	require.NoError(t, err)
	var all []string
	for _, f := range found {
		all = append(all, strings.TrimPrefix(f.Name(), prefix))
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
	p := &Plan{Folder: filepath.Join(t.TempDir(), "made", "here"), Keep: 2, KeepFor: 3 * time.Hour}
	for i := range 5 {
		made, bytes, err := p.Make(context.Background(), noon.Add(time.Duration(i)*time.Hour), whole)
		require.NoError(t, err)
		require.EqualValues(t, 5, bytes)
		require.Equal(t, noon.Add(time.Duration(i)*time.Hour), made.Begun)
	}
	day := "20261121T"
	require.Equal(t, day+"130000Z.tgb "+day+"140000Z.tgb "+day+"150000Z.tgb "+day+"160000Z.tgb",
		names(t, p), "the first is older than three hours, and two newer ones stay")
	require.NoError(t, os.WriteFile(filepath.Join(p.Folder, "notes.txt"), nil, 0o600))
	left := filepath.Join(p.Folder, prefix+day+"000000Z"+partSuffix)
	require.NoError(t, os.WriteFile(left, nil, 0o600))
	_, _, err := p.Make(context.Background(), noon.Add(48*time.Hour), whole)
	require.NoError(t, err)
	require.Equal(t, "notes.txt "+day+"160000Z.tgb 20261123T120000Z.tgb", names(t, p))
	list, err := p.List()
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, noon.Add(48*time.Hour), list[0].Begun)
}

// A backup that fails, or is not what was written, deletes nothing.
func TestOldBackupsStayWhenTheNewOneFails(t *testing.T) {
	p := &Plan{Folder: t.TempDir(), Keep: 1}
	_, _, err := p.Make(context.Background(), noon, whole)
	require.NoError(t, err)
	full := errors.New("no space left on device")
	_, _, err = p.Make(context.Background(), noon.Add(time.Hour),
		func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, "TGBK")
			return errors.Join(err, full)
		})
	require.ErrorIs(t, err, full)
	require.Equal(t, "20261121T120000Z.tgb", names(t, p))

	_, _, err = p.Make(context.Background(), noon.Add(time.Hour),
		func(ctx context.Context, w io.Writer) error {
			return whole(ctx, &flipping{w: w})
		})
	require.ErrorIs(t, err, backup.ErrDamaged)
	require.ErrorContains(t, err, "look at the disk")
	require.Equal(t, "20261121T120000Z.tgb 20261121T130000Z.tgb.damaged", names(t, p))
	list, err := p.List()
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
