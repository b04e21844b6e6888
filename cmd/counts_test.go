package cmd_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"
)

// Limits on code written by hand.
const (
	maxFiles   = 60 // of a package, without tests
	maxMethods = 60 // of a type
	maxFields  = 25 // of a struct; an embedded struct is one field
)

// above lists what exceeded these limits when the test was written, with its own limit. Lines may
// be deleted and numbers lowered, nothing else.
var above = struct{ files, methods, fields map[string]int }{
	files:   map[string]int{},
	methods: map[string]int{},
	fields:  map[string]int{},
}

// maxBack limits the arrows that go back up in a folder and in those below it, and the returns, to
// what there was when the limit was set.
var maxBack = []struct {
	folder        string
	back, returns int
}{
	{"engine/billing", 97, 178},
	{"engine/workspace", 7, 14},
	{"server/workspaceapi", 21, 70},
	{"cluster", 17, 23},
}

// walks limits the files that the calls of a function cross within a folder: packages below
// engine/billing end a walk.
var walks = []struct {
	function string // as types.Func.FullName has it
	folder   string
	count    int
}{
	{"(*tollgate/engine/billing.RecordUsage).Apply", "engine/billing", 20},
}

// TestCounts holds packages, types and the ways between files to their limits, and prints the
// counts (make counts).
func TestCounts(t *testing.T) {
	packages := checkedPackages(t)
	var offenders []string
	offenders = append(offenders, countFiles(t, packages)...)
	offenders = append(offenders, countTypes(t, packages)...)
	offenders = append(offenders, countWalks(t, packages)...)
	countLines(t, packages)
	report(t, "packages, types and the ways between files stay within a reader's grasp", offenders)
}

// byHand are the files that are not generated.
func (p *checkedPackage) byHand() []source {
	return slices.DeleteFunc(slices.Clone(p.files), func(s source) bool { return isGenerated(s.path) })
}

// countFiles prints files, lines and arrows of each package.
func countFiles(t *testing.T, packages []*checkedPackage) (offenders []string) {
	var table strings.Builder
	counts, back, returns := map[string]int{}, map[string]int{}, map[string]int{}
	format := "%-34s%7v%8v%11v%8v%6v%9v%6v\n"
	fmt.Fprintf(&table, format, "package", "files", "lines", "generated", "arrows", "back", "returns", "knot")
	for _, p := range slices.SortedFunc(slices.Values(packages), func(a, b *checkedPackage) int {
		return cmp.Compare(len(b.byHand()), len(a.byHand()))
	}) {
		hand, generated := 0, 0
		for _, s := range p.files {
			if isGenerated(s.path) {
				generated += len(s.lines) - 1
			} else {
				hand += len(s.lines) - 1
			}
		}
		g := arrowsOf(p)
		counts[p.folder], back[p.folder], returns[p.folder] = len(g.files), g.back(), g.returns()
		fmt.Fprintf(&table, format, p.folder, len(g.files), hand, generated, g.count, back[p.folder],
			returns[p.folder], g.knot())
	}
	t.Log("\n" + table.String())
	for _, limit := range maxBack {
		for _, c := range []struct {
			what  string
			by    map[string]int
			limit int
		}{{"arrows go back up", back, limit.back}, {"arrows return", returns, limit.returns}} {
			sum := 0
			for folder, count := range c.by {
				if within(folder, limit.folder) {
					sum += count
				}
			}
			t.Logf("%s: %d %s", limit.folder, sum, c.what)
			if sum > c.limit {
				offenders = append(offenders, fmt.Sprintf("%s and below: %d %s, the limit is %d",
					limit.folder, sum, c.what, c.limit))
			}
		}
	}
	return append(offenders, exceeding("files", counts, maxFiles, above.files)...)
}

// exceeding compares counts with a limit, or with their own where they are known to be above it.
func exceeding(what string, counts map[string]int, usual int, above map[string]int,
) (offenders []string) {
	for name, count := range counts {
		if limit := max(usual, above[name]); count > limit {
			offenders = append(offenders, fmt.Sprintf("%s has %d %s, the limit is %d",
				name, count, what, limit))
		}
	}
	for name := range above {
		if counts[name] <= usual {
			offenders = append(offenders, fmt.Sprintf("%s has %d %s, the limit is %d: delete its line in above",
				name, counts[name], what, usual))
		}
	}
	slices.Sort(offenders)
	return offenders
}

// shownTypes is how many of the largest types are printed.
const shownTypes = 25

// countTypes prints methods and fields of the largest types, and the methods that a value has with
// those of embedded types, which have no limit: who reads a type reads what it declares.
func countTypes(t *testing.T, packages []*checkedPackage) []string {
	methods, reached, fields := map[string]int{}, map[string]int{}, map[string]int{}
	for _, p := range packages {
		for _, name := range p.types.Scope().Names() {
			declared, ok := p.types.Scope().Lookup(name).(*types.TypeName)
			if !ok || declared.IsAlias() {
				continue
			}
			kind, full := declared.Type().(*types.Named), p.folder+"."+name
			for m := range kind.Methods() {
				methods[full] += one(!p.generates(m))
			}
			for m := range types.NewMethodSet(types.NewPointer(kind)).Methods() {
				reached[full] += one(!p.generates(m.Obj()))
			}
			switch u := kind.Underlying().(type) {
			case *types.Interface:
				methods[full] = u.NumMethods()
			case *types.Struct:
				if !p.generates(declared) {
					fields[full] = u.NumFields()
				}
			}
		}
	}
	show := func(what string, counts map[string]int) {
		var table strings.Builder
		names := make([]string, 0, len(counts))
		for name := range counts {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int {
			return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
		})
		for _, name := range names[:min(shownTypes, len(names))] {
			fmt.Fprintf(&table, "%5d %s\n", counts[name], name)
		}
		t.Logf("types with the most %s, of %d\n%s", what, len(names), table.String())
	}
	show("methods", methods)
	show("methods with those of embedded types", reached)
	show("fields", fields)
	return append(exceeding("methods", methods, maxMethods, above.methods),
		exceeding("fields", fields, maxFields, above.fields)...)
}

// generates reports whether a declaration stands in a generated file.
func (p *checkedPackage) generates(o types.Object) bool {
	return isGenerated(p.files[0].set.Position(o.Pos()).Filename)
}

// function is a function with what it calls, by their full names.
type function struct {
	folder, file string
	calls        []string
}

// functions are those of a folder that are written by hand, by their full names. A function that is
// mentioned counts as called; what is called through an interface or a variable does not.
func functions(packages []*checkedPackage, folder string) map[string]function {
	all := map[string]function{}
	for _, p := range packages {
		if !within(p.folder, folder) {
			continue
		}
		for _, s := range p.byHand() {
			for _, declaration := range s.file.Decls {
				d, ok := declaration.(*ast.FuncDecl)
				if !ok || d.Body == nil {
					continue
				}
				f := function{folder: p.folder, file: s.path}
				ast.Inspect(d.Body, func(n ast.Node) bool {
					if name, ok := n.(*ast.Ident); ok {
						if called, ok := p.info.Uses[name].(*types.Func); ok {
							f.calls = append(f.calls, called.Origin().FullName())
						}
					}
					return true
				})
				all[p.info.Defs[d.Name].(*types.Func).FullName()] = f
			}
		}
	}
	return all
}

// countWalks prints which files the calls of a function cross. Calls are followed within the
// package of the function; a call into another package of the folder counts the file that it leads
// to and ends there, at what that package promises.
func countWalks(t *testing.T, packages []*checkedPackage) (offenders []string) {
	for _, w := range walks {
		all := functions(packages, w.folder)
		begin, ok := all[w.function]
		if !ok {
			offenders = append(offenders, w.function+" does not exist: name the function that replaced it in walks")
			continue
		}
		files := crossed(all, w.function, func(f function) bool { return f.folder == begin.folder })
		every := crossed(all, w.function, func(function) bool { return true })
		t.Logf("a walk through %s crosses %d files: %s; everything followed, %d files", w.function,
			len(files), strings.Join(files, " "), len(every))
		if len(files) > w.count {
			offenders = append(offenders, fmt.Sprintf("a walk through %s crosses %d files, the limit is %d",
				w.function, len(files), w.count))
		}
	}
	return offenders
}

func crossed(all map[string]function, from string, followed func(function) bool) (files []string) {
	seen := map[string]bool{from: true}
	for next := []string{from}; len(next) > 0; {
		f := all[next[0]]
		next = next[1:]
		files = append(files, strings.TrimSuffix(path.Base(f.file), ".go"))
		if !followed(f) {
			continue
		}
		for _, name := range f.calls {
			if _, known := all[name]; known && !seen[name] {
				seen[name] = true
				next = append(next, name)
			}
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// countLines prints how long the project is.
func countLines(t *testing.T, packages []*checkedPackage) {
	var linked, tools, generated, tests int
	counted := map[string]bool{}
	for _, p := range packages {
		for _, s := range p.files {
			counted[s.path] = true
			switch lines := len(s.lines) - 1; {
			case isGenerated(s.path):
				generated += lines
			case p.linked:
				linked += lines
			default:
				tools += lines
			}
		}
	}
	for _, s := range sources(t) {
		if !counted[s.path] {
			tests += len(s.lines) - 1
		}
	}
	t.Logf("lines: %d of the server by hand, %d of tools and harnesses, %d generated, %d of tests",
		linked, tools, generated, tests)
}
