package daemon

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryCauseIsDocumented: the operator's handbook says of each cause of not being ready what it
// means and what to do, and of nothing else.
func TestEveryCauseIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../cluster/OPERATIONS.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "\n| cause and words | means | do |\n|---|---|---|\n")
	require.True(t, found, "the test must find the table")
	table, _, _ = strings.Cut(table, "\n\n")
	var documented []string
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		require.Len(t, cells, 5, row)
		require.NotEmpty(t, strings.TrimSpace(cells[2]), row)
		require.NotEmpty(t, strings.TrimSpace(cells[3]), row)
		documented = append(documented, strings.Split(cells[1], "`")[1])
	}
	require.Equal(t, clusterView{}.Causes(), documented)
}

// TestProfilesAreOnTheOperationsListenerOnly, and there for the operator only.
func TestProfilesAreOnTheOperationsListenerOnly(t *testing.T) {
	n := startNodes(t, 1)
	one := n.all[0].settings
	for _, path := range []string{"/debug/pprof", "/debug/pprof/goroutine?debug=1"} {
		status, text := n.get(one.Ops, path)
		require.Equal(t, 200, status, text)
		for _, elsewhere := range []string{path, "/api/v1/client" + path, "/v1" + path} {
			status, text = n.get(one.HTTP, elsewhere)
			require.Equal(t, 404, status, text)
		}
	}
	for _, path := range []string{"/metrics", "/readyz", "/leader", "/healthz", "/api/v1/admin/cluster"} {
		status, text := n.get(one.HTTP, path)
		require.Equal(t, 404, status, text)
	}
	n.key = "another"
	status, text := n.get(one.Ops, "/debug/pprof")
	require.Equal(t, 401, status, text)
}
