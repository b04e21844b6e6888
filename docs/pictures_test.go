package docs_test

import (
	"encoding/xml"
	"io/fs"
	"math"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/docs"
)

var (
	rule   = regexp.MustCompile(`(text|\.\w+)\{([^}]*)\}`)
	colour = regexp.MustCompile(`(fill|stroke):#([0-9a-f]{3,6})`)
)

// TestPicturesAreLegible: of 8 KB at most, with a title and a description, and in both colour
// schemes with enough contrast between text and what is behind it, and between lines and the
// ground.
func TestPicturesAreLegible(t *testing.T) {
	names, err := fs.Glob(docs.Files, "pictures/*.svg")
	require.NoError(t, err)
	require.Len(t, names, 9)
	for _, name := range names {
		text, err := fs.ReadFile(docs.Files, name)
		require.NoError(t, err)
		require.LessOrEqual(t, len(text), 8<<10, name)
		var picture struct {
			Labelled    string `xml:"aria-labelledby,attr"`
			Title, Desc string
			Style       string `xml:"style"`
		}
		decoded := strings.NewReplacer("<title", "<Title", "</title", "</Title", "<desc", "<Desc",
			"</desc", "</Desc").Replace(string(text))
		require.NoError(t, xml.Unmarshal([]byte(decoded), &picture), name)
		require.Equal(t, "title desc", picture.Labelled, name)
		require.NotEmpty(t, picture.Title, name)
		require.Greater(t, len(picture.Desc), 80, name)
		light, dark, found := strings.Cut(picture.Style, "@media(prefers-color-scheme:dark){")
		require.True(t, found, name)
		for scheme, rules := range map[string]string{"light": light, "dark": dark} {
			fill, stroke := colours(rules)
			for _, ink := range []string{"text", ".s"} {
				for _, ground := range []string{".bg", ".b", ".l", ".g"} {
					require.GreaterOrEqual(t, contrast(t, fill[ink], fill[ground]), 4.5,
						"%s, %s: %s on %s", path.Base(name), scheme, ink, ground)
				}
			}
			for _, line := range []string{".b", ".l", ".a", ".k"} {
				for _, ground := range []string{".bg", ".g"} {
					require.GreaterOrEqual(t, contrast(t, stroke[line], fill[ground]), 3.0,
						"%s, %s: line %s on %s", path.Base(name), scheme, line, ground)
				}
			}
		}
	}
}

// colours are those of a style sheet's selectors.
func colours(rules string) (fill, stroke map[string]string) {
	fill, stroke = map[string]string{}, map[string]string{}
	for _, found := range rule.FindAllStringSubmatch(rules, -1) {
		for _, c := range colour.FindAllStringSubmatch(found[2], -1) {
			if c[1] == "fill" {
				fill[found[1]] = c[2]
			} else {
				stroke[found[1]] = c[2]
			}
		}
	}
	return fill, stroke
}

// contrast is that of WCAG 2 between two colours.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(t *testing.T, hex string) (sum float64) {
	t.Helper()
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	require.Len(t, hex, 6)
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		require.NoError(t, err)
		c := float64(v) / 255
		if c <= 0.03928 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}
