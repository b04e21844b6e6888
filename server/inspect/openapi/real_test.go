package openapi_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"tollgate/server/inspect/document"
	"tollgate/server/inspect/openapi"
)

// counted counts the operations of a document by another way: plain maps. outside says that a path
// stands in another file, whose operations nobody counts here.
func counted(t *testing.T, text []byte) (operations int, outside, is bool) {
	t.Helper()
	var whole map[string]any
	if json.Unmarshal(text, &whole) != nil && yaml.Unmarshal(text, &whole) != nil {
		return 0, false, false
	}
	_, three := whole["openapi"]
	_, two := whole["swagger"]
	paths, _ := whole["paths"].(map[string]any)
	for _, item := range paths {
		methods, _ := item.(map[string]any)
		all := []map[string]any{methods}
		if reference, _ := methods["$ref"].(string); reference != "" {
			led := pointed(whole, reference)
			outside = outside || led == nil
			all = append(all, led)
		}
		for _, one := range all {
			for _, method := range []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"} {
				if one[method] != nil {
					operations++
				}
			}
		}
	}
	return operations, outside, three || two
}

// pointed is the map that a reference within the document leads to; nil where it leads elsewhere.
func pointed(whole map[string]any, reference string) map[string]any {
	path, within := strings.CutPrefix(reference, "#/")
	if !within {
		return nil
	}
	at := whole
	for _, step := range strings.Split(path, "/") {
		at, _ = at[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)].(map[string]any)
	}
	return at
}

// TestRealDocumentsAreReadWithoutLoss: the documents that kin-openapi is tested with, up to 1.5 MB,
// in JSON and YAML, of each version.
func TestRealDocumentsAreReadWithoutLoss(t *testing.T) {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/getkin/kin-openapi")
	folder, err := list.Output()
	require.NoError(t, err)
	documents, operations, elsewhere := 0, 0, 0
	root := strings.TrimSpace(string(folder))
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		switch filepath.Ext(path) {
		case ".json", ".yml", ".yaml":
		default:
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		want, outside, is := counted(t, text)
		if !is {
			return nil
		}
		d, err := openapi.Read(string(text))
		require.NoError(t, err, path)
		require.Len(t, d.Operations, want, path)
		require.Equal(t, outside, len(d.Incomplete) > 0, "%s: %v", path, d.Incomplete)
		require.Empty(t, d.LeftOut, path)
		require.Less(t, d.Work, openapi.MaxWork/10, path)
		for _, found := range append(d.Tags, d.Title, d.About, d.Format) {
			require.Contains(t, string(text), found.Quote, path)
		}
		documents, operations = documents+1, operations+want
		if outside {
			elsewhere++
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, documents, 80)
	require.Greater(t, operations, 250)
	require.Positive(t, elsewhere, "some have paths in other files")
}

// TestStripesDocumentIsReadWithoutLoss: 8 MB of JSON, nearly all of it schemas, in the memory that
// an inspection may take. A fetch takes 2 MiB: of a host's document that is larger it is said that
// it was not read.
func TestStripesDocumentIsReadWithoutLoss(t *testing.T) {
	download := exec.Command("go", "mod", "download", "-json", "github.com/stripe/stripe-mock@v0.203.0")
	download.Dir = t.TempDir()
	download.Env = append(os.Environ(), "GOFLAGS=")
	printed, err := download.Output()
	require.NoError(t, err)
	var module struct{ Dir string }
	require.NoError(t, json.Unmarshal(printed, &module))
	raw, err := os.ReadFile(filepath.Join(module.Dir, "embedded", "openapi", "spec3.json"))
	require.NoError(t, err)
	require.Greater(t, len(raw), 5<<20)
	want, outside, is := counted(t, raw)
	require.True(t, is)
	require.False(t, outside)
	text := string(raw)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d, err := openapi.Read(text)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Less(t, after.HeapInuse-min(before.HeapInuse, after.HeapInuse), uint64(40<<20))
	require.Len(t, d.Operations, want)
	require.Greater(t, want, 500)
	require.Empty(t, d.Incomplete)
	require.Empty(t, d.LeftOut)
	require.Less(t, d.Work, openapi.MaxWork/10)
	for i := range d.Operations {
		o := &d.Operations[i]
		require.Equal(t, document.RequirementRequired, o.Security.Value, o.Name())
		require.Equal(t, []string{"basicAuth", "bearerAuth"}, o.Security.Alone, o.Name())
		require.Contains(t, []string{"https://api.stripe.com/", "https://files.stripe.com/"}, o.Server)
		require.GreaterOrEqual(t, o.Given, strings.Count(o.Path, "{"), o.Name())
	}
}

// TestLeavingOutChangesNothing: what is left out of a document changes nothing that is read of it.
func TestLeavingOutChangesNothing(t *testing.T) {
	with := `{"openapi":"3.1.0","info":{"title":"definitions"},"tags":[{"name":"responses"}],
		"components":{"securitySchemes":{"schema":{"type":"http","scheme":"bearer"}},%s
		"parameters":{"p":{"in":"query","name":"q","required":true%s}},
		"pathItems":{"i":{"put":{"security":[{"schema":[]}]%s}}}},
		"paths":{"/definitions":{"get":{"parameters":[{"$ref":"#/components/parameters/p"},
		{"in":"query","name":"content","required":false%s}],"responses":{"404":{},"204":{}}%s},
		"parameters":[{"in":"header","name":"schema","required":true%s}]},
		"/i":{"$ref":"#/components/pathItems/i"}}}`
	plain, err := openapi.Read(fmt.Sprintf(with, "", "", "", "", "", ""))
	require.NoError(t, err)
	shape := `,"schema":{"type":"string"},"example":{"a":[1]}`
	full, err := openapi.Read(fmt.Sprintf(with, `"schemas":{"a":{"$ref":"#/b"}},"examples":{"x":{}},`, shape,
		`,"requestBody":{"content":{}},"responses":{"200":{"description":"x"}}`, shape,
		`,"callbacks":{"a":{}}`, shape))
	require.NoError(t, err)
	for i := range full.Operations {
		full.Operations[i].Quote, plain.Operations[i].Quote = "", ""
	}
	require.Equal(t, plain, full)
	require.Equal(t, 2, full.Operations[0].Given)
	require.Equal(t, 204, full.Operations[0].Success)
	require.Equal(t, document.RequirementRequired, full.Operations[1].Security.Value)
}

func TestWhatIsNoDescription(t *testing.T) {
	for _, text := range []string{`{"openapi":4}`, `{"info":{}}`, `[]`, "swagger: 1.2\n", `{"openapi":{}}`} {
		_, err := openapi.Read(text)
		require.ErrorIs(t, err, openapi.ErrNotOpenAPI, text)
	}
	_, err := openapi.Read("<!doctype html><html></html>")
	require.Error(t, err)
}

// TestOneBadOperationLosesNothingElse: what can be read is read, and what cannot is said.
func TestOneBadOperationLosesNothingElse(t *testing.T) {
	d, err := openapi.Read(`{"openapi":"3.0.0","info":[],"tags":[1,{"name":"a"},{"name":7}],
		"components":{"securitySchemes":[]},"paths":{"/a":{"get":7,"post":{"tags":"x","summary":{}}},
		"/b":{"get":{"tags":["b",null,"a"],"operationId":"b"},"parameters":"?"}}}`)
	require.NoError(t, err)
	require.Len(t, d.Operations, 3)
	require.Equal(t, []string{"operation GET /a is not an object"}, d.Incomplete)
	require.Equal(t, "GET /b", d.Operations[2].Name())
	require.Len(t, d.Tags, 3)
	require.Equal(t, "7", d.Tags[1].Value)

	many := `{"openapi":"3.0.0","paths":{` + strings.Repeat(`"/a":{"get":{}},`, openapi.MaxOperations) +
		`"/b":{"get":{}}}}`
	d, err = openapi.Read(many)
	require.NoError(t, err)
	require.Len(t, d.Operations, openapi.MaxOperations)
	require.Len(t, d.Incomplete, 1)
}

func FuzzRead(f *testing.F) {
	f.Add(spec(`[{"key":[]}]`, `[{}]`))
	f.Add("swagger: 2.0\npaths: &p\n  /x: *p\n")
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := openapi.Read(text); err == nil {
			for _, o := range d.Operations {
				require.NotEmpty(t, o.Security.Rule)
			}
		}
	})
}
