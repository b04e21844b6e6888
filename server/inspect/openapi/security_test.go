package openapi_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/inspect/document"
	"tollgate/server/inspect/openapi"
)

const schemes = `"components":{"securitySchemes":{` +
	`"key":{"type":"apiKey","in":"header","name":"X-Key"},` +
	`"bearer":{"type":"http","scheme":"bearer"},"oauth":{"type":"oauth2"},` +
	`"tls":{"type":"mutualTLS"},"same":{"$ref":"#/components/securitySchemes/key"},` +
	`"out":{"$ref":"schemes.json#/key"},"loop":{"$ref":"#/components/securitySchemes/loop"},` +
	`"odd":{"type":"magic"},"bare":{},"text":"key"},` +
	`"pathItems":{"one":{"get":{"security":[{"key":[]}]}}}}`

// spec is a document of 3.1 with a global security (empty: none) and one GET /x with a security.
func spec(global, operation string) string {
	text := `{"openapi":"3.1.0",` + schemes
	if global != "" {
		text += `,"security":` + global
	}
	get := `{}`
	if operation != "" {
		get = `{"security":` + operation + `}`
	}
	return text + `,"paths":{"/x":{"get":` + get + `}}}`
}

// TestWhatAnOperationAsksFor has each case of the document and of the decisions.
func TestWhatAnOperationAsksFor(t *testing.T) {
	const none, required = document.RequirementNone, document.RequirementRequired
	const mixed = document.RequirementMixed
	const silent, unknown = document.RequirementNotDeclared, document.RequirementUnknown
	const swagger = `{"swagger":"2.0","securityDefinitions":{"b":{"type":"basic"},"k":{"type":"apiKey"}},`
	for name, c := range map[string]struct {
		text   string
		whole  document.Requirement
		first  document.Requirement
		source string
		names  string
	}{
		"nothing anywhere":                     {spec("", ""), silent, silent, "absent", ""},
		"empty global":                         {spec(`[]`, ""), silent, silent, "global", ""},
		"global required":                      {spec(`[{"key":[]}]`, ""), required, required, "global", "key"},
		"global anonymous":                     {spec(`[{}]`, ""), none, none, "global", ""},
		"global optional":                      {spec(`[{"key":[]},{}]`, ""), none, none, "global", "key"},
		"global unresolved":                    {spec(`[{"missing":[]}]`, ""), unknown, unknown, "global", "missing"},
		"global no list":                       {spec(`{"key":[]}`, ""), unknown, unknown, "global", ""},
		"global null":                          {spec(`null`, ""), unknown, unknown, "global", ""},
		"operation empty":                      {spec("", `[]`), none, none, "operation", ""},
		"operation empty over global":          {spec(`[{"key":[]}]`, `[]`), none, none, "operation", ""},
		"operation over unresolved global":     {spec(`[{"missing":[]}]`, `[{"key":[]}]`), required, required, "operation", "key"},
		"operation over anonymous global":      {spec(`[{}]`, `[{"key":[]}]`), required, required, "operation", "key"},
		"operation over empty global":          {spec(`[]`, `[{"key":[]}]`), required, required, "operation", "key"},
		"operation anonymous":                  {spec("", `[{}]`), none, none, "operation", ""},
		"operation optional":                   {spec("", `[{},{"key":[]}]`), none, none, "operation", "key"},
		"operation required":                   {spec("", `[{"key":[]}]`), required, required, "operation", "key"},
		"operation two alternatives":           {spec("", `[{"key":[]},{"bearer":[]}]`), required, required, "operation", "key bearer"},
		"operation two at once":                {spec("", `[{"key":[],"oauth":["a","b"]}]`), required, required, "operation", "key oauth"},
		"a scheme named twice":                 {spec("", `[{"key":[]},{"key":[],"tls":[]}]`), required, required, "operation", "key tls"},
		"operation unresolved":                 {spec("", `[{"missing":[]}]`), unknown, unknown, "operation", "missing"},
		"one alternative unresolved":           {spec("", `[{"key":[]},{"missing":[]}]`), unknown, unknown, "operation", "key missing"},
		"unresolved beside anonymous":          {spec("", `[{},{"missing":[]}]`), none, none, "operation", "missing"},
		"operation null":                       {spec("", `null`), unknown, unknown, "operation", ""},
		"operation null over global":           {spec(`[{"key":[]}]`, `null`), unknown, unknown, "operation", ""},
		"operation a text":                     {spec("", `"key"`), unknown, unknown, "operation", ""},
		"operation an object":                  {spec("", `{"key":[]}`), unknown, unknown, "operation", ""},
		"alternative a text":                   {spec("", `["key"]`), unknown, unknown, "operation", ""},
		"alternative null":                     {spec("", `[null]`), unknown, unknown, "operation", ""},
		"alternative a list":                   {spec("", `[[]]`), unknown, unknown, "operation", ""},
		"scopes a text":                        {spec("", `[{"key":"read"}]`), unknown, unknown, "operation", "key"},
		"scopes null":                          {spec("", `[{"key":null}]`), required, required, "operation", "key"},
		"scheme by reference":                  {spec("", `[{"same":[]}]`), required, required, "operation", "same"},
		"scheme of another file":               {spec("", `[{"out":[]}]`), unknown, unknown, "operation", "out"},
		"scheme in a circle":                   {spec("", `[{"loop":[]}]`), unknown, unknown, "operation", "loop"},
		"scheme of no known type":              {spec("", `[{"odd":[]}]`), unknown, unknown, "operation", "odd"},
		"scheme without a type":                {spec("", `[{"bare":[]}]`), unknown, unknown, "operation", "bare"},
		"scheme a text":                        {spec("", `[{"text":[]}]`), unknown, unknown, "operation", "text"},
		"scheme named by a reference":          {spec("", `[{"#/components/securitySchemes/tls":[]}]`), required, required, "operation", "#/components/securitySchemes/tls"},
		"operation no object":                  {`{"openapi":"3.0.3","paths":{"/x":{"get":"list"}}}`, unknown, unknown, "absent", ""},
		"operation is null":                    {`{"openapi":"3.0.3","paths":{"/x":{"get":null,"put":{"security":[]}}}}`, unknown, unknown, "absent", ""},
		"no operations":                        {`{"openapi":"3.1.0","paths":{}}`, unknown, "", "", ""},
		"only webhooks":                        {`{"openapi":"3.1.0","webhooks":{"x":{"post":{"security":[]}}}}`, unknown, "", "", ""},
		"paths a list":                         {`{"openapi":"3.1.0","paths":[]}`, unknown, "", "", ""},
		"path by reference":                    {`{"openapi":"3.1.0",` + schemes + `,"paths":{"/x":{"$ref":"#/components/pathItems/one"}}}`, required, required, "operation", "key"},
		"path of another file":                 {`{"openapi":"3.1.0",` + schemes + `,"paths":{"/a":{"get":{"security":[]}},"/x":{"$ref":"x.json"}}}`, unknown, none, "operation", ""},
		"path a text":                          {`{"openapi":"3.1.0","paths":{"/a":{"get":{"security":[]}},"/x":"y"}}`, unknown, none, "operation", ""},
		"path empty beside another":            {`{"openapi":"3.1.0","paths":{"/a":{"get":{"security":[]}},"/x":null,"x-y":1}}`, none, none, "operation", ""},
		"none and required":                    {`{"openapi":"3.1.0",` + schemes + `,"security":[{"key":[]}],"paths":{"/x":{"get":{"security":[]},"post":{}}}}`, mixed, none, "operation", ""},
		"required and silent":                  {`{"openapi":"3.1.0",` + schemes + `,"paths":{"/x":{"get":{"security":[{"key":[]}]},"post":{}}}}`, mixed, required, "operation", "key"},
		"one unknown among many":               {`{"openapi":"3.1.0",` + schemes + `,"paths":{"/x":{"get":{"security":[]},"post":{"security":"x"}}}}`, unknown, none, "operation", ""},
		"3.2 query and additional":             {`{"openapi":"3.2.0",` + schemes + `,"security":[{"key":[]}],"paths":{"/x":{"query":{},"additionalOperations":{"COPY":{}}}}}`, required, required, "global", "key"},
		"additional operations before 3.2":     {`{"openapi":"3.1.0","paths":{"/x":{"get":{"security":[]},"additionalOperations":{"COPY":{}}}}}`, none, none, "operation", ""},
		"Swagger global":                       {swagger + `"security":[{"b":[]}],"paths":{"/x":{"get":{}}}}`, required, required, "global", "b"},
		"Swagger operation empty":              {swagger + `"security":[{"b":[]}],"paths":{"/x":{"get":{"security":[]}}}}`, none, none, "operation", ""},
		"Swagger silent":                       {swagger + `"paths":{"/x":{"get":{}}}}`, silent, silent, "absent", ""},
		"Swagger reads no components":          {`{"swagger":2.0,` + schemes + `,"security":[{"key":[]}],"paths":{"/x":{"get":{}}}}`, unknown, unknown, "global", "key"},
		"YAML without lists of scopes":         {"openapi: 3.0.0\ncomponents:\n  securitySchemes:\n    k: {type: apiKey}\nsecurity:\n  - k:\npaths:\n  /x:\n    get: {}\n", required, required, "global", "k"},
		"YAML security left empty":             {"openapi: 3.0.0\npaths:\n  /x:\n    get:\n      security:\n", unknown, unknown, "operation", ""},
		"YAML alias":                           {"openapi: 3.0.0\ncomponents: {securitySchemes: {k: {type: http, scheme: basic}}}\npaths:\n  /x:\n    get: {security: &s [{k: []}]}\n    put: {security: *s}\n", required, required, "operation", "k"},
		"a name declared twice counts as last": {`{"openapi":"3.1.0","paths":{"/x":{"get":{"security":"x","security":[]}}}}`, none, none, "operation", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := openapi.Read(c.text)
			require.NoError(t, err)
			var values []document.Requirement
			for _, o := range d.Operations {
				values = append(values, o.Security.Value)
				require.NotEmpty(t, o.Security.Rule)
				require.NotEmpty(t, o.Security.Reason)
			}
			whole, _, _ := openapi.Combine(values, len(d.Incomplete) == 0)
			require.Equal(t, c.whole, whole, "%v %v", values, d.Incomplete)
			if c.first == "" {
				require.Empty(t, d.Operations)
				return
			}
			first := d.Operations[0].Security
			require.Equal(t, c.first, first.Value, first.Reason)
			require.Equal(t, c.source, first.Source)
			require.Equal(t, c.names, strings.Join(first.Names, " "))
		})
	}
}
