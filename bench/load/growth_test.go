package load_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/load"
)

// grown is a node whose heap and journal grow with what it is told, from 5,000 and 100 bytes on.
func grown(t *testing.T, change func(*mortal)) *node {
	t.Helper()
	n := &node{mortal: newMortal(t, change)}
	n.metrics = func() string {
		n.mu.Lock()
		defer n.mu.Unlock()
		return fmt.Sprintf("go_memstats_heap_alloc_bytes %d\n"+
			"tollgate_journal_bytes{part=\"usage\"} %d\n"+
			"tollgate_idempotency_keys %d\ntollgate_idempotency_keys_on_disk 10\n"+
			"tollgate_state_bytes{part=\"idempotency_keys\"} 400\n"+
			"tollgate_cluster_key_files_keys{group=\"billing\"} 20\n"+
			"tollgate_cluster_key_files_memory_bytes{group=\"billing\"} 30\n"+
			"tollgate_cluster_key_files_bytes{group=\"billing\"} 600\n",
			5000+700*n.customers+40*len(n.keys), 100+138*len(n.keys), len(n.keys))
	}
	return n
}

// TestMemoryOfCustomersAndEvents: what a node holds more, by how many there are more.
func TestMemoryOfCustomersAndEvents(t *testing.T) {
	scenario := func(c *load.Config) { c.Scenario = load.ScenarioMemory }
	report, err := of(grown(t, func(*mortal) {}), scenario, (*load.Run).Footprint)
	require.NoError(t, err)
	require.InDelta(t, 700, report.Customer, 1e-9)
	require.InDelta(t, 40, report.Event, 1e-9)
	require.InDelta(t, 138, report.Journal, 1e-9)
	var text strings.Builder
	require.NoError(t, report.Print(&text))
	require.Contains(t, text.String(), "700 bytes a customer")
	require.EqualValues(t, 10, report.Keys.OnDisk)
	require.EqualValues(t, report.Events-10, report.Keys.InMemory)
	require.Contains(t, text.String(), "20 keys, 1.50 bytes of memory and 30.0 bytes of disk each")

	_, err = of(grown(t, func(m *mortal) { m.lose = 50 }), scenario, (*load.Run).Footprint)
	require.ErrorContains(t, err, "not what was acknowledged")
	require.ErrorAs(t, err, new(*load.Refusal))
	uncollected := grown(t, func(*mortal) {})
	uncollected.profiles = http.StatusForbidden
	_, err = of(uncollected, scenario, (*load.Run).Footprint)
	require.ErrorContains(t, err, "403")
	_, err = of(grown(t, func(*mortal) {}), func(c *load.Config) {
		c.Scenario, c.Events = load.ScenarioMemory, 0
	}, (*load.Run).Footprint)
	require.ErrorContains(t, err, "--events")
}

// TestScaleComparesProcessorTime: few customers, then as many as asked for, with events before.
func TestScaleComparesProcessorTime(t *testing.T) {
	scenario := func(c *load.Config) {
		c.Scenario, c.Customers, c.Least = load.ScenarioScale, 1200, 300
		c.Duration = 50 * time.Millisecond
		c.Processes = []load.Process{{Name: "self", PID: os.Getpid()}}
	}
	n := grown(t, func(*mortal) {})
	report, err := of(n, scenario, (*load.Run).Scale)
	require.NoError(t, err)
	require.Equal(t, 1200, report.Customers)
	require.Equal(t, 1042, report.Events)
	var scenarios []load.Scenario
	for _, one := range report.Sizes {
		scenarios = append(scenarios, one.Scenario)
		require.Equal(t, 1000, one.Small.Customers)
		require.Equal(t, 1200, one.Large.Customers)
		require.Zero(t, one.Small.Config.Events)
		require.GreaterOrEqual(t, one.Large.Verified.Counted, uint64(1042))
		require.Equal(t, one.Large.Name, report.Sizes[0].Large.Name, "on the same customers")
		require.InEpsilon(t, one.Large.Cost()/one.Small.Cost(), one.Cost, 1e-9)
	}
	require.Equal(t, []load.Scenario{
		load.ScenarioBatch, load.ScenarioIngest, load.ScenarioCheck,
	}, scenarios)
	require.Equal(t, 2200, n.customers, "each side makes its customers once")
	var text strings.Builder
	require.NoError(t, report.Print(&text))
	require.Contains(t, text.String(), "processor time with many customers")

	_, err = of(grown(t, func(m *mortal) { m.double = 50 }), scenario, (*load.Run).Scale)
	require.ErrorContains(t, err, "1000 customers: refused to report")
}

func TestGrowthNeedsACluster(t *testing.T) {
	run, err := load.New(load.Config{
		Target: load.Target{Nodes: []string{"127.0.0.1:1"}}, Customers: 1, Batch: 1,
		Scenario: load.ScenarioScale, Connections: 1,
	})
	require.NoError(t, err)
	_, err = run.Scale(context.Background())
	require.ErrorContains(t, err, "on this machine")
	_, err = run.Footprint(context.Background())
	require.ErrorContains(t, err, "tollgate dev")
}
