package clustertest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cluster"
	"tollgate/cmd/tollgate/config"
)

// launched is a node that a test runs by itself, and whose end it looks at.
type launched struct {
	command *exec.Cmd
	said    *output
	ended   chan struct{}
}

// launch runs a node until it ends, or the test does.
func (d *development) launch(id string) *launched {
	d.t.Helper()
	l := &launched{said: &output{}, ended: make(chan struct{})}
	l.command = exec.Command(program, "serve", "--config", d.folder.NodeConfig(id))
	l.command.Stdout, l.command.Stderr = l.said, l.said
	require.NoError(d.t, l.command.Start())
	d.node(id).PID = l.command.Process.Pid
	go func() {
		_ = l.command.Wait() // how it ended is in its ProcessState
		close(l.ended)
	}()
	d.t.Cleanup(func() { l.kill(d.t) })
	return l
}

func (l *launched) kill(t *testing.T) {
	killProcess(t, l.command.Process.Pid)
	<-l.ended
}

// refusal waits until the node ends by itself, with the code after which systemd does not start it
// again, and returns the last line of its log.
func (l *launched) refusal(t *testing.T) string {
	t.Helper()
	select {
	case <-l.ended:
	case <-time.After(patience):
		require.Fail(t, "it does not end", "%s", l.said)
	}
	require.Equal(t, cluster.ExitFatal, l.command.ProcessState.ExitCode(), "%s", l.said)
	lines := strings.Split(strings.TrimSpace(l.said.String()), "\n")
	return lines[len(lines)-1]
}

// The forgetful operator: everything was lost, a backup is restored onto node1, and node2 and node3
// are started with empty folders, members, and without the cluster's identity. Whoever comes first,
// no second cluster is left, and what they say leads to the end of the restore.
func TestAForgottenIdentityBeginsNoSecondCluster(t *testing.T) {
	t.Parallel()
	d := startCluster(t)
	file := filepath.Join(t.TempDir(), archives)
	fresh, _ := d.counted(200, savedSeed)
	require.Positive(t, fresh)
	printed, err := d.operate(d.leader(), "backup", file)
	require.NoError(t, err, printed)
	d.kill()
	d.wipe()
	ids := []string{d.Nodes[0].ID, d.Nodes[1].ID, d.Nodes[2].ID}
	printed, err = d.tollgate("restore", "--config", d.folder.NodeConfig(ids[0]), file)
	require.NoError(t, err, printed)
	identity := clusterLine.FindStringSubmatch(printed)[1]

	first := d.launch(ids[0])
	require.Eventually(t, func() bool { _, err := d.status(ids[0]); return err == nil },
		patience, statusEvery)
	for _, id := range ids[1:] {
		said := d.launch(id).refusal(t)
		require.Contains(t, said, "there is a cluster already")
		require.Contains(t, said, "tollgate restore --cluster "+identity)
		require.Contains(t, said, "nothing was changed")
	}

	// The same with node1 as the last: the two have begun a cluster until it answers.
	first.kill(t)
	second, third := d.launch(ids[1]), d.launch(ids[2])
	d.ready(ids[1])
	d.launch(ids[0])
	for _, l := range []*launched{second, third} {
		require.Contains(t, l.refusal(t), "tollgate restore --cluster "+identity)
	}

	// What they said to do.
	for _, id := range ids[1:] {
		d.wipeNode(id)
		printed, err = d.tollgate("restore", "--config", d.folder.NodeConfig(id), "--cluster", identity,
			file)
		require.NoError(t, err, printed)
		d.launch(id)
	}
	for _, id := range ids {
		d.ready(id)
	}
	again, known := d.counted(200, savedSeed)
	require.Zero(t, again)
	require.Equal(t, fresh, known, "all of it was in the backup")
}

// A folder that is refused ends the process with the code that systemd does not restart after, and
// the last line is in the format of the log.
func TestARefusedFolderEndsWithThree(t *testing.T) {
	t.Parallel()
	d := startCluster(t)
	d.kill()
	d.configure(func(_ string, settings *config.Config) { settings.Log.Format = "json" })
	spool := filepath.Join(d.folder.NodeFolder(d.Nodes[0].ID), "audit.spool")
	require.NoError(t, os.RemoveAll(spool))
	require.NoError(t, os.WriteFile(spool, bytes.Repeat([]byte("no spool "), 9), 0o600))
	require.Contains(t, d.launch(d.Nodes[0].ID).refusal(t), "not a spool of this version")
	require.NoError(t, os.Remove(spool))
	damage := map[string]func(folder string) string{
		"of another node": func(folder string) string {
			require.NoError(t, os.WriteFile(filepath.Join(folder, "node.json"),
				[]byte(`{"node":"other","disk":"0123456789abcdef","begun":true}`), 0o600))
			return `is that of node \"other\"`
		},
		"half lost": func(folder string) string {
			require.NoError(t, os.RemoveAll(filepath.Join(folder, "workspace")))
			return "its data is gone"
		},
		"a log with a hole": func(folder string) string {
			logs, err := filepath.Glob(filepath.Join(folder, "billing", "log", "*.seg"))
			require.NoError(t, err)
			require.NotEmpty(t, logs)
			text, err := os.ReadFile(logs[0])
			require.NoError(t, err)
			text[len(bytes.TrimRight(text, "\x00"))/2] ^= 1
			require.NoError(t, os.WriteFile(logs[0], text, 0o600))
			return "damaged"
		},
	}
	i := 0
	for name, do := range damage {
		id := d.Nodes[i].ID
		i++
		want := do(d.folder.NodeFolder(id))
		var line struct{ Level, Msg, Error string }
		said := d.launch(id).refusal(t)
		require.NoError(t, json.Unmarshal([]byte(said), &line), said)
		require.Equal(t, "ERROR", line.Level, name)
		require.Contains(t, said, want, name)
	}
}

// copyFolder keeps a copy of a node's folder, and putBack puts it in the folder's place.
func (d *development) copyFolder(id string) (copied string) {
	d.t.Helper()
	copied = filepath.Join(d.t.TempDir(), id)
	require.NoError(d.t, os.CopyFS(copied, os.DirFS(d.folder.NodeFolder(id))))
	return copied
}

func (d *development) putBack(id, copied string) {
	d.t.Helper()
	folder := d.folder.NodeFolder(id)
	require.NoError(d.t, os.RemoveAll(folder))
	require.NoError(d.t, os.CopyFS(folder, os.DirFS(copied)))
}

// node1's folder is replaced by an older copy, which was taken while the node ran or while it was
// stopped. The node that has the events acknowledged since is away, and the one that stays has only
// heard of node1. node1 is refused, with what to do; when the other node is back, every event is
// there, and node1 comes back the way that it was told.
func TestAFolderThatWasPutBackIsRefused(t *testing.T) {
	t.Parallel()
	for name, whileItRan := range map[string]bool{"as it ran": true, "as it was stopped": false} {
		t.Run(name, func(t *testing.T) {
			d := startCluster(t)
			d.kill()
			node1, node2, node3 := d.Nodes[0].ID, d.Nodes[1].ID, d.Nodes[2].ID
			running := map[string]*launched{}
			for _, id := range []string{node1, node2, node3} {
				running[id] = d.launch(id)
			}
			d.ready(node1)
			var copied string
			if whileItRan {
				copied = d.copyFolder(node1)
				d.heardOf(node1, node3)
			} else {
				running[node1].kill(t)
				copied = d.copyFolder(node1)
				running[node1] = d.launch(node1)
				d.ready(node1)
			}
			running[node3].kill(t)
			d.ready(node1)
			d.send(node1, "acknowledged", 50)
			running[node1].kill(t)
			running[node2].kill(t)

			d.putBack(node1, copied)
			d.launch(node3)
			said := d.launch(node1).refusal(t)
			require.Contains(t, said, d.folder.NodeFolder(node1)+" lacks")
			require.Contains(t, said, "says node3")
			require.Contains(t, said, "tollgate cluster remove node1")
			require.Contains(t, said, "tollgate cluster join node1")
			require.Contains(t, d.launch(node1).refusal(t), "says node3", "at every start")

			d.launch(node2)
			d.ready(node2)
			d.ready(node3)
			for i := range 50 {
				answer, err := d.once(node2, usageEvent("acknowledged-"+strconv.Itoa(i)))
				require.NoError(t, err)
				require.Equal(t, 409, answer.Status, "its key was used: %s", answer.Body)
			}

			printed, err := d.operate(node2, "cluster", "remove", node1)
			require.NoError(t, err, printed)
			d.wipeNode(node1)
			settings, err := config.Load(d.folder.NodeConfig(node1))
			require.NoError(t, err)
			settings.Join, settings.Members = true, nil
			text, err := settings.YAML()
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(d.folder.NodeConfig(node1), text, 0o600))
			d.launch(node1)
			require.Eventually(t, func() bool {
				printed, err = d.operate(node2, "cluster", "join", node1, "--raft", d.node(node1).Raft)
				return err == nil
			}, patience, statusEvery, "%s", printed)
			printed, err = d.operate(node2, "cluster", "promote", node1, "--wait", "60s")
			require.NoError(t, err, printed)
			d.ready(node1)
		})
	}
}

// heardOf sends events through one node until another has noted, for a while, what that one has
// promised since.
func (d *development) heardOf(node, by string) {
	d.t.Helper()
	begun, n := time.Now(), 0
	require.Eventually(d.t, func() bool {
		n++
		d.send(node, "heard-"+strconv.Itoa(n), 1)
		info, err := os.Stat(filepath.Join(d.folder.NodeFolder(by), "past"))
		return err == nil && info.ModTime().After(begun.Add(2*time.Second))
	}, patience, statusEvery)
}

// send sends events with keys of that name through a node; each is acknowledged as new.
func (d *development) send(id, name string, count int) {
	d.t.Helper()
	client := d.client(id, d.SandboxKey)
	for i := range count {
		answer, err := client.Do(d.t.Context(), usageEvent(name+"-"+strconv.Itoa(i)))
		require.NoError(d.t, err)
		require.Equal(d.t, 201, answer.Status, "%s", answer.Body)
	}
}
