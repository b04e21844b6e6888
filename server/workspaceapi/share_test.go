package workspaceapi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/workspace"
	"tollgate/server"
)

// TestCommandsAreOfWhoeverAsks: the cluster shares its queues by the flow of each command. Commands
// of a workspace's keys, sessions and pages are the workspace's, those of a person in no workspace
// the person's, a sign-up is of the anonymous, and what an operator asks for is the cluster's own.
func TestCommandsAreOfWhoeverAsks(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	require.Equal(t, server.AnonymousFlow, n.Flow(workspace.KindSignUp))
	id, _ := parseID(markWorkspace, c.workspace)
	row := n.Machine.WorkspaceRow(id)
	own := FlowOf(row, 0)

	flow := c.flow(plainFlow)
	require.Equal(t, own, n.Flow(workspace.KindSaveFlow))
	c.start(flow, "start-first")
	require.Equal(t, own, n.Flow(workspace.KindStartRun))
	c.call("POST", "/v1/local-runs", `{}`).is(201, "")
	require.Equal(t, own, n.Flow(workspace.KindStartLocalRun))
	c.call("POST", "/v1/interface", `{"url":"https://acme.example/"}`)
	require.Equal(t, own, n.Flow(workspace.KindSaveInspection))

	ada := n.signIn("ada")
	ada.call("POST", "/v1/workspaces", `{"label":"ada's"}`).is(201, "")
	person := n.Flow(workspace.KindOpenWorkspace)
	require.NotZero(t, person)
	require.NotEqual(t, own, person)
	ada.call("POST", "/v1/flows", plainFlow).is(201, "")
	require.NotEqual(t, person, n.Flow(workspace.KindSaveFlow), "the workspace's, from here on")
	require.NotEqual(t, own, n.Flow(workspace.KindSaveFlow))
	require.NotZero(t, n.Flow(workspace.KindSaveFlow))

	reply := n.api.Ask(&Visit{Workspace: row, Person: 1},
		server.Call{Operation: "pausePurchases", Body: []byte(`{"paused":true}`)})
	require.Equal(t, own, n.Flow(workspace.KindAct), "%v", reply.Fault)
	c.operate("/billing/pause", `{"paused":false}`)
	require.Zero(t, n.Flow(workspace.KindAct), "an operator's")
}

// TestAWorkspaceIsToldWhenToComeAgain: a workspace that holds its share of the queue is refused
// with the time that its backlog takes.
func TestAWorkspaceIsToldWhenToComeAgain(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	n.RefuseWith(engine.Result{Outcome: engine.OutcomeShareFull, Value: []byte{7}})
	a := c.call("POST", "/v1/flows", plainFlow).is(503, "workspace_busy")
	require.Equal(t, "7", a.header.Get("Retry-After"))
	n.Refuse(engine.OutcomeNone)
	c.flow(plainFlow)
}
