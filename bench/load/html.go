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

// HTML writes the comparison as one page that needs nothing else: tables, and plots of the
// latency's percentiles, of throughput and latency over the offered rate, and of latency over the
// time with the faults marked.
func (c Comparison) HTML(out io.Writer) error {
	var text strings.Builder
	if err := c.Print(&text); err != nil {
		return err
	}
	page := struct {
		Title, Text string
		Plots       []html.HTML
	}{"tollgate-bench, " + c.Environment.At.Format(time.DateTime), text.String(), nil}
	for _, p := range c.plots() {
		page.Plots = append(page.Plots, p.svg())
	}
	if err := reportTemplate.Execute(out, page); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// HTML writes the report as such a page.
func (r Report) HTML(out io.Writer) error {
	environment, err := Surroundings()
	if err != nil {
		return err
	}
	results := []Result{result(r.System, r.Config, []Report{r})}
	relate(results)
	return Comparison{Environment: environment, Results: results}.HTML(out)
}

// plots are one of the percentiles and one over the time for each load, and two for each scenario
// that was measured at several rates.
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
		all = append(all, c.percentiles(load), c.overTime(load))
	}
	return all
}

func (c Comparison) percentiles(load string) plot {
	p := plot{
		title: load + ": latency by percentile", x: "percentile", y: "milliseconds", logY: true,
	}
	for _, q := range percentiles[:len(percentiles)-1] {
		p.ticks = append(p.ticks, tickMark{nines(q), fmt.Sprintf("%g", q)})
	}
	for _, r := range c.Results {
		if r.load() != load {
			continue
		}
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

func (c Comparison) overTime(load string) plot {
	p := plot{
		title: load + ": p99 over the time of the last round", x: "seconds", y: "milliseconds",
		logY: true,
	}
	for _, r := range c.Results {
		if r.load() != load {
			continue
		}
		last := r.Rounds[len(r.Rounds)-1]
		l := line{name: r.System}
		for _, m := range last.Timeline {
			if m.Requests > 0 {
				l.points = append(l.points, point{m.At.Seconds(), milliseconds(m.P99)})
			}
		}
		p.lines = append(p.lines, l)
		for _, f := range last.Faults {
			p.marks = append(p.marks, tickMark{f.At.Seconds(), f.What})
		}
	}
	return p
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
