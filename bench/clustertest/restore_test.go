package clustertest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/replay"
	api "tollgate/sdk/go"
)

// A generated trace: what is sent before the backup, and what is sent while it is made.
const (
	savedRows, savedSeed     = 2000, 5
	movingRows, movingSeed   = 30_000, 6
	savedCustomers, archives = 20, "usage-and-invoices.tgb"
)

// replayArgs send a generated trace.
func (d *development) replayArgs(rows, seed int, more ...string) []string {
	return append([]string{
		"replay", "--generate", strconv.Itoa(rows), "--seed", strconv.Itoa(seed),
		"--data", string(d.folder), "--customers", strconv.Itoa(savedCustomers),
	}, more...)
}

var countedLine = regexp.MustCompile(`events: (\d+) counted, (\d+) there already\.`)

// counted sends a generated trace and says how many events were new; whatever they were, every
// counter must be what the trace adds up to.
func (d *development) counted(rows, seed int) (fresh, known int) {
	d.t.Helper()
	printed, err := d.tollgate(d.replayArgs(rows, seed, "--batch", "500")...)
	require.NoError(d.t, err, printed)
	require.Contains(d.t, printed, "exactly what the trace adds up to")
	found := countedLine.FindStringSubmatch(printed)
	require.Len(d.t, found, 3, printed)
	fresh, err = strconv.Atoi(found[1])
	require.NoError(d.t, err)
	known, err = strconv.Atoi(found[2])
	require.NoError(d.t, err)
	require.Equal(d.t, rows*replay.EventsPerRow, fresh+known)
	return fresh, known
}

// invoiceTexts are the invoices of the first trace's customers, as a node answers them.
func (d *development) invoiceTexts() (all []string) {
	d.t.Helper()
	client := d.client(d.leader(), d.ReadKey)
	for n := range savedCustomers {
		name := "gen-" + strconv.Itoa(savedSeed) + "-" + strings.Repeat("0", 3-len(strconv.Itoa(n))) +
			strconv.Itoa(n)
		answer, err := client.Call(d.t.Context(), "GET", "/api/v1/client/billing/invoices/"+name,
			nil, nil)
		require.NoError(d.t, err)
		require.Contains(d.t, string(answer.Body), "REGULAR", name)
		all = append(all, string(answer.Body))
	}
	return all
}

// closePeriod moves the sandbox's clock behind the end of every period, so that all is invoiced.
func (d *development) closePeriod(days int) {
	d.t.Helper()
	admin, err := api.New([]string{d.node(d.leader()).Ops}, d.AdminKey, 1)
	require.NoError(d.t, err)
	defer admin.Close()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	var clock struct{ Settled bool }
	_, err = admin.Call(ctx, "POST", "/api/v1/admin/accounts/demo/environments/sandbox/clock",
		map[string]time.Time{"advanceTo": time.Now().AddDate(0, 0, days)}, &clock)
	require.NoError(d.t, err)
	require.True(d.t, clock.Settled)
}

// wipe empties the nodes' folders, their configuration excepted.
func (d *development) wipe() {
	d.t.Helper()
	for _, node := range d.Nodes {
		d.wipeNode(node.ID)
	}
}

// wipeNode empties a node's folder, its configuration excepted.
func (d *development) wipeNode(id string) {
	d.t.Helper()
	dir := d.folder.NodeFolder(id)
	found, err := os.ReadDir(dir)
	require.NoError(d.t, err)
	for _, f := range found {
		if f.Name() != "config.yaml" {
			require.NoError(d.t, os.RemoveAll(filepath.Join(dir, f.Name())))
		}
	}
}

// clusterLine is how a restore names the identity of the new cluster.
var clusterLine = regexp.MustCompile(`Cluster ([0-9a-f]{32}):`)

// restoreNodes restores every node from a backup as an operator does.
func (d *development) restoreNodes(file string) {
	d.t.Helper()
	identity := ""
	for _, node := range d.Nodes {
		args := []string{"restore", "--config", d.folder.NodeConfig(node.ID), file}
		if identity != "" {
			args = append(args, "--cluster", identity)
		}
		printed, err := d.tollgate(args...)
		require.NoError(d.t, err, printed)
		found := clusterLine.FindStringSubmatch(printed)
		require.Len(d.t, found, 2, printed)
		identity = found[1]
		_, err = d.tollgate(args...)
		require.Error(d.t, err, "a second restore must be refused")
	}
}

// The whole way: load, a backup from a follower while load runs, everything killed and gone, a new
// cluster from the backup. What was acknowledged before the backup is there, invoices to the byte;
// keys are known, so that sending everything again makes every counter exact; verify finds nothing.
func TestRestoreIntoANewCluster(t *testing.T) {
	t.Parallel()
	d := startCluster(t)
	file := filepath.Join(t.TempDir(), archives)
	fresh, _ := d.counted(savedRows, savedSeed)
	require.Equal(t, savedRows*replay.EventsPerRow, fresh)
	d.closePeriod(32)
	invoices := d.invoiceTexts()

	moving := exec.Command(program, d.replayArgs(movingRows, movingSeed, "--batch", "20",
		"--connections", "2")...)
	require.NoError(t, moving.Start())
	follower := d.followers()[0]
	before := d.applied(follower)
	require.Eventually(t, func() bool { return d.applied(follower) > before+50 },
		patience, statusEvery)
	flags := []string{"--ops", d.node(follower).Ops, "--admin-key", d.AdminKey}
	printed, err := d.tollgate(append([]string{"backup", file}, flags...)...)
	require.NoError(t, err, printed)
	require.Contains(t, printed, "made by "+follower)
	at := d.applied(follower)
	require.Eventually(t, func() bool { return d.applied(follower) > at+50 }, patience, statusEvery,
		"the load goes on after it")
	require.NoError(t, d.command.Process.Signal(syscall.SIGKILL))
	d.kill()
	require.NoError(t, moving.Process.Kill(), "it was still sending")
	require.Error(t, moving.Wait())

	d.refusesDamage(file)
	d.wipe()
	d.restoreNodes(file)
	d.start()
	for _, node := range d.Nodes {
		d.ready(node.ID)
	}
	require.Equal(t, invoices, d.invoiceTexts())
	printed, err = d.tollgate(d.replayArgs(savedRows, savedSeed, "--batch", "500")...)
	require.NoError(t, err, printed)
	require.Contains(t, printed, "events: 0 counted, "+
		strconv.Itoa(savedRows*replay.EventsPerRow)+" there already.", "all of it was in the backup")
	fresh, known := d.counted(movingRows, movingSeed)
	require.Positive(t, fresh, "some came after the backup")
	require.Positive(t, known, "some came before it")
	d.closePeriod(70)
	printed, err = d.tollgate("invoice", "verify", "--data", string(d.folder))
	require.NoError(t, err, printed)
	require.Contains(t, printed, " 0 different.")
	d.stop()
}

// applied is the last entry of the billing group that a node has applied.
func (d *development) applied(id string) uint64 {
	d.t.Helper()
	status, err := d.status(id)
	if err != nil || len(status.Groups) == 0 {
		return 0
	}
	return status.Groups[0].AppliedIndex
}

// refusesDamage reports whether verify passes the file, and not one that is cut off or has another
// bit.
func (d *development) refusesDamage(file string) {
	d.t.Helper()
	printed, err := d.tollgate("backup", "verify", file)
	require.NoError(d.t, err, printed)
	require.Contains(d.t, printed, "Good: ")
	whole, err := os.ReadFile(file)
	require.NoError(d.t, err)
	damaged := filepath.Join(d.t.TempDir(), "damaged.tgb")
	for _, data := range [][]byte{
		whole[:len(whole)-5], append(append([]byte{}, whole[:999]...), whole[1000:]...),
	} {
		require.NoError(d.t, os.WriteFile(damaged, data, 0o600))
		printed, err = d.tollgate("backup", "verify", damaged)
		require.Error(d.t, err)
		require.Contains(d.t, printed, "backup: damaged")
	}
}
