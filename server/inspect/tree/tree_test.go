package tree_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/inspect/tree"
)

func TestJSONAndYAMLAreOneTree(t *testing.T) {
	const inJSON = "\ufeff" + `{"a": {"b/c": [1, "two", true, null]}, "a~b": "ü", "a": {"b/c": [2.50]}}`
	const inYAML = "# comment\na:\n  b/c:\n  - 2.50\n\"a~b\": ü   # note\n"
	for name, test := range map[string]struct{ text, quote string }{
		"JSON": {inJSON, `"a~b": "ü"`},
		"YAML": {inYAML, `"a~b": ü   # note`},
	} {
		t.Run(name, func(t *testing.T) {
			root, err := tree.Parse(test.text)
			require.NoError(t, err)
			require.Equal(t, "2.50", root.Follow("#/a/b~1c").List()[0].AsScalar(), "the last of two")
			require.Equal(t, "ü", root.TextOf("a~b"))
			require.Equal(t, "ü", root.Follow("#/a~0b").AsText())
			require.Equal(t, test.quote, root.Of("a~b").Quote(test.text, 100))
			require.Nil(t, root.Follow("#/a/none/x"))
			require.Nil(t, root.Follow("other.json#/a"))
			require.Contains(t, test.text, root.Of("a").Quote(test.text, 5))
		})
	}
}

func TestYAMLAliases(t *testing.T) {
	root, err := tree.Parse("base: &b {x: 1, y: 2}\nown:\n  <<: *b\n  y: 3\nsame: *b\n" +
		"both:\n  <<: [*b, {z: 4}]\nself: &s\n  inner: *s\n")
	require.NoError(t, err)
	require.Equal(t, "1", root.Follow("#/own/x").AsScalar())
	require.Equal(t, "3", root.Follow("#/own/y").AsScalar(), "its own value stands")
	require.Equal(t, "2", root.Follow("#/same/y").AsScalar())
	require.Equal(t, "4", root.Follow("#/both/z").AsScalar())
	require.True(t, root.Follow("#/self/inner").Is(tree.Unresolved))
}

func TestWhatIsNoDocument(t *testing.T) {
	for _, text := range []string{
		"", "  ", "just a sentence", "<html><body>{}</body></html>", `{"a": 1`, "a: [1",
		"a: b: c", "\x00\x01", "&a *a", "- &a [*a",
	} {
		_, err := tree.Parse(text)
		require.ErrorIs(t, err, tree.ErrMalformed, "%q", text)
	}
}

// TestWhatIsSharedCountsEachTime: a map that merges another one reads its names, however often it
// has read them before; and a map of many names is asked as one of few.
func TestWhatIsSharedCountsEachTime(t *testing.T) {
	var names strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&names, "  k%d: %d\n", i, i)
	}
	base := "base: &b\n" + names.String()
	_, err := tree.Parse(base + "all:\n  <<: [" + strings.Repeat("*b,", 200) + "]\n")
	require.ErrorIs(t, err, tree.ErrTooComplex)
	_, err = tree.Parse(base + "list:\n" + strings.Repeat("- <<: *b\n", 200))
	require.ErrorIs(t, err, tree.ErrTooComplex)
	empty := "e: &e {}\nl: &l [" + strings.Repeat("*e,", 1000) + "]\nlist:\n"
	_, err = tree.Parse(empty + strings.Repeat("- <<: *l\n", 200))
	require.ErrorIs(t, err, tree.ErrTooComplex)
	root, err := tree.Parse(base + "all:\n  <<: *b\n  k7: own\n  k7: last\n")
	require.NoError(t, err)
	require.Equal(t, "last", root.Of("all").TextOf("k7"))
	require.Equal(t, "999", root.Of("all").Of("k999").AsScalar())
	require.Nil(t, root.Of("all").Of("k1000"))
	root, err = tree.Parse("{" + strings.Repeat(`"a":1,`, 50) + `"b":3,"a":2}`)
	require.NoError(t, err)
	require.Equal(t, "2", root.Of("a").AsScalar(), "the last of many")
}

// TestMemoryIsBounded: 2 MiB of whatever the other side likes costs less than 64 MB.
func TestMemoryIsBounded(t *testing.T) {
	const maximum = 2 << 20
	laughs := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for i := range 20 {
		before, now := string(rune('a'+i)), string(rune('b'+i))
		laughs += now + ": &" + now + " [" + strings.Repeat("*"+before+",", 9) + "]\n"
	}
	for name, test := range map[string]struct {
		text string
		fits bool
	}{
		"JSON numbers":     {"[" + strings.Repeat("0,", maximum/2-2) + "0]", false},
		"JSON depth":       {strings.Repeat("[", maximum/2) + strings.Repeat("]", maximum/2), false},
		"JSON objects":     {`[` + strings.Repeat(`{"":0},`, maximum/7-2) + `0]`, false},
		"YAML flow":        {"a: [" + strings.Repeat("a,", maximum/2-8) + "a]", false},
		"YAML dashes":      {strings.Repeat("- ", maximum/2) + "a", false},
		"YAML lines":       {strings.Repeat("- a\n", maximum/4), false},
		"YAML depth":       {strings.Repeat("[", 9000) + strings.Repeat("]", 9000), false},
		"most YAML":        {"a: [" + strings.Repeat("a,", 120_000) + "a]", true},
		"most YAML lines":  {strings.Repeat("- a: b\n", 60_000), true},
		"most JSON":        {"[" + strings.Repeat("0,", 140_000) + "0]", true},
		"a billion laughs": {laughs, true},
		"a line of spaces": {strings.Repeat(" ", maximum/2) + "a: [" + strings.Repeat("a,", 120_000) + "a]", true},
		"long text":        {`{"a":"` + strings.Repeat("x", maximum-9) + `"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			root, err := tree.Parse(test.text)
			runtime.ReadMemStats(&after)
			require.Less(t, after.HeapInuse-min(before.HeapInuse, after.HeapInuse), uint64(60<<20))
			if test.fits {
				require.NoError(t, err)
				require.NotNil(t, root)
			} else {
				require.ErrorIs(t, err, tree.ErrTooComplex)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,{"b":null}]}`, "a: &x\n  - *x\n<<: {b: c}\n", "\ufeff{}", "? [a]\n: b\n", "%YAML 1.2\n---\na: 1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		root, err := tree.Parse(text)
		if err != nil {
			return
		}
		seen := 0
		var walk func(n *tree.Node)
		walk = func(n *tree.Node) {
			if seen++; seen > 10_000 {
				return
			}
			require.Contains(t, text, n.Quote(text, 100))
			for i := range n.Items {
				walk(&n.Items[i])
			}
		}
		walk(root)
	})
}
