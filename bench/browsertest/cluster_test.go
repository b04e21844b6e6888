// Package browsertest does what people do with the pages, in a real browser against real node
// processes. See DESIGN.md.
package browsertest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/ports"
	"tollgate/cmd/tollgate/devdata"
	api "tollgate/sdk/go"
)

// programs is the folder of what is built once for all walks.
var programs string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "tollgate-browsertest-")
	if err != nil {
		panic(err)
	}
	defer func() {
		if err := os.RemoveAll(folder); err != nil {
			panic(err)
		}
	}()
	programs = folder
	build := exec.Command("go", "build", "-o", folder+"/", "tollgate/cmd/tollgate",
		"tollgate/examples/agent")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err = build.Run(); err != nil {
		return 1
	}
	return m.Run()
}

func program(name string) string { return filepath.Join(programs, name) }

// patience bounds what a loaded machine may need for anything here.
const patience = 60 * time.Second

// cluster is a running `tollgate dev`.
type cluster struct {
	t       *testing.T
	folder  devdata.Folder
	command *exec.Cmd
	output  *output
	ended   chan struct{}
	devdata.Running
}

// output collects what processes print.
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

// ended adds how a process ended, for who reads why a walk failed.
func (o *output) ended(name string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(&o.text, "%s ended: %v\n", name, err)
}

// startCluster runs a new cluster of three with the sample product and the example agent, as `make
// run` does, and waits until it is ready. It is ended with the test.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	first := ports.OfTest(t, 10)
	c := &cluster{
		t: t, folder: devdata.Folder(filepath.Join(t.TempDir(), "data")), output: &output{},
		ended: make(chan struct{}),
	}
	c.command = exec.Command(program("tollgate"), "dev", "--data", string(c.folder),
		"--http-port", fmt.Sprint(first), "--ops-port", fmt.Sprint(first+3),
		"--raft-port", fmt.Sprint(first+6), "--sample-product", "--sample-port", fmt.Sprint(first+9),
		"--agent", "example="+program("agent"))
	c.command.Stdout, c.command.Stderr = c.output, c.output
	require.NoError(t, c.command.Start())
	go func() {
		c.output.ended("dev", c.command.Wait())
		close(c.ended)
	}()
	t.Cleanup(c.stop)
	require.Eventually(t, func() bool {
		running, err := c.folder.Load()
		c.Running = running
		return err == nil || c.hasEnded()
	}, patience, 20*time.Millisecond, "dev is not ready:\n%s", c.output)
	require.False(t, c.hasEnded(), "dev ended:\n%s", c.output)
	return c
}

func (c *cluster) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// stop ends dev, and whichever process holds a node's lock.
func (c *cluster) stop() {
	if !c.hasEnded() {
		c.kill(c.command.Process.Pid)
		<-c.ended
	}
	for _, node := range c.Nodes {
		require.Eventually(c.t, func() bool {
			pid, err := devdata.Holder(devdata.NodeLock(c.folder.NodeFolder(node.ID)))
			if err == nil && pid != 0 {
				c.kill(pid)
			}
			return err == nil && pid == 0
		}, patience, 10*time.Millisecond, "%s does not end", node.ID)
	}
	if !c.t.Failed() {
		return
	}
	c.t.Logf("dev:\n%s", c.output)
	for _, node := range c.Nodes {
		if text, err := os.ReadFile(c.folder.NodeLog(node.ID)); err == nil {
			c.t.Logf("%s:\n%s", node.ID, text[max(0, len(text)-2000):])
		}
	}
}

// kill is kill -9.
func (c *cluster) kill(pid int) {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		require.ErrorIs(c.t, err, syscall.ESRCH)
	}
}

func (c *cluster) node(id string) devdata.Node {
	c.t.Helper()
	for _, node := range c.Nodes {
		if node.ID == id {
			return node
		}
	}
	require.Fail(c.t, "no such node", id)
	return devdata.Node{}
}

// restart starts a node again by `dev --node`, in the foreground of another terminal as it were.
func (c *cluster) restart(id string) {
	c.t.Helper()
	command := exec.Command(program("tollgate"), "dev", "--data", string(c.folder), "--node", id)
	command.Stdout, command.Stderr = c.output, c.output
	require.NoError(c.t, command.Start())
	go func() { c.output.ended(id, command.Wait()) }() // reaped: its lock's holder can be seen
}

// ops is an address of a node's operations listener.
func (c *cluster) ops(id, path string) string { return "http://" + c.node(id).Ops + path }

// public is an address of a node's public listener.
func (c *cluster) public(id, path string) string { return "http://" + c.node(id).HTTP + path }

// call is a program's request to a listener, with a key; it must be answered with a status. What
// the answer holds is read into v, unless it is nil.
func (c *cluster) call(address, key string, status int, r api.Request) []byte {
	c.t.Helper()
	client, err := api.New([]string{address}, key, 1)
	require.NoError(c.t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := client.Do(ctx, r)
	require.NoError(c.t, err)
	require.Equal(c.t, status, answer.Status, "%s %s: %s", r.Method, r.Path, answer.Body)
	return answer.Body
}
