package admin

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzYAML: a catalog is read into a tree no deeper than its bound and no larger than its text, or
// refused: nothing in a small text stands for a huge one.
func FuzzYAML(f *testing.F) {
	for _, text := range []string{
		"features:\n  - {key: a, name: \"A\"}\nplans: []\n", "a: &x [1]\nb: *x\n", "<<: {a: 1}\n",
		"? [a]\n: 1\n", "a: !!binary aGk=\n", "[[[[[[]]]]]]", "a: 1e5\nb: .5\nc: 0x1f\nd: ~\n", "--- a\n--- b\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		root, err := parseYAML(text)
		if err != nil {
			return
		}
		require.LessOrEqual(t, nodes(root), 2*len(text)+1)
	})
}

// nodes counts a tree's values.
func nodes(t *tree) int {
	count := 1
	for _, item := range t.items {
		count += nodes(item)
	}
	return count
}

// TestAllMistakesOfACatalogAreNamed with their lines, 200 at most; how many more there are is said.
func TestAllMistakesOfACatalogAreNamed(t *testing.T) {
	judged := func(i int) string { return fmt.Sprintf("  - {key: k%d, costPerUnit: -1}\n", i) }
	unread := func(i int) string { return fmt.Sprintf("  - {key: k%d, colour: red}\n", i) }
	for _, c := range []struct {
		count   int
		feature func(int) string
		more    string
	}{
		{150, judged, ""},
		{150, unread, ""},
		{230, judged, "and 30 more"},
		{230, unread, "and more: the first 200 are named"},
	} {
		document := "features:\n"
		for i := range c.count {
			document += c.feature(i)
		}
		wrong := CheckCatalog([]byte(document), true)
		if c.more != "" {
			require.Equal(t, CatalogMistake{Message: c.more}, wrong[len(wrong)-1])
			wrong = wrong[:len(wrong)-1]
		}
		require.Len(t, wrong, min(c.count, 200))
		for i := range wrong {
			require.Equal(t, i+2, wrong[i].Line, wrong[i].Message)
		}
	}
}
