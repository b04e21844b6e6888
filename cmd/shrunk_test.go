package cmd_test

import (
	"cmp"
	_ "embed"
	"flag"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var since = flag.String("since", "", "count what commits since this one took away")

// remodelling lists the commits that changed how the server is written and not what it does, those
// that made it longer (packages and types of their own) as well as those that made it shorter. What
// shortened code that is newer than the remodelling is not among them.
//
//go:embed testdata/remodelling
var remodelling string

// TestTakenAway prints by how many lines the commits since that of the flag made the server's code
// shorter, and by how many those of the remodelling alone (make counts). Tests and generated code
// do not count, nor does a file that moved between the server and what is not of it.
func TestTakenAway(t *testing.T) {
	if *since == "" {
		return
	}
	takenAway(t, "since "+*since, *since+"..")
	alone := []string{"--no-walk"}
	for line := range strings.Lines(remodelling) {
		name, _, _ := strings.Cut(line, " ")
		alone = append(alone, name)
	}
	takenAway(t, "of the remodelling alone", alone...)
}

func takenAway(t *testing.T, which string, commitsOf ...string) {
	arguments := append([]string{
		"log", "--no-merges", "--numstat", "-z", "-M", "--format=%x01%h %s",
	}, commitsOf...)
	command := exec.Command("git", append(arguments, "--", "*.go")...)
	command.Dir = root
	out, err := command.Output()
	require.NoError(t, err)
	type commit struct {
		name string
		net  int
	}
	var commits []commit
	taken, added := 0, 0
	for text := range strings.SplitSeq(strings.TrimPrefix(string(out), "\x01"), "\x01") {
		fields := strings.Split(text, "\x00")
		c := commit{name: fields[0]}
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
			if ofServer(from) && ofServer(file) {
				c.net += number(t, plus) - number(t, minus)
			}
		}
		added, taken = added+max(0, c.net), taken+max(0, -c.net)
		commits = append(commits, c)
	}
	slices.SortFunc(commits, func(a, b commit) int { return cmp.Compare(a.net, b.net) })
	for _, c := range commits[:min(20, len(commits))] {
		t.Logf("%6d %s", c.net, c.name)
	}
	t.Logf("%d commits %s: those that made the server shorter took away %d lines, the others added %d",
		len(commits), which, taken, added)
}

// ofServer reports whether a file is code of the server that is written by hand.
func ofServer(file string) bool {
	return strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") &&
		!strings.HasSuffix(file, "_gen.go") && !strings.Contains(file, "/testdata/") &&
		!within(path.Dir(file), "bench", "examples", "deploy", "cmd/generate")
}

func number(t *testing.T, text string) int {
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}
