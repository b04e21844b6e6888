package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/bench/servertest"
	"tollgate/engine/workspace"
	"tollgate/server/inspect"
	"tollgate/server/workspaceapi"
)

// workspaceTools is the API of a group.
func workspaceTools(t *testing.T, g *servertest.Workspaces) *workspaceapi.API {
	made, err := workspaceapi.New(workspaceapi.Config{
		Machine: g.Machine, Proposer: g, Reader: g, PublicURL: "http://x.example", Payments: true,
		QuoteKey: [32]byte{1}, Inspector: inspect.New(nil, nil),
	})
	require.NoError(t, err)
	return made
}

func TestWorkspacesFromTheCommandLine(t *testing.T) {
	s := newShell(t)
	g, id := s.workspaces, enginetest.ID
	for i, name := range []string{"acme", "other"} {
		g.Do(t, workspace.KindSignUp, &workspace.SignUp{
			ID: id("w" + name), KeyID: id("k" + name), KeyHash: [32]byte{1, byte(i)},
			ClaimHash: [32]byte{2, byte(i)}, Scopes: workspace.ScopesAll, Label: name,
		})
		g.Do(t, workspace.KindRequestPurchase, &workspace.RequestPurchase{
			Workspace: uint32(i + 1), ID: id("p" + name), Runs: 2, Link: [32]byte{3, byte(i)},
		})
	}
	var list struct {
		Workspaces []struct{ ID, Label, Purchase string }
		NextCursor string
	}
	s.json(&list, "workspaces", "list", "--limit=1")
	require.Equal(t, "other", list.Workspaces[0].Label)
	other := list.Workspaces[0]
	s.holds(s.ok("workspaces", "list", "--cursor", list.NextCursor), "acme")
	s.json(&list, "workspaces", "list", "--limit=1", "--cursor", list.NextCursor)
	acme := list.Workspaces[0]

	out := s.ok("workspaces", "approve", acme.ID, acme.Purchase, "--owner", "ada@example.com")
	s.holds(out, "Owner", "ada@example.com")
	s.holds(out, acme.Purchase, "checkout", "2", "10.00 USD", "no_card", "–")
	require.Contains(t, out, "http://x.example/pay/workspace/")
	s.holds(s.ok("workspaces", "deny", other.ID, other.Purchase), other.Purchase, "denied")
	s.holds(s.ok("workspaces", "claim", other.ID, "eve@example.com"), "Owner", "eve@example.com")
	var kept struct{ Acts []struct{ Subject string } }
	_, code := s.run("workspaces", "confirm", acme.ID, "flow_x")
	require.Equal(t, 1, code)
	s.holds(s.ok("workspaces", "cap", acme.ID, "7000"), "Spent this month", "0.00 USD of 70.00 USD")
	s.holds(s.ok("workspaces", "pause", acme.ID), "Purchases paused", "true")
	s.holds(s.ok("workspaces", "unpause", acme.ID), "Purchases paused", "false")
	s.holds(s.ok("workspaces", "credits", "ada@example.com", "5", "--note", "a gift"), "Credits", "5")
	s.holds(s.ok("workspaces", "show", acme.ID), "Credits", "5")
	out = s.ok("workspaces", "acts", acme.ID)
	s.holds(out, "admin-key", "grant_credits", "–", `creditsGranted 0 → 5, "a gift"`)
	s.holds(out, "admin-key", "approve", acme.Purchase, "owner → ada@example.com,")
	s.json(&kept, "workspaces", "acts", acme.ID)
	require.Equal(t, acme.Purchase, kept.Acts[len(kept.Acts)-1].Subject)
	_, code = s.run("workspaces", "show", "ws_unknown")
	require.Equal(t, 1, code)
}

// TestStrangersFromTheCommandLine: an operator sees where workspaces come from that nobody claims,
// and removes them.
func TestStrangersFromTheCommandLine(t *testing.T) {
	s := newShell(t)
	g, id := s.workspaces, enginetest.ID
	for i, name := range []string{"owned", "strange"} {
		g.Do(t, workspace.KindSignUp, &workspace.SignUp{
			ID: id("w" + name), KeyID: id("k" + name), KeyHash: [32]byte{1, byte(i)},
			ClaimHash: [32]byte{2, byte(i)}, Scopes: workspace.ScopesAll, Label: name,
			Network: [16]byte{10: 0xff, 11: 0xff, 12: 192, 13: 0, 14: 2},
		})
	}
	g.Do(t, workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{ID: id("wowned"), Owner: "ada"})
	var list struct {
		Workspaces []struct{ ID, Label, Network string }
	}
	s.json(&list, "workspaces", "list", "--unclaimed")
	require.Len(t, list.Workspaces, 1)
	strange := list.Workspaces[0]
	require.Equal(t, "192.0.2.0/24", strange.Network)
	s.holds(s.ok("workspaces", "list", "--unclaimed"), strange.ID, "strange", "192.0.2.0/24", "1050")
	require.Contains(t, s.ok("workspaces", "list", "--unclaimed"), "hold 1.0 KiB of 1.0 GiB")
	for range 2 {
		require.Contains(t, s.ok("workspaces", "remove", strange.ID), strange.ID+" was removed at")
	}
	_, code := s.run("workspaces", "show", strange.ID)
	require.Equal(t, 1, code)
	s.holds(s.ok("workspaces", "acts", strange.ID), "admin-key", "remove", "–", "removed false → true")
	s.json(&list, "workspaces", "list")
	require.Len(t, list.Workspaces, 1)
	_, code = s.run("workspaces", "remove", list.Workspaces[0].ID)
	require.Equal(t, 1, code)
	s.holds(s.ok("workspaces", "show", list.Workspaces[0].ID), "Owner", "ada")
}
