package owner_test

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/workspace"
	"tollgate/server/console/owner"
	"tollgate/server/workspaceapi"
)

// full is a site with one record of everything, all of whose texts are this one: a person who owns
// a workspace, an agent that asks to work there, a purchase that waits in a second one.
func full(t *testing.T, text string) *site {
	t.Helper()
	s := open(t, hostile(text))
	session := sha256.Sum256([]byte("session"))
	s.does(workspace.KindSignIn, &workspace.SignIn{
		ID: enginetest.ID("person"), Issuer: "https://id.example", Subject: text, Email: text,
		Name: text, Session: session, Surface: workspace.SurfaceWorkspaces,
	})
	s.who = &owner.Visitor{Name: text, Token: "token", Session: session}
	s.fill(text)
	s.does(workspace.KindSignIn, &workspace.SignIn{
		ID: enginetest.ID("agent"), Issuer: "https://id.example", Subject: text + "bot", Email: text,
		Name: text, OwnerEmail: text, Agent: true, Session: [32]byte{9},
		Surface: workspace.SurfaceWorkspaces, Workspace: enginetest.ID("agent's"),
	})
	second, _ := s.signUp(text + "second")
	s.asks(second, "asked")
	s.again()
	require.NotZero(t, s.who.Workspace, "it is the person's")
	links, _ := s.Machine.Links(s.who.Person, workspace.Page{Limit: 5})
	require.Len(t, links, 1)
	return s
}

const asked = "/approve/token-asked"

// filled is a row's address, of a record that is there.
func filled(s *site, r owner.Row) string {
	links, _ := s.Machine.Links(s.who.Person, workspace.Page{Limit: 1})
	issues, _ := s.Machine.Issues(s.who.Workspace, workspace.Page{Limit: 1})
	id := map[string]string{
		"/console/runs/":      workspaceapi.NounRun.Text(enginetest.ID("waiting")),
		"/console/flows/":     workspaceapi.NounFlow.Text(enginetest.ID("flow")),
		"/console/purchases/": workspaceapi.NounPurchase.Text(enginetest.ID("purchase")),
		"/console/issues/":    workspaceapi.NounIssue.Text(issues[0].ID),
		"/console/you/links/": workspaceapi.NounLink.Text(links[0].ID),
		"/approve/":           "token-asked",
	}
	at := strings.IndexByte(r.Path, '{')
	if at < 0 {
		return r.Path
	}
	return r.Path[:at] + id[r.Path[:at]] + r.Path[strings.IndexByte(r.Path, '}')+1:]
}

// TestScriptInEveryField: every page and fragment, for its owner, a stranger and without a session,
// shows all input as text.
func TestScriptInEveryField(t *testing.T) {
	for _, payload := range payloads {
		s := full(t, payload)
		ada := s.who
		s.signIn("eve")
		eve := s.who
		for _, who := range []*owner.Visitor{ada, eve, nil} {
			shown := 0
			for _, r := range s.pages.Rows() {
				if s.who = ada; r.Method != "GET" {
					continue
				}
				path := filled(s, r)
				s.who = who
				a := s.ask("GET", path, nil)
				if strings.HasSuffix(path, ".csv") && a.status == 200 {
					require.Equal(t, "text/csv; charset=utf-8", string(a.header.ContentType()))
					require.Contains(t, string(a.header.Peek("Content-Disposition")), "attachment;")
					require.Equal(t, "nosniff", string(a.header.Peek("X-Content-Type-Options")))
					continue
				}
				require.Empty(t, code(t, a.body), "%s: %s", path, payload)
				require.NotContains(t, a.body, "<script>", path)
				if a.status == 200 {
					shown++
				}
				if who == ada {
					require.Equal(t, 200, a.status, "%s: %s", path, a.body)
				}
			}
			require.NotZero(t, shown)
		}
		s.who = ada
		for _, form := range [][]string{
			{
				"/flows", "id", workspaceapi.NounFlow.Text(enginetest.ID("flow")), "name", payload,
				"task", payload,
			},
			{"/you/claim", "code", payload},
			{"/billing", "cap", payload},
			{"/inspections", "url", payload},
		} {
			a := s.sends(owner.Root+form[0], form[1:]...)
			require.GreaterOrEqual(t, a.status, 400, form[0])
			require.Empty(t, code(t, a.body), "%s: %s", form[0], payload)
		}
	}
}

// unchanged reports whether nothing enters the log meanwhile.
func (s *site) unchanged(what string, happens func()) {
	s.t.Helper()
	index, hash := s.Machine.StateHash()
	happens()
	nextIndex, nextHash := s.Machine.StateHash()
	require.Equal(s.t, index, nextIndex, what)
	require.Equal(s.t, hash, nextHash, what)
}

// TestCrossSiteRequestForgery: forms of another site, of another session or without one are
// refused; and no GET does what a form does.
func TestCrossSiteRequestForgery(t *testing.T) {
	s := full(t, "Acme")
	ada, forms := s.who, 0
	for _, r := range s.pages.Rows() {
		if r.Method != "POST" {
			continue
		}
		forms++
		path := filled(s, r)
		good := url.Values{
			"_token": {"token"}, "_once": {"once"}, "action": {"approve"}, "answer": {"approve"},
			"code": {"code Acmesecond"}, "label": {"mine"}, "note": {"It works."}, "runs": {"1"},
		}
		without := func(token string) url.Values {
			fields := url.Values{}
			for name, values := range good {
				fields[name] = values
			}
			fields.Set("_token", token)
			return fields
		}
		s.unchanged(r.Name, func() {
			for name, a := range map[string]answer{
				"another origin": s.ask("POST", path, good, "Origin", "https://evil.example"),
				"a like origin":  s.ask("POST", path, good, "Origin", origin+".evil.example"),
				"a null origin":  s.ask("POST", path, good, "Origin", "null"),
				"another port":   s.ask("POST", path, good, "Origin", origin+":8443"),
				"in plaintext":   s.ask("POST", path, good, "Origin", "http://tollgate.test"),
				"cross-site":     s.ask("POST", path, good, "Sec-Fetch-Site", "cross-site"),
				"same-site":      s.ask("POST", path, good, "Sec-Fetch-Site", "same-site"),
				"no token":       s.ask("POST", path, without("")),
				"another token":  s.ask("POST", path, without("token2")),
				"a longer token": s.ask("POST", path, without("token ")),
			} {
				require.Equal(t, 403, a.status, "%s: %s", r.Name, name)
				require.Contains(t, a.body, "Nothing was changed", r.Name)
			}
			text := s.ask("POST", path, good, "Content-Type", "text/plain")
			require.GreaterOrEqual(t, text.status, 400, "%s: a form that needs no preflight", r.Name)
			json := s.ask("POST", path, good, "Content-Type", "application/json")
			require.GreaterOrEqual(t, json.status, 400, r.Name)
			s.ask("GET", path+"?"+good.Encode(), nil)
			s.who = nil
			require.Equal(t, 401, s.ask("POST", path, good).status, r.Name)
			agent := *ada
			agent.Agent = true
			s.who = &agent
			require.Contains(t, []int{401, 403}, s.ask("POST", path, good).status, r.Name)
			s.who = ada
		})
	}
	require.Greater(t, forms, 12)
}

// TestMailScannersOpenEveryLink: opening every link of every page, and of the pages behind them,
// changes nothing, with or without a session.
func TestMailScannersOpenEveryLink(t *testing.T) {
	s := full(t, "Acme")
	ada := s.who
	links := regexp.MustCompile(`(?:href|action|data-live)="([^"]+)"`)
	for _, who := range []*owner.Visitor{nil, ada} {
		open, seen := []string{owner.Root, asked}, map[string]bool{}
		s.who = who
		s.unchanged("opening links", func() {
			for len(open) > 0 {
				path := strings.TrimPrefix(strings.ReplaceAll(open[0], "&amp;", "&"), origin)
				if open = open[1:]; seen[path] || !strings.HasPrefix(path, "/") {
					continue
				}
				seen[path] = true
				a := s.ask("GET", path, nil)
				for _, method := range []string{"HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"} {
					s.ask(method, path, nil)
				}
				for _, found := range links.FindAllStringSubmatch(a.body, -1) {
					open = append(open, found[1])
				}
				open = append(open, string(a.header.Peek("Location")))
			}
		})
		require.True(t, seen[owner.Root] && seen[asked])
		if who != nil {
			require.Greater(t, len(seen), 25)
		}
	}
	require.Equal(t, workspace.PurchaseApproval, s.purchase("asked").Status)
}

// TestAStolenApprovalLink: it shows its request, and is not a key: not without a session, not for
// an agent, and where the workspace has an owner not for anyone else. It is in no address of ours
// that others see.
func TestAStolenApprovalLink(t *testing.T) {
	s := open(t, quiet)
	ws, _ := s.signUp("Acme")
	s.signIn("ada")
	ada := s.who
	require.Equal(t, 303, s.sends(owner.Root+"/you/claim", "code", "code Acme").status)
	link := "/approve/" + s.asks(ws, "first")
	s.signIn("eve")
	eve := s.who
	agent := *ada
	agent.Agent = true
	for _, thief := range []*owner.Visitor{nil, eve, &agent} {
		s.who = thief
		a := s.ask("GET", link, nil)
		require.Equal(t, 200, a.status)
		require.Equal(t, "no-store", string(a.header.Peek("Cache-Control")))
		require.Contains(t, []string{"no-referrer", "same-origin"},
			string(a.header.Peek("Referrer-Policy")))
		require.Contains(t, string(a.header.Peek("Content-Security-Policy")), "frame-ancestors 'none'")
		require.NotContains(t, a.body, "ada@example.com")
		require.NotContains(t, a.body, `id="approve"`)
		s.unchanged("a stolen link", func() {
			for _, action := range []string{"approve", "deny"} {
				fields := url.Values{"action": {action}}
				if thief != nil {
					fields.Set("_token", thief.Token)
				}
				require.Contains(t, []int{401, 403}, s.ask("POST", link, fields).status)
			}
		})
	}
	s.who = ada
	require.Contains(t, s.sees(link), `id="approve"`)
}

// TestAReplayedApprovalLink: one that was replaced, used, denied, cancelled or is seven days old
// shows and does nothing; repeating a form does not repeat its effect.
func TestAReplayedApprovalLink(t *testing.T) {
	ended := map[string]func(s *site, ws uint32, link string){
		"replaced": func(s *site, ws uint32, _ string) {
			s.does(workspace.KindRenewLink, &workspace.RenewLink{
				Workspace: ws, ID: enginetest.ID("first"), Link: [32]byte{1},
			})
		},
		"denied": func(s *site, _ uint32, link string) {
			require.Equal(t, 200, s.sends(link, "action", "deny").status)
		},
		"cancelled": func(s *site, ws uint32, _ string) {
			s.does(workspace.KindCancelPurchase, &workspace.CancelPurchase{
				Workspace: ws, ID: enginetest.ID("first"),
			})
		},
		"paid": func(s *site, _ uint32, link string) {
			require.Equal(t, 303, s.sends(link, "action", "approve").status)
			s.does(workspace.KindNotePayment, &workspace.NotePayment{
				ID: enginetest.ID("first"), Result: workspace.PaymentPaid, Payment: "pi",
				Card: "card",
			})
		},
		"old": func(s *site, _ uint32, _ string) {
			s.Later(workspace.ApprovalMS*time.Millisecond + time.Second)
		},
	}
	for name, end := range ended {
		t.Run(name, func(t *testing.T) {
			s, ws := mine(t)
			link := "/approve/" + s.asks(ws, "first")
			end(s, ws, link)
			before := s.purchase("first")
			s.unchanged(name, func() {
				require.Equal(t, 404, s.ask("GET", link, nil).status)
				require.Equal(t, 404, s.calls("GET", link, "", "").status)
				for _, action := range []string{"approve", "deny"} {
					for _, once := range []string{"once " + link, "another"} {
						a := s.sends(link, "action", action, "_once", once)
						if (name == "denied" || name == "paid") && once != "another" {
							require.Contains(t, a.body, "was carried out then, once")
							continue
						}
						require.Equal(t, 404, a.status)
						require.Contains(t, a.body, "no longer valid")
					}
				}
			})
			require.Equal(t, before, s.purchase("first"))
		})
	}
}

// blocked lets the run that waits end blocked at another step, so that there is an open issue.
func (s *site) blocked() {
	s.does(workspace.KindResumeRun, &workspace.ResumeRun{
		Workspace: s.who.Workspace, ID: enginetest.ID("waiting"), Agent: "clever exec Acme",
	})
	s.does(workspace.KindClaimRun, &workspace.ClaimRun{Worker: "w", LeaseMS: 60_000})
	s.does(workspace.KindFinishRun, &workspace.FinishRun{
		Run: enginetest.ID("waiting"), Token: 2, Status: workspace.RunCompleted,
		Outcome: workspace.OutcomeBlocked, Step: "pay", Code: "captcha",
	})
}

// counts is how many records of each kind there are, and what they come to.
func (s *site) counts(workspaces ...uint32) (n []int) {
	for _, w := range workspaces {
		at := workspace.Page{Limit: 100}
		acts, _ := s.Machine.Acts(w, at)
		flows, _ := s.Machine.Flows(w, at)
		runs, _ := s.Machine.Runs(w, at)
		bought, _ := s.Machine.Purchases(w, at)
		keys, _ := s.Machine.Keys(w, at)
		account, _ := s.Machine.Account(w, 0)
		n = append(n, len(acts), len(flows), len(runs), len(bought), len(keys),
			int(account.SpentCents+account.ChargingCents), int(account.RunsLeft))
		for _, p := range bought {
			n = append(n, int(p.Status))
		}
	}
	owned, _ := s.Machine.Owned(s.who.Person, workspace.Page{Limit: 100})
	return append(n, len(owned))
}

// TestDoubleSubmits: a form that is sent twice at once, by a double click or by a network that
// repeats it, takes effect once, and both answers lead on.
func TestDoubleSubmits(t *testing.T) {
	for path, fields := range map[string][]string{
		"/you/workspaces":              {"label", "another"},
		"/you/claim":                   {"code", "code Acmesecond"},
		"/you/links/{link}":            {"answer", "approve"},
		"/billing":                     {"action", "cap", "cap", "70"},
		"/billing#pause":               {"action", "pause"},
		"/purchases/{purchase}":        {"action", "deny"},
		"/purchases/{purchase}#cancel": {"action", "cancel"},
		"/purchases":                   {"runs", "2", "cents", "1000", "asks", "yes"},
		"/keys":                        nil,
		"/issues/{issue}/ready":        {"note", "It is fixed."},
		"/flows/{flow}/confirm-signup": nil,
		"/runs/{run}/cancel":           nil,
		"/inspections":                 {"url", "https://acme.example/"},
		"approve":                      {"action", "approve"},
		"deny":                         {"action", "deny"},
	} {
		t.Run(path, func(t *testing.T) { submitTwice(t, path, fields) })
	}
}

// TestADoubleSubmit is one of them, which the race detector sees every time.
func TestADoubleSubmit(t *testing.T) {
	submitTwice(t, "/purchases/{purchase}", []string{"action", "deny"})
}

// TestDoubleSubmitsOfSettings is TestDoubleSubmits for the forms of a flow that works: mails and
// alerts that it sends are counted, too.
func TestDoubleSubmitsOfSettings(t *testing.T) {
	for path, fields := range map[string][]string{
		"/flows/{flow}/schedule":       {"hours", "24"},
		"/flows/{flow}/alerts":         {"on", "true", "email", "ops@acme.example", "webhook", ""},
		"/flows/{flow}/alerts/confirm": {"until", "{until}"},
		"/flows/{flow}/alerts/test":    nil,
		"/test-access":                 {"host", "acme.example", "username", "qa", "password", "x-4711"},
		"/runs/{run}/answer":           {"answer", "The second."},
		"/you/workspace":               {"workspace", "{workspace}"},
	} {
		t.Run(path, func(t *testing.T) {
			once, one := settleTwice(t, path, fields, 1)
			both, two := settleTwice(t, path, fields, 2)
			require.Equal(t, once, both)
			for _, a := range append(one, two...) {
				require.Less(t, a.status, 400, a.body)
			}
		})
	}
}

// settleTwice sends a form so many times at once.
func settleTwice(t *testing.T, path string, fields []string, times int) ([]int, []answer) {
	s, ws := mine(t)
	s.does(workspace.KindSetAgents, &workspace.SetAgents{Agents: []string{"clever exec 1"}})
	flow, alerts := s.watches(ws)
	s.does(workspace.KindSaveFlow, &workspace.SaveFlow{
		Workspace: ws, ID: flow, Replace: true, Document: workspace.FlowDocument{
			Name: "Sign up", URL: "https://acme.example/", Access: "public",
			VerificationURL: "https://acme.example/me", VerificationContains: "ok",
		},
	})
	run := enginetest.ID("waits")
	if strings.HasPrefix(path, "/runs/") {
		s.does(workspace.KindStartRun, &workspace.StartRun{
			Workspace: ws, Flow: flow, ID: run, Key: run, FlowVersion: 2, Cents: 500,
			Agent: "clever exec 1",
		})
		s.does(workspace.KindClaimRun, &workspace.ClaimRun{Worker: "w", LeaseMS: 60_000})
		s.does(workspace.KindAwaitPerson,
			&workspace.AwaitPerson{Run: run, Token: 1, Question: "Which?"})
	}
	set := []string{"on", "true", "email", "team@acme.example", "webhook", "", "_once", "before"}
	require.Equal(t, 303, s.sends(alerts, set...).status)
	account, _ := s.Machine.Account(ws, 0)
	fill := strings.NewReplacer(
		"{flow}", workspaceapi.NounFlow.Text(flow), "{run}", workspaceapi.NounRun.Text(run),
		"{until}", fmt.Sprint(s.alertsOf(ws, flow).LinkUntil),
		"{workspace}", workspaceapi.NounWorkspace.Text(account.ID),
	)
	form := url.Values{"_token": {s.who.Token}, "_once": {"once"}}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fill.Replace(fields[i+1]))
	}
	for until := s.alertsOf(ws, flow).LinkUntil; ; { // a link of the same instant is the same
		if s.Now().UnixMilli()+workspace.AddressLinkMS > until {
			break
		}
	}
	answers := make([]answer, times)
	var all sync.WaitGroup
	for i := range times {
		all.Go(func() { answers[i] = s.ask("POST", fill.Replace(owner.Root+path), form) })
	}
	all.Wait()
	_, v, _, _ := s.Machine.Alerts(ws, flow)
	return append(s.counts(ws), len(s.post.all()), len(v.Deliveries)), answers
}

// submitTwice sends a form once, and to another workspace twice at once.
func submitTwice(t *testing.T, path string, fields []string) {
	twice := func(times int) (n []int, answers []answer) {
		s := full(t, "Acme")
		if strings.HasSuffix(path, "/ready") {
			s.blocked()
		}
		issues, _ := s.Machine.Issues(s.who.Workspace, workspace.Page{Limit: 1})
		links, _ := s.Machine.Links(s.who.Person, workspace.Page{Limit: 1})
		at, _, _ := strings.Cut(owner.Root+path, "#")
		if !strings.HasPrefix(path, "/") {
			at = asked
		}
		at = strings.NewReplacer(
			"{link}", workspaceapi.NounLink.Text(links[0].ID),
			"{purchase}", workspaceapi.NounPurchase.Text(enginetest.ID("purchase")),
			"{issue}", workspaceapi.NounIssue.Text(issues[0].ID),
			"{flow}", workspaceapi.NounFlow.Text(enginetest.ID("flow")),
			"{run}", workspaceapi.NounRun.Text(enginetest.ID("waiting")),
		).Replace(at)
		form := url.Values{"_token": {s.who.Token}, "_once": {"once"}}
		for i := 0; i+1 < len(fields); i += 2 {
			form.Set(fields[i], fields[i+1])
		}
		answers = make([]answer, times)
		var both sync.WaitGroup
		for i := range times {
			both.Go(func() { answers[i] = s.ask("POST", at, form) })
		}
		both.Wait()
		second := s.Machine.WorkspaceRow(enginetest.ID("workspace Acmesecond"))
		return s.counts(s.who.Workspace, second), answers
	}
	once, one := twice(1)
	both, two := twice(2)
	require.Less(t, one[0].status, 400, one[0].body)
	require.Equal(t, once, both)
	for _, a := range two {
		require.Less(t, a.status, 400, a.body)
	}
}
