package owner_test

import (
	"crypto/sha256"
	"encoding/csv"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server/console/owner"
	"tollgate/server/workspaceapi"
)

// payloads are texts that become code where a context is forgotten.
var payloads = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onfocus='alert(1)`,
	`javascript:alert(1)`, `</title><svg onload=alert(1)>`, `{{.Token}}`,
	`</textarea><script>alert(1)</script>`,
	`data:text/html,<script>alert(1)</script>`,
}

const quiet = "=== https://acme.example/\n200 text/html\n\n<title>Acme</title>\n"

// hostile is a site all of whose texts are one payload.
func hostile(payload string) string {
	return "=== https://acme.example/\n200 text/html\n\n<html><head><title>" + payload +
		"</title><meta name=\"description\" content='" + payload + "'></head><body>" + payload +
		" api key bearer $9 per month</body></html>\n=== https://acme.example/llms.txt\n200 text/plain\n" +
		"\n# " + payload + "\n\n## " + payload + "\n\n- [" + payload +
		"](https://acme.example/docs)\n"
}

// fill gives a workspace one record of each kind, with a text in every field.
func (s *site) fill(text string) (ws uint32, key string) {
	ws, key = s.signUp(text)
	flow, run := enginetest.ID("flow"), enginetest.ID("run")
	s.does(workspace.KindSaveFlow, &workspace.SaveFlow{
		Workspace: ws, ID: flow, Document: workspace.FlowDocument{
			Name: text, URL: text, Task: text, SuccessCriteria: text, Access: "public",
			VerificationURL: text, VerificationContains: text,
		},
	})
	s.does(workspace.KindNotePreflight, &workspace.NotePreflight{
		Workspace: ws, ID: flow, Version: 1, NoKey: workspace.CalledRefused,
		WrongKey: workspace.CalledRefused,
	})
	s.does(workspace.KindRequestPurchase, &workspace.RequestPurchase{
		Workspace: ws, ID: enginetest.ID("purchase"), Runs: 1, Flow: flow, Ask: true,
	})
	s.does(workspace.KindApprovePurchase, &workspace.ApprovePurchase{
		ID: enginetest.ID("purchase"), Owner: text,
	})
	s.does(workspace.KindNoteCheckout, &workspace.NoteCheckout{
		ID: enginetest.ID("purchase"), Checkout: "cs", URL: text,
	})
	s.does(workspace.KindAct, &workspace.Act{
		Workspace: ws, ID: enginetest.ID("act"), Actor: text, Kind: workspace.KindGrantCredits,
		Payload: wire.Encode(nil, &workspace.GrantCredits{
			Workspace: ws, ID: enginetest.ID("grant"), Amount: 5, Note: text,
		}),
	})
	s.does(workspace.KindStartRun, &workspace.StartRun{
		Workspace: ws, Flow: flow, ID: run, Key: enginetest.ID("k"), FlowVersion: 1,
		Cents: 500, Agent: "clever exec " + text,
	})
	s.does(workspace.KindClaimRun, &workspace.ClaimRun{Worker: "w", LeaseMS: 60_000})
	events := []workspace.RunEvent{{At: 5, Text: text}}
	s.does(workspace.KindFinishRun, &workspace.FinishRun{
		Run: run, Token: 1, Status: workspace.RunCompleted, Outcome: workspace.OutcomeBlocked,
		Code:   text,
		Reason: text, Step: text, Proof: text, Events: events,
		Calls: []workspace.Call{{Case: text, Status: 401, Refused: true, Note: text}},
	})
	issues, _ := s.Machine.Issues(ws, workspace.Page{Limit: 1})
	require.Len(s.t, issues, 1)
	s.does(workspace.KindMarkIssueReady, &workspace.MarkIssueReady{
		Workspace: ws, ID: issues[0].ID, Note: text,
	})
	s.does(workspace.KindStartRun, &workspace.StartRun{
		Workspace: ws, Flow: flow, ID: enginetest.ID("waiting"), Key: enginetest.ID("k2"),
		FlowVersion: 1, Cents: 500, Agent: "clever exec " + text,
	})
	s.does(workspace.KindClaimRun, &workspace.ClaimRun{Worker: "w", LeaseMS: 60_000})
	s.does(workspace.KindAwaitPerson, &workspace.AwaitPerson{
		Run: enginetest.ID("waiting"), Token: 1, Question: text,
	})
	s.does(workspace.KindSetAlerts, &workspace.SetAlerts{
		Workspace: ws, Flow: flow, HasOn: true, On: true, HasEmail: true, Email: text,
		HasURL: true, URL: text, Secret: []byte(text),
	})
	s.does(workspace.KindSendTestAlert, &workspace.SendTestAlert{Workspace: ws, Flow: flow})
	s.does(workspace.KindNoteAlert, &workspace.NoteAlert{
		Alert: 1, Number: 2, Attempt: 1, Result: workspace.AlertGone, Answer: 410, Reason: text,
	})
	return ws, key
}

// everyPage are the addresses of all pages of a filled workspace.
func everyPage() []string {
	return []string{
		"", "/runs", "/runs/" + workspaceapi.NounRun.Text(enginetest.ID("run")),
		"/runs/" + workspaceapi.NounRun.Text(enginetest.ID("waiting")), "/flows",
		"/flows/" + workspaceapi.NounFlow.Text(enginetest.ID("flow")), "/issues", "/inspections",
		"/purchases",
		"/purchases/" + workspaceapi.NounPurchase.Text(enginetest.ID("purchase")), "/keys",
		"/history", "/flows/new", "/search", "/search?q=nothing",
		"/flows/" + workspaceapi.NounFlow.Text(enginetest.ID("flow")) + "/edit",
		"/flows/" + workspaceapi.NounFlow.Text(enginetest.ID("flow")) + "/start",
		"/flows/" + workspaceapi.NounFlow.Text(enginetest.ID("flow")) + "/alerts",
		"/flows/" + workspaceapi.NounFlow.Text(enginetest.ID("flow")) + "/alerts/live",
	}
}

// TestHostileTexts: whatever a product, an agent or a stranger has written, it stays a text on
// every page, also in an inspection's report.
func TestHostileTexts(t *testing.T) {
	for _, payload := range payloads {
		s := open(t, hostile(payload))
		ws, key := s.fill(payload)
		s.who = &owner.Visitor{Person: 1, Name: payload, Token: payload, Workspace: ws}
		paths := everyPage()
		for _, ask := range []string{"/v1/interface", "/v1/evaluate"} {
			a := s.calls("POST", ask, key, `{"url":"https://acme.example/"`+
				map[string]string{"/v1/evaluate": `,"task":"Read the api docs"`}[ask]+`}`)
			require.Equal(t, 200, a.status, a.body)
			run := regexp.MustCompile(`run_[0-9a-v]{26}`).FindString(a.body)
			paths = append(paths, "/runs/"+run)
		}
		for _, path := range paths {
			a := s.ask("GET", owner.Root+path, nil)
			require.Equal(t, 200, a.status, "%s: %s", path, a.body)
			require.Empty(t, code(t, a.body), "%s: %s", path, payload)
			require.NotContains(t, a.body, "<script>", path)
		}
	}
}

// TestPagesSayWhatIsThere: each page shows its records in words.
func TestPagesSayWhatIsThere(t *testing.T) {
	s := open(t, quiet)
	ws, _ := s.fill("Acme")
	s.who = &owner.Visitor{Person: 1, Name: "ada@example.com", Token: "t", Workspace: ws}
	says := map[string][]string{
		"":                {"Acme", "$0.00 <small>of $50.00", "Open issues", "ada@example.com"},
		everyPage()[2]:    {"blocked", "reported as failed", "refused", "Steps reported by the agent"},
		everyPage()[3]:    {"The agent asks a person", "data-live="},
		"/flows":          {"Acme", "unknown"},
		everyPage()[5]:    {"Verified by", "$5.00", "a run that has not ended"},
		"/issues":         {"fix ready", "Reported as fixed"},
		everyPage()[9]:    {"You approved the purchase", "Pay $5.00"},
		"/keys":           {"read write run"},
		"/history":        {"grant credits", "Acme"},
		"/purchases":      {"checkout", "$5.00"},
		"/inspections":    {"Nothing was inspected yet"},
		"/runs?cursor=no": {"hosted"},
	}
	for path, words := range says {
		body := s.sees(owner.Root + path)
		for _, word := range words {
			require.Contains(t, body, word, path)
		}
	}
}

// TestTheCallsThatDecide are shown as what they are.
func TestTheCallsThatDecide(t *testing.T) {
	s := open(t, quiet)
	ws, _ := s.fill("Acme")
	s.who = &owner.Visitor{Person: 1, Token: "t", Workspace: ws}
	s.does(workspace.KindCancelRun, &workspace.CancelRun{
		Workspace: ws, ID: enginetest.ID("waiting"), Kind: workspace.RunHosted,
	})
	run := enginetest.ID("proven")
	s.does(workspace.KindStartRun, &workspace.StartRun{
		Workspace: ws, Flow: enginetest.ID("flow"), ID: run, Key: enginetest.ID("k3"),
		FlowVersion: 1, Cents: 500, Agent: "clever exec 1",
	})
	s.does(workspace.KindClaimRun, &workspace.ClaimRun{Worker: "w", LeaseMS: 60_000})
	s.does(workspace.KindFinishRun, &workspace.FinishRun{
		Run: run, Token: 1, Status: workspace.RunCompleted, Outcome: workspace.OutcomePassed,
		Proof: "run",
		Calls: []workspace.Call{
			{Case: "none", Status: 401, Refused: true},
			{Case: "wrong", Status: 403, Refused: true},
			{Case: "wrong", Status: 403, Refused: true},
			{Case: "real", Status: 200, Matched: true},
			{Case: "none", Status: 401, Refused: true},
		},
	})
	body := s.sees(owner.Root + "/runs/" + workspaceapi.NounRun.Text(run))
	require.Equal(t, 2, strings.Count(body, "Without a key"))
	require.Equal(t, 2, strings.Count(body, "With a wrong key"))
	for _, word := range []string{
		"With the agent&#39;s key", "accepted: the key works", "this run did it",
	} {
		require.Contains(t, body, word)
	}
}

// TestEmptyWorkspaceTeaches: empty pages explain how to begin.
func TestEmptyWorkspaceTeaches(t *testing.T) {
	s := open(t, quiet)
	ws, _ := s.signUp("new")
	s.who = &owner.Visitor{Person: 1, Token: "t", Workspace: ws}
	for _, path := range []string{
		"", "/runs", "/flows", "/issues", "/inspections", "/purchases", "/history",
	} {
		require.Contains(t, s.sees(owner.Root+path), `class="empty"`, path)
	}
	s.who.Workspace = 0
	require.Contains(t, s.sees(owner.Root), "No workspace yet")
}

// TestOthersRecords: records of another workspace are not found, nor are invalid ids.
func TestOthersRecords(t *testing.T) {
	s := open(t, quiet)
	s.fill("Acme")
	other, _ := s.signUp("other")
	s.who = &owner.Visitor{Person: 1, Token: "t", Workspace: other}
	for _, path := range everyPage() {
		if !strings.Contains(path, "_") { // it names no record
			continue
		}
		id := regexp.MustCompile(`[a-z]+_[0-9a-v]+`).FindString(path)
		for _, id := range []string{id, id[:len(id)-1], "x"} {
			path := regexp.MustCompile(`[a-z]+_[0-9a-v]+`).ReplaceAllString(path, id)
			a := s.ask("GET", owner.Root+path, nil)
			require.Equal(t, 404, a.status, path)
			require.Equal(t, "text/html; charset=utf-8", string(a.header.ContentType()))
			require.NotContains(t, a.body, "Acme")
		}
	}
}

// TestOthersLists: lists and files have the records of one's own workspace alone, also behind a
// record of another one.
func TestOthersLists(t *testing.T) {
	s := open(t, quiet)
	ws, _ := s.fill("Acme")
	issues, _ := s.Machine.Issues(ws, workspace.Page{Limit: 1})
	keys, _ := s.Machine.Keys(ws, workspace.Page{Limit: 1})
	other, _ := s.signUp("other")
	s.does(workspace.KindSaveFlow, &workspace.SaveFlow{
		Workspace: other, ID: enginetest.ID("own"),
		Document: workspace.FlowDocument{Name: "own", Access: "public"},
	})
	s.who = &owner.Visitor{Person: 1, Token: "t", Workspace: other}
	for path, c := range map[string]struct {
		rows   int
		theirs string
	}{
		"/runs":        {0, workspaceapi.NounRun.Text(enginetest.ID("run"))},
		"/inspections": {0, workspaceapi.NounRun.Text(enginetest.ID("run"))},
		"/flows":       {1, workspaceapi.NounFlow.Text(enginetest.ID("flow"))},
		"/issues":      {0, workspaceapi.NounIssue.Text(issues[0].ID)},
		"/purchases":   {0, workspaceapi.NounPurchase.Text(enginetest.ID("purchase"))},
		"/keys":        {1, workspaceapi.NounKey.Text(keys[0].ID)},
		"/history":     {0, workspaceapi.NounAct.Text(enginetest.ID("act"))},
	} {
		for _, query := range []string{"", "?cursor=" + c.theirs} {
			body := s.sees(owner.Root + path + query)
			file := s.ask("GET", owner.Root+path+".csv"+query, nil)
			require.Equal(t, 200, file.status, path)
			for _, text := range []string{"Acme", c.theirs} {
				require.NotContains(t, body, text, path)
				require.NotContains(t, file.body, text, path)
			}
			if query == "" {
				require.Equal(t, 1+c.rows, strings.Count(file.body, "\n"), "%s: %s", path, file.body)
			}
		}
	}
}

// TestWalksAreBounded: a page that has looked at so many records leads on, where none of them is
// listed, too; a file says that it may be short.
func TestWalksAreBounded(t *testing.T) {
	s := open(t, quiet)
	ws, _ := s.signUp("many")
	s.who = &owner.Visitor{Person: 1, Token: "t", Workspace: ws}
	for i := range 5 {
		s.does(workspace.KindSaveFlow, &workspace.SaveFlow{
			Workspace: ws, ID: enginetest.ID(fmt.Sprint("flow ", i)),
			Document: workspace.FlowDocument{Name: fmt.Sprintf("Flow number %d.", i), Access: "public"},
		})
	}
	const flows = owner.Root + "/flows"
	missing := "Rows may be missing"
	require.NotContains(t, s.ask("GET", flows+".csv", nil).body, missing)
	s.pages.WalkAtMost(3, 3)
	file := s.ask("GET", flows+".csv", nil).body
	require.Equal(t, 3, strings.Count(file, "Flow number"))
	require.Contains(t, file, missing)
	next := regexp.MustCompile(`href="(/console/flows\?cursor=[^"]+)" rel="next"`)
	for query, listed := range map[string]int{"": 3, "?only=failing": 0} {
		body := s.sees(flows + query)
		require.Equal(t, listed, strings.Count(body, "Flow number"), query)
		found := next.FindStringSubmatch(strings.ReplaceAll(body, "&amp;", "&"))
		require.Len(t, found, 2, "%s: %s", query, body)
		body = s.sees(found[1])
		require.Equal(t, min(listed, 2), strings.Count(body, "Flow number"), query)
		require.NotContains(t, body, `rel="next"`)
	}
}

// TestWhoMayLook: a signed-in person; others get advice.
func TestWhoMayLook(t *testing.T) {
	s := open(t, quiet)
	ws, _ := s.fill("Acme")
	run := "/runs/" + workspaceapi.NounRun.Text(enginetest.ID("waiting"))
	a := s.ask("GET", owner.Root+run, nil)
	require.Equal(t, 303, a.status)
	require.Equal(t, "/login?return=%2Fconsole%2Fruns%2F"+run[6:], string(a.header.Peek("Location")))
	require.Equal(t, 401, s.ask("GET", owner.Root+run+"/live", nil).status)
	s.who = &owner.Visitor{Person: 1, Token: "t", Workspace: ws}
	a = s.ask("GET", owner.Root+run+"/live", nil)
	require.Equal(t, 200, a.status)
	require.NotContains(t, a.body, "<html")
	s.who.Agent = true
	a = s.ask("GET", owner.Root, nil)
	require.Equal(t, 403, a.status)
	require.Contains(t, a.body, "These pages are for people")
	s.who.Agent = false
	s.NoLeader.Store(true)
	s.Stale.Store(int64(19 * time.Second))
	for _, path := range []string{
		"", "/runs", run, "/flows", "/purchases", "/keys", "/you", "/search?q=nothing",
	} {
		a = s.ask("GET", owner.Root+path, nil)
		require.Equal(t, 200, a.status, path)
		require.Contains(t, a.body, "19 s old", path)
		require.NotContains(t, a.body, `id="sign-out"`, path)
	}
	for _, path := range []string{run + "/live", "/flows/new"} {
		a = s.ask("GET", owner.Root+path, nil)
		require.Equal(t, 503, a.status, path)
		require.NotEmpty(t, a.header.Peek("Retry-After"))
	}
}

// TestListsArePaged: a list shows 50, and leads to the rest.
func TestListsArePaged(t *testing.T) {
	s := open(t, quiet)
	ws, _ := s.signUp("many")
	// An unclaimed workspace saves 50 flows, no page more.
	s.does(workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{
		Code: sha256.Sum256([]byte("code many")), Owner: "ada@example.com",
	})
	s.who = &owner.Visitor{Person: 1, Token: "t", Workspace: ws}
	for i := range 120 {
		s.does(workspace.KindSaveFlow, &workspace.SaveFlow{
			Workspace: ws, ID: enginetest.ID(fmt.Sprint("flow ", i)),
			Document: workspace.FlowDocument{
				Name:   fmt.Sprintf("Flow number %d.", i),
				Access: "public",
			},
		})
	}
	path, seen := owner.Root+"/flows?only=unknown", 0
	for _, count := range []string{
		"50 flows on this page; more on the next.", "50 flows on this page; more on the next.",
		"20 flows on this page, the last one.",
	} {
		body := s.sees(path)
		require.Contains(t, body, count)
		seen += strings.Count(body, "Flow number")
		next := regexp.MustCompile(`href="(/console/flows\?cursor=[^"]+)" rel="next"`).FindStringSubmatch(
			strings.ReplaceAll(body, "&amp;", "&"))
		if next == nil {
			break
		}
		path = next[1]
	}
	require.Equal(t, 120, seen)
}

// TestListsAreNarrowedAndFiles: each list says how many it has, is narrowed by its chips, and is a
// file of the same address, in which no text is a formula.
func TestListsAreNarrowedAndFiles(t *testing.T) {
	s := open(t, quiet)
	ws, _ := s.fill("=Acme")
	s.who = &owner.Visitor{Person: 1, Name: "ada@example.com", Token: "t", Workspace: ws}
	for path, rows := range map[string]int{
		"/runs": 2, "/runs?only=blocked": 1, "/runs?only=none": 1, "/runs?only=passed": 0,
		"/flows": 1, "/flows?only=unknown": 1, "/flows?only=failing": 0,
		"/issues": 1, "/issues?only=fix_ready": 1, "/issues?only=open": 0,
		"/purchases": 1, "/purchases?only=open": 1, "/purchases?only=paid": 0,
		"/purchases?only=ended": 0, "/inspections": 0, "/keys": 1, "/history": 1,
	} {
		body := s.sees(owner.Root + path)
		list, query, narrowed := strings.Cut(path, "?")
		file := owner.Root + list + ".csv"
		if narrowed {
			file += "?" + query
			require.Contains(t, body, `href="`+owner.Root+path+`" aria-current="true"`, path)
		}
		if rows > 0 {
			require.Regexp(t, `<p class="soft count">`+fmt.Sprint(rows)+` [a-z]+</p>`, body, path)
			require.Contains(t, body, `href="`+file+`" download`, path)
		} else if narrowed {
			require.Contains(t, body, `id="no-match"`, path)
		}
		a := s.ask("GET", file, nil)
		require.Equal(t, 200, a.status, path)
		require.Equal(t, "text/csv; charset=utf-8", string(a.header.ContentType()))
		found, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
		require.NoError(t, err)
		require.Len(t, found, rows+1, "%s: %s", path, a.body)
		require.NotRegexp(t, `(?m)(^|,)=`, a.body, path)
	}
	for _, path := range []string{"/runs.csv", "/flows.csv", "/issues.csv", "/history.csv"} {
		require.Contains(t, s.ask("GET", owner.Root+path, nil).body, ",'=Acme", path)
	}
	s.who = nil
	require.Equal(t, 401, s.ask("GET", owner.Root+"/runs.csv", nil).status)
}
