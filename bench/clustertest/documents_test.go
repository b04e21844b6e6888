package clustertest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pasted is a block of sh of a document, with the JSON that the document shows as its answer. Each
// command of endless runs until it is interrupted, each of one with codes ends with one of them.
type pasted struct {
	line          int
	block, answer string
	endless       bool
	codes         string   // as a pattern of sh
	prints        []string // what the page says that the block prints
	refused       bool     // whether a request of it is refused, on purpose
}

// script is what a shell carries out.
func (p *pasted) script() string {
	run, ends := "", ""
	switch {
	case p.endless:
		run, ends = "timeout --signal=INT --kill-after=10 4 ", "124"
	case p.codes != "":
		ends = p.codes
	default:
		return p.block
	}
	var b strings.Builder
	for line := range strings.Lines(p.block) {
		if line == "\n" {
			continue
		}
		fmt.Fprintf(&b, "rc=0\n{ %s%s} || rc=$?\ncase $rc in %s) ;; *) echo \"ended with $rc\"; exit 1;; esac\n",
			run, line, ends)
	}
	return b.String()
}

// refusal is in an answer that a document shows of a refused request.
var refusal = regexp.MustCompile(`"success": ?false|"error"`)

// blocks are the blocks of sh of a document, and the indented ones, in order. A comment above says
// of some how they run: "until Ctrl-C", "exit codes 0, 6"; those of "not run: why" are left out. Of
// some it says what they print ("prints 905, 20.01"), or that a request is "refused" on purpose.
func blocks(text string) (found []pasted) {
	const indented = "    "
	kind, begun, above, about := "", 0, "", ""
	var body strings.Builder
	end := func() {
		switch {
		case kind == "json" && len(found) > 0:
			found[len(found)-1].answer = body.String()
		case kind != "sh" && kind != indented:
		case !strings.HasPrefix(about, "<!-- not run: "):
			codes, _ := strings.CutPrefix(about, "<!-- exit codes ")
			if codes == about {
				codes = ""
			}
			p := pasted{
				line: begun, block: body.String(), endless: about == "<!-- until Ctrl-C -->",
				codes:   strings.ReplaceAll(strings.TrimSuffix(codes, " -->"), ", ", "|"),
				refused: about == "<!-- refused -->",
			}
			if prints, has := strings.CutPrefix(about, "<!-- prints "); has {
				p.prints = strings.Split(strings.TrimSuffix(prints, " -->"), ", ")
			}
			found = append(found, p)
		}
		kind, about = "", ""
		body.Reset()
	}
	for n, line := range strings.Split(text, "\n") {
		command, in := strings.CutPrefix(line, indented)
		if kind == indented && !in && line != "" {
			end()
		}
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && kind != "":
			end()
		case isFence:
			kind, begun = cmp.Or(fence, "plain"), n+1
		case kind == indented:
			body.WriteString(command + "\n")
		case kind != "":
			body.WriteString(line + "\n")
		case in && above == "":
			kind, begun = indented, n+1
			body.WriteString(command + "\n")
		case line != "":
			about = line
		}
		above = line
	}
	end()
	return found
}

// notProse are the lines of a page that are comments or indented blocks.
var notProse = regexp.MustCompile(`(?m)^(<!--|    ).*\n`)

// leaves are the members of a JSON value that have no members themselves, as an answer has them.
func leaves(v any, add func(string)) {
	object, _ := v.(map[string]any)
	for name, member := range object {
		if _, deeper := member.(map[string]any); deeper {
			leaves(member, add)
			continue
		}
		if list, _ := member.([]any); len(list) > 0 {
			if _, deeper := list[0].(map[string]any); deeper {
				for _, element := range list {
					leaves(element, add)
				}
				continue
			}
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
	here := strings.NewReplacer("127.0.0.1:8080", d.Nodes[0].HTTP, "127.0.0.1:8081", d.Nodes[1].HTTP,
		"--generate 20000", "--generate 200", "https://10.0.0.1:9080", "http://"+d.Nodes[0].Ops)
	const mark = "\n---- block ----\n"
	count, compared := 0, 0
	paste := func(page string) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		all := blocks(string(text))
		prose := notProse.ReplaceAllString(string(text), "")
		var script strings.Builder
		script.WriteString("set -eu -o pipefail\n")
		for i := range all {
			script.WriteString(all[i].script() + "printf '" + strings.ReplaceAll(mark, "\n", `\n`) + "'\n")
		}
		command := exec.CommandContext(t.Context(), "bash", "-c", here.Replace(script.String()))
		command.Dir, command.Env = home, append(os.Environ(), "HOME="+home, "ADMIN_KEY="+d.AdminKey)
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s:\n%s", page, out[max(0, len(out)-2000):])
		printed := strings.Split(string(out), mark)
		for i := range all {
			count++
			for _, value := range all[i].prints {
				compared++
				require.Contains(t, printed[i], value, "%s:%d", page, all[i].line)
				require.Contains(t, prose, " "+value[strings.LastIndexByte(value, ':')+1:]+" ", page)
			}
			// curl ends with 0 whatever it is answered.
			require.Equal(t, all[i].refused || refusal.MatchString(all[i].answer),
				strings.Contains(printed[i], `"success":false`), "%s:%d:\n%s", page, all[i].line, printed[i])
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
	for _, page := range []string{"docs/quickstart.md", "README.md", "docs/commands.md", "docs/tour.md"} {
		paste("../../" + page)
	}
	require.Greater(t, count, 33, "the test must find the blocks")
	require.Positive(t, compared, "the README says what its commands print")
}
