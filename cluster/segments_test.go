package cluster

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/journal"
)

// fill proposes journal records until that many segments are sealed.
func (c *nodes) fill(id string, sealed int) {
	c.t.Helper()
	payload := make([]byte, 200<<10)
	key := uint64(1 << 60)
	for len(c.ledgers[id].journal.Manifest()) < sealed {
		key++
		copy(payload, countRecord(key).Payload)
		results := make([]engine.Result, 1)
		one := []engine.Record{{Kind: kindCount, Payload: append([]byte(nil), payload...)}}
		c.billing(id).Propose(time.Now().Add(10*time.Second), one, results)
		require.Equal(c.t, engine.OutcomeDone, results[0].Outcome)
	}
}

func (c *nodes) listed(id string) int {
	items, err := c.billing(id).Events().List(journal.Query{
		Owner: 1, From: 0, To: time.Now().Add(time.Hour).UnixMilli(), Limit: 1 << 20,
	})
	require.NoError(c.t, err)
	return len(items)
}

// A node that was installed from another's snapshot fetches the journal segments that the snapshot
// lists, and is not ready before; a damaged one is fetched again.
func TestSegmentsAreFetchedFromPeers(t *testing.T) {
	tune := func(_ string, c *Config) {
		withJournal(c)
		c.TrailingBytes = 1
	}
	inCluster(t, tune, func(c *nodes) {
		leader := c.leader()
		lagging := c.others(leader)[0]
		c.stop(lagging)
		c.fill(leader, 1)
		for range minTrailing + 10 {
			c.count(leader, 1)
		}
		require.NoError(t, c.billing(leader).TakeSnapshot())
		c.start(lagging)
		c.converge()
		c.eventually("it is ready", func() bool { return c.node[lagging].Status().Ready })
		require.Zero(t, c.billing(lagging).Status().SegmentsMissing)
		require.Equal(t, c.listed(leader), c.listed(lagging))

		c.stop(lagging)
		files, err := filepath.Glob(filepath.Join(c.dir, lagging, "billing", "segments", "*.seg"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		whole, err := os.ReadFile(files[0])
		require.NoError(t, err)
		data := bytes.Clone(whole)
		data[len(data)/2] ^= 1
		require.NoError(t, os.WriteFile(files[0], data, 0o600))
		c.start(lagging)
		c.converge()
		c.eventually("it is whole again", func() bool {
			again, err := os.ReadFile(files[0])
			return err == nil && bytes.Equal(again, whole)
		})
		c.eventually("it is ready", func() bool { return c.node[lagging].Status().Ready })
		require.Equal(t, c.listed(leader), c.listed(lagging))
	})
}
