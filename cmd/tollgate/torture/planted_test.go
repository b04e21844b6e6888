//go:build planted

package torture

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// plants are bugs that lie behind build tags.
var plants = []string{"planted_lease", "planted_key", "planted_answer"}

// round is how long one run takes: some bugs show only when all is looked at in the end.
const round = 45 * time.Second

// A torture that finds nothing proves nothing: it finds each bug that was planted, within -for,
// which is ten minutes where nothing else is said.
func TestPlantedBugsAreFound(t *testing.T) {
	if enclosed(t) {
		return
	}
	limit := max(*length, 10*time.Minute)
	for _, tag := range plants {
		t.Run(tag, func(t *testing.T) {
			begin := time.Now()
			for time.Since(begin) < limit {
				s := tortureOnce(t, rand.Uint64(), min(limit-time.Since(begin), round), tag)
				if len(s.Violations) > 0 {
					t.Logf("found after %s: %s", time.Since(begin).Round(time.Second), s.Violations[0])
					return
				}
			}
			require.Fail(t, "it was not found", "in %s", limit)
		})
	}
}
