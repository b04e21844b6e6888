package inspect_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"tollgate/bench/inspecttest"
	"tollgate/server/inspect"
	"tollgate/server/inspect/collect"
	"tollgate/server/inspect/document"
	"tollgate/server/inspect/evaluate"
	"tollgate/server/inspect/extract"
	"tollgate/server/inspect/page"
	"tollgate/server/provider/fetch"
)

var update = flag.Bool("update", false, "rewrite the golden documents")

const home = "https://acme.example/"

func clock() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC) }

func inspected(t *testing.T, s *inspecttest.Site) *document.Document {
	t.Helper()
	r, err := inspect.New(s, clock).Inspect(t.Context(), home, "", "run_1")
	require.NoError(t, err)
	return r.Document
}

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(document.Describe().JSONSchema)
	require.NoError(t, err)
	parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("mem:///interface", parsed))
	compiled, err := compiler.Compile("mem:///interface")
	require.NoError(t, err)
	return compiled
}

// TestRecordedSites: each recorded site gives the document that is kept beside it, byte for byte,
// and again when it is inspected again; each document is what the JSON Schema says.
func TestRecordedSites(t *testing.T) {
	compiled := schema(t)
	paths, err := filepath.Glob("testdata/sites/*.txt")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(paths), 30)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			site, err := inspecttest.Read(path)
			require.NoError(t, err)
			text, err := inspected(t, site).Bytes()
			require.NoError(t, err)
			again, err := inspected(t, site).Bytes()
			require.NoError(t, err)
			require.Equal(t, string(text), string(again))

			value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
			require.NoError(t, err)
			require.NoError(t, compiled.Validate(value))

			shown := jsontext.Value(text)
			require.NoError(t, shown.Indent())
			golden := strings.TrimSuffix(path, ".txt") + ".json"
			if *update {
				require.NoError(t, os.WriteFile(golden, append(shown, '\n'), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), string(shown)+"\n")
		})
	}
}

// TestVerdicts says in one line what each recorded site comes to, by people's own judgement: the
// golden documents say it in full.
func TestVerdicts(t *testing.T) {
	for name, want := range map[string]string{
		"api_first":          "yes yes no yes | mixed partial yes | yes | yes yes",
		"spa":                "partial unknown unknown unknown | unknown unknown unknown | unknown | yes no",
		"docs_portal":        "yes yes no no | required yes yes | no | yes no",
		"marketplace":        "yes no no no | unknown unknown no | yes | yes no",
		"blocked":            "yes unknown unknown unknown | unknown unknown unknown | unknown | no no",
		"training_blocked":   "yes yes no no | none no yes | no | yes no",
		"mcp_only":           "yes no yes no | unknown unknown no | no | yes yes",
		"swagger2":           "yes yes unknown unknown | mixed partial partial | unknown | unknown no",
		"multi_spec":         "yes yes no no | unknown partial partial | no | yes no",
		"refused":            "unknown unknown unknown unknown | unknown unknown unknown | unknown | yes no",
		"oauth":              "yes no no no | unknown partial yes | no | yes no",
		"everything_answers": "yes yes no no | unknown unknown partial | partial | yes no",
		"half_read":          "yes unknown unknown unknown | unknown unknown unknown | unknown | yes no",
		"echo":               "yes no no no | unknown unknown no | no | yes no",
		"html_for_text":      "yes no no no | unknown unknown no | no | yes no",
		"hostile":            "yes partial unknown unknown | unknown unknown unknown | unknown | unknown unknown",
		"agent_card":         "yes no yes no | unknown unknown no | no | yes yes",
		"api_catalog":        "yes yes no no | required yes yes | no | yes yes",
		"broken_spec":        "yes yes no no | unknown partial partial | no | yes no",
		"cli_tool":           "yes no no yes | unknown unknown no | partial | yes yes",
		"contact_sales":      "yes partial no no | unknown unknown partial | no | partial no",
		"down":               "unknown unknown unknown unknown | unknown unknown unknown | unknown | yes unknown",
		"free_api":           "yes yes no no | none no yes | partial | yes no",
		"graphql":            "yes partial no no | unknown unknown partial | no | yes no",
		"json_ld_prices":     "yes no no no | unknown unknown no | yes | yes no",
		"large_spec":         "yes unknown unknown unknown | unknown unknown partial | unknown | yes no",
		"latin1":             "yes no no no | unknown unknown no | partial | yes no",
		"mislabelled":        "yes yes no no | required yes partial | no | yes yes",
		"openapi32":          "yes yes no no | required yes yes | no | yes no",
		"redirects":          "yes yes unknown unknown | required yes partial | unknown | yes unknown",
		"sitemap_only":       "yes unknown unknown unknown | unknown unknown unknown | yes | yes no",
		"yaml_spec":          "yes yes no no | mixed partial yes | no | yes no",
	} {
		t.Run(name, func(t *testing.T) {
			site, err := inspecttest.Read("testdata/sites/" + name + ".txt")
			require.NoError(t, err)
			d := inspected(t, site)
			i, a, m := &d.Interfaces, &d.Auth, &d.MachineAccess
			got := []string{
				string(i.Website.Verdict), string(i.API.Verdict), string(i.MCP.Verdict), string(i.CLI.Verdict),
				"|", string(d.Required.Value), string(a.Requirement.Verdict), string(a.Understandable.Verdict),
				"|", string(d.Pricing.Determinable.Verdict),
				"|", string(m.CrawlersAllowed.Verdict), string(m.Index.Verdict),
			}
			require.Equal(t, want, strings.Join(got, " "))
			for _, u := range d.Unknowns {
				require.NotEmpty(t, u.Reason, u.Field)
			}
		})
	}
}

func TestWhatIsNotInspected(t *testing.T) {
	for text, want := range map[string]error{
		"=== *\nfail network\n": inspect.ErrUnreachable, "=== *\nfail address\n": inspect.ErrForbidden,
	} {
		site, err := inspecttest.Parse(text)
		require.NoError(t, err)
		_, err = inspect.New(site, clock).Inspect(t.Context(), home, "", "run_1")
		require.ErrorIs(t, err, want)
	}
}

// TestLongTextsAreSearchedToABound: what stands behind it is not known, and that is said.
func TestLongTextsAreSearchedToABound(t *testing.T) {
	words := strings.Repeat("All of this is about nothing at all. ", 100) + "\n"
	// Without a time for reading: on a busy machine it would be over first.
	at := func(text string) *document.Document {
		site := parsed(t, "=== "+home+"\n200 text/html\n\n<html><body>"+words+
			"</body></html>\n=== "+home+"llms-full.txt\n200 text/plain\n\n# Acme\n"+text)
		config := collect.Config{Fetcher: site, Now: clock}
		collected, err := collect.Run(t.Context(), config, home, "run_1")
		require.NoError(t, err)
		return evaluate.Evaluate(extract.Within(t.Context(), collected), "run_1")
	}
	limits := func(d *document.Document) (codes []string) {
		for _, l := range d.Limits[3:] {
			codes = append(codes, l.Code)
		}
		return codes
	}
	last := "There is an MCP server.\n"
	d := at(words + last)
	require.Equal(t, document.Partial, d.Interfaces.MCP.Verdict)
	require.Empty(t, limits(d))
	d = at(strings.Repeat(words, page.MaxWords/len(words)+1) + last)
	require.Equal(t, document.Unknown, d.Interfaces.MCP.Verdict)
	require.Equal(t, []string{"text_size"}, limits(d))
}

// TestInspectionsTakeTurns: beyond what may run, one waits, asks for nothing, and gives up
// with its caller, or when no turn comes in time; one that has found its turn is carried out.
func TestInspectionsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := parsed(t, "=== "+home+"\n200 text/html\n\n<html>Acme</html>\n")
		var arrived atomic.Int32
		release := make(chan struct{})
		site.Before = func(string) {
			// Whoever had no turn to come here is let through, so that the test fails in time.
			if arrived.Add(1) <= 2*inspect.MaxCollecting {
				<-release
			}
		}
		inspector := inspect.New(site, clock)
		done := make(chan error, inspect.MaxCollecting)
		for range inspect.MaxCollecting {
			go func() {
				_, err := inspector.Inspect(t.Context(), home, "", "run_1")
				done <- err
			}()
		}
		synctest.Wait() // each has made its first two requests
		require.EqualValues(t, 2*inspect.MaxCollecting, arrived.Load())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := inspector.Inspect(ctx, home, "", "run_2")
		require.ErrorIs(t, err, context.Canceled)
		began := time.Now()
		_, err = inspector.Inspect(t.Context(), home, "", "run_3")
		require.ErrorIs(t, err, inspect.ErrBusy)
		require.Equal(t, inspect.MaxWait, time.Since(began))
		require.EqualValues(t, 2*inspect.MaxCollecting, arrived.Load(), "they asked for nothing")
		go func() {
			_, err := inspector.Inspect(t.Context(), home, "", "run_4")
			done <- err
		}()
		synctest.Wait()
		close(release)
		for range inspect.MaxCollecting + 1 {
			require.NoError(t, <-done)
		}
	})
}

// TestAnInspectionHasATime: what its parts may take comes to what an inspection may.
func TestAnInspectionHasATime(t *testing.T) {
	require.LessOrEqual(t, inspect.MaxTime, fetch.BudgetTime)
	require.Equal(t, inspect.MaxTime,
		inspect.MaxWait+collect.MaxTime+inspect.MaxReadWait+inspect.MaxReading)
}

// BenchmarkInspect is one inspection of the site that publishes most: 23 answers, 10 documents.
func BenchmarkInspect(b *testing.B) {
	site, err := inspecttest.Read("testdata/sites/api_first.txt")
	require.NoError(b, err)
	inspector := inspect.New(site, clock)
	b.ReportAllocs()
	before := spent(b)
	n := 0
	for ; b.Loop(); n++ {
		_, err = inspector.Inspect(b.Context(), home, "", "run_1")
		require.NoError(b, err)
	}
	b.ReportMetric((spent(b)-before).Seconds()*1e3/float64(n), "cpu-ms/inspection")
}
