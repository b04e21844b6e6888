package cmd_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkedPackage is a package of the project without its tests, type-checked.
type checkedPackage struct {
	folder string
	files  []source
	types  *types.Package
	info   *types.Info
	// linked reports whether the server is linked with it: the rest are tools and harnesses.
	linked bool
}

// All tests of this package share one parse and one type check.
var (
	parsedOnce  = sync.OnceValues(parseSources)
	checkedOnce = sync.OnceValues(checkPackages)
)

func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsedOnce()
	require.NoError(t, err)
	require.Greater(t, len(all), 20, "the test must find the project")
	return all
}

// checkedPackages are sorted by folder.
func checkedPackages(t *testing.T) []*checkedPackage {
	t.Helper()
	all, err := checkedOnce()
	require.NoError(t, err)
	require.Greater(t, len(all), 20, "the test must find the project")
	return all
}

func parseSources() (all []source, err error) {
	set := token.NewFileSet()
	err = walkFiles(func(path string, text []byte) error {
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
		all = append(all, source{
			path: path, folder: strings.TrimSuffix(path, "/"+filepath.Base(path)),
			test: strings.HasSuffix(path, "_test.go"), lines: strings.Split(string(text), "\n"),
			file: file, set: set,
		})
		return err
	})
	return all, err
}

// eachFile calls do for every file of the project that would be committed.
func eachFile(t *testing.T, do func(path string, text []byte)) {
	t.Helper()
	require.NoError(t, walkFiles(func(path string, text []byte) error {
		do(path, text)
		return nil
	}))
}

func walkFiles(do func(path string, text []byte) error) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		if entry.IsDir() {
			switch relative {
			case ".git", ".tollgate", "bin":
				return filepath.SkipDir
			}
			if strings.HasSuffix(relative, "testdata/rapid") { // what failing runs leave behind
				return filepath.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || relative == ".git" { // a file in a worktree
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return do(relative, text)
	})
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Export string
	GoFiles, Imports   []string
}

// programModules are the nested modules that have more than tests.
var programModules = []string{"bench/load"}

// list asks go list in the folder of a module.
func list(module string, arguments ...string) (all []listed, err error) {
	command := exec.Command("go", append([]string{
		"list", "-deps", "-json=ImportPath,Export,GoFiles,Imports",
	}, arguments...)...)
	command.Dir = filepath.Join(root, module)
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	for d := json.NewDecoder(out); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, command.Wait()
		} else if err != nil {
			return nil, errors.Join(err, command.Wait())
		}
		all = append(all, p)
	}
}

func checkPackages() (all []*checkedPackage, err error) {
	parsed, err := parsedOnce()
	if err != nil {
		return nil, err
	}
	byPath := map[string]source{}
	for _, s := range parsed {
		byPath[s.path] = s
	}
	linked := map[string]bool{}
	server, err := list(".", "./cmd/tollgate")
	if err != nil {
		return nil, err
	}
	for _, p := range server {
		linked[p.ImportPath] = true
	}
	packages, exported, err := listOurs()
	if err != nil {
		return nil, err
	}
	compiled := importer.ForCompiler(parsed[0].set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exported[path])
	})
	ours := typed{checked: map[string]*types.Package{}, compiled: compiled}
	for _, p := range packages {
		c := &checkedPackage{folder: folderOf(p.ImportPath), linked: linked[p.ImportPath]}
		for _, name := range p.GoFiles {
			c.files = append(c.files, byPath[c.folder+"/"+name])
		}
		if err := c.check(ours); err != nil {
			return nil, err
		}
		ours.checked[p.ImportPath] = c.types
		all = append(all, c)
	}
	return all, nil
}

// folderOf is the folder of a package of the project; "" for any other.
func folderOf(importPath string) string {
	folder, ours := strings.CutPrefix(importPath, "tollgate/")
	if !ours {
		return ""
	}
	return folder
}

// listOurs lists the packages of the project that have more than tests, each after what it imports,
// and where what they import from elsewhere is compiled. Nothing of the project is compiled for it.
func listOurs() (packages []listed, exported map[string]string, err error) {
	known, exported := map[string]bool{}, map[string]string{}
	for _, module := range append([]string{"."}, programModules...) {
		found, err := list(module, "./...")
		if err != nil {
			return nil, nil, err
		}
		foreign := map[string]bool{}
		for _, p := range found {
			if folderOf(p.ImportPath) == "" || len(p.GoFiles) == 0 || known[p.ImportPath] {
				continue
			}
			known[p.ImportPath] = true
			packages = append(packages, p)
			for _, path := range p.Imports {
				if folderOf(path) == "" && exported[path] == "" {
					foreign[path] = true
				}
			}
		}
		compiled, err := list(module, append([]string{"-export"}, slices.Sorted(maps.Keys(foreign))...)...)
		if err != nil {
			return nil, nil, err
		}
		for _, p := range compiled {
			exported[p.ImportPath] = p.Export
		}
	}
	return packages, exported, nil
}

// typed imports packages of the project as they were checked, and all others as they are compiled.
type typed struct {
	checked  map[string]*types.Package
	compiled types.Importer
}

// Import returns a package's types.
func (t typed) Import(path string) (*types.Package, error) {
	if p := t.checked[path]; p != nil {
		return p, nil
	}
	return t.compiled.Import(path)
}

// check fills in the types.
func (c *checkedPackage) check(imported types.Importer) (err error) {
	var files []*ast.File
	for _, s := range c.files {
		files = append(files, s.file)
	}
	c.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		Defs: map[*ast.Ident]types.Object{},
	}
	checker := types.Config{Importer: imported}
	c.types, err = checker.Check("tollgate/"+c.folder, c.files[0].set, files, c.info)
	return err
}
