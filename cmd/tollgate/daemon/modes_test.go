package daemon

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cluster"
	"tollgate/cluster/backup"
	"tollgate/cmd/tollgate/devdata"
)

// What lies in a data folder, in a backup and in dev.json is customers' data and secrets: it is the
// owner's alone, whatever the umask of the shell that started the program.
func TestStateFilesAreTheOwnersAlone(t *testing.T) {
	before := syscall.Umask(0)
	defer syscall.Umask(before)
	n := startNodes(t, 1)
	one := n.all[0]
	status, _ := n.get(one.settings.Ops, "/api/v1/admin/accounts")
	require.Equal(t, 200, status)
	for _, g := range []*cluster.Group{one.cluster.Billing(), one.cluster.Workspace()} {
		require.NoError(t, g.TakeSnapshot())
	}
	folder := filepath.Dir(one.settings.Data)
	data := devdata.Folder(folder)
	require.NoError(t, data.Save(devdata.Running{Keys: devdata.Keys{AdminKey: n.key}}))
	require.NoError(t, data.SetPID("node1", 1))
	require.NoError(t, backup.WriteFile(filepath.Join(folder, "b.tgb"), func(w io.Writer) error {
		_, err := one.cluster.Backup(t.Context(), w, cluster.BackupOptions{Program: "test"})
		return err
	}))

	seen := map[string]int{}
	require.NoError(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		if os.IsNotExist(err) {
			return nil // a file that was being written has its name now
		}
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s is %s", path, info.Mode())
		name, err := filepath.Rel(folder, path)
		require.NoError(t, err)
		seen[strings.ReplaceAll(name, one.settings.Node, "N")]++
		return nil
	}))
	for _, name := range []string{
		"dev.json", "keys.json", "b.tgb", "certs/ca-key.pem", "N/node.json", "N/audit.spool/FORMAT",
		"N/config.yaml", "N/billing/vote", "N/billing/log", "N/billing/snapshots", "N/workspace/vote",
	} {
		require.Positive(t, seen[name], "the walk must come past %s: %v", name, seen)
	}
}
