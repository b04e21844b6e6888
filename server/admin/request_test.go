package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUnknownQueryParametersAreNamed: on every route of the admin API.
func TestUnknownQueryParametersAreNamed(t *testing.T) {
	n := start(t)
	n.furnish()
	require.Greater(t, n.operations(func(method, path, _ string) {
		path = inBraces.ReplaceAllString(path, "x")
		a := n.call(method, path+"?limt=1", "").is(400, "validation_failed")
		require.Contains(t, a.detail(), `"limt" is not a query parameter`, path)
	}), 30)
	// A switch that is misspelt changes nothing, and one that is empty neither.
	for _, query := range []string{"?dryrun=true", "?dryRun=", "?dryRun=yes"} {
		n.call("PUT", sandbox+"catalog"+query, `{"features":[{"key":"new","name":"New"}]}`).
			is(400, "validation_failed")
	}
	require.NotContains(t, n.call("GET", sandbox+"catalog", "").raw, `"new"`)
}

// TestADocumentNamesWhatItSets: a list that is not there is no empty one.
func TestADocumentNamesWhatItSets(t *testing.T) {
	n := start(t)
	n.furnish()
	n.call("PUT", sandbox+"origins", `{"origins":["https://shop.example"]}`).is(200, "")
	for _, body := range []string{`{}`, `{"origins":null}`} {
		a := n.call("PUT", sandbox+"origins", body).is(400, "validation_failed")
		require.Contains(t, a.detail(), "origins is required")
	}
	require.Contains(t, n.call("GET", sandbox+"origins", "").raw, "https://shop.example")
	n.call("PUT", sandbox+"origins", `{"origins":[]}`).is(200, "")
	require.NotContains(t, n.call("GET", sandbox+"origins", "").raw, "https://shop.example")

	a := n.call("PUT", sandbox+"catalog?prune=true", `{}`).is(400, "validation_failed")
	require.Contains(t, a.detail(), "features is required")
	n.call("PUT", sandbox+"catalog?prune=true&dryRun=true", `{"plans":[]}`).is(200, "")
	n.call("PUT", sandbox+"catalog", `{}`).is(200, "")
	n.call("PUT", sandbox+"payment-terms", `{}`).is(400, "validation_failed")
	n.call("PUT", sandbox+"payment-provider", `{}`).is(400, "validation_failed")
}

// TestHEADAnswersAsGET: also what balancers ask.
func TestHEADAnswersAsGET(t *testing.T) {
	n := start(t)
	n.furnish()
	n.operations(func(method, path, _ string) {
		if method != "GET" {
			return
		}
		path = strings.NewReplacer("{account}", "demo", "{environment}", "sandbox").Replace(path)
		path = inBraces.ReplaceAllString(path, "x")
		want, got := n.call("GET", path, ""), n.call("HEAD", path, "")
		require.Equal(t, want.status, got.status, path)
		require.Empty(t, got.raw)
		require.Equal(t, want.header.Get("Content-Type"), got.header.Get("Content-Type"), path)
	})
	require.Equal(t, http.StatusOK, n.send("HEAD", "/healthz", "", "", "").status)
	require.Equal(t, http.StatusOK, n.send("HEAD", "/metrics", "", "", "").status)
}
