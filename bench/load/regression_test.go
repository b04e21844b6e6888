package load_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/load"
)

// benchstat is what benchstat prints with -format csv.
const benchstat = `goos: linux
pkg: tollgate/engine/billing
,old,,new,,,
,sec/op,CI,sec/op,CI,vs base,P
ApplyUsage/1000,7.025e-07,0%,9.025e-07,0%,+28.47%,p=0.002 n=6
Check/1000,8e-08,0%,8.8e-08,0%,+10.00%,p=0.002 n=6
Seal,8e-08,0%,16e-08,90%,~,p=0.310 n=6
Gone,8e-08,0%
geomean,2.3706539182259393e-07,,2.6870057685088826e-07,,+50.00%,

,old,,new,,,
,events/s,CI,events/s,CI,vs base,P
ApplyUsage/1000,1.4e+06,0%,1.8e+06,0%,+28.57%,p=0.002 n=6

,old,,new,,,
,B/op,CI,B/op,CI,vs base,P
ApplyUsage/1000,300,0%,327,0%,+9.00%,p=0.002 n=6
Seal,100,0%,112,0%,+12.00%,p=0.002 n=6

,old,,new,,,
,allocs/op,CI,allocs/op,CI,vs base,P
ApplyUsage/1000,0,0%,1,0%,?,p=0.002 n=6
Check/1000,0,0%,0,0%,?,p=1.000 n=6
`

// TestRegressionsAreFound: what is slower by more than the threshold, allocates at last, or takes
// far more bytes; not what is noise, gone, or better when it is more.
func TestRegressionsAreFound(t *testing.T) {
	slower := "ApplyUsage/1000: +28.47% of sec/op (7.025e-07 → 9.025e-07 sec/op, p=0.002 n=6)"
	allocates := "ApplyUsage/1000: ? of allocs/op (0 → 1 allocs/op, p=0.002 n=6)"
	worse, err := load.Regressions(strings.NewReader(benchstat), 0.15)
	require.NoError(t, err)
	require.Equal(t, []string{slower, allocates}, worse)
	worse, err = load.Regressions(strings.NewReader(benchstat), 0.03)
	require.NoError(t, err)
	require.Equal(t, []string{
		slower, "Check/1000: +10.00% of sec/op (8e-08 → 8.8e-08 sec/op, p=0.002 n=6)",
		"Seal: +12.00% of B/op (100 → 112 B/op, p=0.002 n=6)", allocates,
	}, worse)
	_, err = load.Regressions(strings.NewReader("goos: linux\n"), 0.15)
	require.ErrorContains(t, err, "no benchmark stands on both sides")
	_, err = load.Regressions(strings.NewReader(strings.ReplaceAll(benchstat, "+28.47%", "x")), 0.15)
	require.ErrorContains(t, err, "ApplyUsage/1000")
}
