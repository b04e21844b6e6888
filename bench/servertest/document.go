package servertest

import (
	"context"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/stretchr/testify/require"
)

// Document is a published OpenAPI document that is valid, with the router that finds the operation
// of a request.
type Document struct {
	*openapi3.T
	Router routers.Router
}

// documents are those that LoadDocument has loaded, by their text.
var documents sync.Map

// LoadDocument loads and validates a published document, once for all nodes that publish the same
// text: tests start hundreds of nodes, and loading takes longer than most of them do.
func LoadDocument(t testing.TB, text []byte) Document {
	t.Helper()
	if loaded, ok := documents.Load(string(text)); ok {
		return loaded.(Document)
	}
	document, err := openapi3.NewLoader().LoadFromData(text)
	require.NoError(t, err)
	require.NoError(t, document.Validate(context.Background()))
	router, err := gorillamux.NewRouter(document)
	require.NoError(t, err)
	loaded := Document{document, router}
	documents.Store(string(text), loaded)
	return loaded
}
