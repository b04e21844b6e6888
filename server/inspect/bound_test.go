package inspect_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/inspecttest"
	"tollgate/server/inspect"
	"tollgate/server/inspect/document"
)

// noise is a text of so many signs that no compression makes much shorter.
func noise(seed string, length int) string {
	var text strings.Builder
	for i := 0; text.Len() < length; i++ {
		fmt.Fprintf(&text, "%x", sha256.Sum256(fmt.Append(nil, seed, i)))
	}
	return text.String()[:length]
}

// TestDocumentsAreBounded: whatever a host publishes, and however often it repeats a long name by
// naming it once, its document is far from what may be kept of one (1 MiB, compressed).
func TestDocumentsAreBounded(t *testing.T) {
	var text, schemes, names, paths strings.Builder
	put := func(path, kind, body string) {
		fmt.Fprintf(&text, "=== %s%s\n200 %s\n\n%s\n", home, path, kind, body)
	}
	for i := range 150 {
		name := noise(fmt.Sprint("scheme", i), 190)
		fmt.Fprintf(&schemes, `"%s":{"type":"apiKey","in":"%s","name":"%s"},`, name, name, noise(name, 2000))
		fmt.Fprintf(&names, `"%s":[],`, name)
	}
	for i := range 5000 {
		fmt.Fprintf(&paths, `"/%s":{"get":{"tags":["%s"]}},`, noise(fmt.Sprint(i), 90), noise(fmt.Sprint(-i), 90))
	}
	api := `{"openapi":"3.0.0","components":{"securitySchemes":{` + schemes.String() + `"z":{}}},` +
		`"security":[{` + strings.TrimSuffix(names.String(), ",") + `}],"paths":{` + paths.String() + `"/":{}}}`
	put("", "text/html", "<html><title>"+noise("title", 1<<20)+"</title>")
	put("openapi.json", "application/json", api)
	put("openapi.yaml", "application/json", api+" ")
	put("swagger.json", "application/json", api+"  ")
	put("llms.txt", "text/plain", "# "+noise("a", 1<<19)+"\n## "+noise("b", 1<<19)+"\n## c\n")
	put(".well-known/agent-card.json", "application/json",
		`{"name":"`+noise("n", 1<<19)+`","skills":[{"name":"`+noise("s", 1<<19)+`"}]}`)
	put("robots.txt", "text/plain", "User-agent: *\nAllow: /\n"+
		strings.Repeat("Sitemap: https://acme.example/"+noise("m", 100_000)+"\n", 10)+
		"Content-Signal: "+noise("i", 100_000)+"\n")
	site, err := inspecttest.Parse(text.String())
	require.NoError(t, err)
	r, err := inspect.New(site, clock).Inspect(t.Context(), home, "Find "+noise("task", 1990), "run_1")
	require.NoError(t, err)
	require.Equal(t, document.RequirementUnknown, r.Document.Required.Value)
	require.NotEmpty(t, r.Document.Required.Operations)
	whole, err := r.Document.Bytes()
	require.NoError(t, err)
	require.Less(t, len(whole), 2<<20)
	journey, err := r.Journey.Bytes()
	require.NoError(t, err)
	require.Less(t, len(journey), 1<<20)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write(whole)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.Less(t, packed.Len(), 200<<10)
}
