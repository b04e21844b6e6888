package openapi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/inspect/openapi"
)

func opened(t *testing.T, text string) *openapi.Source {
	t.Helper()
	s, err := openapi.Open(text)
	require.NoError(t, err)
	return s
}

// TestAddresses: where an operation is, by the servers of document, path and operation, relative to
// where the document was read.
func TestAddresses(t *testing.T) {
	const at = "https://docs.acme.example/specs/openapi.json"
	for text, wanted := range map[string]string{
		`{"openapi":"3.1.0","paths":{"/a":{"get":{}}}}`: "https://docs.acme.example/a",
		`{"openapi":"3.1.0","servers":[{"url":"."}],"paths":{"/a":{"get":{}}}}`: "https://" +
			"docs.acme.example/specs/a",
		`{"openapi":"3.1.0","servers":[{"url":"https://{r}.acme.example/{v}/","variables":` +
			`{"r":{"default":"eu"},"v":{"default":2}}}],"paths":{"/a":{"get":{}}}}`: "https://eu.acme.example/2/a",
		`{"openapi":"3.1.0","servers":[{"url":"/v1"}],"paths":{"/a":{"servers":[{"url":"/v2"}],` +
			`"get":{"servers":[{"url":"/v3"}]}}}}`: "https://docs.acme.example/v3/a",
		`{"swagger":"2.0","host":"api.acme.example","basePath":"/v1","schemes":["https"],` +
			`"paths":{"/a":{"get":{}}}}`: "https://api.acme.example/v1/a",
		`{"swagger":"2.0","basePath":"/v1","paths":{"/a":{"get":{}}}}`:          "https://docs.acme.example/v1/a",
		`{"openapi":"3.1.0","servers":[{"url":"%"}],"paths":{"/a":{"get":{}}}}`: "",
	} {
		s := opened(t, text)
		require.Equal(t, wanted, s.Operations[0].Address(at), text)
	}
}

// TestWhatAnOperationIsSent: bodies and parameters of both formats, references followed, JSON
// before other media types.
func TestWhatAnOperationIsSent(t *testing.T) {
	s := opened(t, `{"openapi":"3.1.0","paths":{"/a":{"parameters":[{"$ref":"#/components/parameters/q"}],
"post":{"operationId":"make","requestBody":{"$ref":"#/components/requestBodies/b"},
"responses":{"400":{"description":"x"},"201":{"content":{"application/json":{"schema":{"title":"made"}}}}}}}},
"components":{"parameters":{"q":{"name":"q","in":"query","required":true,"schema":{"type":"string"}}},
"requestBodies":{"b":{"content":{"text/plain":{},"application/json":{"schema":{"title":"sent"},
"examples":{"one":{"value":{"n":1}}}}}}}}}`)
	o := s.Named("make")
	require.NotNil(t, o)
	body, is := s.Body(o)
	require.True(t, is)
	require.Equal(t, "application/json", body.Media)
	require.Equal(t, "sent", body.Schema.TextOf("title"))
	require.Equal(t, "1", body.Example.Of("n").AsScalar())
	require.Len(t, s.Answers(o), 1)
	require.Equal(t, "made", s.Answers(o)[0].TextOf("title"))
	parameters := s.Parameters(o)
	require.Len(t, parameters, 1)
	require.True(t, parameters[0].Required)
	require.Equal(t, "query", parameters[0].In)

	s = opened(t, `{"swagger":"2.0","paths":{"/a":{"post":{"parameters":[
{"name":"x","in":"body","schema":{"title":"sent"}},{"name":"f","in":"formData","type":"string"}],
"responses":{"200":{"schema":{"title":"made"}}}}}}}`)
	o = &s.Operations[0]
	body, is = s.Body(o)
	require.True(t, is)
	require.Equal(t, "sent", body.Schema.TextOf("title"))
	require.Equal(t, "made", s.Answers(o)[0].TextOf("title"))
	require.Equal(t, "formData", s.Parameters(o)[0].In)
	require.Nil(t, s.Named("make"))
}
