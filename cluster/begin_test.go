package cluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/wal"
)

// A power cut in the very first start, after the term was stored and before the members were,
// leaves folders with which a cluster still begins.
func TestAClusterBeginsAfterAnInterruptedBeginning(t *testing.T) {
	dirs := func(id string, c *Config) {
		for _, group := range []string{"billing", "workspace"} {
			dir := filepath.Join(c.Dir, group)
			require.NoError(t, os.MkdirAll(dir, 0o700))
			state, err := openVote(wal.OS(), dir, testLog())
			require.NoError(t, err, id)
			require.NoError(t, state.SetUint64(termKey, 1))
			require.NoError(t, state.Close())
		}
	}
	inCluster(t, dirs, func(c *nodes) {
		require.Zero(t, c.node["a"].past.Load().claimed.Opened, "begun takes that term back")
		c.count(c.leader(), 1)
		c.converge()
	})
}

// A node whose vote is gone must not vote again.
func TestALogWithoutItsVoteIsRefused(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		lost := c.others(c.leader())[0]
		c.stop(lost)
		require.NoError(t, os.Remove(filepath.Join(c.dir, lost, "billing", voteName)))
		require.NoError(t, os.Remove(filepath.Join(c.dir, lost, "billing", boltName)))
		_, err := Open(c.config(lost))
		require.ErrorContains(t, err, "older than the log, or missing")
	})
}

// A node whose log is gone has acknowledged entries that it does not have, whether or not a
// snapshot is there: it must not take part in an election with what is left.
func TestAVoteWithoutItsLogIsRefused(t *testing.T) {
	for name, snapshot := range map[string]bool{"with a snapshot": true, "without one": false} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, nil, func(c *nodes) {
				lost := c.others(c.leader())[0]
				c.count(lost, 1)
				c.converge()
				if snapshot {
					require.NoError(t, c.billing(lost).TakeSnapshot())
				}
				c.stop(lost)
				log := filepath.Join(c.dir, lost, "billing", "log")
				require.NoError(t, os.RemoveAll(log))
				for range 2 { // the first attempt leaves nothing that lets the second one pass
					_, err := Open(c.config(lost))
					require.ErrorIs(t, err, ErrDamaged)
					require.ErrorContains(t, err, "the log is gone")
				}
			})
		})
	}
}
