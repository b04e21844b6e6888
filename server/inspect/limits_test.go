package inspect_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/inspecttest"
	"tollgate/server/inspect"
	"tollgate/server/inspect/collect"
	"tollgate/server/inspect/document"
	"tollgate/server/inspect/evaluate"
	"tollgate/server/inspect/extract"
	"tollgate/server/provider/fetch"
)

// prose is a page's worth of words about nothing.
var prose = strings.Repeat("All of this is about nothing at all. ", 20)

// played inspects a site that is written as recorded ones are, with a home page of so much text
// that what it does not speak of is known to be missing.
func played(t *testing.T, sections string) *document.Document {
	t.Helper()
	return inspected(t, parsed(t, "=== "+home+"\n200 text/html\n\n<html><body>"+prose+"</body></html>\n"+sections))
}

func parsed(t *testing.T, text string) *inspecttest.Site {
	t.Helper()
	site, err := inspecttest.Parse(text)
	require.NoError(t, err)
	return site
}

// limitsOf are the codes of what a run could not do beyond what none can.
func limitsOf(d *document.Document) (codes []string) {
	for _, l := range d.Limits[3:] {
		codes = append(codes, l.Code)
	}
	return codes
}

// TestWhatIsLeftOutOfADescriptionIsSaid: one that would cost too much to read is read in part; then
// what its operations ask for is unknown, and limits and unknowns say it.
func TestWhatIsLeftOutOfADescriptionIsSaid(t *testing.T) {
	var yaml strings.Builder
	yaml.WriteString("openapi: 3.1.0\nx-all: &all\n")
	yaml.WriteString(strings.Repeat("- {in: query, name: a}\n", 1000))
	yaml.WriteString("paths:\n" + strings.Repeat("  /a: {get: {parameters: *all, security: []}}\n", 5000))
	d := played(t, "=== "+home+"openapi.yaml\n200 application/yaml\n\n"+yaml.String()+"\n")
	require.Equal(t, document.Yes, d.Interfaces.API.Verdict)
	require.Equal(t, document.RequirementUnknown, d.Required.Value)
	require.Equal(t, "operations_incomplete", d.Required.Rule)
	require.Equal(t, []string{"description_part", "description_lists"}, limitsOf(d))
	require.Contains(t, d.Limits[3].Reason, "more than 500000 steps")
	require.Contains(t, d.Limits[4].Reason, "more than 200 parameters")
	said := ""
	for _, u := range d.Unknowns {
		said += u.Field + " "
	}
	require.Contains(t, said, "authentication_requirement ")

	d = played(t, "=== "+home+"openapi.json\n200 application/json\n\n{\"openapi\":\"3.1.0\",\"paths\":{\n")
	require.Equal(t, []string{"description_unread"}, limitsOf(d))
}

// TestReadingHasATime: when it is over, the document says that answers were not read, and denies
// nothing.
func TestReadingHasATime(t *testing.T) {
	site, err := inspecttest.Read("testdata/sites/api_first.txt")
	require.NoError(t, err)
	c, err := collect.Run(t.Context(), collect.Config{Fetcher: site, Now: clock}, home, "run_1")
	require.NoError(t, err)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	d := evaluate.Evaluate(extract.Within(over, c), "run_1")
	require.NoError(t, document.Check(d, c.Holds))
	require.Contains(t, limitsOf(d), "reading_time")
	for _, e := range []*document.Evaluation{
		&d.Interfaces.Website, &d.Interfaces.MCP, &d.Interfaces.CLI, &d.Auth.Requirement,
		&d.Auth.Understandable, &d.Pricing.Determinable, &d.MachineAccess.Index,
	} {
		require.Equal(t, document.Unknown, e.Verdict, e.Rule)
	}
	require.Equal(t, document.RequirementUnknown, d.Required.Value)
}

// late is a site that there is no time left to ask for its last description.
type late struct{ *inspecttest.Site }

func (l late) Do(ctx context.Context, r *fetch.Request) (*fetch.Response, error) {
	if strings.HasSuffix(r.URL, "/swagger.json") {
		return nil, &fetch.Refusal{Rule: fetch.RuleBudget}
	}
	return l.Site.Do(ctx, r)
}

// TestADescriptionThatIsNotAskedForMayDiffer: what operations require is unknown where there was no
// time for one more place where a description would be.
func TestADescriptionThatIsNotAskedForMayDiffer(t *testing.T) {
	site := parsed(t, linking("")+open)
	require.Equal(t, document.RequirementNone, inspected(t, site).Required.Value)
	r, err := inspect.New(late{site}, clock).Inspect(t.Context(), home, "", "run_1")
	require.NoError(t, err)
	require.Equal(t, []string{"time_budget"}, limitsOf(r.Document))
	require.Equal(t, document.RequirementUnknown, r.Document.Required.Value)
}

// TestLimitsAreSaidOnce: what holds of many addresses alike is one entry, and of one kind there are
// not more than are listed.
func TestLimitsAreSaidOnce(t *testing.T) {
	var links strings.Builder
	for i := range 250 {
		fmt.Fprintf(&links, `<a href="https://other%d.example/openapi.json">OpenAPI</a>`, i)
	}
	d := inspected(t, parsed(t, linking(links.String())))
	var said []string
	for _, l := range d.Limits[3:] {
		said = append(said, l.Code+": "+l.Reason)
	}
	require.Equal(t, []string{
		"other_domains: 250 links were not followed: they leave the registrable domain.",
		"description_unread: An API description that obs_2 is or names was not read: it is on another " +
			"domain. (250 times)",
	}, said)
}
