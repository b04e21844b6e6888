package clustertest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cluster"
	"tollgate/cluster/backup"
	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/replay"
)

// keptUntil is up to when the log of both groups is kept in a folder.
func keptUntil(t *testing.T, folder string) time.Time {
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	newest := map[uint16]int64{}
	for _, f := range files {
		if l, ok := backup.ParseLog(f.Name()); ok {
			newest[l.Shard] = max(newest[l.Shard], l.Until)
		}
	}
	return time.UnixMilli(min(newest[cluster.ShardBilling], newest[cluster.ShardWorkspace]))
}

// toMoment restores every node to a time, and returns what the first restore printed.
func (d *development) toMoment(folder string, at time.Time) (said string) {
	d.t.Helper()
	identity := ""
	for _, node := range d.Nodes {
		args := []string{
			"restore", "--config", d.folder.NodeConfig(node.ID),
			"--to-time", at.UTC().Format(time.RFC3339Nano), folder,
		}
		if identity != "" {
			args = append(args, "--cluster", identity)
		}
		printed, err := d.tollgate(args...)
		require.NoError(d.t, err, printed)
		if identity == "" {
			said = printed
			identity = clusterLine.FindStringSubmatch(printed)[1]
		}
	}
	return said
}

// TestRestoreToAMoment: what was acknowledged before an instant between two backups is there,
// counters, invoices and keys, and nothing of after it. The cluster goes on from there.
func TestRestoreToAMoment(t *testing.T) {
	t.Parallel()
	d := startCluster(t)
	require.Zero(t, d.stop())
	folder := filepath.Join(t.TempDir(), "backups")
	d.configure(func(_ string, settings *config.Config) {
		settings.Backups.Folder, settings.Backups.LogEvery = folder, 10*time.Second
	})
	d.start()
	require.Eventually(t, func() bool {
		found, err := filepath.Glob(filepath.Join(folder, "*.proven"))
		return err == nil && len(found) == 1
	}, patience, statusEvery)
	fresh, _ := d.counted(savedRows, savedSeed)
	require.Equal(t, savedRows*replay.EventsPerRow, fresh)
	d.closePeriod(32)
	invoices := d.invoiceTexts()
	// All of it has that stamp at most, and what comes next a later one: a process starts first.
	at := time.Now()
	const after = 1000
	fresh, _ = d.counted(after, movingSeed)
	require.Equal(t, after*replay.EventsPerRow, fresh)
	require.Eventually(t, func() bool { return keptUntil(t, folder).After(at) }, patience, statusEvery)
	require.NoError(t, d.command.Process.Kill())
	d.kill()

	d.wipe()
	for _, c := range []struct {
		at   time.Time
		want string
	}{
		{at.Add(-24 * time.Hour), "the oldest proven backup is of "},
		{at.Add(24 * time.Hour), " ends at "},
	} {
		printed, err := d.tollgate("restore", "--config", d.folder.NodeConfig(d.Nodes[0].ID), "--to-time",
			c.at.UTC().Format(time.RFC3339), folder)
		require.Error(t, err)
		require.Contains(t, printed, c.want)
		require.Contains(t, printed, "nothing was changed")
	}
	said := d.toMoment(folder, at)
	require.Contains(t, said, ".tgb, of cluster first.")
	require.Contains(t, said, "  billing went on to log index ")
	require.Contains(t, said, "  workspace went on to log index ")
	d.start()
	for _, node := range d.Nodes {
		d.ready(node.ID)
	}
	require.Equal(t, invoices, d.invoiceTexts())
	printed, err := d.tollgate(d.replayArgs(savedRows, savedSeed, "--batch", "500")...)
	require.NoError(t, err, printed)
	require.Contains(t, printed, "events: 0 counted, "+
		strconv.Itoa(savedRows*replay.EventsPerRow)+" there already.")
	fresh, known := d.counted(after, movingSeed)
	require.Zero(t, known, "what came after that time is not there")
	require.Equal(t, after*replay.EventsPerRow, fresh)
	d.closePeriod(70)
	printed, err = d.tollgate("invoice", "verify", "--data", string(d.folder))
	require.NoError(t, err, printed)
	require.Contains(t, printed, " 0 different.")
	require.Eventually(t, func() bool {
		found, err := filepath.Glob(filepath.Join(folder, "log-*"))
		return err == nil && strings.Count(strings.Join(found, "\n"), "log-first-") < len(found)
	}, patience, statusEvery, "the new cluster keeps its own log")
	require.Eventually(t, func() bool {
		found, err := filepath.Glob(filepath.Join(folder, "*.proven"))
		return err == nil && len(found) > 1
	}, patience, statusEvery, "and a backup, which it goes on behind, before one is due")
	d.stop()
}
