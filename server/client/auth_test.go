package client_test

import (
	"crypto/sha256"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/client"
)

// TestKeysKnowTheirLastUse: the first use within an hour is noted, beside the request; where keys
// are not noted, or a key is refused, none is.
func TestKeysKnowTheirLastUse(t *testing.T) {
	n := start(t, func(c *client.Config) { c.NoteKeys = true })
	n.customer("acme")
	key := n.addKey(n.env, server.KeyPrefixSandbox, billing.ScopeRead)
	used := func() (at int64) {
		hash := sha256.Sum256([]byte(key))
		for _, k := range n.Machine.Keys(n.env) {
			if k.Hash == hash {
				at = k.UsedAt
			}
		}
		return at
	}
	require.Zero(t, used())
	ask := func() { n.send("GET", "customers/acme", "", key, nil).is(200, "") }
	ask()
	require.Eventually(t, func() bool { return used() > 0 }, 30*time.Second, time.Millisecond)
	first, applied := used(), n.Machine.Applied()
	for range 20 {
		ask()
	}
	n.send("GET", "customers/acme", "", key+"x", nil).is(401, "invalid_key")
	require.Equal(t, first, used())
	require.LessOrEqual(t, n.Machine.Applied(), applied+1, "only the tick behind the first one")
}

// counted counts the commands of a kind that a node proposes.
type counted struct {
	server.Proposer
	kind engine.Kind
	n    atomic.Int32
}

func (c *counted) Propose(until time.Time, records []engine.Record, results []engine.Result) {
	for i := range records {
		if records[i].Kind == c.kind {
			c.n.Add(1)
		}
	}
	c.Proposer.Propose(until, records, results)
}

// TestAClockAheadNotesAKeyOnce: a node whose clock is hours ahead of the log finds each noted use
// old, and has a use noted once an hour all the same.
func TestAClockAheadNotesAKeyOnce(t *testing.T) {
	var ahead atomic.Int64
	ahead.Store(int64(5 * time.Hour))
	notes := &counted{kind: billing.KindNoteKeyUse}
	n := start(t, func(c *client.Config) {
		notes.Proposer, c.Proposer, c.NoteKeys = c.Proposer, notes, true
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	key := n.addKey(n.env, server.KeyPrefixSandbox, billing.ScopeRead)
	ask := func() { n.send("GET", "clock", "", key, nil).is(200, "") }
	noted := func() int32 { return notes.n.Load() }
	ask()
	require.Eventually(t, func() bool { return noted() == 1 }, 30*time.Second, time.Millisecond)
	for range 200 {
		ask()
	}
	require.EqualValues(t, 1, noted())
	ahead.Store(int64(6*time.Hour + time.Minute))
	again := func() bool { ask(); return noted() > 1 } // one during another one's end is not looked at
	require.Eventually(t, again, 30*time.Second, time.Millisecond)
	require.EqualValues(t, 2, noted())
}
