package workspaceapi

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/workspace"
)

// Two workspaces of which each has everything: what one asks with the other's ids, cursors and keys
// shows nothing of the other and does nothing to it.

// lists are the routes that list records, with what their ids begin with.
var lists = map[string]string{
	"flows": markFlow, "runs": markRun, "purchases": markPurchase, "issues": markIssue,
	"notifications": markNotification,
}

// strangerBodies are bodies that each route takes, with an id where a record can be named.
var strangerBodies = map[string]string{
	"createFlow": plainFlow, "changeFlow": `{"name":"x"}`, "startRun": `{"fingerprint":"{fingerprint}"}`,
	"resumeRun": `{"answer":"yes"}`, "requestRun": `{"flowId":"{id}"}`, "changeIssue": `{"status":"fix_ready","note":"x"}`,
	"buyRuns": `{"runs":1}`, "pausePurchases": `{"paused":true}`, "lowerCap": `{"capCents":100}`,
	"inspectProduct": `{"flowId":"{id}"}`, "evaluateTask": `{"flowId":"{id}"}`, "finishLocalRun": `{"outcome":"passed"}`, "startLocalRun": `{}`, "claimWorkspace": `{"code":"{code}"}`,
}

// shown is all that a workspace can read of itself.
func (c *caller) shown(ids map[string]string) (all string) {
	c.t.Helper()
	paths := []string{"/v1/account", "/v1/execution"}
	for name := range lists {
		paths = append(paths, "/v1/"+name)
	}
	for name, mark := range map[string]string{"flows": "flow", "runs": "run", "purchases": "pur"} {
		paths = append(paths, "/v1/"+name+"/"+ids[mark])
	}
	paths = append(paths, "/v1/flows/"+ids["flow"]+"/alerts", "/v1/flows/"+ids["flow"]+"/quote")
	slices.Sort(paths)
	for _, path := range paths {
		all += path + " " + string(c.call("GET", path, "").is(200, "").raw) + "\n"
	}
	return all
}

// twice makes the second record of each kind that can be listed.
func (c *caller) twice(ids map[string]string) {
	c.t.Helper()
	c.flow(plainFlow)
	c.call("POST", "/v1/purchases/"+ids["pur"]+"/cancel", "").is(200, "")
	c.keyed("/v1/purchases", "the-key-2", `{"runs":2}`).is(402, "payment_required")
	id := c.start(ids["flow"], "the-key-2").is(202, "").at("run", "id").(string)
	run, _ := parseID(markRun, id)
	c.claimRun()
	c.does(workspace.KindFinishRun, &workspace.FinishRun{
		Run: run, Token: 1, Status: workspace.RunCompleted, Outcome: workspace.OutcomeBlocked,
		Step: "login",
		Code: "captcha", Calls: []workspace.Call{{Case: "plain"}},
	})
	id = c.start(ids["flow"], "the-key-3").is(202, "").at("run", "id").(string)
	c.call("POST", "/v1/runs/"+id+"/cancel", "").is(200, "") // which is notified
}

var parameter = regexp.MustCompile(`\{\w+\}`)

// TestNoAnswerNamesAnothersRecord: whatever a workspace asks, with whichever of another's ids in
// path, query or body, no answer holds a record of the other, and the other is as it was.
func TestNoAnswerNamesAnothersRecord(t *testing.T) {
	n := start(t)
	mine, other := n.signUp(""), n.signUp("")
	ids, own := mine.everything(), other.everything()
	mine.twice(ids)
	fingerprint := mine.quote(ids["flow"])["fingerprint"].(string)
	before, asked := mine.shown(ids), 0
	for _, r := range n.api.Routes() {
		if r.Operation == "revokeKey" || r.Scopes == 0 {
			continue
		}
		for _, id := range ids {
			path := parameter.ReplaceAllString(r.Path, id)
			body := strings.NewReplacer("{id}", id, "{fingerprint}", fingerprint, "{code}", mine.code).
				Replace(strangerBodies[r.Operation])
			if r.Method == "GET" {
				path += "?cursor=" + id
			}
			// The key is one that the other has used for a run and for a purchase.
			a := other.send(r.Method, path, body, other.key,
				map[string]string{"Idempotency-Key": "the-key-1"})
			for _, name := range ids {
				require.NotContains(t, string(a.raw), name, "%s %s with %s", r.Method, path, id)
			}
			require.NotContains(t, string(a.raw), mine.workspace)
			require.NotEqual(t, "unexpected_field", a.body["error"], "%s %s: %s", r.Method, path, a.raw)
			require.NotEqual(t, "invalid_json", a.body["error"], "%s %s: %s", r.Method, path, a.raw)
			asked++
		}
	}
	require.Greater(t, asked, 150)
	require.Equal(t, before, mine.shown(ids), "nothing was done to it")
	require.Contains(t, other.shown(own), own["run"])
}

// TestNothingIsSeenAcrossWorkspaces asks every route that names a record for the record of another
// workspace: the answer is the same as for one that nobody has. Its own record is found.
func TestNothingIsSeenAcrossWorkspaces(t *testing.T) {
	t.Parallel()
	asked := 0
	for _, r := range start(t).api.Routes() {
		if r.Scopes == 0 || r.SignedIn || !strings.Contains(r.Path, "{") {
			continue
		}
		asked++
		n := start(t)
		mine, other := n.signUp(""), n.signUp("")
		ids := mine.everything()
		body := strings.ReplaceAll(strangerBodies[r.Operation], "{fingerprint}",
			mine.quote(ids["flow"])["fingerprint"].(string))
		of := func(c *caller, id string) answer {
			return c.send(r.Method, parameter.ReplaceAllString(r.Path, id), body, c.key,
				map[string]string{"Idempotency-Key": "some-key-1"})
		}
		mark, _, _ := strings.Cut(filled(r.Path), "_")
		mark = mark[strings.LastIndex(mark, "/")+1:]
		require.NotEmpty(t, ids[mark], "no record was made for %s %s", r.Method, r.Path)
		unknown := of(other, idText(mark+"_", [16]byte{9, 9})).is(404, "not_found")
		seen := of(other, ids[mark]).is(404, "not_found")
		unknown.body["request_id"] = seen.body["request_id"]
		require.Equal(t, unknown.body, seen.body, "%s %s", r.Method, r.Path)
		found := of(mine, ids[mark])
		require.NotEqual(t, 404, found.status, "%s %s: %s", r.Method, r.Path, found.raw)
	}
	require.Greater(t, asked, 15)
	n := start(t)
	mine, other := n.signUp(""), n.signUp("")
	named := `{"flowId":"` + mine.flow(plainFlow) + `"}`
	other.call("POST", "/v1/run-requests", named).is(404, "not_found")
	mine.call("POST", "/v1/run-requests", named).is(201, "")
}

// TestCursorsStayInTheirWorkspace: a cursor of another's record is like one that nobody gave out,
// and a workspace's own goes on behind the record.
func TestCursorsStayInTheirWorkspace(t *testing.T) {
	n := start(t)
	mine, other := n.signUp(""), n.signUp("")
	ids := mine.everything()
	own := other.everything()
	other.twice(own)
	for name, mark := range lists {
		made := idText(mark, [16]byte{9, 9})
		path := "/v1/" + name + "?limit=1"
		strange := other.call("GET", path+"&cursor="+ids[strings.TrimSuffix(mark, "_")], "").is(200, "")
		unknown := other.call("GET", path+"&cursor="+made, "").is(200, "")
		require.Equal(t, string(unknown.raw), string(strange.raw), name)

		all := other.call("GET", "/v1/"+name, "").is(200, "").at(name).([]any)
		require.Greater(t, len(all), 1, name)
		var paged []any
		for cursor := ""; ; {
			page := other.call("GET", path+cursor, "").is(200, "")
			paged = append(paged, page.at(name).([]any)...)
			next, more := page.at("next_cursor").(string)
			require.Equal(t, more, page.header.Get("Link") != "", name)
			if !more {
				break
			}
			cursor = "&cursor=" + next
		}
		require.Equal(t, all, paged, name)
	}
	acts := operatorTools + "/" + other.workspace + "/acts?limit=1&cursor="
	newest := n.send("GET", operatorTools+"/"+mine.workspace+"/acts", "", "", nil).told("acts")
	theirs := newest.([]any)[0].(map[string]any)["id"].(string)
	require.Empty(t, n.send("GET", acts+theirs, "", "", nil).told("acts"))
}

// TestRequestKeysAreOfOneWorkspace: the same Idempotency-Key is another request in another
// workspace, and of another route.
func TestRequestKeysAreOfOneWorkspace(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.collect()
	made := map[any]bool{}
	for range 2 {
		c := n.signUp("")
		_, page := c.approved("1")
		n.payPage(page)
		bought := c.keyed("/v1/purchases", "same-key", `{"runs":1}`).is(201, "").at("purchase", "id")
		run := c.start(c.flow(plainFlow), "same-key").is(202, "").at("run", "id")
		require.False(t, made[bought] || made[run])
		made[bought], made[run] = true, true
		require.Equal(t, bought, c.keyed("/v1/purchases", "same-key", `{"runs":1}`).is(201, "").at("purchase", "id"))
		c.start(c.flow(plainFlow), "same-key").is(409, "idempotency_conflict")
	}
}

// TestToolsNameOneWorkspace: of every tool whose path names a record, the record must be of the
// workspace in the path: mixed, nothing is found, nothing is done, and no act is kept.
func TestToolsNameOneWorkspace(t *testing.T) {
	n := start(t)
	mine, other := n.signUp(""), n.signUp("")
	ids, own := mine.everything(), other.everything()
	acts := func(c *caller) string {
		return string(n.send("GET", operatorTools+"/"+c.workspace+"/acts", "", "", nil).raw)
	}
	before, kept, asked := mine.shown(ids), acts(mine)+acts(other), 0
	for _, r := range n.api.Operator.Routes() {
		named := map[string]string{"{purchase}": ids["pur"], "{flow}": ids["flow"]}
		path := strings.Replace(r.Path, "{id}", other.workspace, 1)
		for mark, id := range named {
			path = strings.ReplaceAll(path, mark, id)
		}
		if path == strings.Replace(r.Path, "{id}", other.workspace, 1) {
			continue
		}
		asked++
		a := n.send(r.Method, path, "", "", jsonBody)
		require.Equal(t, 404, a.status, "%s: %s", path, a.raw)
		require.NotContains(t, string(a.raw), mine.workspace)
	}
	require.Equal(t, 7, asked)
	require.Equal(t, before, mine.shown(ids))
	require.Equal(t, kept, acts(mine)+acts(other))
	for _, c := range []*caller{mine, other} {
		shown := n.send("GET", operatorTools+"/"+c.workspace, "", "", nil)
		of := map[*caller]string{mine: ids["pur"], other: own["pur"]}
		require.Contains(t, fmt.Sprint(shown.told("purchases")), of[c])
		require.Len(t, shown.told("purchases"), 1)
	}
}
