package cluster

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
	"tollgate/engine"
)

// within is a context for one change of the members.
func (c *nodes) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(c.t.Context(), d)
	c.t.Cleanup(cancel)
	return ctx
}

// known waits until every member's folder is noted in both groups.
func (c *nodes) known() {
	c.t.Helper()
	c.knownBut("")
}

func (c *nodes) knownBut(absent raft.ServerID) {
	c.t.Helper()
	c.eventually("every folder is noted", func() bool {
		for _, n := range c.node {
			if n == nil {
				continue
			}
			for _, g := range n.groups {
				for _, s := range g.servers().Servers {
					if peerOf(s, 0).disk == "" && s.ID != absent {
						return false
					}
				}
			}
		}
		return true
	})
}

// remove takes a member out. A leader that is new refuses until it has heard from the others.
func (c *nodes) remove(through, id string) {
	c.t.Helper()
	c.eventually("it is removed", func() bool {
		return c.node[through].Remove(c.within(10*time.Second), id) == nil
	})
}

// transfer gives a voter the leadership of both groups. A leader that is new refuses, too.
func (c *nodes) transfer(through, to string) {
	c.t.Helper()
	c.eventually("it leads both groups", func() bool {
		return c.node[through].Transfer(c.within(10*time.Second), to) == nil
	})
}

// join brings a new node in through another, up to its vote.
func (c *nodes) join(id, through string) {
	c.t.Helper()
	if c.node[id] == nil {
		c.start(id)
	}
	require.NoError(c.t, c.node[through].Join(c.within(10*time.Second), memberOf(id)))
	var err error
	c.eventually("it has its vote", func() bool {
		err = c.node[through].Promote(c.within(10*time.Second), id)
		return err == nil
	})
}

// wipe empties the folder of a node that is off.
func (c *nodes) wipe(id string) {
	require.NoError(c.t, os.RemoveAll(filepath.Join(c.dir, id)))
}

func (c *nodes) member(at, id string) (MemberStatus, bool) {
	list := c.node[at].Status().Members
	i := slices.IndexFunc(list, func(m MemberStatus) bool { return m.ID == id })
	if i < 0 {
		return MemberStatus{}, false
	}
	return list[i], true
}

// A fourth node: without a vote it reads and writes as any other; with one it counts; and it may
// lead, also when those that it began with are gone.
func TestANodeIsJoined(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		c.count(leader, keyRange(1, 500)...)
		c.start("d")
		require.Contains(t, c.node["d"].Status().Reasons, Reason{
			Cause: CauseNotJoined,
			Text:  "waits to be joined: run `tollgate cluster join` on a node of the cluster",
		})
		through := c.others(leader)[0]
		require.NoError(t, c.node[through].Join(c.within(10*time.Second), memberOf("d")))
		c.leader()
		c.eventually("it is ready", func() bool { return c.node["d"].Status().Ready })
		for id := range c.node {
			c.eventually("all know it", func() bool {
				m, ok := c.member(id, "d")
				return ok && m.Disk == c.node["d"].Disk() && m.HTTP == "d:80"
			})
			m, _ := c.member(id, "d")
			require.False(t, m.Voter)
		}
		c.count("d", 1001) // forwarded
		require.Equal(t, engine.OutcomeDone, c.readOutcome("d", time.Second))
		require.True(t, c.ledgers["d"].has(1001))
		require.ErrorIs(t, c.billing(leader).HandOver(c.t.Context(), "d"), ErrHandOver, "no voter")

		c.eventually("it has its vote", func() bool { // the leader may have no link to it yet
			return c.node["d"].Promote(c.within(10*time.Second), "d") == nil
		})
		c.eventually("all have heard of it", func() bool { // two groups, maybe of two leaders
			m, _ := c.member(leader, "d")
			return m.Voter
		})
		require.NoError(t, c.node[leader].Promote(c.within(10*time.Second), "d"), "again")
		c.transfer(leader, "d")
		require.Equal(t, "d", c.leader())
		c.eventually("both groups", func() bool {
			_, leads := c.node["d"].Workspace().Leads()
			return leads
		})
		c.count("d", 1002)
		c.converge()

		// Its own restart, and one of those that began without it.
		c.stop("d")
		c.stop(through)
		c.start("d")
		c.start(through)
		c.leader()
		c.count("d", 1003)
		c.converge()
	})
}

// A node died with its disk: it is removed, another comes in its place under the old name, and
// nothing is lost meanwhile.
func TestADeadNodeIsReplaced(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.known()
		leader := c.leader()
		dead := c.others(leader)[0]
		w := c.writeThrough(c.others(dead)...)
		c.kill(dead)
		c.wipe(dead)
		c.remove(leader, dead)
		again := c.node[leader].Remove(c.within(10*time.Second), dead)
		require.EqualError(t, again, "cluster: the members were not changed: "+dead+
			" is not a member (members: "+strings.Join(c.others(dead), ", ")+")")
		c.eventually("all have heard of it", func() bool {
			_, member := c.member(leader, dead)
			return !member
		})
		c.joins[dead] = true
		c.join(dead, leader)
		w.end()
		require.Empty(t, w.refused)
		c.count(dead, 1)
		c.converge()
		for _, key := range w.keys {
			require.True(t, c.ledgers[dead].has(key), key)
		}
		c.kill(leader) // two are left of three, one of them new
		c.leader()
		c.count(dead, 2)
		c.start(leader)
		c.leader()
	})
}

// Raft makes one last attempt to send a removed member what it lacks. An empty folder may wait at
// its address by then. With a snapshot it would be refused as one with a past, and never joined.
func TestWhatARemovedMemberLackedDoesNotReachANewFolder(t *testing.T) {
	tune := func(_ string, c *Config) { c.TrailingBytes = 1 }
	inCluster(t, tune, func(c *nodes) {
		c.known()
		leader := c.leader()
		dead := c.others(leader)[0]
		c.kill(dead)
		c.wipe(dead)
		for i := range uint64(minTrailing + 10) {
			c.count(leader, i+1)
		}
		require.NoError(t, c.billing(leader).TakeSnapshot())
		c.remove(leader, dead)
		c.joins[dead] = true
		c.start(dead)
		time.Sleep(10 * time.Second)
		require.True(t, c.node[dead].waiting(), "nothing comes before it is joined")
		c.join(dead, leader)
		c.converge()
	})
}

// Each end by itself keeps the log away from a folder that is not meant: a leader names the one
// that Raft's address has, and a node that waits to be joined insists on being named.
func TestALogIsSentToTheFolderThatWasJoined(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.known()
		c.start("d")
		a, b, d := c.node["a"], c.node["b"], c.node["d"]
		dial := func(disk string) error {
			conn, err := a.port.dial(addressOf("b")+"?disk="+disk, streamRaftBilling, time.Second)
			if err == nil {
				require.NoError(t, conn.Close())
			}
			return err
		}
		require.NoError(t, dial(b.Disk()))
		require.ErrorIs(t, dial("0123"), errMistaken)
		from := a.ownInfo()
		require.Nil(t, d.refuse(streamLink, from), "it is asked to join")
		require.Equal(t, refusedMistaken, d.refuse(streamRaftBilling, from).code)
		from.WantDisk = d.Disk()
		require.Nil(t, d.refuse(streamRaftBilling, from))
	})
}

// A member was replaced while another was away, whose list still has the folder of before. It is
// refused there, and that ends nothing: the list of the one that came back is older than its
// membership. Where it leads, it brings that list up to date.
func TestAReplacedMemberOutlivesAnOlderList(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.join("d", c.leader())
		c.join("e", c.leader())
		c.known()
		leader := c.leader()
		away, dead := c.others(leader)[0], c.others(leader)[1]
		c.transfer(leader, leader)
		c.net.isolate(addressOf(away))
		c.stop(dead)
		c.wipe(dead)
		c.remove(leader, dead)
		c.joins[dead] = true
		c.join(dead, leader)
		c.eventually("it leads both groups", func() bool {
			if err := c.node[leader].Transfer(c.within(10*time.Second), dead); err != nil {
				return false
			}
			_, billing := c.node[dead].Billing().Leads()
			_, workspace := c.node[dead].Workspace().Leads()
			return billing && workspace
		})
		was, _ := c.member(away, dead)
		require.NotEqual(t, c.node[dead].Disk(), was.Disk, "the list is older")
		c.net.mend()
		c.eventually("the list is brought up to date", func() bool {
			m, _ := c.member(away, dead)
			return m.Disk == c.node[dead].Disk() && m.Reachable
		})
		require.Empty(t, c.fatals(dead))
		require.Equal(t, dead, c.leader(), "it led all the time")
		c.count(away, 1)
		c.converge()
	})
}

// A leader that is removed hands over first. It is told that it is not a member, and gets nothing.
// A node stops while a member leaves: its link is closed for both reasons.
func TestALinkIsClosedForTwoReasons(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.leader()
		l := c.node["a"].linkTo("b")
		require.NotNil(t, l)
		var closers sync.WaitGroup
		closers.Go(l.Close)
		closers.Go(l.Close)
		closers.Wait()
	})
}

func TestALeaderIsRemoved(t *testing.T) {
	// Its writers wait for thousands of fsyncs, which need no real disk here.
	inMemory := func(_ string, c *Config) { c.FS = faultfs.New() }
	inCluster(t, inMemory, func(c *nodes) {
		c.known()
		old := c.leader()
		c.join("d", old)
		w := c.writeThrough(c.others(old)...)
		require.NoError(t, c.node[old].Remove(c.within(10*time.Second), old))
		leader := c.leader(old)
		require.NotEqual(t, old, leader)
		c.eventually("it knows", func() bool {
			return slices.ContainsFunc(c.node[old].Status().Reasons, func(why Reason) bool {
				return why.Cause == CauseRemoved
			})
		})
		c.eventually("the others have heard of it", func() bool {
			return c.readOutcome(old, time.Second) == engine.OutcomeUnavailable
		})
		require.NotEqual(t, engine.OutcomeDone, c.propose(old, time.Second, 7)[0])
		w.end()
		require.Empty(t, w.refused)
		require.Less(t, w.longest, 3*testHeartbeat, "they wait for one election at most")
		time.Sleep(3 * time.Second)
		require.Equal(t, engine.OutcomeUnavailable, c.readOutcome(old, time.Second))
		require.Equal(t, leader, c.leader(old), "it disturbs nobody")
		require.ErrorContains(t, c.node[leader].Join(c.within(time.Second), memberOf(old)),
			"is not empty")
		c.stop(old)
		delete(c.node, old)
		c.count(leader, 8)
		c.converge()
	})
}

// Two nodes were removed, their folders emptied, and both are started as at the beginning. Where
// the remaining one can be asked, they do not start; where it cannot, they begin a cluster of their
// own, whose leader must not bring its log to the one that goes on.
func TestRemovedNodesDoNotOverwriteTheOneThatRemains(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.known()
		left := c.leader()
		gone := c.others(left)
		c.count(left, keyRange(1, 20)...)
		for _, id := range gone {
			c.remove(left, id)
			c.stop(id)
			c.wipe(id)
		}
		for _, id := range gone {
			_, err := Open(c.config(id))
			require.ErrorIs(t, err, errNotMember, "it asks first")
			require.ErrorContains(t, err, "`join: true`")
		}
		for _, id := range gone {
			c.net.cutLink(addressOf(id), addressOf(left))
			c.net.cutLink(addressOf(left), addressOf(id))
			c.start(id)
		}
		for term := c.billing(left).raft.CurrentTerm(); ; { // a later one counts, in raft's eyes
			leader := c.leader(left)
			if c.billing(leader).raft.CurrentTerm() > term {
				break
			}
			other := gone[(slices.Index(gone, leader)+1)%2]
			c.transfer(leader, other)
		}
		c.count(gone[0], 1001)
		c.net.mend()
		for _, id := range gone {
			c.eventually("it is told", func() bool { return c.node[id].notMember.Load() != nil })
		}
		time.Sleep(5 * time.Second) // and goes on trying
		c.count(left, 21)
		for _, key := range keyRange(1, 21) {
			require.True(t, c.ledgers[left].has(key), key)
		}
		require.False(t, c.ledgers[left].has(1001))
		require.Empty(t, c.fatals(left))
	})
}

// A node that was not there at the beginning hears of the cluster from a leader that it does not
// know, and that does not know its folder: nobody could note that yet.
func TestALateBeginnerFollowsALeaderThatItDoesNotKnow(t *testing.T) {
	inClusterOf(t, nil, []string{"a", "b"}, func(c *nodes) {
		first := c.leader()
		c.knownBut("c")
		var before [2]uint64
		for i, g := range c.node[first].groups {
			before[i] = g.raft.LastIndex()
		}
		c.join("d", first)
		c.eventually("an entry follows that by which d votes", func() bool {
			for i, g := range c.node[first].groups {
				if g.raft.LastIndex() < before[i]+3 || !slices.Contains(g.electorate.voters()[1], "d") {
					return false
				}
			}
			return true
		})
		c.transfer(first, "d")
		c.eventually("it leads both groups", func() bool {
			_, billing := c.node["d"].Billing().Leads()
			_, workspace := c.node["d"].Workspace().Leads()
			return billing && workspace
		})
		late, _ := c.member("d", "c")
		require.Empty(t, late.Disk)
		c.count("d", 1)
		c.start("c")
		c.eventually("it is noted", func() bool {
			m, _ := c.member("c", "c")
			return m.Disk == c.node["c"].Disk()
		})
		require.Equal(t, "d", c.leader(), "it led all the time")
		c.count("c", 2)
		c.converge()
	})
}

// What would cost the majority is refused, and says what to do.
func TestNoChangeCostsTheMajority(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.known()
		leader := c.leader()
		dead, other := c.others(leader)[0], c.others(leader)[1]
		c.kill(dead)
		time.Sleep(2 * time.Second)
		err := c.node[leader].Remove(c.within(5*time.Second), other)
		require.ErrorIs(t, err, ErrMembers)
		require.ErrorContains(t, err, "1 of 2 voters would answer, and 2 are needed: bring back ["+dead)
		m, _ := c.member(leader, other)
		require.True(t, m.Voter)
		require.NoError(t, c.node[leader].Remove(c.within(5*time.Second), dead))
		require.NoError(t, c.node[leader].Remove(c.within(5*time.Second), other))
		err = c.node[leader].Remove(c.within(5*time.Second), leader)
		require.ErrorContains(t, err, leader+" is the last voter")
		c.count(leader, 1)
		c.stop(other)
		delete(c.node, other)
		delete(c.node, dead)
	})
}

// A leader carries out one change at a time: what the next one rests on it looks at afterwards.
// Raft would not notice that the configuration has changed since.
func TestChangesAreMadeOneAfterTheOther(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.known()
		leader := c.leader()
		other := c.others(leader)[0]
		c.transfer(leader, leader)
		changing := c.billing(leader).changing
		changing <- struct{}{}
		err := c.node[leader].Remove(c.within(time.Second), other)
		require.ErrorIs(t, err, ErrMembers)
		require.ErrorContains(t, err, "another change is under way")
		m, _ := c.member(leader, other)
		require.True(t, m.Voter)
		<-changing
		c.remove(leader, other)
		c.stop(other)
		delete(c.node, other)
		c.count(leader, 1)
		c.converge()
	})
}

// A node that is behind gets no vote, whatever it says of itself.
func TestOnlyWhoHasCaughtUpIsPromoted(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.known()
		leader := c.leader()
		c.start("d")
		require.NoError(t, c.node[leader].Join(c.within(10*time.Second), memberOf("d")))
		c.eventually("it has caught up", func() bool {
			return c.node[leader].groups[0].transportMatched("d") > 0
		})
		c.net.cutLink(addressOf(leader), addressOf("d"))
		for i := range uint64(4 * promoteLag) {
			c.count(leader, 100+i)
		}
		c.net.isolate(addressOf("d"))
		err := c.node[leader].Promote(c.within(5*time.Second), "d")
		require.ErrorContains(t, err, "behind")
		require.ErrorContains(t, c.node[leader].Promote(c.within(time.Second), "x"), "join it first")
		c.net.mend()
		c.eventually("it has caught up", func() bool {
			return c.node[leader].Promote(c.within(time.Second), "d") == nil
		})
		c.converge()
	})
}

// A node that has stored the log and not applied it gets no vote: it would lead without knowing
// what was acknowledged.
func TestOnlyWhoHasAppliedIsPromoted(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.known()
		leader := c.leader()
		c.start("d")
		require.NoError(t, c.node[leader].Join(c.within(10*time.Second), memberOf("d")))
		c.converge()
		gate := make(chan struct{})
		open := sync.OnceFunc(func() { close(gate) })
		defer open()
		c.ledgers["d"].gate.Store(&gate)
		for i := range uint64(promoteLag + 20) {
			c.count(leader, 100+i)
		}
		c.eventually("it has stored them", func() bool {
			return c.node[leader].groups[0].transportMatched("d") >= c.billing(leader).raft.CommitIndex()
		})
		c.refusedToPromote(leader, "d", "d has applied")
		open()
		c.eventually("it has applied them", func() bool {
			return c.node[leader].Promote(c.within(time.Second), "d") == nil
		})
		c.converge()
	})
}

// A node whose journal lacks segments gets no vote: were the others lost, so would they be.
func TestOnlyAWholeJournalIsPromoted(t *testing.T) {
	tune := func(_ string, c *Config) {
		withJournal(c)
		c.TrailingBytes = 1
	}
	inCluster(t, tune, func(c *nodes) {
		c.known()
		leader := c.leader()
		c.fill(leader, 1)
		for range minTrailing + 10 {
			c.count(leader, 1)
		}
		require.NoError(t, c.billing(leader).TakeSnapshot())
		for _, id := range three { // they are all busy with sending segments elsewhere
			c.node[id].bulk <- struct{}{}
			c.node[id].bulk <- struct{}{}
		}
		c.start("d")
		require.NoError(t, c.node[leader].Join(c.within(10*time.Second), memberOf("d")))
		c.eventually("it is as far", func() bool {
			return c.ledgers["d"].Applied() == c.ledgers[leader].Applied()
		})
		c.refusedToPromote(leader, "d", "d has yet to fetch 1 segments of the journal: wait")
		for _, id := range three {
			<-c.node[id].bulk
			<-c.node[id].bulk
		}
		c.eventually("it has them", func() bool {
			return c.node[leader].Promote(c.within(time.Second), "d") == nil
		})
		require.Equal(t, c.listed(leader), c.listed("d"))
		require.Empty(t, c.billing("d").segments.Missing())
	})
}

// refusedToPromote waits until a node is refused its vote for a reason; it must not get it before.
func (c *nodes) refusedToPromote(through, id, why string) {
	c.t.Helper()
	c.eventually(why, func() bool { // the nodes may have no link yet
		err := c.node[through].Promote(c.within(time.Second), id)
		require.Error(c.t, err)
		return strings.Contains(err.Error(), why)
	})
}

func (g *Group) transportMatched(id string) uint64 {
	index, _ := g.transport.matched.of(g.route.Load().term, "d")
	return index
}

// A folder that was emptied is not the one that the cluster knows (trap 16): the node does not
// start, and the others do not speak with it, whether it could ask them before or not.
func TestAnEmptiedFolderIsRefused(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.known()
		c.count(c.leader(), keyRange(1, 100)...)
		lost := c.others(c.leader())[0]
		c.stop(lost)
		c.wipe(lost)
		_, err := Open(c.config(lost))
		require.ErrorIs(t, err, ErrOtherFolder)
		require.ErrorContains(t, err, "tollgate cluster remove "+lost)

		// Nobody to ask: it begins a cluster that has no one else.
		c.wipe(lost)
		c.net.isolate(addressOf(lost))
		c.start(lost)
		time.Sleep(3 * time.Second)
		c.net.mend()
		c.eventually("it is told", func() bool { return len(c.fatals(lost)) > 0 })
		require.ErrorIs(t, c.fatals(lost)[0], ErrOtherFolder)
		for _, other := range c.others(lost) {
			c.eventually("the others do not speak with it", func() bool {
				m, _ := c.member(other, lost)
				return !m.Reachable && m.Problem != ""
			})
		}
		time.Sleep(3 * time.Second)
		require.Zero(t, c.ledgers[lost].keys(), "it got nothing")
		leader := c.leader(lost)
		require.Error(t, c.node[leader].Join(c.within(time.Second), memberOf(lost)))

		// As the instructions say.
		c.stop(lost)
		c.wipe(lost)
		require.NoError(t, c.node[leader].Remove(c.within(5*time.Second), lost))
		c.mu.Lock()
		delete(c.fatal, lost)
		c.mu.Unlock()
		c.joins[lost] = true
		c.join(lost, leader)
		c.count(lost, 200)
		c.converge()
	})
}

// Half of a folder that was emptied has forgotten its votes as well.
func TestAGroupThatLostItsDataIsRefused(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		lost := c.others(c.leader())[0]
		c.stop(lost)
		require.NoError(t, os.RemoveAll(filepath.Join(c.dir, lost, "workspace")))
		_, err := Open(c.config(lost))
		require.ErrorContains(t, err, "its data is gone")
	})
}

func TestAFolderBelongsToOneNode(t *testing.T) {
	dir := t.TempDir()
	first, fresh, err := openIdentity(dir, "a")
	require.NoError(t, err)
	require.True(t, fresh)
	require.NoError(t, first.save(dir))
	again, fresh, err := openIdentity(dir, "a")
	require.NoError(t, err)
	require.False(t, fresh)
	require.Equal(t, first, again)
	_, _, err = openIdentity(dir, "b")
	require.ErrorIs(t, err, ErrOtherNode)
	require.NoError(t, os.WriteFile(filepath.Join(dir, identityFile), []byte("{}"), 0o600))
	_, _, err = openIdentity(dir, "a")
	require.ErrorIs(t, err, ErrDamaged)
}

// A member moves: its new address is told by joining it again, with the folder that it has. It is
// told to the member itself, which reaches everybody, whoever leads: the others do not reach it
// yet.
func TestAMemberMoves(t *testing.T) {
	moved := ""
	tune := func(id string, c *Config) {
		if id == moved {
			c.Listen = "elsewhere:7000"
			c.Network = c.Network.(host).net.host("elsewhere:7000")
		}
	}
	inCluster(t, tune, func(c *nodes) {
		c.known()
		leader := c.leader()
		moved = c.others(leader)[0]
		c.stop(moved)
		c.start(moved)
		to := memberOf(moved)
		to.Raft = "elsewhere:7000"
		require.NoError(t, c.node[moved].Join(c.within(10*time.Second), to))
		c.eventually("all reach it", func() bool {
			for id := range c.node {
				m, ok := c.member(id, moved)
				if !ok || m.Raft != to.Raft || !m.Reachable || !m.Voter {
					return false
				}
			}
			return true
		})
		taken := memberOf("d")
		taken.Raft = to.Raft
		require.ErrorIs(t, c.node[leader].Join(c.within(time.Second), taken), ErrMembers)
		c.count(moved, 1)
		c.converge()
	})
}

// Who is spoken with: by the list of members, the folder, and the stream.
func TestWhoIsSpokenWith(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.known()
		a, b := c.node["a"], c.node["b"]
		with := func(node, disk, wantNode, wantDisk string) greeting {
			return greeting{Node: node, Disk: disk, WantNode: wantNode, WantDisk: wantDisk}
		}
		joined := func(g greeting) greeting {
			g.Since = [2]uint64{1000, 1000}
			return g
		}
		for name, row := range map[string]struct {
			stream byte
			from   greeting
			want   refusal
		}{
			"a member":                     {streamLink, b.ownInfo(), ""},
			"a member's raft":              {streamRaftBilling, b.ownInfo(), ""},
			"an emptied folder":            {streamLink, with("b", "0123", "", ""), refusedFolder},
			"its raft":                     {streamRaftBilling, with("b", "0123", "", ""), refusedFolder},
			"an unknown node":              {streamLink, with("x", "0123", "", ""), refusedNotMember},
			"a newer list's raft":          {streamRaftBilling, with("x", "0123", "a", a.Disk()), ""},
			"raft of another cluster":      {streamRaftBilling, with("x", "0123", "a", ""), refusedNotMember},
			"who wants another":            {streamLink, with("b", b.Disk(), "c", ""), refusedMistaken},
			"who knows another":            {streamLink, with("b", b.Disk(), "a", "0"), refusedMistaken},
			"who knows this node":          {streamLink, with("b", b.Disk(), "a", a.Disk()), ""},
			"a replacement, which is news": {streamLink, joined(with("b", "0123", "a", a.Disk())), refusedLater},
			"its raft, which tells it":     {streamRaftBilling, joined(with("b", "0123", "a", a.Disk())), ""},
			"who knows nobody's folder":    {streamRaftBilling, joined(with("b", "0123", "a", "")), refusedFolder},
			"who was replaced":             {streamRaftBilling, with("b", "0123", "a", a.Disk()), refusedFolder},
		} {
			got := refusal("")
			if why := a.refuse(row.stream, row.from); why != nil {
				got = why.code
			}
			require.Equal(t, row.want, got, name)
		}
		require.ErrorIs(t, a.meet(addressOf("b"), greeting{Node: "b", Disk: "0"}), errMistaken)
		require.ErrorIs(t, a.meet(addressOf("b"), c.node["c"].ownInfo()), errMistaken)
		require.NoError(t, a.meet(addressOf("b"), b.ownInfo()))
	})
}
