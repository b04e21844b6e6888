// Package clustertest runs the program as its users do: real node processes on this machine, killed
// and stopped while they carry load. What a test sees, it sees through the HTTP APIs.
package clustertest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"tollgate/bench/ports"
	"tollgate/cluster"
	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/devdata"
	api "tollgate/sdk/go"
)

// program is the tollgate binary, built once for all tests.
var program string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "tollgate-test-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(folder, "tollgate")
	build := exec.Command("go", "build", "-o", program, "tollgate/cmd/tollgate")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	code := 1
	if err = build.Run(); err == nil {
		code = m.Run()
	}
	if err = os.RemoveAll(folder); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// patience bounds what a loaded machine may need for anything here; statusEvery is how often a
// configure changes every node's configuration file, while none runs. Nothing else is written: an
// earlier build, which knows fewer settings, may have made the file and read it.
func (d *development) configure(change func(id string, settings *config.Config)) {
	d.t.Helper()
	for _, node := range d.Nodes {
		file := d.folder.NodeConfig(node.ID)
		settings, err := config.Load(file)
		require.NoError(d.t, err)
		before := d.yamlOf(settings)
		change(node.ID, &settings)
		text, err := os.ReadFile(file)
		require.NoError(d.t, err)
		var kept map[string]any
		require.NoError(d.t, yaml.Unmarshal(text, &kept))
		for name, value := range d.yamlOf(settings) {
			if !reflect.DeepEqual(value, before[name]) {
				kept[name] = value
			}
		}
		text, err = yaml.Marshal(kept)
		require.NoError(d.t, err)
		require.NoError(d.t, os.WriteFile(file, text, 0o600))
	}
}

// yamlOf is a configuration as its file says it.
func (d *development) yamlOf(settings config.Config) (said map[string]any) {
	d.t.Helper()
	text, err := settings.YAML()
	require.NoError(d.t, err)
	require.NoError(d.t, yaml.Unmarshal(text, &said))
	return said
}

// node is asked for its status.
const (
	patience    = 60 * time.Second
	statusEvery = 100 * time.Millisecond
)

// development is a running `tollgate dev`.
type development struct {
	t       *testing.T
	folder  devdata.Folder
	binary  string // what dev and its nodes begin with
	flags   []string
	command *exec.Cmd
	output  *output
	begun   int // how many traffics have been begun
	ended   chan struct{}
	devdata.Running
}

// output collects what a process prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// startCluster runs a new cluster of three and waits until it is ready. It is stopped at the end.
func startCluster(t *testing.T) *development { return startClusterOf(t, program) }

// startClusterOf is startCluster with another build of the program, or with more flags.
func startClusterOf(t *testing.T, binary string, flags ...string) *development {
	t.Helper()
	first := ports.OfTest(t, 9)
	folder := filepath.Join(t.TempDir(), "data")
	d := &development{t: t, binary: binary, folder: devdata.Folder(folder)}
	d.flags = []string{
		"dev", "--data", string(d.folder),
		"--http-port", fmt.Sprint(first), "--ops-port", fmt.Sprint(first + 3),
		"--raft-port", fmt.Sprint(first + 6),
	}
	d.flags = append(d.flags, flags...)
	d.start()
	t.Cleanup(func() {
		d.kill()
		if t.Failed() {
			d.showLogs()
		}
	})
	return d
}

func (d *development) start() {
	d.t.Helper()
	require.NoError(d.t, d.folder.Remove()) // of one that was killed
	d.output = &output{}
	d.command = exec.Command(d.binary, d.flags...)
	d.command.Stdout, d.command.Stderr = d.output, d.output
	require.NoError(d.t, d.command.Start())
	ended := make(chan struct{})
	d.ended = ended
	command := d.command
	go func() {
		_ = command.Wait() // how it ended is in its ProcessState
		close(ended)
	}()
	require.Eventually(d.t, func() bool {
		running, err := d.folder.Load()
		d.Running = running
		return err == nil || d.hasEnded()
	}, patience, 20*time.Millisecond)
	require.False(d.t, d.hasEnded(), "dev ended:\n%s", d.output)
}

func (d *development) hasEnded() bool {
	select {
	case <-d.ended:
		return true
	default:
		return false
	}
}

// stop ends the cluster as Ctrl-C does and returns the exit code.
func (d *development) stop() int {
	d.t.Helper()
	require.NoError(d.t, d.command.Process.Signal(syscall.SIGINT))
	require.Eventually(d.t, d.hasEnded, patience, 20*time.Millisecond, "dev does not stop")
	return d.command.ProcessState.ExitCode()
}

// kill ends everything at once, whatever state it is in: dev, and the holders of the nodes' locks.
func (d *development) kill() {
	if !d.hasEnded() {
		killProcess(d.t, d.command.Process.Pid)
		<-d.ended
	}
	for _, node := range d.Nodes {
		require.Eventually(d.t, func() bool {
			pid, err := devdata.Holder(devdata.NodeLock(d.folder.NodeFolder(node.ID)))
			if err == nil && pid != 0 {
				killProcess(d.t, pid)
			}
			return err == nil && pid == 0
		}, patience, 10*time.Millisecond, "%s does not end", node.ID)
	}
}

func killProcess(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		require.ErrorIs(t, err, syscall.ESRCH)
	}
}

func (d *development) signal(id string, signal syscall.Signal) {
	d.t.Helper()
	pid := d.node(id).PID
	if err := syscall.Kill(pid, signal); err != nil {
		require.ErrorIs(d.t, err, syscall.ESRCH)
		return
	}
	if signal == syscall.SIGSTOP {
		// Its threads go on until one of them is scheduled and sees the signal: on a busy machine
		// long enough to answer a request.
		require.Eventually(d.t, func() bool { return stopped(pid) }, patience, time.Millisecond)
	}
}

// stopped reports whether all threads of a process are stopped; true where that cannot be seen.
func stopped(pid int) bool {
	states, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return true
	}
	for _, file := range states {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		// pid (name) state …, where the name may hold anything
		_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
		if !strings.HasPrefix(rest, "T") {
			return false
		}
	}
	return true
}

func (d *development) showLogs() {
	d.t.Logf("dev:\n%s", d.output)
	for _, node := range d.Nodes {
		text, err := os.ReadFile(d.folder.NodeLog(node.ID))
		if err == nil {
			d.t.Logf("%s:\n%s", node.ID, text[max(0, len(text)-2000):])
		}
	}
}

func (d *development) node(id string) *devdata.Node {
	d.t.Helper()
	for i := range d.Nodes {
		if d.Nodes[i].ID == id {
			return &d.Nodes[i]
		}
	}
	require.Fail(d.t, "no such node", id)
	return nil
}

// restart starts a node again by `dev --node`, in the foreground of another terminal as it were.
func (d *development) restart(id string) { d.restartAs(id, program) }

// restartAs is restart with another build of the program.
func (d *development) restartAs(id, binary string) {
	d.t.Helper()
	command := exec.Command(binary, "dev", "--data", string(d.folder), "--node", id)
	command.Stdout, command.Stderr = d.output, d.output
	require.NoError(d.t, command.Start())
	go func() { _ = command.Wait() }() // reaped, so that its process id can be probed
	require.Eventually(d.t, func() bool {
		running, err := d.folder.Load()
		d.Running = running
		return err == nil && d.node(id).PID == command.Process.Pid
	}, patience, 10*time.Millisecond, "dev.json does not name the new process")
}

// status asks one node what it knows of the cluster.
func (d *development) status(id string) (cluster.Status, error) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	admin, err := api.New([]string{d.node(id).Ops}, d.AdminKey, 1)
	require.NoError(d.t, err)
	defer admin.Close()
	var status cluster.Status
	_, err = admin.Call(ctx, "GET", "/api/v1/admin/cluster", nil, &status)
	return status, err
}

// leader waits until a node says that the billing group has a leader other than the given ones, and
// returns it.
func (d *development) leader(others ...string) string {
	d.t.Helper()
	leader := ""
	require.Eventually(d.t, func() bool {
		for _, node := range d.Nodes {
			status, err := d.status(node.ID)
			if err == nil && len(status.Groups) > 0 && status.Groups[0].Role == "leader" &&
				status.Groups[0].Lease {
				leader = node.ID
				for _, other := range others {
					if leader == other {
						leader = ""
					}
				}
			}
		}
		return leader != ""
	}, patience, 50*time.Millisecond, "no leader")
	return leader
}

// followers are the nodes that answer and do not lead.
func (d *development) followers() []string {
	d.t.Helper()
	leader := d.leader()
	var ids []string
	for _, node := range d.Nodes {
		if node.ID == leader {
			continue
		}
		if _, err := d.status(node.ID); err == nil {
			ids = append(ids, node.ID)
		}
	}
	return ids
}

// ready waits until a node says that it serves.
func (d *development) ready(id string) {
	d.t.Helper()
	require.Eventually(d.t, func() bool {
		status, err := d.status(id)
		return err == nil && status.Ready
	}, patience, 50*time.Millisecond, "%s is not ready", id)
}

// client speaks to one node with a key.
func (d *development) client(id, key string) *api.Client {
	d.t.Helper()
	client, err := api.New([]string{d.node(id).HTTP}, key, 16)
	require.NoError(d.t, err)
	d.t.Cleanup(client.Close)
	return client
}

// once sends a request to a node and returns the answer, whatever its status.
func (d *development) once(id string, r api.Request) (api.Answer, error) {
	d.t.Helper()
	client, err := api.New([]string{d.node(id).HTTP}, d.SandboxKey, 1)
	require.NoError(d.t, err)
	defer client.Close()
	return client.Try(context.Background(), r)
}

// tollgate runs a command of the program and returns what it printed.
func (d *development) tollgate(args ...string) (string, error) {
	d.t.Helper()
	printed, err := exec.Command(program, args...).CombinedOutput()
	return string(printed), err
}
