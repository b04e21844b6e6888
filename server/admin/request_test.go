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

// TestAnAccountIsNamedByItsIDToo: in every path that its name stands in. No account is created
// whose name is another one's id.
func TestAnAccountIsNamedByItsIDToo(t *testing.T) {
	n := start(t)
	n.furnish()
	id := n.call("GET", "accounts", "").list()[0].(map[string]any)["id"].(string)
	byID := "accounts/" + id + "/environments/sandbox/"
	for _, path := range []string{byID, "accounts/" + strings.ToUpper(id) + "/environments/sandbox/"} {
		want, got := n.call("GET", sandbox+"catalog", ""), n.call("GET", path+"catalog", "").is(200, "")
		require.Equal(t, want.raw, got.raw)
	}
	n.call("PUT", byID+"origins", `{"origins":["https://shop.example"]}`).is(200, "")
	require.Contains(t, n.call("GET", sandbox+"origins", "").raw, "https://shop.example")
	n.call("POST", "accounts", `{"name":"`+id+`"}`).is(409, "account_exists")
	n.call("GET", "accounts/00000000-0000-4000-8000-000000000000/environments/sandbox/catalog", "").
		is(404, "account_not_found")
}
