package local

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/daemon"
)

// TestANodeIsNotRestoredAlone: a node that joined the old cluster has no members in its
// configuration. Restored with that it would lead itself, under the identity of the others.
func TestANodeIsNotRestoredAlone(t *testing.T) {
	folder := t.TempDir()
	backup := filepath.Join(folder, "none.tgb")
	require.NoError(t, os.WriteFile(backup, nil, 0o600))
	restore := func(join bool, cluster string, members []config.Member) error {
		settings := config.Default()
		settings.Data, settings.Join = filepath.Join(folder, "data"), join
		settings.Members, settings.AdminKeyHash = members, strings.Repeat("ab", 32)
		text, err := settings.YAML()
		require.NoError(t, err)
		file := filepath.Join(folder, "node.yaml")
		require.NoError(t, os.WriteFile(file, text, 0o600))
		c := RestoreCommand{NodeFlags: daemon.NodeFlags{Config: file}, Cluster: cluster, File: backup}
		return c.Run(t.Context(), new(bytes.Buffer))
	}
	identity := strings.Repeat("ab", 16)
	require.ErrorIs(t, restore(true, "", nil), errLonely)
	require.ErrorIs(t, restore(false, identity, nil), errLonely)
	require.NoDirExists(t, filepath.Join(folder, "data"), "nothing was changed")
	three := []config.Member{
		{ID: "node1", Raft: "127.0.0.1:7080"},
		{ID: "node2", Raft: "127.0.0.1:7081"},
		{ID: "node3", Raft: "127.0.0.1:7082"},
	}
	for _, err := range []error{
		restore(false, "", nil), restore(true, identity, three), restore(false, identity, three),
	} {
		require.Error(t, err, "the backup is none")
		require.NotErrorIs(t, err, errLonely)
		require.NoError(t, os.RemoveAll(filepath.Join(folder, "data")))
	}
}

// TestAMomentIsOfAFolder: a file is named as what it is, and nothing is changed.
func TestAMomentIsOfAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "one.tgb")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	c := RestoreCommand{File: file, ToTime: time.Now()}
	_, _, err := c.moment(t.Context(), new(bytes.Buffer))
	require.ErrorContains(t, err, file+" is a file: want the folder, or bucket, of the backups")
	c = RestoreCommand{File: file, Of: "first"}
	_, _, err = c.moment(t.Context(), new(bytes.Buffer))
	require.ErrorContains(t, err, "--of chooses the cluster of --to-time, which is not given")
}
