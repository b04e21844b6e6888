package daemon

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
)

// TestAStopIsBounded: what runs next to requests and does not end is waited for until stopTimeout,
// and for a moment where requests have used that up.
func TestAStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(config.Default(), slog.New(slog.DiscardHandler))
		stuck := make(chan struct{})
		n.watchers.Go(func() { <-stuck })
		began := time.Now()
		require.NoError(t, n.close())
		require.Equal(t, n.settings.StopTimeout, time.Since(began))
		over, cancel := context.WithDeadline(t.Context(), began)
		defer cancel()
		began = time.Now()
		n.settle(over)
		require.Equal(t, settleTimeout, time.Since(began))
		close(stuck)
		began = time.Now()
		n.settle(over)
		require.Zero(t, time.Since(began))
	})
}
