package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"tollgate/cluster"
	"tollgate/cluster/backup"
	"tollgate/cmd/tollgate/archive"
	"tollgate/cmd/tollgate/config"
)

// keptLogs are the logs of both groups, of which each time a piece is kept.
type keptLogs struct {
	errs    map[uint16]error
	lost    uint64
	behind  int64
	afters  []uint64 // of the billing group's
	folders []string
	stamp   int64
}

func (k *keptLogs) Identity() string { return "" }

func (k *keptLogs) Folders() []string { return k.folders }

func (k *keptLogs) LogBehind(uint16, uint64) int64 { return k.behind }

func (k *keptLogs) KeepLog(
	_ context.Context, shard uint16, after uint64,
	keep func(l backup.Log, write func(io.Writer) error) error,
) (cluster.LogKept, error) {
	if shard == cluster.ShardBilling {
		k.afters = append(k.afters, after)
		k.stamp += 1000
	}
	if err := k.errs[shard]; err != nil {
		return cluster.LogKept{Last: after, Lost: k.lost}, err
	}
	first := after + k.lost + 1
	l := backup.Log{Shard: shard, First: first, Last: first + 9, Until: k.stamp}
	err := keep(l, func(w io.Writer) error {
		return backup.WriteLog(w, l, func(index uint64) (backup.LogEntry, error) {
			return backup.LogEntry{Index: index, Term: 1}, nil
		})
	})
	return cluster.LogKept{Last: l.Last, Until: l.Until, Lost: k.lost}, err
}

// keeping is the schedule of a node that keeps the log each five minutes.
func keeping(t *testing.T) (*logSchedule, *keptLogs, *bytes.Buffer) {
	var said bytes.Buffer
	settings := config.Default()
	settings.Node = "node1"
	settings.Backups.Folder, settings.Backups.Node = t.TempDir(), "node1"
	settings.Backups.LogEvery = 5 * time.Minute
	n := newNode(settings, slog.New(slog.NewTextHandler(&said, nil)))
	n.backups = newBackupMetrics(prometheus.NewRegistry())
	logs := &keptLogs{errs: map[uint16]error{}, folders: []string{"a", "b", "c"}}
	return &logSchedule{node: n, from: logs}, logs, &said
}

// keptUntil is what the metric says.
func keptUntil(t *testing.T, s *logSchedule) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.backups.logUntil)
	families, err := registry.Gather()
	require.NoError(t, err)
	return families[0].GetMetric()[0].GetGauge().GetValue()
}

// TestTheLogIsKeptInTime: each time it is due, and before if it has grown.
func TestTheLogIsKeptInTime(t *testing.T) {
	s, logs, _ := keeping(t)
	now := time.Now()
	steps := func(after time.Duration, want ...uint64) {
		t.Helper()
		s.step(t.Context(), now.Add(after))
		require.Equal(t, want, logs.afters)
	}
	steps(0, 0)
	require.EqualValues(t, 1, keptUntil(t, s))
	steps(4*time.Minute, 0)
	steps(5*time.Minute, 0, 10)
	logs.behind = logMuch + 1
	steps(6*time.Minute, 0, 10, 20)
	s.settings.Backups.Node = "node2"
	steps(20*time.Minute, 0, 10, 20)
	require.Nil(t, s.last, "another node goes on meanwhile")
	logs.behind = 0
	s.settings.Backups.Node = "node1"
	steps(30*time.Minute, 0, 10, 20, 30)
	require.Zero(t, s.backups.logFailures.Load())
	require.False(t, s.backups.wanted.Load())
}

// TestALogThatCouldNotBeKeptIsTriedAgain: soon, and how far it is kept is found out again, also
// where another group had an election at the same time.
func TestALogThatCouldNotBeKeptIsTriedAgain(t *testing.T) {
	s, logs, said := keeping(t)
	now := time.Now()
	s.step(t.Context(), now)
	full := errors.New("no space left on device")
	logs.errs[cluster.ShardBilling], logs.errs[cluster.ShardWorkspace] = full, cluster.ErrNotCurrent
	now = now.Add(5 * time.Minute)
	s.step(t.Context(), now)
	require.Nil(t, s.last)
	require.EqualValues(t, 1, s.backups.logFailures.Load())
	require.Zero(t, s.backups.failures.Load(), "no backup failed")
	require.Contains(t, said.String(), "the log was not kept")
	require.Contains(t, said.String(), full.Error())
	require.NotContains(t, said.String(), "a scheduled backup failed")
	s.step(t.Context(), now.Add(logRetry-1))
	require.Len(t, logs.afters, 2)

	now = now.Add(logRetry)
	delete(logs.errs, cluster.ShardBilling)
	s.step(t.Context(), now)
	require.Equal(t, []uint64{0, 10, 10}, logs.afters)
	require.EqualValues(t, 1, keptUntil(t, s), "of both groups")
	require.EqualValues(t, 1, s.backups.logFailures.Load(), "an election is none")
	require.NotNil(t, s.last)

	clear(logs.errs)
	s.step(t.Context(), now.Add(logRetry))
	require.Equal(t, []uint64{0, 10, 10, 20}, logs.afters)
	require.EqualValues(t, 4, keptUntil(t, s))
}

// TestEntriesThatWereNotKept are counted, and a backup is due: no log goes on before it.
func TestEntriesThatWereNotKept(t *testing.T) {
	s, logs, said := keeping(t)
	now := time.Now()
	logs.lost = 7
	s.step(t.Context(), now)
	require.True(t, s.backups.wanted.Swap(false), "where it begins")
	require.Zero(t, s.backups.logFailures.Load())
	s.step(t.Context(), now.Add(5*time.Minute))
	require.True(t, s.backups.wanted.Load())
	require.EqualValues(t, 2, s.backups.logFailures.Load(), "of two groups")
	require.Contains(t, said.String(), "entries=7")
}

// TestABackupForAGapIsWantedAfterARestart: until one is there that the log goes on behind.
func TestABackupForAGapIsWantedAfterARestart(t *testing.T) {
	s, logs, _ := keeping(t)
	store := archive.Folder(s.settings.Backups.Folder)
	backupAt := func(begun time.Time, index uint64) {
		t.Helper()
		plan := archive.Plan{Store: store, Keep: 9, KeepFor: time.Hour, Every: time.Hour, Daily: -1}
		write := func(_ context.Context, w io.Writer, _ archive.Keep) error {
			out, err := backup.NewWriter(w, &backup.Manifest{MadeAt: 1, Groups: []backup.Group{
				{Name: "billing", Index: index, Term: 1, Applied: index, StateBytes: 1},
			}})
			return errors.Join(err, out.State(strings.NewReader("s")), out.Close())
		}
		_, err := plan.Make(t.Context(), begun, write)
		require.NoError(t, err)
	}
	restarted := func() bool {
		again := &logSchedule{node: s.node, from: logs}
		s.backups.wanted.Store(false)
		again.step(t.Context(), time.Now())
		return s.backups.wanted.Load()
	}
	now := time.Now()
	backupAt(now.Add(-3*time.Hour), 4)
	logs.stamp = now.UnixMilli()
	require.False(t, restarted(), "entries 1 to 10")
	require.False(t, restarted(), "without a gap: 11 to 20")
	logs.lost = 7
	require.True(t, restarted())
	logs.lost = 0
	require.True(t, restarted(), "the files tell")
	backupAt(now.Add(-2*time.Hour), 1000)
	require.False(t, restarted())
}

// TestTheLogOfAnotherClusterIsNotMixed with that of this one, where neither was restored.
func TestTheLogOfAnotherClusterIsNotMixed(t *testing.T) {
	s, logs, said := keeping(t)
	now := time.Now()
	logs.folders = nil
	s.step(t.Context(), now)
	require.Empty(t, logs.afters, "whose log the folder has is not known yet")
	require.Contains(t, said.String(), "the log is not kept yet")
	require.Zero(t, s.backups.logFailures.Load())
	logs.folders = []string{"a", "b", "c"}
	s.step(t.Context(), now.Add(logRetry))
	require.Len(t, logs.afters, 1)
	other, others, _ := keeping(t)
	other.settings.Backups.Folder, others.folders = s.settings.Backups.Folder, []string{"x", "y", "z"}
	other.log = s.log
	other.step(t.Context(), time.Now())
	require.Empty(t, others.afters)
	require.EqualValues(t, 1, other.backups.logFailures.Load())
	require.Contains(t, said.String(), "those of another cluster")
}

// TestABackupForAGapIsNotMadeEachTime: one that the schedule does not ask for comes an hour after
// the newest at the soonest.
func TestABackupForAGapIsNotMadeEachTime(t *testing.T) {
	now := time.Now()
	require.True(t, isOldEnough(nil, now), "after a restore")
	require.False(t, isOldEnough([]archive.Backup{{Begun: now.Add(-wantedEvery + time.Second)}}, now))
	require.True(t, isOldEnough([]archive.Backup{{Begun: now.Add(-wantedEvery)}}, now))
}

// TestALogThatCannotBeKeptAsksForNoBackup: what is lost as well in each try fills no folder.
func TestALogThatCannotBeKeptAsksForNoBackup(t *testing.T) {
	s, logs, _ := keeping(t)
	logs.lost = 7
	logs.errs[cluster.ShardBilling] = errors.New("disk full")
	logs.errs[cluster.ShardWorkspace] = errors.New("disk full")
	s.step(t.Context(), time.Now())
	require.False(t, s.backups.wanted.Load())
}
