package cluster

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/journal"
	"tollgate/engine/workspace"
)

// nodes is a cluster of three whole nodes in one process, over a network in memory and real files.
type nodes struct {
	t       *testing.T
	dir     string
	net     *memNetwork
	tune    func(id string, c *Config)
	node    map[string]*Node
	ledgers map[string]*ledger
	joins   map[string]bool // those of the three that are to be joined when their folder is empty

	mu    sync.Mutex
	fatal map[string][]error
}

var three = []string{"a", "b", "c"}

func addressOf(id string) string { return id + ":7000" }

func memberOf(id string) Member {
	return Member{ID: id, Raft: addressOf(id), HTTP: id + ":80", Ops: id + ":90"}
}

func members() []Member {
	var list []Member
	for _, id := range three {
		list = append(list, memberOf(id))
	}
	return list
}

// inCluster runs a test in a bubble of its own time, with three nodes started.
func inCluster(t *testing.T, tune func(id string, c *Config), f func(c *nodes)) {
	t.Helper()
	inClusterOf(t, tune, three, f)
}

// inClusterOf is inCluster of which only some nodes begin.
func inClusterOf(t *testing.T, tune func(id string, c *Config), begin []string, f func(c *nodes)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := &nodes{
			t: t, dir: dir, net: newMemNetwork(), tune: tune, node: make(map[string]*Node),
			joins:   make(map[string]bool),
			ledgers: make(map[string]*ledger), fatal: make(map[string][]error),
		}
		for _, id := range begin {
			c.start(id)
		}
		defer func() {
			c.net.mend()
			for _, n := range c.node {
				if n != nil {
					if err := n.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		}()
		f(c)
	})
}

func testLog() *slog.Logger {
	if os.Getenv("CLUSTER_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

func (c *nodes) config(id string) Config {
	l := newLedger(ShardBilling)
	config := Config{
		NodeID: id, Members: members(), Dir: filepath.Join(c.dir, id),
		Billing:   Shard{Machine: l},
		Workspace: Shard{Machine: workspace.New(workspace.Config{Shard: ShardWorkspace})},
		Network:   c.net.host(addressOf(id)),
		Log:       testLog().With("node", id),
		Fatal: func(err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.fatal[id] = append(c.fatal[id], err)
		},
		Limits: Limits{DiskLowBytes: 1},
	}
	if !slices.Contains(three, id) || c.joins[id] {
		config.Join, config.Members = true, []Member{memberOf(id)}
	}
	if c.tune != nil {
		c.tune(id, &config)
	}
	c.ledgers[id], _ = config.Billing.Machine.(*ledger) // nil: another machine
	return config
}

func (c *nodes) start(id string) {
	n, err := Open(c.config(id))
	require.NoError(c.t, err)
	c.node[id] = n
}

func (c *nodes) stop(id string) {
	require.NoError(c.t, c.node[id].Close())
	c.node[id] = nil
}

// kill takes a node away without letting it say anything more to the others.
func (c *nodes) kill(id string) {
	c.net.isolate(addressOf(id))
	c.stop(id)
	c.net.mend()
}

// measure replaces what a running node measures free space with.
func (c *nodes) measure(id string, free func(dir string) (int64, error)) {
	d := c.node[id].disk
	d.mu.Lock()
	defer d.mu.Unlock()
	d.measure = free
}

func (c *nodes) fatals(id string) []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]error(nil), c.fatal[id]...)
}

// eventually waits until something holds, for at most a minute of the bubble's time.
func (c *nodes) eventually(what string, holds func() bool) {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); {
		require.True(c.t, time.Now().Before(end), "waited a minute until %s", what)
		time.Sleep(10 * time.Millisecond)
	}
}

// leader waits until one of the running nodes leads billing, and every running one but those of
// except knows it.
func (c *nodes) leader(except ...string) string {
	c.t.Helper()
	out := make(map[string]bool)
	for _, id := range except {
		out[id] = true
	}
	leader := ""
	c.eventually("there is a leader", func() bool {
		leader = ""
		for id, n := range c.node {
			if n == nil || out[id] {
				continue
			}
			r := n.Billing().route.Load()
			if r.leader == "" || out[r.leader] || leader != "" && leader != r.leader {
				return false
			}
			leader = r.leader
		}
		if leader == "" || c.node[leader] == nil {
			return false
		}
		_, leads := c.node[leader].Billing().Leads()
		return leads
	})
	return leader
}

func (c *nodes) others(id string) []string {
	var list []string
	for _, o := range three {
		if o != id {
			list = append(list, o)
		}
	}
	return list
}

func (c *nodes) billing(id string) *Group { return c.node[id].Billing() }

// propose counts keys through a node and returns the outcomes.
func (c *nodes) propose(id string, wait time.Duration, keys ...uint64) []engine.Outcome {
	records := make([]engine.Record, len(keys))
	for i, k := range keys {
		records[i] = countRecord(k)
	}
	results := make([]engine.Result, len(keys))
	c.billing(id).Propose(time.Now().Add(wait), records, results)
	outcomes := make([]engine.Outcome, len(keys))
	for i, r := range results {
		outcomes[i] = r.Outcome
	}
	return outcomes
}

func (c *nodes) count(id string, keys ...uint64) {
	c.t.Helper()
	for i, o := range c.propose(id, 10*time.Second, keys...) {
		require.Equal(c.t, engine.OutcomeDone, o, "key %d through %s", keys[i], id)
	}
}

func (c *nodes) readOutcome(id string, wait time.Duration) engine.Outcome {
	_, o := c.billing(id).BeginRead(time.Now().Add(wait))
	return o
}

// converge waits until all running nodes have applied the same, and compares their states.
func (c *nodes) converge() {
	c.t.Helper()
	c.eventually("all nodes have applied the same", func() bool {
		var first *ledger
		for id, n := range c.node {
			if n == nil {
				continue
			}
			l := c.ledgers[id]
			if first == nil {
				first = l
			}
			i, h := first.StateHash()
			j, k := l.StateHash()
			if i != j || h != k {
				return false
			}
		}
		return true
	})
}

// shortSegments makes a journal that seals a segment every MiB.
func shortSegments() *journal.Journal { return journal.NewCutting(1 << 20) }

// withJournal gives the billing ledger a journal whose records all belong to owner 1.
func withJournal(c *Config) {
	c.Billing.Machine.(*ledger).journal = shortSegments()
	c.Billing.Indexer = func(r journal.Record, add func(owner uint32, at int64, ordinal uint32)) {
		add(r.Owner, r.At, 0)
	}
}

func keyRange(from, n uint64) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = from + uint64(i)
	}
	return keys
}
