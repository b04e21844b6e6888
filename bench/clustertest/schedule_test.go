package clustertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
)

// Of three nodes with the same schedule one makes the backup that is due; one that cannot make its
// own says so where an operator looks.
func TestOneNodeMakesTheScheduledBackup(t *testing.T) {
	t.Parallel()
	d := startCluster(t)
	require.Zero(t, d.stop())
	folder := filepath.Join(t.TempDir(), "backups")
	d.configure(func(_ string, settings *config.Config) { settings.Backups.Folder = folder })
	d.start()
	var found []string
	require.Eventually(t, func() bool {
		var err error
		found, err = filepath.Glob(filepath.Join(folder, "tollgate-*Z.tgb"))
		return err == nil && len(found) > 0
	}, patience, statusEvery)
	printed, err := d.tollgate("backup", "verify", found[0])
	require.NoError(t, err, printed)
	made := func() (n int) {
		for _, node := range d.Nodes {
			n += strings.Count(d.metrics(node.ID), "\ntollgate_backups_made_total 1\n")
		}
		return n
	}
	require.Eventually(t, func() bool { return made() == 1 }, patience, statusEvery)
	require.Never(t, func() bool {
		all, err := os.ReadDir(folder)
		return err != nil || len(all) != 3 // it, its mark, and whose it is
	}, 12*time.Second, time.Second, "the next one is due in a day")
	require.Equal(t, 1, made())
	require.Eventually(t, func() bool {
		for _, node := range d.Nodes {
			if strings.Contains(d.metrics(node.ID), "\ntollgate_backup_last_success_timestamp_seconds 0\n") {
				return false
			}
		}
		return true
	}, patience, statusEvery, "every node knows of it")

	require.Zero(t, d.stop())
	blocked := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	d.configure(func(_ string, settings *config.Config) {
		settings.Backups.Folder, settings.Backups.Node = filepath.Join(blocked, "sub"), "node2"
	})
	d.start()
	require.Eventually(t, func() bool {
		return strings.Contains(d.metrics("node2"), "\ntollgate_backups_failed_total 1\n")
	}, patience, statusEvery)
	text, err := os.ReadFile(d.folder.NodeLog("node2"))
	require.NoError(t, err)
	require.Contains(t, string(text), "a scheduled backup failed")
	require.True(t, strings.Contains(d.metrics("node1"), "\ntollgate_backups_failed_total 0\n"))
	require.Zero(t, d.stop())
}
