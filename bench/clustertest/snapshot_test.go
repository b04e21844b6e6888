package clustertest

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
)

// A node that was away for longer than the others keep their log gets a snapshot, and then serves
// what they serve.
func TestNodeThatLagsCatchesUpFromASnapshot(t *testing.T) {
	t.Parallel()
	d := startCluster(t)
	d.keepLittleLog()
	away := d.followers()[0]
	status, err := d.status(away)
	require.NoError(t, err)
	require.Zero(t, status.Groups[0].SnapshotIndex, "it has no snapshot of its own")
	d.signal(away, syscall.SIGKILL)

	// Many small entries: some of them stay behind a snapshot whatever their size.
	const rows, seed, minimum = 10_000, 3, 500
	printed, err := d.tollgate("replay", "--generate", strconv.Itoa(rows), "--seed", strconv.Itoa(seed),
		"--data", string(d.folder), "--batch", "20", "--connections", "2", "--customers", "20")
	require.NoError(t, err, printed)
	require.Contains(t, printed, "exactly what the trace adds up to")
	leader := d.leader()
	require.Eventually(t, func() bool {
		status, err := d.status(leader)
		return err == nil && status.Groups[0].SnapshotIndex > minimum
	}, patience, statusEvery, "the leader takes a snapshot")

	d.restart(away)
	d.ready(away)
	require.True(t, strings.Contains(d.metrics(away), "\n"+
		`tollgate_cluster_restore_seconds_count{group="billing"} 1`+"\n"),
		"a node that is ready has installed the snapshot")
	printed, err = d.tollgate("replay", "--generate", strconv.Itoa(rows), "--seed", strconv.Itoa(seed),
		"--data", string(d.folder), "--batch", "1000", "--customers", "20",
		"--url", d.node(away).HTTP)
	require.NoError(t, err, printed)
	require.Contains(t, printed, "events: 0 counted, "+strconv.Itoa(3*rows)+" there already.")

	answer, err := d.once(away, staleCheck)
	require.NoError(t, err)
	require.Equal(t, 200, answer.Status)
	leads, err := d.status(d.leader())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		status, err := d.status(away)
		return err == nil && status.Groups[0].AppliedIndex >= leads.Groups[0].AppliedIndex
	}, patience, statusEvery)
	usage := d.events(d.client(away, d.ReadKey), "gen-"+strconv.Itoa(seed)+"-000", "usage")
	require.Len(t, usage, 3*rows/20, "its journal holds what happened while it was away")
}

// keepLittleLog starts the cluster again with snapshots after every MiB of log, and no more log
// than that behind them.
func (d *development) keepLittleLog() {
	d.t.Helper()
	require.Zero(d.t, d.stop())
	d.configure(func(_ string, settings *config.Config) {
		settings.Snapshots = config.Snapshots{LogMiB: 1, TrailingMiB: 1}
	})
	d.start()
}

// metrics scrapes a node.
func (d *development) metrics(id string) string {
	d.t.Helper()
	response, err := http.Get("http://" + d.node(id).Ops + "/metrics")
	require.NoError(d.t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(d.t, err)
	require.NoError(d.t, response.Body.Close())
	require.Equal(d.t, 200, response.StatusCode)
	return string(text)
}
