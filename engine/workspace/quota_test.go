package workspace_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
)

// guests is a log over a machine with two workspaces that nobody has claimed.
func guests() (*workspace.Machine, *enginetest.Log) {
	m := opened()
	l := enginetest.NewLog(m, enginetest.Epoch)
	l.Shard = 1
	for _, name := range []string{"a", "b"} {
		hash := [32]byte(append(hashOf(name), hashOf("x"+name)...))
		l.Do(workspace.KindSignUp, &workspace.SignUp{
			ID: enginetest.ID("w" + name), KeyID: enginetest.ID("k" + name), KeyHash: hash,
			ClaimHash: hash, Scopes: workspace.ScopesAll,
		})
	}
	return m, l
}

// largeFlow is as long as a flow gets: 2,000 characters of four bytes in its task.
func largeFlow(n int) *workspace.SaveFlow {
	return &workspace.SaveFlow{
		Workspace: 1, ID: enginetest.ID(fmt.Sprint("large", n)), Document: workspace.FlowDocument{
			Name: "n", URL: "https://product.example/", Task: strings.Repeat("x", 8000),
			Access: "public", VerificationURL: "https://product.example/me", VerificationContains: "ok",
		},
	}
}

// TestAWorkspaceHoldsSoMuch: flows, requests, local runs, notes and purchases of a stranger end at
// a quarter of a MiB, also after a restore; archiving makes room, and an owner gets more.
func TestAWorkspaceHoldsSoMuch(t *testing.T) {
	m, l := guests()
	saved := 0
	var r engine.Result
	for ; ; saved++ {
		if r = l.Do(workspace.KindSaveFlow, largeFlow(saved)); r.Outcome != engine.OutcomeDone {
			break
		}
	}
	require.Equal(t, engine.OutcomeWorkspaceFull, r.Outcome)
	used, limit := m.Held(1)
	var full workspace.FullReply
	require.NoError(t, wire.Decode(r.Value, &full))
	require.Equal(t, workspace.FullReply{Used: used, Limit: workspace.MaxUnclaimedBytes}, full)
	require.Greater(t, used+8400, limit)
	require.LessOrEqual(t, used, limit)
	require.InDelta(t, workspace.MaxUnclaimedBytes/8300, saved, 2)
	other, _ := m.Held(2)
	require.Less(t, other, uint64(1100), "the other workspace holds nothing of it")

	m = restored(t, enginetest.Snapshot(t, m))
	l.Machine = m
	require.Equal(t, engine.OutcomeWorkspaceFull,
		l.Do(workspace.KindSaveFlow, largeFlow(saved)).Outcome, "a restore forgets nothing")
	flow := enginetest.ID("large0")
	for n := range 80 { // what is left
		l.Do(workspace.KindRequestRun, &workspace.RequestRun{
			Workspace: 1, Flow: flow, ID: enginetest.ID(fmt.Sprint("request", n)),
		})
	}
	for _, c := range []struct {
		kind engine.Kind
		c    wire.Fielder
	}{
		{workspace.KindRequestRun, &workspace.RequestRun{Workspace: 1, Flow: flow, ID: enginetest.ID("x")}},
		{workspace.KindStartLocalRun, &workspace.StartLocalRun{Workspace: 1, ID: enginetest.ID("y")}},
		{workspace.KindStartRun, &workspace.StartRun{
			Workspace: 1, Flow: flow, ID: enginetest.ID("r"), FlowVersion: 1, Cents: 500, Agent: "a b 1",
		}},
	} {
		require.Equal(t, engine.OutcomeWorkspaceFull, l.Do(c.kind, c.c).Outcome, c.kind)
	}
	shorter := largeFlow(1)
	shorter.Replace, shorter.Document.Task = true, "Sign up."
	require.Equal(t, engine.OutcomeDone, l.Do(workspace.KindSaveFlow, shorter).Outcome)
	require.Equal(t, engine.OutcomeDone, l.Do(workspace.KindArchiveFlow, &workspace.ArchiveFlow{
		Workspace: 1, ID: enginetest.ID("large2"),
	}).Outcome)
	require.Equal(t, engine.OutcomeDone, l.Do(workspace.KindSaveFlow, largeFlow(saved)).Outcome)

	l.Do(workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{ID: enginetest.ID("wa"), Owner: "ada"})
	_, limit = m.Held(1)
	require.EqualValues(t, workspace.MaxClaimedBytes, limit)
	require.Equal(t, engine.OutcomeDone, l.Do(workspace.KindSaveFlow, largeFlow(saved+1)).Outcome)
	require.Empty(t, m.Broken())
}

// TestBoughtRunsBringTheirRoom: what a workspace holds never keeps it from starting a run that it
// has bought, since each brings more room than it can take.
func TestBoughtRunsBringTheirRoom(t *testing.T) {
	b := newBench(t, func(p *workspace.SetPolicy) { p.FreeRunsPerMonth = 0 })
	b.buys("first", "", 3)
	b.approves("first")
	b.paid("first")
	held, _ := b.m.Held(1)
	b.m.LetHold(1, workspace.MaxClaimedBytes-held)
	start := &workspace.StartRun{
		Workspace: 1, Flow: flowOne, ID: enginetest.ID("run"), FlowVersion: 1, Cents: 500, Agent: "a b 1",
	}
	_, limit := b.m.Held(1)
	require.EqualValues(t, workspace.MaxClaimedBytes+3*workspace.BoughtRunBytes, limit)
	b.done(workspace.KindStartRun, start)

	before, _ := b.m.Held(1)
	b.done(workspace.KindClaimRun, &workspace.ClaimRun{Worker: "n1", LeaseMS: 60_000})
	end := &workspace.FinishRun{
		Run: start.ID, Token: 1, Status: workspace.RunCompleted, Outcome: workspace.OutcomeBlocked,
		Code: "captcha", Step: "signup", Reason: strings.Repeat("r", workspace.MaxReasonBytes),
	}
	for range workspace.MaxRunEvents {
		end.Events = append(end.Events, workspace.RunEvent{
			At: b.log.Stamp, Text: strings.Repeat("e", workspace.MaxEventBytes),
		})
	}
	for range workspace.MaxCalls {
		end.Calls = append(end.Calls, workspace.Call{Case: "wrong", Status: 401, Note: "not_fetched"})
	}
	b.done(workspace.KindFinishRun, end)
	after, _ := b.m.Held(1)
	require.Greater(t, after-before, uint64(15_000))
	require.Less(t, after-before, uint64(workspace.BoughtRunBytes), "more than it can say, with its issue")
}

// TestStrangersHoldSoMuchTogether: then nobody signs up, and what nobody has claimed saves nothing.
func TestStrangersHoldSoMuchTogether(t *testing.T) {
	m, l := guests()
	require.Equal(t, engine.OutcomeDone, l.Do(workspace.KindSaveFlow, largeFlow(0)).Outcome)
	m.LetStrangersHold(workspace.MaxStrangersBytes - 12_000)
	r := l.Do(workspace.KindSaveFlow, largeFlow(1))
	require.Equal(t, engine.OutcomeWorkspaceFull, r.Outcome)
	m.LetStrangersHold(2_000)
	require.Equal(t, engine.OutcomeSignupOff, l.Do(workspace.KindSignUp, &workspace.SignUp{
		ID: enginetest.ID("wc"), KeyID: enginetest.ID("kc"), KeyHash: [32]byte{9},
	}).Outcome)
	l.Do(workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{ID: enginetest.ID("wa"), Owner: "ada"})
	require.Equal(t, engine.OutcomeDone, l.Do(workspace.KindSaveFlow, largeFlow(1)).Outcome)
	require.Equal(t, engine.OutcomeDone, l.Do(workspace.KindSignUp, &workspace.SignUp{
		ID: enginetest.ID("wc"), KeyID: enginetest.ID("kc"), KeyHash: [32]byte{9},
	}).Outcome, "what an owner holds is not a stranger's")
}

// TestFlowsAreCounted: archived ones included, and without a walk over them.
func TestFlowsAreCounted(t *testing.T) {
	_, l := guests()
	l.Keep = false
	l.Do(workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{ID: enginetest.ID("wa"), Owner: "ada"})
	small := func(n int) *workspace.SaveFlow {
		return &workspace.SaveFlow{Workspace: 1, ID: enginetest.ID(fmt.Sprint("flow", n))}
	}
	for n := range workspace.MaxFlows {
		require.Equal(t, engine.OutcomeDone, l.Do(workspace.KindSaveFlow, small(n)).Outcome)
	}
	l.Do(workspace.KindArchiveFlow, &workspace.ArchiveFlow{Workspace: 1, ID: enginetest.ID("flow7")})
	require.Equal(t, engine.OutcomeWorkspaceFull,
		l.Do(workspace.KindSaveFlow, small(workspace.MaxFlows)).Outcome)
}
