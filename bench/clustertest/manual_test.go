package clustertest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// step is one thing that OPERATIONS.md tells an operator to do.
type step struct {
	chapter string
	line    int
	// hosts are the machines on which it is done, in turn; none: the operator's own.
	hosts []string
	// commands are those of a block of sh, what is in a file (file, content), or what happens to
	// machines meanwhile (event).
	commands      []string
	file, content string
	event         string
}

var (
	comment    = regexp.MustCompile(`^<!-- (.*) -->$`)
	runOn      = regexp.MustCompile(`^run on ([\d. ]+)$`)
	fileOn     = regexp.MustCompile(`^file (/\S+) on ([\d. ]+)$`)
	notRun     = regexp.MustCompile(`^not run: \S.+$`)
	isCommand  = regexp.MustCompile(`^( {4}|\t)+(tollgate|systemctl|scp) `)
	fenceBegin = regexp.MustCompile("^```(\\w*)$")
)

// manual reads a document into steps. Blocks of sh are run, where the comment above them does not
// say that they are not, and why; blocks of yaml are files where the comment above says which.
func manual(text string) (steps []step, err error) {
	chapter, about := "", ""
	lines := strings.Split(text, "\n")
	for n := 0; n < len(lines); n++ {
		line := lines[n]
		complain := func(format string, args ...any) error {
			return fmt.Errorf("line %d: %s", n+1, fmt.Sprintf(format, args...))
		}
		if found := comment.FindStringSubmatch(line); found != nil {
			if event, ok := strings.CutPrefix(found[1], "walk "); ok {
				steps = append(steps, step{chapter: chapter, line: n + 1, event: event})
				continue
			}
			if about != "" {
				return nil, complain("two comments for one block")
			}
			about = found[1]
			continue
		}
		if title, ok := strings.CutPrefix(line, "## "); ok {
			chapter = title
		}
		fence := fenceBegin.FindStringSubmatch(line)
		switch {
		case fence != nil:
			s := step{chapter: chapter, line: n + 1}
			var block []string
			for n++; n < len(lines) && lines[n] != "```"; n++ {
				block = append(block, lines[n])
			}
			run, err := s.take(fence[1], about, block)
			if err != nil {
				return nil, complain("%s", err)
			}
			if run {
				steps = append(steps, s)
			}
			about = ""
		case isCommand.MatchString(line):
			return nil, complain("a command that is in no block of sh: %q", line)
		case about != "":
			return nil, complain("a comment without a block below it: %q", about)
		}
	}
	return steps, nil
}

// take takes in a block, and reports whether there is something to do.
func (s *step) take(kind, about string, block []string) (run bool, err error) {
	switch kind {
	case "sh":
		if notRun.MatchString(about) {
			return false, nil
		}
		if found := runOn.FindStringSubmatch(about); found != nil {
			s.hosts = strings.Fields(found[1])
		} else if about != "" {
			return false, fmt.Errorf("%q: want \"run on …\" or \"not run: why\"", about)
		}
		s.commands = block
		return true, nil
	case "yaml":
		found := fileOn.FindStringSubmatch(about)
		if found == nil {
			return false, nil
		}
		s.file, s.hosts = found[1], strings.Fields(found[2])
		s.content = strings.Join(block, "\n") + "\n"
		return true, nil
	}
	return false, nil
}

// operations are the steps of OPERATIONS.md.
func operations(t *testing.T) []step {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "cluster", "OPERATIONS.md"))
	require.NoError(t, err)
	steps, err := manual(string(text))
	require.NoError(t, err, "cluster/OPERATIONS.md")
	return steps
}

// No command escapes: one in no block, or in a block of which nobody says how it is run, or why
// not.
func TestEveryCommandOfTheManualIsRunOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	steps, err := manual("## A\n```sh\none  # two\n```\n<!-- run on 10.0.0.1 10.0.0.2 -->\n```sh\nthree\n```\n" +
		"<!-- not run: it would hurt -->\n```sh\nfour\n```\n<!-- walk loses 10.0.0.2 -->\n" +
		"<!-- file /etc/x on 10.0.0.1 -->\n```yaml\na: b\n```\n```yaml\nc: d\n```\n")
	require.NoError(t, err)
	require.Equal(t, []step{
		{chapter: "A", line: 2, commands: []string{"one  # two"}},
		{chapter: "A", line: 6, commands: []string{"three"}, hosts: []string{"10.0.0.1", "10.0.0.2"}},
		{chapter: "A", line: 13, event: "loses 10.0.0.2"},
		{chapter: "A", line: 15, file: "/etc/x", content: "a: b\n", hosts: []string{"10.0.0.1"}},
	}, steps)
	for text, want := range map[string]string{
		"    tollgate cluster status":              "a command that is in no block",
		"<!-- not run: -->\n```sh\nx\n```":         "not run: why",
		"<!-- maybe -->\n```sh\nx\n```":            "not run: why",
		"<!-- run on 10.0.0.1 -->\nWords.":         "without a block",
		"<!-- run on 1 -->\n<!-- run on 2 -->\n\n": "two comments",
	} {
		_, err := manual(text)
		require.ErrorContains(t, err, want)
	}
	commands := 0
	for _, s := range operations(t) {
		commands += len(s.commands)
	}
	require.Greater(t, commands, 50, "the test must find the commands of OPERATIONS.md")
}

// ofOthers are words of the operating system and of libraries that OPERATIONS.md quotes.
var ofOthers = []string{
	"address already in use", "no such file", "private key does not match", "input/output error",
	"no space left on device",
}

var (
	quoted      = regexp.MustCompile(`\*([^*]+)\*`)
	placeholder = regexp.MustCompile(`…|\b(?:X|Y|n|10s)\b|[():]`)
	joined      = regexp.MustCompile("[\"`] \\+\\s*[\"`]")
)

// What the manual says that a node says is what it says: each quotation is in the program's source.
func TestRefusalsInTheManualAreThoseOfTheProgram(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	var source strings.Builder
	for _, folder := range []string{
		"cluster", "wal", "engine", "engine/machine", "engine/billing", "cmd/tollgate/daemon",
	} {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			source.Write(text)
		}
	}
	said := joined.ReplaceAllString(source.String(), "") + strings.Join(ofOthers, "\n")
	text, err := os.ReadFile(filepath.Join(root, "cluster", "OPERATIONS.md"))
	require.NoError(t, err)
	_, chapters, found := strings.Cut(string(text), "\n## A node that is not ready\n")
	require.True(t, found)
	chapters, _, found = strings.Cut(chapters, "\n## Clocks\n")
	require.True(t, found)
	count, unsaid := 0, []string{}
	for line := range strings.Lines(chapters) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, quotation := range quoted.FindAllStringSubmatch(cells[1], -1) {
			count++
			for _, part := range placeholder.Split(quotation[1], -1) {
				if !strings.Contains(said, strings.TrimSpace(part)) {
					unsaid = append(unsaid, quotation[1])
				}
			}
		}
	}
	require.Empty(t, unsaid, "the program says nothing of the kind")
	require.Greater(t, count, 25)
}
