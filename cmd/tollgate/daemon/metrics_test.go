package daemon

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// TestEveryMetricIsDocumented holds the table of metrics in cluster/OPERATIONS.md against what the
// nodes of a live cluster show: no row too many, none missing, each of the type and with the labels
// that it says.
func TestEveryMetricIsDocumented(t *testing.T) {
	wanted := documentedMetrics(t)
	n := startNodes(t, 3)
	for _, one := range n.all {
		n.get(one.settings.HTTP, "/api/v1/client/plans")
	}
	// What Raft counts of its peers, and the lease, are there once something was counted.
	live := map[string]string{}
	complete := func() bool {
		for name := range wanted {
			if _, shown := live[name]; !shown {
				return false
			}
		}
		return true
	}
	for end := time.Now().Add(patience); !complete() && time.Now().Before(end); {
		for _, one := range n.all {
			_, text := n.get(one.settings.Ops, "/metrics")
			maps.Copy(live, liveMetrics(t, text))
		}
	}
	require.Equal(t, wanted, live)
	showsWhatHappens(t, n)
}

// showsWhatHappens looks at some numbers of each node: they move, and they are the right way round.
func showsWhatHappens(t *testing.T, n *nodes) {
	settled := map[string]float64{
		"billing": 1, "workspace": 1, "ready": 3, "known": 6, "members": 9,
	}
	var seen map[string]float64
	for end := time.Now().Add(patience); !maps.Equal(settled, seen) && time.Now().Before(end); {
		seen = map[string]float64{}
		for _, one := range n.all {
			_, text := n.get(one.settings.Ops, "/metrics")
			for _, group := range []string{"billing", "workspace"} {
				label := `{group="` + group + `"}`
				seen[group] += metricOf(t, text, "tollgate_cluster_leader"+label)
				seen["known"] += metricOf(t, text, "tollgate_cluster_leader_known"+label)
			}
			seen["ready"] += metricOf(t, text, "tollgate_ready")
			seen["members"] += metricOf(t, text, "tollgate_members")
		}
	}
	require.Equal(t, settled, seen)
	for _, one := range n.all {
		_, text := n.get(one.settings.Ops, "/metrics")
		value := func(metric string) float64 { return metricOf(t, text, metric) }
		require.Positive(t, value(`tollgate_cluster_fsync_seconds_count{group="billing"}`))
		require.Positive(t, value(`tollgate_http_connections{listener="ops"}`))
		require.Positive(t, value(
			`tollgate_http_requests_total{api="client",operation="listPlans",status="401"}`))
		require.InDelta(t, float64(one.pairs["ops"].NotAfter().Unix()),
			value(`tollgate_certificate_expiry_timestamp_seconds{use="ops"}`), 0)
		require.Positive(t, value("tollgate_disk_free_bytes"))
	}
}

// metricOf is the value of one line, named as it stands there.
func metricOf(t *testing.T, text, metric string) float64 {
	for line := range strings.Lines(text) {
		if number, ok := strings.CutPrefix(line, metric+" "); ok {
			value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			require.NoError(t, err)
			return value
		}
	}
	require.Fail(t, "not shown: "+metric)
	return 0
}

// documentedMetrics reads the rows "| `name` | type | labels | … |" of the operator's handbook.
func documentedMetrics(t *testing.T) map[string]string {
	text, err := os.ReadFile("../../../cluster/OPERATIONS.md")
	require.NoError(t, err)
	rows := map[string]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 6 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`tollgate_") {
			continue
		}
		name := strings.Trim(cells[1], " `")
		require.NotContains(t, rows, name, "it appears twice")
		require.Greater(t, len(strings.TrimSpace(cells[4])), 10, "%s has no meaning", name)
		rows[name] = strings.TrimSpace(cells[2]) + " " + strings.TrimSpace(cells[3])
	}
	require.Greater(t, len(rows), 50, "the test must find the table")
	require.Contains(t, string(text), "`go_*`, `process_*`")
	return rows
}

// liveMetrics are the families of an answer of /metrics, each with its type and labels.
func liveMetrics(t *testing.T, text string) map[string]string {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	rows := map[string]string{}
	for name, family := range families {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		rows[name] = strings.ToLower(family.GetType().String()) + " " + labelsOf(family)
	}
	return rows
}

func labelsOf(family *dto.MetricFamily) string {
	var labels []string
	for _, m := range family.GetMetric() {
		for _, l := range m.GetLabel() {
			if !slices.Contains(labels, l.GetName()) {
				labels = append(labels, l.GetName())
			}
		}
	}
	slices.Sort(labels)
	return strings.Join(labels, ", ")
}
