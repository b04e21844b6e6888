package audit

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
	"tollgate/engine/fair"
	"tollgate/server/spool"
)

// A killed node loses the checks of its last 100 ms at most: a block, and the one under way
// before it. Answers that wait for their block wait a quarter as long.
func TestBlocksCollectWithinWhatMayBeLost(t *testing.T) {
	s, err := spool.Open(filepath.Join(t.TempDir(), "spool"), spool.Options{Limit: 1 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	answered, strict := Recorder{spool: s}, Recorder{spool: s, strict: true}
	require.LessOrEqual(t, 2*answered.linger(), 50*time.Millisecond)
	require.Equal(t, answered.linger()/4, strict.linger())
	require.NoError(t, s.Append([]byte("a block")))
	for _, r := range []*Recorder{&answered, &strict} {
		require.LessOrEqual(t, 2*r.linger(), 100*time.Millisecond)
		require.Greater(t, r.linger(), blockLinger, "the spool drains faster than it fills")
	}
}

// TestABlockIsShared: an account that checks all the time fills half of a block, asks for it to
// leave and is told that it has too much under way; another account's checks find room meanwhile.
func TestABlockIsShared(t *testing.T) {
	r := Recorder{
		open: new(block), shares: fair.NewShare(blockBytes),
		first: make(chan struct{}, 1), brimful: make(chan struct{}, 1),
	}
	r.nameOpen()
	record := func(account uint32) string {
		c := billing.AuditCheck{Env: 2 * account, CustomerRow: 1, FlowID: make([]byte, 100)}
		if fault := r.Record(&c, time.Now(), false); fault != nil {
			return fault.Code
		}
		return ""
	}
	flood := func() (answer string) {
		for range math.MaxUint16 {
			if answer = record(1); answer != "" {
				break
			}
		}
		return answer
	}
	require.Equal(t, "share_full", flood())
	require.InDelta(t, blockBytes/2, r.open.Bytes(), 1<<10)
	require.Len(t, r.brimful, 1, "the block leaves at once")
	for range 100 {
		require.Empty(t, record(2))
	}
	r.mu.Lock()
	r.nameOpen()
	r.mu.Unlock()
	require.Equal(t, "share_full", flood(), "the next block has room again")
	require.InDelta(t, blockBytes/2, r.open.Bytes(), 1<<10)
}
