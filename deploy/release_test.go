//go:build long

package deploy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAReleaseIsReproducible: it is made here, and again in a clone elsewhere with an empty cache.
// Each bill of materials lists every module of its program. PLATFORMS bounds it.
func TestAReleaseIsReproducible(t *testing.T) {
	clone := filepath.Join(t.TempDir(), "clone")
	run(t, "", "git", "clone", "-q", "..", clone)
	here := filepath.Join(t.TempDir(), "elsewhere")
	run(t, "", "git", "clone", "-q", "..", here)
	release := func(from string, environment ...string) (folder, sums string) {
		folder = filepath.Join(t.TempDir(), "dist")
		run(t, from, "env", append(environment, "deploy/dist", folder)...)
		text, err := os.ReadFile(filepath.Join(folder, "SHA256SUMS"))
		require.NoError(t, err)
		return folder, string(text)
	}
	folder, sums := release(here, "VERSION=v9.8.7")
	_, again := release(clone, "VERSION=9.8.7", "GOCACHE="+t.TempDir(), "GOAMD64=v3", "GOARM64=v8.1")
	require.Equal(t, sums, again)

	bills, err := filepath.Glob(filepath.Join(folder, "*.cdx.json"))
	require.NoError(t, err)
	require.NotEmpty(t, bills)
	for _, bill := range bills {
		var listed struct {
			Components []struct{ Name, Version string }
		}
		text, err := os.ReadFile(bill)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &listed))
		known := map[string]string{}
		for _, c := range listed.Components {
			known[c.Name] = c.Version
		}
		program := filepath.Join(t.TempDir(), "tollgate")
		files := tarball(t, strings.TrimSuffix(bill, ".cdx.json")+".tar.gz")
		require.NoError(t, os.WriteFile(program, []byte(files["tollgate"]), 0o700))
		if strings.Contains(bill, "-"+runtime.GOOS+"-"+runtime.GOARCH+".") {
			require.Contains(t, run(t, "", program, "--version"), "tollgate 9.8.7 ")
		}
		modules := 0
		for line := range strings.Lines(run(t, "", "go", "version", "-m", program)) {
			if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "dep" {
				modules++
				require.Equal(t, fields[2], known[fields[1]], fields[1])
			}
		}
		require.Greater(t, modules, 20)
	}
}
