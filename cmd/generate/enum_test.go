package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryConstantOfAnEnumHasAName: or says that it has none.
func TestEveryConstantOfAnEnumHasAName(t *testing.T) {
	const begin = "//schema:enum\ntype Color uint8\n\nconst (\n\tRed Color = 1 // red\n\t"
	text, err := generate(t, begin+"Blue Color = 3 // blue\n\tmany Color = 1 << 2 // -\n\tnone Color = 0\n)\n")
	require.NoError(t, err)
	require.Contains(t, text, "= []string{\n\t1: \"red\",\n\t3: \"blue\",\n}\n")
	for _, constant := range []string{
		"Blue Color = 2", "Blue Color = 1 << 2 // blue", "Blue Color = iota // blue",
		"Blue Color = 1 // blue", "Blue Color = 2 // red", "Blue, Green Color = 2, 3 // blue",
	} {
		_, err := generate(t, begin+constant+"\n)\n")
		require.ErrorContains(t, err, "Blue", constant)
	}
}
