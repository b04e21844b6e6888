package devdata_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/devdata"
)

func TestDevFileHasExactlyTheseFields(t *testing.T) {
	folder := devdata.Folder(t.TempDir())
	want := devdata.Running{
		Account: "demo",
		Keys:    devdata.Keys{AdminKey: "a", SandboxKey: "s", LiveKey: "l", ReadKey: "r"},
		Nodes:   []devdata.Node{{ID: "node1", HTTP: "h:1", Ops: "h:2", Raft: "h:3", PID: 7}},
	}
	require.NoError(t, folder.Save(want))
	text, err := os.ReadFile(folder.File())
	require.NoError(t, err)
	require.JSONEq(t, `{"account":"demo","adminKey":"a","sandboxKey":"s","liveKey":"l","readKey":"r",
		"nodes":[{"id":"node1","http":"h:1","ops":"h:2","raft":"h:3","pid":7}]}`, string(text))

	info, err := os.Stat(folder.File())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.NoError(t, folder.SetPID("node1", 8))
	got, err := folder.Load()
	require.NoError(t, err)
	want.Nodes[0].PID = 8
	require.Equal(t, want, got)
}

func TestKeysAreKept(t *testing.T) {
	folder := devdata.Folder(t.TempDir())
	none, err := folder.LoadKeys()
	require.NoError(t, err)
	require.Equal(t, devdata.Keys{}, none)
	require.NoError(t, folder.SaveKeys(devdata.Keys{AdminKey: "a"}))
	kept, err := folder.LoadKeys()
	require.NoError(t, err)
	require.Equal(t, "a", kept.AdminKey)
	_, err = folder.Load()
	require.ErrorContains(t, err, "is `tollgate dev` running there?")
}

func TestLockNamesItsHolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a", "LOCK")
	unlock, err := devdata.Lock(file, false)
	require.NoError(t, err)
	_, err = devdata.Lock(file, false)
	require.ErrorIs(t, err, devdata.ErrLocked)
	pid, err := devdata.Holder(file)
	require.NoError(t, err)
	require.Equal(t, os.Getpid(), pid)
	require.NoError(t, unlock())
	pid, err = devdata.Holder(file)
	require.NoError(t, err)
	require.Zero(t, pid)
}

func TestWriteFileLeavesNothingBehind(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "x")
	require.NoError(t, devdata.WriteFile(file, []byte("one")))
	require.NoError(t, devdata.WriteFile(file, []byte("two")))
	require.Error(t, devdata.WriteFile(folder, []byte("a folder is not a file")))
	entries, err := os.ReadDir(filepath.Dir(folder))
	require.NoError(t, err)
	for _, entry := range entries {
		require.NotContains(t, entry.Name(), ".new-")
	}
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "two", string(content))
}
