package deploy_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
)

// rules are the alerts, read as Prometheus reads them.
func rules(t *testing.T) (all []rulefmt.Rule) {
	t.Helper()
	text, err := os.ReadFile("prometheus/alerts.yaml")
	require.NoError(t, err)
	groups, problems := rulefmt.Parse(text, false, model.UTF8Validation)
	require.Empty(t, problems)
	for _, g := range groups.Groups {
		all = append(all, g.Rules...)
	}
	require.Greater(t, len(all), 30)
	return all
}

// What an alert means and what to do is under its name in the operator's handbook, and nothing else
// is there.
func TestAlertsAreExplained(t *testing.T) {
	text, err := os.ReadFile("../cluster/OPERATIONS.md")
	require.NoError(t, err)
	_, chapter, found := strings.Cut(string(text), "\n## Alerts\n")
	require.True(t, found)
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	explained := map[string]string{}
	for _, section := range strings.Split("\n"+chapter, "\n### ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		require.NotContains(t, explained, name)
		explained[name] = body
	}
	severities := map[string]bool{"page": true, "ticket": true}
	for _, r := range rules(t) {
		require.Contains(t, explained, r.Alert)
		require.Greater(t, len(explained[r.Alert]), 100, r.Alert)
		require.Equal(t, "{{ $externalLabels.tollgate }}"+alertsPage+"#"+strings.ToLower(r.Alert),
			r.Annotations["runbook_url"])
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.True(t, severities[r.Labels["severity"]], r.Alert)
		delete(explained, r.Alert)
	}
	require.Empty(t, explained)
}

// alertsPage is where every node explains the alerts.
const alertsPage = "/docs/operate/alerts"

// TestRunbooksOpen: the link of each alert leads to its section on a live node.
func TestRunbooksOpen(t *testing.T) {
	tr := running(t)
	answer, err := http.Get("http://" + tr.address["node1"] + ":8080" + alertsPage)
	require.NoError(t, err)
	page, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	for _, r := range rules(t) {
		_, anchor, found := strings.Cut(r.Annotations["runbook_url"], alertsPage+"#")
		require.True(t, found, r.Alert)
		require.Contains(t, string(page), ` id="`+anchor+`"`, r.Alert)
	}
}

// sample is one value at a time, in milliseconds.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// seriesSet hands out series one after the other.
type seriesSet struct {
	rest []storage.Series
	now  storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.rest) == 0 {
		return false
	}
	s.now, s.rest = s.rest[0], s.rest[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return s.now }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// scraped holds a few scrapes, which Prometheus' own engine queries.
type scraped []storage.Series

func (s scraped) Querier(int64, int64) (storage.Querier, error) { return s, nil }

func (s scraped) Select(
	_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher,
) storage.SeriesSet {
	var found seriesSet
	for _, series := range s {
		fits := func(m *labels.Matcher) bool { return m.Matches(series.Labels().Get(m.Name)) }
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !fits(m) }) {
			found.rest = append(found.rest, series)
		}
	}
	return &found
}

func (scraped) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher,
) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (scraped) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher,
) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (scraped) Close() error { return nil }

// scrape reads series in the notation of Prometheus' own tests, `name{label="x"} 0+1x9`, a step
// apart. Without an instance it is of node "a", without a job of the cluster "tollgate".
func scrape(t *testing.T, lines []string, step time.Duration) (s scraped, last time.Time) {
	t.Helper()
	for _, line := range lines {
		name, values, err := parser.ParseSeriesDesc(line)
		require.NoError(t, err, line)
		b := labels.NewBuilder(name)
		if name.Get("job") == "" {
			b.Set("job", "tollgate")
		}
		if name.Get("instance") == "" {
			b.Set("instance", "a")
		}
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, sample{int64(i) * step.Milliseconds(), v.Value})
			}
		}
		s = append(s, storage.NewListSeries(b.Labels(), samples))
		last = time.UnixMilli(int64(len(values)-1) * step.Milliseconds())
	}
	return s, last
}

// firing reports whether an alert fires at the end of the scrapes: its expression held, for the
// same labels, at every step of its time.
func firing(t *testing.T, r rulefmt.Rule, lines []string, step time.Duration) bool {
	t.Helper()
	data, now := scrape(t, lines, step)
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1_000_000, Timeout: patience, LookbackDelta: max(5*time.Minute, 2*step),
	})
	defer func() { require.NoError(t, engine.Close()) }()
	var holds map[string]bool
	begin := now.Add(-time.Duration(r.For))
	require.False(t, begin.Before(time.UnixMilli(0)), "%s: the case is shorter than the rule's time", r.Alert)
	for at := begin; !at.After(now); at = at.Add(step) {
		query, err := engine.NewInstantQuery(t.Context(), data, nil, r.Expr, at)
		require.NoError(t, err)
		result := query.Exec(t.Context())
		require.NoError(t, result.Err, r.Alert)
		vector, err := result.Vector()
		require.NoError(t, err)
		present := map[string]bool{}
		for _, point := range vector {
			present[point.Metric.String()] = true
		}
		query.Close()
		if holds == nil {
			holds = present
		}
		maps.DeleteFunc(holds, func(name string, _ bool) bool { return !present[name] })
	}
	return len(holds) > 0
}

// alertCase has series on which an alert must fire, and similar ones on which it must not.
type alertCase struct {
	fires, quiet []string
	step         time.Duration // of the series; 0: 15 s
}

func TestAlertsFireAndKeepQuiet(t *testing.T) {
	cases := alertCases()
	for _, r := range rules(t) {
		c, known := cases[r.Alert]
		require.True(t, known, "%s has no case", r.Alert)
		if c.step == 0 {
			c.step = 15 * time.Second
		}
		require.True(t, firing(t, r, c.fires, c.step), "%s does not fire", r.Alert)
		require.False(t, firing(t, r, c.quiet, c.step), "%s fires", r.Alert)
		delete(cases, r.Alert)
	}
	require.Empty(t, cases)
}

// selectors are what an expression asks for, and the labels that it goes by.
func selectors(t *testing.T, expression string) (all []*parser.VectorSelector, by []string) {
	t.Helper()
	parsed, err := parser.ParseExpr(expression)
	require.NoError(t, err, expression)
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			all = append(all, n)
		case *parser.AggregateExpr:
			require.False(t, n.Without, expression)
			by = append(by, n.Grouping...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				by = append(by, n.VectorMatching.MatchingLabels...)
			}
		}
		return nil
	})
	require.NotEmpty(t, all, expression)
	return all, by
}

// given are labels that Prometheus puts onto every series, and the bounds of histograms.
var given = map[string]bool{"job": true, "instance": true, "le": true, "quantile": true}

// asked finds each metric of an expression among those of live nodes, whose labels it gives, and
// returns the missing ones.
func asked(t *testing.T, expression string, live map[string]map[string]bool) (missing []string) {
	t.Helper()
	all, by := selectors(t, expression)
	known := maps.Clone(given)
	for _, s := range all {
		var own map[string]bool
		for _, m := range s.LabelMatchers {
			if m.Name != model.MetricNameLabel {
				continue
			}
			for name, has := range live {
				if m.Matches(name) {
					own = has
				}
			}
			if own == nil {
				missing = append(missing, m.Value)
			}
		}
		maps.Copy(known, own)
		for _, m := range s.LabelMatchers {
			if own != nil && m.Name != model.MetricNameLabel && !own[m.Name] && !given[m.Name] {
				missing = append(missing, m.Name+" of "+s.String())
			}
		}
	}
	for _, label := range by {
		if len(missing) == 0 && !known[label] {
			missing = append(missing, label+" in "+expression)
		}
	}
	return missing
}

// Every metric that an alert or the dashboard asks for is shown by nodes of a live cluster, with
// the labels that it is asked by.
func TestAlertsAndDashboardAskForWhatNodesShow(t *testing.T) {
	tr := running(t)
	var expressions []string
	for _, r := range rules(t) {
		expressions = append(expressions, r.Expr)
	}
	expressions = append(expressions, queries(t)...)
	var missing []string
	for end := time.Now().Add(patience); ; { // some are there once something was counted
		live := tr.metrics(t)
		live["up"] = map[string]bool{} // Prometheus' own
		missing = nil
		for _, e := range expressions {
			missing = append(missing, asked(t, e, live)...)
		}
		if len(missing) == 0 || time.Now().After(end) {
			break
		}
	}
	require.Empty(t, missing, "no node shows")
}
