package workspaceapi

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server"
	"tollgate/server/provider/mail"
)

// TestAnAddressIsConfirmedByJSON: what a person sets by the API is asked for as well, and says so;
// what an operator sets is not.
func TestAnAddressIsConfirmedByJSON(t *testing.T) {
	t.Parallel()
	w := watch(t, func(c *Config) { c.Console = publicURL + "/console" })
	free := w.signUp("")
	path := "/v1/flows/" + free.flow(plainFlow) + "/alerts"
	ada := w.signIn("ada")
	ada.call("POST", "/v1/claims", `{"code":"`+free.code+`"}`).is(200, "")
	a := ada.call("PATCH", path, `{"on":true,"email":"team@acme.example"}`).is(200, "")
	require.Equal(t, false, a.at("settings", "emailConfirmed"))
	require.Len(t, w.post.all(), 1)
	require.Contains(t, w.post.all()[0].Text, publicURL+"/console"+ConfirmPath)
	w.deliverAlerts()
	a = ada.call("POST", path+"/test", "").is(200, "")
	require.Equal(t, "unconfirmed", a.at("deliveries").([]any)[0].(map[string]any)["status"])
	shown := free.call("GET", path, "").is(200, "")
	require.Equal(t, "unconfirmed", shown.at("deliveries").([]any)[0].(map[string]any)["status"])

	a = ada.call("PATCH", path, `{"on":true,"email":"ada@acme.example"}`).is(200, "")
	require.Equal(t, true, a.at("settings", "emailConfirmed"))
	w.soon(func() bool { return len(w.post.all()) == 2 })
	set := w.tell("", `{"on":true,"email":"team@acme.example"}`)
	require.Equal(t, true, set.told("settings", "emailConfirmed"), "an operator vouches for it")
}

// TestALinkThatIsNotSent: the settings are kept, and nothing is mailed.
func TestALinkThatIsNotSent(t *testing.T) {
	w := watch(t, func(c *Config) { c.Console = publicURL + "/console" })
	w.post.answer = func(*mail.Message) mail.Result {
		return mail.Result{Outcome: mail.Refused, Status: 550, Reason: "the mail server answered 550"}
	}
	free := w.signUp("")
	flow := free.flow(plainFlow)
	ada := w.signIn("ada")
	ada.call("POST", "/v1/claims", `{"code":"`+free.code+`"}`).is(200, "")
	a := ada.call("PATCH", "/v1/flows/"+flow+"/alerts", `{"on":true,"email":"team@acme.example"}`)
	require.Equal(t, "team@acme.example", a.is(200, "").at("settings", "email"))
	require.Equal(t, false, a.at("settings", "emailConfirmed"))
	number, _ := parseID(markWorkspace, free.workspace)
	row := w.Machine.WorkspaceRow(number)
	watched, _ := parseID(markFlow, flow)
	_, alerts, _, _ := w.Machine.Alerts(row, watched)
	fault := w.api.Ask(&Visit{Workspace: row, Person: 1}, server.Call{
		Operation: "askAddress", Path: []string{flow},
		Body: fmt.Appendf(nil, `{"linkUntil":%d}`, alerts.LinkUntil),
	}).Fault
	require.Equal(t, "mail_not_sent", fault.Code)
	require.Contains(t, fault.Detail, "the mail server answered 550")
}
