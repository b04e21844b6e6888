package workspaceapi

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server"
)

// signedInCaller is somebody who is signed in, as an identity provider has named them.
type signedInCaller struct {
	*node
	token string
}

// signIn signs somebody in.
func (n *node) signIn(subject string, change ...func(*workspace.SignIn)) *signedInCaller {
	n.t.Helper()
	token := server.MintKey(server.KeyPrefixSession)
	c := &workspace.SignIn{
		ID: mint(), Issuer: "https://id.example", Subject: subject, Name: subject,
		Email: subject + "@acme.example", Session: sha256.Sum256([]byte(token)),
		Surface: workspace.SurfaceWorkspaces, Workspace: mint(), Source: mint(),
	}
	for _, set := range change {
		set(c)
	}
	r := n.api.propose(0, workspace.KindSignIn, c)
	require.Equal(n.t, engine.OutcomeDone, r.Outcome)
	return &signedInCaller{n, token}
}

// asAgent makes a sign-in an agent's, with the owner that its issuer names.
func asAgent(owner string) func(*workspace.SignIn) {
	return func(c *workspace.SignIn) { c.Agent, c.Email, c.OwnerEmail = true, "", owner }
}

func (s *signedInCaller) call(method, path, body string) answer {
	s.t.Helper()
	return s.send(method, path, body, s.token, map[string]string{
		"Origin": publicURL, "Idempotency-Key": "some-key-1",
	})
}

// TestASessionIsABearer: of a person who works in a workspace, as a key of it, and of what only
// they decide; without the configured origin nothing is changed.
func TestASessionIsABearer(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	ada := n.signIn("ada")
	nowhere := ada.call("GET", "/v1/account", "").is(401, "sign_in_required")
	require.Equal(t, "no_workspace", nowhere.at("reason"))
	ada.call("POST", "/v1/claims", `{"code":"`+c.code+`"}`).is(200, "")
	ada.call("POST", "/v1/claims", `{"code":"`+c.code+`"}`).is(404, "not_found")
	account := ada.call("GET", "/v1/account", "").is(200, "")
	require.Equal(t, c.workspace, account.at("workspace", "id"))
	require.Equal(t, true, account.at("workspace", "claimed"))
	c.call("GET", "/v1/account", "").is(200, "") // the key keeps working

	for _, headers := range []map[string]string{
		{},
		{"Origin": ""},
		{"Origin": "null"},
		{"Origin": publicURL + "/"},
		{"Origin": "https://evil.example"},
		{"Origin": publicURL + ".evil.example"},
	} {
		n.send("POST", "/v1/flows", plainFlow, ada.token, headers).is(403, "origin_not_allowed")
	}
	require.Empty(t, ada.call("GET", "/v1/flows", "").is(200, "").at("flows"))
	flow := ada.call("POST", "/v1/flows", plainFlow).is(201, "").at("flow", "id").(string)
	c.call("GET", "/v1/flows/"+flow, "").is(200, "")
	n.send("GET", "/v1/flows/"+flow, "", ada.token, nil).is(200, "") // reading needs no origin

	c.call("POST", "/v1/billing/pause", `{"paused":true}`).is(200, "")
	c.call("POST", "/v1/billing/pause", `{"paused":false}`).is(403, "person_required")
	ada.call("POST", "/v1/billing/pause", `{"paused":false}`).is(200, "")
	ada.call("POST", "/v1/billing/cap", `{"capCents":9000}`).is(200, "")
	c.call("POST", "/v1/billing/cap", `{"capCents":9001}`).is(403, "person_required")
	c.call("POST", "/v1/billing/cap", `{"capCents":8000,"workspace":"`+c.workspace+`"}`).
		is(400, "unexpected_field")
	ada.call("POST", "/v1/billing/cap", `{"capCents":8000,"workspace":"`+c.workspace+`"}`).is(200, "")

	key := ada.call("POST", "/v1/keys/rotate", "").is(200, "").at("key").(string)
	c.call("GET", "/v1/account", "").is(401, "invalid_key")
	n.send("GET", "/v1/account", "", key, nil).is(200, "")
	acts, _ := n.Machine.Acts(1, workspace.Page{Limit: 10})
	require.Len(t, acts, 5, "each is kept with her name")
	for _, act := range acts {
		require.Equal(t, "ada@acme.example", act.Email)
	}
	ada.call("GET", "/v1/session", "").is(200, "")
}

// TestPersonsHaveWorkspaces: several, of which they choose one; never another's.
func TestPersonsHaveWorkspaces(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	ada, eve := n.signIn("ada"), n.signIn("eve")
	one := ada.call("POST", "/v1/workspaces", `{"label":"one"}`).is(201, "").at("workspace").(string)
	two := ada.call("POST", "/v1/workspaces", `{"label":"two"}`).is(201, "").at("workspace").(string)
	choose := func(s *signedInCaller, id string) answer {
		return s.call("PATCH", "/v1/session", `{"workspace":"`+id+`"}`)
	}
	require.Equal(t, two, ada.call("GET", "/v1/session", "").is(200, "").at("session", "workspace"))
	require.Equal(t, one, choose(ada, one).is(200, "").at("session", "workspace"))
	require.Equal(t, one, ada.call("GET", "/v1/account", "").is(200, "").at("workspace", "id"))
	for _, other := range []string{c.workspace, idText(markWorkspace, [16]byte{1})} {
		choose(ada, other).is(404, "not_found")
		ada.call("POST", "/v1/billing/pause", `{"paused":true,"workspace":"`+other+`"}`).
			is(404, "not_found")
	}
	choose(eve, one).is(404, "not_found")
	eve.call("GET", "/v1/flows", "").is(401, "sign_in_required")
	require.Empty(t, eve.call("GET", "/v1/workspaces?cursor="+two, "").is(200, "").at("workspaces"))
	require.Len(t, ada.call("GET", "/v1/workspaces", "").is(200, "").at("workspaces"), 2)
	ada.call("POST", "/v1/workspaces", `{"label":""}`).is(400, "invalid_field")
	require.Equal(t, one, ada.call("GET", "/v1/session", "").at("session", "workspace"))
}

// TestSessionsEnd: by themselves, and at once when they are ended.
func TestSessionsEnd(t *testing.T) {
	n := start(t)
	ada := n.signIn("ada")
	ada.call("POST", "/v1/workspaces", `{"label":"one"}`).is(201, "")
	// use is one that is noted: that happens beside the request.
	use := func() {
		ada.call("GET", "/v1/account", "").is(200, "")
		require.Eventually(t, func() bool { return n.api.sessions.UnderWay() == 0 },
			30*time.Second, time.Millisecond)
	}
	n.Later(11 * time.Hour)
	use()
	n.Later(11 * time.Hour)
	use()
	n.Later(13 * time.Hour)
	ada.call("GET", "/v1/account", "").is(401, "sign_in_required")
	ada.call("GET", "/v1/session", "").is(401, "sign_in_required")

	ada = n.signIn("ada")
	for range 16 {
		use()
		n.Later(10 * time.Hour)
	}
	use()
	n.Later(9 * time.Hour)
	ada.call("GET", "/v1/account", "").is(401, "sign_in_required")

	ada = n.signIn("ada")
	r := n.api.propose(0, workspace.KindEndSession,
		&workspace.EndSession{Session: sha256.Sum256([]byte(ada.token))})
	require.Equal(t, engine.OutcomeDone, r.Outcome)
	ada.call("GET", "/v1/account", "").is(401, "sign_in_required")
	ada.call("POST", "/v1/flows", plainFlow).is(401, "sign_in_required")

	operator := n.signIn("ada",
		func(c *workspace.SignIn) { c.Surface = workspace.SurfaceOperations })
	operator.call("GET", "/v1/account", "").is(401, "sign_in_required")
	swapped := ada.token[:len(ada.token)-1] + "!"
	for _, token := range []string{swapped, server.KeyPrefixSession, "tg_ses_x"} {
		n.send("GET", "/v1/account", "", token, nil).is(401, "sign_in_required")
	}
	n.send("GET", "/v1/session", "", "", nil).is(401, "sign_in_required")
}

// agentMay are the routes that an agent's session may call, as the document has them: what a key
// can do, and nothing that a person decides.
const agentMay = `
getAccount getExecution listFlows createFlow getFlow changeFlow archiveFlow getQuote
startRun getAlerts listRuns getRun suggestTest resumeRun cancelRun requestRun cancelRunRequest
startLocalRun finishLocalRun inspectProduct evaluateTask listIssues changeIssue listNotifications
readNotification buyRuns listPurchases getPurchase renewApprovalLink cancelPurchase pausePurchases
lowerCap getSession search`

// TestWhatAgentsMay: exactly the routes above; anything else needs a person.
func TestWhatAgentsMay(t *testing.T) {
	n := start(t)
	bot := n.signIn("bot", asAgent(""))
	may := map[string]bool{}
	for name := range strings.FieldsSeq(agentMay) {
		may[name] = true
	}
	for _, r := range n.api.Routes() {
		if r.Scopes == 0 {
			continue
		}
		a := bot.call(r.Method, filled(r.Path), "")
		require.Equal(t, may[r.Operation], r.Agents, r.Operation)
		if may[r.Operation] {
			require.NotContains(t, []int{401, 403}, a.status, "%s: %s", r.Operation, a.raw)
			delete(may, r.Operation)
			continue
		}
		a.is(403, "person_required")
	}
	require.Empty(t, may, "no such route")
	bot.call("POST", "/v1/billing/pause", `{"paused":true}`).is(200, "")
	bot.call("POST", "/v1/billing/pause", `{"paused":false}`).is(403, "person_required")
	bot.call("POST", "/v1/billing/cap", `{"capCents":0}`).is(403, "person_required")
	require.Equal(t, false, bot.call("GET", "/v1/account", "").is(200, "").at("workspace", "claimed"))
}

// TestAgentsWorkForTheirOwner: once the owner that their issuer names has approved, until removed.
func TestAgentsWorkForTheirOwner(t *testing.T) {
	n := start(t)
	ada, eve := n.signIn("ada"), n.signIn("eve")
	home := ada.call("POST", "/v1/workspaces", `{"label":"home"}`).is(201, "").at("workspace").(string)
	bot := n.signIn("bot", asAgent("ada@acme.example"))
	where := func() any { return bot.call("GET", "/v1/account", "").is(200, "").at("workspace", "id") }
	own := where()
	require.NotEqual(t, home, own)
	links := ada.call("GET", "/v1/links", "").is(200, "").at("links").([]any)
	require.Len(t, links, 1)
	link := links[0].(map[string]any)["id"].(string)
	answers := func(s *signedInCaller, word string) answer {
		return s.call("POST", "/v1/links/"+link, `{"answer":"`+word+`"}`)
	}
	answers(eve, "approve").is(404, "not_found")
	answers(bot, "approve").is(403, "person_required")
	answers(ada, "agree").is(400, "invalid_field")
	answers(ada, "remove").is(409, "link_answered")
	require.Equal(t, "approved", answers(ada, "approve").is(200, "").at("link", "status"))
	require.Equal(t, home, where())
	require.Equal(t, "approved", bot.call("GET", "/v1/session", "").at("session", "link"))
	answers(ada, "remove").is(200, "")
	require.Equal(t, own, where())

	for i := range workspace.MaxWaitingLinks + 1 {
		n.signIn("agent "+strings.Repeat("x", i), asAgent("ada@acme.example"))
	}
	waiting := 0
	for _, l := range ada.call("GET", "/v1/links", "").is(200, "").at("links").([]any) {
		if l.(map[string]any)["status"] == "waiting" {
			waiting++
		}
	}
	require.Equal(t, workspace.MaxWaitingLinks, waiting, "the 21st is not asked for")
	late := n.signIn("agent "+strings.Repeat("x", workspace.MaxWaitingLinks),
		asAgent("ada@acme.example"))
	late.call("GET", "/v1/account", "").is(200, "") // it works in its own
}

// TestAnAgentNeverChargesACard: it is told to ask the owner, by whom the saved card could be
// charged.
func TestAnAgentNeverChargesACard(t *testing.T) {
	n := start(t)
	ada := n.signIn("ada")
	home := ada.call("POST", "/v1/workspaces", `{"label":"home"}`).is(201, "").at("workspace").(string)
	n.saveCard(home)
	bot := n.signIn("bot", asAgent("ada@acme.example"))
	links := ada.call("GET", "/v1/links", "").at("links").([]any)
	ada.call("POST", "/v1/links/"+links[0].(map[string]any)["id"].(string),
		`{"answer":"approve","workspace":"`+home+`"}`).is(200, "")
	a := bot.call("POST", "/v1/purchases", `{"runs":1}`).is(402, "payment_required")
	require.Equal(t, "agent_session", a.at("reason"))
	require.Equal(t, "approve", a.at("next_action"))
	require.Contains(t, a.at("approval_url"), publicURL+"/approve/")
	again := n.send("POST", "/v1/purchases", `{"runs":1}`, bot.token, map[string]string{
		"Origin": publicURL, "Idempotency-Key": "another-key",
	}).is(402, "payment_required")
	require.Nil(t, again.at("approval_url"), "the earlier link still works")
}

// saveCard buys a run for a workspace, by which its card is saved.
func (n *node) saveCard(ws string) {
	n.t.Helper()
	id, _ := parseID(markWorkspace, ws)
	row, purchase := n.Machine.WorkspaceRow(id), mint()
	require.True(n.t,
		outcomeDone(n.api.propose(0, workspace.KindRequestPurchase, &workspace.RequestPurchase{
			Workspace: row, ID: purchase, Runs: 1, Link: [32]byte{1},
		})))
	require.True(n.t, outcomeDone(n.api.propose(0, workspace.KindApprovePurchase,
		&workspace.ApprovePurchase{ID: purchase, Owner: "ada"})))
	require.True(n.t,
		outcomeDone(n.api.propose(0, workspace.KindNotePayment, &workspace.NotePayment{
			ID: purchase, Result: workspace.PaymentPaid, Card: "card", Payment: "pi",
		})))
}

// refuseSessions provokes the refusals that need somebody who is signed in.
func refuseSessions(t *testing.T, is provoked) {
	n := start(t)
	is(n.send("GET", "/v1/session", "", "", nil), 401, "sign_in_required")
	ada := n.signIn("ada")
	for range workspace.MaxOpened {
		ada.call("POST", "/v1/workspaces", `{"label":"one"}`).is(201, "")
	}
	is(ada.call("POST", "/v1/workspaces", `{"label":"more"}`), 409, "workspace_limit")
	is(n.send("POST", "/v1/workspaces", `{"label":"x"}`, ada.token, nil), 403, "origin_not_allowed")
	n.signIn("bot", asAgent("ada@acme.example"))
	links := ada.call("GET", "/v1/links", "").at("links").([]any)
	link := "/v1/links/" + links[0].(map[string]any)["id"].(string)
	is(ada.call("POST", link, `{"answer":"remove"}`), 409, "link_answered")
	for range workspace.MaxActsPerDay {
		n.api.propose(0, workspace.KindAct, &workspace.Act{
			Workspace: 1, ID: mint(), Person: 1, Kind: workspace.KindSetBilling,
			Payload: pausing(1),
		})
	}
	a := is(ada.call("POST", "/v1/billing/pause", `{"paused":true,"workspace":"`+
		idText(markWorkspace, ownedID(n, 1))+`"}`), 429, "act_limit")
	require.NotEmpty(t, a.header.Get("Retry-After"))
}

// pausing is the payload of a command that pauses a workspace's purchases.
func pausing(row uint32) []byte {
	return wire.Encode(nil, &workspace.SetBilling{
		Workspace: row, HasPaused: true, Paused: true, Person: true,
	})
}

// ownedID is the id of a workspace by row.
func ownedID(n *node, row uint32) [16]byte {
	v, _ := n.Machine.Account(row, 0)
	return v.ID
}
