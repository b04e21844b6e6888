package tollgate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWhatHasEndedIsNotSuspended: an ended subscription keeps when it was suspended.
func TestWhatHasEndedIsNotSuspended(t *testing.T) {
	var s Subscription
	s.Metadata.SuspendedAt = time.Unix(1, 0)
	require.Equal(t, "suspended", s.Status())
	s.EndedAt = time.Unix(2, 0)
	require.Equal(t, "ended", s.Status())
	require.Equal(t, "active", (&Subscription{IsActive: true}).Status())
}
