package workspaceapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/workspace"
)

// The document's rules and rows of states that no other test plays over HTTP, one test each.

// TestWhatIsNoQuote: rule 1, a missing or malformed fingerprint.
func TestWhatIsNoQuote(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	flow := c.flow(plainFlow)
	good := c.quote(flow)["fingerprint"].(string)
	other := c.quote(c.flow(plainFlow))["fingerprint"].(string)
	run := func(body string) answer { return c.keyed("/v1/flows/"+flow+"/run", "some-key-1", body) }
	for _, bad := range []string{
		`{}`, `{"fingerprint":null}`, `{"fingerprint":5}`, `{"fingerprint":""}`, `{"fingerprint":"q1."}`,
		`{"fingerprint":"` + good[:len(good)-1] + `"}`, `{"fingerprint":"` + good + `AA"}`,
		`{"fingerprint":" ` + good + `"}`, `{"fingerprint":"q2` + good[2:] + `"}`,
		`{"fingerprint":"` + strings.Replace(good, ".", "", 2) + `"}`,
		`{"fingerprint":["` + good + `"]}`, ``,
	} {
		run(bad).is(400, "invalid_quote")
	}
	run(`{"fingerprint":"`+other+`"}`).is(409, "quote_changed")
	run(`{"fingerprint":"`+good+`"}`).is(402, "payment_required")
	require.Empty(t, c.call("GET", "/v1/runs", "").at("runs"))
}

// TestWhatIsNoRequestKey: rule 1, a missing or malformed Idempotency-Key, of starts and purchases.
func TestWhatIsNoRequestKey(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	c.claim()
	flow := c.flow(plainFlow)
	body := `{"fingerprint":"` + c.quote(flow)["fingerprint"].(string) + `"}`
	ask := func(path, body string, keys ...string) answer {
		request, err := http.NewRequest("POST", "http://"+n.addr+path, strings.NewReader(body))
		require.NoError(t, err)
		request.Header["Idempotency-Key"] = keys
		request.Header.Set("Authorization", "Bearer "+c.key)
		return n.do(request)
	}
	for path, body := range map[string]string{"/v1/flows/" + flow + "/run": body, "/v1/purchases": `{"runs":1}`} {
		for _, bad := range [][]string{
			nil,
			{""},
			{"seven77"},
			{strings.Repeat("k", 129)},
			{"with a space"},
			{"with\ttab-key"},
			{"not-ascii-é"},
			{"one-key-1", "other-key"},
		} {
			ask(path, body, bad...).is(400, "invalid_request_key")
		}
	}
	require.Empty(t, c.call("GET", "/v1/runs", "").at("runs"))
	for _, good := range []string{"eight888", strings.Repeat("k", 128), `!"#$%&'()*+,-./:;<=>?@[\]^_{|}~`} {
		id := ask("/v1/flows/"+flow+"/run", body, good).is(202, "").at("run", "id").(string)
		require.Equal(t, id, ask("/v1/flows/"+flow+"/run", body, good).is(202, "").at("run", "id"))
		c.call("POST", "/v1/runs/"+id+"/cancel", "").is(200, "")
		again := ask("/v1/flows/"+flow+"/run", body, good).is(202, "")
		require.Equal(t, []any{id, "cancelled"}, []any{again.at("run", "id"), again.at("run", "status")})
	}
}

// stages brings a run of a flow to each status that a run can have.
var stages = []struct {
	status string
	reach  func(c *caller, run [16]byte)
}{
	{"queued", func(*caller, [16]byte) {}},
	{"running", func(c *caller, _ [16]byte) { c.claimRun() }},
	{"waiting_for_human", func(c *caller, run [16]byte) {
		c.claimRun()
		c.does(workspace.KindAwaitPerson,
			&workspace.AwaitPerson{Run: run, Token: 1, Question: "code?"})
	}},
	{"completed", func(c *caller, run [16]byte) {
		c.claimRun()
		c.does(workspace.KindFinishRun, &workspace.FinishRun{
			Run: run, Token: 1, Status: workspace.RunCompleted, Outcome: workspace.OutcomePassed,
		})
	}},
	{"failed", func(c *caller, run [16]byte) {
		c.claimRun()
		c.does(workspace.KindFinishRun, &workspace.FinishRun{
			Run: run, Token: 1, Status: workspace.RunFailed, Outcome: workspace.OutcomeInconclusive,
		})
	}},
	{"cancelled", func(c *caller, run [16]byte) {
		c.call("POST", "/v1/runs/"+idText(markRun, run)+"/cancel", "").is(200, "")
	}},
}

// TestWhatARunAllows: in each status, whether a run is resumed or cancelled, whether its flow takes
// another run, and what becomes of the charge and of reserved credits.
func TestWhatARunAllows(t *testing.T) {
	t.Parallel()
	for _, stage := range stages {
		t.Run(stage.status, func(t *testing.T) {
			n := start(t)
			n.policy(func(p *workspace.SetPolicy) { p.CreditsRun = 3 })
			for _, act := range []string{"resume", "cancel", "start"} {
				c := n.signUp("")
				c.claim()
				c.operate("/credits", `{"amount":10}`)
				flow := c.flow(plainFlow)
				id := c.start(flow, "start-one").is(202, "").at("run", "id").(string)
				run, _ := parseID(markRun, id)
				stage.reach(c, run)
				shown := c.call("GET", "/v1/runs/"+id, "").is(200, "")
				require.Equal(t, stage.status, shown.at("run", "status"))
				open := stage.status == "queued" || stage.status == "running" ||
					stage.status == "waiting_for_human"
				switch {
				case act == "start" && open:
					c.start(flow, "start-two").is(409, "flow_busy")
				case act == "start":
					c.start(flow, "start-two").is(202, "")
				case act == "resume" && stage.status == "waiting_for_human":
					a := c.call("POST", "/v1/runs/"+id+"/resume", "{}").is(202, "")
					require.Equal(t, []any{id, "queued"}, []any{a.at("run", "id"), a.at("run", "status")})
				case act == "resume":
					c.call("POST", "/v1/runs/"+id+"/resume", "{}").is(409, "cannot_resume")
				case open:
					a := c.call("POST", "/v1/runs/"+id+"/cancel", "").is(200, "")
					require.Equal(t, "cancelled", a.at("run", "status"))
					require.Equal(t, [2]any{"free", "returned"}, c.charged(a))
					require.Equal(t, map[string]any{"balance": 10.0, "reserved": 0.0},
						c.call("GET", "/v1/account", "").at("credits"))
					require.EqualValues(t, 0, c.usage()["freeRunsUsed"])
					require.EqualValues(t, 1, c.usage()["runsReturned"])
					c.call("POST", "/v1/runs/"+id+"/cancel", "").is(409, "cannot_cancel")
				default:
					c.call("POST", "/v1/runs/"+id+"/cancel", "").is(409, "cannot_cancel")
				}
				// What is queued still must not be a later workspace's claim.
				if open && act != "cancel" {
					c.call("POST", "/v1/runs/"+id+"/cancel", "").is(200, "")
				}
			}
		})
	}
}

func (c *caller) claimRun() {
	c.t.Helper()
	c.does(workspace.KindClaimRun, &workspace.ClaimRun{Worker: "w", LeaseMS: 60_000})
}

// TestA402StartsNothing: rule 2 and 3, and the rows of starts without a run left: nothing is made
// but one purchase, whose first link goes on working when it is asked for again.
func TestA402StartsNothing(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	flow := c.flow(plainFlow)
	first := c.start(flow, "start-one").is(402, "payment_required")
	link := strings.TrimPrefix(first.at("approval_url").(string), publicURL)
	again := c.start(flow, "start-one").is(402, "payment_required")
	bought := c.keyed("/v1/purchases", "buy-three", `{"runs":3}`).is(402, "payment_required")
	for _, a := range []answer{again, bought} {
		require.Equal(t, "approve", a.at("next_action"))
		require.Nil(t, a.at("approval_url"))
		require.Equal(t, first.at("poll_url"), a.at("poll_url"))
		require.Equal(t, first.at("purchase", "id"), a.at("purchase", "id"))
	}
	n.send("GET", link, "", "", nil).is(200, "")
	require.Empty(t, c.call("GET", "/v1/runs", "").at("runs"))
	require.Len(t, c.call("GET", "/v1/purchases", "").at("purchases"), 1)
	require.EqualValues(t, 0, c.usage()["runsUsed"])
	require.Nil(t, c.call("GET", "/v1/flows/"+flow, "").at("flow", "openRun"))

	// Approved, paid, polled as it says, and started by the same request.
	id := first.at("purchase", "id").(string)
	c.operate("/purchases/"+id+"/approve", `{"owner":"ada@example.com"}`)
	poll := strings.TrimPrefix(first.at("poll_url").(string), publicURL)
	require.Equal(t, "checkout", c.call("GET", poll, "").is(200, "").at("purchase", "status"))
	n.payPage(c.page(id))
	require.Equal(t, "succeeded", c.call("GET", poll, "").is(200, "").at("purchase", "status"))
	c.start(flow, "start-one").is(202, "")
}

// page is where an approved purchase is paid.
func (c *caller) page(purchase string) string {
	c.t.Helper()
	shown := c.send("GET", operatorTools+"/"+c.workspace, "", "", nil)
	for _, item := range shown.told("purchases").([]any) {
		if p := item.(map[string]any); p["id"] == purchase {
			return p["url"].(string)
		}
	}
	c.t.Fatalf("%s has no page", purchase)
	return ""
}

// TestPurchasesThatNeedTheOwner: rule 4, each reason: 402 with a new purchase that awaits approval.
func TestPurchasesThatNeedTheOwner(t *testing.T) {
	for reason, prepare := range map[string]func(*caller){
		"no_card": func(*caller) {},
		"over_cap": func(c *caller) {
			c.withCard()
			c.operate("/billing/cap", `{"capCents":1499}`)
		},
		"paused": func(c *caller) {
			c.withCard()
			c.call("POST", "/v1/billing/pause", `{"paused":true}`).is(200, "")
		},
	} {
		n := start(t)
		n.collect()
		c := n.signUp("")
		prepare(c)
		before := len(c.call("GET", "/v1/purchases", "").at("purchases").([]any))
		a := c.keyed("/v1/purchases", "buy-two-runs", `{"runs":2}`).is(402, "payment_required")
		require.Equal(t, []any{"approve", reason}, []any{a.at("next_action"), a.at("reason")})
		require.Contains(t, a.at("approval_url"), publicURL+"/approve/")
		require.Equal(t, []any{"requires_approval", 2.0, 1000.0}, []any{
			a.at("purchase", "status"), a.at("purchase", "runs"), a.at("purchase", "cents"),
		})
		listed := c.call("GET", "/v1/purchases", "").at("purchases").([]any)
		require.Len(t, listed, before+1)
		newest := listed[0].(map[string]any)
		require.Equal(t, a.at("purchase", "id"), newest["id"])
		require.Contains(t, newest, "approval_url")
		require.Nil(t, newest["approval_url"])
	}
}

// withCard buys one run on a page, which saves the card.
func (c *caller) withCard() {
	c.t.Helper()
	_, page := c.approved("1")
	c.payPage(page)
}

// TestACancelledPurchaseStaysCancelled: from both of its waiting states; link and page end with it,
// nothing is charged, and no later word brings it back.
func TestACancelledPurchaseStaysCancelled(t *testing.T) {
	for _, approve := range []bool{false, true} {
		n := start(t)
		n.collect()
		c := n.signUp("")
		a := c.keyed("/v1/purchases", "buy-two-runs", `{"runs":2}`).is(402, "payment_required")
		id, link := a.at("purchase", "id").(string), strings.TrimPrefix(a.at("approval_url").(string), publicURL)
		page := ""
		if approve {
			c.operate("/purchases/"+id+"/approve", `{"owner":"ada@example.com"}`)
			page = strings.TrimPrefix(c.page(id), publicURL)
		}
		for range 2 {
			cancelled := c.call("POST", "/v1/purchases/"+id+"/cancel", "").is(200, "")
			require.Equal(t, "cancelled", cancelled.at("purchase", "status"))
		}
		ws, _ := parseID(markWorkspace, c.workspace)
		account, _ := n.Machine.Account(n.Machine.WorkspaceRow(ws), n.api.now())
		require.EqualValues(t, 1, account.CancelsToday, "a repetition does not count")
		n.send("GET", link, "", "", nil).is(404, "not_found")
		if approve {
			shown := n.send("GET", page, "", "", nil)
			require.NotContains(t, string(shown.raw), `name="card"`, "the page takes no payment")
			paid := n.send("POST", page, "card=success", "",
				map[string]string{"Content-Type": "application/x-www-form-urlencoded"})
			require.GreaterOrEqual(t, paid.status, 400, string(paid.raw))
		}
		for _, tool := range []string{"approve", "deny"} {
			path := operatorTools + "/" + c.workspace + "/purchases/" + id + "/" + tool
			require.Equal(t, 409, n.send("POST", path, "", "", jsonBody).status)
		}
		c.call("POST", "/v1/purchases/"+id+"/approval-link", "").is(409, "purchase_closed")
		require.Equal(t, "cancelled", c.call("GET", "/v1/purchases/"+id, "").at("purchase", "status"))
		require.EqualValues(t, 0, c.usage()["spentCents"])
		require.EqualValues(t, 0, c.usage()["runsLeft"])
	}
}

// TestTakingOver: a claim, and the approval of a purchase, give an unclaimed workspace to a person:
// its key keeps working, it gets the month's free runs, and no more than those.
func TestTakingOver(t *testing.T) {
	for name, take := range map[string]func(*caller){
		"claim": func(c *caller) { c.claim() },
		"approval": func(c *caller) {
			c.approved("1")
			c.cancelNewest().is(200, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t)
			c := n.signUp("")
			flow := c.flow(plainFlow)
			require.Equal(t, "none", c.quote(flow)["charge"])
			c.start(flow, "start-none").is(402, "payment_required")
			c.cancelNewest().is(200, "")
			take(c)
			account := c.call("GET", "/v1/account", "").is(200, "")
			require.Equal(t, true, account.at("workspace", "claimed"))
			for i := range 5 {
				require.Equal(t, "free", c.quote(flow)["charge"])
				c.finished(c.start(flow, fmt.Sprint("start-", i, "-free")).is(202, "").at("run", "id").(string))
			}
			require.Equal(t, "none", c.quote(flow)["charge"])
			c.start(flow, "start-six").is(402, "payment_required")
			require.EqualValues(t, 5, c.usage()["freeRunsUsed"])
			require.EqualValues(t, 0, c.usage()["spentCents"])

			// The next month brings five more.
			first := c.usage()["resetsAt"].(string)
			at, err := time.Parse(time.RFC3339, first)
			require.NoError(t, err)
			require.Equal(t, 1, at.Day())
			require.Zero(t, at.Hour()+at.Minute()+at.Second()+at.Nanosecond())
			n.Later(at.Sub(n.Now()) - time.Minute)
			c.start(flow, "start-six").is(402, "payment_required")
			n.Later(time.Minute)
			require.EqualValues(t, 0, c.usage()["freeRunsUsed"])
			c.start(flow, "start-six").is(202, "")
			require.EqualValues(t, 1, c.usage()["freeRunsUsed"])
		})
	}
}

// TestUsageShowsTheLast20Runs: newest first, each with how it was charged.
func TestUsageShowsTheLast20Runs(t *testing.T) {
	const free = 10
	n := start(t)
	n.policy(func(p *workspace.SetPolicy) { p.RunsPerDay, p.FreeRunsPerMonth = 100, free })
	c := n.signUp("")
	_, page := c.approved("10")
	n.payPage(page)
	flow := c.flow(plainFlow)
	var made []any
	for i, kept := 0, 0; i < 22; i++ {
		id := c.start(flow, fmt.Sprint("start-run-", i)).is(202, "").at("run", "id").(string)
		want := map[string]any{"kind": "free", "state": "committed", "cents": 0.0, "credits": 0.0}
		if kept >= free {
			want["kind"], want["cents"] = "paid", 500.0
		}
		if i%7 == 0 {
			c.call("POST", "/v1/runs/"+id+"/cancel", "").is(200, "")
			want["state"] = "returned"
		} else {
			c.finished(id)
			kept++
		}
		made = append([]any{[]any{id, want}}, made...)
		c.call("POST", "/v1/run-requests", `{"flowId":"`+flow+`"}`).is(201, "") // is no hosted run
	}
	var shown []any
	for _, item := range c.usage()["recentRuns"].([]any) {
		r := item.(map[string]any)
		shown = append(shown, []any{r["id"], r["charge"]})
	}
	require.Equal(t, made[:20], shown)
	u := c.usage()
	require.Equal(t, []any{22.0, 10.0, 8.0, 4.0}, []any{
		u["runsUsed"], u["freeRunsUsed"], u["paidRunsUsed"], u["runsReturned"],
	})
}

// TestAWatchFollowsItsRuns: one blocked run, or two in a row that do not pass, make a passing watch
// failing; a pass makes it passing again; what failed on our side or was cancelled is not counted.
func TestAWatchFollowsItsRuns(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.policy(func(p *workspace.SetPolicy) { p.RunsPerDay, p.FreeRunsPerMonth = 100, 100 })
	c := n.signUp("")
	c.claim()
	flow := c.flow(plainFlow)
	seen := "0001-01-01T00:00:00.000Z"
	for i, step := range strings.Fields("blocked:unknown passed:passing blocked:failing passed:passing " +
		"inconclusive:passing failed:passing cancelled:passing inconclusive:failing failed:failing " +
		"passed:passing inconclusive:passing passed:passing inconclusive:passing changed:unknown " +
		"inconclusive:unknown blocked:unknown passed:passing") {
		did, want, _ := strings.Cut(step, ":")
		before := c.call("GET", "/v1/flows/"+flow+"/alerts", "").is(200, "").at("watch")
		n.Later(time.Minute)
		if did == "changed" {
			c.call("PATCH", "/v1/flows/"+flow, `{"task":"Do something else."}`).is(200, "")
		} else {
			c.comesTo(flow, fmt.Sprint("start-run-", i), did)
		}
		watch := c.call("GET", "/v1/flows/"+flow+"/alerts", "").is(200, "").at("watch").(map[string]any)
		require.Equal(t, want, watch["state"], "%d %s", i, did)
		if watch["state"] == before.(map[string]any)["state"] {
			require.Equal(t, before, watch, "%d %s", i, did)
			continue
		}
		require.Greater(t, watch["since"], seen)
		seen = watch["since"].(string)
	}
	told := map[any]int{}
	for _, item := range c.call("GET", "/v1/notifications", "").at("notifications").([]any) {
		told[item.(map[string]any)["type"]]++
	}
	require.Equal(t, map[any]int{"regression": 2, "recovered": 2, "run_returned": 8}, told)
}

// TestAFixIsVerified: a fix that was said to be ready awaits a retest of the flow; one that fails
// opens the issue again, one that passes closes it, and a later failure is another issue.
func TestAFixIsVerified(t *testing.T) {
	n := start(t)
	n.policy(func(p *workspace.SetPolicy) { p.RunsPerDay, p.FreeRunsPerMonth = 100, 100 })
	c := n.signUp("")
	c.claim()
	flow := c.flow(plainFlow)
	newest := func() map[string]any {
		return c.call("GET", "/v1/issues?limit=1", "").is(200, "").at("issues").([]any)[0].(map[string]any)
	}
	c.comesTo(flow, "start-run-1", "blocked")
	first := newest()
	require.Equal(t, "open", first["status"])
	ready := func() {
		body := `{"status":"fix_ready","note":"It is mended."}`
		a := c.call("PATCH", "/v1/issues/"+first["id"].(string), body).is(200, "")
		require.Equal(t, "fix_ready", a.at("issue", "status"))
		n.Later(time.Second)
	}
	for i, row := range [][2]string{
		{"inconclusive", "fix_ready"},
		{"failed", "fix_ready"},
		{"cancelled", "fix_ready"},
		{"blocked", "open"},
		{"passed", "open"},
	} {
		if i == 0 {
			ready()
		}
		c.comesTo(flow, fmt.Sprint("start-again-", i), row[0])
		require.Equal(t, []any{first["id"], row[1]}, []any{newest()["id"], newest()["status"]}, row[0])
	}
	ready()
	c.comesTo(flow, "start-at-last", "passed")
	closed := newest()
	require.Equal(t, []any{first["id"], "closed"}, []any{closed["id"], closed["status"]})
	told := c.call("GET", "/v1/notifications", "").at("notifications").([]any)
	require.Contains(t, fmt.Sprint(told), "fix_verified")
	c.comesTo(flow, "start-anew", "blocked")
	require.NotEqual(t, first["id"], newest()["id"])
}

// comesTo starts a run and brings it to an end: an outcome, failed, or cancelled.
func (c *caller) comesTo(flow, key, end string) {
	c.t.Helper()
	id := c.start(flow, key).is(202, "").at("run", "id").(string)
	if end == "cancelled" {
		c.call("POST", "/v1/runs/"+id+"/cancel", "").is(200, "")
		return
	}
	run, _ := parseID(markRun, id)
	c.claimRun()
	last := workspace.FinishRun{
		Run: run, Token: 1, Status: workspace.RunCompleted, Step: "signup",
		Code: end,
	}
	switch end {
	case "passed":
		last.Outcome = workspace.OutcomePassed
	case "blocked":
		last.Outcome = workspace.OutcomeBlocked
	case "failed":
		last.Status = workspace.RunFailed
		fallthrough
	default:
		last.Outcome = workspace.OutcomeInconclusive
	}
	c.does(workspace.KindFinishRun, &last)
}
