package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cluster"
	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/devdata"
)

// TestAStartOnAFullDiskSaysWhatToDo: the last line says how much room is needed, and systemd does
// not start a node again after this code.
func TestAStartOnAFullDiskSaysWhatToDo(t *testing.T) {
	text := refusedStart(t, func(data string) {
		require.NoError(t, os.Symlink("/dev/full", devdata.NodeLock(data)))
	})
	require.Contains(t, text, "no space left on device")
	require.Contains(t, text, "free 2 MiB or more on the disk, and start it again")
}

// TestAStartOnAFileOfTheWrongKindSaysWhatToDo, wherever it is in the data folder.
func TestAStartOnAFileOfTheWrongKindSaysWhatToDo(t *testing.T) {
	for _, file := range []string{"billing", "billing/log", "workspace"} {
		text := refusedStart(t, func(data string) {
			require.NoError(t, os.MkdirAll(filepath.Join(data, filepath.Dir(file)), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(data, file), nil, 0o600))
		})
		require.Contains(t, text, "put back the right file or folder", file)
	}
	for _, folder := range []string{"node.json", "billing/vote"} {
		text := refusedStart(t, func(data string) {
			require.NoError(t, os.MkdirAll(filepath.Join(data, folder), 0o700))
		})
		require.Contains(t, text, "put back the right file or folder", folder)
	}
}

// refusedStart starts a node on a data folder that was prepared, and returns what it says. It has
// to end with the code that keeps systemd from starting it again.
func refusedStart(t *testing.T, prepare func(data string)) string {
	t.Helper()
	folder := t.TempDir()
	settings := config.Default()
	settings.Node, settings.Data = "n1", filepath.Join(folder, "data")
	settings.HTTP, settings.Ops, settings.Raft = "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"
	settings.Members = []config.Member{{ID: "n1", Raft: settings.Raft}}
	settings.AdminKeyHash = strings.Repeat("0", 64)
	text, err := settings.YAML()
	require.NoError(t, err)
	file := filepath.Join(folder, "tollgate.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	require.NoError(t, os.Mkdir(settings.Data, 0o700))
	prepare(settings.Data)

	said, err := os.Create(filepath.Join(folder, "said"))
	require.NoError(t, err)
	stderr := os.Stderr
	os.Stderr = said
	code := run([]string{"serve", "--config", file}, io.Discard)
	os.Stderr = stderr
	require.NoError(t, said.Close())
	text, err = os.ReadFile(said.Name())
	require.NoError(t, err)
	require.Equal(t, cluster.ExitFatal, code, "%s", text)
	return string(text)
}
