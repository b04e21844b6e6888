package billing_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStatesAreProved: each row of the page of states names a scenario that exists, and the ten
// rows of the client API's table are there.
func TestStatesAreProved(t *testing.T) {
	page, err := os.ReadFile("STATES.md")
	require.NoError(t, err)
	proof := regexp.MustCompile(`^([a-z-]+\.txt): (.+)$`)
	comments := map[string]string{}
	rows := 0
	for _, line := range strings.Split(string(page), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), "|")
		last := strings.TrimSpace(cells[len(cells)-1])
		if !strings.HasPrefix(line, "|") || last == "proof" || strings.HasPrefix(line, "|--") {
			continue
		}
		named := proof.FindStringSubmatch(last)
		require.NotNil(t, named, "the row names no scenario: %s", line)
		file, text := named[1], named[2]
		if comments[file] == "" {
			raw, err := os.ReadFile(filepath.Join("..", "testdata", file))
			require.NoError(t, err)
			comments[file] = "\n" + string(raw)
		}
		require.True(t, strings.Contains(comments[file], "\n# "+text), "%s has no %q", file, text)
		rows++
	}
	require.Equal(t, 53, rows)
	for n := range 10 {
		require.Contains(t, string(page), fmt.Sprintf("\n| %d | ", n+1))
	}
}
