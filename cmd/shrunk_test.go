package cmd_test

import (
	"cmp"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var since = flag.String("since", "", "count what commits since this one took away")

// remodelling lists the commits that changed how the server is written, those that made it longer
// (packages and types of their own) as well as those that made it shorter. Some mend a mistake on
// the way. What adds something new, as the types of sdk/go, is not among them, nor is what
// shortened code that had just been added.
//
//go:embed testdata/remodelling
var remodelling string

// TestTakenAway: the CHANGELOG says by how many lines the commits of the remodelling made the
// server shorter and longer. With the flag it prints that of all commits since that one, too (make
// counts).
func TestTakenAway(t *testing.T) {
	if git(t, "rev-parse", "--is-shallow-repository") == "true\n" {
		t.Log("this clone is shallow: the commits of the remodelling are not counted")
		return
	}
	earlier := map[string]bool{}
	for line := range strings.Lines(git(t, "log", "--abbrev=8", "--format=%h %s")) {
		earlier[line] = true
	}
	alone := []string{"--no-walk"}
	for line := range strings.Lines(remodelling) {
		require.True(t, earlier[line], "listed twice, or no commit before this one: %s", line)
		delete(earlier, line)
		name, _, _ := strings.Cut(line, " ")
		alone = append(alone, name)
	}
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	require.NoError(t, err)
	var missing []string
	for _, row := range takenAway(t, "of the remodelling", alone...) {
		if !strings.Contains(string(changelog), row+"\n") {
			missing = append(missing, row)
		}
	}
	report(t, "CHANGELOG.md has these rows", missing)
	if *since != "" {
		takenAway(t, "since "+*since, *since+"..")
	}
}

// sums are by how many lines commits made a kind of code longer, and others shorter.
type sums struct{ added, taken int }

// takenAway prints what commits took away and added, kind by kind, and returns that as rows of a
// table. Tests do not count, nor does a file that moved from one kind to another.
func takenAway(t *testing.T, which string, commitsOf ...string) (rows []string) {
	arguments := append([]string{
		"-c", "diff.algorithm=myers", "log", "--no-merges", "--numstat", "-z", "-M", "--format=%x01%h %s",
	}, commitsOf...)
	out := git(t, append(arguments, "--", "*.go")...)
	type commit struct {
		name string
		net  int
	}
	var commits []commit
	of := map[string]sums{}
	for text := range strings.SplitSeq(strings.TrimPrefix(out, "\x01"), "\x01") {
		fields := strings.Split(text, "\x00")
		net := map[string]int{}
		for i := 1; i < len(fields); i++ {
			plus, rest, found := strings.Cut(strings.TrimLeft(fields[i], "\n"), "\t")
			minus, file, _ := strings.Cut(rest, "\t")
			if !found {
				continue
			}
			from := file
			if file == "" { // it moved
				from, file = fields[i+1], fields[i+2]
				i += 2
			}
			if kind := kindOf(file); kind == kindOf(from) {
				net[kind] += number(t, plus) - number(t, minus)
			}
		}
		for kind, n := range net {
			s := of[kind]
			of[kind] = sums{added: s.added + max(0, n), taken: s.taken + max(0, -n)}
		}
		commits = append(commits, commit{name: fields[0], net: net[serverCode]})
	}
	slices.SortFunc(commits, func(a, b commit) int { return cmp.Compare(a.net, b.net) })
	for _, c := range commits[:min(20, len(commits))] {
		t.Logf("%6d %s", c.net, c.name)
	}
	rows = []string{fmt.Sprintf("| %s commits %s | shorter by | longer by | together |",
		thousands(len(commits)), which)}
	for _, kind := range []string{serverCode, generatorCode, generatedCode} {
		s := of[kind]
		together := "+" + thousands(s.added-s.taken)
		if s.taken > s.added {
			together = "−" + thousands(s.taken-s.added)
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |",
			kind, thousands(s.taken), thousands(s.added), together))
	}
	t.Log("\n" + strings.Join(rows, "\n"))
	return rows
}

// The kinds of code that are counted.
const (
	serverCode    = "the server by hand"
	generatorCode = "cmd/generate by hand"
	generatedCode = "generated"
)

// kindOf returns the kind of a file's code, "" for what is not counted.
func kindOf(file string) string {
	folder := path.Dir(file)
	switch {
	case !strings.HasSuffix(file, ".go"), strings.HasSuffix(file, "_test.go"),
		strings.Contains(file, "/testdata/"), within(folder, "bench", "examples", "deploy"):
		return ""
	case isGenerated(file):
		return generatedCode
	case within(folder, "cmd/generate"):
		return generatorCode
	}
	return serverCode
}

// git returns what git prints about the history.
func git(t *testing.T, arguments ...string) string {
	command := exec.Command("git", arguments...)
	command.Dir = root
	out, err := command.Output()
	require.NoError(t, err, "git %v", arguments)
	return string(out)
}

func number(t *testing.T, text string) int {
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// thousands writes a number as documents do: 1,234.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
