package clustertest

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pasted is a block of sh of a document, with the JSON that the document shows as its answer.
type pasted struct {
	line          int
	block, answer string
}

// blocks are the blocks of sh of a document, in order.
func blocks(text string) (found []pasted) {
	kind, begun := "", 0
	var body strings.Builder
	for n, line := range strings.Split(text, "\n") {
		switch fence, ok := strings.CutPrefix(line, "```"); {
		case ok && kind == "":
			kind, begun = fence, n+1
			body.Reset()
		case ok && kind == "sh":
			found = append(found, pasted{line: begun, block: body.String()})
			kind = ""
		case ok:
			if kind == "json" && len(found) > 0 {
				found[len(found)-1].answer = body.String()
			}
			kind = ""
		default:
			body.WriteString(line + "\n")
		}
	}
	return found
}

// leaves are the members of a JSON value that have no members themselves, as an answer has them.
func leaves(v any, add func(string)) {
	object, _ := v.(map[string]any)
	for name, member := range object {
		if _, deeper := member.(map[string]any); deeper {
			leaves(member, add)
			continue
		}
		text, err := json.Marshal(member)
		if err != nil {
			panic(err)
		}
		add(fmt.Sprintf("%q:%s", name, text))
	}
}

// TestEveryBlockOfTheDocumentsIsPasted into a shell, page by page and in order, in a folder that
// has what a reader's has; each answer that a page shows is what the last command printed.
func TestEveryBlockOfTheDocumentsIsPasted(t *testing.T) {
	t.Parallel()
	d := startCluster(t)
	home := t.TempDir()
	for name, target := range map[string]string{
		".tollgate": string(d.folder), "bin/tollgate": d.binary, "examples": "../../examples",
	} {
		target, err := filepath.Abs(target)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o700))
		require.NoError(t, os.Symlink(target, filepath.Join(home, name)))
	}
	const mark = "\n---- block ----\n"
	count := 0
	paste := func(page string) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		all := blocks(string(text))
		var script strings.Builder
		script.WriteString("set -eu -o pipefail\n")
		for i := range all {
			script.WriteString(all[i].block + "printf '" + strings.ReplaceAll(mark, "\n", `\n`) + "'\n")
		}
		command := exec.CommandContext(t.Context(), "bash", "-c",
			strings.ReplaceAll(script.String(), "127.0.0.1:8080", d.Nodes[0].HTTP))
		command.Dir = home
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s:\n%s", page, out)
		printed := strings.Split(string(out), mark)
		for i := range all {
			count++
			if all[i].answer == "" {
				continue
			}
			var shown any
			require.NoError(t, json.Unmarshal([]byte(all[i].answer), &shown), "%s:%d", page, all[i].line)
			leaves(shown, func(member string) {
				require.Contains(t, printed[i], member, "%s:%d", page, all[i].line)
			})
		}
	}
	for _, folder := range []string{"concepts", "guides"} {
		require.NoError(t, filepath.WalkDir("../../docs/"+folder, func(
			path string, entry fs.DirEntry, err error,
		) error {
			if err == nil && !entry.IsDir() {
				paste(path)
			}
			return err
		}))
	}
	paste("../../docs/quickstart.md")
	require.Greater(t, count, 25, "the test must find the blocks")
}
