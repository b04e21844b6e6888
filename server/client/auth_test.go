package client_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
	"tollgate/server"
)

// TestKeysKnowTheirUses: requests and the events that they recorded, the first use at once and the
// others when the node stops at the latest; of a key that is refused, none.
func TestKeysKnowTheirUses(t *testing.T) {
	n := start(t, noteKeys)
	n.customer("acme")
	key := n.addKey(n.env, server.KeyPrefixSandbox, billing.ScopeFull)
	used := func() billing.UsedKeyView {
		keys := n.Machine.KeysUsed(n.env, time.Now().UnixMilli())
		return keys[len(keys)-1]
	}
	require.Zero(t, used().UsedAt)
	n.send("GET", "customers/acme", "", key, nil).is(200, "")
	require.Eventually(t, func() bool { return used().UsedAt > 0 }, 30*time.Second, time.Millisecond)
	once := event("k0", "") // of one instant
	n.send("POST", "events", once, key, nil).is(201, "")
	n.send("POST", "events", once, key, nil).is(409, "duplicate_key")
	batch := "[" + once + "," + event("k1", "") + "," + event("k2", "") + "]"
	n.send("POST", "events/batch", batch, key, nil).is(200, "")
	n.send("GET", "customers/acme", "", key+"x", nil).is(401, "invalid_key")
	require.NoError(t, n.api.Close())
	now := used()
	require.Equal(t, []uint64{4, 3, 4, 3}, []uint64{
		now.DayRequests, now.DayEvents, now.MonthRequests, now.MonthEvents,
	})
}
