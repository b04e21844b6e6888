package openapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/inspect/document"
	"tollgate/server/inspect/openapi"
)

// maximum is what a fetch takes of a document.
const maximum = 2 << 20

// shared is a YAML document of most bytes or less whose operations all have what one anchor holds:
// a list of so many items, or a map of so many names, under a key.
func shared(key, item string, items int, rest string) string {
	var b strings.Builder
	b.WriteString("openapi: 3.1.0\n" + rest + "x-all: &all\n")
	for i := range items {
		fmt.Fprintf(&b, "  "+item+"\n", i)
	}
	b.WriteString("paths:\n")
	for i := range 5000 {
		fmt.Fprintf(&b, "  /p%d: {get: {%s: *all}}\n", i, key)
	}
	return b.String()
}

// hostile are documents that name little and share it often; says is what is said of each.
var hostile = map[string]struct{ text, says string }{
	"parameters": {
		shared("parameters", "- {in: query, name: n%d, required: true}", 20_000, ""),
		"operations with more than 200 parameters",
	},
	"alternatives": {
		shared("security", "- {key: [], k%d: []}", 10_000, "components: {securitySchemes: {key: {type: http}}}\n"),
		"reading it takes more than 500000 steps",
	},
	"responses": {
		shared("responses", "5%05d: {}", 40_000, ""), "reading it takes more than 500000 steps",
	},
	"parameters of paths": {
		strings.ReplaceAll(shared("x", "- {in: query, name: n%d}", 20_000, ""), "get: {x: *all}", "parameters: *all"),
		"reading it takes more than 500000 steps",
	},
	"references": {
		shared("parameters", "- {$ref: '#/components/parameters/p%d'}", 200, "components:\n  parameters:\n"+
			many("    p%d:\n", 100_000)),
		"reading it takes more than 500000 steps",
	},
	"a long name": {
		`{"openapi":"3.1.0","components":{"pathItems":{"i":{"get":{"security":[{"` +
			strings.Repeat("k", maximum/2) + `":[]}]}}}},"paths":{` +
			many(`"/p%d":{"$ref":"#/components/pathItems/i"},`, 5000) + `"/":{}}}`,
		"reading it takes more than 500000 steps",
	},
	"a long reference": {
		shared("parameters", "- {$ref: '#/"+strings.Repeat("k/", maximum/4)+"%d'}", 1, ""),
		"reading it takes more than 500000 steps",
	},
}

func many(line string, times int) string {
	var b strings.Builder
	for i := range times {
		fmt.Fprintf(&b, line, i)
	}
	return b.String()
}

// read reads a document, and does not wait forever: what costs too much is to fail, not to hang.
func read(t *testing.T, text string) *openapi.Description {
	t.Helper()
	type result struct {
		d   *openapi.Description
		err error
	}
	done := make(chan result, 1)
	go func() {
		d, err := openapi.Read(text)
		done <- result{d, err}
	}()
	select {
	case r := <-done:
		require.NoError(t, r.err)
		return r.d
	case <-time.After(time.Minute):
		require.Fail(t, "reading it does not end")
		return nil
	}
}

// TestWorkIsBounded: a document costs so many steps, whatever it shares, and says what was not
// read for that. Operations that were not read make the whole unknown.
func TestWorkIsBounded(t *testing.T) {
	for name, c := range hostile {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, len(c.text), maximum)
			d := read(t, c.text)
			require.Contains(t, append(d.Incomplete, d.LeftOut...), c.says)
			require.LessOrEqual(t, d.Work, openapi.MaxWork)
			var values []document.Requirement
			for i := range d.Operations {
				o := &d.Operations[i]
				values = append(values, o.Security.Value)
				require.LessOrEqual(t, o.Given, openapi.MaxParameters+1)
				require.LessOrEqual(t, len(o.Security.Names), openapi.MaxAlternatives)
				require.LessOrEqual(t, len(o.Security.Alone), openapi.MaxAlternatives)
			}
			whole, _, _ := openapi.Combine(values, len(d.Incomplete) == 0)
			require.Equal(t, document.RequirementUnknown, whole)
		})
	}
}

// TestOneOperationIsBounded: of one operation so many parameters and alternatives are read; more
// parameters leave what it asks for known, more alternatives do not.
func TestOneOperationIsBounded(t *testing.T) {
	with := func(n int) *openapi.Operation {
		d := read(t, "openapi: 3.1.0\ncomponents: {securitySchemes: {key: {type: http}}}\npaths:\n  /a:\n    get:\n"+
			"      security:\n"+strings.Repeat("      - key: []\n", n)+
			"      parameters:\n"+many("      - {in: query, name: n%d, required: false}\n", n))
		require.Len(t, d.Operations, 1)
		require.Empty(t, d.Incomplete)
		return &d.Operations[0]
	}
	o := with(openapi.MaxParameters)
	require.Equal(t, document.RequirementRequired, o.Security.Value)
	require.Zero(t, o.Given)
	o = with(openapi.MaxParameters + 1)
	require.Equal(t, document.RequirementUnknown, o.Security.Value)
	require.Equal(t, "operation_security_large", o.Security.Rule)
	require.Equal(t, 1, o.Given, "one that was not read may have to be given")
}

// TestAddressesDoNotGrow: variables are filled in once, and what is longer than is read is nowhere.
func TestAddressesDoNotGrow(t *testing.T) {
	at := func(document string) string {
		d := read(t, document)
		return d.Operations[0].Address("https://acme.example/openapi.json")
	}
	const get = `,"paths":{"/a":{"get":{}}}}`
	laughs := `{"openapi":"3.1.0","servers":[{"url":"https://{a}","variables":{"a":{"default":"` +
		strings.Repeat("{b}", 20) + `"},"b":{"default":"` + strings.Repeat("{c}", 20) + `"}}}]` + get
	require.Empty(t, at(laughs))
	require.Empty(t, at(`{"openapi":"3.1.0","servers":[{"url":"/`+strings.Repeat("a", 300)+`"}]`+get))
	require.Empty(t, at(`{"swagger":"2.0","host":"`+strings.Repeat("a", 300)+`"`+get))
	require.Empty(t, at(`{"openapi":"3.1.0","paths":{"/`+strings.Repeat("a", 300)+`":{"get":{}}}}`))
	require.Empty(t, at(`{"openapi":"3.1.0","servers":[{"url":"/{none}"}]`+get))
	require.Equal(t, "https://acme.example/v1/a", at(`{"openapi":"3.1.0","servers":[{"url":"/{v}{w}",`+
		`"variables":{"v":{"default":"v1"},"w":{"default":""}}}]`+get))
}
