package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
)

var build = flag.Bool("build", false, "build the example of CONTRIBUTING, and test what it made")

// statement is a line of CONTRIBUTING's example, with the comment above it.
type statement struct{ file, within, text string }

var (
	markRE    = regexp.MustCompile(`^    // (\S+\.go)(?:, type (\w+))?`)
	versionRE = regexp.MustCompile(`(?m)^const newest uint32 = .*$`)
)

// example reads the statements by which CONTRIBUTING adds a field.
func example(t *testing.T) (all []statement) {
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Add a field\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if mark := markRE.FindStringSubmatch(line); mark != nil {
			all = append(all, statement{file: mark[1], within: mark[2]})
		} else if code, ok := strings.CutPrefix(line, "    "); ok && len(all) > 0 {
			all[len(all)-1].text += code
		}
	}
	return all
}

// apply writes a statement into its file below a folder.
func (s statement) apply(t *testing.T, folder string) {
	file := filepath.Join(folder, s.file)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	if s.within == "" {
		require.Len(t, versionRE.FindAll(text, -1), 1)
		text = versionRE.ReplaceAll(text, []byte(strings.TrimSpace(s.text)))
	} else {
		text = bytes.Replace(text, []byte("type "+s.within+" struct{}\n"),
			[]byte("type "+s.within+" struct {\n}\n"), 1)
		begin := []byte("type " + s.within + " struct {\n")
		require.Equal(t, 1, bytes.Count(text, begin))
		text = bytes.Replace(text, begin, append(begin, s.text...), 1)
	}
	require.NoError(t, os.WriteFile(file, text, 0o644))
}

// TestAFieldTakesThreeStatements carries out CONTRIBUTING's example in a copy of the tree: what it
// states by hand and what is generated from it bring the field into the API's requests, answers and
// document, the client, the command line and the console. What it reaches of the server is
// type-checked. With -build, tests of these packages prove what it does, which takes minutes. They
// are built over this tree, so that what is the same is not built again.
func TestAFieldTakesThreeStatements(t *testing.T) {
	statements := example(t)
	folder := t.TempDir()
	for _, part := range folders {
		from := sources{os.DirFS(filepath.Join(root, part))}
		require.NoError(t, os.CopyFS(filepath.Join(folder, part), from))
	}
	count := 0
	for _, s := range statements {
		s.apply(t, folder)
		for line := range strings.Lines(s.text) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				count++
			}
		}
		if s.within == "" {
			require.Regexp(t, `= `+string(rune('0'+engine.Version+1))+`\n`, s.text, "the next version")
		}
	}
	require.Positive(t, count)
	require.LessOrEqual(t, count, 3, "statements by hand")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, sdk), 0o755))
	require.NoError(t, write(folder))

	overlay := struct{ Replace map[string]string }{map[string]string{}}
	lay := func(from string) {
		require.NoError(t, filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			relative, err := filepath.Rel(from, path)
			require.NoError(t, err)
			at, err := filepath.Abs(filepath.Join(root, relative))
			require.NoError(t, err)
			now, err := os.ReadFile(path)
			require.NoError(t, err)
			if before, _ := os.ReadFile(at); !bytes.Equal(before, now) {
				overlay.Replace[at], err = filepath.Abs(path)
			}
			return err
		}))
	}
	lay(folder)
	changed := len(overlay.Replace)
	for _, want := range [...]struct{ name, text string }{
		{"engine/billing/schema_gen.go", "w.String(32, &v.PurchaseOrder)"},
		{
			"engine/billing/schema_gen.go",
			"if v.PurchaseOrder != \"\" {\n\t\tversion = max(version, 2)\n",
		},
		{"server/client/schema_gen.go", "f.Text(3, &v.PurchaseOrder, 0, 64)"},
		{"server/client/schema_gen.go", `data.TextIf("purchaseOrder", v.PurchaseOrder)`},
		{"sdk/go/client_gen.go", "PurchaseOrder string `json:\"purchaseOrder,omitzero\" max:\"64\""},
	} {
		generated, err := os.ReadFile(filepath.Join(folder, want.name))
		require.NoError(t, err)
		require.Contains(t, string(generated), want.text)
	}
	require.Equal(t, len(statements)+3, changed, "files that the statements and the generator change")
	typeCheck(t, overlay.Replace)
	if !*build {
		return
	}
	lay("testdata/purchaseorder")
	require.Len(t, overlay.Replace, changed+3)
	text, err := json.Marshal(overlay)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(file, text, 0o644))

	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "go", "test", "-overlay", file, "-vet=off", "-v",
		"-run", "^TestPurchaseOrder$", "./server/client", "./server/console", "./cmd/tollgate")
	command.Dir = root
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, 3, bytes.Count(out, []byte("--- PASS: TestPurchaseOrder")), "%s", out)
}

// typeCheck is the half of a compiler that finds mistakes. It checks the packages of the server in
// which a file is replaced, and those that import them; the others are imported as compiled.
func typeCheck(t *testing.T, replaced map[string]string) {
	t.Helper()
	command := exec.Command("go", "list", "-deps", "-export",
		"-json=ImportPath,Dir,Export,GoFiles,Imports", "./cmd/tollgate")
	command.Dir = root
	out, err := command.Output()
	require.NoError(t, err)
	exported := map[string]string{}
	set := token.NewFileSet()
	im := overlaid{checked: map[string]*types.Package{}, compiled: importer.ForCompiler(set, "gc",
		func(path string) (io.ReadCloser, error) { return os.Open(exported[path]) })}
	used := 0
	for d := json.NewDecoder(bytes.NewReader(out)); ; { // each after what it imports
		var p struct {
			ImportPath, Dir, Export string
			GoFiles, Imports        []string
		}
		if err := d.Decode(&p); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
		exported[p.ImportPath] = p.Export
		reached := slices.ContainsFunc(p.Imports, func(path string) bool {
			return im.checked[path] != nil
		})
		paths := make([]string, 0, len(p.GoFiles))
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			if by := replaced[path]; by != "" {
				path, reached = by, true
				used++
			}
			paths = append(paths, path)
		}
		if !reached {
			continue
		}
		var files []*ast.File
		for _, path := range paths {
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, file)
		}
		config := types.Config{Importer: im, Sizes: types.SizesFor("gc", runtime.GOARCH)}
		im.checked[p.ImportPath], err = config.Check(p.ImportPath, set, files, nil)
		require.NoError(t, err)
	}
	require.Len(t, replaced, used, "all are of the server")
	require.NotNil(t, im.checked["tollgate/cmd/tollgate"], "it reaches the program")
}

// overlaid imports packages as they were checked, and all others as they are compiled.
type overlaid struct {
	checked  map[string]*types.Package
	compiled types.Importer
}

// Import returns a package's types.
func (o overlaid) Import(path string) (*types.Package, error) {
	if p := o.checked[path]; p != nil {
		return p, nil
	}
	return o.compiled.Import(path)
}

// sources are the Go files of a tree that the generator reads or writes.
type sources struct{ fs.FS }

// ReadDir lists folders and such files.
func (s sources) ReadDir(name string) (kept []fs.DirEntry, err error) {
	all, err := fs.ReadDir(s.FS, name)
	for _, e := range all {
		if e.IsDir() && e.Name() != "testdata" ||
			strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go") {
			kept = append(kept, e)
		}
	}
	return kept, err
}
