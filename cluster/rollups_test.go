package cluster

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/billing"
)

// Each node counts its own journal, and all answer the same, also after they were started
// again.
func TestNodesCountTheSame(t *testing.T) {
	tune := func(id string, c *Config) {
		withKeys(id, c)
		c.Billing.Count, c.Billing.CountVersions = billing.CountRecord, billing.CountVersions
	}
	inCluster(t, tune, func(c *nodes) {
		leader := c.withCustomer()
		c.recordMany(leader, 0, 1500)
		files := func(id string) []string {
			names, err := filepath.Glob(filepath.Join(c.dir, id, "*", "rollups", "usage-*.run"))
			require.NoError(t, err)
			return names
		}
		q := billing.UsageQuery{Env: enginetest.Sandbox, By: billing.ByHour, To: 1 << 40}
		same := func() {
			t.Helper()
			for _, id := range three {
				c.eventually("a node has counted what it sealed", func() bool {
					return len(files(id)) > 0 && c.machine(id).Stats().UsageEvents == 1500
				})
				series, err := c.machine(id).Usage(c.billing(id).Rollups(), &q)
				require.NoError(t, err)
				require.Len(t, series, 1)
				require.EqualValues(t, 1500, series[0].Events, id)
				require.Len(t, series[0].Points, 1)
			}
		}
		same()
		for _, id := range three {
			c.stop(id)
		}
		for _, id := range three {
			c.start(id)
		}
		c.leader()
		same()
	})
}
