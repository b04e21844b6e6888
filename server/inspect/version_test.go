package inspect_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/inspect/evaluate"
)

// TestTheVersionIsThatOfTheRules: whoever compares two documents asks generator.version whether a
// verdict is another one because the host changed or because a rule did. A rule that says something
// else of a recorded site is another version of the rules: raise evaluate.Version, then -update.
func TestTheVersionIsThatOfTheRules(t *testing.T) {
	paths, err := filepath.Glob("testdata/sites/*.txt")
	require.NoError(t, err)
	said := strings.Builder{}
	fmt.Fprintf(&said, "version %s\n", evaluate.Version)
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		d := asked(t, name, "").Document
		require.Equal(t, evaluate.Version, d.Generator.Version)
		for _, f := range d.Findings() {
			fmt.Fprintf(&said, "%s %s %s %s\n", name, f.Field, f.Verdict, f.Rule)
		}
	}
	const golden = "testdata/rules.txt"
	kept, err := os.ReadFile(golden)
	if *update && (err != nil || !strings.HasPrefix(string(kept), "version "+evaluate.Version+"\n")) {
		require.NoError(t, os.WriteFile(golden, []byte(said.String()), 0o644))
		kept, err = os.ReadFile(golden)
	}
	require.NoError(t, err)
	require.Equal(t, string(kept), said.String())
}
