package cluster

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// restoreOnly restores one node from a backup of the cluster that ran before, in new folders, and
// returns what its members are to be opened with: the identity is that node's alone.
func (c *nodes) restoreOnly(id string) (identity string) {
	c.t.Helper()
	c.known()
	leader := c.leader()
	c.count(leader, keyRange(1, 10)...)
	data := c.save(leader)
	c.stopAll()
	c.dir, identity = c.t.TempDir(), NewIdentity()
	before := c.tune
	c.tune = func(node string, config *Config) {
		before(node, config)
		if node == id {
			config.Cluster = identity
		}
	}
	_, err := Restore(c.config(id), bytes.NewReader(data), nil)
	require.NoError(c.t, err)
	return identity
}

func restorable(_ string, c *Config) { withJournal(c) }

// A backup was restored onto one node alone. The other two have empty folders and members, and no
// identity: they find out that there is a cluster, say how to become part of it, and write nothing.
func TestNoSecondClusterBeginsBesideARestoredNode(t *testing.T) {
	inCluster(t, restorable, func(c *nodes) {
		identity := c.restoreOnly("a")
		c.start("a")
		for _, id := range []string{"b", "c"} {
			for range 2 { // the first attempt leaves nothing that lets the second one pass
				_, err := Open(c.config(id))
				require.ErrorIs(t, err, ErrSecondCluster)
				require.True(t, RefusesFolder(err))
				require.ErrorContains(t, err, "tollgate restore --cluster "+identity)
				require.ErrorContains(t, err, "`cluster: "+identity+"`")
				require.ErrorContains(t, err, "nothing was changed")
			}
			found, err := os.ReadDir(c.config(id).Dir)
			require.NoError(t, err)
			require.Empty(t, found, "a restore needs an empty folder")
		}
		require.True(t, c.ledgers["a"].has(10))
		require.Empty(t, c.fatals("a"))
	})
}

// The other two were started first, and have begun a cluster when the restored node comes. They end
// as soon as it answers, and at every start from then on.
func TestASecondClusterEndsWhenTheFirstAnswers(t *testing.T) {
	inCluster(t, restorable, func(c *nodes) {
		identity := c.restoreOnly("a")
		c.start("b")
		c.start("c")
		c.leader()
		c.start("a")
		for range 2 {
			for _, id := range []string{"b", "c"} {
				c.eventually("it ends", func() bool { return len(c.fatals(id)) > 0 })
				err := c.fatals(id)[0]
				require.ErrorIs(t, err, ErrSecondCluster)
				require.Equal(t, ExitFatal, ExitCode(err))
				require.ErrorContains(t, err, identity)
				require.ErrorContains(t, err, c.config(id).Dir)
				c.stop(id)
				c.mu.Lock()
				delete(c.fatal, id)
				c.mu.Unlock()
			}
			c.start("b")
			c.start("c")
		}
		require.True(t, c.ledgers["a"].has(10))
		require.Empty(t, c.fatals("a"))
	})
}

// A member that was met, and is of a restored cluster now, ends no node: this cluster goes on, and
// an operator sees that there are two.
func TestARestoredNodeEndsNoClusterThatKnewIt(t *testing.T) {
	inCluster(t, restorable, func(c *nodes) {
		old, plain := c.dir, c.tune
		c.restoreOnly("a")
		restored := c.dir
		c.dir = old
		c.tune, plain = plain, c.tune
		c.start("b")
		c.start("c")
		c.dir, c.tune = restored, plain
		c.start("a")
		time.Sleep(10 * time.Second)
		require.Empty(t, c.fatals("b"))
		require.Empty(t, c.fatals("c"))
		c.count(c.leader("a"), 77)
	})
}

// A cluster with an identity begins with a restore, never with empty folders: two emptied nodes
// would be a majority, and what they take in would be gone when the restored node comes.
func TestNoClusterWithAnIdentityBeginsEmpty(t *testing.T) {
	inCluster(t, restorable, func(c *nodes) {
		c.stopAll()
		config := c.config("b")
		config.Dir, config.Cluster = t.TempDir(), NewIdentity()
		_, err := Open(config)
		require.ErrorIs(t, err, ErrNotRestored)
		require.True(t, RefusesFolder(err))
		require.ErrorContains(t, err, "tollgate restore --cluster "+config.Cluster)
		found, err := os.ReadDir(config.Dir)
		require.NoError(t, err)
		require.Empty(t, found)
		_, err = LookAtFolder(config.Dir, "b", config.Cluster, false)
		require.ErrorIs(t, err, ErrNotRestored, "doctor says so before the start")
		_, err = LookAtFolder(config.Dir, "b", config.Cluster, true)
		require.NoError(t, err)

		// Nor does one that once waited to be joined, and was given members since.
		config.Join = true
		n, err := Open(config)
		require.NoError(t, err)
		require.NoError(t, n.Close())
		again := c.config("b")
		again.Dir, again.Cluster = config.Dir, config.Cluster
		_, err = Open(again)
		require.ErrorIs(t, err, ErrNotRestored)
	})
}
