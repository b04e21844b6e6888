package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	api "tollgate/sdk/go"
)

// TestRolesNameTheGroups: who leads one group only does not look as if it led both.
func TestRolesNameTheGroups(t *testing.T) {
	groups := []api.ClusterGroup{{Name: "billing", Leader: "a"}, {Name: "workspace", Leader: "b"}}
	role := func(id string, voter bool) string {
		return roleOf(api.ClusterMember{ID: id, Voter: voter}, groups)
	}
	require.Equal(t, "leads billing", role("a", true))
	require.Equal(t, "leads workspace", role("b", true))
	require.Equal(t, "follower", role("c", true))
	require.Equal(t, "no vote", role("d", false))
	groups[1].Leader = "a"
	require.Equal(t, "leads both", role("a", true))
	var printed strings.Builder
	require.NoError(t, printStatus(&printed, api.ClusterStatus{Groups: []api.ClusterGroup{
		{Name: "billing", StalenessMS: 1_795_283_065_753},
	}}, time.Now()))
	require.NotContains(t, printed.String(), "1795283065753", "a node that has nothing yet")
}

// TestTheBannerSaysWhatTheNextLossMeans, and only where a member is down.
func TestTheBannerSaysWhatTheNextLossMeans(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	seen := now.Add(-90 * time.Second)
	s := api.ClusterStatus{}
	for i, id := range []string{"a", "b", "c", "d", "e"} {
		m := api.ClusterMember{ID: id, Voter: true}
		if m.Reachable = i < 4; !m.Reachable {
			m.Role, m.LastSeenAt = api.RoleDown, &seen
		}
		s.Members = append(s.Members, m)
	}
	require.Contains(t, banner(&s, now), "e is down: last seen 2026-01-02T03:02:35Z, 1m30s ago.\n"+
		"4 of 5 voters answer. ")
	for i, want := range map[int]string{
		3: "3 of 5 voters answer: one more loss stops writes.",
		2: "2 of 5 voters answer, and writes need 3: bring one back.",
	} {
		for j := range s.Members {
			s.Members[j].Reachable = j < i
			if j >= i {
				s.Members[j].Role = api.RoleDown
			}
		}
		require.Contains(t, banner(&s, now), want)
		require.Contains(t, banner(&s, now), "d is down: it has not answered since this node began.")
	}
	require.Empty(t, banner(&api.ClusterStatus{Members: s.Members[:1]}, now))
}
