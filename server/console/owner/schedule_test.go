package owner_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server/console/owner"
	"tollgate/server/workspaceapi"
)

// TestAnOwnerSetsASchedule: on the flow's page, where it is seen and ended.
func TestAnOwnerSetsASchedule(t *testing.T) {
	s, ws := mine(t)
	s.does(workspace.KindSetAgents, &workspace.SetAgents{Agents: []string{"clever exec 1"}})
	flow := enginetest.ID("regular")
	s.does(workspace.KindSaveFlow, &workspace.SaveFlow{
		Workspace: ws, ID: flow, Document: workspace.FlowDocument{
			Name: "Sign up", URL: "https://acme.example/", Access: "public",
			VerificationURL: "https://acme.example/me", VerificationContains: "ok",
		},
	})
	at := owner.Root + "/flows/" + workspaceapi.NounFlow.Text(flow)
	require.Contains(t, s.sees(at), "at no other time")
	for _, hours := range []string{"", "0", "169", "x", "-1"} {
		a := s.sends(at+"/schedule", "hours", hours)
		require.Equal(t, 400, a.status)
		require.Contains(t, a.body, "The number of hours must be")
		require.Contains(t, a.body, `aria-invalid="true" autofocus`)
	}
	v, _ := s.Machine.Flow(ws, flow)
	require.Zero(t, v.EveryHours)
	require.Equal(t, 303, s.sends(at+"/schedule", "hours", "24", "_once", "1").status)
	require.Contains(t, s.sees(at), "every 24 hours")
	require.Equal(t, 303, s.sends(at+"/schedule", "action", "end", "_once", "2").status)
	v, _ = s.Machine.Flow(ws, flow)
	require.Zero(t, v.EveryHours)
	s.does(workspace.KindSetAgents, &workspace.SetAgents{})
	require.Equal(t, 409, s.sends(at+"/schedule", "hours", "1", "_once", "3").status)
}

// TestAScheduleCanAlwaysBeEnded: also that of a flow which could not be saved like this any more.
func TestAScheduleCanAlwaysBeEnded(t *testing.T) {
	s, ws := mine(t)
	s.does(workspace.KindSetAgents, &workspace.SetAgents{Agents: []string{"clever exec 1"}})
	flow := enginetest.ID("private")
	s.does(workspace.KindSaveFlow, &workspace.SaveFlow{
		Workspace: ws, ID: flow, Document: workspace.FlowDocument{
			Name: "Sign up", URL: "http://10.0.0.1/", Access: "public",
			VerificationURL: "http://10.0.0.1/me", VerificationContains: "ok",
		},
	})
	s.does(workspace.KindAct, &workspace.Act{
		Workspace: ws, ID: enginetest.ID("act"), Actor: "owner", Person: s.who.Person,
		Kind: workspace.KindScheduleFlow, Payload: wire.Encode(nil, &workspace.ScheduleFlow{
			Workspace: ws, Flow: flow, EveryHours: 24,
		}),
	})
	at := owner.Root + "/flows/" + workspaceapi.NounFlow.Text(flow) + "/schedule"
	require.Equal(t, 400, s.sends(at, "hours", "1", "_once", "1").status, "it begins nothing new")
	a := s.sends(at, "action", "end", "_once", "2")
	require.Equal(t, 303, a.status, a.body)
	v, _ := s.Machine.Flow(ws, flow)
	require.Zero(t, v.EveryHours)
}

// TestAnOwnerStoresTestCredentials: the page shows hosts, and never stored or refused credentials.
func TestAnOwnerStoresTestCredentials(t *testing.T) {
	s, ws := mine(t)
	const at = owner.Root + "/test-access"
	stores := func(host string) answer {
		return s.sends(at, "host", host, "username", "qa", "password", "pass-4711", "_once", "4")
	}
	require.Contains(t, s.sees(at), "None is stored")
	require.Equal(t, 303, stores("App.acme.example").status)
	body := s.sees(at)
	require.Contains(t, body, "app.acme.example")
	require.NotContains(t, body, "4711")
	require.NotEmpty(t, s.Machine.TestAccess(ws, "app.acme.example"))
	refused := stores("a/b")
	require.Equal(t, 400, refused.status)
	require.Contains(t, refused.body, `value="qa"`)
	require.NotContains(t, refused.body, "4711")
	forgets := func(once string) answer {
		return s.sends(at, "host", "app.acme.example", "action", "remove", "_once", once)
	}
	require.Equal(t, 303, forgets("5").status)
	require.Contains(t, s.sees(at), "None is stored")
	require.Equal(t, 404, forgets("6").status)
}
