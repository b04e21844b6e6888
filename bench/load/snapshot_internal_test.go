package load

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRequestsBesideSnapshots: spans of several nodes overlap and reach beyond the measurement, and
// a request belongs to where it was answered.
func TestRequestsBesideSnapshots(t *testing.T) {
	const ms = time.Millisecond
	spans := union([]span{
		{30 * ms, 40 * ms},
		{-5 * ms, 10 * ms},
		{35 * ms, 50 * ms},
		{90 * ms, 120 * ms},
		{130 * ms, 140 * ms},
	}, 100*ms)
	require.Equal(t, []span{{0, 10 * ms}, {30 * ms, 50 * ms}, {90 * ms, 100 * ms}}, spans)
	workers := []*worker{{samples: []sample{
		{0, 9_999}, {9_000, 1_000}, {20_000, 10_000}, {49_000, 1_000},
	}}, {samples: []sample{{95_000, 1_000}, {99_000, 2_000}}}}
	beside, without := requestsBeside(workers, spans, 100*ms)
	require.Equal(t, 3, beside)
	require.Equal(t, 2, without, "one was answered after the end")
}
