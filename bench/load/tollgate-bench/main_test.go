package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"tollgate/bench/load"
)

func TestSystemsByName(t *testing.T) {
	for _, name := range []string{"tollgate", "tollgate-leader", "tollgate-followers", "bare", "redis-16"} {
		system, err := systemNamed(name, "bin/tollgate")
		require.NoError(t, err)
		require.Equal(t, name, system.Name())
		require.NoError(t, system.Stop(), "one that was not started")
	}
	for _, name := range []string{"tollgate-", "tollgate-all", "x"} {
		_, err := systemNamed(name, "bin/tollgate")
		require.ErrorContains(t, err, "no system", name)
	}
}

func TestFlagsBecomeLoads(t *testing.T) {
	var f flags
	parser, err := kong.New(&f)
	require.NoError(t, err)
	_, err = parser.Parse([]string{"--start", "check"})
	require.NoError(t, err)
	require.True(t, f.Run.Start)
	for scenario, connections := range map[load.Scenario]int{
		load.ScenarioCheck: 64, load.ScenarioIngest: 256, load.ScenarioBatch: 8,
	} {
		require.Equal(t, connections, f.Run.config(scenario).Connections)
	}
	limited := f.Run.config(load.ScenarioLimit)
	require.Equal(t, limitedPlan, limited.Plan)
	require.Equal(t, 100, limited.Limit)
	require.Equal(t, pricedFeature, f.Run.config(load.ScenarioClose).Feature)
	_, err = parser.Parse([]string{"compare", "--systems", "tollgate,redis", "--rounds", "3"})
	require.NoError(t, err)
	require.Equal(t, []string{"tollgate", "redis"}, f.Compare.Systems)
	require.Equal(t, 3, f.Compare.Rounds)
}

// TestSnapshotsAreConfigured: --log-mib changes that one setting, in each node's file.
func TestSnapshotsAreConfigured(t *testing.T) {
	cluster := &tollgate{data: t.TempDir(), logMiB: 24}
	require.ErrorContains(t, cluster.configure(), "no configuration")
	const text = "data: x\nsnapshots:\n    logMiB: %d\n    trailingMiB: 256\n"
	for _, node := range []string{"node1", "node2"} {
		require.NoError(t, os.Mkdir(filepath.Join(cluster.data, node), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(cluster.data, node, "config.yaml"),
			fmt.Appendf(nil, text, 1024), 0o600))
	}
	require.NoError(t, cluster.configure())
	for _, node := range []string{"node1", "node2"} {
		got, err := os.ReadFile(filepath.Join(cluster.data, node, "config.yaml"))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf(text, 24), string(got))
	}
	require.NoError(t, cluster.configure(), "the same once more")

	require.NoError(t, os.WriteFile(filepath.Join(cluster.data, "node2", "config.yaml"), []byte("data: x\n"), 0o600))
	require.ErrorContains(t, cluster.configure(), "no such setting")
}

// TestPartsOfTheTable: what is asked for and cannot run is told, and the table is printed all the
// same.
func TestPartsOfTheTable(t *testing.T) {
	var f flags
	parser, err := kong.New(&f)
	require.NoError(t, err)
	_, err = parser.Parse([]string{
		"table", "--parts", "failover,recover", "--tollgate", filepath.Join(t.TempDir(), "none"),
	})
	require.NoError(t, err)
	require.Equal(t, 1_000_000, f.Table.large(load.ScenarioRecover).Events)
	require.Equal(t, 100_000, f.Table.large(load.ScenarioRecover).Customers)
	err = f.Table.Run(t.Context())
	require.ErrorContains(t, err, "failover: start a cluster (make build builds it)")
	require.ErrorContains(t, err, "recover: start a cluster")
}

// TestFloorIsNotInTheProfileForBuilds: its functions are those of another program.
func TestFloorIsNotInTheProfileForBuilds(t *testing.T) {
	profiled := pprof.NewProfile("tollgate/bench/load/tollgate-bench.merged")
	var reports []load.ProfileReport
	for i, system := range []string{"tollgate", "floor", "tollgate-leader"} {
		profiled.Add(i, 0)
		var b bytes.Buffer
		require.NoError(t, profiled.WriteTo(&b, 0))
		report := load.ProfileReport{Profiles: [][]byte{b.Bytes()}}
		report.System = system
		reports = append(reports, report)
	}
	c := profileCommand{PGO: filepath.Join(t.TempDir(), "default.pgo")}
	require.NoError(t, c.merge(t.Context(), reports))
	text, err := exec.CommandContext(t.Context(), "go", "tool", "pprof", "-top", c.PGO).Output()
	require.NoError(t, err)
	require.Contains(t, string(text), " of 4 total", "1 of the first, 3 of the last")
}
