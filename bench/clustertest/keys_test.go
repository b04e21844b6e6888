package clustertest

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
)

// Keys leave memory while a trace is metered; sent again, through each node, after all of them were
// killed, and after one has lost its files, every event is known.
func TestKeysThatLeftMemoryAreKnownEverywhere(t *testing.T) {
	t.Parallel()
	d := startCluster(t)
	d.keepFewKeys()
	const rows, seed = 20_000, 11
	replay := func(id string) string {
		printed, err := d.tollgate("replay", "--generate", strconv.Itoa(rows), "--seed",
			strconv.Itoa(seed), "--data", string(d.folder), "--batch", "1000", "--customers", "20",
			"--url", d.node(id).HTTP)
		require.NoError(t, err, printed)
		return printed
	}
	again := func() {
		for _, node := range d.Nodes {
			d.keysOnDisk(node.ID)
			require.Contains(t, replay(node.ID),
				"events: 0 counted, "+strconv.Itoa(3*rows)+" there already.", node.ID)
		}
	}
	require.Contains(t, replay(d.leader()), "exactly what the trace adds up to")
	again()

	d.kill()
	lost := filepath.Join(d.folder.NodeFolder(d.Nodes[1].ID), "billing", "keys")
	files, err := os.ReadDir(lost)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	require.NoError(t, os.RemoveAll(lost))
	d.start()
	again()
}

// keepFewKeys starts the cluster again with room for few keys in memory.
func (d *development) keepFewKeys() {
	d.t.Helper()
	require.Zero(d.t, d.stop())
	for _, node := range d.Nodes {
		file := d.folder.NodeConfig(node.ID)
		settings, err := config.Load(file)
		require.NoError(d.t, err)
		settings.Limits.KeyMemory = 4
		text, err := settings.YAML()
		require.NoError(d.t, err)
		require.NoError(d.t, os.WriteFile(file, text, 0o600))
	}
	d.start()
}

// keysOnDisk waits until keys have left memory, and a node has them in files and is ready.
func (d *development) keysOnDisk(id string) {
	d.t.Helper()
	require.Eventually(d.t, func() bool {
		status, err := d.status(id)
		if err != nil || !status.Ready || status.Groups[0].Keys == nil {
			return false
		}
		keys := status.Groups[0].Keys
		return keys.OnDisk > 20_000 && keys.Uncovered == 0
	}, patience, statusEvery, "keys of %s have left memory", id)
}
