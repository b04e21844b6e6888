package workspaceapi

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/workspace"
)

// owned is a workspace that ada has claimed, and its key.
func owned(n *node) (ada *signedInCaller, c *caller) {
	n.t.Helper()
	ada, c = n.signIn("ada"), n.signUp("")
	ada.call("POST", "/v1/claims", `{"code":"`+c.code+`"}`).is(200, "")
	return ada, c
}

// scheduledFlow is plainFlow with a schedule.
func scheduledFlow(hours int) string {
	return strings.TrimSuffix(plainFlow, "}") + fmt.Sprintf(`,"schedule":{"everyHours":%d}}`, hours)
}

// refuseSchedules provokes the refusals of schedules.
func refuseSchedules(t *testing.T, is provoked) {
	n := start(t)
	ada, c := owned(n)
	is(c.call("POST", "/v1/flows", scheduledFlow(1)), 403, "person_required")
	is(ada.call("POST", "/v1/flows", `{`+flowText+`,"schedule":{"everyHours":1}}`), 400,
		"invalid_flow_options")
	for body, code := range map[string]string{
		`{}`: "invalid_field", `{"everyHours":0}`: "invalid_field", `{"everyHours":169}`: "invalid_field",
		`{"everyHours":1.5}`: "invalid_field", `{"everyHours":"1"}`: "invalid_field",
		`5`: "invalid_field", `{"everyHours":1,"at":2}`: "unexpected_field",
	} {
		is(ada.call("POST", "/v1/flows", strings.Replace(scheduledFlow(1), `{"everyHours":1}`, body, 1)),
			400, code)
	}
	require.Empty(t, c.call("GET", "/v1/flows", "").at("flows"), "nothing was saved")
	open := c.flow(`{` + flowText + `,"credential":"bearer","verification":{"url":"https://product.example/me"}}`)
	a := is(ada.call("PATCH", "/v1/flows/"+open, `{"name":"other","schedule":{"everyHours":1}}`), 409,
		"schedule_unavailable")
	require.Equal(t, "verification_open", a.at("reason"))
	require.Equal(t, "Sign up", c.call("GET", "/v1/flows/"+open, "").at("flow", "name"), "both or nothing")

	id := ada.call("POST", "/v1/flows", scheduledFlow(1)).is(201, "").at("flow", "id").(string)
	is(c.call("PATCH", "/v1/flows/"+id, `{"verification":null}`), 400, "invalid_flow_options")
	is(c.call("PATCH", "/v1/flows/"+id, `{"schedule":null}`), 403, "person_required")
	for range workspace.MaxSchedules - 1 {
		ada.call("POST", "/v1/flows", scheduledFlow(1)).is(201, "")
	}
	is(ada.call("POST", "/v1/flows", scheduledFlow(1)), 409, "schedule_limit")
	c.call("DELETE", "/v1/flows/"+id, "").is(200, "")
	ada.call("POST", "/v1/flows", scheduledFlow(1)).is(201, "")
}

// TestAScheduleIsItsOwners: a key and an agent's session neither set, change nor end one, whatever
// else they change of the flow; it is not a setup, and the history says who has set it.
func TestAScheduleIsItsOwners(t *testing.T) {
	n := start(t)
	ada, c := owned(n)
	account := n.Machine.Stamp()
	flow := ada.call("POST", "/v1/flows", scheduledFlow(24)).is(201, "").at("flow").(map[string]any)
	path := "/v1/flows/" + flow["id"].(string)
	schedule := flow["schedule"].(map[string]any)
	require.EqualValues(t, 24, schedule["everyHours"])
	next, err := time.Parse(time.RFC3339, schedule["nextAt"].(string))
	require.NoError(t, err)
	require.WithinDuration(t, time.UnixMilli(account).Add(24*time.Hour), next, time.Minute)

	n.signIn("bot", asAgent("ada@acme.example"))
	links := ada.call("GET", "/v1/links", "").at("links").([]any)
	ada.call("POST", "/v1/links/"+links[0].(map[string]any)["id"].(string),
		`{"answer":"approve","workspace":"`+c.workspace+`"}`).is(200, "")
	bot := n.signIn("bot", asAgent("ada@acme.example"))
	bot.call("GET", path, "").is(200, "")
	for _, body := range []string{
		`{"schedule":null}`, `{"schedule":{"everyHours":24}}`, `{"schedule":{"everyHours":1}}`,
		`{"schedule":{"everyHours":999}}`, `{"name":"x","schedule":{"everyHours":1}}`,
	} {
		c.call("PATCH", path, body).is(403, "person_required")
		bot.call("PATCH", path, body).is(403, "person_required")
	}
	require.Equal(t, flow, c.call("GET", path, "").at("flow"), "nothing was changed")
	renamed := c.call("PATCH", path, `{"name":"Signup"}`).is(200, "").at("flow").(map[string]any)
	require.Equal(t, schedule, renamed["schedule"])
	changed := c.call("PATCH", path, `{"task":"Log in."}`).is(200, "").at("flow").(map[string]any)
	require.Equal(t, schedule, changed["schedule"], "a changed setup keeps it")
	require.EqualValues(t, 2, changed["version"])

	again := ada.call("PATCH", path, `{"schedule":{"everyHours":2}}`).is(200, "").at("flow").(map[string]any)
	require.EqualValues(t, 2, again["version"], "a schedule is not setup")
	require.EqualValues(t, 2, again["schedule"].(map[string]any)["everyHours"])
	ended := ada.call("PATCH", path, `{"schedule":null,"verification":null}`).is(200, "").at("flow")
	require.NotContains(t, ended, "schedule")
	c.call("PATCH", path, `{"schedule":null}`).is(200, "") // takes nothing away
	acts, _ := n.Machine.Acts(1, workspace.Page{Limit: 10})
	require.Equal(t, "schedule_flow", acts[0].Action)
	require.Equal(t, "ada@acme.example", acts[0].Email)
	require.Equal(t, []workspace.ActChange{{Name: "scheduleEveryHours", Before: "2", After: ""}},
		acts[0].Changes)
}

// TestAScheduledRunIsCharged: like any other, and where nothing is left to pay with it is skipped:
// one notification, and no purchase, whether purchases are paused or not.
func TestAScheduledRunIsCharged(t *testing.T) {
	n := start(t)
	n.policy(func(p *workspace.SetPolicy) { p.FreeRunsPerMonth, p.RunsPerDay = 1, 100 })
	ada, c := owned(n)
	flow := ada.call("POST", "/v1/flows", scheduledFlow(1)).is(201, "").at("flow", "id").(string)
	c.call("POST", "/v1/billing/pause", `{"paused":true}`).is(200, "")
	hour := func() {
		n.Later(time.Hour)
		n.Later(2 * time.Minute) // nobody says what the verification answers
	}
	hour()
	runs := c.call("GET", "/v1/runs", "").at("runs").([]any)
	require.Len(t, runs, 1)
	first := runs[0].(map[string]any)
	require.Equal(t, true, first["scheduled"])
	require.Equal(t, "free", first["charge"].(map[string]any)["kind"])
	require.Equal(t, flow, first["flowId"])
	require.Equal(t, "clever", first["agent"].(map[string]any)["name"])
	id, _ := parseID(markRun, first["id"].(string))
	c.does(workspace.KindClaimRun, &workspace.ClaimRun{Worker: "w", LeaseMS: 60_000})
	c.does(workspace.KindFinishRun, &workspace.FinishRun{
		Run: id, Token: 1, Status: workspace.RunCompleted, Outcome: workspace.OutcomePassed,
	})
	hour()
	hour()
	require.Len(t, c.call("GET", "/v1/runs", "").at("runs"), 1)
	require.Empty(t, c.call("GET", "/v1/purchases", "").at("purchases"))
	said := c.call("GET", "/v1/notifications", "").at("notifications").([]any)
	require.Len(t, said, 1, "each reason once")
	notice := said[0].(map[string]any)
	require.Equal(t, "schedule_skipped", notice["type"])
	require.Equal(t, "payment_required", notice["reason"])
	require.Equal(t, flow, notice["flowId"])
	require.Nil(t, notice["runId"])
}

// keep helps schedules as the leader does.
func (n *node) keep() {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { n.api.Flows.KeepSchedules(ctx, leads) })
	n.t.(*testing.T).Cleanup(func() { stop(); running.Wait() })
}

// TestAScheduledRunAsksFirst: what the verification answers before a run that begins by itself is
// asked by the leader, so what stands is told from what the run did; one that lets everybody in
// begins no run at all.
func TestAScheduledRunAsksFirst(t *testing.T) {
	t.Parallel()
	n, p, base := moodyNode(t, nil)
	ada, c := owned(n)
	n.keep()
	p.says(404, "")
	plain := c.plainFlow(base, "nop", "done")
	ada.call("PATCH", "/v1/flows/"+plain, `{"schedule":{"everyHours":1}}`).is(200, "")
	p.says(200, "all is done")
	n.Later(time.Hour)
	var a answer
	require.Eventually(t, func() bool {
		a = c.call("GET", "/v1/runs", "").is(200, "")
		runs := a.at("runs").([]any)
		return len(runs) == 1 && runs[0].(map[string]any)["status"] == "completed"
	}, 30*time.Second, 10*time.Millisecond)
	ran := a.at("runs").([]any)[0].(map[string]any)
	require.Equal(t, "passed", ran["outcome"])
	require.Equal(t, "standing", ran["verification"].(map[string]any)["proof"])
	ada.call("PATCH", "/v1/flows/"+plain, `{"schedule":null}`).is(200, "")

	p.says(401, "")
	keyed := c.keyFlow(base, "nop")
	require.Equal(t, true, c.quote(keyed)["executionAvailable"])
	ada.call("PATCH", "/v1/flows/"+keyed, `{"schedule":{"everyHours":2}}`).is(200, "")
	p.says(200, "")
	n.Later(2 * time.Hour)
	require.Eventually(t, func() bool {
		said := c.call("GET", "/v1/notifications", "").at("notifications").([]any)
		return len(said) > 0 && said[0].(map[string]any)["reason"] == "verification_open"
	}, 30*time.Second, 10*time.Millisecond)
	require.Len(t, c.call("GET", "/v1/runs", "").at("runs"), 1)
}

// TestTheLogKnowsTheAgents: those that are configured now, in place of those before.
func TestTheLogKnowsTheAgents(t *testing.T) {
	t.Parallel()
	n := start(t)
	require.Equal(t, []string{"clever exec 1", "other exec 2"}, n.Machine.Agents())
	n.api.agents = []Agent{{Name: "next", Kind: "exec", Version: "3"}}
	n.keep()
	require.Eventually(t, func() bool {
		agents := n.Machine.Agents()
		return len(agents) == 1 && agents[0] == "next exec 3"
	}, 30*time.Second, 10*time.Millisecond)
	entries := len(n.Log())
	require.Never(t, func() bool { return len(n.Log()) != entries }, time.Second,
		100*time.Millisecond, "what it knows is not said again")
}
