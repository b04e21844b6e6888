package cluster

import (
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
)

// ask has a node ask its leader how often a key came.
func (c *nodes) ask(id string, key uint64) ([]byte, bool) {
	question := binary.LittleEndian.AppendUint64(nil, key)
	return c.billing(id).Ask(time.Now().Add(time.Second), question)
}

// A follower that does not keep up with its leader has it answer questions, and so shows every
// acknowledged write.
func TestAFollowerThatIsBehindAsksItsLeader(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		c.count(leader, 1)
		c.converge()
		follower := c.others(leader)[0]
		time.Sleep(behindFor + freshEvery) // it was behind when it began
		require.False(t, c.billing(follower).Behind())
		m, gate := c.ledgers[follower], make(chan struct{})
		m.gate.Store(&gate)
		open := sync.OnceFunc(func() {
			m.gate.Store(nil)
			close(gate)
		})
		defer open()
		c.count(leader, 2)
		require.Equal(t, engine.OutcomeUnavailable, c.readOutcome(follower, 20*time.Millisecond))
		require.True(t, c.billing(follower).Behind())
		require.False(t, c.ledgers[follower].has(2))
		answer, ok := c.ask(follower, 2)
		require.True(t, ok)
		require.Equal(t, []byte{1}, answer)

		_, ok = c.ask(leader, 2)
		require.False(t, ok, "the leader reads its own memory")
		_, ok = c.billing(follower).Ask(time.Now().Add(time.Second), []byte("malformed"))
		require.False(t, ok)
		c.billing(follower).asker.waiting.Store(maxAsked)
		_, ok = c.ask(follower, 2)
		require.False(t, ok, "the limit of waiting questions is reached")
		c.billing(follower).asker.waiting.Store(0)

		open()
		c.converge()
		time.Sleep(behindFor + freshEvery)
		require.False(t, c.billing(follower).Behind(), "it keeps up again")
	})
}

// A leader that may have been replaced answers no question: another one may have acknowledged
// writes since.
func TestADeposedLeaderAnswersNoQuestion(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		c.count(leader, 1)
		g := c.billing(leader)
		follower := c.billing(c.others(leader)[0])
		question := binary.LittleEndian.AppendUint64(nil, 1)
		require.Equal(t, []byte{1}, g.asker.serve(question))
		require.Empty(t, follower.asker.serve(question))
		g.lease.slept.Store(int64(time.Hour))
		_, ok := g.lease.holds()
		require.True(t, ok)
		require.Empty(t, g.asker.serve(question), "the machine slept since the lease was granted")
		c.net.isolate(addressOf(leader))
		time.Sleep(460 * time.Millisecond)
		require.Empty(t, g.asker.serve(question))
		_, ok = c.ask(leader, 1)
		require.False(t, ok)
	})
}
