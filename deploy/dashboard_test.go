package deploy_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// dashboard is the part of Grafana's format that ours uses. Grafana drops unknown fields silently,
// so they are refused here.
type dashboard struct {
	UID           string         `json:"uid"`
	Title         string         `json:"title"`
	Description   string         `json:"description"`
	Tags          []string       `json:"tags"`
	SchemaVersion int            `json:"schemaVersion"`
	Version       int            `json:"version"`
	Editable      bool           `json:"editable"`
	GraphTooltip  int            `json:"graphTooltip"`
	Timezone      string         `json:"timezone"`
	Refresh       string         `json:"refresh"`
	Time          map[string]any `json:"time"`
	Annotations   struct {
		List []struct {
			Name        string     `json:"name"`
			Datasource  datasource `json:"datasource"`
			Enable      bool       `json:"enable"`
			IconColor   string     `json:"iconColor"`
			Expr        string     `json:"expr"`
			TitleFormat string     `json:"titleFormat"`
			TextFormat  string     `json:"textFormat"`
		} `json:"list"`
	} `json:"annotations"`
	Templating struct {
		List []struct {
			Name       string         `json:"name"`
			Label      string         `json:"label"`
			Type       string         `json:"type"`
			Datasource *datasource    `json:"datasource"`
			Query      string         `json:"query"`
			Refresh    int            `json:"refresh"`
			Sort       int            `json:"sort"`
			Multi      bool           `json:"multi"`
			IncludeAll bool           `json:"includeAll"`
			AllValue   string         `json:"allValue"`
			Current    map[string]any `json:"current"`
		} `json:"list"`
	} `json:"templating"`
	Links  []any   `json:"links"`
	Panels []panel `json:"panels"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type panel struct {
	ID          int        `json:"id"`
	Type        string     `json:"type"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	Collapsed   bool       `json:"collapsed"`
	Datasource  datasource `json:"datasource"`
	GridPos     struct {
		H, W, X, Y int
	} `json:"gridPos"`
	FieldConfig struct {
		Defaults  map[string]any `json:"defaults"`
		Overrides []any          `json:"overrides"`
	} `json:"fieldConfig"`
	Options map[string]any `json:"options"`
	Targets []struct {
		RefID        string     `json:"refId"`
		Datasource   datasource `json:"datasource"`
		Expr         string     `json:"expr"`
		LegendFormat string     `json:"legendFormat"`
		EditorMode   string     `json:"editorMode"`
		Range        bool       `json:"range"`
	} `json:"targets"`
	Panels []panel `json:"panels"`
}

// dashboards are the files, with the number of panels that each has at least.
var dashboards = map[string]int{"tollgate": 30, "business": 10}

func readDashboard(t *testing.T, name string) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("grafana/" + name + ".json")
	require.NoError(t, err)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&d))
	return d
}

var variable = regexp.MustCompile(`\$\{?([a-zA-Z_]+)\}?`)

// filledIn puts values in place of the dashboard's variables, as Grafana does before it asks.
func (d dashboard) filledIn(t *testing.T, text string) string {
	t.Helper()
	values := map[string]string{"__rate_interval": "5m"}
	for _, v := range d.Templating.List {
		values[v.Name] = "x"
	}
	return variable.ReplaceAllStringFunc(text, func(found string) string {
		name := strings.Trim(found, "${}")
		require.Contains(t, values, name, "nothing sets %s", text)
		return values[name]
	})
}

// queries are what the dashboards ask Prometheus.
func queries(t *testing.T) (all []string) {
	t.Helper()
	for name := range dashboards {
		all = append(all, readDashboard(t, name).queries(t)...)
	}
	return all
}

func (d dashboard) queries(t *testing.T) (all []string) {
	t.Helper()
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, d.filledIn(t, target.Expr))
		}
	}
	for _, v := range d.Templating.List {
		if inner, ok := strings.CutPrefix(v.Query, "label_values("); ok {
			selector := inner[:strings.LastIndex(inner, ",")]
			all = append(all, d.filledIn(t, selector))
		}
	}
	return all
}

// Each dashboard is what Grafana loads: panels with an id and a place of their own, of a kind that
// it has, each with queries that it can name.
func TestDashboardsLoad(t *testing.T) {
	uids := map[string]bool{}
	for name, least := range dashboards {
		d := readDashboard(t, name)
		require.NotEmpty(t, d.UID)
		require.False(t, uids[d.UID], "two dashboards with one UID replace each other")
		uids[d.UID] = true
		d.loads(t, least)
	}
}

func (d dashboard) loads(t *testing.T, least int) {
	t.Helper()
	require.Equal(t, 41, d.SchemaVersion)
	ids := map[int]bool{}
	type place struct{ x, y int }
	taken := map[place]string{}
	require.Greater(t, len(d.Panels), least)
	for _, p := range d.Panels {
		require.Positive(t, p.ID, p.Title)
		require.False(t, ids[p.ID], "%s has the id of another", p.Title)
		ids[p.ID] = true
		require.Contains(t, []string{"row", "timeseries", "stat"}, p.Type, p.Title)
		require.NotEmpty(t, p.Title)
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Empty(t, taken[place{x, y}], "%s lies on another panel", p.Title)
				taken[place{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			require.Empty(t, p.Targets)
			continue
		}
		require.NotEmpty(t, p.Description, p.Title)
		require.NotEmpty(t, p.FieldConfig.Defaults["unit"], p.Title)
		require.Equal(t, datasource{"prometheus", "${datasource}"}, p.Datasource, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for i, target := range p.Targets {
			require.Equal(t, string(rune('A'+i)), target.RefID, p.Title)
			require.Equal(t, p.Datasource, target.Datasource, p.Title)
			selectors(t, d.filledIn(t, target.Expr))
			require.Contains(t, target.Expr, `job="$job"`, "%s mixes clusters", p.Title)
			require.NotContains(t, d.filledIn(t, target.LegendFormat), "$")
		}
	}
	for _, list := range d.Annotations.List {
		selectors(t, d.filledIn(t, list.Expr))
	}
	require.True(t, slices.IsSortedFunc(d.Panels, func(a, b panel) int {
		return a.GridPos.Y - b.GridPos.Y
	}), "Grafana reads panels from the top")
}
