package client

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/spool"
)

// A killed node loses the checks of its last 100 ms at the most: a block, and the one under way
// before it. Answers that wait for their block wait a quarter as long.
func TestBlocksCollectWithinWhatMayBeLost(t *testing.T) {
	s, err := spool.Open(filepath.Join(t.TempDir(), "spool"), spool.Options{Limit: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	answered, strict := recorder{spool: s}, recorder{spool: s, strict: true}
	require.LessOrEqual(t, 2*answered.linger(), 50*time.Millisecond)
	require.Equal(t, answered.linger()/4, strict.linger())
	require.NoError(t, s.Append([]byte("a block")))
	for _, r := range []*recorder{&answered, &strict} {
		require.LessOrEqual(t, 2*r.linger(), 100*time.Millisecond)
		require.Greater(t, r.linger(), auditLinger, "the spool drains faster than it fills")
	}
}
