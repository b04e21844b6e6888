package client

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
)

// TestTheOldestKeyUseGivesWay: of more keys than are remembered, and of those that are older than
// an hour, the oldest are forgotten, and no others.
func TestTheOldestKeyUseGivesWay(t *testing.T) {
	var u keyUses
	key := func(n int) (k [16]byte) {
		binary.LittleEndian.PutUint64(k[:], uint64(n))
		return k
	}
	for n := range maxKeyUses + 10 {
		require.True(t, u.due(key(n), int64(n)))
	}
	now := int64(maxKeyUses + 10)
	for n := 10; n < maxKeyUses+10; n++ {
		require.False(t, u.due(key(n), now), "%d is known", n)
	}
	for range 2 * maxKeyUses { // none of which is remembered
		require.True(t, u.due(key(9), now))
		u.failed(key(9))
	}
	require.False(t, u.due(key(11), now))
	require.True(t, u.due(key(0), now))
	require.Len(t, u.known, maxKeyUses)

	require.True(t, u.due(key(1), billing.KeyNotedMS+100))
	require.Len(t, u.known, maxKeyUses-90+1)
	require.False(t, u.due(key(101), billing.KeyNotedMS+100))
	require.True(t, u.due(key(100), billing.KeyNotedMS+100))
	require.Equal(t, len(u.known), u.order.Len())
}
