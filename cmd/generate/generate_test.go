package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// TestGeneratedFilesAreFresh fails when a tag changed and `go generate ./...` was not run, when a
// generated file was edited, and when one is left that nothing generates any more.
func TestGeneratedFilesAreFresh(t *testing.T) {
	files, err := Generate(root)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for path, want := range files {
		got, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is stale: run `go generate ./...`", path)
	}
	found, err := generated(root)
	require.NoError(t, err)
	for _, path := range found {
		require.Contains(t, files, path, "nothing generates %s: run `go generate ./...`", path)
	}
}

// TestFilesOfOthersStay: a file that is no longer generated is removed, one with another header is
// not.
func TestFilesOfOthersStay(t *testing.T) {
	folder := t.TempDir()
	for _, part := range append([]string{sdk, "vendor/y"}, folders...) {
		require.NoError(t, os.MkdirAll(filepath.Join(folder, part), 0o755))
	}
	ours := filepath.Join(folder, "engine", "schema"+suffix)
	theirs := filepath.Join(folder, "vendor", "y", "other"+suffix)
	require.NoError(t, os.WriteFile(ours, []byte(header+"package engine\n"), 0o644))
	require.NoError(t, os.WriteFile(theirs, []byte("package y\n"), 0o644))
	require.NoError(t, write(folder))
	require.NoFileExists(t, ours)
	require.FileExists(t, theirs)
}
