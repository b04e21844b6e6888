package archive

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cluster/backup"
)

// at writes a small backup of a group at an index, of the time.
func at(index uint64, stamp time.Time) Write {
	return func(_ context.Context, w io.Writer, _ Keep) error {
		out, err := backup.NewWriter(w, &backup.Manifest{MadeAt: 1, Groups: []backup.Group{{
			Name: "billing", Index: index, Term: 2, Applied: 3, StateBytes: 5, Stamp: stamp.UnixMilli(),
		}}})
		return errors.Join(err, out.State(strings.NewReader("state")), out.Close())
	}
}

// keepLog keeps entries that end with one of a time.
func keepLog(t *testing.T, s Store, first, last uint64, until time.Time) backup.Log {
	t.Helper()
	l := backup.Log{First: first, Last: last, Until: until.UnixMilli()}
	require.NoError(t, KeepLog(t.Context(), s, l, writeLog(l)))
	return l
}

func writeLog(l backup.Log) func(io.Writer) error {
	return func(w io.Writer) error {
		return backup.WriteLog(w, l, func(index uint64) (backup.LogEntry, error) {
			return backup.LogEntry{Index: index, Term: 2}, nil
		})
	}
}

// TestWhatAMomentIsRestoredFrom: the newest backup of before it, and the logs behind that.
func TestWhatAMomentIsRestoredFrom(t *testing.T) {
	s := Folder(t.TempDir())
	p := &Plan{Store: s, Keep: 9, KeepFor: 100 * time.Hour}
	_, err := Find(t.Context(), s, noon)
	require.ErrorContains(t, err, "there is no proven backup in")
	minutes := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }
	make := func(n int, index uint64) string {
		// It has what came while it was begun.
		made, err := p.Make(t.Context(), minutes(n), at(index, minutes(n).Add(time.Second)))
		require.NoError(t, err)
		return made.Name
	}
	first := make(0, 10)
	a := keepLog(t, s, 1, 15, minutes(10))
	b := keepLog(t, s, 16, 25, minutes(25))
	second := make(30, 30)
	c := keepLog(t, s, 26, 40, minutes(40))
	last, err := LastKept(t.Context(), s, "")
	require.NoError(t, err)
	require.Equal(t, map[uint16]uint64{0: 40}, last)
	last, err = LastKept(t.Context(), s, strings.Repeat("0", 32))
	require.NoError(t, err)
	require.Empty(t, last)

	for _, c := range []struct {
		minute int
		backup string
		logs   []backup.Log
		err    string
	}{
		{0, "", nil, "the oldest proven backup is of 2026-11-21T12:00:00Z: want a time after it"},
		{5, first, []backup.Log{a}, ""},
		{20, first, []backup.Log{a, b}, ""},
		{30, first, []backup.Log{a, b, c}, ""},
		{35, second, []backup.Log{c}, ""},
		{40, "", nil, "ends at 2026-11-21T12:40:00.000Z: want a time before that"},
		{400, "", nil, "ends at 2026-11-21T12:40:00.000Z"},
	} {
		m, err := Find(t.Context(), s, minutes(c.minute))
		if c.err != "" {
			require.ErrorIs(t, err, backup.ErrNotKept)
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err, c.minute)
		require.Equal(t, c.backup, s.Name(m.Backup))
		require.Equal(t, map[uint16][]backup.Log{0: c.logs}, m.Logs)
	}
	require.NoError(t, os.Remove(s.Name(b.File())))
	_, err = Find(t.Context(), s, minutes(20))
	require.ErrorContains(t, err, "entries 16 to 25 of group billing are missing")
	require.NoError(t, os.Remove(s.Name(strings.TrimPrefix(first, s.Name(""))+provenSuffix)))
	_, err = Find(t.Context(), s, minutes(5))
	require.ErrorContains(t, err, "the oldest proven backup is of 2026-11-21T12:30:00Z")
}

// TestKeptLogsGoWithTheBackups that they go on behind.
func TestKeptLogsGoWithTheBackups(t *testing.T) {
	s := Folder(t.TempDir())
	p := &Plan{Store: s, Keep: 1, KeepFor: 3 * time.Hour}
	hours := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Hour) }
	for n := range 8 {
		keepLog(t, s, uint64(n*10+1), uint64(n*10+10), hours(n).Add(-time.Minute))
		_, err := p.Make(t.Context(), hours(n), whole)
		require.NoError(t, err)
	}
	files, err := s.List(t.Context(), backup.LogPrefix(""))
	require.NoError(t, err)
	logs := logsAmong(files)
	require.Equal(t, hours(4).Add(-time.Minute).UnixMilli(), logs[0].Until,
		"the oldest backup is that of hour 4")
	require.Len(t, logs, 4)
}

// spoiling is a store that changes what it writes.
type spoiling struct {
	Folder
	change func(data string) string
}

func (s spoiling) Replace(ctx context.Context, file string, write func(io.Writer) error) error {
	var text strings.Builder
	if err := write(&text); err != nil {
		return err
	}
	return s.Folder.Replace(ctx, file, func(w io.Writer) error {
		_, err := io.WriteString(w, s.change(text.String()))
		return err
	})
}

// TestAKeptLogIsReadBack: what is not what was written does not stay.
func TestAKeptLogIsReadBack(t *testing.T) {
	folder := Folder(t.TempDir())
	l := backup.Log{First: 1, Last: 9}
	other := backup.Log{First: 1, Last: 8}
	for what, change := range map[string]func(string) string{
		"cut": func(data string) string { return data[1:] },
		"another": func(string) string {
			var text strings.Builder
			require.NoError(t, writeLog(other)(&text))
			return text.String()
		},
	} {
		err := KeepLog(t.Context(), spoiling{folder, change}, l, writeLog(l))
		require.ErrorIs(t, err, backup.ErrDamaged, what)
		files, err := folder.List(t.Context(), "")
		require.NoError(t, err)
		require.Empty(t, files, what)
	}
}
