package owner_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/workspace"
	"tollgate/server/console/owner"
	"tollgate/server/workspaceapi"
)

// TestAnOwnerSearches: a flow by a part of its text, a run by its id, and nothing of another
// workspace.
func TestAnOwnerSearches(t *testing.T) {
	s, _ := mine(t)
	saves := func(ws uint32, id, name string) {
		s.does(workspace.KindSaveFlow, &workspace.SaveFlow{
			Workspace: ws, ID: enginetest.ID(id), Document: workspace.FlowDocument{
				Name: name, URL: "https://acme.example/", Task: "Order a boat", SuccessCriteria: "x",
				Access: "public",
			},
		})
	}
	other, _ := s.signUp("other")
	saves(other, "theirs", "Kayak of others")
	search := func(text string) string {
		return owner.Root + "/search?q=" + url.QueryEscape(text)
	}
	saves(s.who.Workspace, "second", "Second kayak")
	a := s.ask("GET", search("KAYAK"), nil)
	require.Equal(t, 303, a.status)
	require.Equal(t, "/console/flows/"+workspaceapi.NounFlow.Text(enginetest.ID("second")),
		string(a.header.Peek("Location")), "the flow of this workspace alone")
	saves(s.who.Workspace, "third", "Third kayak")
	body := s.sees(search("kayak"))
	require.Contains(t, body, "Second kayak")
	require.Contains(t, body, "Third kayak")
	require.NotContains(t, body, "of others")
	for _, text := range []string{
		"%", "*", strings.Repeat("k", 10_000), "\x00", "\xff",
		workspaceapi.NounFlow.Text(enginetest.ID("theirs")),
	} {
		require.Contains(t, s.sees(search(text)), "no-match", "%.40q", text)
	}
	require.Contains(t, s.sees(owner.Root+"/search"), "Type a part")
}
