package licenses

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write notices.txt anew")

// programs are those that are handed to others.
var programs = []string{"tollgate/cmd/tollgate", "tollgate/cmd/tollgate-browser"}

// notice is a file that a license asks to be handed on, and whose it is.
var notice = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([-.].*)?$`)

// listed is a package as `go list` prints it.
type listed struct {
	Dir    string
	Module *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// texts are the notices of one module, by the file's path within it.
type texts map[string]string

// Notices.txt is what the modules of this build say. After a change of go.mod:
//
//	go test ./cmd/tollgate/licenses -args -update
func TestNoticesAreThoseOfTheBuild(t *testing.T) {
	modules := licensed(t, packages(t, ".", programs...))
	modules["Go standard library"] = collect(t, goroot(t), goroot(t))
	want := write(modules)
	if *update {
		require.NoError(t, os.WriteFile("notices.txt", []byte(want), 0o644))
		return
	}
	require.True(t, want == Notices, "notices.txt is not of the modules in go.mod: run "+
		"`go test ./cmd/tollgate/licenses -args -update`")
}

// What is built from nested modules is not handed to others. It may be used all the same.
func TestNestedModulesAreLicensed(t *testing.T) {
	for _, module := range []string{"bench/load", "deploy"} {
		require.Greater(t, len(licensed(t, packages(t, "../../../"+module, "-test", "./..."))), 10)
	}
}

// licensed reads the notices of all modules that are not ours, by name and version.
func licensed(t *testing.T, all []listed) map[string]texts {
	t.Helper()
	modules := map[string]texts{}
	for _, p := range all {
		if p.Module == nil || p.Module.Main || p.Module.Path == "tollgate" {
			continue
		}
		name := p.Module.Path + " " + p.Module.Version
		if modules[name] == nil {
			modules[name] = texts{}
		}
		maps.Copy(modules[name], collect(t, p.Dir, p.Module.Dir))
	}
	for name, found := range modules {
		require.NotEmpty(t, found, "%s has no license file: may it be used?", name)
	}
	return modules
}

func goroot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// packages are all that something of a module is built from, on Linux, where programs are released
// for.
func packages(t *testing.T, module string, arguments ...string) (all []listed) {
	t.Helper()
	command := exec.Command("go", append([]string{"list", "-deps", "-json=Dir,Module"}, arguments...)...)
	command.Dir = module
	command.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	command.Stderr = os.Stderr
	out, err := command.Output()
	require.NoError(t, err)
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err = decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, p)
	}
}

// collect reads the notices in a package's folder and in those above it, up to the module's.
func collect(t *testing.T, dir, root string) texts {
	t.Helper()
	found := texts{}
	for ; ; dir = filepath.Dir(dir) {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			if e.IsDir() || !notice.MatchString(e.Name()) || filepath.Ext(e.Name()) == ".go" {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			require.NoError(t, err)
			file, err := filepath.Rel(root, filepath.Join(dir, e.Name()))
			require.NoError(t, err)
			found[file] = strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n"))
		}
		if dir == root {
			return found
		}
	}
}

// write lists the modules, and then each text once, under all that it belongs to.
func write(modules map[string]texts) string {
	var names []string
	owners := map[string][]string{}
	for name, found := range modules {
		names = append(names, name)
		for file, text := range found {
			owners[text] = append(owners[text], name+": "+file)
		}
	}
	slices.Sort(names)
	var all []string
	for text, of := range owners {
		slices.Sort(of)
		all = append(all, strings.Join(of, "\n")+"\n\n"+text+"\n")
	}
	slices.Sort(all)
	var b strings.Builder
	fmt.Fprintf(&b, "Tollgate is built from the software below, under the licenses below.\n\n%s\n",
		strings.Join(names, "\n"))
	for _, section := range all {
		fmt.Fprintf(&b, "\n%s\n\n%s", strings.Repeat("=", 80), section)
	}
	return b.String()
}
