package client_test

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
