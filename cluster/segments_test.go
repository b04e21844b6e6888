package cluster

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cluster/segments"
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

// audit proposes an audit block, and lets the tail that it is in become a segment.
func (c *nodes) audit(id, text string) {
	c.t.Helper()
	for _, r := range []engine.Record{
		{Kind: kindAudit, Payload: []byte(text)}, {Kind: engine.KindTick},
	} {
		results := make([]engine.Result, 1)
		c.billing(id).Propose(time.Now().Add(10*time.Second), []engine.Record{r}, results)
		require.Equal(c.t, engine.OutcomeDone, results[0].Outcome)
		time.Sleep(2 * time.Second)
	}
}

// audits lists the audit blocks through a node.
func (c *nodes) audits(id string) (texts []string) {
	c.t.Helper()
	items, err := c.billing(id).Events().List(journal.Query{
		Owner: 1, To: time.Now().Add(time.Hour).UnixMilli(), Limit: 1 << 20,
		Kinds: journal.Kinds(journal.KindAudit),
	})
	require.NoError(c.t, err)
	for _, item := range items {
		texts = append(texts, string(item.Payload))
	}
	return texts
}

// segmentFiles names the segments and side indexes that a node has on disk.
func (c *nodes) segmentFiles(id string) (names []string) {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(c.dir, id, "billing", "segments", "*"))
	require.NoError(c.t, err)
	for _, file := range files {
		names = append(names, filepath.Base(file))
	}
	return names
}

// Audit segments whose time is over leave every node: one that was there, one that was down and is
// installed from a snapshot that lists what the others have dropped since, and one that goes back
// to its own older snapshot. Usage stays, and every node is ready in the end.
func TestDroppedSegmentsLeaveEveryNode(t *testing.T) {
	tune := func(_ string, c *Config) {
		withJournal(c)
		c.TrailingBytes = 1
	}
	inCluster(t, tune, func(c *nodes) {
		leader := c.leader()
		lagging := c.others(leader)[0]
		c.audit(leader, "one")
		c.converge()
		c.eventually("the file is there", func() bool { return len(c.segmentFiles(lagging)) == 2 })
		c.stop(lagging)
		c.fill(leader, 3) // audit segment 1, and what brings the manifest to three
		c.audit(leader, "two")
		for key := range uint64(minTrailing + 10) {
			c.count(leader, key)
		}
		require.NoError(t, c.billing(leader).TakeSnapshot())
		listed := c.listed(leader)
		require.Equal(t, []string{"one", "two"}, c.audits(leader))
		time.Sleep(ledgerRetention - 5*time.Second)
		c.audit(leader, "three")
		time.Sleep(5 * time.Second)
		c.count(leader, 1)
		want := []string{
			"audit-0000000003.idx", "audit-0000000003.seg",
			"usage-0000000001.idx", "usage-0000000001.seg",
			"usage-0000000002.idx", "usage-0000000002.seg",
		}
		c.eventually("the leader has deleted them", func() bool {
			return slices.Equal(want, c.segmentFiles(leader))
		})
		require.Equal(t, []string{"three"}, c.audits(leader))
		require.Equal(t, listed-2+1+1, c.listed(leader), "usage stays")

		c.start(lagging)
		c.converge()
		c.eventually("it is ready", func() bool { return c.node[lagging].Status().Ready })
		c.eventually("it has no more than the others", func() bool {
			return slices.Equal(want, c.segmentFiles(lagging))
		})
		require.Equal(t, c.listed(leader), c.listed(lagging))
		require.Equal(t, c.audits(leader), c.audits(lagging))
		for number, want := range map[uint64]error{
			1: segments.ErrDropped, 2: segments.ErrDropped, 3: nil,
		} {
			info := journal.SegmentInfo{Part: journal.PartAudit, Number: number}
			_, err := c.node[lagging].fetch(t.Context(), ShardBilling, info)
			require.ErrorIs(t, err, want)
		}

		c.stop(leader)
		next := c.leader()
		c.start(leader)
		c.converge()
		c.eventually("it is ready", func() bool { return c.node[leader].Status().Ready })
		require.Equal(t, c.audits(next), c.audits(leader))
		require.Equal(t, want, c.segmentFiles(leader))
	})
}
