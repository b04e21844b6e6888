package deploy_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// distPack packs a program that is a script, as a machine of another umask, time zone and temporary
// folder does, and returns what became of it.
func distPack(t *testing.T, umask, zone, system string) (folder string) {
	folder = t.TempDir()
	program := filepath.Join(folder, "program")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho \"$@\"\n"), 0o700))
	age := time.Duration(len(zone)) * time.Hour
	require.NoError(t, os.Chtimes(program, time.Time{}, time.Now().Add(-age)))
	out := filepath.Join(folder, "out")
	require.NoError(t, os.Mkdir(out, 0o700))
	pack := exec.Command("sh", "-c", "umask "+umask+`; exec ./dist pack "$@"`, "sh",
		out, program, system, "amd64")
	pack.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), "TZ="+zone, "LC_ALL=C.UTF-8", "VERSION=v1.2.3",
		"SOURCE_DATE_EPOCH=1790000000")
	said, err := pack.CombinedOutput()
	require.NoError(t, err, string(said))
	return out
}

// TestAPackageHasTheSameBytesOnEveryMachine, and what it should have.
func TestAPackageHasTheSameBytesOnEveryMachine(t *testing.T) {
	one := distPack(t, "077", "Asia/Tokyo", "linux")
	other := distPack(t, "002", "UTC", "linux")
	for _, name := range []string{"tollgate-1.2.3-linux-amd64.tar.gz", "tollgate_1.2.3_amd64.deb"} {
		a, err := os.ReadFile(filepath.Join(one, name))
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(other, name))
		require.NoError(t, err)
		require.True(t, string(a) == string(b), name)
	}

	files := tarball(t, filepath.Join(one, "tollgate-1.2.3-linux-amd64.tar.gz"))
	require.Equal(t, "man\n", files["tollgate.1"])
	require.Equal(t, "completion fish\n", files["completion/fish"])
	for _, name := range []string{
		"tollgate", "README.md", "CHANGELOG.md", "notices.txt", "systemd/tollgate.service",
	} {
		require.NotEmpty(t, files[name], name)
	}

	deb := filepath.Join(one, "tollgate_1.2.3_amd64.deb")
	tree := t.TempDir()
	said, err := exec.Command("dpkg-deb", "--raw-extract", deb, tree).CombinedOutput()
	require.NoError(t, err, string(said))
	text, err := os.ReadFile(filepath.Join(tree, "usr/lib/systemd/system/tollgate.service"))
	require.NoError(t, err)
	command := strings.Fields(readUnit(t, string(text)).service(t, "ExecStart"))[0]
	info, err := os.Stat(filepath.Join(tree, command))
	require.NoError(t, err, "the unit starts what the package has")
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm())
	said, err = exec.Command("sh", "-n", filepath.Join(tree, "DEBIAN/postinst")).CombinedOutput()
	require.NoError(t, err, string(said))
	said, err = exec.Command("dpkg-deb", "--field", deb, "Package", "Version", "Architecture").Output()
	require.NoError(t, err)
	require.Equal(t, "Package: tollgate\nVersion: 1.2.3\nArchitecture: amd64\n", string(said))

	entries, err := os.ReadDir(distPack(t, "022", "UTC", "darwin"))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no deb")
}

// tarball reads the files of an archive, by their names within its folder.
func tarball(t *testing.T, name string) map[string]string {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	files := map[string]string{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		require.Equal(t, [2]int{}, [2]int{header.Uid, header.Gid}, header.Name)
		require.Zero(t, header.Mode&0o022, header.Name)
		_, within, _ := strings.Cut(header.Name, "/")
		text, err := io.ReadAll(archive)
		require.NoError(t, err)
		files[within] = string(text)
	}
}

// TestDistKeepsWhatItDidNotMake: a mistyped folder is not removed.
func TestDistKeepsWhatItDidNotMake(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"SHA256SUMS", "mine", "tollgate-1-linux-amd64.tar.gz"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
	}
	said, err := exec.Command("./dist", folder).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "mine is not part of a release; nothing was changed")
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, 3)
}
