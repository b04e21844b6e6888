package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/servertest"
	"tollgate/engine/workspace"
	"tollgate/server/inspect"
	"tollgate/server/provider/fetch"
	"tollgate/server/workspaceapi"
)

// operatorTools are the rows about workspaces that an operations listener has.
func operatorTools(t testing.TB, guarded *fetch.Client) (
	*servertest.Workspaces, *workspaceapi.API,
) {
	t.Helper()
	g := servertest.NewWorkspaces()
	api, err := workspaceapi.New(workspaceapi.Config{
		Machine: g.Machine, Proposer: g, Reader: g, PublicURL: "http://tollgate.test",
		Now: time.Now, QuoteKey: [32]byte{7}, Check: guarded.CheckAt,
		Inspector: inspect.New(guarded, time.Now),
		Agents:    []workspaceapi.Agent{{Name: "nop", Kind: "nop"}},
	})
	require.NoError(t, err)
	return g, api
}

// TestWorkspaces: an operator sees all workspaces, acts for an owner, and each act is kept.
func TestWorkspaces(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.get("/console/workspaces").is(200, "No workspace", "POST /v1/signup")
	n.tenants.Do(t, workspace.KindSignUp, &workspace.SignUp{
		ID: [16]byte{1}, KeyID: [16]byte{2}, KeyHash: [32]byte{3}, ClaimHash: [32]byte{4},
		Label: hostile,
	})
	b.get("/console/workspaces?unclaimed=true").is(200, "&lt;script&gt;",
		`href="/console/workspaces.csv?unclaimed=true"`)
	require.Len(t, b.sheet("/console/workspaces.csv"), 2)
	list, _ := n.tenants.Machine.Tenants(workspace.Page{Limit: 1}, false)
	require.Len(t, list, 1)
	at := b.firstLink("/console/workspaces", `/console/workspaces/[^"?]+`)
	id := strings.TrimPrefix(at, "/console/workspaces/")
	require.Equal(t, at, b.get("/console/workspaces?find="+id).is(303).to)
	b.get("/console/workspaces?find=run_00000000000000000000000001").is(200, `id="no-match"`)
	b.submit(at, at+"/claim", fields("owner", "person@example.com")).
		is(200, "The workspace was changed", "person@example.com", "admin-key")
	b.submit(at, at+"/credits", fields("amount", "5", "note", hostile)).is(200, "5")
	b.submit(at, at+"/cap", fields("cents", "700")).is(200, "$0.00 of $7.00")
	b.submit(at, at+"/pause", fields("paused", "true")).is(200, "Allow purchases again")
	b.send(at+"/cap", b.fill(at, fields("cents", "-1"))).is(400, "capCents")
	b.send(at+"/approve", b.fill(at, fields("purchase", "pur_1"))).is(404, "No such purchase")
	safe(t, b.get(at))
	safe(t, b.get("/console/workspaces"))
}
