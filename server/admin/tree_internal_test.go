package admin

import (
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
