package workspaceapi

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/servertest"
	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server"
)

var jsonBody = map[string]string{"Content-Type": "application/json"}

// told is an answer's data.
func (a answer) told(names ...string) any {
	a.t.Helper()
	require.Equal(a.t, 200, a.status, string(a.raw))
	return a.at(append([]string{"data"}, names...)...)
}

// TestOperatorsAct: the tools answer in the admin API's envelope, and name what they do not find.
func TestOperatorsAct(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	path := operatorTools + "/"
	refused := func(a answer, status int, code string) {
		t.Helper()
		require.Equal(t, status, a.status, string(a.raw))
		require.Equal(t, code, a.at("error", "code"))
	}
	unknown := path + idText(markWorkspace, [16]byte{1})
	refused(n.send("GET", unknown, "", "", nil), 404, "account_not_found")
	refused(n.send("POST", unknown+"/credits", `{"amount":1}`, "", jsonBody), 404, "account_not_found")
	refused(n.send("POST", path+"ada@example.com/credits", `{"amount":1}`, "", jsonBody), 404, "account_not_found")
	for body, tool := range map[string]string{
		`{"amount":0}`: "/credits", `{"amount":1,"x":1}`: "/credits", `{"paused":1}`: "/billing/pause",
		`{"capCents":20001}`: "/billing/cap", `{"owner":""}`: "/claim",
	} {
		require.Equal(t, 400, n.send("POST", path+c.workspace+tool, body, "", jsonBody).status, body)
	}
	refused(n.send("POST", path+c.workspace+"/purchases/pur_x/deny", ``, "", nil), 404, "not_found")
	c.claim()
	shown := n.send("GET", path+c.workspace, "", "", nil)
	require.Equal(t, "ada@example.com", shown.told("owner"))
	refused(n.send("POST", path+c.workspace+"/claim", `{"owner":"eve@example.com"}`, "", jsonBody), 404, "not_found")
	flow := c.flow(plainFlow)
	a := n.send("POST", path+c.workspace+"/flows/"+flow+"/confirm-signup", `{"dryRun":true}`, "", jsonBody)
	require.Equal(t, 400, a.status, "a field that nobody reads")
	c.operate("/flows/"+flow+"/confirm-signup", "")
	require.Equal(t, true, c.call("GET", "/v1/flows/"+flow, "").is(200, "").at("flow", "signupConfirmed"))
	n.send("POST", path+"ada@example.com/credits", `{"amount":3}`, "", jsonBody).told()
	require.EqualValues(t, 3, c.call("GET", "/v1/account", "").at("credits", "balance"))
}

// TestAnApprovalNeedsAnOwner where nobody has claimed the workspace: whose it becomes is for good.
func TestAnApprovalNeedsAnOwner(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	id := c.keyed("/v1/purchases", "buy-three", `{"runs":3}`).at("purchase", "id").(string)
	path := operatorTools + "/" + c.workspace + "/purchases/" + id + "/approve"
	for _, body := range []string{"", "{}", `{"owner":""}`} {
		a := n.send("POST", path, body, "", jsonBody)
		require.Equal(t, 400, a.status, string(a.raw))
		require.Contains(t, string(a.raw), "owner")
	}
	require.Equal(t, false, c.call("GET", "/v1/account", "").at("workspace", "claimed"))
	require.Equal(t, "requires_approval", c.call("GET", "/v1/purchases/"+id, "").at("purchase", "status"))
	c.claim()
	require.Equal(t, "ada@example.com", n.send("POST", path, "", "", jsonBody).told("owner"))
}

// TestEveryActIsKept: who did what, when, and what was changed; newest first, page by page.
func TestEveryActIsKept(t *testing.T) {
	n := start(t)
	c, other := n.signUp(""), n.signUp("")
	flow := c.flow(plainFlow)
	bought := c.keyed("/v1/purchases", "buy-three", `{"runs":3}`).is(402, "payment_required").
		at("purchase", "id").(string)
	denied := other.keyed("/v1/purchases", "buy-three", `{"runs":3}`).at("purchase", "id").(string)
	c.operate("/purchases/"+bought+"/approve", `{"owner":"ada@example.com"}`)
	other.operate("/purchases/"+denied+"/deny", "")
	c.operate("/flows/"+flow+"/confirm-signup", "")
	c.operate("/billing/cap", `{"capCents":7000}`)
	c.operate("/billing/pause", `{"paused":true}`)
	c.operate("/credits", `{"amount":5,"note":"a gift"}`)
	n.send("POST", operatorTools+"/"+c.workspace+"/credits", `{"amount":0}`, "", jsonBody)
	var said []string
	for cursor := ""; ; {
		a := n.send("GET", operatorTools+"/"+c.workspace+"/acts?limit=2"+cursor, "", "", nil)
		for _, item := range a.told("acts").([]any) {
			act := item.(map[string]any)
			require.Equal(t, server.AdminKey, act["actor"])
			line := act["action"].(string)
			for _, change := range act["changes"].([]any) {
				v := change.(map[string]any)
				line += " " + v["name"].(string) + ":" + v["before"].(string) + ">" + v["after"].(string)
			}
			said = append(said, line)
		}
		next, more := a.told("nextCursor").(string)
		if !more {
			break
		}
		cursor = "&cursor=" + next
	}
	require.Equal(t, []string{
		"grant_credits creditsGranted:0>5", "set_billing paused:false>true",
		"set_billing capCents:5000>7000", "confirm_signup signupConfirmed:false>true",
		"approve owner:>ada@example.com capApproved:false>true status:requires_approval>checkout",
	}, said)
	acts := n.send("GET", operatorTools+"/"+other.workspace+"/acts", "", "", nil).told("acts").([]any)
	require.Len(t, acts, 1)
	require.Equal(t, denied, acts[0].(map[string]any)["subject"])
}

// toolActs are the acts that the record of changes has of the operator's tools, with the tools.
// Wherever a test of this package uses one (see operate), it leaves one of them.
var toolActs = map[string][]string{
	"claim": {"claimForOwner"}, "approve": {"approvePurchase"}, "deny": {"denyPurchase"},
	"retry_refund": {"retryRefund"}, "confirm_signup": {"confirmFlowSignup"},
	"set_billing":   {"setSpendingCap", "setPurchasePause"},
	"grant_credits": {"grantWorkspaceCredits"}, "set_alerts": {"setFlowAlerts"},
	"rotate_alert_secret": {"rotateFlowAlertSecret"}, "test_alert": {"testFlowAlert"},
	"remove": {"removeWorkspace"},
}

// TestEveryToolIsRecorded: each writing tool of the route table is used, and leaves one row, of its
// workspace and by its name.
func TestEveryToolIsRecorded(t *testing.T) {
	t.Parallel()
	s, w := startShop(t), watch(t)
	recorded := servertest.RecordExamples(t)
	unused := map[string]server.Route{}
	for _, r := range s.api.Operator.Routes() {
		if r.Method != "GET" {
			unused[r.Operation] = r
		}
	}
	use := func(c *caller, operation, body string, names ...string) {
		t.Helper()
		require.Contains(t, unused, operation)
		path := strings.NewReplacer(append(names, "{id}", c.workspace)...).Replace(unused[operation].Path)
		before, _, _ := c.api.Operator.Acts(0, 1000, 1000, false)
		a := c.send(unused[operation].Method, path, body, "", jsonBody)
		require.Equal(t, 200, a.status, "%s: %s", operation, a.raw)
		acts, _, ok := c.api.Operator.Acts(0, 1000, 1000, false)
		require.True(t, ok)
		require.Len(t, acts, len(before)+1, operation)
		require.Equal(t, c.workspace, acts[0].Workspace)
		require.Equal(t, server.AdminKey, acts[0].Change.Actor)
		require.Contains(t, toolActs[strings.TrimPrefix(acts[0].Change.Action, "workspace.")], operation)
		delete(unused, operation)
	}
	c := s.signUp("")
	id := c.keyed("/v1/purchases", "buy-three", `{"runs":3}`).at("purchase", "id").(string)
	use(c, "claimForOwner", `{"owner":"ada@example.com"}`)
	use(c, "approvePurchase", "", "{purchase}", id)
	session, _ := s.stripe.Session(id)
	use(c, "denyPurchase", "", "{purchase}", id)
	s.stripe.Refuse("/v1/refunds", "charge_disputed")
	s.stripe.Pay(session)
	require.Equal(t, 200, s.report(id, completed).status)
	require.Eventually(t, func() bool {
		s.Later(5 * time.Second)
		return s.returns(c, id)[0].(map[string]any)["refused"] == "charge_disputed"
	}, time.Minute, 10*time.Millisecond)
	use(c, "retryRefund", "", "{purchase}", id)
	use(c, "confirmFlowSignup", "", "{flow}", c.flow(plainFlow))
	use(c, "setSpendingCap", `{"capCents":7000}`)
	use(c, "setPurchasePause", `{"paused":true}`)
	use(c, "grantWorkspaceCredits", `{"amount":5}`)
	use(w.caller, "setFlowAlerts", `{"on":true,"webhookUrl":"`+w.hook.server.URL+`"}`, "{flow}", w.flow)
	use(w.caller, "rotateFlowAlertSecret", "", "{flow}", w.flow)
	use(w.caller, "testFlowAlert", "", "{flow}", w.flow)
	use(s.signUp(""), "removeWorkspace", "")
	require.Empty(t, unused)
	for _, path := range []string{"", "/" + c.workspace, "/" + c.workspace + "/acts"} {
		require.Equal(t, 200, s.send("GET", operatorTools+path, "", "", nil).status)
	}
	recorded.CompareOf("examples/operators.json", operatorTools)
}

// TestAnActCountsOnce: with an Idempotency-Key, whoever sends it again; the key is of the path and
// of the body.
func TestAnActCountsOnce(t *testing.T) {
	n := start(t)
	c, other := n.signUp(""), n.signUp("")
	grant := func(c *caller, key, body string) int {
		return n.send("POST", operatorTools+"/"+c.workspace+"/credits", body, "", map[string]string{
			"Content-Type": "application/json", "Idempotency-Key": key,
		}).status
	}
	require.Equal(t, 200, grant(c, "k", `{"amount":5}`))
	require.Equal(t, 200, grant(c, "k", `{"amount":5}`))
	require.Equal(t, 409, grant(c, "k", `{"amount":6}`))
	require.Equal(t, 200, grant(other, "k", `{"amount":5}`))
	require.Equal(t, 200, grant(c, "k2", `{"amount":5}`))
	require.Equal(t, 400, grant(c, strings.Repeat("k", 256), `{"amount":5}`))
	require.EqualValues(t, 10, c.call("GET", "/v1/account", "").at("credits", "balance"))
	require.EqualValues(t, 5, other.call("GET", "/v1/account", "").at("credits", "balance"))
}

// TestToolsStayInTheirWorkspace: a tool that names one workspace does nothing to another's records,
// and neither does the command behind it.
func TestToolsStayInTheirWorkspace(t *testing.T) {
	n := start(t)
	c, other := n.signUp(""), n.signUp("")
	flow := c.flow(plainFlow)
	purchase := c.keyed("/v1/purchases", "buy-three", `{"runs":3}`).at("purchase", "id").(string)
	before := n.send("GET", operatorTools+"/"+c.workspace, "", "", nil).raw
	for _, tool := range []string{
		"/purchases/" + purchase + "/approve", "/purchases/" + purchase + "/deny",
		"/flows/" + flow + "/confirm-signup",
	} {
		a := n.send("POST", operatorTools+"/"+other.workspace+tool, "", "", nil)
		require.Equal(t, 404, a.status, string(a.raw))
		require.NotContains(t, string(a.raw), c.workspace)
	}
	row := func(c *caller) uint32 {
		id, _ := parseID(markWorkspace, c.workspace)
		return n.Machine.WorkspaceRow(id)
	}
	pur, _ := parseID(markPurchase, purchase)
	ws, _ := parseID(markWorkspace, c.workspace)
	for kind, c := range map[engine.Kind]wire.Fielder{
		workspace.KindApprovePurchase: &workspace.ApprovePurchase{ID: pur},
		workspace.KindDenyPurchase:    &workspace.DenyPurchase{ID: pur},
		workspace.KindClaimWorkspace:  &workspace.ClaimWorkspace{ID: ws, Owner: "eve"},
		workspace.KindSetBilling: &workspace.SetBilling{
			Workspace: row(c), HasPaused: true,
			Paused: true,
		},
		workspace.KindGrantCredits: &workspace.GrantCredits{Workspace: row(c), Amount: 5},
	} {
		r := n.api.propose(0, workspace.KindAct, &workspace.Act{
			Workspace: row(other), ID: mint(), Kind: kind, Payload: wire.Encode(nil, c),
		})
		require.Equal(t, engine.OutcomeRecordUnknown, r.Outcome)
	}
	require.Equal(t, string(before), string(n.send("GET", operatorTools+"/"+c.workspace, "", "", nil).raw))
}

func TestWorkspacesAreListed(t *testing.T) {
	n := start(t)
	c, other := n.signUp(""), n.signUp("")
	c.claim()
	purchase := other.keyed("/v1/purchases", "buy-three", `{"runs":3}`).at("purchase", "id")
	a := n.send("GET", operatorTools+"?limit=1", "", "", nil)
	newest := a.told("workspaces").([]any)[0].(map[string]any)
	require.Equal(t, other.workspace, newest["id"])
	require.Equal(t, purchase, newest["purchase"])
	a = n.send("GET", operatorTools+"?limit=1&cursor="+a.told("nextCursor").(string), "", "", nil)
	require.Equal(t, "ada@example.com", a.told("workspaces").([]any)[0].(map[string]any)["owner"])
	require.Nil(t, a.told("nextCursor"))
	require.Equal(t, 400, n.send("GET", operatorTools+"?limit=0", "", "", nil).status)
	require.Equal(t, 400, n.send("GET", operatorTools+"?cursor=ws_x", "", "", nil).status)
}

// TestLogsHoldNoEMails: neither where an operator names a workspace by its owner's, nor where one
// is set.
func TestLogsHoldNoEMails(t *testing.T) {
	var printed lockedText
	n := start(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&printed, nil)) })
	c := n.signUp("")
	c.claim()
	a := n.send("POST", "/api/v1/admin/workspaces/ada@example.com/credits", `{"amount":1}`, "",
		map[string]string{"Content-Type": "application/json"})
	require.Equal(t, 200, a.status, string(a.raw))
	require.Contains(t, printed.String(), "operation=grantWorkspaceCredits")
	require.Contains(t, printed.String(), c.workspace)
	require.NotContains(t, printed.String(), "ada")
}
