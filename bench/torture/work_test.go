package torture

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// hard is a history whose search takes longer than anybody waits: a read of an odd number, and all
// the sets of events of even ones that may have come before it.
func hard() []porcupine.Operation {
	var history []porcupine.Operation
	for key := range 40 {
		history = append(history, event(key, 2, 0, never, unknown), event(key, 2, 4, 5, duplicate))
	}
	return append(history, sees(39, true, 2, 3))
}

func counterOf(history []porcupine.Operation) *counter {
	return &counter{feature: features[calls], customer: "c", history: history}
}

func unbegun(t *testing.T) *run {
	r := newRun(Options{Dir: t.TempDir(), Say: t.Logf})
	r.fail = func() {}
	return r
}

// A search that ends before it knows has shown nothing: neither that a promise was kept nor that it
// was broken.
func TestWhatIsNotDecidedIsNoViolation(t *testing.T) {
	r, k := unbegun(t), counterOf(hard())
	r.judge.checkHistory(k, 20*time.Millisecond)
	require.Empty(t, r.violations)
	require.Len(t, r.judge.undecided, 1)
	require.Zero(t, r.counters.Load())
	r.judge.checkHistory(k, 20*time.Millisecond)
	require.Len(t, r.judge.undecided, 1, "the second search is of the same history")

	k.history = []porcupine.Operation{event(0, 2, 0, 1, counted), sees(2, true, 2, 3)}
	r.judge.decideRest()
	require.Empty(t, r.judge.undecided, "at rest it was decided")
	require.EqualValues(t, 1, r.counters.Load())

	lost := counterOf([]porcupine.Operation{event(0, 2, 0, 1, counted), sees(0, true, 2, 3)})
	r.judge.checkHistory(lost, time.Minute)
	require.Len(t, r.violations, 1, "only a history that no order explains is one")
	require.Equal(t, byHistories.name, r.violations[0].Check)
}

// A run whose histories were mostly not decided has proved nothing, and says why.
func TestTooMuchThatIsNotDecidedFails(t *testing.T) {
	enough := Least
	enough.Counters, enough.Undecided = 90, 10
	require.NoError(t, enough.Enough(10*time.Minute))
	enough.Undecided = 11
	err := enough.Enough(10 * time.Minute)
	require.ErrorContains(t, err, "11 of 101 histories are not decided")
	require.ErrorContains(t, err, "Repeat the seed where the machine has less to do")
	require.Contains(t, enough.String(), "90 histories linearizable, 11 not decided")

	longer := Least
	longer.Acknowledged, longer.FollowerReads, longer.Amended = 1<<30, 1<<30, 1<<30
	longer.Bought, longer.LeaderChanges = 1<<30, 1<<30
	require.NoError(t, longer.Enough(20*time.Minute), "budgets for life allow no more reservations")
}

// What no client sees counts for nothing where it is asked what clients see.
func TestAnswersOnlySetsAsideWhatIsSeenFromInside(t *testing.T) {
	r := unbegun(t)
	r.AnswersOnly = true
	r.violate(byStates, "two nodes differ")
	r.violate(byProcesses, "a node ended")
	require.Empty(t, r.violations)
	r.violate(byDuplicates, "an event was counted again")
	require.Len(t, r.violations, 1)
}
