//go:build planted

package torture

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// round is how long one run takes: some bugs show only when all is looked at in the end.
const round = 45 * time.Second

// A torture that finds nothing proves nothing: by what its clients see it finds each bug that was
// planted, within -for, which is ten minutes where nothing else is said.
func TestPlantedBugsAreFound(t *testing.T) {
	if enclosed(t) {
		return
	}
	limit := max(*length, 10*time.Minute)
	for _, p := range plants {
		t.Run(p.tag, func(t *testing.T) {
			rounds := int(limit / round) // building the program does not count
			for n := range rounds {
				s := tortureOnce(t, Options{
					Seed: rand.Uint64(), For: round, Kinds: p.kinds, AnswersOnly: true,
				}, p.tag, blind)
				if len(s.Violations) == 0 {
					continue
				}
				first := s.Violations[0]
				t.Logf("found in round %d of %d by %s", n+1, rounds, first)
				require.True(t, slices.ContainsFunc(p.by, func(c check) bool {
					return c.name == first.Check
				}), "another check found it: is it what was planted? Then list it in plants")
				return
			}
			require.Fail(t, "it was not found", "in %d rounds", rounds)
		})
	}
}
