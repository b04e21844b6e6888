package owner_test

import (
	"crypto/sha256"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/console/owner"
	"tollgate/server/workspaceapi"
)

// signIn lets a person sign in, and work in a workspace of theirs, or in none.
func (s *site) signIn(name string) {
	s.t.Helper()
	session := sha256.Sum256([]byte("session " + name))
	s.does(workspace.KindSignIn, &workspace.SignIn{
		ID: enginetest.ID("person " + name), Issuer: "https://id.example", Subject: name,
		Email: name + "@example.com", Session: session, Surface: workspace.SurfaceWorkspaces,
	})
	s.who = &owner.Visitor{Name: name + "@example.com", Token: "token " + name, Session: session}
	s.again()
}

// again reads what the session works in now.
func (s *site) again() {
	v, ok := s.Machine.Session(s.who.Session, workspace.SurfaceWorkspaces, 0)
	require.True(s.t, ok)
	s.who.Person, s.who.Workspace = v.Person, v.Principal.Workspace
}

// asks makes a purchase that waits for its owner, with the token of its link.
func (s *site) asks(ws uint32, name string) (token string) {
	s.does(workspace.KindRequestPurchase, &workspace.RequestPurchase{
		Workspace: ws, ID: enginetest.ID(name), Runs: 2, Ask: true,
		Link: sha256.Sum256([]byte("token-" + name)),
	})
	return "token-" + name
}

func (s *site) purchase(name string) workspace.PurchaseView {
	v, ok := s.Machine.Purchase(0, enginetest.ID(name))
	require.True(s.t, ok)
	return v
}

// sends sends a form of the session, with further fields.
func (s *site) sends(path string, fields ...string) answer {
	s.t.Helper()
	form := url.Values{"_token": {s.who.Token}, "_once": {"once " + path}}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return s.ask("POST", path, form)
}

// TestAnApprovalLink: GET changes nothing; acting needs a signed-in person, claims an unclaimed
// workspace, and happens once.
func TestAnApprovalLink(t *testing.T) {
	s := open(t, quiet)
	ws, _ := s.signUp("Acme")
	link := "/approve/" + s.asks(ws, "first")
	for range 3 {
		require.Contains(t, s.sees(link), "Sign in")
		require.Equal(t, 405, s.ask("HEAD", link, nil).status)
	}
	require.Equal(t, workspace.PurchaseApproval, s.purchase("first").Status)
	a := s.calls("GET", link, "", "")
	require.Equal(t, 200, a.status)
	require.Contains(t, a.body, `"claimed":false`, "programs get JSON")
	form := url.Values{"_token": {"x"}, "action": {"approve"}}
	require.Equal(t, 401, s.ask("POST", link, form).status)

	s.signIn("ada")
	require.Contains(t, s.sees(link), "it becomes yours")
	for name, refused := range map[string]answer{
		"another token":  s.ask("POST", link, form),
		"another origin": s.ask("POST", link, form, "Origin", "https://evil.example"),
		"another site":   s.ask("POST", link, form, "Sec-Fetch-Site", "cross-site"),
	} {
		require.Equal(t, 403, refused.status, name)
		require.Contains(t, refused.body, "Nothing was changed", name)
	}
	require.Equal(t, 400, s.sends(link, "action", "steal").status)
	require.Equal(t, workspace.PurchaseApproval, s.purchase("first").Status)
	require.False(t, s.Machine.Owns(ws, s.who.Person))

	for range 2 { // sent twice, it happens once
		a = s.sends(link, "action", "approve")
		require.Equal(t, 303, a.status, a.body)
	}
	require.True(t, s.Machine.Owns(ws, s.who.Person))
	acts, _ := s.Machine.Acts(ws, workspace.Page{Limit: 10})
	require.Len(t, acts, 1)
	require.Equal(t, "ada@example.com", acts[0].Email)
	s.again()
	body := s.sees(string(a.header.Peek("Location")))
	require.Contains(t, body, "You approved the purchase")
	require.Contains(t, body, origin+"/pay/workspace/", "the payment page")
	require.Contains(t, s.sees(link), "The purchase is approved")

	s.does(workspace.KindNotePayment, &workspace.NotePayment{
		ID: enginetest.ID("first"), Result: workspace.PaymentPaid, Payment: "pi", Card: "card",
	})
	require.Contains(t,
		s.sees(owner.Root+"/purchases/"+workspaceapi.NounPurchase.Text(enginetest.ID("first"))),
		"The purchase is paid")
	a = s.ask("GET", link, nil)
	require.Equal(t, 404, a.status)
	require.Contains(t, a.body, "This link is no longer valid")
	require.Equal(t, 404, s.sends(link, "action", "approve", "_once", "another").status)
}

// TestOnlyTheOwnerApproves: the link of a claimed workspace is not a key to it.
func TestOnlyTheOwnerApproves(t *testing.T) {
	s := open(t, quiet)
	ws, _ := s.signUp("Acme")
	link := "/approve/" + s.asks(ws, "first")
	s.signIn("ada")
	require.Equal(t, 200, s.sends(link, "action", "deny").status)
	require.Equal(t, workspace.PurchaseDenied, s.purchase("first").Status)
	require.Equal(t, 404, s.sends(link, "action", "approve", "_once", "another").status)
	require.Equal(t, 303, s.sends(owner.Root+"/you/claim", "code", "code Acme").status)
	link = "/approve/" + s.asks(ws, "second")
	s.signIn("eve")
	require.Contains(t, s.sees(link), "another owner")
	for _, action := range []string{"approve", "deny"} {
		require.Equal(t, 403, s.sends(link, "action", action).status)
	}
	s.who.Agent = true
	require.Equal(t, 401, s.sends(link, "action", "deny").status)
	require.Equal(t, workspace.PurchaseApproval, s.purchase("second").Status)
}

// mine is a site whose visitor owns a workspace.
func mine(t *testing.T) (s *site, ws uint32) {
	s = open(t, quiet)
	s.signIn("ada")
	require.Equal(t, 303, s.sends(owner.Root+"/you/workspaces", "label", "Acme").status)
	s.again()
	require.NotZero(t, s.who.Workspace)
	return s, s.who.Workspace
}

// TestAnOwnersMoney: cap, pause, cancel.
func TestAnOwnersMoney(t *testing.T) {
	s, ws := mine(t)
	for i, c := range []struct {
		text string
		cap  uint32
	}{{"49.5", 4950}, {"$100", 10000}, {"0.05", 5}, {"200.01", 0}, {"-1", 0}, {"1e3", 0}, {"", 0}} {
		form := s.sends(owner.Root+"/billing", "action", "cap", "cap", c.text,
			"_once", string(rune('a'+i)))
		if c.cap == 0 {
			require.Equal(t, 400, form.status, c.text)
			require.Contains(t, form.body, "Invalid cap")
			continue
		}
		require.Equal(t, 303, form.status, form.body)
		account, _ := s.Machine.Account(ws, 0)
		require.Equal(t, c.cap, account.CapCents)
	}
	require.Equal(t, 303, s.sends(owner.Root+"/billing", "action", "pause").status)
	require.Contains(t, s.sees(owner.Root+"/purchases?done=pause"), "Purchases are paused")
	s.asks(ws, "first")
	page := owner.Root + "/purchases/" + workspaceapi.NounPurchase.Text(enginetest.ID("first"))
	require.Equal(t, 303, s.sends(page, "action", "approve").status)
	require.Contains(t, s.sees(page), "Cancel the purchase")
	require.Equal(t, 303, s.sends(page, "action", "cancel", "_once", "cancel").status)
	require.Equal(t, workspace.PurchaseCancelled, s.purchase("first").Status)
	require.NotContains(t, s.sees(page), "Cancel the purchase")
	require.Equal(t, 303, s.sends(page, "action", "cancel", "_once", "cancel").status, "the same form again")
	acts, _ := s.Machine.Acts(ws, workspace.Page{Limit: 10})
	require.Equal(t, "cancel", acts[0].Action)
	require.Equal(t, "ada@example.com", acts[0].Email)
	require.Equal(t, "approve", acts[1].Action, "it happened once")
	require.Contains(t, s.sees(owner.Root+"/history"), "checkout</span> → cancelled")
}

// TestKeysAreShownOnce: by the answer to the form, and by nothing else.
func TestKeysAreShownOnce(t *testing.T) {
	s, _ := mine(t)
	body := s.sends(owner.Root+"/keys", "_once", "form-1").body
	key := regexp.MustCompile(server.KeyPrefixWorkspace + `\w+`).FindString(body)
	require.NotEmpty(t, key, body)
	require.Equal(t, 200, s.calls("GET", "/v1/account", key, "").status)
	body = s.sends(owner.Root+"/keys", "_once", "form-1").body
	require.Contains(t, body, "This form was sent before")
	require.NotContains(t, body, server.KeyPrefixWorkspace)
	require.Equal(t, 200, s.calls("GET", "/v1/account", key, "").status)
	require.NotContains(t, s.sees(owner.Root+"/keys"), server.KeyPrefixWorkspace)
}

// TestClaimsAndChoices: a code works once, and another's workspace cannot be chosen.
func TestClaimsAndChoices(t *testing.T) {
	s, first := mine(t)
	other, _ := s.signUp("other")
	account, _ := s.Machine.Account(other, 0)
	choose := func() answer {
		return s.sends(owner.Root+"/you/workspace", "workspace",
			workspaceapi.NounWorkspace.Text(account.ID))
	}
	require.Equal(t, 404, choose().status)
	require.Equal(t, 404, s.sends(owner.Root+"/you/claim", "code", "code nobody").status)
	require.Equal(t, 303, s.sends(owner.Root+"/you/claim", "code", "code other").status)
	s.again()
	require.Equal(t, other, s.who.Workspace)
	require.Equal(t, 303, s.sends(owner.Root+"/you/claim", "code", "code other").status,
		"the same form again")
	require.Equal(t, 404, s.sends(owner.Root+"/you/claim", "code", "code other", "_once", "x").status)
	third, _ := s.signUp("third")
	a := s.sends(owner.Root+"/you/claim", "code", "code third")
	require.Equal(t, 409, a.status, "another code in the same form, by the back button: %s", a.body)
	require.False(t, s.Machine.Owns(third, s.who.Person))
	s.again()
	require.Equal(t, other, s.who.Workspace)
	theirs := account
	account, _ = s.Machine.Account(first, 0)
	require.Equal(t, 303, choose().status)
	s.again()
	require.Equal(t, first, s.who.Workspace)
	require.Contains(t, s.sees(owner.Root+"/you"), "shown by these pages")
	require.Contains(t, s.sees(owner.Root),
		`name="workspace" value="`+workspaceapi.NounWorkspace.Text(theirs.ID)+`"`,
		"the switcher")
}

// TestARefusedFormKeepsItsValues: the values stay in their form; a claim code is not shown again.
func TestARefusedFormKeepsItsValues(t *testing.T) {
	s, ws := mine(t)
	flow := enginetest.ID("flow")
	page := "/flows/" + workspaceapi.NounFlow.Text(flow)
	s.does(workspace.KindSaveFlow, &workspace.SaveFlow{
		Workspace: ws, ID: flow, Document: workspace.FlowDocument{
			Name: "a flow", URL: "https://acme.example/", Access: "public",
			VerificationURL: "https://acme.example/me", VerificationContains: "ok",
		},
	})
	begin := func(name string) (run [16]byte) {
		run = enginetest.ID(name)
		s.does(workspace.KindStartRun, &workspace.StartRun{
			Workspace: ws, Flow: flow, ID: run, Key: run, FlowVersion: 1, Cents: 500,
			Agent: "clever exec 1",
		})
		s.does(workspace.KindClaimRun, &workspace.ClaimRun{Worker: "w", LeaseMS: 60_000})
		return run
	}
	for _, code := range []string{"captcha", "phone"} {
		s.does(workspace.KindFinishRun, &workspace.FinishRun{
			Run: begin(code), Token: 1, Status: workspace.RunCompleted,
			Outcome: workspace.OutcomeBlocked,
			Code:    code, Step: "signup",
		})
	}
	waits := begin("waits")
	s.does(workspace.KindAwaitPerson,
		&workspace.AwaitPerson{Run: waits, Token: 1, Question: "Which?"})
	issues, _ := s.Machine.Issues(ws, workspace.Page{Limit: 10})
	require.Len(t, issues, 2)
	long := strings.Repeat("long ", 500)
	for _, c := range []struct{ path, name, value, kept string }{
		{"/billing", "cap", "a million", `value="a million"`},
		{"/purchases", "runs", "77", `value="77"`},
		{"/inspections", "url", "ftp://acme.example/", `value="ftp://acme.example/"`},
		{"/you/workspaces", "label", long, `value="` + long + `"`},
		{"/you/workspaces", "label", "\u200b\u3164", "value=\"\u200b\u3164\""},
		{page + "/schedule", "hours", "169", `value="169"`},
		{
			"/runs/" + workspaceapi.NounRun.Text(waits) + "/answer", "answer", long,
			`value="` + long + `"`,
		},
		{
			"/issues/" + workspaceapi.NounIssue.Text(issues[1].ID) + "/ready", "note", long,
			`value="` + long + `"`,
		},
	} {
		a := s.sends(owner.Root+c.path, c.name, c.value)
		require.Equal(t, 400, a.status, c.path)
		require.Equal(t, 1, strings.Count(a.body, c.kept), "%s: %s", c.path, a.body)
	}
	a := s.sends(owner.Root+"/you/claim", "code", "tg_clm_nonsense")
	require.Equal(t, 404, a.status)
	require.NotContains(t, a.body, "nonsense")
}
