package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheReferenceIsThatOfTheProgram(t *testing.T) {
	written, err := os.ReadFile("../../docs/cli.md")
	require.NoError(t, err)
	made, code := alone("man", "--markdown")
	require.Zero(t, code)
	require.True(t, string(written) == made,
		"docs/cli.md is stale: go run ./cmd/tollgate man --markdown > docs/cli.md")
	man, code := alone("man")
	require.Zero(t, code)
	require.Contains(t, man, ".SS catalog diff <file>\n")
	require.Contains(t, man, ".TP\n.B \\-\\-exit\\-code\n")
	for _, line := range strings.Split(man, "\n") {
		require.NotRegexp(t, `^\.[^A-Z]|^'`, line, "a text that reads as a request")
	}
}

func TestCompletion(t *testing.T) {
	complete := func(words ...string) string {
		out, code := alone(append([]string{"__complete"}, words...)...)
		require.Zero(t, code)
		var found []string
		for line := range strings.Lines(out) {
			word, _, _ := strings.Cut(line, "\t")
			found = append(found, word)
		}
		return strings.Join(found, " ")
	}
	contextsOf(t)
	_, set := alone("context", "set", "prod", "--ops", "10.0.0.1:9080")
	require.Zero(t, set)
	for line, want := range map[string]string{
		"cat":                              "catalog",
		"help custom":                      "customers",
		"invoices v":                       "verify void",
		"catalog diff --ex":                "--exit-code",
		"customers list --env ":            "sandbox live",
		"customers list --env=l":           "--env=live",
		"customers list --env = l":         "live",
		"customers list --env =":           "sandbox live",
		"customers list --account env --l": "--limit",
		"payments set s":                   "sandbox stripe",
		"context use ":                     "prod dev",
		"customers list --context p":       "prod",
		"ready --context=d":                "--context=dev",
		"catalog diff ":                    "",
		"customers show acme ":             "",
		"nonsense ":                        "",
		"completion ":                      "bash zsh fish",
	} {
		require.Equal(t, want, complete(strings.Split(line, " ")...), line)
	}
	require.Contains(t, complete(), "doctor")
}

// TestBashAsksTheProgram: the words up to the cursor, and takes the first column of the answer.
func TestBashAsksTheProgram(t *testing.T) {
	script, code := alone("completion", "bash")
	require.Zero(t, code)
	file := filepath.Join(t.TempDir(), "completion")
	require.NoError(t, os.WriteFile(file, []byte(script), 0o600))
	out, err := exec.Command("bash", "-c", `source "$0"
		tollgate() { printf 'asked:%s\tx\n' "$*"; printf 'a b\tx\n'; }
		COMP_WORDS=(tollgate help cu later) COMP_CWORD=2
		_tollgate
		printf '%s\n' "${COMPREPLY[@]}"
		complete -p tollgate`, file).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "asked:__complete\nhelp\ncu\na b\ncomplete -o default -F _tollgate tollgate\n", string(out))
	for _, shell := range []string{"zsh", "fish"} {
		script, code := alone("completion", shell)
		require.Zero(t, code)
		require.Contains(t, script, " __complete ")
		if _, err := exec.LookPath(shell); err == nil {
			require.NoError(t, os.WriteFile(file, []byte(script), 0o600))
			out, err := exec.Command(shell, "-n", file).CombinedOutput()
			require.NoError(t, err, string(out))
		}
	}
}
