package admin_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/admin"
)

// Changes of the members go to the cluster, and are recorded when they are done; what it refuses is
// told as it says it, and is not.
func TestMembersAreChangedAndRecorded(t *testing.T) {
	n := start(t)
	n.describe()
	n.call("POST", "cluster/members", `{"id":"node4","raft":"10.0.0.4:7080","ops":"10.0.0.4:9080"}`).
		is(200, "")
	require.Equal(t, &admin.MemberChange{
		Action: "join", ID: "node4", Raft: "10.0.0.4:7080", Ops: "10.0.0.4:9080",
	}, n.members.changes.Load())
	newest := n.call("GET", "audit?limit=1", "").data()["changes"].([]any)[0].(map[string]any)
	require.Equal(t, "member.joined", newest["action"])
	require.Equal(t, "node4", newest["subject"])
	require.Equal(t, "admin-key", newest["actor"])
	require.Equal(t, "10.0.0.4:7080", newest["after"].(map[string]any)["raft"])

	n.call("POST", "cluster/members/node4/lead", "").is(200, "")
	require.Equal(t, "transfer", n.members.changes.Load().Action)
	n.call("DELETE", "cluster/members/node4", "").is(200, "")
	require.Equal(t, "remove", n.members.changes.Load().Action)
	removals := func(node string) int {
		return strings.Count(n.call("GET", "audit", "").raw, `"action":"member.removed","subject":"`+node)
	}
	require.Equal(t, 1, removals("node4"))
	n.members.removed = map[string]bool{"node4": true, "node3": true}
	n.call("DELETE", "cluster/members/node4", "").is(409, "members_unchanged")
	require.Equal(t, 1, removals("node4"), "it has its record")
	n.call("DELETE", "cluster/members/node3", "").is(200, "")
	require.Equal(t, 1, removals("node3"), "another node did it, and did not hear of it")
	n.call("DELETE", "cluster/members/node3", "").is(409, "members_unchanged")
	require.Equal(t, 1, removals("node3"))
	for i := range 1000 {
		n.call("POST", "accounts", `{"name":"a`+strconv.Itoa(i)+`"}`).is(201, "")
	}
	n.call("DELETE", "cluster/members/node3", "").is(409, "members_unchanged")
	require.NotContains(t, n.call("GET", "audit", "").raw, "member.removed", "its record is long ago")
	refused := n.call("POST", "cluster/members/node4/promote", "").is(409, "members_unchanged")
	require.Contains(t, refused.raw, "7 entries behind")
	require.NotContains(t, n.call("GET", "audit", "").raw, "member.promoted")

	for body, problem := range map[string]string{
		`{"id":"node4"}`:                                        "raft",
		`{"raft":"10.0.0.4:7080"}`:                              "id",
		`{"id":"","raft":"x"}`:                                  "id",
		`{"id":"a","raft":"x","k":1}`:                           "k",
		`{"id":"a\u0000","raft":"x:1"}`:                         "id",
		`{"id":"` + strings.Repeat("a", 33) + `","raft":"x:1"}`: "id",
	} {
		a := n.call("POST", "cluster/members", body).is(400, "validation_failed")
		require.Contains(t, a.raw, problem)
	}
	require.Equal(t, "remove", n.members.changes.Load().Action, "nothing more came through")
}
