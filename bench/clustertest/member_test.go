package clustertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/ports"
	"tollgate/cluster"
	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/devdata"
	api "tollgate/sdk/go"
)

// operate runs a command of the program against the operations listener of a node.
func (d *development) operate(at string, args ...string) (string, error) {
	d.t.Helper()
	return d.tollgate(append(args, "--ops", d.node(at).Ops, "--admin-key", d.AdminKey)...)
}

// addNode starts one more node, of that name, with an empty folder, which waits to be joined.
func (d *development) addNode(id, like string) {
	d.t.Helper()
	settings, err := config.Load(d.folder.NodeConfig(like))
	require.NoError(d.t, err)
	settings.Node, settings.Data, settings.Join = id, d.folder.NodeFolder(id), true
	first := ports.OfTest(d.t, 3)
	settings.HTTP, settings.Ops = localPort(first), localPort(first+1)
	settings.Raft = localPort(first + 2)
	settings.Members = nil
	d.Nodes = append(d.Nodes, devdata.Node{
		ID: id, HTTP: settings.HTTP, Ops: settings.Ops, Raft: settings.Raft,
	})
	require.NoError(d.t, os.MkdirAll(settings.Data, 0o700))
	text, err := settings.YAML()
	require.NoError(d.t, err)
	require.NoError(d.t, os.WriteFile(d.folder.NodeConfig(id), text, 0o600))
	d.serve(id)
}

// serve runs a node of this test's own until the end.
func (d *development) serve(id string) *exec.Cmd {
	d.t.Helper()
	log, err := os.OpenFile(d.folder.NodeLog(id), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(d.t, err)
	command := exec.Command(program, "serve", "--config", d.folder.NodeConfig(id))
	command.Stdout, command.Stderr = log, log
	require.NoError(d.t, command.Start())
	d.node(id).PID = command.Process.Pid
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // how it ended is in its ProcessState
		close(ended)
	}()
	d.t.Cleanup(func() {
		killProcess(d.t, command.Process.Pid)
		<-ended
		require.NoError(d.t, log.Close())
	})
	return command
}

// traffic writes and reads through nodes until it is ended, and counts.
type traffic struct {
	number  int // of those of a test, so that each has keys of its own
	stop    atomic.Bool
	wg      sync.WaitGroup
	mu      sync.Mutex
	written int
	read    int
	slowest time.Duration
	failed  []string
}

// begin works with each of the nodes. A client that goes on to another node when its own does not
// answer is what the Do of a client of several nodes is.
func (d *development) begin(nodes ...string) *traffic {
	d.t.Helper()
	d.begun++
	w := &traffic{number: d.begun}
	for i, id := range nodes {
		var addresses []string
		for k := range nodes {
			addresses = append(addresses, d.node(nodes[(i+k)%len(nodes)]).HTTP)
		}
		client, err := api.New(addresses, d.SandboxKey, 2)
		require.NoError(d.t, err)
		d.t.Cleanup(client.Close)
		w.wg.Go(func() { w.work(client, id) })
	}
	return w
}

func (w *traffic) work(client *api.Client, id string) {
	for n := 0; !w.stop.Load(); n++ {
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		write, err := client.Do(ctx, usageEvent(fmt.Sprintf("%d-%s-%d", w.number, id, n)))
		read, err2 := client.Do(ctx, api.Request{Method: "GET", Path: checkPath})
		cancel()
		w.mu.Lock()
		switch {
		case err != nil || err2 != nil:
			w.failed = append(w.failed, fmt.Sprint(err, err2))
		case write.Status != 201 && write.Status != 409 || read.Status != 200:
			w.failed = append(w.failed, fmt.Sprint(write.Status, read.Status, string(write.Body)))
		default:
			w.written++
			w.read++
		}
		w.slowest = max(w.slowest, time.Since(began))
		w.mu.Unlock()
	}
}

func (w *traffic) end() {
	w.stop.Store(true)
	w.wg.Wait()
}

func (d *development) memberOf(at, id string) (cluster.MemberStatus, bool) {
	status, err := d.status(at)
	if err != nil {
		return cluster.MemberStatus{}, false
	}
	for _, m := range status.Members {
		if m.ID == id {
			return m, true
		}
	}
	return cluster.MemberStatus{}, false
}

// A node dies with its disk while clients write and read. Another comes in its place: the dead one
// is removed, the new one joined and promoted, both groups, by the commands of OPERATIONS.md.
// Nothing is lost and no request fails; then the new one leads alone with one of the old ones.
func TestADeadNodeIsReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	d := startCluster(t)
	dead := d.followers()[0]
	var alive []string
	for _, node := range d.Nodes {
		if node.ID != dead {
			alive = append(alive, node.ID)
		}
	}
	w := d.begin(alive...)
	d.signal(dead, syscall.SIGKILL)
	require.NoError(t, os.RemoveAll(filepath.Join(d.folder.NodeFolder(dead), "billing")))

	printed, err := d.operate(alive[0], "cluster", "remove", dead)
	require.NoError(t, err, printed)
	d.addNode("node4", dead)
	printed, err = d.operate(alive[1], "cluster", "promote", "node4")
	require.Error(t, err)
	require.Contains(t, printed, "join it first")
	require.Eventually(t, func() bool {
		printed, err = d.operate(alive[1], "cluster", "join", "node4", "--raft", d.node("node4").Raft,
			"--member-ops", d.node("node4").Ops)
		return err == nil
	}, patience, statusEvery, "not joined")
	printed, err = d.operate(alive[0], "cluster", "promote", "node4", "--wait", "60s")
	require.NoError(t, err, printed)
	require.Contains(t, printed, "votes, in both groups")
	d.ready("node4")
	for _, at := range append(alive, "node4") {
		require.Eventually(t, func() bool { // two groups, maybe of two leaders
			m, ok := d.memberOf(at, "node4")
			_, there := d.memberOf(at, dead)
			return ok && m.Voter && m.Ops == d.node("node4").Ops && !there
		}, patience, statusEvery, at)
	}

	printed, err = d.operate(alive[0], "cluster", "transfer", "node4")
	require.NoError(t, err, printed)
	require.Equal(t, "node4", d.leader(alive...))
	w.end()
	require.Empty(t, w.failed)
	require.NotZero(t, w.written)
	t.Logf("%d writes and %d reads meanwhile, the slowest pair %s", w.written, w.read, w.slowest)
	d.signal(alive[0], syscall.SIGKILL)
	require.Equal(t, w.written, d.used("node4"), "two of three, one of them new")
	printed, err = d.operate("node4", "audit")
	require.NoError(t, err, printed)
	for _, action := range []string{
		"member.removed", "member.joined", "member.promoted", "leadership.transferred",
	} {
		require.Contains(t, printed, action)
	}
	require.Less(t, strings.Index(printed, "member.promoted"), strings.Index(printed, "member.joined"))
}

// A node whose folder was emptied does not start under its old name, and says what to do.
func TestAnEmptiedNodeDoesNotStart(t *testing.T) {
	t.Parallel()
	d := startCluster(t)
	lost := d.followers()[0]
	require.Eventually(t, func() bool {
		m, ok := d.memberOf(d.leader(), lost)
		return ok && m.Disk != ""
	}, patience, statusEvery)
	d.signal(lost, syscall.SIGKILL)
	folder := d.folder.NodeFolder(lost)
	for _, part := range []string{"billing", "workspace", "node.json", "folder.json"} {
		require.NoError(t, os.RemoveAll(filepath.Join(folder, part)))
	}
	var printed string
	require.Eventually(t, func() bool { // until the lock of the killed process is free
		text, err := exec.Command(program, "serve", "--config", d.folder.NodeConfig(lost)).
			CombinedOutput()
		printed = string(text)
		return err != nil && !strings.Contains(printed, "is in use")
	}, patience, statusEvery)
	require.Contains(t, printed, "is not the one that the cluster knows")
	require.Contains(t, printed, "tollgate cluster remove "+lost)
}
