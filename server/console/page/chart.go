package page

import (
	"html/template"
	"math"
	"strings"
)

// Chart is amounts over time, stacked by series. It draws itself in SVG, with its axes as text
// next to it, so that they stay legible at any width, and writes the same numbers as a table.
type Chart struct {
	// Title is what is shown, Unit what is counted.
	Title, Unit string
	// Labels name the buckets, oldest first.
	Labels []string
	// Series are MaxSeries at most.
	Series []Series
}

// Series is one value for each bucket of a chart. Texts are the exact numbers, "" for none.
type Series struct {
	Name   string
	Values []float64
	Texts  []string
}

const (
	// maxMarks is how many bars are drawn; of more buckets, areas. A bar's title has as much of its
	// series' name as markName: the legend has all of it.
	maxMarks = 240
	markName = 24
	// areaTitles is how many parts of areas have a title.
	areaTitles = 60
	// maxColumns is how many buckets are drawn; of more, neighbours are added up.
	maxColumns = 240
	// MaxSeries is how many series have a colour of their own.
	MaxSeries = 6
	// maxTableRows is how many buckets a page's table has, the newest.
	maxTableRows = 100
)

// Top is what the upper edge stands for.
func (c *Chart) Top() float64 {
	sums := make([]float64, len(c.Labels))
	for _, s := range c.Series {
		for i, v := range s.Values {
			sums[i] += math.Max(v, 0)
		}
	}
	return Plot{Points: sums, Max: 1}.Top()
}

// drawn is the chart with no more buckets than are drawn.
func (c *Chart) drawn() Chart {
	d := *c
	d.Series = c.Series[:min(len(c.Series), MaxSeries)]
	width := (len(c.Labels) + maxColumns - 1) / maxColumns
	if width < 2 {
		return d
	}
	d.Labels = nil
	for i := 0; i < len(c.Labels); i += width {
		d.Labels = append(d.Labels, c.Labels[i]+" – "+c.Labels[min(i+width, len(c.Labels))-1])
	}
	series := d.Series
	d.Series = nil
	for _, s := range series {
		sums := make([]float64, len(d.Labels))
		for i, v := range s.Values {
			sums[i/width] += v
		}
		d.Series = append(d.Series, Series{Name: s.Name, Values: sums})
	}
	return d
}

// Figure draws the chart: bars, or areas where there are many, with axes and a legend.
func (c *Chart) Figure() template.HTML {
	if len(c.Labels) == 0 || len(c.Series) == 0 {
		return ""
	}
	d := c.drawn()
	top, n := d.Top(), len(d.Labels)
	var b strings.Builder
	text := func(parts ...string) {
		for _, p := range parts {
			b.WriteString(template.HTMLEscapeString(p))
		}
	}
	b.WriteString(`<figure class="chart"><figcaption>`)
	text(c.Title, ", ", c.Unit)
	b.WriteString(`</figcaption><div class="plane"><div class="axis" aria-hidden="true">`)
	for _, share := range [...]float64{1, 0.5, 0} {
		b.WriteString(`<span>`)
		text(short3(top * share))
		b.WriteString(`</span>`)
	}
	b.WriteString(`</div><svg viewBox="0 0 720 200" preserveAspectRatio="none" role="img"><title>`)
	text(c.Title, ", ", c.Unit, ", from ", c.Labels[0], " to ", c.Labels[len(c.Labels)-1])
	b.WriteString(`</title>`)
	for _, y := range [...]string{"0.5", "100", "199.5"} {
		b.WriteString(`<line class="grid" x1="0" x2="720" y1="` + y + `" y2="` + y + `"/>`)
	}
	below := make([]float64, n)
	for at, s := range d.Series {
		class := `s` + string(rune('0'+at))
		if n*len(d.Series) > maxMarks {
			b.WriteString(`<polygon class="` + class + `" points="` +
				area(s.Values, below, top) + `"><title>`)
			text(s.Name)
			b.WriteString(`</title></polygon>`)
			continue
		}
		width := 720 / float64(n)
		for i, v := range s.Values {
			if !(v > 0) {
				continue
			}
			height := 199 * v / top
			b.WriteString(`<rect class="` + class + `" x="` + coordinate(width*float64(i)+width*.08) +
				`" width="` + coordinate(width*.84) + `" y="` + coordinate(200-199*below[i]/top-height) +
				`" height="` + coordinate(math.Max(height, 1)) + `"><title>`)
			text(d.Labels[i], ", ", Clip(markName, s.Name), ": ", s.text(i))
			b.WriteString(`</title></rect>`)
			below[i] += v
		}
	}
	if n*len(d.Series) > maxMarks {
		d.columns(&b)
	}
	b.WriteString(`</svg></div><p class="scale" aria-hidden="true"><span>`)
	text(c.Labels[0])
	b.WriteString(`</span><span>`)
	text(c.Labels[len(c.Labels)-1])
	b.WriteString(`</span></p><ul class="legend">`)
	for at, s := range d.Series {
		b.WriteString(`<li><svg viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">` +
			`<rect class="s` + string(rune('0'+at)) + `" width="10" height="10"/></svg> `)
		text(s.Name)
		b.WriteString(`</li>`)
	}
	b.WriteString(`</ul></figure>`)
	return template.HTML(b.String())
}

// columns lie over areas, unseen: each tells its part of them under the pointer.
func (c *Chart) columns(b *strings.Builder) {
	n := len(c.Labels)
	wide := (n + areaTitles - 1) / areaTitles
	for from := 0; from < n; from += wide {
		to := min(from+wide, n)
		label := c.Labels[from]
		if to-from > 1 {
			label += " – " + c.Labels[to-1]
		}
		for i := range c.Series {
			s := &c.Series[i]
			text, sum := s.text(from), 0.0
			for _, v := range s.Values[from:to] {
				sum += math.Max(v, 0)
			}
			if to-from > 1 {
				text = plotted(sum)
			}
			if sum > 0 {
				label += ", " + Clip(markName, s.Name) + ": " + text
			}
		}
		width := 720 / float64(n)
		b.WriteString(`<rect class="hit" x="` + coordinate(width*float64(from)) + `" width="` +
			coordinate(width*float64(to-from)) + `" height="200"><title>` +
			template.HTMLEscapeString(label) + `</title></rect>`)
	}
}

func (s *Series) text(i int) string {
	if i < len(s.Texts) && s.Texts[i] != "" {
		return Amount(s.Texts[i])
	}
	return short3(s.Values[i])
}

// area is the outline of a series that lies on those below it, which it is added to.
func area(values, below []float64, top float64) string {
	var upper, lower []string
	step := 720 / math.Max(float64(len(values)-1), 1)
	for i, v := range values {
		x := coordinate(step*float64(i)) + ","
		lower = append(lower, x+coordinate(200-199*below[i]/top))
		below[i] += math.Max(v, 0)
		upper = append(upper, x+coordinate(200-199*below[i]/top))
	}
	for i := len(lower) - 1; i >= 0; i-- {
		upper = append(upper, lower[i])
	}
	return strings.Join(upper, " ")
}

// short3 is a number of the axis: 1.5 M.
func short3(v float64) string {
	for _, unit := range [...]struct {
		size float64
		name string
	}{{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if v >= unit.size {
			return strings.TrimSuffix(coordinate(v/unit.size), ".0") + unit.name
		}
	}
	if v > 0 && v < 1 {
		return Amount(strings.TrimRight(coordinateTo(v, 6), "0"))
	}
	return strings.TrimSuffix(coordinate(v), ".0")
}

// Rows are the newest buckets with the numbers of all series, newest first, for a table.
func (c *Chart) Rows() (rows [][]string) {
	for i := len(c.Labels) - 1; i >= 0 && len(rows) < maxTableRows; i-- {
		row := []string{c.Labels[i]}
		for _, s := range c.Series {
			row = append(row, Amount(s.Texts[i]))
		}
		rows = append(rows, row)
	}
	return rows
}

// Cut says how many of the buckets the table has; empty where it has all.
func (c *Chart) Cut() string {
	if len(c.Labels) <= maxTableRows {
		return ""
	}
	return "The newest " + Amount(maxTableRows) + " of " + Amount(len(c.Labels)) + "."
}
