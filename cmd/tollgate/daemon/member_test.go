package daemon

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/cli"
	api "tollgate/sdk/go"
)

// TestADownMemberIsSaidToBe: by its role, before the tables, and in the error; nothing of it is
// shown as if it were of now.
func TestADownMemberIsSaidToBe(t *testing.T) {
	n := startNodes(t, 3)
	one := n.all[0].settings
	status := func(asJSON bool) (string, error) {
		var out strings.Builder
		var c cli.ClusterCommand
		c.Status.Ops, c.Status.AdminKey, c.Status.CA = []string{"https://" + one.Ops}, n.key, one.TLS.Authority
		c.Status.JSON = asJSON
		err := c.Status.Run(t.Context(), &out)
		return out.String(), err
	}
	require.Eventually(t, func() bool {
		_, err := status(false)
		return err == nil
	}, patience, 50*time.Millisecond)
	require.EventuallyWithT(t, func(t *assert.CollectT) { // an election may come in between
		leaders := 0
		for _, node := range n.all {
			code, text := n.get(node.settings.Ops, "/leader?exclude=disk_low")
			if code == 200 {
				leaders++
			} else {
				require.Contains(t, text, `"cause":"not_leader"`)
			}
		}
		require.Equal(t, 1, leaders)
	}, patience, 50*time.Millisecond)
	gone := n.all[2]
	require.NoError(t, gone.cluster.Close())
	// On a busy machine another voter may not have answered of late for a moment.
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		out, err := status(false)
		require.ErrorIs(t, err, cli.ErrDown)
		require.Regexp(t, `^`+gone.settings.Node+` is down: last seen \S+Z, \d+s ago\.\n`+
			`2 of 3 voters answer: one more loss stops writes\. `, out)
		require.Regexp(t, `(?m)^`+gone.settings.Node+
			` +down +127\S+ +127\S+ +127\S+ +– +– +\?( +[0-9a-f]{16})?$`, out)
	}, patience, 50*time.Millisecond)
	out, err := status(true)
	require.ErrorIs(t, err, cli.ErrDown)
	var answer struct{ Data api.ClusterStatus }
	require.NoError(t, json.Unmarshal([]byte(out), &answer))
	down := answer.Data.Down()
	require.Len(t, down, 1)
	require.Equal(t, gone.settings.Node, down[0].ID)
	require.Zero(t, down[0].RoundTripUS)
	require.Zero(t, down[0].ClockAheadMS)
	require.WithinDuration(t, time.Now(), *down[0].LastSeenAt, patience)
}

// TestMembersByCommand: what is done and what is not, in the words of the commands, and in the
// record of changes.
func TestMembersByCommand(t *testing.T) {
	n := startNodes(t, 3)
	one := n.all[0].settings
	remove := func(node string) (string, error) {
		var out strings.Builder
		var c cli.ClusterCommand
		c.Remove.Node, c.Remove.Ops = node, []string{"https://" + one.Ops}
		c.Remove.AdminKey, c.Remove.CA = n.key, one.TLS.Authority
		err := c.Remove.Run(t.Context(), &out)
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
