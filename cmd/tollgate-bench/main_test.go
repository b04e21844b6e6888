package main

import (
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"tollgate/bench"
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
	for scenario, connections := range map[bench.Scenario]int{
		bench.ScenarioCheck: 64, bench.ScenarioIngest: 256, bench.ScenarioBatch: 8,
	} {
		require.Equal(t, connections, f.Run.config(scenario).Connections)
	}
	limited := f.Run.config(bench.ScenarioLimit)
	require.Equal(t, limitedPlan, limited.Plan)
	require.Equal(t, 100, limited.Limit)
	require.Equal(t, pricedFeature, f.Run.config(bench.ScenarioClose).Feature)
	_, err = parser.Parse([]string{"compare", "--systems", "tollgate,redis", "--rounds", "3"})
	require.NoError(t, err)
	require.Equal(t, []string{"tollgate", "redis"}, f.Compare.Systems)
	require.Equal(t, 3, f.Compare.Rounds)
}
