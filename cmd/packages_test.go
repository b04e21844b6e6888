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
	"os"
	"os/exec"
	"path/filepath"
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
	GoFiles            []string
}

// programModules are the nested modules that have more than tests.
var programModules = []string{"bench/load"}

// list asks go list in the folder of a module.
func list(module string, arguments ...string) (all []listed, err error) {
	command := exec.Command("go", append([]string{
		"list", "-deps", "-json=ImportPath,Export,GoFiles",
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
	var packages []listed
	exported := map[string]string{}
	for _, module := range append([]string{"."}, programModules...) {
		found, err := list(module, "-export", "./...")
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			if _, known := exported[p.ImportPath]; !known {
				exported[p.ImportPath] = p.Export
				packages = append(packages, p)
			}
		}
	}
	compiled := importer.ForCompiler(parsed[0].set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exported[path])
	})
	for _, p := range packages {
		folder, ours := strings.CutPrefix(p.ImportPath, "tollgate/")
		if !ours || len(p.GoFiles) == 0 { // only tests
			continue
		}
		c := &checkedPackage{folder: folder, linked: linked[p.ImportPath]}
		for _, name := range p.GoFiles {
			c.files = append(c.files, byPath[folder+"/"+name])
		}
		if err := c.check(compiled); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// check fills in the types.
func (c *checkedPackage) check(compiled types.Importer) (err error) {
	var files []*ast.File
	for _, s := range c.files {
		files = append(files, s.file)
	}
	c.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		Defs: map[*ast.Ident]types.Object{},
	}
	checker := types.Config{Importer: compiled}
	c.types, err = checker.Check("tollgate/"+c.folder, c.files[0].set, files, c.info)
	return err
}
