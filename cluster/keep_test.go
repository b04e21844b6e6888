package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a process logged before it was restarted counts, too: otherwise the log of a node that is
// restarted often is never shortened.
func TestALogThatGrewBeforeARestartIsShortened(t *testing.T) {
	small := func(_ string, c *Config) { c.SnapshotBytes, c.TrailingBytes = 100<<10, 1 }
	inCluster(t, small, func(c *nodes) {
		for round := range uint64(2) {
			leader := c.leader()
			for i := range uint64(60) {
				c.count(leader, keyRange(1_000_000*round+1000*i, 100)...)
			}
			time.Sleep(3 * snapshotLook)
			if round == 1 {
				break
			}
			require.Zero(t, c.billing(leader).Status().SnapshotIndex, "too little for a snapshot")
			for _, id := range three {
				c.stop(id)
			}
			for _, id := range three {
				c.start(id)
			}
		}
		c.converge()
		for _, id := range three {
			require.Positive(t, c.billing(id).Status().SnapshotIndex, id)
			c.eventually("the log is shortened", func() bool {
				first, err := c.node[id].stores[0].log.FirstIndex()
				require.NoError(t, err)
				return first > 20
			})
		}
	})
}
