package cmd_test

import (
	"fmt"
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRaceRunsWhereGoroutinesMeet: a race needs two goroutines. `make race` leaves out packages
// that start none, and of the state machines, which start none, the tests whose file starts none.
func TestRaceRunsWhereGoroutinesMeet(t *testing.T) {
	folders := map[string][]source{}
	for _, s := range sources(t) {
		folders[s.folder] = append(folders[s.folder], s)
	}
	single := strings.Fields(makeVariable(t, "SINGLE"))
	machines := strings.Fields(makeVariable(t, "MACHINES"))
	covered := append(strings.Fields(makeVariable(t, "CONCURRENT")), machines...)
	require.NotEmpty(t, single)
	require.NotEmpty(t, machines)
	// What the Makefile looks for in a file.
	meeting := regexp.MustCompile(`\bgo func|\.Go\(|enginetest\.Replayed\(`)
	require.Contains(t, makeVariable(t, "MEETING"), meeting.String())
	var offenders []string
	for name := range starters(folders["bench/enginetest"]) { // of which tests make use
		call := "enginetest." + name + "("
		for _, machine := range machines {
			for _, s := range folders[strings.TrimPrefix(machine, "./")] {
				if !meeting.MatchString(call) && strings.Contains(strings.Join(s.lines, "\n"), call) {
					offenders = append(offenders, s.path+": MEETING does not look for "+call)
				}
			}
		}
	}
	tests := 0
	for folder, files := range folders {
		started := starters(files)
		if slices.Contains(single, "tollgate/"+folder) && len(started) > 0 {
			offenders = append(offenders, folder+" starts goroutines: it is not SINGLE")
		}
		if !within(folder, "engine") {
			continue
		}
		for name, file := range started {
			if !strings.HasPrefix(name, "Test") {
				continue
			}
			tests++
			if !slices.Contains(covered, "./"+folder) {
				offenders = append(offenders, folder+": "+name+" belongs into CONCURRENT or MACHINES")
			}
			text := strings.Join(file.lines, "\n")
			if slices.Contains(machines, "./"+folder) && !meeting.MatchString(text) {
				offenders = append(offenders, file.path+": "+name+" starts a goroutine of another file")
			}
		}
	}
	offenders = append(offenders, promised(t, folders)...)
	offenders = append(offenders, repeating(t, folders)...)
	offenders = append(offenders, varying(t, folders)...)
	require.Greater(t, tests, 10, "the test must find what it looks for")
	report(t, "the race detector runs where goroutines meet", offenders)
}

// safe finds the promise of a type to be safe for concurrent use.
var safe = regexp.MustCompile(`(?i)(not )?safe\s+for\s+(//\s+)?concurrent\s+use`)

// promised says which folders of the product promise that and are not CONCURRENT. One that starts
// no goroutine of its own is SINGLE: the tests of those that use it, in CONCURRENT, run its code.
func promised(t *testing.T, folders map[string][]source) (offenders []string) {
	t.Helper()
	found := 0
	for folder, files := range folders {
		for _, s := range files {
			if s.test || within(folder, "bench") {
				continue
			}
			promise := safe.FindStringSubmatch(strings.Join(s.lines, "\n"))
			if promise == nil || promise[1] != "" {
				continue
			}
			found++
			single := slices.Contains(strings.Fields(makeVariable(t, "SINGLE")), "tollgate/"+folder)
			if !single && folder != "engine" && !raced(t, folder) {
				offenders = append(offenders, s.path+": "+folder+" belongs into CONCURRENT")
			}
		}
	}
	require.Greater(t, found, 20, "the test must find what it looks for")
	return offenders
}

// repeating says which tests that `make race` leaves out do not exist, or start goroutines.
func repeating(t *testing.T, folders map[string][]source) (offenders []string) {
	names := strings.Fields(makeVariable(t, "REPEATING"))
	found := map[string]bool{}
	for _, files := range folders {
		started := starters(files)
		for _, s := range files {
			for _, declaration := range s.file.Decls {
				f, ok := declaration.(*ast.FuncDecl)
				if !ok || !slices.Contains(names, f.Name.Name) {
					continue
				}
				found[f.Name.Name] = true
				if _, starts := started[f.Name.Name]; starts {
					offenders = append(offenders, s.path+": "+f.Name.Name+
						" starts goroutines: it is not REPEATING")
				}
			}
		}
	}
	for _, name := range names {
		if !found[name] {
			offenders = append(offenders, "Makefile: REPEATING: there is no "+name)
		}
	}
	return offenders
}

// varying says which tests that `make race` leaves out have none in their folder that it runs in
// their place.
func varying(t *testing.T, folders map[string][]source) (offenders []string) {
	left, instead := strings.Fields(makeVariable(t, "REPEATING")), map[string][]string{}
	for pair := range strings.FieldsSeq(makeVariable(t, "VARYING") + " " + makeVariable(t, "WALKING")) {
		one, other, _ := strings.Cut(pair, "=")
		instead[one] = append(instead[one], other)
		left = append(left, one)
	}
	used := map[string]bool{}
	for folder, files := range folders {
		if !raced(t, folder) {
			continue
		}
		tests := testsOf(files)
		for one, others := range instead {
			if !tests[one] {
				continue
			}
			i := slices.IndexFunc(others, func(other string) bool {
				return tests[other] && !slices.Contains(left, other)
			})
			if i < 0 {
				offenders = append(offenders, fmt.Sprintf(
					"Makefile: %s: instead of %s none of %s runs", folder, one, others))
				continue
			}
			used[one+"="+others[i]] = true
		}
	}
	for one, others := range instead {
		for _, other := range others {
			if !used[one+"="+other] {
				offenders = append(offenders, "Makefile: "+one+"="+other+" is of no folder")
			}
		}
	}
	return offenders
}

// raced reports whether the race detector runs over the tests of a folder.
func raced(t *testing.T, folder string) bool {
	t.Helper()
	if slices.Contains(strings.Fields(makeVariable(t, "SINGLE")), "tollgate/"+folder) {
		return false
	}
	covered := makeVariable(t, "CONCURRENT") + " " + makeVariable(t, "MACHINES")
	return slices.ContainsFunc(strings.Fields(covered), func(pattern string) bool {
		at, below := strings.CutSuffix(strings.TrimPrefix(pattern, "./"), "/...")
		return folder == at || below && within(folder, at)
	})
}

// testsOf are the functions in the test files of a folder.
func testsOf(files []source) map[string]bool {
	tests := map[string]bool{}
	for _, s := range files {
		for _, declaration := range s.file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && s.test {
				tests[f.Name.Name] = true
			}
		}
	}
	return tests
}

// makeVariable is what the Makefile gives a variable.
func makeVariable(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	joined := strings.ReplaceAll(string(text), "\\\n", "")
	found := regexp.MustCompile(`(?m)^` + name + ` :?= (.*)$`).FindStringSubmatch(joined)
	require.NotNil(t, found, name)
	return strings.ReplaceAll(found[1], "$$", "$")
}

// starters are the functions of a package and its tests that start a goroutine, or call one that
// does, with the file of each. Benchmarks start some, too, and do not count.
func starters(files []source) map[string]source {
	type function struct {
		source
		calls []string
	}
	functions := map[string]function{}
	started := map[string]source{}
	for _, s := range files {
		for _, declaration := range s.file.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if !ok || strings.HasPrefix(f.Name.Name, "Benchmark") {
				continue
			}
			if startsGoroutine(f) {
				started[f.Name.Name] = s
			}
			if f.Recv == nil {
				functions[f.Name.Name] = function{s, calls(f)}
			}
		}
	}
	for grown := true; grown; {
		grown = false
		for name, f := range functions {
			for _, called := range f.calls {
				_, known := started[name]
				if _, starts := started[called]; starts && !known {
					started[name], grown = f.source, true
				}
			}
		}
	}
	return started
}

func startsGoroutine(n ast.Node) (starts bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.CallExpr:
			method, ok := n.Fun.(*ast.SelectorExpr)
			starts = starts || ok && slices.Contains(startingMethods, method.Sel.Name)
		}
		return true
	})
	return starts
}

// startingMethods start goroutines: of a group, a test, a timer, a server.
var startingMethods = []string{
	"Go", "Parallel", "AfterFunc", "NewServer", "NewTLSServer", "ListenAndServe",
}

func calls(f *ast.FuncDecl) (names []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if name, ok := call.Fun.(*ast.Ident); ok {
				names = append(names, name.Name)
			}
		}
		return true
	})
	return names
}

// TestCheckRunsTheTestsThatWereEdited: `make check` leaves out the varied tests of what changed,
// but not those that are being worked on.
func TestCheckRunsTheTestsThatWereEdited(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"a_test.go": "func TestA(t *testing.T) {\nfunc TestOther(",
		"b_test.go": "func TestB(", "c_test.go": "func TestAny(", "d.go": "func TestD(",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	for edited, want := range map[string]string{
		"": "TestA TestB", "b_test.go": "TestA", "a_test.go": "TestB", "d.go": "TestA TestB",
	} {
		command := exec.Command(filepath.Join(root, ".ci/varied"), folder)
		command.Env = append(os.Environ(), "VARIED=TestA TestB TestD",
			"EDITED="+filepath.Join(folder, "gone_test.go")+"\n"+filepath.Join(folder, edited))
		names, err := command.Output()
		require.NoError(t, err)
		require.Equal(t, want, strings.Join(strings.Fields(string(names)), " "), edited)
	}
	check, err := os.ReadFile(filepath.Join(root, ".ci/check"))
	require.NoError(t, err)
	for _, step := range []string{
		`skipped=$(EDITED=$edited "$root/.ci/varied" `, `go test -short -timeout 10m -skip "^(${skipped//`,
		`varied+=${skipped:+`, `echo "Not run here: ${varied}(make unit)"`,
	} {
		require.Contains(t, string(check), step)
	}
	commands, err := exec.Command("make", "-n", "-C", root, "check").Output()
	require.NoError(t, err)
	one, _, _ := strings.Cut(makeVariable(t, "VARYING"), "=")
	require.Regexp(t, `VARIED="[^"]*\b`+one+`\b[^"]*" PROGRAMS="[^"]+" \.ci/check`, string(commands))
}

// TestWhatDialsIsTestedAsShipped: names are resolved in another way where cgo is on.
func TestWhatDialsIsTestedAsShipped(t *testing.T) {
	dialing := strings.Fields(makeVariable(t, "DIALING"))
	require.NotEmpty(t, dialing)
	commands, err := exec.Command("make", "-n", "-C", root, "unit").Output()
	require.NoError(t, err)
	require.Contains(t, string(commands), "grep -vxF -e "+strings.Join(dialing, " -e "))
}

// TestEveryStageIsRun: `make test` runs each kind of tests, and no package is left out. What has
// deadlines runs at normal priority, in the first lane, when all is compiled.
func TestEveryStageIsRun(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	line := regexp.MustCompile(`MAKE\)" \.ci/stages ((?:.*\\\n)*.*)`).FindSubmatch(text)
	require.NotNil(t, line)
	stages := strings.ReplaceAll(string(line[1]), `\`, " ")
	require.Equal(t, `compile "processes programs modules" "compile-modules unit fuzz" `+
		`-- "compile-race format race-others race-machines race-load vet"`,
		strings.Join(strings.Fields(stages), " "))
	commands, err := exec.Command("make", "-n", "-C", root, "unit", "programs", "modules").Output()
	require.NoError(t, err)
	require.Contains(t, string(commands), "for module in "+makeVariable(t, "NESTED")+";")
	programs := makeVariable(t, "PROGRAMS")
	require.Contains(t, string(commands), "grep -vxF -e "+strings.ReplaceAll(programs, " ", " -e "))
	require.Regexp(t, `(?m)^go test .* `+programs+`$`, string(commands))
}
