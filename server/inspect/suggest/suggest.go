// Package suggest finds, in what a product describes, a call that shows whether a key works: one
// that a saved test can be verified by. It is a pure function of the facts.
package suggest

import (
	"cmp"
	"slices"
	"strings"

	"tollgate/server/inspect/document"
	"tollgate/server/inspect/extract"
	"tollgate/server/inspect/openapi"
	"tollgate/server/provider/fetch"
)

// Test is a call: GET, without parameters, that needs a key.
type Test struct {
	// Operation is method and path as they are described; URL is where it is called.
	Operation string `json:"operation" rule:"min=1"`
	Method    string `json:"method" rule:"min=1"`
	URL       string `json:"url" rule:"min=1"`
	// Status is what it answers to a good key.
	Status int `json:"status" rule:"min=100,max=599"`
	// Credential is how a saved test names the way in which the key is sent.
	Credential string              `json:"credential" rule:"oneof=bearer|x-api-key"`
	Evidence   []document.Evidence `json:"evidence"`
}

// Why there is no test.
const (
	NoOpenAPI    = "no_openapi"
	NoKey        = "no_operation_with_key"
	NoCredential = "no_supported_credential"
	NoPlainGet   = "no_get_without_parameters"
	NoServer     = "no_server_of_this_site"
)

// Suggestion is a test, or why there is none.
type Suggestion struct {
	Test   *Test   `json:"suggestedTest" rule:"null"`
	Reason *string `json:"reason" rule:"null,min=1"`
}

// ends are the ends of paths that most often say who asks, the best first.
var ends = []string{"/me", "/account", "/user"}

// Suggest looks through the descriptions in their order. Of the calls of one description those come
// first whose path ends as one does that says who asks, then the shortest.
func Suggest(f *extract.Facts) Suggestion {
	reasons := []string{NoOpenAPI, NoPlainGet, NoKey, NoCredential, NoServer}
	best := 0
	for _, api := range f.APIs {
		var fitting []*openapi.Operation
		for i := range api.Operations {
			if o := &api.Operations[i]; o.Method == "GET" && o.Given == 0 {
				fitting = append(fitting, o)
			}
			best = max(best, 1)
		}
		slices.SortStableFunc(fitting, func(a, b *openapi.Operation) int {
			return cmp.Or(cmp.Compare(rank(a.Path), rank(b.Path)),
				cmp.Compare(len(a.Path), len(b.Path)), cmp.Compare(a.Path, b.Path))
		})
		for _, o := range fitting {
			t, reached := testOf(f, &api, o)
			if t != nil {
				return Suggestion{Test: t}
			}
			best = max(best, reached)
		}
	}
	return Suggestion{Reason: &reasons[best]}
}

func rank(path string) int {
	for i, end := range ends {
		if strings.HasSuffix(strings.TrimSuffix(path, "/"), end) {
			return i
		}
	}
	return len(ends)
}

// testOf makes a test of an operation; nil where it cannot be one, with how far it came.
func testOf(f *extract.Facts, api *extract.API, o *openapi.Operation) (t *Test, reached int) {
	if o.Security.Value != document.RequirementRequired {
		return nil, 2
	}
	credential := credentialOf(api, o)
	if credential == "" {
		return nil, 3
	}
	address := o.Address(api.URL)
	if !fetch.SameSite(address, f.Target.URL) {
		return nil, 4
	}
	return &Test{
		Operation: o.Name(), Method: o.Method, URL: address, Status: o.Success, Credential: credential,
		Evidence: []document.Evidence{{Obs: api.Obs, Quote: o.Quote}},
	}, 0
}

// credentialOf is a way to send a key that saved tests know, where it is enough for the operation.
func credentialOf(api *extract.API, o *openapi.Operation) string {
	for _, name := range o.Security.Alone {
		for i := range api.Schemes {
			s := &api.Schemes[i]
			switch {
			case s.Name != name:
			case s.Type == "http" && s.Scheme == "bearer":
				return "bearer"
			case s.Type == "apiKey" && s.In == "header" && strings.EqualFold(s.Field, "X-API-Key"):
				return "x-api-key"
			}
		}
	}
	return ""
}
