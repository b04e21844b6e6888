package load

import (
	"fmt"
	html "html/template"
	"math"
	"strings"
)

// plot is a drawing of lines over two axes, as SVG.
type plot struct {
	title, x, y string
	logY        bool
	ticks       []tickMark // of the x axis; five in even distances when there are none
	lines       []line
	marks       []tickMark // what happened
	// bars are drawn in place of lines: a row for each tick, and a part of it for each line that
	// has a point there, as long as its x.
	bars bool
}

type (
	point struct{ x, y float64 }
	line  struct {
		name   string
		points []point
	}
	tickMark struct {
		at   float64
		text string
	}
)

// Measures of a drawing, in SVG's units.
const (
	plotWidth, plotHeight                    = 860, 360
	plotLeft, plotRight, plotTop, plotBottom = 70, 160, 40, 50
)

// Colours that people with any colour vision tell apart (Okabe and Ito), and dashes as well.
var (
	plotColours = []string{
		"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#8A6D00",
	}
	plotDashes = []string{"none", "7 3", "2 3", "9 3 2 3"}
)

// scale maps values to places.
type scale struct {
	low, high float64
	log       bool
	from, to  float64
}

func (s scale) place(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		v, low, high = math.Log10(max(v, s.low)), math.Log10(low), math.Log10(high)
	}
	return s.from + (v-low)/(high-low)*(s.to-s.from)
}

// scales fits the axes to the lines.
func (p plot) scales() (x, y scale) {
	x = scale{low: math.Inf(1), high: math.Inf(-1), from: plotLeft, to: plotWidth - plotRight}
	y = scale{low: math.Inf(1), high: math.Inf(-1), from: plotHeight - plotBottom, to: plotTop}
	y.log = p.logY
	for _, l := range p.lines {
		for _, q := range l.points {
			x.low, x.high = min(x.low, q.x), max(x.high, q.x)
			if !p.logY || q.y > 0 {
				y.low, y.high = min(y.low, q.y), max(y.high, q.y)
			}
		}
	}
	if math.IsInf(x.low, 1) || math.IsInf(y.low, 1) {
		x.low, x.high, y.low, y.high = 0, 1, 0.1, 1
	}
	if p.logY {
		y.low = math.Pow(10, math.Floor(math.Log10(y.low)))
		y.high = math.Pow(10, math.Ceil(math.Log10(y.high*1.001)))
	} else {
		y.low = 0
	}
	if x.high == x.low {
		x.high++
	}
	if y.high == y.low {
		y.high++
	}
	return x, y
}

// canvas is a drawing under way. All that is not a number is escaped.
type canvas struct{ strings.Builder }

// canvas begins a drawing of some height, with the title that far from the left.
func (p plot) canvas(height, left int) *canvas {
	c, title := &canvas{}, html.HTMLEscapeString(p.title)
	c.draw(`<svg viewBox="0 0 %d %d" role="img" aria-label="%s" xmlns="http://www.w3.org/2000/svg">`,
		plotWidth, height, title)
	c.draw(`<text class="title" x="%d" y="20">%s</text>`, left, title)
	return c
}

func (c *canvas) draw(format string, args ...any) { fmt.Fprintf(c, format+"\n", args...) }

func (c *canvas) text(at, down float64, anchor, s string) {
	c.draw(`<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, at, down, anchor,
		html.HTMLEscapeString(s))
}

func (c *canvas) svg() html.HTML {
	c.WriteString("</svg>")
	return html.HTML(c.String())
}

func (p plot) svg() html.HTML {
	if p.bars {
		return p.barSVG()
	}
	c := p.canvas(plotHeight, plotLeft)
	draw, text := c.draw, c.text
	x, y := p.scales()
	for _, v := range y.steps() {
		at := y.place(v)
		draw(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, x.from, x.to, at, at)
		text(x.from-8, at+4, "end", short(v))
	}
	ticks := p.ticks
	if len(ticks) == 0 {
		for _, v := range x.steps() {
			ticks = append(ticks, tickMark{v, short(v)})
		}
	}
	for _, t := range ticks {
		text(x.place(t.at), y.from+18, "middle", t.text)
	}
	draw(`<line class="axis" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, x.from, x.to, y.from, y.from)
	text((x.from+x.to)/2, plotHeight-10, "middle", p.x)
	text(8, plotTop-8, "start", p.y)
	for _, m := range p.marks {
		at := x.place(m.at)
		draw(`<line class="mark" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"><title>%s</title></line>`,
			at, at, y.from, y.to, html.HTMLEscapeString(m.text))
		draw(`<text class="marked" transform="translate(%.1f %.1f) rotate(-90)">%s</text>`, at-3,
			y.from-4, html.HTMLEscapeString(m.text))
	}
	for i, l := range p.lines {
		style := fmt.Sprintf(`fill="none" stroke-width="2" stroke="%s" stroke-dasharray="%s"`,
			plotColours[i%len(plotColours)], plotDashes[i%len(plotDashes)])
		var points []string
		for _, q := range l.points {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x.place(q.x), y.place(q.y)))
		}
		draw(`<polyline %s points="%s"/>`, style, strings.Join(points, " "))
		down := float64(plotTop + 18*i)
		draw(`<line %s x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, style, x.to+12, x.to+36, down, down)
		text(x.to+42, down+4, "start", l.name)
	}
	return c.svg()
}

// short is a number for an axis.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.3g M", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.3g k", v/1e3)
	}
	return fmt.Sprintf("%.3g", v)
}

// steps are where an axis is labelled: at powers of ten, or at five places in even distances.
func (s scale) steps() (all []float64) {
	if s.log {
		for v := s.low; v <= s.high*1.001; v *= 10 {
			all = append(all, v)
		}
		return all
	}
	for i := range 6 {
		all = append(all, s.low+(s.high-s.low)*float64(i)/5)
	}
	return all
}

// Measures of a row of bars.
const (
	rowHeight, barHeight = 34, 22
	barLeft, barRight    = 130, 60
)

// barSVG draws bars, with what each is in all at its end.
func (p plot) barSVG() html.HTML {
	sums := make([]float64, len(p.ticks))
	for _, l := range p.lines {
		for _, q := range l.points {
			sums[int(q.y)] += q.x
		}
	}
	x := scale{high: 1, from: barLeft, to: plotWidth - plotRight - barRight}
	for _, sum := range sums {
		x.high = max(x.high, sum)
	}
	c := p.canvas(plotTop+rowHeight*max(len(p.ticks), len(p.lines)), 0)
	draw, text := c.draw, c.text
	for i, t := range p.ticks {
		down := float64(plotTop + rowHeight*i + barHeight/2 + 4)
		text(barLeft-8, down, "end", t.text)
		text(x.place(sums[i])+6, down, "start", fmt.Sprintf("%.1f %s", sums[i], p.x))
	}
	begin := make([]float64, len(p.ticks))
	for i, l := range p.lines {
		colour, down := plotColours[i%len(plotColours)], plotTop+18*i
		for _, q := range l.points {
			row := int(q.y)
			from, to := x.place(begin[row]), x.place(begin[row]+q.x)
			begin[row] += q.x
			draw(`<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"><title>%s: %.2f</title></rect>`,
				from, plotTop+rowHeight*row, to-from, barHeight, colour, html.HTMLEscapeString(l.name), q.x)
		}
		draw(`<rect x="%d" y="%d" width="14" height="12" fill="%s"/>`, plotWidth-plotRight, down, colour)
		text(plotWidth-plotRight+20, float64(down+11), "start", l.name)
	}
	return c.svg()
}
