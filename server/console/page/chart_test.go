package page_test

import (
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"tollgate/server/console/page"
)

// chartOf has buckets and series whose values are 1, 2, 3 and so on.
func chartOf(buckets, series int, name string) *page.Chart {
	c := &page.Chart{Title: name, Unit: name}
	for i := range buckets {
		c.Labels = append(c.Labels, "bucket "+strconv.Itoa(i))
	}
	for range series {
		s := page.Series{Name: name}
		for i := range buckets {
			s.Values = append(s.Values, float64(i+1))
			s.Texts = append(s.Texts, strconv.Itoa(i+1))
		}
		c.Series = append(c.Series, s)
	}
	return c
}

// Every mark has a title, whatever the names are, and a figure stays small.
func TestCharts(t *testing.T) {
	for _, c := range []struct{ buckets, series, marks int }{
		{0, 0, 0},
		{0, 1, 0},
		{1, 1, 1},
		{30, 3, 90},
		{40, 6, 240},
		{48, 6, 6 + 48},
		{300, 6, 6 + 50},
		{1000, 1, 200},
		{1_000_000, 1, 240},
	} {
		drawn := string(chartOf(c.buckets, c.series, `<b>"`).Figure())
		require.Less(t, len(drawn), 50_000)
		require.Less(t, len(chartOf(c.buckets, c.series, strings.Repeat("n", 128)).Figure()), 50_000)
		require.NotContains(t, drawn, "<b>")
		require.NotContains(t, drawn, "NaN")
		require.NotContains(t, drawn, "Inf")
		root, err := html.Parse(strings.NewReader(drawn))
		require.NoError(t, err)
		marks := 0
		for n := range root.Descendants() {
			if n.Type != html.ElementNode || n.Data != "rect" && n.Data != "polygon" {
				continue
			}
			if n.Parent.Parent.Data == "div" { // not of the legend
				marks++
				require.Equal(t, "title", n.FirstChild.Data)
			}
		}
		require.Equal(t, c.marks, marks, "%+v", c)
	}
	areas := string(chartOf(150, 2, "calls").Figure())
	require.Contains(t, areas, "<title>bucket 3 – bucket 5, calls: 15, calls: 15</title>")
	nothing := chartOf(2, 1, "x")
	nothing.Series[0].Values = []float64{math.Inf(-1), -3}
	require.NotContains(t, string(nothing.Figure()), "NaN")
}

// Bars are as high as their values, and stand on those below them.
func TestChartsStack(t *testing.T) {
	c := &page.Chart{Labels: []string{"a", "b"}, Series: []page.Series{
		{Name: "x", Values: []float64{1, 3}}, {Name: "y", Values: []float64{2, 0}},
	}}
	require.EqualValues(t, 5, c.Top(), "a round number above 3")
	bars := regexp.MustCompile(`class="(s\d)" x="[\d.]+" width="[\d.]+" y="([\d.]+)" height="([\d.]+)"`).
		FindAllStringSubmatch(string(c.Figure()), -1)
	require.Len(t, bars, 3)
	for i, want := range []struct {
		class       string
		top, height float64
	}{{"s0", 200 - 199./5, 199. / 5}, {"s0", 200 - 199.*3/5, 199. * 3 / 5}, {"s1", 200 - 199.*3/5, 199. * 2 / 5}} {
		require.Equal(t, want.class, bars[i][1])
		for at, want := range []float64{want.top, want.height} {
			is, err := strconv.ParseFloat(bars[i][2+at], 64)
			require.NoError(t, err)
			require.InDelta(t, want, is, 0.1)
		}
	}
	many := chartOf(480, 1, "x") // drawn as 240 columns of two
	many.Series[0].Values = slices.Repeat([]float64{1, 2}, 240)
	require.Contains(t, string(many.Figure()), "bucket 0 – bucket 1, x: 3<")
}

// A plot with labels says each of its points, or few of many together, in a title and a row.
func TestPlotsMarks(t *testing.T) {
	few := page.Plot{Points: []float64{1200, 0.5}, Labels: []string{"a", "<b>"}}
	require.Equal(t, []page.Row{{"<b>", "0.50"}, {"a", "1,200"}}, few.Rows())
	require.Contains(t, string(page.Draw(few)), `x="150.0" width="150.0" height="60"><title>&lt;b&gt;: 0.50<`)
	require.Equal(t, []string{"2 k", "1 k", "0"}, few.Axis())
	require.Equal(t, []string{"a", "<b>"}, few.Ends())
	require.Equal(t, []string{"1", "0.5", "0"}, page.Plot{}.Axis())
	require.Empty(t, page.Plot{}.Ends())
	many := page.Plot{}
	for i := range 121 {
		many.Points = append(many.Points, float64(i))
		many.Labels = append(many.Labels, strconv.Itoa(i))
	}
	require.Len(t, many.Rows(), 25)
	require.Equal(t, page.Row{Label: "120", Text: "120"}, many.Rows()[0])
	require.Equal(t, page.Row{Label: "0 – 4", Text: "up to 4"}, many.Rows()[24])
	require.NotContains(t, string(page.Draw(page.Plot{Points: []float64{1, 2}})), "hit")
	require.Empty(t, page.Plot{Labels: []string{"a"}}.Rows())
}

// The table has the exact numbers.
func TestChartsNumbers(t *testing.T) {
	c := chartOf(2, 2, "a")
	c.Series[1].Texts[1] = "123456789012345678901.5"
	require.Equal(t, []string{"bucket 1", "2", "123,456,789,012,345,678,901.5"}, c.Rows()[0])
	require.Len(t, chartOf(1000, 1, "a").Rows(), 100)
	require.Equal(t, "The newest 100 of 1,000.", chartOf(1000, 1, "a").Cut())
	require.Empty(t, chartOf(100, 1, "a").Cut())
}

// The colours of series, and of lines that separate what can be used from what cannot, have a
// contrast of 3 at least with the card that they are drawn on.
func TestChartsContrast(t *testing.T) {
	text, err := os.ReadFile("asset/style.css")
	require.NoError(t, err)
	colour := regexp.MustCompile(`--(card|line|s\d): #([0-9a-f]{6})`)
	sheet := colour.FindAllStringSubmatch(string(text), -1)
	luminance := func(hex string) float64 {
		n, err := strconv.ParseUint(hex, 16, 32)
		require.NoError(t, err)
		sum := 0.0
		for i, weight := range [...]float64{0.0722, 0.7152, 0.2126} {
			v := float64(n>>(8*i)&255) / 255
			if v <= 0.04045 {
				v /= 12.92
			} else {
				v = math.Pow((v+0.055)/1.055, 2.4)
			}
			sum += weight * v
		}
		return sum
	}
	card, seen := 0.0, 0
	for _, m := range sheet {
		if m[1] == "card" {
			card = luminance(m[2])
			continue
		}
		seen++
		a, b := card, luminance(m[2])
		require.GreaterOrEqual(t, (max(a, b)+0.05)/(min(a, b)+0.05), 3.0, "%s: #%s", m[1], m[2])
	}
	require.Equal(t, 14, seen)
	placeholder := regexp.MustCompile(`--(card|soft): #([0-9a-f]{6})`)
	words := placeholder.FindAllStringSubmatch(string(text), -1)
	require.Len(t, words, 4, "light and dark")
	for i := 0; i < len(words); i += 2 {
		a, b := luminance(words[i][2]), luminance(words[i+1][2])
		require.GreaterOrEqual(t, (max(a, b)+0.05)/(min(a, b)+0.05), 4.5, "%s", words[i+1][2])
	}
	require.Regexp(t, `\ninput::placeholder \{ color: var\(--soft\); opacity: 1; \}`, string(text))
	for _, carries := range []string{".tree .tree", "thead th", "details.confirm[open]"} {
		line := `\n` + regexp.QuoteMeta(carries) + ` \{[^}]*border[^}]*var\(--line\)`
		require.Regexp(t, line, string(text))
	}
}
