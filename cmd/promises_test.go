package cmd_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// named finds the tests that a document names: in a list of several, or shortened by three dots.
var named = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*…?`)

// Every test that a document names is there: what a table promises would else be anybody's word.
func TestPromisesNameTestsThatExist(t *testing.T) {
	var functions []string
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && named.MatchString(f.Name.Name) {
				functions = append(functions, f.Name.Name)
			}
		}
	}
	all := "\n" + strings.Join(functions, "\n") + "\n"
	var offenders []string
	found := 0
	eachFile(t, func(path string, text []byte) {
		if !strings.HasSuffix(path, ".md") {
			return
		}
		for _, name := range named.FindAllString(string(text), -1) {
			found++
			want := "\n" + name + "\n"
			if begin, short := strings.CutSuffix(name, "…"); short {
				want = "\n" + begin
			}
			if !strings.Contains(all, want) {
				offenders = append(offenders, path+" names "+name)
			}
		}
	})
	require.Greater(t, found, 100, "the documents name tests")
	report(t, "what a document names is a test that exists", offenders)
}

// identifier finds a name with a capital letter within it, alone between backquotes.
var identifier = regexp.MustCompile("`([A-Za-z.]*[a-z][A-Z][A-Za-z.]*)(?:\\(\\))?`")

// TestDesignsNameWhatExists: the code has the types and functions that a design names, spelled so.
func TestDesignsNameWhatExists(t *testing.T) {
	words := map[string]bool{}
	for _, s := range sources(t) {
		for _, line := range s.lines {
			for _, word := range word.FindAllString(line, -1) {
				words[word] = true
			}
		}
	}
	others := []string{ // patterns, and names of systemd and of browsers
		"readName", "writeName", "checkName", "MemoryMax", "TasksMax", "scrollWidth",
	}
	var offenders []string
	found := 0
	eachFile(t, func(path string, text []byte) {
		if !strings.HasSuffix(path, ".md") || strings.HasPrefix(path, "bench/JOURNAL") {
			return
		}
		for _, match := range identifier.FindAllSubmatch(text, -1) {
			for _, name := range strings.Split(string(match[1]), ".") {
				found++
				if !words[name] && name != "" && !slices.Contains(others, name) {
					offenders = append(offenders, path+" names "+string(match[1]))
				}
			}
		}
	})
	require.Greater(t, found, 100, "the documents name code")
	report(t, "what a design names is in the code", offenders)
}

// goFile finds the names of Go files that documents have in backquotes.
var goFile = regexp.MustCompile("`([\\w/]+\\.go)`")

// TestDocumentsNameFilesThatExist: a file that a document names by its last folders, or by its name
// alone, is somewhere.
func TestDocumentsNameFilesThatExist(t *testing.T) {
	var files, offenders []string
	for _, s := range sources(t) {
		files = append(files, "/"+s.path)
	}
	found := 0
	eachFile(t, func(path string, text []byte) {
		if !strings.HasSuffix(path, ".md") || strings.HasPrefix(path, "bench/JOURNAL") {
			return
		}
		for _, match := range goFile.FindAllSubmatch(text, -1) {
			found++
			named := "/" + string(match[1])
			if !slices.ContainsFunc(files, func(f string) bool { return strings.HasSuffix(f, named) }) {
				offenders = append(offenders, path+" names "+string(match[1]))
			}
		}
	})
	require.Greater(t, found, 50, "the documents name files")
	report(t, "a Go file that a document names is there", offenders)
}

var word = regexp.MustCompile(`\w+`)

// linked finds the targets of Markdown links and pictures within the project.
var linked = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`)

func TestLinksOfDocumentsLeadToFiles(t *testing.T) {
	var offenders []string
	found := 0
	eachFile(t, func(path string, text []byte) {
		if !strings.HasSuffix(path, ".md") {
			return
		}
		for _, link := range linked.FindAllStringSubmatch(string(text), -1) {
			found++
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(path), link[1])); err != nil {
				offenders = append(offenders, path+" links to "+link[1])
			}
		}
	})
	require.Greater(t, found, 40, "the documents link to each other")
	report(t, "what a document links to exists", offenders)
}

// TestCONTRIBUTINGSaysWhereThingsAreDecided: each function of its table is declared in the file
// that the table links to.
func TestCONTRIBUTINGSaysWhereThingsAreDecided(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(text), "\n## Where is it decided?\n")
	table, _, _ = strings.Cut(table, "\n## ")
	files := map[string]source{}
	for _, s := range sources(t) {
		files[s.path] = s
	}
	var offenders []string
	found := 0
	for _, row := range placed.FindAllStringSubmatch(table, -1) {
		declared := map[string]bool{}
		for _, d := range files[row[2]].file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				declared[d.Name.Name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						declared[s.Name.Name] = true
					case *ast.ValueSpec:
						declared[s.Names[0].Name] = true
					}
				}
			}
		}
		for _, name := range word.FindAllString(row[1], -1) {
			if found++; !declared[name] {
				offenders = append(offenders, name+" is not in "+row[2])
			}
		}
	}
	require.Greater(t, found, 12)
	report(t, "CONTRIBUTING leads to functions that exist", offenders)
}

// placed finds the functions that CONTRIBUTING's table places in a file.
var placed = regexp.MustCompile("((?:`\\w+`(?:, )?)+) in \\[[^]]+\\]\\(([\\w/]+\\.go)\\)")
