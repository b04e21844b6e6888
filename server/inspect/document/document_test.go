package document_test

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"tollgate/server/inspect/document"
)

var update = flag.Bool("update", false, "rewrite the golden description")

func ruled(rule string, basedOn ...string) document.Evaluation {
	return document.Evaluation{
		Verdict: document.Yes, Reason: "because", Rule: rule, BasedOn: basedOn,
		Method: document.MethodRule,
	}
}

func whole() *document.Document {
	status, kind := 200, "text/html"
	evidence := document.Evidence{Obs: "obs_1", Quote: "<title>Acme"}
	return &document.Document{
		Schema:    document.Version,
		StartedAt: "2026-01-01T00:00:00.000Z", FinishedAt: "2026-01-01T00:00:01.000Z",
		Observations: []document.Observation{{
			ID: "obs_1", Role: "home", URL: "https://acme.example/", Status: &status,
			ContentType: &kind, DiscoveredVia: "root", FetchedAt: "2026-01-01T00:00:01.000Z",
		}},
		Product: document.Product{Name: document.Extracted("Acme", evidence)},
		Interfaces: document.Interfaces{
			Website: ruled("website_readable", "obs_1"), API: ruled("api"), MCP: ruled("mcp"),
			CLI: ruled("cli"),
		},
		Capabilities: []document.Capability{{
			Name: "x", Source: "openapi_tag", Evidence: []document.Evidence{evidence},
		}},
		Auth: document.Auth{Requirement: ruled("a"), Understandable: ruled("b")},
		Required: document.AuthRequired{
			Value: document.RequirementRequired, Rule: "r", BasedOn: []string{"obs_1"},
			Operations: []document.OpRequired{{
				Operation: "GET /x", Value: document.RequirementRequired, Source: "global",
				BasedOn: []string{"obs_1"}, SchemeNames: []string{"key"},
			}},
		},
		Pricing:       document.Pricing{Determinable: ruled("c")},
		MachineAccess: document.MachineAccess{CrawlersAllowed: ruled("d"), Index: ruled("e")},
	}
}

func holds(obs, quote string) bool {
	return obs == "obs_1" && strings.Contains("<html><title>Acme</title>", quote)
}

func TestADocumentCitesOnlyWhatWasObserved(t *testing.T) {
	require.NoError(t, document.Check(whole(), holds))
	for name, damage := range map[string]func(*document.Document){
		"evidence of an unknown observation": func(d *document.Document) {
			d.Product.Name.Evidence[0].Obs = "obs_2"
		},
		"a quote that does not stand there": func(d *document.Document) {
			d.Capabilities[0].Evidence[0].Quote = "Acme Inc"
		},
		"an empty quote":         func(d *document.Document) { d.Product.Name.Evidence[0].Quote = "" },
		"a fact without a place": func(d *document.Document) { d.Product.Name.Evidence = nil },
		"a verdict on nothing observed": func(d *document.Document) {
			d.Interfaces.Website.BasedOn = []string{"obs_9"}
		},
		"an operation on nothing observed": func(d *document.Document) {
			d.Required.Operations[0].BasedOn = []string{"obs_9"}
		},
		"two observations of one id": func(d *document.Document) {
			d.Observations = append(d.Observations, d.Observations[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := whole()
			damage(d)
			require.Error(t, document.Check(d, holds))
		})
	}
}

// TestTheSchemaIsTheDocument: a document validates against the published JSON Schema, one with a
// field more, a field less or a verdict of its own does not; and each field is described.
func TestTheSchemaIsTheDocument(t *testing.T) {
	description := document.Describe()
	text, err := description.Bytes()
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	schema := parsed.(map[string]any)["jsonSchema"]
	require.NoError(t, compiler.AddResource("mem:///interface", schema))
	compiled, err := compiler.Compile("mem:///interface")
	require.NoError(t, err)

	good, err := whole().Bytes()
	require.NoError(t, err)
	valid := func(text string) error {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		require.NoError(t, err)
		return compiled.Validate(value)
	}
	require.NoError(t, valid(string(good)))
	for _, change := range [][2]string{
		{`"verdict":"yes"`, `"verdict":"maybe"`},
		{`"schema":"svc/interface@1",`, ``},
		{`"schema":`, `"interpretation":"","schema":`},
		{`"status":200`, `"status":"200"`},
	} {
		bad := strings.Replace(string(good), change[0], change[1], 1)
		require.NotEqual(t, string(good), bad)
		require.Error(t, valid(bad), change)
	}
	for _, field := range description.Fields {
		require.NotEmpty(t, field.About, field.Path)
	}
}

// TestTheDescriptionStands: the description changes only on purpose: callers read it.
func TestTheDescriptionStands(t *testing.T) {
	var lines strings.Builder
	for _, f := range document.Describe().Fields {
		lines.WriteString(f.Path + " " + f.Type)
		if f.Nullable {
			lines.WriteString(" or null")
		}
		if len(f.Values) > 0 {
			lines.WriteString(" (" + strings.Join(f.Values, " ") + ")")
		}
		lines.WriteString("\n")
	}
	const path = "testdata/fields.txt"
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(lines.String()), 0o644))
	}
	golden, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(golden), lines.String())
}
