//go:build long

package billing_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mistakes are statements of the file that issues invoices, each with an expression that is right
// and one that makes wrong lines.
var mistakes = []struct{ what, statement, right, wrong string }{
	{"tiers begin empty", "begin := %s", "m.Invoiced", "decimal.Decimal{}"},
	{"a price has a digit more", "unit.MulRound(f.Ratio, %s)", "v.Places", "v.Places+1"},
	{"credit is not used up", "used), %s", "sums.Difference(credit, used)", "credit"},
	{"late usage is not told apart", "Kind: %s, FeatureKey", "kind", "book.LineUsage"},
}

// TestAMistakeInIssuingIsFound: verifying shares no code with issuing, so it finds what issuing
// does wrong, not only what was changed afterwards. The tests are built once, with all mistakes;
// the environment chooses one. That compiles this package anew, so `make test-long` does it.
func TestAMistakeInIssuingIsFound(t *testing.T) {
	file, err := filepath.Abs("internal/lifecycle/draft.go")
	require.NoError(t, err)
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	text := strings.Replace(string(source), "import (", "import (\n\t\"os\"", 1) + `
func either[T any](what string, right, wrong T) T {
	if os.Getenv("MISTAKE") == what {
		return wrong
	}
	return right
}
`
	for _, m := range mistakes {
		right := fmt.Sprintf(m.statement, m.right)
		require.Equal(t, 1, strings.Count(text, right), m.what)
		text = strings.Replace(text, right,
			fmt.Sprintf(m.statement, fmt.Sprintf("either(%q, %s, %s)", m.what, m.right, m.wrong)), 1)
	}
	folder := t.TempDir()
	mistaken, overlay := filepath.Join(folder, "draft.go"), filepath.Join(folder, "overlay.json")
	require.NoError(t, os.WriteFile(mistaken, []byte(text), 0o600))
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{file: mistaken}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, replace, 0o600))
	program := filepath.Join(folder, "billing.test")
	out, err := exec.CommandContext(t.Context(),
		"go", "test", "-c", "-overlay", overlay, "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	run := func(mistake string) (string, error) {
		c := exec.CommandContext(t.Context(), program, "-test.run",
			"^(TestExplainCountsEventsAndCosts|TestACounterThatIsChangedByHandIsFound)$")
		c.Env = append(os.Environ(), "MISTAKE="+mistake)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	said, err := run("none")
	require.NoError(t, err, said)
	for _, m := range mistakes {
		said, err := run(m.what)
		require.Error(t, err, "%s: nothing is found", m.what)
		require.Contains(t, said, "the journal makes", m.what)
	}
}
