package clustertest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/devdata"
	"tollgate/engine"
)

// previous is the newest commit of the cluster version before engine.Version: the build from which
// an operator upgrades; empty until there is a release to upgrade from. It moves when
// engine.Version does, to the commit before that. From then on a change of what commands do, or of
// a layout, that does not wait for a version makes this test fail.
const previous = ""

// buildPrevious builds the program as it was at that commit, or, if there is none, or no
// history, as in an archive or a shallow clone, this source with a version less, which is linked
// anew and not compiled. The binary of a commit is kept in bin/, where `make clean` finds it.
func buildPrevious(t *testing.T) (binary string) {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	run := func(folder, name string, args ...string) {
		command := exec.Command(name, args...)
		command.Dir = folder
		printed, err := command.CombinedOutput()
		require.NoError(t, err, "%s %v:\n%s", name, args, printed)
	}
	folder := t.TempDir()
	built := filepath.Join(folder, "tollgate")
	known := exec.Command("git", "cat-file", "-e", previous+"^{commit}")
	known.Dir = root
	if err := known.Run(); previous == "" || err != nil {
		t.Logf("commit %q is not here (%v): this source takes its place", previous, err)
		run(root, "go", "build", "-buildvcs=false", "-ldflags=-X=tollgate/engine.earlier=1",
			"-o", built, "./cmd/tollgate")
		return built
	}
	binary = filepath.Join(root, "bin", "tollgate-"+previous[:min(12, len(previous))]+"-"+runtime.Version())
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	archive := filepath.Join(folder, "source.tar")
	run(root, "git", "archive", "--format=tar", "--output", archive, previous)
	run(folder, "tar", "-xf", archive)
	run(folder, "go", "build", "-buildvcs=false", "-o", built, "./cmd/tollgate")
	return keep(t, built, binary)
}

// keep puts a program under a name that is used again; two tests may do it at once.
func keep(t *testing.T, built, binary string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(binary), 0o755))
	program, err := os.ReadFile(built)
	require.NoError(t, err)
	beside, err := os.CreateTemp(filepath.Dir(binary), "tollgate-*")
	require.NoError(t, err)
	_, err = beside.Write(program)
	require.NoError(t, err)
	require.NoError(t, beside.Chmod(0o755))
	require.NoError(t, beside.Close())
	require.NoError(t, os.Rename(beside.Name(), binary))
	return binary
}

// upgrade is a cluster in which a build takes the place of another.
type upgrade struct {
	*development
	before string
	rows   []int // of the traces that were sent, by seed
}

// agreedOn reports whether a node knows both groups to have agreed on a version.
func (u *upgrade) agreedOn(id string, version uint32) bool {
	status, err := u.status(id)
	return err == nil && len(status.Groups) == 2 &&
		status.Groups[0].Version == version && status.Groups[1].Version == version
}

// replace stops a node and starts it again with a build.
func (u *upgrade) replace(id, binary string) {
	u.t.Helper()
	u.signal(id, syscall.SIGTERM)
	u.awaitEnd(id)
	u.restartAs(id, binary)
	u.ready(id)
}

// away stops a node, lets the others go on until they have no log for it any more, and starts it
// again with a build; so what it gets is its leader's snapshot.
func (u *upgrade) away(id, binary string) {
	t := u.t
	t.Helper()
	u.signal(id, syscall.SIGTERM)
	u.awaitEnd(id)
	status, err := u.status(u.leader()) // it took entries until it ended
	require.NoError(t, err)
	last := status.Groups[0].LastIndex
	restored := 1
	own, err := os.ReadDir(filepath.Join(u.folder.NodeFolder(id), "billing", "snapshots"))
	require.NoError(t, err)
	if len(own) > 0 {
		restored++ // it begins with that
	}
	for {
		leads, err := u.status(u.leader())
		require.NoError(t, err)
		if leads.Groups[0].FirstIndex > last {
			break
		}
		const rows = 6_000
		u.rows = append(u.rows, rows)
		u.counted(rows, len(u.rows)) // on a busy machine some requests are sent twice
	}
	u.restartAs(id, binary)
	u.ready(id)
	line := fmt.Sprintf("\ntollgate_cluster_restore_seconds_count{group=%q} %d\n", "billing", restored)
	require.True(t, strings.Contains(u.metrics(id), line), "%s has installed a snapshot", id)
}

// same reports whether what all nodes have applied has one hash, now that nothing is written.
func (u *upgrade) same() {
	u.t.Helper()
	require.Eventually(u.t, func() bool {
		hashes := make(map[string]bool)
		for _, node := range u.Nodes {
			status, err := u.status(node.ID)
			if err != nil || len(status.Groups) != 2 {
				return false
			}
			for _, g := range status.Groups {
				hashes[g.Name+strconv.FormatUint(g.StateIndex, 10)+g.StateHash] = true
			}
		}
		return len(hashes) == 2
	}, patience, statusEvery, "the states are the same")
}

// exchange makes a backup on a node with its build and has another build read it to its end.
func (u *upgrade) exchange(id, maker, reader string) {
	t := u.t
	t.Helper()
	file := filepath.Join(t.TempDir(), "backup.tgb")
	printed, err := exec.Command(maker, "backup", file, "--ops", u.node(id).Ops,
		"--admin-key", u.AdminKey).CombinedOutput()
	require.NoError(t, err, "%s", printed)
	printed, err = exec.Command(reader, "backup", "verify", file).CombinedOutput()
	require.NoError(t, err, "%s", printed)
	require.Contains(t, string(printed), "Good: ")
}

// An operator replaces the build of a cluster, node by node, while clients write and read. Both
// builds lead meanwhile, and each takes log, calls, snapshots, journal and backups of the other.
// Nothing is lost or counted twice; the new version is agreed on when the last node is replaced,
// and not before. Then an older build is refused.
func TestRollingUpgradeFromThePreviousBuild(t *testing.T) {
	t.Parallel()
	before := buildPrevious(t)
	u := &upgrade{development: startClusterOf(t, before, askingAgent(t)...), before: before}
	u.keepLittleLog()
	old := u.leader()
	first, second := u.followers()[0], u.followers()[1]
	w := u.begin(first, second, old)
	workspace := moveIn(u.development)
	workspace.goesOn(old)

	u.away(first, program) // an old one leads
	u.exchange(old, before, program)
	require.Eventually(t, func() bool { // it is refused as long as the target is not heard
		_, err := u.operate(first, "cluster", "transfer", first)
		return err == nil
	}, patience, statusEvery)
	require.Equal(t, first, u.leader(old, second))
	workspace.goesOn(second) // a new one leads
	u.replace(second, program)
	u.away(second, before) // and goes back, while a new one leads
	u.exchange(first, program, before)
	for _, node := range u.Nodes {
		known := engine.Version - 1
		if node.ID == first {
			known = engine.Version
		}
		m, ok := u.memberOf(first, node.ID)
		require.True(t, ok)
		require.EqualValues(t, known, m.Version, node.ID)
	}
	require.True(t, u.agreedOn(first, engine.Version-1), "older nodes are there still")
	workspace.goesOn(first)
	w.end()
	u.same()

	w2 := u.begin(second, old, first)
	for _, id := range []string{second, old} {
		require.True(t, u.agreedOn(first, engine.Version-1))
		u.replace(id, program)
	}
	for _, node := range u.Nodes {
		require.Eventually(t, func() bool { return u.agreedOn(node.ID, engine.Version) },
			patience, statusEvery, node.ID)
	}
	workspace.goesOn(old)
	w2.end()
	workspace.stands(second)
	require.Empty(t, append(w.failed, w2.failed...))
	require.Equal(t, w.written+w2.written, u.used(old))
	for i, rows := range u.rows {
		fresh, _ := u.counted(rows, i+1)
		require.Zero(t, fresh, "nothing was lost")
	}
	u.same()
	u.refusesOlder(second, before)
}

// runs reports whether a process holds a node's data folder.
func (d *development) runs(id string) bool {
	d.t.Helper()
	pid, err := devdata.Holder(devdata.NodeLock(d.folder.NodeFolder(id)))
	require.NoError(d.t, err)
	return pid != 0
}

// awaitEnd waits until nobody holds a node's data folder.
func (d *development) awaitEnd(id string) {
	d.t.Helper()
	require.Eventually(d.t, func() bool { return !d.runs(id) }, patience, statusEvery)
}

// refusesOlder reports whether neither the build of before runs in a node's folder, nor this one,
// when the cluster has agreed on a version that it does not know.
func (u *upgrade) refusesOlder(id, before string) {
	t := u.t
	t.Helper()
	u.signal(id, syscall.SIGTERM)
	u.awaitEnd(id)
	serve := []string{"serve", "--config", u.folder.NodeConfig(id)}
	printed, err := exec.Command(before, serve...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(printed), "the data folder was written by a newer version")

	file := filepath.Join(u.folder.NodeFolder(id), "folder.json")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var about map[string]any
	require.NoError(t, json.Unmarshal(text, &about))
	require.EqualValues(t, engine.Version, about["version"])
	about["version"] = engine.Version + 1
	changed, err := json.Marshal(about)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, changed, 0o600))
	printed, err = exec.Command(program, serve...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(printed), "written by a newer version")
	require.Contains(t, string(printed), "start the version that ran here")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	u.restart(id)
	u.ready(id)
}
