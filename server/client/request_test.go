package client_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"tollgate/server"
	"tollgate/server/client"
)

// validationErrors checks what every refusal says additively: the request's name, and of a
// validation error each field.
func validationErrors(t testing.TB, header http.Header, body map[string]any) {
	t.Helper()
	fault, ok := body["error"].(map[string]any)
	if !ok {
		return // the workspace API's shape
	}
	require.Equal(t, header.Get("X-Request-Id"), fault["requestId"])
	if fault["code"] != "validation_failed" {
		require.NotContains(t, fault, "fields")
		return
	}
	require.NotEmpty(t, fault["fields"], fault)
	for _, field := range fault["fields"].([]any) {
		require.Contains(t, fault["detail"], field.(map[string]any)["message"])
	}
}

// fields are error.fields as field: code.
func (a answer) fields() map[string]string {
	found := map[string]string{}
	for _, item := range a.fault()["fields"].([]any) {
		field := item.(map[string]any)
		found[field["field"].(string)] = field["code"].(string)
	}
	return found
}

// TestValidationErrorsNameTheirFields: a client finds what is wrong without reading the sentence.
func TestValidationErrorsNameTheirFields(t *testing.T) {
	n := start(t)
	n.customer("acme")
	for _, row := range []struct {
		method, path, body string
		fields             map[string]string
	}{
		{"POST", "customers", `{"firstName":"","lastName":7,"nick":1,"email":"x"}`, map[string]string{
			"firstName": "empty", "lastName": "invalid_type", "nick": "unknown", "email": "invalid_format",
		}},
		{"POST", "customers", `{"firstName":"` + strings.Repeat("x", 129) + `"}`, map[string]string{
			"firstName": "too_long", "lastName": "required", "email": "required",
		}},
		{
			"POST", "customers", `{"firstName":"a","lastName":"b","email":"a@b.c",` +
				`"externalClientCustomerId":"x","customerReferenceId":"y"}`,
			map[string]string{"customerReferenceId": "conflict"},
		},
		{"POST", "customers", `[]`, map[string]string{"body": "invalid_type"}},
		{"POST", "events", `{"usageUnits":-1,"occurredAt":"now"}`, map[string]string{
			"usageUnits": "out_of_range", "occurredAt": "invalid_format", "eventName": "required",
			"eventIdempotencyKey": "required", "customerReferenceId": "required",
		}},
		{"POST", "entitlements", `{"track":{"usageUnits":0}}`, map[string]string{
			"track.usageUnits": "out_of_range", "customerReferenceId": "required", "featureKey": "required",
		}},
		{"GET", "subscriptions/x", "", map[string]string{"subscriptionId": "invalid_format"}},
		{"GET", "customers/acme/events?limit=0&kind=x&cursor=y", "", map[string]string{
			"limit": "out_of_range", "kind": "not_allowed", "cursor": "invalid_format",
		}},
	} {
		a := n.call(row.method, row.path, row.body).is(400, "validation_failed")
		require.Equal(t, row.fields, a.fields(), "%s %s", row.path, row.body)
	}
}

// pathOf fills a route's parameters in.
func pathOf(r *server.Route) string {
	segments := strings.Split(r.Path, "/")
	for i, segment := range segments {
		if strings.HasPrefix(segment, "{") {
			segments[i] = "acme"
			if strings.HasSuffix(segment, "Id}") && !strings.Contains(strings.ToLower(segment), "customer") {
				segments[i] = "00000000-0000-4000-8000-000000000000"
			}
		}
	}
	return strings.Join(segments, "/")
}

// TestUnknownQueryParametersAreNamed: on every route of the API a parameter that it does not state
// is refused, since a misspelt filter would answer everything; so is an empty one.
func TestUnknownQueryParametersAreNamed(t *testing.T) {
	n := start(t)
	subscription := n.customer("acme")
	routes := 0
	for _, r := range n.api.Table().Routes() {
		if !strings.HasPrefix(r.Path, client.Prefix) {
			continue
		}
		routes++
		a := n.call(r.Method, pathOf(r)+"?limt=1&Kind=x", "").is(400, "validation_failed")
		require.Equal(t, map[string]string{"limt": "unknown", "Kind": "unknown"}, a.fields(), r.Path)
		for _, p := range r.Params {
			if p.In == "query" {
				a := n.call(r.Method, pathOf(r)+"?"+p.Name+"=", "").is(400, "validation_failed")
				require.Equal(t, map[string]string{p.Name: "empty"}, a.fields(), r.Path)
			}
		}
	}
	require.Greater(t, routes, 25)
	n.call("POST", "subscriptions/cancellation/"+subscription+"?cancelMode=", "").
		is(400, "validation_failed")
	n.call("POST", "subscriptions/cancellation/"+subscription+"?cancelmode=IMMEDIATE", "").
		is(400, "validation_failed")
	require.NotContains(t, n.call("GET", "subscriptions/"+subscription, "").data(), "cancelMode",
		"nothing was changed")
}

// TestHEADAnswersAsGET: the same status and headers, without the body.
func TestHEADAnswersAsGET(t *testing.T) {
	n := start(t)
	n.customer("acme")
	head := func(path, key string) *http.Response {
		request, err := http.NewRequest("HEAD", "http://"+n.addr+path, nil)
		require.NoError(t, err)
		request.Header.Set("X-API-Key", key)
		response, err := n.http.Do(request)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Empty(t, text)
		require.NoError(t, response.Body.Close())
		return response
	}
	for _, r := range n.api.Table().Routes() {
		if !strings.HasPrefix(r.Path, client.Prefix) {
			continue
		}
		path := pathOf(r)
		if r.Method != "GET" {
			continue
		}
		got, want := head(path, n.sandbox), n.call("GET", path, "")
		require.Equal(t, want.status, got.StatusCode, path)
		require.Equal(t, want.header.Get("Content-Type"), got.Header.Get("Content-Type"), path)
		require.NotEmpty(t, got.Header.Get("X-Request-Id"), path)
		if want.status == 200 && r.Operation != "checkEntitlement" {
			require.EqualValues(t, len(want.raw), got.ContentLength, path)
		}
		if r.Access != server.AccessOpen {
			require.Equal(t, 401, head(path, "nobody").StatusCode, path)
		}
	}
	require.Equal(t, 200, head(client.Prefix+"/entitlements/acme/tokens", n.sandbox).StatusCode)
	// With the two checks of the loop: each that was answered is recorded.
	n.eventually(func() bool { return n.audited() == 3 })
	require.Equal(t, 405, head(client.Prefix+"/subscriptions", n.sandbox).StatusCode)
}

// TestTheCallersRequestIDIsTakenOver stands in the answer, and in the body of a refusal.
func TestTheCallersRequestIDIsTakenOver(t *testing.T) {
	n := start(t)
	n.customer("acme")
	for _, id := range []string{"7", `a"b\c/<d>`, "trace_" + strings.Repeat("x", 122)} {
		headers := map[string]string{"X-Request-Id": id}
		a := n.send("GET", "customers/nobody", "", n.sandbox, headers).is(404, "customer_not_found")
		require.Equal(t, id, a.header.Get("X-Request-Id"))
		require.Equal(t, id, a.fault()["requestId"])
		a = n.send("GET", "customers/acme", "", n.sandbox, headers).is(200, "")
		require.Equal(t, id, a.header.Get("X-Request-Id"))
	}
	for _, id := range []string{strings.Repeat("x", 129), "a b", "é", n.sandbox} {
		a := n.send("GET", "plans", "", n.sandbox, map[string]string{"X-Request-Id": id})
		require.Regexp(t, "^req_[0-9a-f]{24}$", a.header.Get("X-Request-Id"))
	}
}

// TestTheDocumentDescribesCloudEvents: as objects, not as text. It says where the API is reached.
func TestTheDocumentDescribesCloudEvents(t *testing.T) {
	n := start(t)
	a := n.send("GET", client.Prefix+"/openapi.json", "", "", nil)
	require.Equal(t, []any{
		map[string]any{"url": "/", "description": server.ServerAbout},
	}, a.body["servers"])
	document, err := openapi3.NewLoader().LoadFromData(a.raw)
	require.NoError(t, err)
	content := document.Paths.Find(client.Prefix + "/events").Post.RequestBody.Value.Content
	schema := content["application/cloudevents+json"].Schema
	require.Equal(t, "#/components/schemas/CloudEvent", schema.Ref)
	require.NoError(t, schema.Value.VisitJSON(map[string]any{
		"specversion": "1.0", "id": "1", "source": "/app", "type": "tokens", "subject": "acme",
		"time": now(), "traceparent": "x", "data": map[string]any{"usageUnits": 2.0},
	}))
	require.Error(t, schema.Value.VisitJSON(map[string]any{"specversion": "1.0", "id": "1", "type": "x"}))
	content = document.Paths.Find(client.Prefix + "/events/batch").Post.RequestBody.Value.Content
	batch := content["application/cloudevents-batch+json"].Schema.Value
	require.True(t, batch.Type.Is("array"))
	require.Equal(t, "#/components/schemas/CloudEvent", batch.Items.Ref)
	require.True(t, content["application/x-ndjson"].Schema.Value.Type.Is("string"))
}
