package page

import (
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Plots are SVG that the server draws. They have no style of their own (the policy forbids it): the
// sheet colours their classes, in light and dark. The text next to a plot, and its <title>,
// describe it in words.

// Meter draws the used part of a limit as a bar, with the limit marked where it is exceeded. title
// describes it in words. A limit of 0 or less draws nothing.
func Meter(used, limit float64, title string) template.HTML {
	return HeldMeter(used, 0, limit, title)
}

// HeldMeter is Meter with what is held of the limit, too, behind what is used.
func HeldMeter(used, held, limit float64, title string) template.HTML {
	if !(limit > 0) || math.IsInf(limit, 0) || math.IsNaN(used) || math.IsNaN(held) {
		return ""
	}
	used, held = math.Max(used, 0), math.Max(held, 0)
	taken := used + held
	whole := math.Max(taken, limit)
	state := "low"
	switch share := taken / limit; {
	case share >= 1:
		state = "full"
	case share >= 0.8:
		state = "high"
	}
	var b strings.Builder
	b.WriteString(`<svg class="meter ` + state +
		`" viewBox="0 0 100 8" preserveAspectRatio="none" role="img"><title>` +
		template.HTMLEscapeString(title) + `</title>` +
		`<rect class="track" width="100" height="8"/><rect class="bar" height="8" width="` +
		coordinate(100*used/whole) + `"/>`)
	if held > 0 {
		b.WriteString(`<rect class="held" height="8" x="` + coordinate(100*used/whole) + `" width="` +
			coordinate(100*held/whole) + `"/>`)
	}
	if at := coordinate(100 * used / whole); held > 0 && used > 0 {
		b.WriteString(`<line class="mark" y1="0" y2="8" x1="` + at + `" x2="` + at + `"/>`)
	}
	if taken > limit {
		at := coordinate(100 * limit / whole)
		b.WriteString(`<line class="mark" y1="0" y2="8" x1="` + at + `" x2="` + at + `"/>`)
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

// Plot is a line over time, oldest first.
type Plot struct {
	Title  string
	Points []float64
	// Labels name the points. A plot that has them has a mark with a title for each, or for each
	// few of many, and Rows.
	Labels []string
	// Max is the least that the top of the plot stands for, so that noise about nothing looks small.
	Max float64
}

// Top is what the plot's upper edge stands for: 1, 2 or 5 times a power of ten.
func (p Plot) Top() float64 {
	most := p.Max
	for _, v := range p.Points {
		if v > most && !math.IsInf(v, 0) {
			most = v
		}
	}
	if !(most > 0) {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for _, times := range [...]float64{1, 2, 5} {
		if most <= times*step {
			return times * step
		}
	}
	return 10 * step
}

// Axis are what the lines to read it by stand for, from the top down.
func (p Plot) Axis() (labels []string) {
	top := p.Top()
	return []string{short3(top), short3(top / 2), "0"}
}

// Ends are its first and its last label; none of a plot without any.
func (p Plot) Ends() []string {
	if len(p.Labels) == 0 {
		return nil
	}
	return []string{p.Labels[0], p.Labels[len(p.Labels)-1]}
}

// Row is a mark of a plot in words: its points, and what they are.
type Row struct{ Label, Text string }

// Rows are the marks, newest first. One of several points has the highest of them.
func (p Plot) Rows() (rows []Row) {
	for _, m := range p.marks() {
		rows = append(rows, m.Row)
	}
	slices.Reverse(rows)
	return rows
}

// mark is what a plot says of its points from an index to before another.
type mark struct {
	Row
	from, to int
}

func (p Plot) marks() (marks []mark) {
	n := min(len(p.Labels), len(p.Points))
	width := (n + plotMarks - 1) / plotMarks
	for from := 0; from < n; from += width {
		to := min(from+width, n)
		m := mark{Row{p.Labels[from], plotted(slices.Max(p.Points[from:to]))}, from, to}
		if to-from > 1 {
			m.Label += " – " + p.Labels[to-1]
			m.Text = "up to " + m.Text
		}
		marks = append(marks, m)
	}
	return marks
}

// plotted is a point in words: whole, or with two places.
func plotted(v float64) string {
	if v == math.Trunc(v) {
		return Amount(coordinateTo(v, 0))
	}
	return Amount(coordinateTo(v, 2))
}

// Heights and widths of a plot in its own units; the sheet stretches it.
const (
	plotWidth  = 300
	plotHeight = 60
	// plotMarks is how many marks a plot has at most.
	plotMarks = 30
)

// Draw draws a plot: a line, the area below it, three lines to read it by, and its marks.
func Draw(p Plot) template.HTML {
	var b strings.Builder
	b.WriteString(`<svg class="plot" viewBox="0 0 300 60" preserveAspectRatio="none" role="img">` +
		`<title>` + template.HTMLEscapeString(p.Title) + `</title>`)
	for _, y := range [...]string{"0.5", "30", "59.5"} {
		b.WriteString(`<line class="grid" x1="0" x2="300" y1="` + y + `" y2="` + y + `"/>`)
	}
	if n := len(p.Points); n > 1 {
		line, top := make([]byte, 0, 16*n), p.Top()
		for i, v := range p.Points {
			if !(v >= 0) {
				v = 0
			}
			if i > 0 {
				line = append(line, ' ')
			}
			x := plotWidth * float64(i) / float64(n-1)
			y := plotHeight - math.Min(v/top, 1)*(plotHeight-2) - 1
			line = append(append(append(line, coordinate(x)...), ','), coordinate(y)...)
		}
		b.WriteString(`<polygon class="area" points="0,60 ` + string(line) + ` 300,60"/>` +
			`<polyline class="line" points="` + string(line) + `"/>`)
	}
	for _, m := range p.marks() {
		width := plotWidth / float64(len(p.Points))
		b.WriteString(`<rect class="hit" x="` + coordinate(width*float64(m.from)) + `" width="` +
			coordinate(width*float64(m.to-m.from)) + `" height="60"><title>` +
			template.HTMLEscapeString(m.Label+": "+m.Text) + `</title></rect>`)
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

func coordinate(v float64) string { return coordinateTo(v, 1) }

func coordinateTo(v float64, places int) string {
	return strconv.FormatFloat(v, 'f', places, 64)
}
