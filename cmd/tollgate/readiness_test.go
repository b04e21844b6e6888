package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryCauseIsDocumented: the operator's handbook says of each cause of not being ready what it
// means and what to do, and of nothing else.
func TestEveryCauseIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../cluster/OPERATIONS.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "\n| cause | means | do |\n|---|---|---|\n")
	require.True(t, found, "the test must find the table")
	table, _, _ = strings.Cut(table, "\n\n")
	var documented []string
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		require.Len(t, cells, 5, row)
		require.NotEmpty(t, strings.TrimSpace(cells[2]), row)
		require.NotEmpty(t, strings.TrimSpace(cells[3]), row)
		documented = append(documented, strings.Trim(cells[1], " `"))
	}
	require.Equal(t, clusterView{}.Causes(), documented)
}
