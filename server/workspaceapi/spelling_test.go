package workspaceapi

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/provider/runner"
)

// costly are the texts and keys that were chosen to be dear to look for: keys that are nearly found
// at each place of the text, and texts that can be read in as many ways as there are.
func costly() map[string][2]string {
	long := func(part string, n int) string { return strings.Repeat(part, n/len(part)) }
	return map[string][2]string{
		"nearly everywhere": {long("a", maxTold), long("a", 4095) + "b"},
		"nearly, backwards": {long("a", maxTold), "b" + long("a", 4095)},
		"everywhere":        {long("a", maxTold), long("a", 4096)},
		"in hex":            {long("61", maxTold), long("a", 4096)},
		"backslashes":       {long(`\`, maxTold), long(`\`, 4095) + "b"},
		"surrogates":        {long(`\ud83d`, maxTold), long("😀", 4096)},
		"percents":          {long("%25", maxTold), long("%", 4095) + "b"},
		"one long percent":  {"%" + long("25", maxTold-1), long("%25", 4095) + "b"},
		"entities":          {long("&#97;", maxTold), long("a", 4095) + "b"},
		"no entities":       {long("&;", maxTold), long("&", 4095) + "b"},
		"many letters":      {long("äöüß", maxTold), long("äöüß", 4088) + "b"},
		"pluses":            {long("+ ", maxTold), long(" ", 4095) + "b"},
	}
}

// TestHostileKeysCostLittle: an agent may hand over two keys as long as they may be. Finding them
// takes two steps for each way to read each byte of the text and each 32 to 63 characters of the
// keys, however they are made. A search that began anew at each byte took thousands of times as
// many.
func TestHostileKeysCostLittle(t *testing.T) {
	for name, c := range costly() {
		text, key := c[0], c[1]
		require.LessOrEqual(t, len(key), runner.MaxKey, name)
		signs := readingOf(text).signs
		require.LessOrEqual(t, len(signs), 5*len(text), name)
		for i := 1; i < len(signs); i++ {
			require.LessOrEqual(t, signs[i-1].at, signs[i].at, "%s: in the order of the text", name)
		}
		pieces := patternsOf(key)
		require.LessOrEqual(t, len(pieces), runner.MaxKey/maxPattern+1, name)
		for _, piece := range pieces {
			require.GreaterOrEqual(t, len(piece), 32, name)
		}
		s := scrubberOf(key, key[:len(key)-8])
		began := time.Now()
		s.clean(text)
		require.Less(t, time.Since(began), 20*time.Second, name) // milliseconds, see the benchmark
	}
}

// BenchmarkHostileKeys is the longest text of an agent's against the longest keys.
func BenchmarkHostileKeys(b *testing.B) {
	for name, c := range costly() {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			s := scrubberOf(c[1], c[1][:len(c[1])-8])
			for b.Loop() {
				s.clean(c[0])
			}
		})
	}
}

// TestKeysWithinKeys: keys that overlap, that begin within one another or that are told in one
// piece leave nothing behind, in whichever order they became known.
func TestKeysWithinKeys(t *testing.T) {
	for _, c := range []struct {
		keys       []string
		text, want string
	}{
		{[]string{"abcabcabc"}, "x abcabcabcabc y", "x [key] y"},
		{[]string{"12345678", "5678abcd"}, "12345678abcd", "[key]"},
		{[]string{"12345678", "xx12345678yy"}, "xx12345678yy 12345678", "[key] [key]"},
		{[]string{"aaaaaaaaaaaab"}, "aaaaaaaaaaaaaaab!", "aaa[key]!"},
		{[]string{"key_0123", "abc"}, "abckey_0123abc abd", "[key] abd"},
		{[]string{"ÄÖÜäöüß1"}, "x ÄÖÜäöüß1 %C3%A4ÖÜ&auml;\\u00f6Üß1", "x [key] [key]"},
		{[]string{"back\\slash"}, `a back\\\\slash`, "a [key]"},
		{[]string{"\xffinvalid"}, "a \xffinvalid b", "a [key] b"},
		{[]string{"12345678"}, "1234567 8, 1234567", "[key], 1234567"},
		{[]string{strings.Repeat("0123456789abc", 10)}, strings.Repeat("0123456789abc", 10) + "!", "[key]!"},
	} {
		require.Equal(t, c.want, scrubberOf(c.keys...).clean(c.text), c.text)
		require.Equal(t, c.want != c.text, scrubberOf(c.keys...).holds(c.text))
	}
}
