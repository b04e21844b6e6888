package workspaceapi

import (
	"testing"

	"tollgate/bench/servertest"
	"tollgate/engine/workspace"
)

// TestExamples asks what TestEveryEndpoint does not: what belongs to people, and what is read
// without a key. Together with that test's, and TestEveryRefusal's, these are the document's
// examples.
func TestExamples(t *testing.T) {
	t.Parallel()
	w := watch(t)
	n := w.node
	free := n.signUp("")
	ada := n.signIn("ada")
	recorded := servertest.RecordExamples(t)
	for _, path := range []string{
		"/", "/auth.md", "/llms.txt", "/robots.txt", "/.well-known/api-catalog",
	} {
		n.send("GET", path, "", "", nil).is(200, "")
	}
	ada.call("POST", "/v1/claims", `{"code":"`+free.code+`"}`).is(200, "")
	flow := free.flow(plainFlow)
	path := "/v1/flows/" + flow
	n.signIn("bot", asAgent("ada@acme.example"))
	link := ada.call("GET", "/v1/links", "").is(200, "").at("links").([]any)[0].(map[string]any)["id"].(string)
	run := free.start(flow, "the-key-1").is(202, "").at("run", "id").(string)
	free.call("POST", "/v1/runs/"+run+"/cancel", "").is(200, "")
	inspected := free.call("POST", "/v1/interface", `{"url":"https://a.example/"}`).is(200, "").
		at("run", "id").(string)
	local := free.call("POST", "/v1/local-runs", `{}`).is(201, "").at("run", "id").(string)
	bought, approval := free.linked()
	for _, e := range []struct {
		by                 func(method, path, body string) answer
		method, path, body string
	}{
		{free.call, "GET", path, ""},
		{free.call, "PATCH", path, `{"name":"Sign up by mail"}`},
		{ada.call, "PATCH", path + "/alerts", `{"on":true,"webhookUrl":"` + w.hook.server.URL + `"}`},
		{ada.call, "POST", path + "/alerts/secret", ""},
		{ada.call, "POST", path + "/alerts/test", ""},
		{free.call, "GET", "/v1/runs/" + inspected + "/suggested-test", ""},
		{free.call, "POST", "/v1/local-runs/" + local + "/finish", `{"outcome":"passed"}`},
		{ada.call, "PUT", "/v1/test-access/product.example", testAccess},
		{ada.call, "GET", "/v1/test-access", ""},
		{ada.call, "DELETE", "/v1/test-access/product.example", ""},
		{ada.call, "POST", "/v1/links/" + link, `{"answer":"approve","workspace":"` + free.workspace + `"}`},
		{ada.call, "GET", "/v1/session", ""},
		{ada.call, "GET", "/v1/workspaces", ""},
		{ada.call, "POST", "/v1/workspaces", `{"label":"second"}`},
		{ada.call, "PATCH", "/v1/session", `{"workspace":"` + free.workspace + `"}`},
		{ada.call, "GET", approval, ""},
		{ada.call, "POST", approval, approves},
		{ada.call, "POST", "/v1/billing/cap", `{"capCents":4000}`},
	} {
		a := e.by(e.method, e.path, e.body)
		if a.status >= 400 {
			t.Errorf("%s %s: %s", e.method, e.path, a.raw)
		}
	}
	paid, _ := parseID(markPurchase, bought)
	n.api.propose(0, workspace.KindNotePayment, &workspace.NotePayment{
		ID: paid, Result: workspace.PaymentPaid, Card: "card", Payment: "pi",
	})
	free.keyed("/v1/purchases", "buy-one-more", `{"runs":1}`).is(202, "")
	free.call("DELETE", path, "").is(200, "")
	ada.call("POST", "/v1/keys/rotate", "").is(200, "")
	credential := `{` + flowText + `,"credential":"bearer","verification":{"url":"https://product.example/me"}}`
	made := ada.call("POST", "/v1/flows", credential).is(201, "").at("flow", "id").(string)
	ada.call("POST", "/v1/flows/"+made+"/confirm-signup", "").is(200, "")
	recorded.Compare("examples/people.json")
	document := servertest.LoadDocument(t, n.published())
	servertest.RequireReference(t, document, "workspace", n.published())
	servertest.RequireIllustrated(t, document.T,
		"signIn", "signInPerson", "finishSignIn", "signOut")
}
