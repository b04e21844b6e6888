package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/engine"
)

// A name of nobody is refused, with the names that there are, wherever it is asked; the reason is
// said once, also when the leader is another node.
func TestNobodyIsNotRemoved(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		for id, n := range c.node {
			err := n.Remove(c.within(10*time.Second), "x")
			require.ErrorIs(t, err, ErrMembers)
			require.EqualError(t, WhyUnchanged(err), "x is not a member (members: a, b, c)", id)
			err = n.Promote(c.within(10*time.Second), "x")
			require.EqualError(t, err, "cluster: the members were not changed: "+
				"group billing: x is not a member: join it first", id)
		}
		c.count(leader, 1)
		c.converge()
	})
}

// A removal whose outcome was not known is repeated through the node that was asked, which knows
// that it is a repeat: it ends well, once.
func TestARemovalIsRepeated(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.known()
		leader := c.leader()
		c.transfer(leader, leader)
		gone, other := c.others(leader)[0], c.others(leader)[1]
		c.kill(gone)
		c.net.isolate(addressOf(other)) // it has answered a moment ago: the check passes
		err := c.node[leader].Remove(c.within(200*time.Millisecond), gone)
		require.ErrorContains(t, err, "or it is not known: repeat the command")
		c.net.mend()
		c.eventually("it is repeated", func() bool {
			return c.node[leader].Remove(c.within(time.Second), gone) == nil
		})
		_, member := c.member(leader, gone)
		require.False(t, member)
		require.Empty(t, c.node[leader].unconfirmed)
		c.node[leader].unconfirmed = gone // both groups had done it, and the last answer was lost
		require.NoError(t, c.node[leader].Remove(c.within(time.Second), gone))
		err = c.node[leader].Remove(c.within(time.Second), gone)
		require.ErrorContains(t, err, gone+" is not a member")
		delete(c.node, gone)
		c.count(leader, 1)
		c.converge()
	})
}

// TestWhoWasAMemberIsKnown: every node knows former members at once, one that joined when they were
// dead, and one that restarted, too. A removal may have been requested of another node, which did
// not learn its outcome.
func TestWhoWasAMemberIsKnown(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.known()
		leader := c.leader()
		gone, other := c.others(leader)[0], c.others(leader)[1]
		c.stop(gone)
		c.join("d", leader)
		time.Sleep(2 * pastEvery)
		c.remove(leader, gone)
		delete(c.node, gone)
		c.converge()
		known := func(id string) {
			t.Helper()
			err := c.node[id].Remove(c.within(10*time.Second), gone)
			require.ErrorContains(t, err, gone+" is not a member")
			require.True(t, WasMember(err), id)
			require.False(t, WasMember(c.node[id].Remove(c.within(10*time.Second), "x")), id)
		}
		known(leader)
		known(other)
		known("d")
		time.Sleep(2 * pastEvery)
		require.NoError(t, c.billing(other).TakeSnapshot())
		c.stop(other)
		c.start(other)
		c.converge()
		known(other)
	})
}

// A leader that looked at the members, was deposed, and leads again after another one has changed
// them, changes nothing of what it has not looked at.
func TestMembersThatChangedMeanwhileAreNotChanged(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.known()
		leader := c.leader()
		c.transfer(leader, leader)
		gone, other := c.others(leader)[0], c.others(leader)[1]
		looked, err := c.billing(leader).beginChange()
		require.NoError(t, err)
		require.Positive(t, looked.index)
		applied := c.billing(leader).electorate.configured.Swap(0)
		_, err = c.billing(leader).beginChange()
		require.ErrorIs(t, err, errNoConfiguration)
		c.billing(leader).electorate.configured.Store(applied)
		require.Len(t, looked.servers, len(three))

		c.transfer(leader, other)
		c.remove(other, gone)
		c.eventually("it leads again", func() bool {
			return c.node[other].Transfer(c.within(10*time.Second), leader) == nil &&
				c.billing(leader).route.Load().ready
		})
		err = looked.takeOut(c.within(10*time.Second), raft.ServerID(other))
		require.ErrorIs(t, err, ErrNotLeader, "looked at again, and tried again")
		require.ErrorContains(t, err, "configuration changed since")
		_, member := c.member(leader, other)
		require.True(t, member, "with it the only other copy would have gone")
		moved, _ := c.member(leader, other)
		moved.HTTP = "elsewhere:1"
		for what, change := range map[string]change{
			"join": {Member: Member{ID: "e", Raft: "e:1"}},
			"move": {Member: moved.Member, Disk: c.node[other].Disk()},
		} {
			err = looked.join(c.within(10*time.Second), change)
			require.ErrorIs(t, err, ErrNotLeader, what)
			require.ErrorContains(t, err, "configuration changed since", what)
		}

		looked.servers = slices.Clone(looked.servers) // raft's own
		i := slices.IndexFunc(looked.servers, func(x raft.Server) bool {
			return string(x.ID) == other
		})
		looked.servers[i].Suffrage = raft.Nonvoter // as if it had had no vote then
		err = looked.promote(c.within(10*time.Second), change{Member: Member{ID: other}})
		require.ErrorContains(t, err, other+" does not answer", "not in the term that was looked at")
		again, err := c.billing(leader).beginChange()
		require.NoError(t, err)
		looked.route = again.route
		c.eventually("it is heard from, and not promoted", func() bool {
			err = looked.promote(c.within(10*time.Second), change{Member: Member{ID: other}})
			require.Error(t, err)
			return errors.Is(err, ErrNotLeader)
		})
		require.ErrorContains(t, err, "configuration changed since", "promote")

		require.Greater(t, again.index, looked.index)
		require.NoError(t, again.takeOut(c.within(10*time.Second), raft.ServerID(other)))
		c.stop(gone)
	})
}

// The index of the members is known where they are in a snapshot only.
func TestTheIndexOfTheMembersOutlivesTheLog(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.known()
		leader := c.leader()
		for i := range uint64(100) {
			c.count(leader, i)
		}
		c.converge()
		require.NoError(t, c.billing(leader).TakeSnapshot())
		for _, id := range three {
			c.stop(id)
		}
		for _, id := range three {
			c.start(id)
		}
		leader = c.leader()
		gone := c.others(leader)[0]
		c.remove(leader, gone)
		c.stop(gone)
		delete(c.node, gone)
		c.count(leader, 1000)
	})
}

// Addresses at which nobody can be reached are refused; what is left out is what the node says of
// itself, at the host where others reach it, and never lost.
func TestAJoinKeepsAddresses(t *testing.T) {
	tune := func(id string, c *Config) {
		if id == "d" {
			c.Members = []Member{{ID: "d", Raft: addressOf("d"), HTTP: "0.0.0.0:8", Ops: ":9"}}
		}
	}
	inCluster(t, tune, func(c *nodes) {
		c.known()
		leader := c.leader()
		c.start("d")
		for _, m := range []Member{
			{ID: "d"},
			{ID: "d", Raft: "d"},
			{ID: "d", Raft: ":7000"},
			{ID: "d", Raft: "d:0"},
			{ID: "d", Raft: "d:70000"},
			{ID: "d", Raft: "d?x=1:7000"},
			{ID: "d", Raft: addressOf("d"), HTTP: "garbage"},
			{ID: "d", Raft: addressOf("d"), Ops: "d:http"},
		} {
			require.ErrorContains(t, c.node[leader].Join(c.within(time.Second), m), "want host:port")
		}
		require.NoError(t, c.node[leader].Join(c.within(10*time.Second), Member{
			ID: "d", Raft: addressOf("d"),
		}))
		at := func(id string) string {
			m, _ := c.member(leader, id)
			return strings.Join([]string{m.Raft, m.HTTP, m.Ops}, " ")
		}
		require.Equal(t, "d:7000 d:8 d:9", at("d"), "as it says itself")
		require.NoError(t, c.node[leader].Join(c.within(10*time.Second), Member{
			ID: "d", Raft: addressOf("d"), HTTP: "elsewhere:80",
		}))
		require.Equal(t, "d:7000 elsewhere:80 d:9", at("d"))
		other := c.others(leader)[0]
		require.NoError(t, c.node[leader].Join(c.within(10*time.Second), Member{
			ID: other, Raft: addressOf(other),
		}), "of the beginning")
		require.Equal(t, addressOf(other)+" "+other+":80 "+other+":90", at(other))
		c.converge()
	})
}

// A node that has nothing yet does not say that it is behind by as long as there are clocks.
func TestAnEmptyNodeIsEmpty(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.start("d")
		require.Contains(t, c.node["d"].Status().Reasons,
			Reason{CauseBehind, "billing", "it has applied nothing yet"})
	})
}

// A vote is for whom the log speaks for, whatever this node's own list says: here that of the one
// who was cut off while another was promoted, before the leader of that was lost.
func TestAPromotedNodeIsElectedByWhoHasNotHeardOfIt(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.known()
		leader := c.leader()
		c.transfer(leader, leader)
		unaware, promoted := c.others(leader)[0], c.others(leader)[1]
		c.remove(leader, promoted)
		c.stop(promoted)
		c.wipe(promoted)
		c.joins[promoted] = true
		c.start(promoted)
		require.NoError(t, c.node[leader].Join(c.within(10*time.Second), memberOf(promoted)))
		c.eventually("all know it", func() bool {
			m, ok := c.member(unaware, promoted)
			return ok && m.Disk == c.node[promoted].Disk()
		})

		c.net.isolate(addressOf(unaware))
		c.eventually("it has its vote", func() bool {
			return c.node[leader].Promote(c.within(10*time.Second), promoted) == nil
		})
		c.kill(leader) // for good; the others reach each other again
		m, _ := c.member(unaware, promoted)
		require.False(t, m.Voter, "it has not heard of that")
		require.Equal(t, promoted, c.leader())
		c.count(unaware, 1)
		require.Equal(t, engine.OutcomeDone, c.readOutcome(unaware, 10*time.Second))
		c.converge()
	})
}
