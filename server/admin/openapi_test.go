package admin_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/stretchr/testify/require"

	"tollgate/bench/servertest"
	"tollgate/engine"
	"tollgate/server"
	"tollgate/server/admin"
)

// describe loads the published OpenAPI document, which every later answer is validated against.
func (n *node) describe() (document *openapi3.T) {
	described.Do(func() {
		a := n.send("GET", "openapi.json", "", "", "").plain(200)
		described.Document = servertest.LoadDocument(n.t, []byte(a.raw))
	})
	n.router = described.Router
	return described.T
}

// described is what the first node has published: all publish the same.
var described struct {
	sync.Once
	servertest.Document
}

// plain checks the status of an answer without an envelope.
func (a answer) plain(status int) answer {
	a.t.Helper()
	require.Equal(a.t, status, a.status, a.raw)
	return a
}

// validate compares an answer of the admin API with the document.
func (n *node) validate(request *http.Request, a answer) {
	n.t.Helper()
	if n.router == nil || !strings.HasPrefix(request.URL.Path, admin.Prefix) {
		return
	}
	request.URL.Host, request.URL.Scheme = "", ""
	route, params, err := n.router.FindRoute(request)
	if err != nil {
		require.Contains(n.t, []int{404, 405}, a.status, "%s is not in the document", request.URL.Path)
		return
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: request, PathParams: params, Route: route,
		},
		Status: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader([]byte(a.raw))),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	require.NoError(n.t, openapi3filter.ValidateResponse(context.Background(), input), a.raw)
	servertest.RequireDeclared(n.t, route.Operation, a.status, []byte(a.raw))
	servertest.NoteExample(n.t, route.Operation.OperationID, request, a.status, []byte(a.raw))
}

// TestEveryOutcomeIsDeclared: what a command may come to, some operation says that it answers.
func TestEveryOutcomeIsDeclared(t *testing.T) {
	n := start(t)
	text, err := n.api.Document()
	require.NoError(t, err)
	declared := servertest.DeclaredCodes(n.describe(), servertest.LoadDocument(t, text).T)
	excused := map[string]string{
		"checkout_not_found": "a provider's name for a checkout is noted by the node alone",
		"workspace_claimed":  "of an operator's command about workspaces, which has its own document",
	}
	for o := range 256 {
		fault := server.FaultOf(engine.Outcome(o))
		if excused[fault.Code] == "" {
			require.True(t, declared[fault.Code], "no operation declares %s", fault.Code)
		}
	}
}

func TestEveryOperationIsDescribed(t *testing.T) {
	n := start(t)
	document := n.describe()
	operations := map[string]bool{}
	for path, item := range document.Paths.Map() {
		require.True(t, strings.HasPrefix(path, admin.Prefix+"/"), path)
		for method, o := range item.Operations() {
			require.NotEmpty(t, o.Summary, "%s %s", method, path)
			require.False(t, operations[o.OperationID], o.OperationID)
			operations[o.OperationID] = true
			secured := o.Security != nil && len(*o.Security) > 0
			require.Equal(t, o.OperationID != "describe", secured, o.OperationID)
			if method == "PUT" || o.OperationID[:6] == "create" {
				require.NotNil(t, o.RequestBody, o.OperationID)
			}
		}
	}
	require.True(t, operations["advanceClock"] && operations["explainInvoice"])
}
