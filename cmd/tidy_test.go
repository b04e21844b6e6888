// Package cmd_test holds the project to its habits: which package may import which, what the
// engine must not do, how long things may get, and which names and words stay out. A habit that is
// broken fails here, with its place.
package cmd_test

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const root = ".."

// source is one Go file of the project.
type source struct {
	path   string // from the project's root, with slashes
	folder string
	test   bool
	lines  []string
	file   *ast.File
	set    *token.FileSet
}

func (s source) at(p token.Pos) string {
	return fmt.Sprintf("%s:%d", s.path, s.set.Position(p).Line)
}

func report(t *testing.T, habit string, offenders []string) {
	t.Helper()
	require.Empty(t, offenders, "%s:\n%s", habit, strings.Join(offenders, "\n"))
}

func within(path string, folders ...string) bool {
	for _, folder := range folders {
		if path == folder || strings.HasPrefix(path, folder+"/") {
			return true
		}
	}
	return false
}

// imports says what the packages of a folder may import of ours. Folders that are not named here
// may import everything.
var imports = []struct {
	folder string
	ours   []string
	why    string
}{
	{"engine/decimal", nil, "numbers know nothing"},
	{"engine/billing", []string{"engine"}, "a state machine is a pure function of its log"},
	{"engine", []string{"engine"}, "a state machine is a pure function of its log"},
	{"wal", []string{"wal"}, "a log knows nothing of what it stores"},
	{"cluster", []string{"cluster", "wal", "engine"}, "cmd → cluster → {wal, engine}"},
	{"server", []string{"server", "engine", "sdk"}, "cmd hands the server what it needs of the cluster"},
	{
		"bench/load/peer",
		[]string{"bench/load", "bench/limits", "cluster/segments", "engine", "server"},
		"the floor is made of what is best of the product, other peers know nothing of it",
	},
	{"bench/load", []string{"bench/load", "bench/faultnet", "bench/ports", "sdk"}, "it measures over HTTP, as a user would"},
	{"bench/faultfs", []string{"bench/faultfs", "wal"}, "tests of the log import it"},
	{"bench/enginetest", []string{"bench/enginetest", "engine"}, "tests of the engine import it"},
	{"examples", []string{"examples", "sdk"}, "an example must build with the client alone"},

	{
		"cmd/tollgate/cli",
		[]string{"cmd/tollgate/cli", "cmd/tollgate/devdata", "engine/decimal", "sdk"},
		"its commands go through the APIs of a cluster",
	},
	{"cmd/tollgate/replay", []string{"cmd/tollgate", "sdk"}, "it speaks HTTP"},
	{"sdk", nil, "programs of users import it, which need nothing else of ours"},
	{"cmd/tollgate/trace", nil, "a trace is a file"},
}

// kit lists the HTTP packages that every API uses, kitNeeds the project's packages they import.
var (
	kit      = []string{"server", "server/ascii", "server/form", "server/scan"}
	kitNeeds = append([]string{"engine", "engine/decimal", "engine/fair", "engine/schema", "engine/uuid"}, kit...)
)

// apis are the packages of the three HTTP APIs.
var apis = []string{"server/admin", "server/client", "server/workspaceapi"}

// TestEveryModuleIsTested: what the main module does not need has a module of its own, which `make test`
// covers.
func TestEveryModuleIsTested(t *testing.T) {
	nested := strings.Fields(makeVariable(t, "NESTED"))
	var found []string
	eachFile(t, func(path string, text []byte) {
		if folder, ok := strings.CutSuffix(path, "/go.mod"); ok {
			found = append(found, folder)
			require.True(t, strings.Contains(string(text), "module tollgate/"+folder+"\n"), path)
		}
	})
	require.Equal(t, nested, found)
	require.Subset(t, nested, programModules)
}

// foreign are modules that only nested modules need.
var foreign = regexp.MustCompile(`(?m)^\t(github.com/(redis|jackc|HdrHistogram|compose-spec)/|` +
	`github.com/hashicorp/(terraform-|go-plugin |yamux )|` +
	`github.com/prometheus/prometheus|go.etcd.io/etcd/|go.uber.org/zap|(sigs.)?k8s.io/|helm.sh/).*`)

// TestServerDownloadsNothingForeign: the main module does not name what the comparison and the
// checks of deploy/ need, so building the server downloads none of it.
func TestServerDownloadsNothingForeign(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	require.Contains(t, string(text), "\tgithub.com/hashicorp/raft ")
	require.Empty(t, foreign.FindAllString(string(text), -1))
	for _, module := range strings.Fields(makeVariable(t, "NESTED")) {
		text, err = os.ReadFile(filepath.Join(root, module, "go.mod"))
		require.NoError(t, err)
		require.NotEmpty(t, foreign.FindAllString(string(text), -1), module)
	}
}

// TestClientNeedsTheStandardLibraryAlone: a program that imports sdk downloads nothing else.
func TestClientNeedsTheStandardLibraryAlone(t *testing.T) {
	var offenders []string
	for _, s := range sources(t) {
		if s.test || !within(s.folder, "sdk") {
			continue
		}
		for _, spec := range s.file.Imports {
			if name, _, _ := strings.Cut(spec.Path.Value, "/"); strings.Contains(name, ".") {
				offenders = append(offenders, s.at(spec.Pos())+" imports "+spec.Path.Value)
			}
		}
	}
	report(t, "sdk imports the standard library alone", offenders)
}

func TestImportsGoOneWay(t *testing.T) {
	var offenders []string
	for _, s := range sources(t) {
		for _, spec := range s.file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			ours, isOurs := strings.CutPrefix(path, "tollgate/")
			if !isOurs {
				continue
			}
			if reason := forbidden(s, ours); reason != "" {
				offenders = append(offenders, fmt.Sprintf("%s imports %s: %s", s.at(spec.Pos()), ours, reason))
			}
		}
	}
	report(t, "imports go one way", offenders)
}

func forbidden(s source, path string) string {
	if strings.HasSuffix(s.file.Name.Name, "_test") && path == s.folder {
		return ""
	}
	if within(s.folder, "engine/billing") && within(path, "engine/workspace") ||
		within(s.folder, "engine/workspace") && within(path, "engine/billing") {
		return "billing and workspace never import each other"
	}
	switch {
	case s.test && within(path, "bench", "examples"):
		return ""
	case within(path, "bench") && !within(s.folder, "bench"):
		return "only tests import a harness"
	case within(path, "examples") && path != "examples" && !within(s.folder, "examples", "cmd/tollgate/dev"):
		return "of the product, tollgate dev alone serves examples; their texts are anybody's"
	case within(s.folder, "cmd/tollgate/daemon") && !s.test &&
		within(path, "cmd/tollgate/cli", "cmd/tollgate/local", "cmd/tollgate/dev"):
		return "a node knows nothing of commands"
	case !s.test && slices.Contains(apis, path) && within(s.folder, "server") &&
		!within(s.folder, "server/console"):
		return "no API imports another; of the server, pages alone call one"
	case !s.test && within(s.folder, "server/console") &&
		(path == "engine/wire" || path == "server/billinglog"):
		return "pages change by rows of the APIs, and write no command"
	case !s.test && slices.Contains(kit, s.folder) && !slices.Contains(kitNeeds, path):
		return "the HTTP kit knows no domain"
	}
	for _, rule := range imports {
		if !within(s.folder, rule.folder) {
			continue
		}
		if within(path, rule.ours...) {
			return ""
		}
		return rule.why
	}
	return ""
}

// TestTheAuditorSharesNoCodeWithIssuing: it reads what the records say, and calls nothing that
// decides what an invoice is.
func TestTheAuditorSharesNoCodeWithIssuing(t *testing.T) {
	const billing = "engine/billing/internal"
	var offenders []string
	calls := 0
	for _, p := range checkedPackages(t) {
		if p.folder != billing+"/auditor" {
			continue
		}
		for name, used := range p.info.Uses {
			f, called := used.(*types.Func)
			if !called || f.Pkg() == nil {
				continue
			}
			calls++
			folder := strings.TrimPrefix(f.Pkg().Path(), "tollgate/")
			if within(folder, "engine/billing") &&
				!within(folder, p.folder, billing+"/catalogs", billing+"/sums") {
				offenders = append(offenders, p.files[0].at(name.Pos())+" calls "+f.FullName())
			}
		}
	}
	require.NotZero(t, calls, "the test must find the auditor")
	report(t, "the auditor calls no code of billing but the catalog's", offenders)
}

// engineForbidden are packages that the engine has no use for.
var engineForbidden = map[string]string{
	"time":         "a clock: time is in the entry",
	"math/rand":    "randomness: ids are in the entry",
	"math/rand/v2": "randomness: ids are in the entry",
	"crypto/rand":  "randomness: ids are in the entry",
	"os":           "I/O and the environment",
	"net":          "I/O",
	"net/http":     "I/O",
	"syscall":      "I/O",
	"log":          "I/O",
	"log/slog":     "I/O",
}

func TestEngineIsAPureFunctionOfItsLog(t *testing.T) {
	var offenders []string
	for _, p := range checkedPackages(t) {
		if !within(p.folder, "engine") {
			continue
		}
		for _, s := range p.files {
			for _, spec := range s.file.Imports {
				if why := engineForbidden[strings.Trim(spec.Path.Value, `"`)]; why != "" {
					offenders = append(offenders, s.at(spec.Pos())+" imports "+why)
				}
			}
			offenders = append(offenders, impure(s, p.info.TypeOf)...)
		}
	}
	report(t, "the engine reads no clock, draws nothing, does no I/O, starts no goroutine, "+
		"uses no float, and ranges over no map in its order (say `// any order:` and why, where the "+
		"order cannot show)", offenders)
}

func impure(s source, ranged func(ast.Expr) types.Type) (offenders []string) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			offenders = append(offenders, s.at(n.Pos())+" starts a goroutine")
		case *ast.Ident:
			if n.Name == "float64" || n.Name == "float32" {
				offenders = append(offenders, s.at(n.Pos())+" uses a float")
			}
		case *ast.RangeStmt:
			_, overMap := ranged(n.X).Underlying().(*types.Map)
			if overMap && !s.says(n.Pos(), "any order:") {
				offenders = append(offenders, s.at(n.Pos())+" ranges over a map")
			}
		}
		return true
	})
	return offenders
}

func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// says tells whether the line of a position, or the one above it, holds a comment with the words.
func (s source) says(p token.Pos, words string) bool {
	line := s.set.Position(p).Line
	for _, text := range s.lines[max(0, line-2):line] {
		if _, comment, ok := strings.Cut(text, "//"); ok && strings.Contains(comment, words) {
			return true
		}
	}
	return false
}

const (
	functionLines = 100 // the habit is 70
	fileLines     = 800 // the habit is 500
	testLines     = 1000
	columns       = 100
	designBytes   = 20_000 // a page is 4,000
	designColumns = 120
)

func TestNothingGetsTooLong(t *testing.T) {
	var offenders []string
	for _, s := range sources(t) {
		if isGenerated(s.path) {
			continue
		}
		limit := fileLines
		if s.test {
			limit = testLines
		}
		if len(s.lines) > limit {
			offenders = append(offenders, fmt.Sprintf("%s has %d lines, %d are the most", s.path, len(s.lines), limit))
		}
		for i, line := range s.lines {
			if width(line) > columns && !mayBeWide(s, line) {
				offenders = append(offenders, fmt.Sprintf("%s:%d has %d columns", s.path, i+1, width(line)))
			}
		}
		if s.test {
			continue
		}
		for _, declaration := range s.file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok {
				if lines := s.length(f); lines > functionLines {
					offenders = append(offenders, fmt.Sprintf("%s: %s has %d lines", s.at(f.Pos()), f.Name.Name, lines))
				}
			}
		}
	}
	report(t, "files, functions and lines stay short", offenders)
}

// isGenerated tells files that cmd/generate writes: they may be long and wide, and do not
// count as written by hand.
func isGenerated(path string) bool { return strings.HasSuffix(path, "_gen.go") }

// length counts a function's lines. A table that it ends by returning counts as one.
func (s source) length(f *ast.FuncDecl) int {
	end := f.End()
	if f.Body != nil && len(f.Body.List) > 0 {
		last, ok := f.Body.List[len(f.Body.List)-1].(*ast.ReturnStmt)
		if ok && len(last.Results) == 1 {
			if _, table := last.Results[0].(*ast.CompositeLit); table {
				end = last.Pos()
			}
		}
	}
	return s.set.Position(end).Line - s.set.Position(f.Pos()).Line + 1
}

// width counts characters; a tab is one, as everybody shows it in a width of their own.
func width(line string) int { return utf8.RuneCountInString(line) }

// mayBeWide is true of what cannot be broken: rows of tables, struct tags, and lines whose one long
// string is what they are about.
func mayBeWide(s source, line string) bool {
	trimmed := strings.TrimSpace(line)
	row := strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, `"`) || strings.HasPrefix(trimmed, "engine.")
	tag := strings.HasSuffix(trimmed, "`")
	return row || tag || strings.Contains(trimmed, "://") || (s.test && strings.Count(trimmed, `"`) >= 2) ||
		strings.HasPrefix(trimmed, "-d '")
}

var bannedPackages = []string{"util", "utils", "common", "helper", "helpers", "manager", "misc", "shared"}

func TestNamesAreWordsOfTheField(t *testing.T) {
	var offenders []string
	for _, s := range sources(t) {
		for _, banned := range bannedPackages {
			base := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(s.path), ".go"), "_test")
			if s.file.Name.Name == banned || base == banned {
				offenders = append(offenders, s.path+": a name that says nothing")
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if getter.MatchString(n.Name.Name) && !foreignGetters[n.Name.Name] {
					offenders = append(offenders, s.at(n.Pos())+": "+n.Name.Name)
				}
			case *ast.TypeSpec:
				if vague.MatchString(n.Name.Name) {
					offenders = append(offenders, s.at(n.Pos())+": "+n.Name.Name)
				}
			}
			return true
		})
	}
	report(t, "names are words of the field, without Get, Manager, Helper, Util", offenders)
}

var (
	getter = regexp.MustCompile(`^Get[A-Z]`)
	vague  = regexp.MustCompile(`(Manager|Helper|Utils?|Common)$`)
	// foreignGetters are methods of raft's interfaces.
	foreignGetters = map[string]bool{"GetLog": true, "Get": true, "GetUint64": true}
)

// designed are the folders whose reasons are written down.
var designed = []string{
	"engine", "engine/billing", "engine/billing/internal/accounts", "engine/billing/internal/auditor",
	"engine/billing/internal/book", "engine/billing/internal/catalogs",
	"engine/billing/internal/credits", "engine/billing/internal/holds", "engine/billing/internal/lifecycle",
	"engine/billing/internal/outbox", "engine/decimal",
	"engine/price", "engine/workspace", "wal", "cluster", "server", "server/billinglog",
	"server/billingview", "server/console", "server/console/manual", "server/console/page", "server/inspect",
	"server/inspect/fill", "bench", "bench/load", "bench/torture", "cmd/generate", "cmd/tollgate",
}

func TestDesignsAreWrittenDownAndShort(t *testing.T) {
	for _, folder := range designed {
		text, err := os.ReadFile(filepath.Join(root, folder, "DESIGN.md"))
		require.NoError(t, err, "%s needs a DESIGN.md", folder)
		require.Greater(t, strings.Count(string(text), "\n"), 10, "%s/DESIGN.md", folder)
	}
	var offenders []string
	found := 0
	eachFile(t, func(path string, text []byte) {
		if filepath.Base(path) != "DESIGN.md" {
			return
		}
		found++
		if len(text) > designBytes {
			offenders = append(offenders, fmt.Sprintf("%s has %d bytes", path, len(text)))
		}
		for i, line := range strings.Split(string(text), "\n") {
			if width(line) > designColumns && !strings.HasPrefix(line, "|") && !strings.Contains(line, "://") {
				offenders = append(offenders, fmt.Sprintf("%s:%d has %d columns", path, i+1, width(line)))
			}
		}
	})
	require.Greater(t, found, 60, "designs are found")
	report(t, "designs are short, and their lines are, but for tables", offenders)
}

// words that stay out of the project. They are put together here, so that this file passes.
var (
	pathOfAMachine = regexp.MustCompile(`(^|[^\w.])/(wo` + `rk|fa` + `rm|ro` + `ot|ho` + `me/\w+)/`)
	unfinished     = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\b|not yet imple` + `mented`)
	skipping       = regexp.MustCompile(`\b[tbf]\.Skip(f|Now)?\(`)
	sleeping       = regexp.MustCompile(`time\.Sle` + `ep\(`)
	bothHalves     = regexp.MustCompile(`^(<{7}|>{7}) `)
	thrownAway     = regexp.MustCompile(`^\s*_(, _)? = [\w.]+\.(Write|Sync|Close|Flush|Marshal)\w*\(`)

	// One of these is in whatever they match. Few files have any, and are looked at by lines.
	partOfThem = [][]byte{
		[]byte("/wo" + "rk/"), []byte("/fa" + "rm/"), []byte("/ro" + "ot/"), []byte("/ho" + "me/"),
		[]byte("TO" + "DO"), []byte("FIX" + "ME"), []byte("not yet imple" + "mented"),
		[]byte(".Skip"), []byte("time.Sle" + "ep("),
		[]byte("<<<<<<<"), []byte(">>>>>>>"), []byte("_ = "),
	}
)

func TestNothingIsUnfinishedSkippedOrTiedToAMachine(t *testing.T) {
	var offenders []string
	bubbles := map[string]bool{} // folders whose tests sleep in no time
	for _, s := range sources(t) {
		for _, spec := range s.file.Imports {
			if s.test && spec.Path.Value == `"testing/synctest"` {
				bubbles[s.folder] = true
			}
		}
	}
	eachFile(t, func(path string, text []byte) {
		if path == "cmd/tidy_test.go" || strings.HasSuffix(path, ".sum") ||
			!slices.ContainsFunc(partOfThem, func(part []byte) bool { return bytes.Contains(text, part) }) {
			return
		}
		lines := bufio.NewScanner(strings.NewReader(string(text)))
		lines.Buffer(nil, 1<<24)
		for n := 1; lines.Scan(); n++ {
			line := lines.Text()
			goFile := strings.HasSuffix(path, ".go")
			test := strings.HasSuffix(path, "_test.go")
			switch {
			case pathOfAMachine.MatchString(line):
				offenders = append(offenders, fmt.Sprintf("%s:%d names a path of a machine", path, n))
			case bothHalves.MatchString(line):
				offenders = append(offenders, fmt.Sprintf("%s:%d marks a conflict", path, n))
			case unfinished.MatchString(line):
				offenders = append(offenders, fmt.Sprintf("%s:%d is unfinished", path, n))
			case test && skipping.MatchString(line):
				offenders = append(offenders, fmt.Sprintf("%s:%d skips a test", path, n))
			case test && sleeping.MatchString(line) && !bubbles[filepath.ToSlash(filepath.Dir(path))]:
				offenders = append(offenders, fmt.Sprintf("%s:%d sleeps in a test", path, n))
			case goFile && !test && thrownAway.MatchString(line):
				offenders = append(offenders, fmt.Sprintf("%s:%d throws an error away", path, n))
			}
		}
		require.NoError(t, lines.Err())
	})
	report(t, "nothing unfinished, skipped, asleep or tied to one machine", offenders)
}

// known are methods whose meaning is the standard library's.
var known = map[string]bool{"Error": true, "Unwrap": true, "Is": true, "String": true}

// Exported names that other packages build on say what they are for.
func TestExportedNamesAreDocumented(t *testing.T) {
	var offenders []string
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, declaration := range s.file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && receiverExported(d) && !known[d.Name.Name] {
					offenders = append(offenders, s.at(d.Pos())+": "+d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if kind, ok := spec.(*ast.TypeSpec); ok && kind.Name.IsExported() &&
						d.Doc == nil && kind.Doc == nil {
						offenders = append(offenders, s.at(kind.Pos())+": "+kind.Name.Name)
					}
				}
			}
		}
	}
	report(t, "exported functions, methods and types have a doc comment", offenders)
}

func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	kind := d.Recv.List[0].Type
	if star, ok := kind.(*ast.StarExpr); ok {
		kind = star.X
	}
	if index, ok := kind.(*ast.IndexExpr); ok {
		kind = index.X
	}
	return ast.IsExported(lastName(kind))
}
