package engine_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
)

// TestEveryOutcomeHasItsNumberAndAName reads outcome.go: numbers are unique, each has a name of its
// own, and the ones below never change.
func TestEveryOutcomeHasItsNumberAndAName(t *testing.T) {
	source, err := os.ReadFile("outcome.go")
	require.NoError(t, err)
	names := map[string]string{}
	numbers := map[int]string{}
	for _, m := range regexp.MustCompile(`(?m)^\t(Outcome\w+)\s+Outcome = (\d+) // \w+$`).
		FindAllStringSubmatch(string(source), -1) {
		n, err := strconv.Atoi(m[2])
		require.NoError(t, err)
		require.Empty(t, numbers[n], "%s and %s share a number", numbers[n], m[1])
		numbers[n] = m[1]
		name := engine.Outcome(n).String()
		require.NotContains(t, name, "outcome_", "%s has no name", m[1])
		require.Empty(t, names[name], "%s and %s share a name", names[name], m[1])
		names[name] = m[1]
	}
	require.Greater(t, len(numbers), 100, "the test must find the outcomes")
	require.Equal(t, "outcome_200", engine.Outcome(200).String())
}

func TestOutcomeClasses(t *testing.T) {
	recorded := []engine.Outcome{
		engine.OutcomeDone, engine.OutcomeLimitReached, engine.OutcomeUnpriced,
	}
	for n := range 256 {
		o := engine.Outcome(n)
		isRecorded := false
		for _, r := range recorded {
			isRecorded = isRecorded || r == o
		}
		require.Equal(t, isRecorded, o.Recorded(), fmt.Sprint(o))
		require.False(t, o.Recorded() && o.Refused(), fmt.Sprint(o))
	}
	require.False(t, engine.OutcomeUnknown.Refused(), "its fate is not known")
	require.True(t, engine.OutcomeOverloaded.Refused())
	require.True(t, engine.OutcomeDuplicate.Refused())
}
