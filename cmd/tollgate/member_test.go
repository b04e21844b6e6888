package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"tollgate/cluster"
	"tollgate/cmd/tollgate/config"
)

// TestRolesNameTheGroups: who leads one group only does not look as if it led both.
func TestRolesNameTheGroups(t *testing.T) {
	groups := []cluster.GroupStatus{{Name: "billing", Leader: "a"}, {Name: "workspace", Leader: "b"}}
	role := func(id string, voter bool) string {
		return roleOf(cluster.MemberStatus{Member: cluster.Member{ID: id}, Voter: voter}, groups)
	}
	require.Equal(t, "leads billing", role("a", true))
	require.Equal(t, "leads workspace", role("b", true))
	require.Equal(t, "follower", role("c", true))
	require.Equal(t, "no vote", role("d", false))
	groups[1].Leader = "a"
	require.Equal(t, "leads both", role("a", true))
	var printed strings.Builder
	require.NoError(t, printStatus(&printed, cluster.Status{Groups: []cluster.GroupStatus{
		{Name: "billing", StalenessMS: 1_795_283_065_753},
	}}, time.Now()))
	require.NotContains(t, printed.String(), "1795283065753", "a node that has nothing yet")
}

// TestADownMemberIsSaidToBe: by its role, before the tables, and in the exit code; nothing of it is
// shown as if it were of now.
func TestADownMemberIsSaidToBe(t *testing.T) {
	n := startNodes(t, 3)
	one := n.all[0].settings
	status := func(more ...string) (string, int) {
		t.Helper()
		return alone(append([]string{
			"cluster", "status", "--ops", "https://" + one.Ops, "--admin-key", n.key,
			"--ca", one.TLS.Authority,
		}, more...)...)
	}
	require.Eventually(t, func() bool {
		_, code := status()
		return code == 0
	}, patience, 50*time.Millisecond)
	gone := n.all[2]
	require.NoError(t, gone.cluster.Close())
	require.Eventually(t, func() bool {
		_, code := status()
		return code == exitWarns
	}, patience, 50*time.Millisecond)
	out, code := status()
	require.Equal(t, 6, code)
	require.Regexp(t, `^`+gone.settings.Node+` is down: last seen \S+Z, \d+s ago\.\n`+
		`2 of 3 voters answer: one more loss stops writes\. `, out)
	require.Regexp(t, `(?m)^`+gone.settings.Node+` +down +127\S+ +127\S+ +127\S+ +– +– +\? `, out)
	out, code = status("--json")
	require.Equal(t, 6, code)
	var answer struct{ Data cluster.Status }
	require.NoError(t, json.Unmarshal([]byte(out), &answer))
	down := answer.Data.Down()
	require.Len(t, down, 1)
	require.Equal(t, gone.settings.Node, down[0].ID)
	require.Zero(t, down[0].RoundTripUS)
	require.Zero(t, down[0].ClockAheadMS)
	require.WithinDuration(t, time.Now(), *down[0].LastSeenAt, patience)
}

// TestTheBannerSaysWhatTheNextLossMeans, and only where a member is down.
func TestTheBannerSaysWhatTheNextLossMeans(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	seen := now.Add(-90 * time.Second)
	s := cluster.Status{}
	for i, id := range []string{"a", "b", "c", "d", "e"} {
		m := cluster.MemberStatus{Member: cluster.Member{ID: id}, Voter: true}
		if m.Reachable = i < 4; !m.Reachable {
			m.Role, m.LastSeenAt = cluster.RoleDown, &seen
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
				s.Members[j].Role = cluster.RoleDown
			}
		}
		require.Contains(t, banner(&s, now), want)
		require.Contains(t, banner(&s, now), "d is down: it has not answered since this node began.")
	}
	require.Empty(t, banner(&cluster.Status{Members: s.Members[:1]}, now))
}

// TestMembersByCommand: what is done and what is not, in the words of the commands, and in the
// record of changes.
func TestMembersByCommand(t *testing.T) {
	n := startNodes(t, 3)
	one := n.all[0].settings
	remove := func(node string) (string, error) {
		var out strings.Builder
		command := clusterRemoveCommand{Node: node, adminFlags: adminFlags{
			Ops: []string{"https://" + one.Ops}, AdminKey: n.key, CA: one.TLS.Authority,
		}}
		err := command.Run(t.Context(), &out)
		return out.String(), err
	}
	_, err := remove("nodeX")
	require.ErrorContains(t, err, "The members were not changed: nodeX is not a member (members: ")
	require.Equal(t, 1, strings.Count(strings.ToLower(err.Error()), "the members were not changed"))
	_, text := n.get(one.Ops, "/api/v1/admin/audit")
	require.NotContains(t, text, "member.removed")
	gone := n.all[2].settings.Node
	var printed string
	require.Eventually(t, func() bool { // on a busy machine a voter may not have answered of late
		printed, err = remove(gone)
		return err == nil || !strings.Contains(err.Error(), "voters would answer")
	}, 20*time.Second, 100*time.Millisecond)
	require.NoError(t, err)
	require.Contains(t, printed, gone+" is no longer a member. Voters that are left: 2; losses that "+
		"they stand: 0.")
	_, text = n.get(one.Ops, "/api/v1/admin/audit")
	require.Contains(t, text, "member.removed")
}

// TestScrapesFitTheBootstrap: the scrape configuration of the manual reaches the cluster of the
// manual.
func TestScrapesFitTheBootstrap(t *testing.T) {
	text, err := os.ReadFile("../../cluster/OPERATIONS.md")
	require.NoError(t, err)
	block := func(begin string) []byte {
		_, found, ok := strings.Cut(string(text), "```yaml\n"+begin)
		require.True(t, ok, begin)
		found, _, _ = strings.Cut(found, "```")
		return []byte(begin + found)
	}
	var node config.Config
	require.NoError(t, yaml.Unmarshal(block("node: node1"), &node))
	require.NotEmpty(t, node.OpsTLS.Certificate)
	var prometheus struct {
		Jobs []struct {
			Scheme string `yaml:"scheme"`
			TLS    struct {
				Authority string `yaml:"ca_file"`
			} `yaml:"tls_config"`
		} `yaml:"scrape_configs"`
	}
	require.NoError(t, yaml.Unmarshal(block("scrape_configs:"), &prometheus))
	require.Len(t, prometheus.Jobs, 1)
	require.Equal(t, "https", prometheus.Jobs[0].Scheme)
	require.NotEmpty(t, prometheus.Jobs[0].TLS.Authority)
}
