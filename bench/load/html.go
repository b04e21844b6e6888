package load

import (
	_ "embed"
	"fmt"
	html "html/template"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

//go:embed report.html
var reportPage string

var reportTemplate = html.Must(html.New("report").Parse(reportPage))

// page is a report that needs nothing else.
type page struct {
	Title  string
	Rows   []Row
	Doubts []Doubt
	Plots  []html.HTML
	Text   string
}

func (p *page) write(out io.Writer, plots []plot, text interface{ Print(io.Writer) error }) error {
	var printed strings.Builder
	if err := text.Print(&printed); err != nil {
		return err
	}
	p.Text = printed.String()
	for _, one := range plots {
		p.Plots = append(p.Plots, one.svg())
	}
	if err := reportTemplate.Execute(out, p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func title(e Environment) string { return "tollgate-bench, " + e.At.Format(time.DateTime) }

// HTML writes the comparison as one page: what was measured, and plots of processor time by
// process, of the latency's percentiles, of rate and latency over the time with what happened
// meanwhile, and over the offered rate.
func (c Comparison) HTML(out io.Writer) error {
	p := page{Title: title(c.Environment)}
	return p.write(out, c.plots(), c)
}

// HTML writes the table as such a page, with the answers to what a sceptic says of it.
func (f *Figures) HTML(out io.Writer) error {
	p := page{Title: title(f.Environment), Rows: f.Rows(), Doubts: f.Doubts()}
	var plots []plot
	for _, c := range f.comparisons() {
		plots = append(plots, c.plots()...)
	}
	var alone []*Report
	if f.Snapshot != nil {
		alone = append(alone, &f.Snapshot.Report)
	}
	if f.Failover != nil {
		alone = append(alone, &f.Failover.Report)
	}
	for _, s := range []*ScaleReport{f.Scale, f.Large} {
		if s != nil {
			alone = append(alone, &s.Sizes[0].Large)
		}
	}
	for _, r := range alone {
		plots = append(plots, r.comparison().plots()...)
	}
	return p.write(out, plots, f)
}

// HTML writes the report as such a page.
func (r Report) HTML(out io.Writer) error {
	environment, err := Surroundings()
	if err != nil {
		return err
	}
	c := r.comparison()
	c.Environment = environment
	return c.HTML(out)
}

// comparison is of this report alone.
func (r Report) comparison() Comparison {
	results := []Result{result(r.System, r.Config, []Report{r})}
	relate(results)
	return Comparison{Results: results}
}

// plots are of processor time, percentiles, and rate and latency over the time for each load, and
// two for each scenario that was measured at several rates.
func (c Comparison) plots() (all []plot) {
	var loads []string
	offered := map[Scenario]int{}
	var scenarios []Scenario
	for _, r := range c.Results {
		if !slices.Contains(loads, r.load()) {
			loads = append(loads, r.load())
			offered[r.Scenario]++
		}
		if !slices.Contains(scenarios, r.Scenario) {
			scenarios = append(scenarios, r.Scenario)
		}
	}
	for _, scenario := range scenarios {
		if offered[scenario] > 1 {
			all = append(all, c.overRate(scenario)...)
		}
	}
	for _, load := range loads {
		all = append(all, c.processors(load), c.percentiles(load))
		all = append(all, c.overTime(load)...)
	}
	return all
}

// under are the results of a load.
func (c Comparison) under(load string) []Result {
	return slices.DeleteFunc(slices.Clone(c.Results), func(r Result) bool { return r.load() != load })
}

func (c Comparison) percentiles(load string) plot {
	p := plot{
		title: load + ": latency by percentile", x: "percentile", y: "milliseconds", logY: true,
	}
	for _, q := range percentiles[:len(percentiles)-1] {
		p.ticks = append(p.ticks, tickMark{nines(q), fmt.Sprintf("%g", q)})
	}
	for _, r := range c.under(load) {
		l := line{name: r.System}
		for _, q := range percentiles[:len(percentiles)-1] {
			l.points = append(l.points, point{nines(q), milliseconds(r.Latency[fmt.Sprintf("p%g", q)])})
		}
		p.lines = append(p.lines, l)
	}
	return p
}

// nines spreads the percentiles so that each further nine takes as much room.
func nines(percentile float64) float64 { return -math.Log10(1 - percentile/100) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// processors is what a unit takes of the processors, by process, of the last round.
func (c Comparison) processors(load string) plot {
	p := plot{title: load + ": processor time of a unit, by process", x: "µs", bars: true}
	parts := map[string]int{}
	for _, r := range c.under(load) {
		last := r.last()
		if last.UnitRate == 0 {
			continue
		}
		row := float64(len(p.ticks))
		p.ticks = append(p.ticks, tickMark{row, r.System})
		add := func(part string, cores float64) {
			at, known := parts[part]
			if !known {
				at = len(p.lines)
				parts[part] = at
				p.lines = append(p.lines, line{name: part})
			}
			p.lines[at].points = append(p.lines[at].points, point{1e6 * cores / last.UnitRate, row})
		}
		for _, used := range last.Used {
			add(used.Name, used.Cores)
		}
		add("generator", last.GeneratorCores)
	}
	return p
}

// overTime is the rate of the last round, and p99 of its open loop where there was one.
func (c Comparison) overTime(load string) []plot {
	rate := plot{
		title: load + ": rate over the time of the last round", x: "seconds", y: "requests a second",
	}
	latency := plot{
		title: load + ": p99 over the time of the last round", x: "seconds", y: "milliseconds",
		logY: true,
	}
	for _, r := range c.under(load) {
		closed := r.last()
		open := closed
		if closed.Open != nil {
			open = *closed.Open
		}
		rate.draw(r.System, closed, func(m Moment) float64 {
			return float64(m.Requests) * float64(len(closed.Timeline)) / closed.Elapsed.Seconds()
		})
		latency.draw(r.System, open, func(m Moment) float64 { return milliseconds(m.P99) })
	}
	return []plot{rate, latency}
}

// draw adds a line over the time, and marks what happened.
func (p *plot) draw(name string, r Report, of func(Moment) float64) {
	l := line{name: name}
	for _, m := range r.Timeline {
		if m.Requests > 0 || !p.logY {
			l.points = append(l.points, point{m.At.Seconds(), of(m)})
		}
	}
	p.lines = append(p.lines, l)
	for _, f := range r.Faults {
		p.marks = append(p.marks, tickMark{f.At.Seconds(), f.What})
	}
}

func (c Comparison) overRate(scenario Scenario) []plot {
	rate := plot{
		title: string(scenario) + ": answered over offered", x: "requests offered a second",
		y: "units a second",
	}
	latency := plot{
		title: string(scenario) + ": p99 over offered", x: "requests offered a second",
		y: "milliseconds", logY: true,
	}
	lines := map[string]int{}
	for _, r := range c.Results {
		if r.Scenario != scenario || r.Offered == 0 {
			continue
		}
		at, known := lines[r.System]
		if !known {
			at = len(rate.lines)
			lines[r.System] = at
			rate.lines = append(rate.lines, line{name: r.System})
			latency.lines = append(latency.lines, line{name: r.System})
		}
		x := float64(r.Offered)
		rate.lines[at].points = append(rate.lines[at].points, point{x, r.Rate})
		latency.lines[at].points = append(latency.lines[at].points,
			point{x, milliseconds(r.Latency["p99"])})
	}
	return []plot{rate, latency}
}
