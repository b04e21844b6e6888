package load_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/load"
)

func TestVariantsAreVerified(t *testing.T) {
	for _, scenario := range []load.Scenario{
		load.ScenarioMixed, load.ScenarioHot, load.ScenarioRepeats,
	} {
		l := newLedger()
		report, err := loaded(t, l, func(c *load.Config) {
			c.Scenario, c.Least = scenario, 200
		})
		require.NoError(t, err, scenario)
		v := report.Verified
		require.Positive(t, v.Counted, scenario)
		require.Equal(t, v.Acknowledged, v.Counted, scenario)
		switch scenario {
		case load.ScenarioMixed:
			checks := 0
			for _, n := range l.audits {
				checks += n
			}
			require.Greater(t, checks, 5*int(v.Counted), "most are checks")
		case load.ScenarioHot:
			require.Len(t, l.used, 1)
		case load.ScenarioRepeats:
			require.Len(t, l.keys, int(v.Counted))
			require.Greater(t, l.sent, int(v.Counted), "most are repeats")
		}
		_, err = loaded(t, &ledger{
			keys: map[string]bool{}, used: map[string]int{}, audits: map[string]int{}, lose: 3,
		}, func(c *load.Config) { c.Scenario, c.Least = scenario, 200 })
		require.ErrorContains(t, err, "not what was acknowledged", scenario)
	}
}

// TestKeyThatCountsTwiceIsFound: a system without idempotency acknowledges all that it counts, and
// is refused all the same.
func TestKeyThatCountsTwiceIsFound(t *testing.T) {
	l := newLedger()
	_, err := loaded(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") && r.Method == "POST" {
			l.mu.Lock()
			clear(l.keys)
			l.mu.Unlock()
		}
		l.ServeHTTP(w, r)
	}), func(c *load.Config) { c.Scenario = load.ScenarioRepeats })
	require.ErrorContains(t, err, "a key counted twice")
}

// TestLimitsAreVerified: what a limit allows is counted, and all else refused; a system that lets
// one more through, or refuses one too early, has no figure.
func TestLimitsAreVerified(t *testing.T) {
	spend := func(limit int) (*ledger, load.Report, error) {
		l := newLedger()
		l.limit = limit
		report, err := loaded(t, l, func(c *load.Config) {
			c.Scenario, c.Limit, c.Customers, c.Connections = load.ScenarioLimit, 20, 3, 8
			c.Duration, c.Least = 50*time.Millisecond, 250
		})
		return l, report, err
	}
	l, report, err := spend(20)
	require.NoError(t, err)
	require.Equal(t, uint64(3*20), report.Verified.Counted)
	require.Greater(t, report.Units, report.Verified.Counted, "most are refused")
	for customer, used := range l.used {
		require.Equal(t, 20, used, customer)
	}
	_, _, err = spend(21)
	require.ErrorContains(t, err, "beyond the limit of 20")
	_, _, err = spend(19)
	require.ErrorContains(t, err, "refused at the limit of 20, but only 19 were counted")
}
