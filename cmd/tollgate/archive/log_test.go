package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cluster/backup"
	"tollgate/cmd/tollgate/bucket"
)

// at writes a small backup of a group at an index, of the time.
func at(index uint64, stamp time.Time) Write { return of("", index, stamp) }

func of(cluster string, index uint64, stamp time.Time) Write {
	return func(_ context.Context, w io.Writer, _ Keep) error {
		m := &backup.Manifest{MadeAt: 1, Cluster: cluster, Groups: []backup.Group{{
			Name: "billing", Index: index, Term: 2, Applied: 3, StateBytes: 5, Stamp: stamp.UnixMilli(),
		}}}
		out, err := backup.NewWriter(w, m)
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
	_, err := Find(t.Context(), s, noon, "")
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
		m, err := Find(t.Context(), s, minutes(c.minute), "")
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
	_, err = Find(t.Context(), s, minutes(20), "")
	require.ErrorContains(t, err, "entries 16 to 25 of group billing are missing")
	require.NoError(t, os.Remove(s.Name(strings.TrimPrefix(first, s.Name(""))+provenSuffix)))
	_, err = Find(t.Context(), s, minutes(5), "")
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

// TestAKeptLogIsReadBack: what is not what was written, to its last byte, does not stay.
func TestAKeptLogIsReadBack(t *testing.T) {
	folder := Folder(t.TempDir())
	l := backup.Log{First: 1, Last: 9}
	var text, other strings.Builder
	require.NoError(t, writeLog(l)(&text))
	require.NoError(t, writeLog(backup.Log{First: 1, Last: 8})(&other))
	changes := map[string]func(string) string{
		"cut":     func(data string) string { return data[:len(data)-1] },
		"another": func(string) string { return other.String() },
	}
	for i := range text.Len() {
		changes[fmt.Sprint("byte ", i)] = func(data string) string {
			return data[:i] + string(data[i]^1) + data[i+1:]
		}
	}
	for what, change := range changes {
		err := KeepLog(t.Context(), spoiling{folder, change}, l, writeLog(l))
		require.Error(t, err, what)
		if errors.Is(err, backup.ErrVersion) { // a byte of the version
			require.NoError(t, folder.Remove(t.Context(), l.File()))
			continue
		}
		require.ErrorIs(t, err, backup.ErrDamaged, what)
		files, err := folder.List(t.Context(), "")
		require.NoError(t, err)
		require.Empty(t, files, what)
	}
}

// TestALogThatCouldNotBeReadBackDoesNotCount: it is read before the log goes on behind it.
func TestALogThatCouldNotBeReadBackDoesNotCount(t *testing.T) {
	store := &faulty{Folder: Folder(t.TempDir())}
	first := keepLog(t, store, 1, 9, noon)
	l := backup.Log{First: 10, Last: 19}
	store.broken = true
	require.ErrorIs(t, KeepLog(t.Context(), store, l, writeLog(l)), bucket.ErrBroken)
	_, err := LastKept(t.Context(), store, "")
	require.ErrorIs(t, err, bucket.ErrBroken)
	require.ErrorContains(t, err, l.File())
	store.broken = false
	kept := func() map[uint16]uint64 {
		last, err := LastKept(t.Context(), store, "")
		require.NoError(t, err)
		return last
	}
	require.Equal(t, map[uint16]uint64{0: 19}, kept())
	require.NoError(t, os.Truncate(store.Name(l.File()), 30))
	require.Equal(t, map[uint16]uint64{0: 9}, kept())
	require.NoFileExists(t, store.Name(l.File()))
	require.FileExists(t, store.Name(first.File()))
}

// TestLeftoversOfLogsAreTheirKeepers: a backup may begin while a log is written.
func TestLeftoversOfLogsAreTheirKeepers(t *testing.T) {
	s := Folder(t.TempDir())
	p := &Plan{Store: s, Keep: 1}
	ours := s.Name(backup.Log{First: 1, Last: 9}.File() + partSuffix)
	others := s.Name(backup.Log{Cluster: "other", First: 1, Last: 9}.File() + partSuffix)
	for _, part := range []string{ours, others} {
		require.NoError(t, os.WriteFile(part, nil, 0o600))
	}
	_, err := p.Make(t.Context(), noon, whole)
	require.NoError(t, err)
	require.FileExists(t, ours)
	_, err = LastKept(t.Context(), s, "")
	require.NoError(t, err)
	require.NoFileExists(t, ours)
	require.FileExists(t, others)
}

// TestALogWithoutATimeStays: it may be a link between two that stay.
func TestALogWithoutATimeStays(t *testing.T) {
	s := Folder(t.TempDir())
	l := keepLog(t, s, 1, 9, time.UnixMilli(0))
	_, err := (&Plan{Store: s, Keep: 1}).Make(t.Context(), noon, whole)
	require.NoError(t, err)
	require.FileExists(t, s.Name(l.File()))
}

// TestLogsGoOnBehindBackupsOfTheirOwnCluster: those of another one count for when the next backup
// is due no more than a damaged one, and one that cannot be read now does not cause another.
func TestLogsGoOnBehindBackupsOfTheirOwnCluster(t *testing.T) {
	store := &faulty{Folder: Folder(t.TempDir())}
	p := &Plan{Store: store, Keep: 9, KeepFor: 100 * time.Hour, Every: 24 * time.Hour, Daily: -1}
	due := func(cluster string, now time.Time) time.Time {
		list, err := p.List(t.Context())
		require.NoError(t, err)
		list, err = p.Of(t.Context(), list, cluster)
		require.NoError(t, err)
		return p.Due(list, now)
	}
	_, err := p.Make(t.Context(), noon, at(10, noon))
	require.NoError(t, err)
	hour := noon.Add(time.Hour)
	require.Equal(t, noon.Add(24*time.Hour), due("", hour))
	require.Equal(t, hour, due("other", hour), "it was restored")
	made, err := p.Make(t.Context(), hour, of("other", 20, hour))
	require.NoError(t, err)
	require.Equal(t, hour.Add(24*time.Hour), due("other", hour))
	require.Equal(t, noon.Add(24*time.Hour), due("", hour), "two clusters do not chase each other")

	p.clusters = nil
	store.broken = true
	list, err := p.List(t.Context())
	require.NoError(t, err)
	_, err = p.Of(t.Context(), list, "other")
	require.ErrorIs(t, err, bucket.ErrBroken)
	store.broken = false
	require.NoError(t, os.Truncate(made.Name, 20))
	require.Equal(t, hour, due("other", hour))
}

// TestAMomentOfSeveralClusters: the one whose logs go there is taken, and of two the one that is
// named.
func TestAMomentOfSeveralClusters(t *testing.T) {
	s := Folder(t.TempDir())
	p := &Plan{Store: s, Keep: 9, KeepFor: 100 * time.Hour}
	minutes := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }
	for n, cluster := range []string{"", "other"} {
		_, err := p.Make(t.Context(), minutes(n*20), of(cluster, 10, minutes(n*20)))
		require.NoError(t, err)
		l := backup.Log{Cluster: cluster, First: 11, Last: 20}
		l.Until = minutes(30 + n*20).UnixMilli()
		require.NoError(t, KeepLog(t.Context(), s, l, writeLog(l)))
	}
	for _, c := range []struct {
		minute        int
		of, want, err string
	}{
		{10, "", "first", ""},
		{25, "", "", "backups of several clusters go to that moment: other, first"},
		{25, "first", "first", ""},
		{25, "other", "other", ""},
		{25, "third", "", "there is no proven backup of cluster third of before that time"},
		{40, "", "other", ""},
		{40, "first", "", "the log of group billing of cluster first ends at 2026-11-21T12:30:00.000Z"},
		{60, "", "", "the log of group billing of cluster other ends at 2026-11-21T12:50:00.000Z"},
	} {
		m, err := Find(t.Context(), s, minutes(c.minute), c.of)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err, c)
		require.Equal(t, c.want, m.Cluster, c)
	}
}

// TestAMomentNeedsNoBackupThatIsDamaged: an older one and its logs lead there, and one that is
// older than what was found is not needed at all.
func TestAMomentNeedsNoBackupThatIsDamaged(t *testing.T) {
	for name, damaged := range map[string]int{"the newest": 1, "the oldest": 0} {
		t.Run(name, func(t *testing.T) {
			s := Folder(t.TempDir())
			p := &Plan{Store: s, Keep: 9, KeepFor: 100 * time.Hour}
			var names []string
			for n := range 2 {
				made, err := p.Make(t.Context(), noon.Add(time.Duration(n)*time.Minute),
					at(uint64(10+n), noon.Add(time.Duration(n)*time.Minute)))
				require.NoError(t, err)
				names = append(names, made.Name)
			}
			keepLog(t, s, 11, 20, noon.Add(time.Hour))
			// Another cluster's log comes as far, and has no backup of before the moment.
			l := backup.Log{Cluster: "other", First: 11, Last: 20, Until: noon.Add(time.Hour).UnixMilli()}
			require.NoError(t, KeepLog(t.Context(), s, l, writeLog(l)))
			require.NoError(t, os.WriteFile(names[damaged], []byte("x"), 0o600))
			m, err := Find(t.Context(), s, noon.Add(30*time.Minute), "")
			require.NoError(t, err)
			require.Equal(t, filepath.Base(names[1-damaged]), m.Backup)
		})
	}
}
