package load

import (
	"bytes"
	profiling "runtime/pprof"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProfilesAreMerged: a merged profile has the samples of all.
func TestProfilesAreMerged(t *testing.T) {
	profile := profiling.NewProfile("tollgate/bench/load.merged")
	var profiles [][]byte
	for i := range 2 {
		profile.Add(i, 0)
		var b bytes.Buffer
		require.NoError(t, profile.WriteTo(&b, 0))
		profiles = append(profiles, b.Bytes())
	}
	merged, err := MergeProfiles(t.Context(), profiles)
	require.NoError(t, err)
	text, err := pprof(t.Context(), [][]byte{merged}, "-top")
	require.NoError(t, err)
	require.Contains(t, string(text), " of 3 total")
	_, err = MergeProfiles(t.Context(), [][]byte{[]byte("no profile")})
	require.ErrorContains(t, err, "go tool pprof")
}
