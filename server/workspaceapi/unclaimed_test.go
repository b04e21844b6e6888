package workspaceapi

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/workspace"
)

// keeping makes a node whose workspaces without an owner are kept 14 days, or one day where nothing
// was saved in them.
func keeping(t *testing.T, settings ...func(*Config)) *node {
	n := start(t, settings...)
	n.policy(func(p *workspace.SetPolicy) {
		p.UnclaimedMS, p.EmptyMS = (14 * 24 * time.Hour).Milliseconds(), (24 * time.Hour).Milliseconds()
	})
	return n
}

// noted is how many uses were noted so far.
func (n *node) noted() (entries int) {
	for _, kinds := range n.Entries() {
		if kinds[0] == workspace.KindNoteUse {
			entries++
		}
	}
	return entries
}

// settled waits until no use is being noted, and returns how many were.
func (n *node) settled() (entries int) {
	n.t.Helper()
	require.Eventually(n.t, func() bool { return n.api.used.UnderWay() == 0 },
		10*time.Second, time.Millisecond)
	return n.noted()
}

// slow is a group that carries commands of a kind out only when it is let.
type slow struct {
	*group
	kind engine.Kind
	came atomic.Int32
	let  chan struct{}
}

func (g *slow) Propose(until time.Time, records []engine.Record, results []engine.Result) {
	if records[0].Kind == g.kind {
		g.came.Add(1)
		<-g.let
	}
	g.group.Propose(until, records, results)
}

// TestUsesAreNotedOneAtATime: a request waits for no note, and one is under way for a workspace.
func TestUsesAreNotedOneAtATime(t *testing.T) {
	g := &slow{kind: workspace.KindNoteUse, let: make(chan struct{})}
	n := keeping(t, func(c *Config) {
		g.group = c.Proposer.(*group)
		c.Proposer = g
	})
	a, b := n.signUp(""), n.signUp("")
	n.Later(2 * time.Hour)
	for range 5 {
		a.call("GET", "/v1/account", "").is(200, "")
		b.call("GET", "/v1/account", "").is(200, "")
	}
	require.Eventually(t, func() bool { return g.came.Load() == 2 }, 10*time.Second, time.Millisecond)
	require.Zero(t, n.noted())
	close(g.let)
	require.Equal(t, 2, n.settled())
	a.call("GET", "/v1/account", "").is(200, "")
	require.Equal(t, 2, n.settled())
	require.EqualValues(t, 2, g.came.Load())
}

// TestUnusedWorkspacesSaySo: reading is a use, of which an hour's are one entry; after 14 days
// without one the key is answered 401 with what happened. With an owner it works on; its uses are
// noted for the list of keys.
func TestUnusedWorkspacesSaySo(t *testing.T) {
	n := keeping(t)
	c, owned, empty := n.signUp(""), n.signUp(""), n.signUp("")
	owned.claim()
	flow := c.flow(plainFlow)
	n.Later(25 * time.Hour)
	a := empty.call("GET", "/v1/account", "").is(401, "invalid_key")
	require.Equal(t, "workspace_unused", a.at("reason"))
	require.Contains(t, a.at("message"), "removed")
	for range 5 {
		for range 3 {
			c.call("GET", "/v1/flows/"+flow, "").is(200, "")
			owned.call("GET", "/v1/account", "").is(200, "")
		}
		n.settled()
		n.Later(10 * 24 * time.Hour)
	}
	require.Equal(t, 10, n.noted())
	n.Later(5 * 24 * time.Hour)
	for method, path := range map[string]string{"GET": "/v1/account", "POST": "/v1/flows"} {
		a = c.call(method, path, "").is(401, "invalid_key")
		require.Equal(t, "workspace_unused", a.at("reason"), path)
	}
	require.Nil(t, n.send("GET", "/v1/account", "", c.key[:len(c.key)-1]+"x", nil).
		is(401, "invalid_key").body["reason"], "of another key nothing is said")
	owned.call("GET", "/v1/account", "").is(200, "")
	require.Equal(t, 404, n.send("GET", operatorTools+"/"+c.workspace, "", "", nil).status)
}

// TestUsesAreNotInTheWay: where a use cannot be noted the request is answered all the same.
func TestUsesAreNotInTheWay(t *testing.T) {
	n := keeping(t)
	c := n.signUp("")
	n.Later(2 * time.Hour)
	n.Refuse(engine.OutcomeOverloaded)
	c.call("GET", "/v1/account", "").is(200, "")
	require.Zero(t, n.settled())
	n.Refuse(engine.OutcomeNone)
	stale := map[string]string{"X-Read-Consistency": "stale"}
	n.send("GET", "/v1/account", "", c.key, stale).is(200, "")
	require.Zero(t, n.settled(), "a stale read waits for no entry")
	c.call("GET", "/v1/account", "").is(200, "")
	require.Equal(t, 1, n.settled())
}

// TestOperatorsRemove what nobody has claimed, once; its key says so, and the act is kept.
func TestOperatorsRemove(t *testing.T) {
	n := keeping(t)
	c, owned := n.signUp(""), n.signUp("")
	owned.claim()
	c.flow(plainFlow)
	listed := func() []any {
		return n.send("GET", operatorTools+"?unclaimed=true", "", "", nil).told("workspaces").([]any)
	}
	require.Len(t, listed(), 1)
	shown := listed()[0].(map[string]any)
	require.Equal(t, c.workspace, shown["id"])
	require.Equal(t, "127.0.0.0/24", shown["network"])
	require.Greater(t, shown["bytes"], 1000.0)
	require.NotEmpty(t, shown["usedAt"])
	require.NotEmpty(t, shown["endsAt"])
	held := n.send("GET", operatorTools+"?unclaimed=true", "", "", nil).told("held").(map[string]any)
	require.Equal(t, shown["bytes"], held["bytes"])
	require.EqualValues(t, workspace.MaxStrangersBytes, held["limitBytes"])
	require.Zero(t, held["removedBytes"])
	require.Nil(t, n.send("GET", operatorTools, "", "", nil).told("held"))
	require.Equal(t, 400, n.send("GET", operatorTools+"?unclaimed=yes", "", "", nil).status)

	a := n.send("DELETE", operatorTools+"/"+owned.workspace, "", "", nil)
	require.Equal(t, 409, a.status, string(a.raw))
	require.Equal(t, "workspace_claimed", a.at("error", "code"))
	require.Equal(t, 404, n.send("DELETE", operatorTools+"/"+idText(markWorkspace, [16]byte{1}), "", "", nil).status)
	require.Equal(t, 400, n.send("DELETE", operatorTools+"/"+c.workspace, `{"force":true}`, "", jsonBody).status)
	require.Len(t, listed(), 1)
	path := operatorTools + "/" + c.workspace
	removed := n.send("DELETE", path, "", "", nil).told("removedAt")
	require.Equal(t, removed, n.send("DELETE", path, "", "", nil).told("removedAt"))
	require.Empty(t, listed())
	a = c.call("GET", "/v1/account", "").is(401, "invalid_key")
	require.Equal(t, "workspace_removed", a.at("reason"))
	require.Equal(t, 404, n.send("POST", path+"/claim", `{"owner":"eve@example.com"}`, "", jsonBody).status)
	acts := n.send("GET", path+"/acts", "", "", nil).told("acts").([]any)
	require.Equal(t, "remove", acts[0].(map[string]any)["action"])
	require.Len(t, acts, 1)
	owned.call("GET", "/v1/account", "").is(200, "")
}

// together is a group that carries commands of a kind out only once so many of them have come.
type together struct {
	*group
	kind engine.Kind
	wait sync.WaitGroup
}

func (g *together) Propose(until time.Time, records []engine.Record, results []engine.Result) {
	if records[0].Kind == g.kind {
		g.wait.Done()
		g.wait.Wait()
	}
	g.group.Propose(until, records, results)
}

// TestTwoRemoveAtOnce: both are told when it went, and it went once.
func TestTwoRemoveAtOnce(t *testing.T) {
	g := &together{kind: workspace.KindAct}
	g.wait.Add(2)
	n := start(t, func(c *Config) {
		g.group = c.Proposer.(*group)
		c.Proposer = g
	})
	c := n.signUp("")
	var answers [2]answer
	var both sync.WaitGroup
	for i := range answers {
		both.Go(func() { answers[i] = n.send("DELETE", operatorTools+"/"+c.workspace, "", "", nil) })
	}
	both.Wait()
	require.NotEmpty(t, answers[0].told("removedAt"))
	require.Equal(t, answers[0].told("removedAt"), answers[1].told("removedAt"))
	acts := n.send("GET", operatorTools+"/"+c.workspace+"/acts", "", "", nil).told("acts").([]any)
	require.Len(t, acts, 1)
}

// TestAFullNetworkIsToldSo: that no hour ends it.
func TestAFullNetworkIsToldSo(t *testing.T) {
	n := start(t)
	n.Before(func(engine.Kind) engine.Outcome { return engine.OutcomeNetworkFull })
	a := n.send("POST", "/v1/signup", `{"label":"x"}`, "", nil)
	require.Equal(t, 429, a.status)
	require.Equal(t, "signup_rate_limited", a.at("error"))
	require.Equal(t, "3600", a.header.Get("Retry-After"))
	require.Contains(t, a.at("message"), "network")
	require.NotContains(t, a.body, "resetsAt", "nothing ends by itself")
}

// TestFewRecordsOfStrangers: the refusal says how many there are, and that an owner has more.
func TestFewRecordsOfStrangers(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	for range workspace.MaxUnclaimedFlows {
		c.call("DELETE", "/v1/flows/"+c.flow(plainFlow), "").is(200, "")
	}
	a := c.call("POST", "/v1/flows", plainFlow).is(400, "workspace_full")
	require.Contains(t, a.at("message"), "50 records of this kind, archived ones included")
	c.claim()
	c.flow(plainFlow)
}
